/**
 * Exact one-way delay: the same packets found at both ends of a segment by their digest, within a window, first in, first out
 * among equals. It is the truth by which every sketch is judged. Memory is bounded by rate x window (waiting packets) and by the number of
 * flows and of distinct (flow, log bucket) pairs. It fails if a device rewrites what the digest covers (NAT, segment
 * merging): such packets count as lost and appeared. kernels/match/match.ts does the work; this class reads its records.
 */
import {
  AloneLayout,
  IntervalBytes,
  IntervalLayout,
  MatchLayout,
  matchStateConstants,
  residueConstants,
  TotalBytes,
  TotalLayout,
} from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import { LogHistogram } from "../base/math/log-histogram.ts";
import type { PacketBatch } from "../capture/batch.ts";
import type { KeyRuns } from "../capture/flow/key-runs.ts";
import { type BucketRun, type FlowResult, FlowResults } from "./flow-results.ts";
import { bucketBase, configure } from "./match-settings.ts";
import type {
  AlonePacket,
  IntervalResult,
  KnownWays,
  MatchedPairs,
  MatcherOptions,
  OpeningPair,
  TotalResult,
} from "./match-types.ts";
import type { PacketLog } from "./packet-log.ts";

const HISTOGRAM_BIAS = matchStateConstants.HISTOGRAM_MIDDLE;
/** A key, and two words beside it. */
const SCRATCH_BYTES = 48;
const KEY_WORDS = 10;
/** Above every count of a cell. */
const CELL_COUNTS = 2 ** 32;
/** More show nothing new of the clocks. */
const MAX_ADDED = 1 << 16;

export class ExactMatcher {
  readonly flows: FlowResults;
  /** Keys differ at the two points. */
  readonly nat: boolean;
  readonly #kernels: Kernels;
  readonly #match: number;
  readonly #cells: number;
  readonly #intervalCells: number;
  readonly #stats: number;
  readonly #scratch: number;
  readonly #rows: number;
  readonly #packets: PacketLog | null;
  /** What buckets of forward delays are above. */
  readonly #baseNs: number;
  readonly #added: { flow: number; beforeNs: number; afterNs: number }[] = [];

  constructor(kernels: Kernels, options: MatcherOptions) {
    this.#kernels = kernels;
    this.#rows = options.rows;
    this.nat = options.nat ?? false;
    const { call } = kernels;
    this.#cells = call.cellsNew() >>> 0;
    this.#intervalCells = call.cellsNew() >>> 0;
    this.#stats = call.statsNew(this.#cells, options.seed) >>> 0;
    this.#match = call.matchNew(this.#stats, this.#intervalCells, options.rows) >>> 0;
    this.#baseNs = bucketBase(options);
    call.matchBase(this.#match, this.#baseNs);
    this.flows = new FlowResults(kernels, this.#stats, this.#cells, this.#baseNs);
    this.#scratch = kernels.alloc(SCRATCH_BYTES);
    this.#packets = options.packets ?? null;
    if (this.#packets) call.matchNoteFates(this.#match);
    configure(kernels, this.#match, options);
  }

  #note(): void {
    const { call } = this.#kernels;
    const count = call.matchTakeFates(this.#match) >>> 0;
    this.#packets?.take(this.#kernels, call.matchFates(this.#match) >>> 0, count);
  }

  /** From now on one side may be read ahead of the other by so much. */
  allowSlack(slackNs: number): void {
    this.#kernels.writeF64(this.#match + MatchLayout.slack, slackNs);
  }

  /** Takes the rows of a batch, with their keys in `runs`, from `from` on; `shiftNs` is added to their times. */
  takeRows(side: 0 | 1, batch: PacketBatch, runs: KeyRuns, from: number, shiftNs: number): void {
    const { call } = this.#kernels;
    call.matchRows(this.#match, batch.address, runs.address, runs.code, side, from, shiftNs);
    if (this.#packets) this.#note();
  }

  /**
   * Pairs of one direction that the last `takeRows` found: addresses of their times at BEFORE and of the differences (after - before) as f64, the latter
   * uncorrected but for `addNs`, which is added once.
   */
  pairs(direction: 1 | 2, addNs: number): MatchedPairs {
    const { call, f64 } = this.#kernels;
    const count = call.matchPairCount(this.#match, direction) >>> 0;
    const sends = call.matchPairs(this.#match, direction) >>> 0;
    const differences = sends + matchStateConstants.PAIR_RAW * this.#rows;
    if (addNs !== 0) for (let i = 0; i < count; i++) f64[(differences >>> 3) + i]! += addNs;
    return { sends, differences, flows: sends + matchStateConstants.PAIR_FLOW * this.#rows, count };
  }

  /** One side has no more packets; `lastNs`: its last time, null where it had none. */
  end(side: 0 | 1, lastNs: number | null = null): void {
    this.#kernels.call.matchEnd(this.#match, side, lastNs ?? Number.NEGATIVE_INFINITY);
  }

  /** Judges everything that still waits. */
  finish(): void {
    this.#kernels.call.matchFinish(this.#match);
    if (this.#packets) this.#note();
  }

  /** Pairs of packets that look like others, found when all were there, but for those that are ambiguous. */
  get lateCount(): number {
    return this.#kernels.call.matchLateCount(this.#match) >>> 0;
  }

  /** These, or those that no other packet looks like, some thousand at a time: each time both directions, valid until the next. */
  *latePairs(addNs: number, which: "all" | "alone"): Generator<readonly [MatchedPairs, MatchedPairs]> {
    const count = this.lateCount;
    for (let from = 0; from < count; ) {
      from = this.#kernels.call.matchTakeLate(this.#match, from, which === "all" ? 1 : 0) >>> 0;
      yield [this.pairs(1, addNs), this.pairs(2, addNs)];
    }
  }

  get flowCount(): number {
    return this.flows.count;
  }

  /** Bytes that the waiting packets take. */
  get tableBytes(): number {
    return this.#kernels.call.matchTableBytes(this.#match);
  }

  /** Packets without a partner, but for those far outside the other capture (the first four million). */
  *alone(): Generator<AlonePacket> {
    const kernels = this.#kernels;
    const n = kernels.call.matchAloneCount(this.#match) >>> 0;
    for (let i = 0; i < n; i++) {
      const at = kernels.call.matchAlone(this.#match, i) >>> 0;
      const fate = kernels.readU32(at + AloneLayout.fate);
      yield {
        side: kernels.readU32(at + AloneLayout.side) as 0 | 1,
        timeNs: kernels.readF64(at + AloneLayout.time),
        flow: kernels.readU32(at + AloneLayout.flow),
        mark: kernels.readU32(at + AloneLayout.mark),
        fate: fate & residueConstants.FATE,
        doubted: (fate & residueConstants.DOUBTED) !== 0,
      };
    }
  }

  /** The first pairs, but for those that were put off. */
  *opening(): Generator<OpeningPair> {
    const kernels = this.#kernels;
    const first = kernels.call.matchOpening(this.#match) >>> 0;
    const n = kernels.call.matchOpened(this.#match) >>> 0;
    for (
      let at = first;
      at < first + n * matchStateConstants.OPENING_PAIR;
      at += matchStateConstants.OPENING_PAIR
    )
      yield {
        atNs: kernels.readF64(at + 8),
        differenceNs: kernels.readF64(at + 16),
        again: kernels.readU32(at + 24) !== 0,
        forward: this.flows.direction(kernels.readU32(at + 28)) === 1,
      };
  }

  /** The number of the same flow as the second point names it; null where that is not known. */
  mapped(id: number): number | null {
    const found = this.#kernels.call.matchMapped(this.#match, id);
    return found < 0 ? null : found;
  }

  /** There are such packets at both points. */
  get aloneAtBoth(): boolean {
    return this.#kernels.call.matchAloneBoth(this.#match) !== 0;
  }

  /** Pairs whose delay is known, of both directions. */
  get pairCount(): number {
    const { call } = this.#kernels;
    const of = (direction: 1 | 2) =>
      this.#kernels.readU32((call.matchTotal(this.#match, direction) >>> 0) + TotalLayout.matched);
    return of(1) + of(2);
  }

  /** Where every packet is noted; null where nobody asked. */
  get packets(): PacketLog | null {
    return this.#packets;
  }

  get aloneCount(): number {
    return this.#kernels.call.matchOnlyCount(this.#match);
  }

  /** Pairs that were added, the first of them: on the matcher's axis. */
  get added(): readonly { flow: number; beforeNs: number; afterNs: number }[] {
    return this.#added;
  }

  /** A packet of a flow was seen at both points after all. */
  addPair(flow: number, beforeNs: number, afterNs: number): void {
    if (this.#added.length < MAX_ADDED) this.#added.push({ flow, beforeNs, afterNs });
    this.#kernels.call.matchAdd(this.#match, flow, beforeNs, afterNs);
    if (this.#packets) this.#note();
  }

  /** So many packets of those sent then were seen at both points, without a delay of their own. */
  addWithout(timeNs: number, packets: number): void {
    this.#kernels.call.matchWithout(this.#match, timeNs, packets);
  }

  /** So many more packets, or fewer, are lost of those sent then. */
  correctLost(timeNs: number, change: number): void {
    this.#kernels.call.matchLost(this.#match, timeNs, change);
  }

  /** Packets of either side that look like another one within the window. */
  get repeated(): { before: number; after: number } {
    const read = (name: "repeated0" | "repeated1") => this.#kernels.readU32(this.#match + MatchLayout[name]);
    return { before: read("repeated0"), after: read("repeated1") };
  }

  /** Matched packets whose delay is not known, because others look the same. */
  get ambiguous(): number {
    return this.#kernels.call.matchAmbiguous(this.#match) >>> 0;
  }

  /** Of a Total or an Interval. */
  #sums(
    record: number,
    layout: Record<"first" | "sum" | "squares" | "minimum" | "maximum", number>,
    count: number,
  ) {
    if (count === 0) return null;
    const field = (name: keyof typeof layout) => this.#kernels.readF64(record + layout[name]);
    const mean = field("sum") / count;
    const variance = Math.max(0, field("squares") / count - mean * mean);
    return {
      count,
      meanNs: field("first") + mean,
      stdevNs: Math.sqrt(variance),
      minNs: field("minimum"),
      maxNs: field("maximum"),
    };
  }

  /** A flow's key as words for FlowKeySpec.describe: ten u32 from `at`, until the next call. */
  keyWords(id: number): { words: Uint32Array; at: number } {
    this.#kernels.call.statsKey(this.#stats, id, this.#scratch);
    return { words: this.#kernels.u32, at: this.#scratch >>> 2 };
  }

  flow(id: number): FlowResult {
    return this.flows.flow(id);
  }

  /** The flow with addresses and ports exchanged, or -1. */
  reverseOf(id: number): number {
    return this.#kernels.call.statsReverse(this.#stats, id, this.#scratch);
  }

  /** Pairs of flows that answer each other and both have matched packets; none where the first `maxAsked` flows with such have no peer. */
  *peers(maxAsked: number): Generator<[number, number]> {
    const { call } = this.#kernels;
    let maximum = Math.min(maxAsked, 0xffff_ffff);
    for (let from = 0; ; ) {
      const id: number = call.statsPeer(this.#stats, from, maximum, this.#scratch);
      if (id < 0) return;
      yield [id, this.#kernels.readU32(this.#scratch + 40)];
      from = id + 1;
      maximum = 0xffff_ffff;
    }
  }

  /** Which way each flow goes, as this matcher has it or as `ways` say. */
  knownWays(
    ways: Uint8Array = Uint8Array.from({ length: this.flowCount }, (_, id) => this.flows.direction(id)),
  ): KnownWays {
    const keys = new Uint32Array(KEY_WORDS * ways.length);
    for (let id = 0; id < ways.length; id++) {
      const { words, at } = this.keyWords(id);
      keys.set(words.subarray(at, at + KEY_WORDS), KEY_WORDS * id);
    }
    return { keys, ways };
  }

  /** Flows go the way that is known of them, before any packet is taken. */
  direct({ keys, ways }: KnownWays): void {
    const { call } = this.#kernels;
    for (let i = 0; i < ways.length; i++) {
      const way = ways[i]!;
      if (way === 0) continue;
      this.#kernels.u32.set(keys.subarray(KEY_WORDS * i, KEY_WORDS * (i + 1)), this.#scratch >>> 2);
      call.statsDirect(this.#stats, this.#scratch, way);
    }
  }

  /** A batch's rows that were kept (plane 0 of `select`) and go this way stay kept. `runs`: their keys, as the matcher was fed. */
  selectWay(batch: PacketBatch, runs: KeyRuns, way: 1 | 2): void {
    this.#kernels.call.statsSelect(this.#stats, batch.address, runs.address, runs.count, way);
  }

  /** Flows with matched packets between hosts that have some in the other order, too, and a few others; up to `most`. */
  bothWays(most: number): Uint32Array {
    const kernels = this.#kernels;
    const room = Math.min(most, this.flowCount);
    if (room === 0) return new Uint32Array(0);
    const bits = Math.min(24, Math.max(12, Math.ceil(Math.log2(this.flowCount)) + 5));
    const maps = kernels.alloc(2 << (bits - 3));
    kernels.u8.fill(0, maps, maps + (2 << (bits - 3)));
    const out = kernels.alloc(4 * room);
    const n = kernels.call.statsBothWays(this.#stats, maps, bits, out, room) >>> 0;
    const ids = kernels.u32.slice(out >>> 2, (out >>> 2) + n);
    kernels.free(maps);
    kernels.free(out);
    return ids;
  }

  /** Flows without matched packets go these ways, and so do their packets that are counted already. */
  turnUnmatched(ways: ReadonlyMap<number, 1 | 2>): void {
    for (const [id, way] of ways) this.flows.turn(id, way);
  }

  /** When all flows have their ways: intervals are of packets from BEFORE to AFTER, and some may be there that were judged before their flow turned out to go back. */
  correctIntervals(): void {
    this.#kernels.call.matchCorrectEarly(this.#match);
  }

  total(direction: 1 | 2): TotalResult {
    const at = this.#kernels.call.matchTotal(this.#match, direction) >>> 0;
    const w = (name: keyof typeof TotalLayout) => this.#kernels.readU32(at + TotalLayout[name]);
    const real = (name: keyof typeof TotalLayout) => this.#kernels.readF64(at + TotalLayout[name]);
    const matched = w("matched");
    const delay = this.#sums(at, TotalLayout, matched);
    const baseNs = this.flows.baseNs(direction);
    const histogram = new LogHistogram(baseNs);
    if (delay) {
      const { u32 } = this.#kernels;
      const start = ((at + TotalBytes) >>> 2) + HISTOGRAM_BIAS;
      const last: number = this.#kernels.call.bucketOfNs(delay.maxNs - baseNs);
      for (let b: number = this.#kernels.call.bucketOfNs(delay.minNs - baseNs); b <= last; b++) {
        const n = u32[start + b]!;
        if (n > 0) histogram.addBucket(b, n);
      }
    }
    const jitterCount = real("jitterCount");
    return {
      matched,
      reordered: w("reordered"),
      extentMax: w("extentMax"),
      extentSum: real("extentSum"),
      delay,
      jitterNs: jitterCount > 0 ? real("jitter") / jitterCount : null,
      ttl: { lower: w("ttlLower"), equal: w("ttlEqual"), higher: w("ttlHigher") },
      negative: w("negative"),
      histogram,
    };
  }

  /** Intervals that hold packets so far. */
  get intervalCount(): number {
    return this.#kernels.call.matchIntervalCount(this.#match) >>> 0;
  }

  /** Those that hold packets, in order of time. */
  intervals(): IntervalResult[] {
    const { call } = this.#kernels;
    const at = call.matchIntervals(this.#match) >>> 0;
    const n = call.matchIntervalCount(this.#match) >>> 0;
    const kernels = this.#kernels;
    const out: IntervalResult[] = [];
    for (let slot = 0; slot < n; slot++) {
      const record = at + slot * IntervalBytes;
      const matched = kernels.readU32(record + IntervalLayout.matched);
      const lost = kernels.readU32(record + IntervalLayout.lost);
      const index = kernels.readF64(record + IntervalLayout.index);
      const ambiguous = kernels.readU32(record + IntervalLayout.ambiguous);
      const delay = this.#sums(record, IntervalLayout, matched);
      out.push({ index, slot, matched: matched + ambiguous, lost, delay });
    }
    return out.sort((a, b) => a.index - b.index);
  }

  /** Log buckets of the intervals, by their slot. */
  intervalBuckets(): (slot: number) => BucketRun {
    const kernels = this.#kernels;
    const owners = kernels.call.matchIntervalCount(this.#match) >>> 0;
    const used = kernels.call.cellsUsed(this.#intervalCells) >>> 0;
    const offsets = kernels.alloc((owners + 2) * 4);
    kernels.u32.fill(0, offsets >>> 2, (offsets >>> 2) + owners + 2);
    const out = kernels.alloc(Math.max(8, used * 8));
    kernels.call.cellsGroup(this.#intervalCells, owners, offsets, out);
    const starts = kernels.u32.slice(offsets >>> 2, (offsets >>> 2) + owners + 1);
    const pairs = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * used);
    kernels.free(offsets);
    kernels.free(out);
    return (owner) => {
      const [from = 0, to = 0] = [starts[owner], starts[owner + 1]];
      // Bucket and count in one number, as in a cell: typed arrays sort without a comparator.
      const cells = new Float64Array(to - from);
      for (let i = from; i < to; i++) cells[i - from] = (pairs[2 * i]! | 0) * CELL_COUNTS + pairs[2 * i + 1]!;
      cells.sort();
      const buckets = new Int32Array(cells.length);
      const counts = new Uint32Array(cells.length);
      for (let i = 0; i < cells.length; i++) {
        buckets[i] = Math.floor(cells[i]! / CELL_COUNTS);
        counts[i] = cells[i]! - buckets[i]! * CELL_COUNTS;
      }
      return { baseNs: this.#baseNs, buckets, counts };
    };
  }

  /** Gives the memory back; the matcher is not to be used any more. */
  free(): void {
    const { call } = this.#kernels;
    call.matchFree(this.#match);
    call.statsFree(this.#stats);
    call.cellsFree(this.#cells);
    call.cellsFree(this.#intervalCells);
    this.#kernels.free(this.#scratch);
  }
}
