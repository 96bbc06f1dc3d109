/**
 * How delays vary, estimated from the cells themselves. For a cell with N packets whose delays sum to Delta, y = Delta - mean N has
 * E[y^2] = first X1 + second X2 with known X1, X2; both coefficients come from a regression of y^2, weighted by the inverse square of its
 * prediction and repeated.
 *   known flows:  X1 = sum a^2 + chance, X2 = N: V between the means of flows, s^2 within a flow
 *   no flows:     X1 = N^2, X2 = N:         beta and alpha of a background of N packets
 * V and s^2 may be off by a factor of four with little harm to the answers; to their intervals it matters more.
 */
export interface VarianceFit {
  /** The mean that weighs cells by N^2 / E[y^2]: over flows rather than packets, which no single giant decides. */
  meanNs: number;
  first: number;
  second: number;
}

const ROUNDS = 12;
/** Beyond ten deviations a cell tells more about itself than about the others. */
const CLIP = 100;

export function fitVariance(
  packets: Float64Array,
  delayNs: Float64Array,
  x1: (cell: number) => number,
): VarianceFit {
  const cells: number[] = [];
  let meanNs = 0;
  let total = 0;
  for (let c = 0; c < packets.length; c++) {
    if (packets[c] === 0) continue;
    cells.push(c);
    meanNs += delayNs[c]!;
    total += packets[c]!;
  }
  if (total === 0) return { meanNs: 0, first: 0, second: 0 };
  meanNs /= total;
  const xs = Float64Array.from(cells, x1);
  let first = 0;
  let second = 0;
  for (let round = 0; round < ROUNDS; round++) {
    let [s11, s12, s22, t1, t2] = [0, 0, 0, 0, 0];
    let numerator = 0;
    let denominator = 0;
    for (let i = 0; i < cells.length; i++) {
      const c = cells[i]!;
      const n = packets[c]!;
      const x = xs[i]!;
      // The first round has no prediction yet: cells count as if all of their packets were one flow.
      const predicted = (round === 0 ? n * n : first * x + second * n) + 1e-9;
      const y = delayNs[c]! - meanNs * n;
      const square = round < 2 ? y * y : Math.min(y * y, CLIP * predicted);
      const w = 1 / (predicted * predicted);
      s11 += w * x * x;
      s12 += w * x * n;
      s22 += w * n * n;
      t1 += w * x * square;
      t2 += w * n * square;
      numerator += (delayNs[c]! * n) / predicted;
      denominator += (n * n) / predicted;
    }
    meanNs = numerator / denominator;
    const determinant = s11 * s22 - s12 * s12;
    const both = determinant > 1e-9 * s11 * s22;
    // Where the two cannot be told apart (one flow to a cell), all is between flows.
    first = both ? (t1 * s22 - t2 * s12) / determinant : t1 / s11;
    second = both ? (t2 * s11 - t1 * s12) / determinant : 0;
    if (second < 0) [first, second] = [t1 / s11, 0];
    if (first < 0) [first, second] = [0, t2 / s22];
  }
  return { meanNs, first, second };
}
