/**
 * Exact weighted k-medians in one dimension: finds the k centres that minimise the weighted sum of distances to the nearest centre, by dynamic programming over
 * sorted values.
 *
 * best[j][i] = min over m of best[j-1][m] + cost(m, i), where cost(m, i) is the weighted distance of values m … i-1 from their weighted median. That cost
 * satisfies the quadrangle inequality, so the best m of (j, i) lies between those of (j-1, i) and (j, i+1) (Knuth 1971; Yao 1980): O(n (n + k)) instead of O(k
 * n^2). Within such a range m only grows, so the median only moves right and is found by stepping from the previous one.
 *
 * Memory: k n indices of 2 bytes (4 beyond 65,535 values). Costs are differences of prefix sums in doubles: exact for integers below 2^53; otherwise the choice
 * is optimal within about 1e-15 of the total sum of distances.
 */

export interface KMedians {
  /** Ascending; fewer than k if there are fewer distinct values with weight. */
  readonly centres: Float64Array;
  /** Midpoints of neighbouring centres: v belongs to centre c where boundaries[c-1] <= v < boundaries[c]. */
  readonly boundaries: Float64Array;
  /** The weighted sum of distances. */
  readonly cost: number;
}

export function kMedians1d(valuesSorted: Float64Array, weights: Float64Array, k: number): KMedians {
  if (!(Number.isInteger(k) && k >= 1)) throw new RangeError(`cannot make ${k} clusters`);
  const { values, sums, moments } = distinct(valuesSorted, weights);
  const n = values.length;
  if (n <= k)
    return clustersOf(
      values,
      sums,
      Uint32Array.from({ length: n + 1 }, (_, i) => i),
    );

  // Layer 1, then one layer per further centre. `choice` keeps the best m of every (j, i), to walk back from the end.
  let best = new Float64Array(n + 1);
  let next = new Float64Array(n + 1);
  const stride = n + 1;
  const choice = n <= 0xffff ? new Uint16Array((k - 1) * stride) : new Uint32Array((k - 1) * stride);
  for (let i = 1; i <= n; i++) best[i] = costAt(values, sums, moments, 0, i, medianOf(sums, 0, i, 0));
  for (let j = 2; j <= k; j++) {
    const row = (j - 2) * stride;
    // The last layer needs only (k, n), and j centres need at least j values.
    const lowest = j === k ? n : j;
    let upper = n - 1;
    for (let i = n; i >= lowest; i--) {
      const lower = j === 2 ? 1 : Math.max(j - 1, choice[row - stride + i]!);
      const last = Math.min(upper, i - 1);
      let minimum = Infinity;
      let at = lower;
      let middle = lower;
      for (let m = lower; m <= last; m++) {
        middle = medianOf(sums, m, i, middle);
        const cost = best[m]! + costAt(values, sums, moments, m, i, middle);
        if (cost < minimum) {
          minimum = cost;
          at = m;
        }
      }
      next[i] = minimum;
      choice[row + i] = at;
      upper = at;
    }
    [best, next] = [next, best];
  }
  const starts = new Uint32Array(k + 1);
  starts[k] = n;
  for (let j = k; j >= 2; j--) starts[j - 1] = choice[(j - 2) * stride + starts[j]!]!;
  return clustersOf(values, sums, starts);
}

// Distinct values with weight, and prefix sums of weight and of weight times distance from the first value. Distances are relative to the first value because
// an offset common to all values would cost precision.
function distinct(valuesSorted: Float64Array, weights: Float64Array) {
  if (valuesSorted.length !== weights.length) {
    throw new RangeError(`${valuesSorted.length} values, but ${weights.length} weights`);
  }
  const values = new Float64Array(valuesSorted.length);
  const sums = new Float64Array(valuesSorted.length + 1);
  const moments = new Float64Array(valuesSorted.length + 1);
  let n = 0;
  for (let i = 0; i < valuesSorted.length; i++) {
    const value = valuesSorted[i]!;
    const weight = weights[i]!;
    if (!Number.isFinite(value) || (i > 0 && value < valuesSorted[i - 1]!)) {
      throw new RangeError(`value ${i} (${value}) is not finite or does not ascend`);
    }
    if (!(weight >= 0 && weight < Infinity)) throw new RangeError(`weight ${i} is ${weight}`);
    if (weight === 0) continue;
    if (n === 0 || values[n - 1] !== value) {
      values[n++] = value;
      sums[n] = sums[n - 1]!;
      moments[n] = moments[n - 1]!;
    }
    sums[n]! += weight;
    moments[n]! += weight * (value - values[0]!);
  }
  return { values: values.slice(0, n), sums: sums.slice(0, n + 1), moments: moments.slice(0, n + 1) };
}

// Returns the index of the lower weighted median of values start … end-1: the first index with at least half of the weight up to it. `from` is an index not
// beyond it, such as the median for a smaller start.
function medianOf(sums: Float64Array, start: number, end: number, from: number): number {
  const half = sums[start]! + (sums[end]! - sums[start]!) / 2;
  let low = Math.max(from, start);
  const near = Math.min(low + 8, end - 1);
  while (low < near && sums[low + 1]! < half) low++;
  if (low < near || low === end - 1 || sums[low + 1]! >= half) return low;
  let high = end - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sums[middle + 1]! < half) low = middle + 1;
    else high = middle;
  }
  return low;
}

function costAt(
  values: Float64Array,
  sums: Float64Array,
  moments: Float64Array,
  start: number,
  end: number,
  median: number,
): number {
  const centre = values[median]! - values[0]!;
  const weight = 2 * sums[median]! - sums[start]! - sums[end]!;
  const moment = moments[start]! + moments[end]! - 2 * moments[median]!;
  return Math.max(0, centre * weight + moment);
}

// The cost is summed again from the distances themselves: prefix sums may leave a rounding error where it should be zero.
function clustersOf(values: Float64Array, sums: Float64Array, starts: Uint32Array): KMedians {
  const k = Math.max(0, starts.length - 1);
  const centres = new Float64Array(k);
  const boundaries = new Float64Array(Math.max(0, k - 1));
  let cost = 0;
  for (let c = 0; c < k; c++) {
    const start = starts[c]!;
    const end = starts[c + 1]!;
    const centre = values[medianOf(sums, start, end, start)]!;
    centres[c] = centre;
    for (let i = start; i < end; i++) cost += (sums[i + 1]! - sums[i]!) * Math.abs(values[i]! - centre);
    if (c > 0) boundaries[c - 1] = centres[c - 1]! + (centre - centres[c - 1]!) / 2;
  }
  return { centres, boundaries, cost };
}
