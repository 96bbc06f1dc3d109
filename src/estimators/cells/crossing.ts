/**
 * The delay at the cut that an epoch began with, from the packets that were in flight there. A cell with one packet more at the receiver shows when that packet arrived: its sums of times differ
 * by that time and the delays of the others. Behind a queue packets in flight arrive one after the other until the delay at the cut is over, so half of them come in the first half of it; foreign packets
 * come at any time of the epoch, and those of its second half show how many there are in the first.
 */
import { entryAt } from "../../base/lists.ts";

export interface LateArrivals {
  /** After the epoch's start, ns: each less what the delays of the others in its cell come to. */
  timesNs: readonly number[];
  epochNs: number;
}

/** Fewer say nothing. */
const FEW = 4;

/** Null where they do not show it. Of their times the median counts: a cell that lost a packet and gained two shows a time that means nothing. */
export function delayAtCut({ timesNs, epochNs }: LateArrivals): number | null {
  const half = epochNs / 2;
  const early = timesNs.filter((t) => t >= 0 && t <= half).sort((a, b) => a - b);
  const late = timesNs.filter((t) => t > half && t <= epochNs).length;
  const inFlight = early.length - late;
  // Foreign packets alone: as many early as late, but for chance.
  if (inFlight < FEW || inFlight < 2 * Math.sqrt(early.length + late)) return null;
  return 2 * entryAt(early, Math.floor(inFlight / 2));
}
