/**
 * How delays vary, estimated from the cells themselves. For a cell with N packets whose delays sum to Delta, y = Delta - mean N has
 * E[y^2] = first X1 + second X2 with known X1, X2; both coefficients come from a regression of y^2, weighted by the inverse square of its
 * prediction and repeated.
 *   known flows:  X1 = sum a^2 + chance, X2 = N: V between the means of flows, s^2 within a flow
 *   no flows:     X1 = N^2, X2 = N:         beta and alpha of a background of N packets
 * Delays that are correlated in time make flows of many packets, which last, differ less in their means than short ones: V p^-gamma, with the
 * gamma that makes the cells most likely.
 * V and s^2 may be off by a factor of four with little harm to the answers; to their intervals it matters more.
 */
import { median } from "../../base/math/regression.ts";

export interface VarianceFit {
  /** The mean that weighs cells by N^2 / E[y^2]: over flows rather than packets, which no single giant decides. */
  meanNs: number;
  meanVariance: number;
  first: number;
  second: number;
  /** Standard error of the second, by how far the squares are from what was expected of them (the sandwich of White). */
  secondError: number;
  /** -2 ln likelihood of the cells, but for a constant. */
  deviance: number;
}

const ROUNDS = 16;
/** Median of the square of a standard normal. */
const HALF_SQUARE = 0.4549;
/** Beyond ten deviations a cell tells more about itself than about the others. */
const CLIP = 100;

/** `known`: what is known from elsewhere of each cell's E[y^2]; then the second coefficient is 0. */
export function fitVariance(
  packets: Float64Array,
  delayNs: Float64Array,
  x1: (cell: number) => number,
  known: Float64Array | null = null,
): VarianceFit {
  const cells: number[] = [];
  for (let c = 0; c < packets.length; c++) if (packets[c]! > 0) cells.push(c);
  if (cells.length === 0)
    return { meanNs: 0, meanVariance: 0, first: 0, second: 0, secondError: 0, deviance: 0 };
  // Medians to begin with: a cell that holds different packets at its ends is off by seconds.
  let meanNs = median(cells.map((c) => delayNs[c]! / packets[c]!))!;
  let meanVariance = 0;
  let first = 0;
  let second =
    median(cells.map((c) => (delayNs[c]! - meanNs * packets[c]!) ** 2 / packets[c]!))! / HALF_SQUARE;
  if (known) second = 0;
  let secondError = 0;
  let deviance = 0;
  const xs = Float64Array.from(cells, x1);
  for (let round = 0; round < ROUNDS; round++) {
    let [s11, s12, s22, t1, t2] = [0, 0, 0, 0, 0];
    let [e11, e12, e22] = [0, 0, 0];
    let numerator = 0;
    let denominator = 0;
    deviance = 0;
    for (let i = 0; i < cells.length; i++) {
      const c = cells[i]!;
      const n = packets[c]!;
      const x = xs[i]!;
      const rest = known ? known[c]! : 0;
      const predicted = first * x + second * n + rest + 1e-9;
      const y = delayNs[c]! - meanNs * n;
      const square = Math.min(y * y, CLIP * predicted);
      const w = 1 / (predicted * predicted);
      deviance += Math.log(predicted) + square / predicted;
      s11 += w * x * x;
      s12 += w * x * n;
      s22 += w * n * n;
      t1 += w * x * (square - rest);
      t2 += w * n * square;
      const miss = (w * (square - predicted)) ** 2;
      e11 += miss * x * x;
      e12 += miss * x * n;
      e22 += miss * n * n;
      // A clipped cell has no say in the mean.
      if (square < y * y) continue;
      numerator += (delayNs[c]! * n) / predicted;
      denominator += (n * n) / predicted;
    }
    if (denominator > 0) meanNs = numerator / denominator;
    meanVariance = denominator > 0 ? 1 / denominator : 0;
    const determinant = s11 * s22 - s12 * s12;
    const both = determinant > 1e-9 * s11 * s22;
    const meat = s11 * s11 * e22 - 2 * s11 * s12 * e12 + s12 * s12 * e11;
    secondError = both ? Math.sqrt(Math.max(0, meat)) / determinant : 0;
    // Where the two cannot be told apart (one flow to a cell), all is between flows.
    first = both ? (t1 * s22 - t2 * s12) / determinant : t1 / s11;
    second = both ? (t2 * s11 - t1 * s12) / determinant : 0;
    if (known) {
      [first, second, secondError] = [Math.max(0, t1 / s11), 0, 0];
      continue;
    }
    if (second < 0) [first, second] = [t1 / s11, 0];
    if (first < 0) [first, second] = [0, t2 / s22];
  }
  return { meanNs, meanVariance, first, second, secondError, deviance };
}
