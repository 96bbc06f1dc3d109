/** Aggregates the answers of packets by group: mean, deviation, quantiles, slowest packets, and the numbers found, guessed and missing. */

import { UsageError } from "../../base/errors.ts";
import { required } from "../../base/lists.ts";
import { LogHistogram } from "../../base/math/log-histogram.ts";
import { META_HIGH } from "../../capture/batch.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { formatFlowKey } from "../../capture/flow/flow-text.ts";
import type { PacketAnswers } from "../../estimators/estimator.ts";
import { MULTI_MATCH, NO_MATCH } from "../../estimators/packet-answers.ts";
import type { PacketGroup, PacketLatency, WorstPacket } from "./answer.ts";
import { LargestKept } from "./largest-kept.ts";
import type { Grouping } from "./question.ts";

const IPV6_BIT = META_HIGH.ipv6;

/** A packet that was asked for; its answer comes separately. */
export interface AskedPacket {
  /** Key words of its flow, masked as observed. Null if only its digest is known. */
  words: Uint32Array | null;
  /** Its name in the list of slowest packets. */
  name: () => string;
  timeNs: bigint;
}

class Tally {
  packets = 0;
  matched = 0;
  multi = 0;
  #sum = 0;
  #squares = 0;
  #low = 0;
  #high = 0;
  #min = Infinity;
  #max = -Infinity;
  readonly #histogram = new LogHistogram();
  readonly #worst: LargestKept<WorstPacket>;
  readonly #keep: number;

  constructor(keep: number) {
    this.#keep = keep;
    this.#worst = new LargestKept(keep);
  }

  add(answers: PacketAnswers, i: number, packet: AskedPacket): void {
    if (!this.#count(answers, i, 1) || this.#keep === 0) return;
    const delayNs = answers.valueNs[i]!;
    this.#worst.add(delayNs, () => ({
      packet: packet.name(),
      timeNs: packet.timeNs.toString(),
      delayNs,
      lowNs: answers.lowNs[i]!,
      highNs: answers.highNs[i]!,
      guess: answers.kind[i] === MULTI_MATCH,
    }));
  }

  /** Adds all packets of an epoch that observed `seen` packets: those beyond the answers have no answer. None of them has a name. */
  addEvery(answers: PacketAnswers, seen: number): void {
    let known = 0;
    for (let i = 0; i < answers.count; i++) {
      this.#count(answers, i, answers.groupPackets[i]!);
      known += answers.groupPackets[i]!;
    }
    this.packets += Math.max(0, seen - known);
  }

  /** Counts an answer for `packets` packets. Returns false if there is none. */
  #count(answers: PacketAnswers, i: number, packets: number): boolean {
    this.packets += packets;
    const kind = answers.kind[i]!;
    if (kind === NO_MATCH) return false;
    if (kind === MULTI_MATCH) this.multi += packets;
    else this.matched += packets;
    const value = answers.valueNs[i]!;
    this.#sum += packets * value;
    this.#squares += packets * (value * value + answers.varianceNs2[i]!);
    this.#low += packets * answers.lowNs[i]!;
    this.#high += packets * answers.highNs[i]!;
    this.#min = Math.min(this.#min, value);
    this.#max = Math.max(this.#max, value);
    this.#histogram.add(value, packets);
    return true;
  }

  /** The slowest packets, slowest first. */
  get worst(): WorstPacket[] {
    return this.#worst.sorted();
  }

  latency(): PacketLatency | null {
    const n = this.matched + this.multi;
    if (n === 0) return null;
    const mean = this.#sum / n;
    const q = (share: number) =>
      required(this.#histogram.quantile(share, this.#min, this.#max), "a quantile of a group with packets");
    return {
      meanNs: mean,
      lowNs: this.#low / n,
      highNs: this.#high / n,
      stdevNs: Math.sqrt(Math.max(0, this.#squares / n - mean * mean)),
      minNs: this.#min,
      p50Ns: q(0.5),
      p90Ns: q(0.9),
      p99Ns: q(0.99),
      maxNs: this.#max,
    };
  }
}

interface Group {
  words: Uint32Array | null;
  name: string;
  tally: Tally;
}

export class PacketGroups {
  readonly total: Tally;
  readonly #grouping: Grouping;
  readonly #spec: FlowKeySpec;
  readonly #masks: Uint32Array;
  readonly #keep: number;
  readonly #groups = new Map<string, Group>();
  /** Packets of each flow so far, to split flows into sub-flows. */
  readonly #nth = new Map<string, number>();

  /** `observed`: key by which flows were distinguished; `keep`: number of slowest packets to keep. */
  constructor(observed: string, grouping: Grouping, keep: number) {
    const own = FlowKeySpec.parse(observed);
    this.#grouping = grouping;
    this.#spec = grouping.key === undefined ? own : FlowKeySpec.parse(grouping.key, "group");
    const [kept, wanted] = [own.maskWords(), this.#spec.maskWords()];
    if (wanted.some((mask, i) => (mask & ~(kept[i] ?? 0n)) !== 0n)) {
      throw new UsageError(
        "bad-question",
        `the flows were observed with key ${observed}, which does not contain ${grouping.key}`,
        "observe with a finer ‘key’, or group by a coarser one",
        { parameter: "group", value: grouping.key },
      );
    }
    this.#masks = Uint32Array.from(wanted.flatMap((m) => [Number(m & 0xffff_ffffn), Number(m >> 32n)]));
    this.#keep = keep;
    this.total = new Tally(keep);
  }

  add(answers: PacketAnswers, i: number, packet: AskedPacket): void {
    this.total.add(answers, i, packet);
    if (this.#grouping.kind !== "all") this.#group(packet).tally.add(answers, i, packet);
  }

  /** Adds a requested flow to the answer even if no packet of it is known. */
  expect(words: Uint32Array): void {
    if (this.#grouping.kind === "key") this.#group({ words, name: () => "", timeNs: 0n });
  }

  results(top: number | undefined): PacketGroup[] {
    const groups =
      this.#grouping.kind === "all"
        ? [{ words: null, name: "all packets", tally: this.total }]
        : [...this.#groups.values()];
    // If each packet is a group, the slowest come first; otherwise the largest groups.
    const order =
      this.#grouping.kind === "packet"
        ? (g: Group) => -(g.tally.worst[0]?.delayNs ?? -Infinity)
        : (g: Group) => -g.tally.packets;
    const sorted = groups.map((g) => [order(g), g] as const).sort((a, b) => a[0] - b[0]);
    return sorted.slice(0, top).map(([, group]) => this.#result(group));
  }

  /** Returns the group of a flow. */
  resultOf(words: Uint32Array): PacketGroup {
    return this.#result(this.#group({ words, name: () => "", timeNs: 0n }));
  }

  #result({ words, name, tally }: Group): PacketGroup {
    const { packets, matched, multi } = tally;
    const key = words ? this.#spec.describe(words) : null;
    const found = matched + multi;
    const latency = tally.latency();
    return {
      key,
      text: name !== "" ? name : key ? formatFlowKey(key) : "",
      packets,
      matched,
      multi,
      missing: packets - found,
      coverage: packets === 0 ? 0 : found / packets,
      guesses: found === 0 ? 0 : multi / found,
      latency,
      ...(latency
        ? {}
        : {
            reason:
              packets === 0
                ? "no-packets: none of its packets is listed"
                : "not-in-sketch: none of its packets was found",
          }),
      lowNs: latency?.lowNs ?? null,
      highNs: latency?.highNs ?? null,
      worst: this.#keep === 0 || this.#grouping.kind === "packet" ? [] : tally.worst,
    };
  }

  #group(packet: AskedPacket): Group {
    const { kind, length } = this.#grouping;
    const words = packet.words ? this.#mask(packet.words) : null;
    let id = words ? words.join() : packet.name();
    let name = words ? "" : id;
    if (kind === "packet") {
      name = packet.name();
      id = name;
    } else if (kind === "subflow") {
      const nth = this.#nth.get(id) ?? 0;
      this.#nth.set(id, nth + 1);
      const part = Math.floor(nth / length);
      if (words)
        name = `${formatFlowKey(this.#spec.describe(words))} packets ${part * length + 1}-${(part + 1) * length}`;
      id = `${id}/${part}`;
    }
    let group = this.#groups.get(id);
    if (!group) {
      group = { words, name, tally: new Tally(kind === "packet" ? 1 : this.#keep) };
      this.#groups.set(id, group);
    }
    return group;
  }

  #mask(words: Uint32Array): Uint32Array {
    const m = this.#masks;
    const v6 = (words[1]! & IPV6_BIT) !== 0;
    const out = new Uint32Array(10);
    if (!v6) for (let i = 0; i < 4; i++) out[i] = words[i]! & m[i]!;
    else for (let i = 0; i < 10; i++) out[i] = words[i]! & m[4 + i]!;
    return out;
  }
}
