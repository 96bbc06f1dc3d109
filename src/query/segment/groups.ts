/**
 * Flows put together: each on its own, or by a coarser key. `host` stands for the pair of hosts and `prefix/N` for the pair of
 * prefixes, as in `key`; one side alone is `src`, `dst/24` and the like.
 */
import { UsageError } from "../../base/errors.ts";
import { META_HIGH } from "../../capture/batch.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { communityId, formatFlowKey } from "../../capture/flow/flow-text.ts";
import { Combination, type Contribution, type SharedEpoch } from "../../collect/combine.ts";
import type { KnownFlows } from "../../estimators/estimator.ts";
import type { GroupAnswer } from "./answer.ts";
import { answered } from "./latency.ts";

const IPV6_BIT = META_HIGH.ipv6;
const KEY_WORDS = 10;

interface Group {
  words: Uint32Array;
  flows: Set<string>;
  epochs: Set<number>;
  bytes: number | null;
  combination: Combination;
}

export class FlowGroups {
  readonly #spec: FlowKeySpec;
  readonly #masks: Uint32Array;
  readonly #groups = new Map<string, Group>();

  /** `observed`: the key that the flows were told apart by. */
  constructor(observed: string, group: string | undefined) {
    const own = FlowKeySpec.parse(observed);
    this.#spec =
      group === undefined || group === "flow" ? own : FlowKeySpec.parse(group === "host" ? "hosts" : group);
    const [kept, wanted] = [own.maskWords(), this.#spec.maskWords()];
    if (wanted.some((mask, i) => (mask & ~kept[i]!) !== 0n)) {
      throw new UsageError(
        "bad-question",
        `the flows were observed by ${observed}, which does not contain ${group}`,
        "observe with a finer ‘key’, or group by a coarser one",
        { parameter: "group", value: group },
      );
    }
    this.#masks = Uint32Array.from(wanted.flatMap((m) => [Number(m & 0xffff_ffffn), Number(m >> 32n)]));
  }

  add(flows: KnownFlows, index: number, contribution: Contribution, epoch: SharedEpoch): void {
    const group = this.#group(flows.keyWords.subarray(KEY_WORDS * index, KEY_WORDS * (index + 1)));
    const flow = `${flows.hash[2 * index]}:${flows.hash[2 * index + 1]}`;
    group.flows.add(flow);
    group.epochs.add(epoch.index);
    const bytes = flows.bytes[index]!;
    if (!Number.isNaN(bytes)) group.bytes = (group.bytes ?? 0) + bytes;
    group.combination.add(contribution, epoch, flow);
  }

  /** A flow that was asked for has a place in the answer even where it was never seen. */
  expect(words: Uint32Array): void {
    this.#group(words);
  }

  answers(estimator: string): GroupAnswer[] {
    const out = [...this.#groups.values()].map((group): GroupAnswer => {
      const key = this.#spec.describe(group.words);
      const total = group.combination.result();
      return {
        estimator,
        key,
        text: formatFlowKey(key),
        communityId: this.#spec.isFiveTuple ? communityId(key) : null,
        flows: group.flows.size,
        epochs: group.epochs.size,
        packets: total.packets,
        bytes: group.bytes,
        lost: total.lost,
        coverage: total.answered,
        ...(group.epochs.size === 0
          ? { latency: null, reason: "not-in-sketch: the flow was not seen in these epochs" }
          : answered(total)),
      };
    });
    return out.sort((a, b) => (b.packets ?? 0) - (a.packets ?? 0) || (a.text < b.text ? -1 : 1));
  }

  #group(words: Uint32Array): Group {
    const v6 = (words[1]! & IPV6_BIT) !== 0;
    const m = this.#masks;
    const masked = new Uint32Array(KEY_WORDS);
    // Masks lie as: meta, address pair (IPv4); meta, four halves (IPv6); two words each.
    const from = v6 ? 4 : 0;
    const used = v6 ? KEY_WORDS : 4;
    for (let w = 0; w < used; w++) masked[w] = words[w]! & m[from + w]!;
    const name = masked.join();
    let group = this.#groups.get(name);
    if (!group) {
      const combination = new Combination();
      group = { words: masked, flows: new Set(), epochs: new Set(), bytes: null, combination };
      this.#groups.set(name, group);
    }
    return group;
  }
}
