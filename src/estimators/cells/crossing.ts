/**
 * The delay at the cut that an epoch began with, from the packets that were in flight there. A cell with one packet more at the receiver shows when that packet arrived: its sums of times differ
 * by that time and the delays of the others. Behind a queue packets in flight arrive one after the other until the delay at the cut is over, so their times are in the mean half of it; foreign packets
 * come at any time of the epoch, and those of its second half show how many there are in the first.
 */
export interface LateArrivals {
  /** After the epoch's start, ns: each less what the delays of the others in its cell come to. */
  timesNs: readonly number[];
  epochNs: number;
}

/** Fewer say nothing. */
const FEW = 4;

/** Null where they do not show it. */
export function delayAtCut({ timesNs, epochNs }: LateArrivals): number | null {
  const half = epochNs / 2;
  let [early, late, sum] = [0, 0, 0];
  for (const t of timesNs) {
    if (t < 0 || t > epochNs) continue;
    if (t > half) late++;
    else {
      early++;
      sum += t;
    }
  }
  const inFlight = early - late;
  // Foreign packets alone: as many early as late, but for chance.
  if (inFlight < FEW || inFlight < 2 * Math.sqrt(early + late)) return null;
  return Math.min(epochNs, Math.max(0, (2 * (sum - (late * half) / 2)) / inFlight));
}
