/** Estimates, from the cells alone, what packets of unnamed flows add to a cell, and how far flows lie from the common mean. */
import { fitVariance, type VarianceFit } from "./variance.ts";

/** Variance of the delay sum of N background packets around N times the mean: alpha N + beta N^2. */
export interface SmoothBackground {
  alpha: number;
  beta: number;
}

export function smoothVariance({ alpha, beta }: SmoothBackground, packets: number): number {
  return alpha * packets + beta * packets * packets;
}

/** The same, refined by the number of packets in a cell. */
export interface Background {
  meanNs: number;
  /** Variance of the mean of N background packets around the common mean, by log2 N. */
  byLog2: Float64Array;
  /** Variance of a flow's mean; errs on the high side. */
  flowVariance: number;
}

interface BackgroundCells {
  cells: ArrayLike<number>;
  delaySumNs: Float64Array;
  packets: ArrayLike<number>;
}

const BINS = 33;
/** Minimum number of cells for a size bin to be judged on its own. */
const BIN_CELLS = 30;
/** Weight of the smooth form alpha N + beta N^2 in a size bin, in cells. It dominates in bins with few cells. */
const SMOOTH_CELLS = 8;
/** Cells beyond this many squared standard deviations hold different packets at the two ends, or a wrong timestamp. */
const BEYOND = 100;

/** Fits alpha (`second`) and beta (`first`) of the background. */
export function fitSmooth({ cells, delaySumNs, packets }: BackgroundCells): VarianceFit {
  const x1 = new Float64Array(delaySumNs.length);
  for (let i = 0; i < cells.length; i++) x1[cells[i]!] = packets[cells[i]!]! ** 2;
  return fitVariance({ cells, delaySumNs, packets, x1 });
}

export function fitBackground(of: BackgroundCells): Background {
  const fit = fitSmooth(of);
  const { sums, sizes } = bySize(of, fit);
  const byLog2 = new Float64Array(BINS);
  for (let bin = 0; bin < BINS; bin++) {
    const smooth = fit.first + fit.second / (1.5 * 2 ** bin);
    byLog2[bin] = (sums[bin]! + SMOOTH_CELLS * smooth) / (sizes[bin]! + SMOOTH_CELLS);
  }
  return { meanNs: fit.meanNs, byLog2, flowVariance: flowVarianceOf(sums, sizes, fit) };
}

/**
 * Returns the variance of a flow's mean if no flow is known. A cell mixes flows, so its mean varies less than a flow's. The cell size whose means vary most
 * is closest to single flows.
 */
export function looseFlowVariance(of: BackgroundCells, fit: VarianceFit): number {
  const { sums, sizes } = bySize(of, fit);
  return flowVarianceOf(sums, sizes, fit);
}

/** Variance of the delay sum of N background packets around N x mean. */
export function backgroundVariance({ byLog2 }: Background, packets: number): number {
  // A bin's value belongs to about 1.5 x 2^bin packets; between those points it is interpolated.
  const at = Math.min(BINS - 1.001, Math.max(0, Math.log2(Math.max(1, packets)) - 0.585));
  const bin = Math.floor(at);
  const low = byLog2[bin]!;
  return packets * packets * (low + (at - bin) * (byLog2[bin + 1]! - low));
}

/** Returns, by cell size, the squared distances of the cells' means from the common mean, and the number of cells. */
function bySize({ cells, delaySumNs, packets }: BackgroundCells, fit: VarianceFit) {
  const smooth = { alpha: fit.second, beta: fit.first };
  const sums = new Float64Array(BINS);
  const sizes = new Float64Array(BINS);
  for (let i = 0; i < cells.length; i++) {
    const n = packets[cells[i]!]!;
    const y = delaySumNs[cells[i]!]! - fit.meanNs * n;
    if (y * y > BEYOND * smoothVariance(smooth, n)) continue;
    const bin = 31 - Math.clz32(n);
    sums[bin]! += (y / n) ** 2;
    sizes[bin]!++;
  }
  return { sums, sizes };
}

function flowVarianceOf(sums: Float64Array, sizes: Float64Array, { first }: VarianceFit): number {
  const cells = sizes.reduce((s, n) => s + n, 0);
  let variance = Math.max(first, cells > 0 ? sums.reduce((s, x) => s + x, 0) / cells : 0);
  for (const [bin, size] of sizes.entries()) {
    if (size >= BIN_CELLS) variance = Math.max(variance, sums[bin]! / size);
  }
  return variance;
}
