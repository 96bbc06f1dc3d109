/** The packets of a comparison one by one, in order of their first timestamp: send and receive time, delay, outcome. */
import type { FlowKey, FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { FATE, type PacketLog } from "../match/packet-log.ts";
import type { Way } from "./segment.ts";

/**
 * `not-captured`: the other capture was not running when the packet passed. `mirrored`: a second copy of a packet in one capture. `link-local`: it never leaves
 * its link. `part`: a fragment of a packet with a row of its own.
 */
export const OUTCOMES = [
  "delivered",
  "lost",
  "appeared",
  "duplicate",
  "mirrored",
  "link-local",
  "not-captured",
  "part",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface PacketReport {
  /** Index of the packet in the log, for `frames`. */
  id: number;
  /** Send time, ns since 1970; null if it was not seen at the sending point. */
  sentNs: bigint | null;
  receivedNs: bigint | null;
  /** Null unless it was delivered. */
  delayNs: number | null;
  direction: "forward" | "reverse";
  outcome: Outcome;
  /** Packets on the wire that the row stands for: 1, more if segments were merged at both points, 0 if another row counts it. */
  packets: number;
  flow: number;
}

export interface PacketSource {
  log: PacketLog;
  matcher: ExactMatcher;
  key: FlowKeySpec;
  forward: Way;
  reverse: Way | null;
  twoWay: boolean;
  /** ns since 1970 of the matcher's time 0, and the alignment subtracted from AFTER's times. */
  originNs: bigint;
  alignNs: number;
}

const KNOWN_OUTCOMES: ReadonlyMap<number, Outcome> = new Map([
  [FATE.merged, "delivered"],
  [FATE.part, "part"],
  [FATE.duplicate, "duplicate"],
  [FATE.mirrored, "mirrored"],
  [FATE.linkLocal, "link-local"],
]);

/** Valid until the comparison is freed. */
export class PacketTable {
  readonly log: PacketLog;
  readonly #source: PacketSource;
  readonly #names = new Map<number, string>();
  #order: Uint32Array | null = null;

  constructor(source: PacketSource) {
    this.log = source.log;
    this.#source = source;
  }

  get length(): number {
    return this.log.count;
  }

  *[Symbol.iterator](): Generator<PacketReport> {
    this.#order ??= this.#byTime();
    for (const id of this.#order) yield this.packet(id);
  }

  packet(id: number): PacketReport {
    const { log } = this;
    const flow = log.flow[id] ?? 0;
    const direction = this.direction(id);
    const before = absolute(this.seenNs("before", id), this.originNs);
    const after = absolute(this.seenNs("after", id), this.originNs);
    const [sentNs, receivedNs] = direction === "forward" ? [before, after] : [after, before];
    return {
      id,
      sentNs,
      receivedNs,
      delayNs: this.delayNs(id),
      direction,
      outcome: this.outcome(id),
      packets: log.packets(id),
      flow,
    };
  }

  /** Timestamp of a packet in one of the captures, in whole ns since `originNs`, as captured; NaN if it was not seen there. */
  seenNs(side: "before" | "after", id: number): number {
    if (side === "before") return Math.round(this.log.beforeNs[id] ?? Number.NaN);
    return Math.round((this.log.afterNs[id] ?? Number.NaN) + this.#source.alignNs);
  }

  get originNs(): bigint {
    return this.#source.originNs;
  }

  keyWords(id: number): { words: Uint32Array; at: number } {
    return this.#source.matcher.keyWords(this.log.flow[id] ?? 0);
  }

  direction(id: number): "forward" | "reverse" {
    const { matcher, twoWay } = this.#source;
    return twoWay && matcher.flows.direction(this.log.flow[id] ?? 0) === 2 ? "reverse" : "forward";
  }

  /** Null unless it was delivered. */
  delayNs(id: number): number | null {
    const delay = this.log.delayNs[id];
    if (delay === undefined || Number.isNaN(delay)) return null;
    return delay;
  }

  outcome(id: number): Outcome {
    const fate = this.log.fate[id];
    // The delay of one among several identical packets is unknown.
    if (fate === FATE.forward || fate === FATE.reverse || fate === FATE.ambiguous) return "delivered";
    const known = KNOWN_OUTCOMES.get(fate ?? 0);
    if (known !== undefined) return known;
    const forward = this.direction(id) === "forward";
    const { real } = (forward ? null : this.#source.reverse) ?? this.#source.forward;
    if (
      (fate === FATE.headBefore && real.headBefore) ||
      (fate === FATE.tailBefore && real.tailBefore) ||
      (fate === FATE.headAfter && real.headAfter) ||
      (fate === FATE.tailAfter && real.tailAfter)
    )
      return "not-captured";
    const onlyBefore = fate === FATE.onlyBefore || fate === FATE.headBefore || fate === FATE.tailBefore;
    // In the reverse direction, a packet seen only at BEFORE has appeared there.
    return onlyBefore === forward ? "lost" : "appeared";
  }

  key(flow: number): FlowKey {
    const { words, at } = this.#source.matcher.keyWords(flow);
    return this.#source.key.describe(words, at);
  }

  flowText(flow: number): string {
    let text = this.#names.get(flow);
    if (text === undefined) {
      text = formatFlowKey(this.key(flow));
      this.#names.set(flow, text);
    }
    return text;
  }

  /** Returns the slowest packets and the latest lost ones, n of each. */
  worst(n: number): { slowest: PacketReport[]; lost: PacketReport[] } {
    const slowest = new Ranked(n, (id) => this.delayNs(id));
    const lost = new Ranked(n, (id) => (this.outcome(id) === "lost" ? this.#firstSeen(id) : null));
    for (let id = 0; id < this.length; id++) {
      slowest.offer(id);
      lost.offer(id);
    }
    const reports = (ids: number[]) => ids.map((id) => this.packet(id));
    return { slowest: reports(slowest.ids()), lost: reports(lost.ids()) };
  }

  #firstSeen(id: number): number {
    const [before = Number.NaN, after = Number.NaN] = [this.log.beforeNs[id], this.log.afterNs[id]];
    return Number.isNaN(before) ? after : Number.isNaN(after) ? before : Math.min(before, after);
  }

  #byTime(): Uint32Array {
    const times = Float64Array.from({ length: this.length }, (_, id) => this.#firstSeen(id));
    return Uint32Array.from({ length: this.length }, (_, id) => id).sort((a, b) => times[a]! - times[b]!);
  }
}

function absolute(ns: number, originNs: bigint): bigint | null {
  return Number.isNaN(ns) ? null : originNs + BigInt(ns);
}

/** Keeps the n highest values. */
class Ranked {
  readonly #n: number;
  readonly #value: (id: number) => number | null;
  #kept: { id: number; value: number }[] = [];
  #floor = Number.NEGATIVE_INFINITY;

  constructor(n: number, value: (id: number) => number | null) {
    this.#n = n;
    this.#value = value;
  }

  offer(id: number): void {
    const value = this.#value(id);
    if (value === null || value <= this.#floor || this.#n === 0) return;
    this.#kept.push({ id, value });
    if (this.#kept.length >= 2 * this.#n + 64) this.#cut();
  }

  ids(): number[] {
    this.#cut();
    return this.#kept.map((k) => k.id);
  }

  #cut(): void {
    this.#kept.sort((a, b) => b.value - a.value);
    this.#kept.length = Math.min(this.#kept.length, this.#n);
    if (this.#kept.length === this.#n) this.#floor = this.#kept.at(-1)?.value ?? this.#floor;
  }
}
