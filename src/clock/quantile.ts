/**
 * The q-quantile of a non-empty list, with linear interpolation between order statistics: the lists here have as few as six block minima, for which the nearest
 * rank of base/regression.ts would be too coarse.
 */
export function quantile(values: ArrayLike<number>, q: number): number {
  const sorted = Float64Array.from(values).sort();
  const at = q * (sorted.length - 1);
  const below = Math.floor(at);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (high - low) * (at - below);
}
