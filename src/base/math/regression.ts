/**
 * Robust location and spread, and the lower convex hull: statistics that one outlier in two values cannot move. The answer for empty input is null. Nothing
 * here changes its input.
 */
import { nearestRank } from "./log-histogram.ts";
import { lgamma } from "./special.ts";

/** Returns the middle value, or the mean of the two middle ones, in linear time. */
export function median(values: ArrayLike<number>): number | null {
  const n = values.length;
  if (n === 0) return null;
  const copy = Float64Array.from(values);
  const upper = select(copy, n >> 1);
  if (n % 2 === 1) return upper;
  // After selection nothing left of the middle is above it: the lower middle is the largest of those values.
  let lower = -Infinity;
  for (let i = 0; i < n >> 1; i++) if (copy[i]! > lower) lower = copy[i]!;
  return lower + (upper - lower) / 2;
}

/** Returns the nearest-rank quantile (the ceil(q n)-th smallest) of ascending values, as the histogram defines it. */
export function quantileSorted(sorted: ArrayLike<number>, q: number): number | null {
  return sorted.length === 0 ? null : sorted[nearestRank(q, sorted.length) - 1]!;
}

/**
 * Returns where the median of as many new values from the same distribution lies, given ascending values: an interval between two of them that holds it with at
 * least the confidence, or the whole range if they are too few for that. Every order of old and new values is equally likely, so the distribution does not
 * matter.
 */
export function medianAgain(
  sorted: ArrayLike<number>,
  confidence = 0.95,
): { low: number; high: number } | null {
  const n = sorted.length;
  if (n === 0) return null;
  const rank = nearestRank(0.5, n);
  const miss = (1 - confidence) / 2;
  // Log of P(j of the old values lie below the new median), from j = 0 on.
  let share = lgamma(2 * n - rank + 1) + lgamma(n + 1) - lgamma(n - rank + 1) - lgamma(2 * n + 1);
  let below = 0;
  let [low, high] = [0, n - 1];
  for (let j = 0; j < n; j++) {
    below += Math.exp(share);
    // More than j of the old values lie below the new median.
    if (below <= miss) low = j;
    else if (below >= 1 - miss) {
      high = j;
      break;
    }
    share += Math.log(((j + rank) / (j + 1)) * ((n - j) / (2 * n - j - rank)));
  }
  return { low: sorted[low]!, high: sorted[high]! };
}

/**
 * Returns the indices of the corners of the lower convex hull of points with ascending x, left to right, without points on an edge. Linear time (Andrew's
 * monotone chain).
 */
export function lowerHullIndices(xs: Float64Array, ys: Float64Array): Uint32Array {
  const hull = new Uint32Array(xs.length);
  let size = 0;
  for (let i = 0; i < xs.length; i++) {
    const x = xs[i]!;
    const y = ys[i]!;
    if (i > 0 && !(x >= xs[i - 1]!)) throw new RangeError(`x does not ascend at point ${i}`);
    // Of points with equal x only the lowest counts.
    if (size > 0 && xs[hull[size - 1]!] === x) {
      if (ys[hull[size - 1]!]! <= y) continue;
      size--;
    }
    while (size >= 2) {
      const a = hull[size - 2]!;
      const b = hull[size - 1]!;
      if (turn(xs[a]!, ys[a]!, xs[b]!, ys[b]!, x, y) > 0) break;
      size--;
    }
    hull[size++] = i;
  }
  return hull.slice(0, size);
}

// Returns a value above zero if a, b, c turn left. Products of nanoseconds exceed 2^53, so a doubtful sign is computed exactly.
function turn(ax: number, ay: number, bx: number, by: number, cx: number, cy: number): number {
  const left = (bx - ax) * (cy - ay);
  const right = (by - ay) * (cx - ax);
  const difference = left - right;
  // Each product has at most four roundings of 2^-53; 2^-50 is more than enough.
  if (Math.abs(difference) > (Math.abs(left) + Math.abs(right)) * 2 ** -50) return difference;
  const whole = Number.isInteger(ax) && Number.isInteger(ay) && Number.isInteger(bx) && Number.isInteger(by);
  if (!(whole && Number.isInteger(cx) && Number.isInteger(cy))) return difference;
  const exactLeft = (BigInt(bx) - BigInt(ax)) * (BigInt(cy) - BigInt(ay));
  const exactRight = (BigInt(by) - BigInt(ay)) * (BigInt(cx) - BigInt(ax));
  return exactLeft > exactRight ? 1 : exactLeft < exactRight ? -1 : 0;
}

// Hoare's selection with the median of three as pivot: afterwards values[k] is what it would be if sorted.
function select(values: Float64Array, k: number): number {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const a = values[low]!;
    const b = values[(low + high) >>> 1]!;
    const c = values[high]!;
    const pivot = Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));
    let i = low;
    let j = high;
    while (i <= j) {
      while (values[i]! < pivot) i++;
      while (values[j]! > pivot) j--;
      if (i > j) break;
      const kept = values[i]!;
      values[i++] = values[j]!;
      values[j--] = kept;
    }
    if (k <= j) high = j;
    else if (k >= i) low = i;
    else break;
  }
  return values[k]!;
}
