/** Mean and standard deviation of a few delays, with intervals. */

import { median } from "../../base/math/regression.ts";
import { chiSquareQuantile, studentQuantile } from "../../base/math/special.ts";
import type { Interval, NoAnswer } from "../estimator.ts";

export interface SampleSums {
  count: number;
  mean: number;
  /** Sums of (x - mean)^2 and (x - mean)^4. */
  m2: number;
  m4: number;
}

export function sumSamples(values: readonly number[]): SampleSums {
  const count = values.length;
  const mean = count === 0 ? 0 : values.reduce((s, x) => s + x, 0) / count;
  let m2 = 0;
  let m4 = 0;
  for (const x of values) {
    const square = (x - mean) ** 2;
    m2 += square;
    m4 += square * square;
  }
  return { count, mean, m2, m4 };
}

export function meanInterval(
  mean: number,
  variance: number,
  count: number,
  freedom: number,
  confidence: number,
): Interval {
  const half = studentQuantile(0.5 + confidence / 2, Math.max(1, freedom)) * Math.sqrt(variance / count);
  return { valueNs: mean, lowNs: mean - half, highNs: mean + half };
}

/** Estimates mean and standard deviation of all packets from a random sample. */
export function describeSamples(
  sums: SampleSums,
  confidence: number,
  none: NoAnswer,
): { mean: Interval | NoAnswer; stdev: Interval | NoAnswer } {
  const { count, mean, m2, m4 } = sums;
  if (count < 2) return { mean: none, stdev: none };
  const variance = m2 / (count - 1);
  return {
    mean: meanInterval(mean, variance, count, count - 1, confidence),
    stdev: deviationInterval(variance, count, variance > 0 ? m4 / count / variance ** 2 - 3 : 0, confidence),
  };
}

/** Minimum assumed excess kurtosis of delays, however few are sampled; an exponential distribution has 6. */
const KURTOSIS = 6;
/** Degrees of freedom below which an interval is meaningless. */
const MIN_FREEDOM = 1.5;

const FEW: NoAnswer = {
  reason: "too-much-noise",
  text: "too few packets were sampled to see how they vary",
};

/**
 * Interval of the standard deviation: s^2 of n values has the relative variance 2 / (n - 1) + kurtosis / n, like chi-square with the degrees of freedom of that
 * variance.
 */
export function deviationInterval(
  variance: number,
  count: number,
  kurtosis: number,
  confidence: number,
): Interval | NoAnswer {
  const freedom = 2 / (2 / (count - 1) + Math.max(KURTOSIS, kurtosis) / count);
  if (!(freedom >= MIN_FREEDOM)) return FEW;
  const tail = (1 - confidence) / 2;
  const at = (share: number) => Math.sqrt((variance * freedom) / chiSquareQuantile(share, freedom));
  return { valueNs: Math.sqrt(variance), lowNs: at(1 - tail), highNs: at(tail) };
}

/** A delay more than a minute away from the others is a wrong timestamp. */
const OUTLIER_NS = 60e9;

export function withoutOutliers<T>(list: readonly T[], delayOf: (item: T) => number): T[] {
  const centre = median(list.map(delayOf)) ?? 0;
  return list.filter((item) => Math.abs(delayOf(item) - centre) <= OUTLIER_NS);
}
