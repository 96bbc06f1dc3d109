/**
 * Two captures as one stream of strides: rows of one side after rows of the other, in the order that the matcher is to take them, with their
 * flow keys as runs. BEFORE leads a little, so that a packet's partner is there when it arrives, and both go on in long strides. The order is a
 * function of the captures alone: a feed in another thread (parallel-feed.ts) gives the same strides.
 */
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { FlowKeySpec } from "../capture/flow-key.ts";
import { type KeyRuns, RunFinder } from "../capture/key-runs.ts";
import {
  type CaptureOptions,
  CaptureReader,
  type CaptureStatistics,
  DEFAULT_SEED,
} from "../capture/reader.ts";
import { type StampScan, TimestampQuality, type TimestampReport } from "../clock/timestamp-quality.ts";
import { STRIDE_ROWS } from "./stride-rows.ts";

export interface FeedPlan {
  before: string;
  after: string;
  capture: CaptureOptions;
  /** Taken off AFTER's times. */
  alignNs: number;
  /** How far BEFORE is read ahead of AFTER at most: by a quarter of it at least. */
  leadNs: number;
  /** Stop after so many packets of each capture. */
  limit: number;
  /** Watches every batch of either side. */
  onBatch?: ((side: 0 | 1, batch: PacketBatch, originNs: bigint) => void) | undefined;
}

/** Known when both captures are open. */
export interface FeedHead {
  /** ns since 1970 of time 0 of the strides. */
  originNs: bigint;
  /** The first packet's time; 0 where there is none. */
  startNs: number;
  /** Added to the times of a side's rows. */
  shiftNs: readonly [number, number];
  /** Most rows of a stride. */
  rows: number;
  /** Both captures can be read again. */
  rereadable: boolean;
  /** Of both files; null where it is not known. */
  totalBytes: number | null;
}

/** Rows [from, to) of a batch of one side and their runs; or the end of a side. `shorts`: packets of the side so far that were cut within the digest. */
export type Stride =
  | { kind: "rows"; side: 0 | 1; batch: PacketBatch; runs: KeyRuns; from: number; to: number; shorts: number }
  | { kind: "end"; side: 0 | 1 };

export interface FeedTail {
  statistics: [CaptureStatistics, CaptureStatistics];
  quality: [TimestampReport, TimestampReport];
  /** It ended at its limit, not at the captures' ends. */
  limited: boolean;
}

export interface PairFeed {
  readonly head: FeedHead;
  /** The next stride, null after the last. What the one before points to is gone. */
  next(): Stride | null | Promise<Stride | null>;
  /** Bytes of the files consumed, and packets given, so far. */
  progress(): { doneBytes: number; packets: number };
  /** To be called after the last stride; gives all memory back. */
  finish(): FeedTail | Promise<FeedTail>;
  /** The same before it: no more strides are wanted. */
  cancel(): void | Promise<void>;
}

/** One capture being read: the batch at hand and the next row of it. */
class Side {
  readonly side: 0 | 1;
  readonly reader: CaptureReader;
  readonly quality: TimestampQuality;
  readonly scan: StampScan;
  readonly shiftNs: number;
  row = 0;
  done = false;
  packets = 0;

  constructor(side: 0 | 1, reader: CaptureReader, originNs: bigint, shiftNs: number) {
    this.side = side;
    this.reader = reader;
    this.quality = new TimestampQuality({ originNs });
    const { kernels } = reader.batch;
    this.scan = (from, to, previous, least, most) =>
      kernels.call.timesBetween!(reader.batch.column("time"), from, to, previous, least, most) >>> 0;
    this.shiftNs = shiftNs;
  }

  get headNs(): number {
    return this.done ? Number.POSITIVE_INFINITY : this.reader.batch.timeNs[this.row]! + this.shiftNs;
  }
}

/** The feed that reads and decodes in this thread. */
export class DirectFeed implements PairFeed {
  readonly head: FeedHead;
  readonly #finder: RunFinder;
  readonly #plan: FeedPlan;
  readonly #before: Side;
  readonly #after: Side;
  /** Sides that ended and are to be told. */
  readonly #ended: Side[] = [];
  /** Whose rows the last stride gave, up to which. */
  #taken: { side: Side; to: number } | null = null;
  #packets = 0;

  private constructor(kernels: Kernels, plan: FeedPlan, before: Side, after: Side, head: FeedHead) {
    this.#plan = plan;
    this.#before = before;
    this.#after = after;
    this.head = head;
    const { key = FlowKeySpec.parse(undefined), seed = DEFAULT_SEED } = plan.capture;
    this.#finder = new RunFinder(kernels, key, seed, head.rows);
    for (const side of [before, after]) {
      if (side.done) this.#ended.push(side);
      else this.#begin(side);
    }
  }

  static async open(kernels: Kernels, plan: FeedPlan): Promise<DirectFeed> {
    // Rows are given their keys by runs; those who watch batches want them in the batch, too.
    const { key, ...plain } = plan.capture;
    const capture: CaptureOptions = plan.onBatch
      ? plan.capture
      : { ...plain, batchRows: STRIDE_ROWS, rowsOnly: true };
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
      const side = new Side(i as 0 | 1, reader, own, shiftNs);
      side.done = !first[i];
      return side;
    }) as [Side, Side];
    const startNs = Math.min(before.headNs, after.headNs);
    const sizes = readers.map((r) => r.source.size);
    return new DirectFeed(kernels, plan, before, after, {
      originNs,
      startNs: Number.isFinite(startNs) ? startNs : 0,
      shiftNs: [before.shiftNs, after.shiftNs],
      rows,
      rereadable: readers.every((r) => r.source.rereadable),
      totalBytes: sizes.every((s) => s !== null) ? sizes.reduce((sum, s) => sum + s, 0) : null,
    });
  }

  async next(): Promise<Stride | null> {
    if (this.#taken) {
      const { side, to } = this.#taken;
      this.#taken = null;
      side.row = to;
      if (to >= side.reader.batch.count) await this.#advance(side);
    }
    const ended = this.#ended.shift();
    if (ended) return { kind: "end", side: ended.side };
    const before = this.#before;
    const after = this.#after;
    if (before.done && after.done) return null;
    const { leadNs } = this.#plan;
    const beforeNs = before.headNs;
    const afterNs = after.headNs;
    const side = !before.done && beforeNs <= afterNs + leadNs / 4 ? before : after;
    const untilNs = side === before ? afterNs + leadNs : beforeNs - leadNs / 4;
    const { batch } = side.reader;
    const to = batch.rowsUntil(side.row, untilNs, side.shiftNs);
    this.#taken = { side, to };
    const runs = this.#finder.find(batch, side.row, to);
    const shorts = side.reader.shortPackets;
    return { kind: "rows", side: side.side, batch, runs, from: side.row, to, shorts };
  }

  async #advance(side: Side): Promise<void> {
    side.row = 0;
    if (side.packets < this.#plan.limit && (await side.reader.next())) {
      this.#begin(side);
      return;
    }
    side.done = true;
    this.#ended.push(side);
  }

  #begin(side: Side): void {
    const { batch } = side.reader;
    side.packets += batch.count;
    this.#packets += batch.count;
    side.quality.observe(batch.timeNs, batch.count, side.scan);
    this.#plan.onBatch?.(side.side, batch, side.reader.originNs!);
  }

  progress(): { doneBytes: number; packets: number } {
    const doneBytes = this.#before.reader.source.consumed() + this.#after.reader.source.consumed();
    return { doneBytes, packets: this.#packets };
  }

  cancel(): void {
    this.finish();
  }

  finish(): FeedTail {
    const sides = [this.#before, this.#after] as const;
    const tail: FeedTail = {
      statistics: [sides[0].reader.statistics(), sides[1].reader.statistics()],
      quality: [sides[0].quality.report(), sides[1].quality.report()],
      limited: sides.some((s) => s.packets >= this.#plan.limit),
    };
    for (const { reader } of sides) {
      reader.close();
      reader.free();
    }
    this.#finder.free();
    return tail;
  }
}
