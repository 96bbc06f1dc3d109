/**
 * Two captures as one stream of strides: rows of one side after rows of the other, in the order in which the matcher takes them, with their flow keys as runs.
 * BEFORE leads a little, so that a packet's partner is present when it arrives, and both advance in long strides. The order depends on the captures only: a
 * feed in another thread (parallel-feed.ts) gives the same strides.
 */
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { appendRows } from "../capture/copy-batch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { type KeyRuns, RunFinder } from "../capture/flow/key-runs.ts";
import {
  type CaptureOptions,
  CaptureReader,
  type CaptureStatistics,
  DEFAULT_SEED,
} from "../capture/reader.ts";
import { isStandardInput } from "../capture/source/capture-path.ts";
import { estimateSpan } from "../capture/span.ts";
import { LOOK, lastBelieved, type OutlierReport, TimestampTrust } from "../capture/timestamp-trust.ts";
import { KernelScan, TimestampQuality, type TimestampReport } from "../clock/timestamp-quality.ts";
import { STRIDE_ROWS } from "./stride-rows.ts";

/** Timestamps that go back by more than this share of the window are examined. */
const TOLERANCE = 1 / 2;
/** BEFORE is ahead of AFTER by at least this fraction of the lead. */
const SURE_LEAD = 1 / 4;
/** With dense packets it may be ahead by this much, so that strides are as long as batches: each stride costs as much as hundreds of rows. */
const DENSE_LEAD_NS = 40e6;
const DENSE_LEAD_WINDOW = 1 / 8;
/** Dense: at least this many rows of a batch within this time. */
const DENSE_ROWS = STRIDE_ROWS / 2;
const DENSE_SPAN_NS = DENSE_LEAD_NS / 2;

/** How far BEFORE may be read ahead of AFTER if packets are dense. */
export const denseLeadNs = ({ leadNs, windowNs }: Pick<FeedPlan, "leadNs" | "windowNs">) =>
  Math.max(leadNs, Math.min(DENSE_LEAD_NS, windowNs * DENSE_LEAD_WINDOW));

export interface FeedPlan {
  before: string;
  after: string;
  capture: CaptureOptions;
  /** Subtracted from AFTER's times. */
  alignNs: number;
  /** Maximum time by which BEFORE is read ahead of AFTER, except for dense packets; the minimum is a quarter of it. */
  leadNs: number;
  windowNs: number;
  /** Maximum number of packets to read of each capture. */
  limit: number;
  /** The length of BEFORE must be known at the start. */
  wantsSpan?: boolean;
  /** Called with every batch of either side. */
  onBatch?: ((side: 0 | 1, batch: PacketBatch, originNs: bigint) => void) | undefined;
}

/** Known when both captures are open. */
export interface FeedHead {
  /** ns since 1970 of time 0 of the strides. */
  originNs: bigint;
  /** Time of the first packet; 0 without packets. */
  startNs: number;
  /** Added to the times of a side's rows. */
  shiftNs: readonly [number, number];
  /** Maximum number of rows of a stride. */
  rows: number;
  /** Both captures can be read again. */
  rereadable: boolean;
  /** Size of both files; null if unknown. */
  totalBytes: number | null;
  /** Length of BEFORE as estimated from its beginning, if requested; null if unknown. */
  spanNs: number | null;
}

/**
 * Rows [from, to) of a batch of one side and their runs; or the end of a side. `shorts`: packets of the side so far that were captured with fewer bytes than
 * the digest covers. `far`: BEFORE may be further ahead than the lead, by up to denseLeadNs. `lastNs`: the side's last time; null without packets.
 */
export type Stride = StrideRows | { kind: "end"; side: 0 | 1; lastNs: number | null };
export interface StrideRows {
  kind: "rows";
  side: 0 | 1;
  batch: PacketBatch;
  runs: KeyRuns;
  from: number;
  to: number;
  shorts: number;
  far: boolean;
}

export interface FeedTail {
  statistics: [CaptureStatistics, CaptureStatistics];
  quality: [TimestampReport, TimestampReport];
  outliers: [OutlierReport, OutlierReport];
  /** It ended at its limit, not at the captures' ends. */
  limited: boolean;
}

export interface PairFeed {
  readonly head: FeedHead;
  /**
   * Returns the next stride, null after the last. The previous one becomes invalid. `idle`: called while waiting, does a little work each time; returns false
   * if there is none.
   */
  next(idle?: () => boolean): Stride | null | Promise<Stride | null>;
  /** Bytes of the files consumed and packets returned so far. */
  progress(): { doneBytes: number; packets: number };
  /** Call after the last stride; frees all memory. */
  finish(): FeedTail | Promise<FeedTail>;
  /** The same before the last stride: no more are wanted. */
  cancel(): void | Promise<void>;
}

/** One capture being read: the current batch, its next row, and how far its rows can be returned. */
class Side {
  readonly side: 0 | 1;
  readonly reader: CaptureReader;
  readonly quality: TimestampQuality;
  readonly scan: KernelScan;
  readonly trust: TimestampTrust;
  readonly toleranceNs: number;
  readonly shiftNs: number;
  readonly #plan: FeedPlan;
  batch: PacketBatch;
  row = 0;
  /** Rows from here on wait for later ones, which show whether their timestamps are outliers. */
  end = 0;
  done = false;
  packets = 0;
  /** The reader has no more batches, or no more are wanted. */
  #last = false;
  /** The times of the current batch never step backward. */
  #ordered = false;
  /** Joins waiting rows with those of the next batch. */
  #joined: PacketBatch | null = null;

  constructor(side: 0 | 1, reader: CaptureReader, originNs: bigint, shiftNs: number, plan: FeedPlan) {
    this.side = side;
    this.reader = reader;
    this.batch = reader.batch;
    this.quality = new TimestampQuality({ originNs });
    this.scan = new KernelScan(reader.batch.kernels);
    this.#plan = plan;
    this.toleranceNs = plan.windowNs * TOLERANCE;
    this.trust = new TimestampTrust(this.toleranceNs);
    this.shiftNs = shiftNs;
  }

  /** Starts with the first batch of the reader, if it has one. */
  async begin(any: boolean): Promise<void> {
    if (any) this.#count();
    this.#last = !any;
    if (any) this.#look();
    if (this.end === 0) await this.advance();
  }

  /** Advances to the next rows that can be returned; without any it is done. */
  async advance(): Promise<void> {
    do {
      this.#keepOpen();
      if (!this.#last && this.packets < this.#plan.limit && (await this.reader.next())) this.#count();
      else {
        this.#last = true;
        this.done = this.batch === this.reader.batch;
        if (this.done) return;
      }
      this.#look();
    } while (this.end === 0);
  }

  #count(): void {
    const { batch, originNs } = this.reader;
    this.packets += batch.count;
    if (originNs !== null) this.#plan.onBatch?.(this.side, batch, originNs);
  }

  /** Moves the remaining rows of the current batch to where the next one can join them. */
  #keepOpen(): void {
    const { batch, reader, end } = this;
    const { count } = batch;
    if (end === count) {
      this.batch = reader.batch;
      return;
    }
    this.#joined ??= new PacketBatch(reader.batch.kernels, reader.batch.capacity + LOOK);
    this.#joined.count = 0;
    appendRows(batch, end, count, this.#joined);
    this.batch = this.#joined;
  }

  /** Examines a new batch of the reader, or its end. */
  #look(): void {
    const { batch, reader } = this;
    this.row = 0;
    if (!this.#last) {
      const { timeNs, count } = reader.batch;
      this.quality.observe(timeNs, count, this.scan.of(reader.batch.column("time")));
      if (batch !== reader.batch) appendRows(reader.batch, 0, reader.batch.count, batch);
    }
    const backNs = this.quality.takeBackNs();
    this.#ordered = backNs === 0 && batch === reader.batch;
    this.end = this.trust.observe(batch.timeNs, batch.count, backNs, this.#last);
  }

  /** Whether there are so many packets in so short a time that batches are returned whole. */
  get dense(): boolean {
    if (this.done || this.end < DENSE_ROWS || this.trust.believed) return false;
    return this.tailNs - this.#timeOf(0) <= DENSE_SPAN_NS;
  }

  get headNs(): number {
    return this.done ? Number.POSITIVE_INFINITY : this.#timeOf(this.row);
  }

  /** Time of the last available row. */
  get tailNs(): number {
    return this.done ? Number.POSITIVE_INFINITY : this.#timeOf(this.end - 1);
  }

  #timeOf(row: number): number {
    const { believed } = this.trust;
    const { batch } = this;
    return (
      (believed ? believed[row]! : batch.kernels.f64[(batch.column("time") >>> 3) + row]!) + this.shiftNs
    );
  }

  /** Returns the first row with a time above `untilNs`, or after a backward clock step, or beyond the maximum. */
  rowsUntil(untilNs: number, maximum: number): number {
    const { trust, row, shiftNs, batch } = this;
    const times = trust.believed;
    if (!times) return Math.min(batch.rowsUntil(row, untilNs, shiftNs, this.#ordered), row + maximum);
    const end = Math.min(this.end, row + maximum);
    let to = row;
    while (to < end && times[to]! + shiftNs <= untilNs) {
      if (to > row && times[to]! < times[to - 1]! - this.toleranceNs) break;
      to++;
    }
    return to;
  }

  lastNs(): number | null {
    const { lastNs } = this.trust.report();
    return lastNs === null ? null : lastNs + this.shiftNs;
  }

  /** The reader's statistics, with a last time that is not an outlier. */
  statistics(): CaptureStatistics {
    const statistics = this.reader.statistics();
    const { originNs, lastNs } = statistics;
    if (originNs === null || lastNs === null) return statistics;
    const last = lastBelieved(this.trust.report(), Number(lastNs - originNs));
    return { ...statistics, lastNs: originNs + BigInt(Math.round(last)) };
  }

  /** The timestamp report without steps from or to an outlier, which say nothing about the other timestamps. */
  timestamps(): TimestampReport {
    const report = this.quality.report();
    const { count, setBackNs } = this.trust.report();
    if (count === 0 || setBackNs > 0) return report;
    const largest = report.backward.largest.filter((event) => event.sizeNs <= this.toleranceNs);
    const steps = largest.length === 0 ? 0 : Math.max(largest.length, report.backward.count - count);
    return { ...report, backward: { count: steps, largestNs: largest[0]?.sizeNs ?? 0, largest } };
  }

  free(): void {
    this.reader.close();
    this.reader.free();
    this.scan.free();
    this.#joined?.free();
  }
}

/** The feed that reads and decodes in this thread. */
export class DirectFeed implements PairFeed {
  readonly head: FeedHead;
  /** By the batches' capacity. */
  readonly #finders = new Map<number, RunFinder>();
  readonly #kernels: Kernels;
  readonly #plan: FeedPlan;
  readonly #before: Side;
  readonly #after: Side;
  /** Sides that ended and are yet to be reported. */
  readonly #ended: Side[] = [];
  /** The side of the last stride, and the end of its rows. */
  #taken: { side: Side; to: number } | null = null;

  private constructor(kernels: Kernels, plan: FeedPlan, before: Side, after: Side, head: FeedHead) {
    this.#kernels = kernels;
    this.#plan = plan;
    this.#before = before;
    this.#after = after;
    this.head = head;
    this.#ended.push(...[before, after].filter((side) => side.done));
  }

  static async open(kernels: Kernels, plan: FeedPlan): Promise<DirectFeed> {
    // Rows get their keys as runs; a watcher of batches needs them in the batch, too.
    const { key, ...plain } = plan.capture;
    const capture: CaptureOptions = plan.onBatch
      ? plan.capture
      : { ...plain, batchRows: STRIDE_ROWS, rowsOnly: true };
    // Estimated here, where packets are decoded anyway: elsewhere the code for it would be loaded and compiled a second time.
    const asksSpan = plan.wantsSpan && !isStandardInput(plan.before);
    const spanNs = asksSpan ? await estimateSpan(kernels, plan.before) : null;
    const readers = [
      await CaptureReader.open(kernels, plan.before, capture),
      await CaptureReader.open(kernels, plan.after, capture),
    ] as const;
    const first = [await readers[0].next(), await readers[1].next()] as const;
    const originNs = readers[0].originNs ?? readers[1].originNs ?? 0n;
    const rows = readers[0].batch.capacity;
    const [before, after] = readers.map((reader, i) => {
      const own = reader.originNs ?? originNs;
      const shiftNs = Number(own - originNs) - (i === 1 ? plan.alignNs : 0);
      return new Side(i as 0 | 1, reader, own, shiftNs, plan);
    }) as [Side, Side];
    await before.begin(first[0]);
    await after.begin(first[1]);
    const startNs = Math.min(before.headNs, after.headNs);
    const sizes = readers.map((r) => r.source.size);
    return new DirectFeed(kernels, plan, before, after, {
      originNs,
      startNs: Number.isFinite(startNs) ? startNs : 0,
      shiftNs: [before.shiftNs, after.shiftNs],
      rows,
      rereadable: readers.every((r) => r.source.rereadable),
      totalBytes: sizes.every((s) => s !== null) ? sizes.reduce((sum, s) => sum + s, 0) : null,
      spanNs,
    });
  }

  async next(): Promise<Stride | null> {
    if (this.#taken) {
      const { side, to } = this.#taken;
      this.#taken = null;
      side.row = to;
      if (to >= side.end) await side.advance();
      if (side.done) this.#ended.push(side);
    }
    const ended = this.#ended.shift();
    if (ended) return { kind: "end", side: ended.side, lastNs: ended.lastNs() };
    const before = this.#before;
    const after = this.#after;
    if (before.done && after.done) return null;
    const { side, untilNs, far } = this.#turn(before, after);
    const { batch } = side;
    const to = side.rowsUntil(untilNs, this.head.rows);
    this.#taken = { side, to };
    const finder = this.#finder(batch.capacity);
    // Packets of AFTER are mostly of their partners' flows; with address translation each is looked up.
    const looksUp = side === before || this.#plan.capture.nat;
    const runs = looksUp ? finder.find(batch, side.row, to) : finder.findRows(batch, side.row, to);
    if (side.trust.believed) runs.setBounds(side.trust.believed, side.row, to);
    const shorts = side.reader.shortPackets;
    return { kind: "rows", side: side.side, batch, runs, from: side.row, to, shorts, far };
  }

  /** Returns the side to read next, and up to which time. */
  #turn(before: Side, after: Side): { side: Side; untilNs: number; far: boolean } {
    const { leadNs } = this.#plan;
    const sureNs = leadNs * SURE_LEAD;
    const beforeNs = before.headNs;
    const afterNs = after.headNs;
    // Dense rows of AFTER are taken once all available ones can be.
    const far = before.dense && after.dense;
    const aheadNs = far ? denseLeadNs(this.#plan) : leadNs;
    const wantedNs = far ? Math.max(afterNs, Math.min(after.tailNs, afterNs + aheadNs / 2)) : afterNs;
    return !before.done && beforeNs <= wantedNs + sureNs
      ? { side: before, untilNs: afterNs + aheadNs, far }
      : { side: after, untilNs: beforeNs - sureNs, far };
  }

  #finder(capacity: number): RunFinder {
    const known = this.#finders.get(capacity);
    if (known) return known;
    const { key = FlowKeySpec.parse(undefined), seed = DEFAULT_SEED } = this.#plan.capture;
    const finder = new RunFinder(this.#kernels, key, seed, capacity);
    this.#finders.set(capacity, finder);
    return finder;
  }

  progress(): { doneBytes: number; packets: number } {
    const doneBytes = this.#before.reader.source.consumed() + this.#after.reader.source.consumed();
    return { doneBytes, packets: this.#before.packets + this.#after.packets };
  }

  cancel(): void {
    this.finish();
  }

  finish(): FeedTail {
    const sides = [this.#before, this.#after] as const;
    const tail: FeedTail = {
      statistics: [sides[0].statistics(), sides[1].statistics()],
      quality: [sides[0].timestamps(), sides[1].timestamps()],
      outliers: [sides[0].trust.report(), sides[1].trust.report()],
      limited: sides.some((s) => s.packets >= this.#plan.limit),
    };
    for (const side of sides) side.free();
    for (const finder of this.#finders.values()) finder.free();
    return tail;
  }
}
