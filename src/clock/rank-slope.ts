/**
 * Slope of a line through noisy points by ranks: the median of all pairwise slopes (Theil 1950), with the interval of Sen (1968) from the distribution of
 * Kendall's S. Points may come in strata; pairs are formed only within strata, so each stratum may have its own level (two directions, or before and after a
 * step).
 *
 * Guarantee: if the residuals of a stratum are exchangeable, the interval contains the true slope with the probability that belongs to z, whatever their
 * distribution (normal approximation of S, from 8 points on). Ties widen it. Assumption to check: exchangeability. Residuals that wander in time need
 * `inflation`, a factor on the deviation of S.
 */
export interface Stratum {
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
}

export interface RankSlope {
  slope: number;
  /** -Infinity and +Infinity if there are too few points for the requested confidence. */
  low: number;
  high: number;
  pairs: number;
}

export function rankSlope(strata: readonly Stratum[], z: number, inflation = 1): RankSlope {
  let size = 0;
  let variance = 0;
  for (const { x } of strata) {
    size += (x.length * (x.length - 1)) / 2;
    variance += (x.length * (x.length - 1) * (2 * x.length + 5)) / 18;
  }
  const slopes = new Float64Array(size);
  let pairs = 0;
  for (const { x, y } of strata) {
    for (let i = 1; i < x.length; i++) {
      for (let j = 0; j < i; j++) {
        const dx = x[i]! - x[j]!;
        if (dx !== 0) slopes[pairs++] = (y[i]! - y[j]!) / dx;
      }
    }
  }
  if (pairs === 0) return { slope: 0, low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY, pairs };
  const sorted = slopes.subarray(0, pairs).sort();
  const reach = z * inflation * Math.sqrt(variance);
  const below = Math.floor((pairs - reach) / 2);
  return {
    slope: (sorted[(pairs - 1) >> 1]! + sorted[pairs >> 1]!) / 2,
    low: below < 1 ? Number.NEGATIVE_INFINITY : sorted[below - 1]!,
    high: below < 1 ? Number.POSITIVE_INFINITY : sorted[pairs - below]!,
    pairs,
  };
}
