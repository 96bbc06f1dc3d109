/**
 * Centres from the epoch's own delays, for stores built at its end, and for the oracle of the comparison: exact k-medians in one dimension over the occupied
 * log buckets (at most 0.8 % wide), by dynamic programming.
 *
 *   scale "log":      distances of log(1 + delay / s0): minimises relative errors, below s0 absolute ones. Used by stores.
 *   scale "absolute": distances in ns: the oracle of MAPLE, section 5.2
 *
 * A group is a run of whole buckets. The answer for a packet is the mean of its group (CellTable), not the centre.
 */
import { kMedians1d } from "../../../base/math/kmedians.ts";
import { bucketHigh, bucketLow } from "../../../base/math/log-histogram.ts";
import { type Centres, nearestCentres } from "./centres.ts";

/** Occupied log buckets, ascending: packets, and the mean of their delays. */
export interface DelayHistogram {
  buckets: Int32Array;
  counts: Float64Array;
  meansNs: Float64Array;
}

/** Maximum size of the grid for the dynamic programme: its time grows with the square. */
const MAX_POINTS = 4096;

export function epochCentres(
  histogram: DelayHistogram,
  k: number,
  options: { scale: "log" | "absolute"; s0Ns?: number },
): Centres {
  const { buckets, counts, meansNs } = coarsen(histogram);
  if (buckets.length === 0) return nearestCentres([0]);
  const s0 = options.s0Ns ?? 200;
  const points = options.scale === "absolute" ? meansNs : meansNs.map((d) => signedLog(d, s0));
  const { boundaries } = kMedians1d(points, counts, k);
  const values: number[] = [];
  const uppers: number[] = [];
  let at = 0;
  for (let c = 0; c <= boundaries.length; c++) {
    const until = c < boundaries.length ? boundaries[c]! : Infinity;
    let sum = 0;
    let count = 0;
    let last = 0;
    for (; at < buckets.length && points[at]! < until; at++) {
      sum += counts[at]! * meansNs[at]!;
      count += counts[at]!;
      last = buckets[at]!;
    }
    if (count === 0) continue;
    values.push(Math.round(sum / count));
    // Delays are whole ns: the next group begins above the bucket's largest delay, or in the middle of the gap after it.
    const high = bucketHigh(last) + 1;
    uppers.push(
      at < buckets.length ? Math.max(high, Math.floor((high + bucketLow(buckets[at]!)) / 2)) : Infinity,
    );
  }
  return { valuesNs: Float64Array.from(values), uppersNs: Float64Array.from(uppers), shares: null };
}

/**
 * Returns k centres in pairs: the best k/2 groups, each divided into two. Numbers that lose their last bit then stand for exactly those k/2 groups, which is
 * what most packets of a mixed store keep. A group that cannot be divided has an empty second half.
 */
export function pairedCentres(histogram: DelayHistogram, k: number, s0Ns: number): Centres {
  const { buckets, counts, meansNs } = histogram;
  const options = { scale: "log", s0Ns } as const;
  const values: number[] = [];
  const uppers: number[] = [];
  let from = 0;
  for (const upper of epochCentres(histogram, Math.max(1, k >> 1), options).uppersNs) {
    let to = from;
    while (to < buckets.length && meansNs[to]! < upper) to++;
    const part = {
      buckets: buckets.slice(from, to),
      counts: counts.slice(from, to),
      meansNs: meansNs.slice(from, to),
    };
    const halves = epochCentres(part, 2, options);
    values.push(halves.valuesNs[0]!, halves.valuesNs[1] ?? halves.valuesNs[0]!);
    uppers.push(halves.valuesNs.length > 1 ? halves.uppersNs[0]! : upper, upper);
    from = to;
  }
  return { valuesNs: Float64Array.from(values), uppersNs: Float64Array.from(uppers), shares: null };
}

/** log(1 + |d| / s0) with the sign of d: unsynchronised clocks make delays negative. */
function signedLog(delayNs: number, s0Ns: number): number {
  return Math.sign(delayNs) * Math.log1p(Math.abs(delayNs) / s0Ns);
}

/** Merges neighbouring buckets if there are too many. */
function coarsen(histogram: DelayHistogram): DelayHistogram {
  const n = histogram.buckets.length;
  if (n <= MAX_POINTS) return histogram;
  const step = Math.ceil(n / MAX_POINTS);
  const size = Math.ceil(n / step);
  const out = {
    buckets: new Int32Array(size),
    counts: new Float64Array(size),
    meansNs: new Float64Array(size),
  };
  for (let i = 0; i < n; i++) {
    const j = Math.floor(i / step);
    const count = histogram.counts[i]!;
    out.buckets[j] = histogram.buckets[i]!;
    out.meansNs[j]! += count * histogram.meansNs[i]!;
    out.counts[j]! += count;
  }
  for (let j = 0; j < size; j++) out.meansNs[j]! /= out.counts[j]!;
  return out;
}
