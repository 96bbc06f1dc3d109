/**
 * Epochs between delimiters: packets whose digest is in a range of 1 in `every`, which every point sees.
 *
 * An idle link has none, and a slow one none for days. To seal their epochs, too, they are also cut by the clock, at multiples of GRID_NS (68.7 s), which both
 * ends know without communication. Such a cut has an id derived from its time, so that ends that cut at the same time are paired there; if only one end has
 * cut, pairing merges adjacent epochs as it does for a lost delimiter.
 *
 *   idle    no packet for a whole grid step: cut at its end, and at the end of each following empty step, up to an hour, because packets may be lost or seen in
 *           another step at the other end. Nothing is in flight then: the cut is exact as long as delay and clock offset are below a step. When packets come
 *           again, the epoch begins at the multiple before the first.
 *   old     OLD_STEPS steps (an hour) after the epoch's start, busy or not. Packets in flight at that time are in different epochs at the two ends, as with
 *           aligned epochs; on a link this slow they are few.
 *
 * Cuts depend on the packets' times only: live observation cuts exactly as reading a file does.
 */
import { invalidValue } from "../base/errors.ts";
import { earlier, later } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { type Cutter, type EpochSink, LONGEST_GAP } from "./epoch-sink.ts";
import { floorTo, instant, LAST_NS } from "./instant.ts";

/** Cuts by the clock are at multiples of this, and times within delimited epochs are relative to them. */
export const DELIMITED_GRID_NS = 1n << 36n;
/** Number of grid steps after which an epoch is cut, whatever the traffic: 59.5 minutes. */
export const OLD_STEPS = 52n;
const STEP_NS = Number(DELIMITED_GRID_NS);
/** Above all digests of delimiters: `every` is at least 2. */
const CLOCK_ID = 0xffff_ffffn << 32n;

interface OpenEpoch {
  startNs: bigint;
  referenceNs: bigint;
  startId: bigint;
  cutHead: boolean;
}

export class DelimitedCutter implements Cutter {
  /** Digests with an upper half below this are delimiters. */
  readonly #below: number;
  #open: OpenEpoch | null = null;
  /** A cut by the clock after which no row has come yet: the next row starts an epoch there. */
  #cutNs: bigint | null = null;
  #lastNs = 0n;

  constructor(every: number) {
    if (!(every >= 2 && every <= 2 ** 31)) throw invalidValue("every", every, "2 to 2,147,483,648 packets");
    this.#below = Math.floor(2 ** 32 / every);
  }

  cut(batch: PacketBatch, originNs: bigint, sink: EpochSink): void {
    const { count } = batch;
    if (count === 0) return;
    let from = 0;
    const below = this.#below;
    let { digest, timeNs } = batch;
    const nowNs = instant(originNs, timeNs[0]!);
    if (this.#open === null && this.#cutNs === null) {
      this.#begin(nowNs, 0n, true, sink);
      this.#lastNs = nowNs;
    }
    let last = Number(this.#lastNs - originNs);
    let due = this.#dueAfter(originNs);
    for (let i = 0; i < count; i++) {
      const t = timeNs[i]!;
      const high = digest[2 * i + 1]!;
      let byClock = t - last > STEP_NS || t >= due;
      if (byClock && i + 1 < count && this.#cutNs === null) {
        // A single timestamp far ahead moves nothing, unless the next one confirms it.
        const next = timeNs[i + 1]!;
        byClock = next - last > STEP_NS || next >= due;
        if (byClock) last = t;
      } else last = t;
      if (high >= below && !byClock) continue;
      const nowNs = instant(originNs, t);
      // Read before the sink takes rows: taps may grow the kernel memory, which detaches the old columns.
      const low = digest[2 * i]!;
      if (i > from) sink.rows(from, i);
      from = i;
      if (byClock) {
        if (i > 0) this.#lastNs = instant(originNs, batch.timeNs[i - 1]!);
        this.#resume(nowNs, sink);
      }
      if (high < below) {
        const id = (BigInt(high) << 32n) | BigInt(low);
        this.#close(nowNs, id, false, sink);
        this.#begin(nowNs, id, false, sink);
      }
      due = this.#dueAfter(originNs);
      ({ digest, timeNs } = batch);
    }
    if (count > from) sink.rows(from, count);
    // Read again: taps may have grown the kernel memory, which detaches the old column.
    this.#lastNs = instant(originNs, batch.timeNs[count - 1]!);
  }

  tick(nowNs: bigint, sink: EpochSink): void {
    this.#cutUntil(nowNs, sink);
  }

  finish(sink: EpochSink): void {
    if (this.#open) this.#close(this.#lastNs, 0n, true, sink);
    this.#open = null;
    this.#cutNs = null;
  }

  /** Makes the clock's cuts due before a row at `nowNs`, and opens an epoch for it. */
  #resume(nowNs: bigint, sink: EpochSink): void {
    this.#cutUntil(nowNs, sink);
    const fresh = floorTo(nowNs, DELIMITED_GRID_NS);
    const cutNs = this.#cutNs;
    if (cutNs === null) return;
    if (fresh > cutNs) {
      this.#begin(cutNs, clockId(cutNs), false, sink);
      this.#close(fresh, clockId(fresh), false, sink);
    }
    const startNs = later(fresh, cutNs);
    this.#begin(startNs, clockId(startNs), false, sink);
  }

  /** Makes the cuts due by `nowNs`; all rows before it were taken. */
  #cutUntil(nowNs: bigint, sink: EpochSink): void {
    const idleNs = floorTo(this.#lastNs, DELIMITED_GRID_NS) + 2n * DELIMITED_GRID_NS;
    const endNs = idleNs + LONGEST_GAP * DELIMITED_GRID_NS;
    while (nowNs < LAST_NS) {
      const cutNs = this.#cutNs;
      let nextNs: bigint | null = null;
      if (this.#open) nextNs = earlier(idleNs, this.#oldNs(this.#open));
      else if (cutNs !== null && cutNs < endNs) nextNs = later(idleNs, cutNs + DELIMITED_GRID_NS);
      if (nextNs === null || nextNs > nowNs) return;
      if (this.#open === null && cutNs !== null) this.#begin(cutNs, clockId(cutNs), false, sink);
      this.#close(nextNs, clockId(nextNs), false, sink);
      this.#open = null;
      this.#cutNs = nextNs;
    }
  }

  #oldNs({ startNs }: OpenEpoch): bigint {
    return floorTo(startNs, DELIMITED_GRID_NS) + OLD_STEPS * DELIMITED_GRID_NS;
  }

  /** Returns the time after the origin from which on a row has a cut by the clock before it. */
  #dueAfter(originNs: bigint): number {
    return this.#open ? Number(this.#oldNs(this.#open) - originNs) : Number.NEGATIVE_INFINITY;
  }

  #begin(startNs: bigint, startId: bigint, cutHead: boolean, sink: EpochSink): void {
    const referenceNs = floorTo(startNs, DELIMITED_GRID_NS);
    this.#open = { startNs, referenceNs, startId, cutHead };
    this.#cutNs = null;
    // Any two adjacent epochs may have to be merged.
    sink.open({ startNs, referenceNs, salt: 0n });
  }

  #close(endNs: bigint, endId: bigint, cutTail: boolean, sink: EpochSink): void {
    const open = this.#open;
    // Rows may be timestamped before the epoch's start.
    if (open) sink.close({ mode: "delimited", ...open, endNs: later(endNs, open.startNs), endId, cutTail });
  }
}

/** The same at every point that cuts at that time; never 0, and never the digest of a delimiter. */
export function clockId(ns: bigint): bigint {
  return CLOCK_ID | ((ns / DELIMITED_GRID_NS) & 0xffff_ffffn);
}
