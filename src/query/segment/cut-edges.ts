/**
 * What aligned cuts leave out. Packets in flight at a cut are in different epochs at the two ends: sketches of both ends leave them out, and they are not like the
 * others: the longer a delay, the likelier it crosses a cut. With rate r, their number is r E[D] and their delays add up to r E[D^2] (Little's law for sums), so that the mean of
 * the others is too small by
 *
 *   sum over inner cuts of r (E[D^2] - E[D]^2) / packets = sum of r sigma^2 / packets
 *
 * That is added. What one cut really holds is far from its expectation: D at the cut gives r D (D - E[D]), whose deviation is sqrt(13) r sigma^2 for exponential delays
 * (what queues give); the interval is widened by it, independent from cut to cut. A constant offset of the clocks changes nothing of this. Epochs that are cut by packets
 * have nothing in flight, and estimators that know delays at the receiver leave nothing out.
 */
import { normalQuantile } from "../../base/math/special.ts";
import type { Combined } from "../../collect/combine.ts";
import { type Interval, isNoAnswer, type NoAnswer } from "../../estimators/estimator.ts";

interface EdgeEpoch {
  startNs: bigint;
  endNs: bigint;
  packets: number;
  /** Standard deviation of its delays. */
  stdevNs: number;
}

/** Deviation of what one cut holds, over its expectation, for exponential delays. */
const SPREAD = Math.sqrt(13);

export class CutEdges {
  readonly #confidence: number;
  #before: EdgeEpoch | null = null;
  #shift = 0;
  #squares = 0;

  constructor(confidence: number) {
    this.#confidence = confidence;
  }

  /** Aligned epochs with both ends, in order of time. */
  add(epoch: EdgeEpoch): void {
    const before = this.#before;
    this.#before = epoch;
    if (before?.endNs !== epoch.startNs) return;
    const lengthNs = Number(epoch.endNs - before.startNs);
    const perNs = (before.packets + epoch.packets) / lengthNs;
    const held = perNs * 0.5 * (before.stdevNs ** 2 + epoch.stdevNs ** 2);
    this.#shift += held;
    this.#squares += (SPREAD * held) ** 2;
  }

  /** The same with what crossed the cuts. */
  complete(combined: Combined): Combined {
    const { packets } = combined;
    if (this.#shift === 0 || packets === null || packets === 0) return combined;
    const shift = this.#shift / packets;
    const z = normalQuantile((1 + this.#confidence) / 2);
    const half = (z * Math.sqrt(this.#squares)) / packets;
    const moved = (told: Interval | NoAnswer): Interval | NoAnswer => {
      if (isNoAnswer(told)) return told;
      const valueNs = told.valueNs + shift;
      return {
        ...told,
        valueNs,
        lowNs: valueNs - Math.hypot(told.valueNs - told.lowNs, half),
        highNs: valueNs + Math.hypot(told.highNs - told.valueNs, half),
      };
    };
    return { ...combined, mean: moved(combined.mean), whole: moved(combined.whole) };
  }
}
