/** Mean and deviation of a few delays, with intervals. */
import { studentQuantile } from "../../base/math/special.ts";
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

/** Of all packets, from a random sample of them. */
export function describeSamples(
  sums: SampleSums,
  confidence: number,
  none: NoAnswer,
): { mean: Interval | NoAnswer; stdev: Interval | NoAnswer } {
  const { count, mean, m2, m4 } = sums;
  if (count < 2) return { mean: none, stdev: none };
  const variance = m2 / (count - 1);
  const deviation = Math.sqrt(variance);
  // Var(s^2) = (mu4 - sigma^4) / n; the root of it by the delta method.
  const spread = Math.sqrt(Math.max(0, m4 / count - variance * variance) / count);
  const half =
    deviation > 0 ? (studentQuantile(0.5 + confidence / 2, count - 1) * spread) / (2 * deviation) : 0;
  return {
    mean: meanInterval(mean, variance, count, count - 1, confidence),
    stdev: { valueNs: deviation, lowNs: Math.max(0, deviation - half), highNs: deviation + half },
  };
}
