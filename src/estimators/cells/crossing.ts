/**
 * Estimates the delay at the cut and the number of packets in flight when an epoch began. A cell with one more packet at the receiver shows when that
 * packet arrived: the difference of its time sums is that arrival time plus the delays of the other packets. Behind a queue, packets in flight arrive one
 * after the other until the delay at the cut is over, so half of them arrive in the first half of it.
 *
 * Foreign packets arrive at any time of the epoch. A queue that took long to drain also delayed the packets sent meanwhile. An arrival time far beyond what
 * the epoch's mean allows is therefore a foreign packet's, and the number of such times shows how many foreign packets are among the early ones.
 */
import { entryAt } from "../../base/lists.ts";

export interface LateArrivals {
  /** Arrival times after the epoch's start, ns: each minus the expected delays of the other packets in its cell. */
  timesNs: readonly number[];
  epochNs: number;
  /** Upper estimate of the epoch's mean delay. */
  meanNs: number;
}

export interface AtCut {
  delayNs: number;
  /** Number of arrival times behind the estimate. */
  shown: number;
}

/** A queueing delay a at the cut makes the mean delay a^2 / (2 epoch) at a steady rate, and a sixteenth of that if most packets came before the cut. */
const SLOW_START = 32;
/** Standard deviations that are put down to chance. */
const BEYOND_CHANCE = 2;

/** Maximum standard deviation of the other packets' delays, in means. */
const CLEAR = 2;

/** Returns true if the delays of the other packets in a cell vary so little that its arrival time is meaningful. */
export function isClear(variance: number, meanNs: number): boolean {
  return variance <= (CLEAR * meanNs) ** 2;
}

/**
 * Returns null if the times do not show the delay. Uses the median of the times, because a cell that lost one packet and gained two shows a meaningless
 * time.
 */
export function delayAtCut({ timesNs, epochNs, meanNs }: LateArrivals): AtCut | null {
  const most = Math.min(epochNs / 2, Math.sqrt(SLOW_START * epochNs * Math.max(0, meanNs)));
  const early = timesNs.filter((t) => t >= 0 && t <= most).sort((a, b) => a - b);
  const late = timesNs.filter((t) => t > most && t <= epochNs).length;
  const foreign = (late * most) / (epochNs - most);
  const inFlight = early.length - foreign;
  // With foreign packets only, as many times are early as late, apart from chance.
  if (inFlight < 1 || inFlight < BEYOND_CHANCE * Math.sqrt(foreign)) return null;
  const middle = Math.min(early.length - 1, Math.floor(inFlight / 2));
  return { delayNs: 2 * entryAt(early, middle), shown: inFlight };
}
