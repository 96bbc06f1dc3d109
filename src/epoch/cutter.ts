/**
 * Cuts the stream of a point into epochs, so that both ends of a segment count the same packets without clocks in the packets.
 *
 * aligned:   at multiples of a length of wall-clock time since 1970. Packets in flight at a cut are in different epochs at the two ends; the sketches' counts
 *            show it. Suitable if the delay is far below the length. If a sketch is full (COLATE's threshold T) the cut comes earlier: at the next sixteenth of
 *            the length. Pairing merges the parts if the ends differ.
 * control:   between in-band Start and End messages (control.ts). A lost message voids its epoch, which is reported. Packets outside belong to no epoch.
 * delimited: a packet whose digest is in a range of 1 in `every` starts an epoch at every point that it crosses: passive, and exact on a FIFO segment. A lost
 *            delimiter makes one epoch of two at that end; pairing merges them at the other. Idle or slow links are cut by the clock as well
 *            (delimited-cutter.ts).
 *
 * Rows are taken in file order. A row with a timestamp before the open epoch belongs to the open epoch: epochs go back only if the clock does, by more than an
 * hour.
 */
import { checkBigNs, checkChoice } from "../base/checks.ts";
import { invalidValue } from "../base/errors.ts";
import { earlier } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { CONTROL_PORT } from "./control.ts";
import { ControlCutter } from "./control-cutter.ts";
import { DelimitedCutter } from "./delimited-cutter.ts";
import { type Cutter, type EpochSink, LONGEST_GAP } from "./epoch-sink.ts";
import { floorTo, instant, LAST_NS } from "./instant.ts";

export type CutPlan =
  | { mode: "aligned"; lengthNs: bigint }
  | { mode: "control"; stream: number; port?: number }
  | { mode: "delimited"; every: number };

/** A row further ahead or behind than this counts only if a second one confirms it: single packets may have wrong timestamps. */
const SUSPICIOUS_NS = 3_600_000_000_000n;
/** A full aligned epoch is cut at a multiple of this fraction of its length: both ends are full at about the same packets. */
export const FULL_PARTS = 16n;

export function checkCut(cut: { mode: CutPlan["mode"] }): void {
  checkChoice("cut", cut?.mode, ["aligned", "control", "delimited"]);
}

export function createCutter(plan: CutPlan): Cutter {
  checkCut(plan);
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
  /** Number of consecutive rows far behind before epochs go back. Doubles each time, so that two clocks in one stream do not cut it to pieces. */
  #behindNeeded = 2;

  constructor(lengthNs: bigint) {
    if (lengthNs === undefined) throw invalidValue("epoch", lengthNs, "a length above 0, in ns as a bigint");
    checkBigNs("epoch", lengthNs);
    if (lengthNs <= 0n) throw invalidValue("epoch", `${lengthNs} ns`, "a length above 0");
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
    let from = 0;
    let { low, end } = this.#range(originNs);
    for (let i = 0; i < count; i++) {
      const outside = batch.rowsWithin(i, low, end);
      if (outside > i) {
        this.#aheadSeen = false;
        this.#behindSeen = 0;
      }
      i = outside;
      if (i === count) break;
      const nowNs = instant(originNs, batch.timeNs[i]!);
      if (!this.#believes(nowNs)) continue;
      if (i > from) sink.rows(from, i);
      from = i;
      this.#moveTo(nowNs, sink);
      ({ low, end } = this.#range(originNs));
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

  /** Range of times after the origin within which rows belong to the open epoch without further checks. */
  #range(originNs: bigint): { low: number; end: number } {
    return {
      low: Number((this.#startNs ?? 0n) - this.#suspiciousNs - originNs),
      end: this.#endNs >= LAST_NS ? Number.POSITIVE_INFINITY : Number(this.#endNs - originNs),
    };
  }

  /** Whether a row outside the open epoch moves the time: a single one does not. */
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

  /** Closes the open epoch and those in between, and opens that of an instant outside it. */
  #moveTo(nowNs: bigint, sink: EpochSink): void {
    const length = this.#lengthNs;
    // So far that the clock may have been wrong, now or before: the interrupted epoch may continue at another time.
    const far = nowNs < this.#endNs || nowNs - this.#endNs > this.#suspiciousNs;
    this.#close(far, sink);
    this.#first = far;
    const next = floorTo(nowNs, length);
    // After an epoch that was cut short, the rest of its time comes first.
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
    // Parts of one length may have to be merged: they have the same salt.
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
