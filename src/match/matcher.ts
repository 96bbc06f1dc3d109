/**
 * Exact one-way delay: finds the same packets at both ends of a segment by their digest, within a window; equal packets first in, first out. Every sketch is
 * judged by these results. Memory is bounded by rate x window (waiting packets) and by the number of flows and of distinct (flow, log bucket) pairs. It fails
 * if a device rewrites bytes that the digest covers (NAT, segment merging): such packets count as lost and appeared. kernels/match/match.ts does the work; this
 * class reads its records.
 */
import {
  AloneLayout,
  MatchLayout,
  matchStateConstants,
  residueConstants,
  TotalLayout,
} from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import type { KeyRuns } from "../capture/flow/key-runs.ts";
import type { BucketRun, FlowResult } from "./flow-result.ts";
import { FlowResults } from "./flow-results.ts";
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
import { readIntervalBuckets, readIntervals, readTotal } from "./matcher-records.ts";
import type { PacketLog } from "./packet-log.ts";

/** A key, and two more words. */
const SCRATCH_BYTES = 48;
const KEY_WORDS = 10;
/** More pairs show nothing new about the clocks. */
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
  /** Base of the buckets of forward delays. */
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

  /** Sets how far one side may be read ahead of the other from now on. */
  allowSlack(slackNs: number): void {
    this.#kernels.writeF64(this.#match + MatchLayout.slack, slackNs);
  }

  /** Adds the rows of a batch from `from` on, with their keys in `runs`; `shiftNs` is added to their times. */
  takeRows(side: 0 | 1, batch: PacketBatch, runs: KeyRuns, from: number, shiftNs: number): void {
    const { call } = this.#kernels;
    call.matchRows(this.#match, batch.address, runs.address, runs.code, side, from, shiftNs);
    if (this.#packets) this.#note();
  }

  /**
   * Returns the pairs of one direction that the last `takeRows` found: addresses of their times at BEFORE and of the differences (after - before) as f64. The
   * differences are uncorrected, except that `addNs` is added; call it only once.
   */
  pairs(direction: 1 | 2, addNs: number): MatchedPairs {
    const { call, f64 } = this.#kernels;
    const count = call.matchPairCount(this.#match, direction) >>> 0;
    const sends = call.matchPairs(this.#match, direction) >>> 0;
    const differences = sends + matchStateConstants.PAIR_RAW * this.#rows;
    if (addNs !== 0) for (let i = 0; i < count; i++) f64[(differences >>> 3) + i]! += addNs;
    return { sends, differences, flows: sends + matchStateConstants.PAIR_FLOW * this.#rows, count };
  }

  /** Ends the input of one side; `lastNs`: its last time, null if it had no packets. */
  end(side: 0 | 1, lastNs: number | null = null): void {
    this.#kernels.call.matchEnd(this.#match, side, lastNs ?? Number.NEGATIVE_INFINITY);
  }

  /** Judges all waiting packets. */
  finish(): void {
    this.#kernels.call.matchFinish(this.#match);
    if (this.#packets) this.#note();
  }

  /** Number of pairs of repeated packets that were matched at the end, without the ambiguous ones. */
  get lateCount(): number {
    return this.#kernels.call.matchLateCount(this.#match) >>> 0;
  }

  /** Yields these pairs, or only those of packets without identical others, some thousand at a time: each time both directions, valid until the next. */
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

  /** Bytes used for waiting packets. */
  get tableBytes(): number {
    return this.#kernels.call.matchTableBytes(this.#match);
  }

  /** Yields the packets without a partner, except those far outside the other capture (the first four million). */
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

  /** Yields the first pairs, without those that were deferred. */
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
        otherNs: kernels.readF64(at + 32),
      };
  }

  /** Returns the id of the same flow under its key at the second point; null if unknown. */
  mapped(id: number): number | null {
    const found = this.#kernels.call.matchMapped(this.#match, id);
    return found < 0 ? null : found;
  }

  /** Whether both points have packets without a partner. */
  get aloneAtBoth(): boolean {
    return this.#kernels.call.matchAloneBoth(this.#match) !== 0;
  }

  /** Number of pairs with known delay, in both directions. */
  get pairCount(): number {
    const { call } = this.#kernels;
    const of = (direction: 1 | 2) =>
      this.#kernels.readU32((call.matchTotal(this.#match, direction) >>> 0) + TotalLayout.matched);
    return of(1) + of(2);
  }

  /** The record of every packet; null if not requested. */
  get packets(): PacketLog | null {
    return this.#packets;
  }

  get aloneCount(): number {
    return this.#kernels.call.matchOnlyCount(this.#match);
  }

  /** The first pairs added with addPair, on the matcher's time axis. */
  get added(): readonly { flow: number; beforeNs: number; afterNs: number }[] {
    return this.#added;
  }

  /** Adds a pair that was found after the matching. */
  addPair(flow: number, beforeNs: number, afterNs: number): void {
    if (this.#added.length < MAX_ADDED) this.#added.push({ flow, beforeNs, afterNs });
    this.#kernels.call.matchAdd(this.#match, flow, beforeNs, afterNs);
    if (this.#packets) this.#note();
  }

  /** Counts packets sent at this time as seen at both points, without a delay of their own. */
  addWithout(timeNs: number, packets: number): void {
    this.#kernels.call.matchWithout(this.#match, timeNs, packets);
  }

  /** Changes the number of lost packets among those sent at this time. */
  correctLost(timeNs: number, change: number): void {
    this.#kernels.call.matchLost(this.#match, timeNs, change);
  }

  /** Number of packets of each side that are identical to another one within the window. */
  get repeated(): { before: number; after: number } {
    const read = (name: "repeated0" | "repeated1") => this.#kernels.readU32(this.#match + MatchLayout[name]);
    return { before: read("repeated0"), after: read("repeated1") };
  }

  /** Number of matched packets with unknown delay, because others are identical. */
  get ambiguous(): number {
    return this.#kernels.call.matchAmbiguous(this.#match) >>> 0;
  }

  /** Returns a flow's key as words for FlowKeySpec.describe: ten u32 from `at`, valid until the next call. */
  keyWords(id: number): { words: Uint32Array; at: number } {
    this.#kernels.call.statsKey(this.#stats, id, this.#scratch);
    return { words: this.#kernels.u32, at: this.#scratch >>> 2 };
  }

  flow(id: number): FlowResult {
    return this.flows.flow(id);
  }

  /** Returns the flow with addresses and ports swapped, or -1. */
  reverseOf(id: number): number {
    return this.#kernels.call.statsReverse(this.#stats, id, this.#scratch);
  }

  /** Yields pairs of flows that answer each other and both have matched packets; none if the first `maxAsked` such flows have no peer. */
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

  /** Returns the direction of each flow: this matcher's, or the given ones. */
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

  /** Sets known directions of flows, before any packet is taken. */
  direct({ keys, ways }: KnownWays): void {
    const { call } = this.#kernels;
    for (let i = 0; i < ways.length; i++) {
      const way = ways[i]!;
      if (way === 0) continue;
      this.#kernels.u32.set(keys.subarray(KEY_WORDS * i, KEY_WORDS * (i + 1)), this.#scratch >>> 2);
      call.statsDirect(this.#stats, this.#scratch, way);
    }
  }

  /** Keeps those of a batch's selected rows (plane 0 of `select`) that go this way. `runs`: their keys, as given to the matcher. */
  selectWay(batch: PacketBatch, runs: KeyRuns, way: 1 | 2): void {
    this.#kernels.call.statsSelect(this.#stats, batch.address, runs.address, runs.count, way);
  }

  /** Returns flows with matched packets between hosts that have some in the other order, too, and a few others; up to `most`. */
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

  /** Sets the direction of flows without matched packets, and of their packets that were counted already. */
  turnUnmatched(ways: ReadonlyMap<number, 1 | 2>): void {
    for (const [id, way] of ways) this.flows.turn(id, way);
  }

  /**
   * Call when all flows have their directions: intervals are of packets from BEFORE to AFTER, and may contain packets that were judged before their flow turned
   * out to go back.
   */
  correctIntervals(): void {
    this.#kernels.call.matchCorrectEarly(this.#match);
  }

  total(direction: 1 | 2): TotalResult {
    const at = this.#kernels.call.matchTotal(this.#match, direction) >>> 0;
    return readTotal(this.#kernels, at, this.flows.baseNs(direction));
  }

  /** Number of intervals with packets so far. */
  get intervalCount(): number {
    return this.#kernels.call.matchIntervalCount(this.#match) >>> 0;
  }

  /** Returns the intervals with packets, in time order. */
  intervals(): IntervalResult[] {
    const { call } = this.#kernels;
    return readIntervals(this.#kernels, call.matchIntervals(this.#match) >>> 0, this.intervalCount);
  }

  /** Returns the log buckets of an interval by its slot. */
  intervalBuckets(): (slot: number) => BucketRun {
    return readIntervalBuckets(this.#kernels, this.#intervalCells, this.intervalCount, this.#baseNs);
  }

  /** Frees the memory; the matcher must not be used afterwards. */
  free(): void {
    const { call } = this.#kernels;
    call.matchFree(this.#match);
    call.statsFree(this.#stats);
    call.cellsFree(this.#cells);
    call.cellsFree(this.#intervalCells);
    this.#kernels.free(this.#scratch);
  }
}
