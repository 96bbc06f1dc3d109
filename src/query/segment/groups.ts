/**
 * Groups flows: each flow by itself, or by a coarser key. `host` means the pair of hosts and `prefix/N` the pair of prefixes, as in a flow key; one
 * side alone is `src`, `dst/24` and the like.
 */
import { UsageError } from "../../base/errors.ts";
import { META_HIGH } from "../../capture/batch.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { communityId, formatFlowKey } from "../../capture/flow/flow-text.ts";
import { Combination, type Contribution, type SharedEpoch } from "../../collect/combine.ts";
import { type FlowEstimate, isNoAnswer, type KnownFlows } from "../../estimators/estimator.ts";
import type { GroupAnswer } from "./answer.ts";
import { wholeAnswer } from "./latency.ts";
import { QuantileMerge } from "./quantile-merge.ts";

const IPV6_BIT = META_HIGH.ipv6;
const KEY_WORDS = 10;

interface Tally {
  words: Uint32Array;
  /** Requested by name. */
  expected: boolean;
  flows: Set<string>;
  epochs: Set<number>;
  answeredEpochs: Set<number>;
  bytes: number | null;
  /** Packets whose bytes are known. */
  weighed: number;
  /** Bounds of the packet count; `high` is null if unbounded. */
  low: number;
  high: number | null;
  combination: Combination;
  quantiles: QuantileMerge;
}

/** A group, identified by its masked key words. */
export interface GroupName {
  words: Uint32Array;
  name: string;
}

export class FlowGroups {
  readonly #spec: FlowKeySpec;
  readonly #kept: Uint32Array;
  readonly #masks: Uint32Array;
  readonly #covers = new Map<string, boolean>();
  readonly #groups = new Map<string, Tally>();

  /** `observed`: the key by which the flows were distinguished. */
  constructor(observed: string, group: string | undefined) {
    const own = FlowKeySpec.parse(observed);
    this.#spec =
      group === undefined || group === "flow"
        ? own
        : FlowKeySpec.parse(group === "host" ? "hosts" : group, "group");
    if (!includesKey(own, this.#spec)) {
      throw new UsageError(
        "bad-question",
        `the flows were observed with key ${observed}, which does not contain ${group}`,
        "observe with a finer ‘key’, or group by a coarser one",
        { parameter: "group", value: group },
      );
    }
    this.#kept = maskWordsOf(own);
    this.#masks = maskWordsOf(this.#spec);
  }

  /** Whether flows of records with this key can be put into these groups. */
  covers(key: string): boolean {
    let covers = this.#covers.get(key);
    if (covers === undefined) {
      covers = includesKey(FlowKeySpec.parse(key), this.#spec);
      this.#covers.set(key, covers);
    }
    return covers;
  }

  /** Returns the group of a flow; null if `names` does not contain the flow. */
  find(flows: KnownFlows, index: number, names: ReadonlySet<string> | null): GroupName | null {
    const words = flows.keyWords.subarray(KEY_WORDS * index, KEY_WORDS * (index + 1));
    if (names && !names.has(maskedWords(words, this.#kept).join())) return null;
    return this.groupOf(words);
  }

  groupOf(words: Uint32Array): GroupName {
    const own = maskedWords(words, this.#masks);
    return { words: own, name: own.join() };
  }

  add(
    group: GroupName,
    flows: KnownFlows,
    estimate: FlowEstimate,
    contribution: Contribution,
    epoch: SharedEpoch,
  ): void {
    const index = estimate.flow;
    const tally = this.#tally(group);
    const flow = flows.keyWords.subarray(KEY_WORDS * index, KEY_WORDS * (index + 1)).join();
    tally.flows.add(flow);
    tally.epochs.add(epoch.index);
    if (!isNoAnswer(contribution.mean)) tally.answeredEpochs.add(epoch.index);
    const listed = flows.bytes[index];
    const bytes = listed === undefined || Number.isNaN(listed) ? estimate.bytes : listed;
    const size = contribution.packets ?? 0;
    if (bytes !== undefined) {
      tally.bytes = (tally.bytes ?? 0) + bytes;
      tally.weighed += size;
    }
    const known = flows.packets[index] ?? Number.NaN;
    const { low, high } = estimate.packetBounds ?? { low: known, high: known };
    tally.low += Number.isNaN(low) ? 0 : low;
    if (tally.high !== null) tally.high = Number.isNaN(high) ? null : tally.high + high;
    tally.combination.add(contribution, epoch, flow);
    tally.quantiles.add(estimate, contribution.packets);
  }

  /** Adds a requested flow to the answer even if it was never seen. */
  expect(words: Uint32Array): void {
    this.#tally(this.groupOf(words)).expected = true;
  }

  answers(estimator: string): GroupAnswer[] {
    const out = [...this.#groups.values()].flatMap((tally): GroupAnswer[] => {
      const key = this.#spec.describe(tally.words);
      const total = tally.combination.result();
      // Nobody sent it: in flight when the sender's capture began, or foreign traffic.
      if (total.packets === 0 && !tally.expected) return [];
      const whole = wholeAnswer(total);
      const quantiles = tally.quantiles.result();
      const answer: GroupAnswer = {
        estimator,
        key,
        text: formatFlowKey(key),
        communityId: this.#spec.isFiveTuple ? communityId(key) : null,
        flows: tally.flows.size,
        epochs: tally.epochs.size,
        packets: total.packets,
        packetsLow: tally.low,
        packetsHigh: tally.high,
        bytes: bytesOf(tally, total.packets),
        lost: total.lost,
        lostLow: total.lostLow,
        coverage: total.answered,
        ...whole,
        answered: { ...whole.answered, epochs: tally.answeredEpochs.size },
        ...(tally.epochs.size === 0
          ? { latency: null, reason: "not-in-sketch: the flow was not seen in these epochs" }
          : {}),
        ...(quantiles ? { quantiles } : {}),
      };
      return [answer];
    });
    return out.sort((a, b) => (b.packets ?? 0) - (a.packets ?? 0) || (a.text < b.text ? -1 : 1));
  }

  #tally({ words, name }: GroupName): Tally {
    let tally = this.#groups.get(name);
    if (!tally) {
      tally = {
        words,
        expected: false,
        flows: new Set(),
        epochs: new Set(),
        answeredEpochs: new Set(),
        bytes: null,
        weighed: 0,
        low: 0,
        high: 0,
        combination: new Combination(),
        quantiles: new QuantileMerge(),
      };
      this.#groups.set(name, tally);
    }
    return tally;
  }
}

/** Extrapolates bytes to packets whose bytes are unknown, if those are the minority. */
function bytesOf({ bytes, weighed }: Tally, packets: number | null): number | null {
  if (bytes === null || packets === null || weighed >= packets) return bytes;
  return 2 * weighed >= packets ? Math.round((bytes * packets) / weighed) : null;
}

/** Whether the finer key contains every field of the coarser one. */
export function includesKey(finer: FlowKeySpec, coarser: FlowKeySpec): boolean {
  const [kept, wanted] = [finer.maskWords(), coarser.maskWords()];
  return wanted.every((mask, i) => (mask & ~(kept[i] ?? 0n)) === 0n);
}

export function maskWordsOf(spec: FlowKeySpec): Uint32Array {
  return Uint32Array.from(spec.maskWords().flatMap((m) => [Number(m & 0xffff_ffffn), Number(m >> 32n)]));
}

export function maskedWords(words: Uint32Array, masks: Uint32Array): Uint32Array {
  const v6 = ((words[1] ?? 0) & IPV6_BIT) !== 0;
  const out = new Uint32Array(KEY_WORDS);
  // Layout of the masks: meta and address pair (IPv4); meta and four halves (IPv6); two words each.
  const from = v6 ? 4 : 0;
  const used = v6 ? KEY_WORDS : 4;
  for (let w = 0; w < used; w++) out[w] = words[w]! & masks[from + w]!;
  return out;
}

/** Whether the text is a valid key. Records with an invalid key are refused when read. */
export function isFlowKey(text: string): boolean {
  try {
    FlowKeySpec.parse(text);
    return true;
  } catch {
    return false;
  }
}
