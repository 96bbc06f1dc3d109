/**
 * The q-quantile of a list that is not empty, between order statistics by linear interpolation: the lists
 * here are as short as six block minima, where the nearest rank of base/regression.ts would jump from one to
 * the next.
 */
export function quantile(values: ArrayLike<number>, q: number): number {
  const sorted = Float64Array.from(values).sort();
  const at = q * (sorted.length - 1);
  const below = Math.floor(at);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (high - low) * (at - below);
}
