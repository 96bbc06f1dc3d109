/**
 * How delays vary, estimated from the cells themselves: the basis of every decoder's error bars. For a cell with N packets whose delays sum to S, y = S -
 * mean N has E[y^2] = first X1 + second X2, with known X1 and X2. Both coefficients come from an iterated regression of y^2, weighted by the inverse square
 * of its prediction. The mean weights cells by N^2 / E[y^2], that is, flows rather than packets, so that no single giant flow dominates it.
 *   known flows:  X1 = sum a^2 + chance, X2 = N:  V between the means of flows, s^2 within a flow
 *   no flows:     X1 = N^2, X2 = N:               beta and alpha of a background of N packets
 * The starting values are medians, so that a cell far out of range (a wrong timestamp) has no influence. An error of a factor of four in V and s^2 hardly
 * harms the answers; it matters more for their intervals.
 */
import { median } from "../../base/math/regression.ts";

export interface CellMoments {
  /** Indices of the cells in the columns; each cell holds packets. */
  cells: ArrayLike<number>;
  delaySumNs: Float64Array;
  packets: ArrayLike<number>;
  x1: Float64Array;
  /** Default: the packets. */
  x2?: ArrayLike<number>;
  /** A known part of each cell's E[y^2]; the second coefficient is then 0. */
  known?: Float64Array | null;
}

export interface VarianceFit {
  meanNs: number;
  meanVariance: number;
  first: number;
  second: number;
  /** Standard error of `second`, from the residuals of the squares (White's sandwich estimator). */
  secondError: number;
  /** -2 ln likelihood of the cells, up to a constant. */
  deviance: number;
}

const ROUNDS = 16;
/** Median of the square of a standard normal variable. */
const HALF_SQUARE = 0.4549;
/** The limit in squared standard deviations: cells beyond ten standard deviations are outliers. */
const CLIP = 100;

export function fitVariance(moments: CellMoments): VarianceFit {
  const { cells, delaySumNs, packets, known = null } = moments;
  const list = Array.from(cells);
  let fit: VarianceFit = {
    ...{ meanNs: 0, meanVariance: 0, first: 0, second: 0, secondError: 0, deviance: 0 },
    meanNs: median(list.map((c) => delaySumNs[c]! / packets[c]!)) ?? 0,
  };
  if (list.length === 0) return fit;
  if (!known) {
    const { meanNs } = fit;
    const squares = list.map((c) => (delaySumNs[c]! - meanNs * packets[c]!) ** 2 / packets[c]!);
    fit.second = (median(squares) ?? 0) / HALF_SQUARE;
  }
  for (let round = 0; round < ROUNDS; round++) fit = refine(moments, fit);
  return fit;
}

/** One round of the regression. */
function refine(
  { cells, delaySumNs, packets, x1, x2 = packets, known = null }: CellMoments,
  before: VarianceFit,
): VarianceFit {
  const { first, second } = before;
  let [s11, s12, s22, t1, t2] = [0, 0, 0, 0, 0];
  let [e11, e12, e22] = [0, 0, 0];
  let [numerator, denominator, deviance] = [0, 0, 0];
  for (let i = 0; i < cells.length; i++) {
    const c = cells[i]!;
    const n = packets[c]!;
    const [a, b] = [x1[c]!, x2[c]!];
    const rest = known ? known[c]! : 0;
    const predicted = first * a + second * b + rest + 1e-9;
    const y = delaySumNs[c]! - before.meanNs * n;
    const square = Math.min(y * y, CLIP * predicted);
    const w = 1 / (predicted * predicted);
    deviance += Math.log(predicted) + square / predicted;
    s11 += w * a * a;
    s12 += w * a * b;
    s22 += w * b * b;
    t1 += w * a * (square - rest);
    t2 += w * b * square;
    const miss = (w * (square - predicted)) ** 2;
    e11 += miss * a * a;
    e12 += miss * a * b;
    e22 += miss * b * b;
    // A clipped cell does not count for the mean.
    if (square < y * y) continue;
    numerator += (delaySumNs[c]! * n) / predicted;
    denominator += (n * n) / predicted;
  }
  const meanNs = denominator > 0 ? numerator / denominator : before.meanNs;
  const out = { meanNs, meanVariance: denominator > 0 ? 1 / denominator : 0, deviance };
  if (known) return { ...out, first: Math.max(0, t1 / s11), second: 0, secondError: 0 };
  const determinant = s11 * s22 - s12 * s12;
  // If the two are not distinguishable (one flow per cell), all variance is between flows.
  if (!(determinant > 1e-9 * s11 * s22)) return { ...out, first: t1 / s11, second: 0, secondError: 0 };
  const meat = s11 * s11 * e22 - 2 * s11 * s12 * e12 + s12 * s12 * e11;
  const secondError = Math.sqrt(Math.max(0, meat)) / determinant;
  const both = { first: (t1 * s22 - t2 * s12) / determinant, second: (t2 * s11 - t1 * s12) / determinant };
  if (both.second < 0) return { ...out, first: t1 / s11, second: 0, secondError };
  if (both.first < 0) return { ...out, first: 0, second: t2 / s22, secondError };
  return { ...out, ...both, secondError };
}

/** Returns the cells that hold packets. */
export function filledCells(packets: ArrayLike<number>): number[] {
  const cells: number[] = [];
  for (let c = 0; c < packets.length; c++) if (packets[c]! > 0) cells.push(c);
  return cells;
}
