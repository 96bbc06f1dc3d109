/** Equations (2), (4) and (7) of the paper, in units of time. */
import { digamma } from "../../../base/math/special.ts";

/** One flow at one point. */
export interface FlowAtPoint {
  /** The flow's m counters. */
  counters: Float64Array;
  /** Sum of all n counters. */
  total: number;
  n: number;
}

/** Equation (4): the sum of the flow's timestamps. */
export function timeSum({ counters, total, n }: FlowAtPoint): number {
  const m = counters.length;
  const sum = counters.reduce((s, c) => s + c, 0);
  return (n * sum - m * total) / (n - m);
}

/** Equation (2) and its consequence for (4): the variance of the time sum as in the paper, which is too small by a factor of E[t^2] / E[t]. */
export function timeSumVariance({ counters, total, n }: FlowAtPoint, estimate: number): number {
  const m = counters.length;
  const own = Math.min(total, Math.max(0, estimate));
  const counter = (own / m) * (1 - 1 / m) + ((total - own) / n) * (1 - 1 / n);
  return ((n * n * m) / (n - m) ** 2) * counter;
}

/**
 * Equation (7): the flow's part of each counter. It solves ln(n - 1) = psi(tau - xi + 1) - psi(xi + 1) with tau = total - estimate for the noise xi = S[j] -
 * w[j]. The counter's own value does not occur in it: xi is the same for all counters, so this is plain subtraction, and it cancels in differences of counters
 * (9).
 */
export function denoise({ counters, total, n }: FlowAtPoint, estimate: number): Float64Array {
  const xi = noiseOfCounter(Math.max(0, total - estimate), n);
  return counters.map((s) => s - xi);
}

export function noiseOfCounter(tau: number, n: number): number {
  const target = Math.log(n - 1);
  // The difference decreases from infinity at xi = -1 as xi grows.
  let low = -1;
  let high = tau + 1;
  for (let i = 0; i < 200 && high - low > 1e-9 * (1 + Math.abs(high)); i++) {
    const xi = (low + high) / 2;
    if (digamma(tau - xi + 1) - digamma(xi + 1) > target) low = xi;
    else high = xi;
  }
  return (low + high) / 2;
}
