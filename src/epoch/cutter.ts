/**
 * Cutting the stream of a point into epochs, so that both ends of a segment count the same packets without clocks in the packets.
 *
 * aligned:   at multiples of a length of wall-clock time since 1970. Packets in flight at a cut fall into different epochs at the two
 *            ends; the sketches' counts show it. Right where latency is far below the length. Earlier where a sketch is full (COLATE's
 *            threshold T): at the next sixteenth of the length. Ends that do not agree on it are put together again by pairing.
 * control:   between Start and End messages in band (control.ts). A lost message voids its epoch, which is reported. Packets outside belong
 *            to none.
 * delimited: a packet whose digest lies in a range of 1 in `every` opens an epoch at every point that it crosses: passive, and exact
 *            on a FIFO segment. A lost delimiter leaves two epochs in one at that end; pairing merges them at the other.
 *
 * Rows are taken in file order. A row with a timestamp before the open epoch belongs to the open epoch: epochs go back only where the clock does, by more than an hour.
 */
import { earlier, later } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { CONTROL_PORT, controlOfRow } from "./control.ts";
import type { EpochBounds } from "./record.ts";

export type CutPlan =
  | { mode: "aligned"; lengthNs: bigint }
  | { mode: "control"; stream: number; port?: number }
  | { mode: "delimited"; every: number };

/** What a cutter says about the batch at hand; between `open` and `close` or `discard` lie the rows of one epoch. */
export interface EpochSink {
  /** `salt`: Tap.begin. */
  open(start: { startNs: bigint; referenceNs: bigint; salt: bigint }): void;
  rows(from: number, to: number): void;
  /** What is kept of the open epoch should not grow: it is to be closed soon. */
  isFull?(): boolean;
  close(bounds: EpochBounds): void;
  /** The epoch cannot be used. It may never have been opened here. */
  discard(bounds: EpochBounds, reason: string): void;
}

export interface Cutter {
  /** Observation begins, where that is known to be before the first row. */
  begin?(nowNs: bigint, sink: EpochSink): void;
  cut(batch: PacketBatch, originNs: bigint, sink: EpochSink): void;
  /** Every row up to this time has been cut: epochs that ended before it are over, rows or none. */
  tick?(nowNs: bigint, sink: EpochSink): void;
  /** Observation ends, at `nowNs` where that is known to be after the last row. */
  finish(sink: EpochSink, nowNs?: bigint): void;
}

/** Idle epochs that are still sealed (empty) one by one; beyond, the gap is left out. */
export const LONGEST_GAP = 60n;
/** A row further ahead or behind than this is believed when a second one confirms it: clocks are set by mistake, one packet at a time. */
const SUSPICIOUS_NS = 3_600_000_000_000n;
/** The last instant that records can tell. */
const LAST_NS = (1n << 63n) - 1n;
/** So far from the first one that the epoch's start is none before it. */
const FIRST_NS = -(1n << 62n);
/** An aligned epoch that is full is cut at a multiple of this part of its length: both ends are full at about the same packets. */
export const FULL_PARTS = 16n;
/** Times of delimited epochs count from multiples of this (68.7 s), which both ends know without talking. */
export const DELIMITED_GRID_NS = 1n << 36n;

export function createCutter(plan: CutPlan): Cutter {
  switch (plan.mode) {
    case "aligned":
      return new AlignedCutter(plan.lengthNs);
    case "control":
      return new ControlCutter(plan.stream, plan.port ?? CONTROL_PORT);
    case "delimited":
      return new DelimitedCutter(plan.every);
  }
}

class AlignedCutter implements Cutter {
  readonly #lengthNs: bigint;
  readonly #suspiciousNs: bigint;
  #startNs: bigint | null = null;
  #endNs = 0n;
  #first = true;
  #aheadSeen = false;
  #behindSeen = 0;
  /** Rows in a row that must be far behind before epochs go back. Doubles each time: two clocks in one stream do not cut it to pieces. */
  #behindNeeded = 2;

  constructor(lengthNs: bigint) {
    if (lengthNs <= 0n) throw new RangeError(`an epoch of ${lengthNs} ns`);
    this.#lengthNs = lengthNs;
    const gap = LONGEST_GAP * lengthNs;
    this.#suspiciousNs = SUSPICIOUS_NS > gap ? SUSPICIOUS_NS : gap;
  }

  begin(nowNs: bigint, sink: EpochSink): void {
    if (this.#startNs === null) this.#open(floorTo(nowNs, this.#lengthNs), sink);
  }

  cut(batch: PacketBatch, originNs: bigint, sink: EpochSink): void {
    const { count } = batch;
    if (count === 0) return;
    this.begin(instant(originNs, batch.timeNs[0]!), sink);
    // The column is taken anew after each call of the sink: sealing may grow the memory under it.
    let { timeNs } = batch;
    let from = 0;
    let { low, end } = this.#range(originNs);
    for (let i = 0; i < count; i++) {
      const t = timeNs[i]!;
      if (t < end && t >= low) {
        this.#aheadSeen = false;
        this.#behindSeen = 0;
        continue;
      }
      const nowNs = instant(originNs, t);
      if (!this.#believes(nowNs)) continue;
      if (i > from) sink.rows(from, i);
      from = i;
      this.#moveTo(nowNs, sink);
      ({ low, end } = this.#range(originNs));
      ({ timeNs } = batch);
    }
    if (count > from) sink.rows(from, count);
    if (sink.isFull?.()) this.#endSoon(instant(originNs, batch.timeNs[count - 1]!));
  }

  tick(nowNs: bigint, sink: EpochSink): void {
    if (this.#startNs !== null && nowNs >= this.#endNs && this.#endNs < LAST_NS) this.#moveTo(nowNs, sink);
  }

  finish(sink: EpochSink, nowNs?: bigint): void {
    if (this.#startNs === null) return;
    const ahead = nowNs === undefined ? -1n : nowNs - this.#endNs;
    if (nowNs !== undefined && ahead >= 0n && ahead <= LONGEST_GAP * this.#lengthNs)
      this.#moveTo(nowNs, sink);
    this.#close(true, sink);
    this.#startNs = null;
    this.#first = true;
  }

  /** Times after the origin between which rows belong to the open epoch without a further look. */
  #range(originNs: bigint): { low: number; end: number } {
    return {
      low: Number((this.#startNs ?? 0n) - this.#suspiciousNs - originNs),
      end: this.#endNs >= LAST_NS ? Number.POSITIVE_INFINITY : Number(this.#endNs - originNs),
    };
  }

  /** A row outside the open epoch moves the time, unless it is alone. */
  #believes(nowNs: bigint): boolean {
    if (nowNs < this.#endNs) {
      this.#aheadSeen = false;
      if (++this.#behindSeen < this.#behindNeeded) return false;
      this.#behindNeeded *= 2;
    } else if (nowNs - this.#endNs > this.#suspiciousNs && !this.#aheadSeen) {
      this.#aheadSeen = true;
      return false;
    }
    this.#aheadSeen = false;
    this.#behindSeen = 0;
    return true;
  }

  /** Closes the open epoch and those between, and opens that of an instant outside it. */
  #moveTo(nowNs: bigint, sink: EpochSink): void {
    const length = this.#lengthNs;
    // So far that the clock may have been wrong, here or before: what was cut off may go on another time.
    const far = nowNs < this.#endNs || nowNs - this.#endNs > this.#suspiciousNs;
    this.#close(far, sink);
    this.#first = far;
    const next = floorTo(nowNs, length);
    // Behind an epoch that was cut short, the rest of its time comes first.
    if (!far && (next - this.#endNs) / length <= LONGEST_GAP) {
      while (this.#endNs < next) {
        this.#open(this.#endNs, sink);
        this.#close(false, sink);
      }
      this.#open(this.#endNs, sink);
    } else this.#open(next, sink);
  }

  #endSoon(nowNs: bigint): void {
    const part = this.#lengthNs / FULL_PARTS;
    if (part === 0n || this.#startNs === null) return;
    const soon =
      floorTo(nowNs, this.#lengthNs) + (floorTo(nowNs - floorTo(nowNs, this.#lengthNs), part) + part);
    if (soon > this.#startNs && soon < this.#endNs) this.#endNs = soon;
  }

  #open(startNs: bigint, sink: EpochSink): void {
    this.#startNs = startNs;
    const endNs = floorTo(startNs, this.#lengthNs) + this.#lengthNs;
    this.#endNs = earlier(endNs, LAST_NS);
    // Parts of one length may have to be put together again: they have one salt.
    sink.open({ startNs, referenceNs: startNs, salt: floorTo(startNs, this.#lengthNs) });
  }

  #close(cutTail: boolean, sink: EpochSink): void {
    const startNs = this.#startNs ?? 0n;
    const endNs = this.#endNs;
    const ids = { startId: 0n, endId: 0n };
    sink.close({
      mode: "aligned",
      startNs,
      endNs,
      referenceNs: startNs,
      ...ids,
      cutHead: this.#first,
      cutTail,
    });
    this.#first = false;
  }
}

class DelimitedCutter implements Cutter {
  /** Upper halves of digests below this are delimiters. */
  readonly #below: number;
  #open: { startNs: bigint; referenceNs: bigint; startId: bigint; cutHead: boolean } | null = null;
  #lastNs = 0n;

  constructor(every: number) {
    if (!(every >= 2 && every <= 2 ** 31)) throw new RangeError(`a delimiter in ${every} packets`);
    this.#below = Math.floor(2 ** 32 / every);
  }

  cut(batch: PacketBatch, originNs: bigint, sink: EpochSink): void {
    const { count } = batch;
    if (count === 0) return;
    if (this.#open === null) this.#begin(instant(originNs, batch.timeNs[0]!), 0n, true, sink);
    let from = 0;
    const below = this.#below;
    let { digest } = batch;
    for (let i = 0; i < count; i++) {
      const high = digest[2 * i + 1]!;
      if (high >= below) continue;
      const id = (BigInt(high) << 32n) | BigInt(digest[2 * i]!);
      const nowNs = instant(originNs, batch.timeNs[i]!);
      if (i > from) sink.rows(from, i);
      from = i;
      this.#close(nowNs, id, false, sink);
      this.#begin(nowNs, id, false, sink);
      ({ digest } = batch);
    }
    if (count > from) sink.rows(from, count);
    this.#lastNs = instant(originNs, batch.timeNs[count - 1]!);
  }

  finish(sink: EpochSink): void {
    if (this.#open) this.#close(this.#lastNs, 0n, true, sink);
    this.#open = null;
  }

  #begin(startNs: bigint, startId: bigint, cutHead: boolean, sink: EpochSink): void {
    const referenceNs = floorTo(startNs, DELIMITED_GRID_NS);
    this.#open = { startNs, referenceNs, startId, cutHead };
    // Any two neighbours may have to be merged.
    sink.open({ startNs, referenceNs, salt: 0n });
  }

  #close(endNs: bigint, endId: bigint, cutTail: boolean, sink: EpochSink): void {
    if (this.#open) sink.close({ mode: "delimited", ...this.#open, endNs, endId, cutTail });
  }
}

class ControlCutter implements Cutter {
  readonly #stream: number;
  readonly #port: number;
  #open: { sequence: bigint; referenceNs: bigint } | null = null;

  constructor(stream: number, port: number) {
    this.#stream = stream;
    this.#port = port;
  }

  cut(batch: PacketBatch, _originNs: bigint, sink: EpochSink): void {
    const { count } = batch;
    let from = 0;
    for (let i = 0; i < count; i++) {
      const message = controlOfRow(batch, i, this.#port);
      if (message === null) continue;
      // The messages themselves are not traffic, and those of other segments do not cut this one.
      if (this.#open && i > from) sink.rows(from, i);
      from = i + 1;
      if (message.stream !== this.#stream) continue;
      const open = this.#open;
      const { sequence, referenceNs } = message;
      if (message.kind === "start") {
        if (open) this.#discard(open.sequence, open.referenceNs, `End ${open.sequence} was not seen`, sink);
        this.#open = { sequence, referenceNs };
        sink.open({ startNs: referenceNs, referenceNs, salt: referenceNs });
      } else if (open?.sequence === sequence) {
        sink.close(bounds(sequence, open.referenceNs, referenceNs));
        this.#open = null;
      } else {
        if (open) this.#discard(open.sequence, open.referenceNs, `End ${open.sequence} was not seen`, sink);
        this.#discard(sequence, referenceNs, `Start ${sequence} was not seen`, sink);
      }
    }
    if (this.#open && count > from) sink.rows(from, count);
  }

  finish(sink: EpochSink): void {
    if (!this.#open) return;
    const { sequence, referenceNs } = this.#open;
    this.#discard(sequence, referenceNs, `observation ended before End ${sequence}`, sink);
  }

  #discard(sequence: bigint, referenceNs: bigint, reason: string, sink: EpochSink): void {
    sink.discard(bounds(sequence, referenceNs, referenceNs), reason);
    this.#open = null;
  }
}

function bounds(sequence: bigint, startNs: bigint, endNs: bigint): EpochBounds {
  const ids = { startId: sequence, endId: sequence };
  return {
    mode: "control",
    startNs,
    endNs,
    referenceNs: startNs,
    ...ids,
    cutHead: false,
    cutTail: false,
  };
}

/** A row's time, ns since 1970, rounded down; within what records can tell. */
export function instant(originNs: bigint, timeNs: number): bigint {
  return later(FIRST_NS, earlier(originNs + BigInt(Math.floor(timeNs)), LAST_NS));
}

function floorTo(ns: bigint, step: bigint): bigint {
  const over = ns % step;
  return ns - (over < 0n ? over + step : over);
}
