/**
 * Estimates the packets of flows of unknown size from the counters: equation (4) applied to counts instead of times, vector by vector, p = (n_v sum S_c - m
 * P_v) / (n_v - m) / q_v. Only flows that stand out from the others can be sized this way; the others are reported as not measurable.
 */
import type { KnownFlows } from "../estimator.ts";
import type { Difference } from "./difference.ts";

export interface FlowSizes {
  packets: Float64Array;
  /** Variance of `packets`; 0 if the size is known, infinite if it is not measurable. */
  variance: Float64Array;
}

/** An estimate counts as a size if it is this many standard deviations above 0. */
const CLEAR = 5;

export function sizesOf(difference: Difference, known: KnownFlows, places: Uint32Array): FlowSizes {
  const packets = Float64Array.from(known.packets);
  const variance = new Float64Array(known.count);
  if (!packets.some((p) => Number.isNaN(p))) return { packets, variance };
  const { layout, sent } = difference;
  const { m, q, starts } = layout;
  const vectors = q.map((share, v) => {
    const size = starts[v + 1]! - starts[v]!;
    let sum = 0;
    let squares = 0;
    for (let c = starts[v]!; c < starts[v + 1]!; c++) {
      sum += sent[c]!;
      squares += sent[c]! ** 2;
    }
    const mean = sum / size;
    return { share, size, sum, spread: Math.max(mean, squares / size - mean * mean) };
  });
  const perFlow = q.length * m;
  for (let f = 0; f < known.count; f++) {
    if (!Number.isNaN(packets[f]!)) continue;
    let weighted = 0;
    let precision = 0;
    for (const [v, { share, size, sum, spread }] of vectors.entries()) {
      const cells = new Set(places.subarray(f * perFlow + v * m, f * perFlow + (v + 1) * m));
      const k = cells.size;
      let own = 0;
      for (const c of cells) own += sent[c]!;
      const estimate = (size * own - k * sum) / (size - k) / share;
      const w = (share * share) / (k * spread + 1e-9);
      weighted += w * estimate;
      precision += w;
    }
    const p = weighted / precision;
    const clear = p > CLEAR * Math.sqrt(1 / precision);
    packets[f] = clear ? p : Number.NaN;
    variance[f] = clear ? 1 / precision : Number.POSITIVE_INFINITY;
  }
  return { packets, variance };
}
