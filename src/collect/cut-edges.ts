/**
 * What aligned cuts leave out. Packets in flight at a cut are in different epochs at the two ends: sketches of both ends leave them out, and they are not like the
 * others: the longer a delay, the likelier it crosses a cut. With rate r, their number is r E[D] and their delays add up to r E[D^2] (Little's law for sums), so that the mean of
 * the others is too small by
 *
 *   sum over inner cuts of r (E[D^2] - E[D]^2) / packets = sum of r sigma^2 / packets
 *
 * That is added; taken away where a clock's offset makes delays negative, for then it is the short ones that cross. What one cut really holds is far from its expectation: each
 * epoch's own interval holds that (estimators/cells/edge.ts). Before the first and behind the last epoch the captures end, and nothing is made up for. Where nobody knows how delays
 * vary, nothing is added either. Epochs that are cut by packets have nothing in flight, and estimators that know delays at the receiver leave nothing out.
 */

import { type Interval, isNoAnswer, type NoAnswer } from "../estimators/estimator.ts";
import type { Combined } from "./combine.ts";

interface EdgeEpoch {
  startNs: bigint;
  endNs: bigint;
  packets: number;
  meanNs: number;
  /** Standard deviation of its delays; null where it is not known. */
  stdevNs: number | null;
}

/** Packets in flight at one cut were under way together: they differ by less than one cut does from another. */
export function deviationInFlight({ lowNs, highNs }: Interval): Interval {
  return { valueNs: 0, lowNs: 0, highNs: (highNs - lowNs) / 2 };
}

/**
 * Packets that arrived behind the last aligned epoch of the sender were in flight when it ended. How many they are says how long their delay was: at a rate of r, r D are
 * under way at a delay of D. Within a factor, because neither the rate just then nor the order of packets is known. Far more than the epoch's mean delay (`usualNs`) lets
 * expect are a queue that was long then, or a burst whose packets had the usual delay: anything between.
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

  /** Aligned epochs with both ends, in order of time. */
  add(epoch: EdgeEpoch): void {
    const before = this.#before;
    this.#before = epoch;
    if (before?.endNs !== epoch.startNs || before.stdevNs === null || epoch.stdevNs === null) return;
    const lengthNs = Number(epoch.endNs - before.startNs);
    const perNs = (before.packets + epoch.packets) / lengthNs;
    const variance = 0.5 * (before.stdevNs ** 2 + epoch.stdevNs ** 2);
    this.#shift += Math.sign(before.meanNs + epoch.meanNs) * perNs * variance;
  }

  /** What crossed the cuts so far: of their delays, beyond the mean. */
  get shift(): number {
    return this.#shift;
  }

  /** Several neighbours that were put together before, with what crossed the cuts between them. */
  addPart(part: EdgeEpoch, shift: number): void {
    this.#shift += shift;
    this.add(part);
  }

  /** The same with what crossed the cuts. */
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
