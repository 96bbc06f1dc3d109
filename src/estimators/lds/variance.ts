/**
 * How delays vary, estimated from the cells themselves: what every decoder's error bar rests on.
 *
 * For a cell with delay sum S and N packets, y = S - mean N has E[y^2] = first x X1 + second x X2 for known X1, X2, so both coefficients come from a
 * regression of y^2, weighted by the inverse square of its prediction and repeated. The mean is the one that weighs cells by
 * N^2 / E[y^2]: the mean over flows rather than packets, which no single giant decides.
 *   known flows:   X1 = sum of a_g^2 (+ chance allocation), X2 = sum of a_g: variance V between flow means, s^2 within a flow
 *   unknown ones:  X1 = N^2, X2 = N: a background of N packets has the variance alpha N + beta N^2, refined by the size of cell
 */
export interface CellMoments {
  /** Cells, as indices into the columns. */
  cells: Uint32Array;
  delaySumNs: Float64Array;
  packets: ArrayLike<number>;
  x1: Float64Array;
  x2: Float64Array;
}

export interface VarianceFit {
  meanNs: number;
  first: number;
  second: number;
}

const ROUNDS = 12;
// Beyond ten deviations a cell tells more about itself than about the others.
const CLIP = 100;

export function fitVariance({ cells, delaySumNs, packets, x1, x2 }: CellMoments): VarianceFit {
  let meanNs = 0;
  let total = 0;
  for (const c of cells) {
    meanNs += delaySumNs[c]!;
    total += packets[c]!;
  }
  meanNs = total > 0 ? meanNs / total : 0;
  let first = 0;
  let second = 0;
  for (let round = 0; round < ROUNDS; round++) {
    let s11 = 0;
    let s12 = 0;
    let s22 = 0;
    let t1 = 0;
    let t2 = 0;
    let numerator = 0;
    let denominator = 0;
    for (const c of cells) {
      const n = packets[c]!;
      const [a, b] = [x1[c]!, x2[c]!];
      // The first round has no prediction yet: all cells count alike.
      const predicted = (round === 0 ? a : first * a + second * b) + 1e-9;
      const y = delaySumNs[c]! - meanNs * n;
      const square = round < 2 ? y * y : Math.min(y * y, CLIP * predicted);
      const w = 1 / (predicted * predicted);
      s11 += w * a * a;
      s12 += w * a * b;
      s22 += w * b * b;
      t1 += w * a * square;
      t2 += w * b * square;
      numerator += (delaySumNs[c]! * n) / predicted;
      denominator += (n * n) / predicted;
    }
    if (!(denominator > 0)) return { meanNs, first: 0, second: 0 };
    meanNs = numerator / denominator;
    const determinant = s11 * s22 - s12 * s12;
    const both = determinant > 1e-12 * s11 * s22;
    first = both ? (t1 * s22 - t2 * s12) / determinant : t1 / s11;
    second = both ? (t2 * s11 - t1 * s12) / determinant : 0;
    if (second < 0) [first, second] = [t1 / s11, 0];
    if (first < 0) [first, second] = [0, t2 / s22];
  }
  return { meanNs, first, second };
}

/** What a set of unknown packets adds to a cell, and how far a flow's mean lies from the common one. */
export interface Background {
  meanNs: number;
  /** Variance of the mean of N background packets around the common mean, by log2 N. */
  byLog2: Float64Array;
  /** Variance of a flow's mean, on the safe side. */
  flowVariance: number;
}

const BIN_CELLS = 30;
/** The smooth form alpha N + beta N^2 speaks with the voice of so many cells where a size of cell is rare. */
const SMOOTH_CELLS = 8;

/** From the usable cells alone, no flow known. */
export function fitBackground(
  cells: Uint32Array,
  delaySumNs: Float64Array,
  packets: ArrayLike<number>,
): Background {
  const x1 = new Float64Array(delaySumNs.length);
  const x2 = new Float64Array(delaySumNs.length);
  for (const c of cells) {
    x2[c] = packets[c]!;
    x1[c] = packets[c]! * packets[c]!;
  }
  const { meanNs, first: beta, second: alpha } = fitVariance({ cells, delaySumNs, packets, x1, x2 });
  const sums = new Float64Array(33);
  const sizes = new Float64Array(33);
  let sum = 0;
  for (const c of cells) {
    const d = delaySumNs[c]! / packets[c]! - meanNs;
    const bin = 31 - Math.clz32(packets[c]!);
    sums[bin]! += d * d;
    sizes[bin]!++;
    sum += d * d;
  }
  // Cell means vary less than flow means, for a cell mixes flows: the size of cell where they vary most is nearest to a flow.
  let flowVariance = cells.length > 0 ? sum / cells.length : 0;
  const byLog2 = new Float64Array(33);
  for (const [bin, size] of sizes.entries()) {
    if (size >= BIN_CELLS) flowVariance = Math.max(flowVariance, sums[bin]! / size);
    const smooth = beta + alpha / (1.5 * 2 ** bin);
    byLog2[bin] = (sums[bin]! + SMOOTH_CELLS * smooth) / (size + SMOOTH_CELLS);
  }
  return { meanNs, byLog2, flowVariance };
}

/** Variance of the sum of N background packets around N x mean. */
export function backgroundVariance(background: Background, packets: number): number {
  const { byLog2 } = background;
  // Bins hold their sizes' mean at about 1.5 x 2^bin: between those points it is interpolated.
  const at = Math.min(31.999, Math.max(0, Math.log2(Math.max(1, packets)) - 0.585));
  const bin = Math.floor(at);
  const low = byLog2[bin]!;
  return packets * packets * (low + (at - bin) * (byLog2[bin + 1]! - low));
}
