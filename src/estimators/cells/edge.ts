/**
 * Packets in flight at an aligned cut are in no cell that can be used, and they are not like the others: all of them have about the delay that there was at the cut, and the longer that
 * is, the more of them there are. With a delay D at the cut, a rate of r and a mean of mu, they change the sum of delays by r |D| (D - mu), which is far from its expectation r sigma^2
 * at any one cut: its variance is r^2 (mu^2 sigma^2 + 2 mu m3 + m4 - sigma^4), with m3 and m4 the central moments. Delays as a gamma distribution has them (mu = sigma is the exponential one)
 * give
 *
 *   r^2 mu^2 sigma^2 (1 + 6 q^2 + 6 q^4), q = sigma / mu
 *
 * The cut is an end of the epoch: a delay that wanders (a random walk) is off the epoch's mean there by sqrt(2) times the deviation of its packets. The interval is widened
 * by that to both sides; how many packets the cells show to have crossed the cut is only a lower bound, and foreign packets look the same, so their number is not used. It is the
 * delay between the timestamps that decides, so a clock's offset is part of it.
 */
import { normalQuantile } from "../../base/math/special.ts";
import type { Interval } from "../estimator.ts";

export interface EdgeEvidence {
  /** EstimateInput.cutInFlight: what appears at the receiver only may have been in flight; else it is foreign, and none of the segment. */
  cutInFlight: boolean | undefined;
  /** Packets counted at the receiver only, as far as cells show them; 0: no packet crossed the cut. */
  appeared: number;
  epochNs: number;
  /** Variance of single packets' delays. */
  varianceNs2: number;
  confidence: number;
}

/** The deviation at an end of a random walk from its mean, over that of its points. */
const WANDERING = Math.SQRT2;
/** Deviations over the mean, at most: beyond it the mean is that of delays that a clock's offset all but takes away. */
const MOST_SPREAD = 4;

/** The interval of the mean over all packets that arrived, from that over the packets in cells. */
export function withPacketsInFlight(mean: Interval, evidence: EdgeEvidence): Interval {
  const { appeared, epochNs, varianceNs2, confidence } = evidence;
  const { valueNs, lowNs, highNs } = mean;
  if (!evidence.cutInFlight || appeared === 0 || !(epochNs > 0) || !(varianceNs2 > 0) || valueNs === 0)
    return mean;
  const meanNs = Math.abs(valueNs);
  const deviationNs = Math.sqrt(varianceNs2);
  const spread = Math.min(deviationNs / meanNs, MOST_SPREAD) ** 2;
  const share = Math.min(meanNs / epochNs, 1);
  const error = WANDERING * share * deviationNs * Math.sqrt(1 + 6 * spread + 6 * spread * spread);
  const half = normalQuantile((1 + confidence) / 2) * error;
  return {
    ...mean,
    lowNs: valueNs - Math.hypot(valueNs - lowNs, half),
    highNs: valueNs + Math.hypot(highNs - valueNs, half),
  };
}
