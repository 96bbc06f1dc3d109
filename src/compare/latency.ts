/** Latency of a segment, a flow or an interval from the matcher's records: moments, quantiles from log buckets, points of the distribution. */
import { bucketMid, type LogHistogram, nearestRank } from "../base/math/log-histogram.ts";
import type { BucketRun, DelaySums } from "../match/flow-result.ts";
import type { TotalResult } from "../match/match-types.ts";
import type { Latency } from "./report.ts";

const CDF_POINTS = 400;

/** Null if nothing was matched. */
export function latencyOf(
  delay: DelaySums | null,
  histogram: LogHistogram,
  jitterNs: number | null,
): Latency | null {
  if (!delay) return null;
  return withQuantiles(
    delay,
    jitterNs,
    (q) => histogram.quantile(q, delay.minNs, delay.maxNs) ?? delay.meanNs,
  );
}

/** The same from buckets in ascending order. */
export function runLatency(delay: DelaySums, { baseNs, buckets, counts }: BucketRun): Latency {
  const { minNs, maxNs, meanNs } = delay;
  const n = counts.reduce((sum, count) => sum + count, 0);
  return withQuantiles(delay, null, (q) => {
    if (n === 0) return meanNs;
    let left = nearestRank(q, n);
    let at = 0;
    while (at < counts.length - 1 && left > counts[at]!) left -= counts[at++]!;
    return Math.min(maxNs, Math.max(minNs, baseNs + bucketMid(buckets[at]!)));
  });
}

/** The same for a flow, of which there may be millions: calls `run` for its buckets only if needed. */
export function flowLatency(delay: DelaySums, jitterNs: number | null, run: () => BucketRun): Latency {
  const { count, minNs, maxNs } = delay;
  if (count <= 3) {
    const delays = smallDelays(delay);
    return withQuantiles(delay, jitterNs, (q) => delays[nearestRank(q, count) - 1]!);
  }
  const { baseNs, buckets, counts } = run();
  return withQuantiles(delay, jitterNs, (q) => {
    let left = nearestRank(q, count);
    let at = 0;
    while (at < counts.length - 1 && left > counts[at]!) left -= counts[at++]!;
    return Math.min(maxNs, Math.max(minNs, baseNs + bucketMid(buckets[at]!)));
  });
}

/** Returns up to three delays, ascending: min, max and mean determine them all. */
export function smallDelays({ count, minNs, maxNs, meanNs }: DelaySums): number[] {
  if (count === 1) return [minNs];
  if (count === 2) return [minNs, maxNs];
  return [minNs, Math.min(maxNs, Math.max(minNs, Math.round(meanNs * 3 - minNs - maxNs))), maxNs];
}

function withQuantiles(delay: DelaySums, jitterNs: number | null, quantile: (q: number) => number): Latency {
  return {
    count: delay.count,
    meanNs: delay.meanNs,
    stdevNs: delay.stdevNs,
    minNs: delay.minNs,
    maxNs: delay.maxNs,
    p50Ns: quantile(0.5),
    p90Ns: quantile(0.9),
    p99Ns: quantile(0.99),
    p999Ns: quantile(0.999),
    jitterNs,
  };
}

export function cdfOf(total: TotalResult): { delayNs: number; share: number }[] {
  if (total.matched === 0) return [];
  const points = total.histogram.cdf().map((p) => ({ delayNs: p.valueNs, share: p.share }));
  if (points.length <= CDF_POINTS) return points;
  // Equal steps in share, and every step of the tail.
  const out: typeof points = [];
  let next = 0;
  for (const [i, p] of points.entries()) {
    if (p.share >= next || i === points.length - 1 || p.share > 0.99) {
      out.push(p);
      next = p.share + 1 / CDF_POINTS;
    }
  }
  return out;
}
