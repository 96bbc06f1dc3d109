/**
 * Corrects for packets that aligned cuts leave out. Packets in flight at a cut are in different epochs at the two ends: sketches of both ends leave them out,
 * and they are not like the others: the longer a delay, the likelier it crosses a cut. At rate r, their number is r E[D] and their delays add up to r E[D^2]
 * (Little's law for sums), so the mean of the others is too small by
 *
 *   sum over inner cuts of r (E[D^2] - E[D]^2) / packets = sum of r sigma^2 / packets
 *
 * This is added; it is subtracted if a clock offset makes delays negative, because then the short ones cross. The content of a single cut is far from its
 * expectation: each epoch's own interval covers that (estimators/cells/edge.ts). Before the first and after the last epoch the captures end, and nothing is
 * corrected. If the variation of delays is unknown, nothing is added either. Epochs cut by packets have nothing in flight, and estimators that know delays at
 * the receiver leave nothing out.
 */

import { type Interval, isNoAnswer, type NoAnswer } from "../estimators/estimator.ts";
import type { Combined } from "./combine.ts";

interface EdgeEpoch {
  startNs: bigint;
  endNs: bigint;
  packets: number;
  meanNs: number;
  /** Standard deviation of its delays; null if unknown. */
  stdevNs: number | null;
}

/** Packets in flight at one cut were on the way together: they differ less from each other than cuts do. */
export function deviationInFlight({ lowNs, highNs }: Interval): Interval {
  return { valueNs: 0, lowNs: 0, highNs: (highNs - lowNs) / 2 };
}

/**
 * Packets that arrived after the last aligned epoch of the sender were in flight when it ended. Their number shows their delay D: at rate r, r D packets are on
 * the way. Only within a factor, because neither the rate at that moment nor the order of packets is known. If there are far more than the epoch's mean delay
 * (`usualNs`) explains, either a queue was long then, or a burst had the usual delay: anything in between.
 */
export function delayBehind(packets: number, perNs: number, usualNs: number | null): Interval {
  const queuedNs = packets / perNs;
  const highNs = queuedNs * BEHIND_FACTOR;
  if (usualNs === null || !(usualNs > 0) || queuedNs <= BURST_FACTOR * usualNs)
    return { valueNs: queuedNs, lowNs: queuedNs / BEHIND_FACTOR, highNs };
  return { valueNs: Math.sqrt(queuedNs * usualNs), lowNs: usualNs / BEHIND_FACTOR, highNs };
}

const BEHIND_FACTOR = 2;
const BURST_FACTOR = 4;

export class CutEdges {
  #before: EdgeEpoch | null = null;
  #shift = 0;

  /** Adds an aligned epoch with both ends; call in time order. */
  add(epoch: EdgeEpoch): void {
    const before = this.#before;
    this.#before = epoch;
    if (before?.endNs !== epoch.startNs || before.stdevNs === null || epoch.stdevNs === null) return;
    const lengthNs = Number(epoch.endNs - before.startNs);
    const perNs = (before.packets + epoch.packets) / lengthNs;
    const variance = 0.5 * (before.stdevNs ** 2 + epoch.stdevNs ** 2);
    this.#shift += Math.sign(before.meanNs + epoch.meanNs) * perNs * variance;
  }

  /** Sum of the delays of packets that crossed the cuts so far, beyond the mean. */
  get shift(): number {
    return this.#shift;
  }

  /** Adds several adjacent epochs combined earlier, with what crossed the cuts between them. */
  addPart(part: EdgeEpoch, shift: number): void {
    this.#shift += shift;
    this.add(part);
  }

  /** Returns the combination corrected for what crossed the cuts. */
  complete(combined: Combined): Combined {
    const { packets } = combined;
    if (this.#shift === 0 || packets === null || packets === 0) return combined;
    const shift = this.#shift / packets;
    const moved = (interval: Interval | NoAnswer): Interval | NoAnswer =>
      isNoAnswer(interval)
        ? interval
        : {
            ...interval,
            valueNs: interval.valueNs + shift,
            lowNs: interval.lowNs + shift,
            highNs: interval.highNs + shift,
          };
    return { ...combined, mean: moved(combined.mean), whole: moved(combined.whole) };
  }
}
