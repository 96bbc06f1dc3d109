/**
 * Exact one-way delay: the same packets found at both ends of a segment by their digest, within a window, first in, first out
 * among equals. It is the truth that every sketch is judged by. Memory is bounded by rate x window (waiting packets) and by the number of
 * flows and of distinct (flow, log bucket) pairs. Fails where a device rewrites what the digest covers (NAT, segment
 * merging): such packets are lost and appear. The work is done in kernels/match.ts; this class reads its records.
 */
import type { Kernels } from "../../base/kernels.ts";
import { LogHistogram } from "../../base/log-histogram.ts";
import type { PacketBatch } from "../../capture/batch.ts";

export interface MatcherOptions {
  windowNs: number;
  /** Interval length and start (ns on the matcher's time axis). */
  epochNs: number;
  epochStartNs: number;
  /** Flows whose first difference is at least this go from BEFORE to AFTER; -Infinity: all do. */
  thresholdNs: number;
  /** Clock correction: delay = difference - offsetNs - slope * (send - pivotNs). */
  correction: { offsetNs: number; slope: number; pivotNs: number };
  /** Time before the first packet of either side. */
  startNs: number;
  /** How far one side may be read ahead of the other. */
  slackNs: number;
  rows: number;
  /** The seed that flow keys were hashed with. */
  seed: bigint;
}

export interface DelaySums {
  count: number;
  meanNs: number;
  stdevNs: number;
  minNs: number;
  maxNs: number;
}

export interface FlowResult {
  id: number;
  sent: number;
  received: number;
  matched: number;
  lost: number;
  appeared: number;
  duplicates: number;
  headBefore: number;
  tailBefore: number;
  headAfter: number;
  tailAfter: number;
  direction: 0 | 1 | 2;
  reordered: number;
  negative: number;
  bytes: number;
  delay: DelaySums | null;
  jitterNs: number | null;
}

export interface TotalResult {
  matched: number;
  reordered: number;
  extentMax: number;
  extentSum: number;
  delay: DelaySums | null;
  jitterNs: number | null;
  ttl: { lower: number; equal: number; higher: number };
  negative: number;
  histogram: LogHistogram;
}

export interface IntervalResult {
  matched: number;
  lost: number;
  delay: DelaySums | null;
}

/** Buckets and counts of one owner (flow or interval), ascending. */
export interface BucketRun {
  buckets: Int32Array;
  counts: Uint32Array;
}

// Byte offsets in a flow record (kernels/flows.ts and match.ts).
const FLOW = { sent: 48, stat: 104, jitter: 152, bytes: 160 } as const;
const FLOW_STAT_BYTES = 120;
const TOTAL = { stat: 24, jitter: 64, jitterCount: 72, ttl: 80, negative: 92, histogram: 128 } as const;
const INTERVAL_BYTES = 48;
const HISTOGRAM = 16_384;
const HISTOGRAM_BIAS = 8192;

export class ExactMatcher {
  readonly #kernels: Kernels;
  readonly #match: number;
  readonly #flows: number;
  readonly #cells: number;
  readonly #intervalCells: number;
  readonly #ids: [number, number];
  readonly #rows: number;
  readonly #seed: bigint;

  constructor(kernels: Kernels, options: MatcherOptions) {
    this.#kernels = kernels;
    this.#rows = options.rows;
    this.#seed = options.seed;
    const { call } = kernels;
    this.#flows = call.flowsNew!(FLOW_STAT_BYTES) >>> 0;
    this.#cells = call.cellsNew!() >>> 0;
    this.#intervalCells = call.cellsNew!() >>> 0;
    this.#match = call.matchNew!(this.#flows, this.#cells, this.#intervalCells, options.rows) >>> 0;
    this.#ids = [kernels.alloc(options.rows * 4), kernels.alloc(options.rows * 4)];
    const { offsetNs, slope, pivotNs } = options.correction;
    call.matchConfigure!(
      this.#match,
      options.windowNs,
      options.epochNs,
      options.epochStartNs,
      options.thresholdNs,
      offsetNs,
      slope,
      pivotNs,
      options.startNs,
      options.slackNs,
    );
  }

  /** Finds the flows of a batch's rows; to be called once per batch and side, before `take`. */
  assign(side: 0 | 1, batch: PacketBatch): void {
    this.#kernels.call.flowsAssign!(this.#flows, batch.address, this.#ids[side]);
  }

  /** Takes rows from `from` on while their time + shift is at most `untilNs`; returns the first row not taken. */
  take(side: 0 | 1, batch: PacketBatch, from: number, untilNs: number, shiftNs: number): number {
    return (
      this.#kernels.call.matchRows!(
        this.#match,
        batch.address,
        this.#ids[side],
        side,
        from,
        untilNs,
        shiftNs,
      ) >>> 0
    );
  }

  /** Pairs of one direction that the last `take` found: times at BEFORE and differences (after - before), uncorrected. */
  pairs(direction: 1 | 2): { sendNs: Float64Array; diffNs: Float64Array; count: number } {
    const { call, f64 } = this.#kernels;
    const at = (call.matchPairs!(this.#match, direction) >>> 0) >>> 3;
    const count = call.matchPairCount!(this.#match, direction) >>> 0;
    return {
      sendNs: f64.subarray(at, at + count),
      diffNs: f64.subarray(at + this.#rows, at + this.#rows + count),
      count,
    };
  }

  /** One side has no more packets. */
  end(side: 0 | 1): void {
    this.#kernels.call.matchEnd!(this.#match, side);
  }

  /** Judges everything that still waits. */
  finish(): void {
    this.#kernels.call.matchFinish!(this.#match);
  }

  get flowCount(): number {
    return this.#kernels.call.flowsCount!(this.#flows) >>> 0;
  }

  /** Bytes that the waiting packets take. */
  get tableBytes(): number {
    return this.#kernels.call.matchTableBytes!(this.#match);
  }

  get ambiguous(): number {
    return this.#kernels.call.matchAmbiguous!(this.#match) >>> 0;
  }

  #sums(address: number, count: number): DelaySums | null {
    if (count === 0) return null;
    const f64 = this.#kernels.f64;
    const at = address >>> 3;
    const first = f64[at]!;
    const mean = f64[at + 1]! / count;
    const variance = Math.max(0, f64[at + 2]! / count - mean * mean);
    return {
      count,
      meanNs: first + mean,
      stdevNs: Math.sqrt(variance),
      minNs: f64[at + 3]!,
      maxNs: f64[at + 4]!,
    };
  }

  /** Address of a flow's key in kernel memory as words for FlowKeySpec.describe: ten u32 from `at`. */
  keyWords(id: number): { words: Uint32Array; at: number } {
    const record = this.#kernels.call.flowsRecord!(this.#flows, id) >>> 0;
    return { words: this.#kernels.u32, at: (record + 8) >>> 2 };
  }

  flow(id: number): FlowResult {
    const record = this.#kernels.call.flowsRecord!(this.#flows, id) >>> 0;
    const { u32, f64 } = this.#kernels;
    const w = (i: number) => u32[((record + FLOW.sent) >>> 2) + i]!;
    const matched = w(2);
    return {
      id,
      sent: w(0),
      received: w(1),
      matched,
      lost: w(3),
      appeared: w(4),
      duplicates: w(5),
      headBefore: w(6),
      tailBefore: w(7),
      headAfter: w(8),
      tailAfter: w(9),
      direction: w(10) as 0 | 1 | 2,
      reordered: w(12),
      negative: w(13),
      bytes: f64[(record + FLOW.bytes) >>> 3]!,
      delay: this.#sums(record + FLOW.stat, matched),
      jitterNs: matched > 1 ? f64[(record + FLOW.jitter) >>> 3]! / (matched - 1) : null,
    };
  }

  /** The flow with addresses and ports exchanged, or -1. */
  reverseOf(id: number): number {
    const scratch = this.#kernels.alloc(64);
    const found = this.#kernels.call.flowsReverse!(this.#flows, id, this.#seed, scratch) | 0;
    this.#kernels.free(scratch);
    return found;
  }

  total(direction: 1 | 2): TotalResult {
    const at = this.#kernels.call.matchTotal!(this.#match, direction) >>> 0;
    const { u32, f64 } = this.#kernels;
    const w = (offset: number) => u32[(at + offset) >>> 2]!;
    const matched = w(0);
    const histogram = new LogHistogram();
    const start = (at + TOTAL.histogram) >>> 2;
    for (let i = 0; i < HISTOGRAM; i++) {
      const n = u32[start + i]!;
      if (n > 0) histogram.addBucket(i - HISTOGRAM_BIAS, n);
    }
    const jitterCount = f64[(at + TOTAL.jitterCount) >>> 3]!;
    return {
      matched,
      reordered: w(4),
      extentMax: w(8),
      extentSum: f64[(at + 16) >>> 3]!,
      delay: this.#sums(at + TOTAL.stat, matched),
      jitterNs: jitterCount > 0 ? f64[(at + TOTAL.jitter) >>> 3]! / jitterCount : null,
      ttl: { lower: w(TOTAL.ttl), equal: w(TOTAL.ttl + 4), higher: w(TOTAL.ttl + 8) },
      negative: w(TOTAL.negative),
      histogram,
    };
  }

  intervals(): IntervalResult[] {
    const { call } = this.#kernels;
    const at = call.matchIntervals!(this.#match) >>> 0;
    const n = call.matchIntervalCount!(this.#match) >>> 0;
    const { u32 } = this.#kernels;
    const out: IntervalResult[] = [];
    for (let i = 0; i < n; i++) {
      const record = at + i * INTERVAL_BYTES;
      const matched = u32[record >>> 2]!;
      out.push({ matched, lost: u32[(record >>> 2) + 1]!, delay: this.#sums(record + 8, matched) });
    }
    return out;
  }

  /** Log buckets of all flows (those with more than three delays) or all intervals, by owner. */
  bucketRuns(of: "flows" | "intervals"): (owner: number) => BucketRun {
    const kernels = this.#kernels;
    const cells = of === "flows" ? this.#cells : this.#intervalCells;
    const owners = of === "flows" ? this.flowCount : kernels.call.matchIntervalCount!(this.#match) >>> 0;
    const used = kernels.call.cellsUsed!(cells) >>> 0;
    const offsets = kernels.alloc((owners + 2) * 4);
    kernels.u32.fill(0, offsets >>> 2, (offsets >>> 2) + owners + 2);
    const out = kernels.alloc(Math.max(8, used * 8));
    kernels.call.cellsGroup!(cells, owners, offsets, out);
    const starts = kernels.u32.slice(offsets >>> 2, (offsets >>> 2) + owners + 1);
    const pairs = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * used);
    kernels.free(offsets);
    kernels.free(out);
    return (owner) => {
      const from = starts[owner]!;
      const to = starts[owner + 1]!;
      const order = Array.from({ length: to - from }, (_, i) => from + i);
      const bucket = (i: number) => pairs[2 * i]! | 0;
      order.sort((x, y) => bucket(x) - bucket(y));
      return {
        buckets: Int32Array.from(order, bucket),
        counts: Uint32Array.from(order, (i) => pairs[2 * i + 1]!),
      };
    };
  }

  /** Gives the memory back; the matcher is not to be used any more. */
  free(): void {
    const { call } = this.#kernels;
    call.matchFree!(this.#match);
    call.flowsFree!(this.#flows);
    call.cellsFree!(this.#cells);
    call.cellsFree!(this.#intervalCells);
    for (const ids of this.#ids) this.#kernels.free(ids);
  }
}
