/**
 * The packets that were in flight when an epoch began: the delay at that cut, and how many they were. A cell with one packet more at the receiver shows when that packet arrived: its sums of times
 * differ by that time and the delays of the others. Behind a queue packets in flight arrive one after the other until the delay at the cut is over, so half of them come in the first half of it.
 *
 * Foreign packets come at any time of the epoch. A queue that took long to pass packets on held up those sent meanwhile, too: a time that is far beyond what the epoch's mean allows is a foreign
 * packet's, and those times show how many foreign ones there are among the others.
 */
import { entryAt } from "../../base/lists.ts";

export interface LateArrivals {
  /** After the epoch's start, ns: each less what the delays of the others in its cell come to. */
  timesNs: readonly number[];
  epochNs: number;
  /** As long as the mean delay of the epoch may be. */
  meanNs: number;
}

export interface AtCut {
  delayNs: number;
  /** Times that this rests on. */
  shown: number;
}

/** A queue of length a at the cut makes the mean a^2 / 2 over the epoch at a steady rate; at a sixteenth of it, where most came before the cut. */
const SLOW_START = 32;
/** Standard deviations of chance. */
const BEYOND_CHANCE = 2;

/** Standard deviations of the others' delays, over the mean. */
const CLEAR = 2;

/** The delays of the others in a cell vary by so little that its time says something. */
export function isClear(variance: number, meanNs: number): boolean {
  return variance <= (CLEAR * meanNs) ** 2;
}

/** Null where they do not show it. Of their times the median counts: a cell that lost a packet and gained two shows a time that means nothing. */
export function delayAtCut({ timesNs, epochNs, meanNs }: LateArrivals): AtCut | null {
  const most = Math.min(epochNs / 2, Math.sqrt(SLOW_START * epochNs * Math.max(0, meanNs)));
  const early = timesNs.filter((t) => t >= 0 && t <= most).sort((a, b) => a - b);
  const late = timesNs.filter((t) => t > most && t <= epochNs).length;
  const foreign = (late * most) / (epochNs - most);
  const inFlight = early.length - foreign;
  // Foreign packets alone: as many early as late, but for chance.
  if (inFlight < 1 || inFlight < BEYOND_CHANCE * Math.sqrt(foreign)) return null;
  const middle = Math.min(early.length - 1, Math.floor(inFlight / 2));
  return { delayNs: 2 * entryAt(early, middle), shown: inFlight };
}
