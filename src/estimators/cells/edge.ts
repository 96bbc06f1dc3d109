/**
 * Packets in flight at an aligned cut are in no cell that can be used, and they are not like the others: the longer a packet's delay, the likelier it is on its way
 * at the cut. Their number A tells of their delay (Little): at a rate of lambda packets per second the delay at the cut is A / lambda, and the mean of those in
 * flight is that where neighbours are delayed alike (a queue), and sigma^2 / mu more where delays are independent of each other: a delay d is met with
 * probability in proportion to d. The interval is widened to where the mean over all packets would lie in either case; the value stays, for foreign packets look
 * like packets in flight. It is the delay between the timestamps that decides, so a clock's offset is part of it.
 */
import type { Interval } from "../estimator.ts";

export interface EdgeEvidence {
  /** EstimateInput.cutInFlight: what appears at the receiver only may have been in flight; else it is foreign, and none of the segment. */
  cutInFlight: boolean | undefined;
  /** Packets counted at the receiver only, as far as cells show them; 0: no packet crossed the cut. */
  appeared: number;
  received: number;
  epochNs: number;
  /** Variance of single packets' delays. */
  varianceNs2: number;
}

/** Foreign packets look like packets in flight: more than these delays let expect, so many times over, is not taken for it. */
const PLAUSIBLE = 2;

/** The mean over all packets that arrived, from that over the packets in cells. */
export function withPacketsInFlight(mean: Interval, evidence: EdgeEvidence): Interval {
  const { appeared, received, epochNs, varianceNs2 } = evidence;
  const { valueNs, lowNs, highNs } = mean;
  if (!evidence.cutInFlight || appeared === 0 || received === 0 || !(epochNs > 0) || valueNs === 0)
    return mean;
  const apart = varianceNs2 / Math.abs(valueNs);
  const longest = PLAUSIBLE * (Math.abs(valueNs) + apart);
  const share = Math.min(appeared / received, longest / epochNs, 1);
  const alike = Math.sign(valueNs) * share * epochNs;
  const shifts = [alike, alike + Math.sign(valueNs) * apart].map((delayNs) => share * (delayNs - valueNs));
  const [min, max] = [Math.min(...shifts), Math.max(...shifts)];
  return {
    ...mean,
    lowNs: lowNs + Math.min(0, min),
    highNs: highNs + Math.max(0, max),
  };
}
