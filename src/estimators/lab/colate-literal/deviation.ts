/**
 * Section 4.2 as written: the sum of the squared delays of a flow from its denoised counters.
 *
 * virtualRepetitions: equations (9) and (10), the mean over random permutations Q of sum_l (v_R[l] - v_S[l])^2 with v_X[l] = w_X[Q[2l]] - w_X[Q[2l-1]]. With x
 * = w_R - w_S, every term is the squared difference of two of the m values x, and every pair is equally likely. So the mean over all permutations is closedForm
 * = m / (m - 1) sum (x - mean x)^2: m times the sample variance of x. Repetitions add no information beyond those m values: the relative standard deviation of
 * the estimate is sqrt(2 / (m - 1)), however many there are.
 */
import type { Random } from "../../../base/random.ts";

/** `x`: w_R - w_S per counter; an even number of them. */
export function virtualRepetitions(x: Float64Array, repetitions: number, random: Random): number {
  const m = x.length;
  const q = Uint32Array.from(x, (_, i) => i);
  let total = 0;
  for (let g = 0; g < repetitions; g++) {
    for (let i = m - 1; i > 0; i--) {
      const j = random.below(i + 1);
      const kept = q[i]!;
      q[i] = q[j]!;
      q[j] = kept;
    }
    for (let l = 0; l + 1 < m; l += 2) {
      const v = x[q[l + 1]!]! - x[q[l]!]!;
      total += v * v;
    }
  }
  return total / repetitions;
}

export function closedForm(x: Float64Array): number {
  const m = x.length;
  const mean = x.reduce((s, v) => s + v, 0) / m;
  return (m / (m - 1)) * x.reduce((s, v) => s + (v - mean) ** 2, 0);
}
