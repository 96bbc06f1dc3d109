/**
 * The mean delay of all packets from one row. Full cells lose packets more often than empty ones, so usable cells are not a random sample. Each usable cell
 * also represents the unusable cells of its size (Horvitz-Thompson, with the probability of being usable estimated by cell size).
 */
import { entryAt } from "../../base/lists.ts";
import { studentQuantile } from "../../base/math/special.ts";
import type { Interval } from "../estimator.ts";
import type { DelaySketch } from "./difference.ts";

export interface RowMean {
  valueNs: number;
  variance: number;
  /** Packets that it is based on. */
  used: number;
  /** Degrees of freedom of the variance. */
  freedom: number;
  /** How much the mean may be too low, in the same way in every epoch. */
  slowerNs: number;
}

/** How much slower packets in unusable cells are, in standard deviations of the cells' means; measured behind an overflowing queue, in rows of all rates. */
const SLOWER = 0.5;

export function rowMean(sketch: DelaySketch, row: number, received: number): RowMean | null {
  const { columns, k } = sketch.geometry;
  const { usable, sent, delaySumNs, rows } = sketch;
  const { usable: used, rate, received: arrived, missing: lost, appeared } = entryAt(rows, row);
  const lossy = lost > appeared;
  if (used === 0) return null;
  const [from, to] = [row * columns, (row + 1) * columns];
  const cells = new Float64Array(33);
  const whole = new Float64Array(33);
  const packets = new Float64Array(33);
  for (let c = from; c < to; c++) {
    if (sent[c] === 0) continue;
    const bin = 31 - Math.clz32(sent[c]!);
    cells[bin]!++;
    whole[bin]! += usable[c]!;
    packets[bin]! += sent[c]!;
  }
  let delays = 0;
  let counted = 0;
  let unseen = 0;
  for (let c = from; c < to; c++) {
    if (usable[c] === 0) continue;
    const bin = 31 - Math.clz32(sent[c]!);
    delays += (delaySumNs[c]! * cells[bin]!) / whole[bin]!;
    counted += (sent[c]! * cells[bin]!) / whole[bin]!;
  }
  for (let bin = 0; bin < 33; bin++) if (whole[bin] === 0) unseen += packets[bin]!;
  const valueNs = delays / counted;
  let missing = 0;
  let spread = 0;
  let means = 0;
  let n = 0;
  for (let c = from; c < to; c++) {
    if (usable[c] === 0) continue;
    const bin = 31 - Math.clz32(sent[c]!);
    const chance = whole[bin]! / cells[bin]!;
    const y = delaySumNs[c]! - valueNs * sent[c]!;
    missing += ((1 - chance) / chance ** 2) * y * y;
    spread += (y * y) / sent[c]! / chance;
    means += (y / sent[c]!) ** 2;
    n++;
  }
  // Packets in cells of a size of which none is usable: their mean may lie anywhere in the range of the cells' means.
  const dark = unseen / (counted + unseen);
  // A sampling row knows its sample. The other packets vary like those in it; to be safe, cells count as units.
  const sampling = rate < 1 ? Math.max(0, 1 - used / received) * (spread / counted / Math.max(1, used)) : 0;
  // Congestion delays and loses packets of the same flows: unusable cells are slower than usable ones of the same size.
  const slowerNs = lossy ? SLOWER * (1 - used / Math.max(used, arrived)) * Math.sqrt(means / n) : 0;
  // A large flow fills k cells, which all have the same distance from the mean.
  const variance = (k * missing) / counted ** 2 + dark * dark * (means / n) + sampling;
  if (rate === 1 && used === arrived) return { valueNs, variance, used, freedom: n, slowerNs: 0 };
  // A single cell has no spread. The mean is that of the cells themselves, which takes one degree of freedom.
  if (n < 2) return null;
  return { valueNs, variance: (variance * n) / (n - 1), used, freedom: Math.max(1, n / k - 1), slowerNs };
}

/** Returns the mean of the packets in cells: from one row, or from the flows if all are known. */
export function bestMean(
  sketch: DelaySketch,
  received: number,
  fromFlows: RowMean | null,
  confidence: number,
): RowMean | null {
  let best: RowMean | null = fromFlows;
  for (const r of sketch.rows.keys()) {
    const mean = rowMean(sketch, r, received);
    // A row that holds all packets is exact, however few cells it has.
    if (mean?.variance === 0 && mean.used === received) return mean;
    // The narrowest of several rows is also the luckiest. If the flows are known, no row has to be chosen.
    if (mean && !fromFlows && (!best || isBetter(mean, best, confidence))) best = mean;
  }
  return best;
}

type Estimated = Pick<RowMean, "valueNs" | "variance" | "freedom">;

function halfWidth({ variance, freedom }: Estimated, confidence: number): number {
  return studentQuantile((1 + confidence) / 2, Math.max(1, freedom)) * Math.sqrt(variance);
}

/** Degrees of freedom of a row: about twenty intact cells. */
const FEW_FREEDOM = 3;

/** Among rows with few intact cells, the narrowest is the luckiest, because its cells happen to agree. The row with more degrees of freedom is then better. */
function isBetter(a: RowMean, b: RowMean, confidence: number): boolean {
  if (Math.min(a.freedom, b.freedom) < FEW_FREEDOM && a.freedom !== b.freedom) return a.freedom > b.freedom;
  return halfWidth(a, confidence) + a.slowerNs < halfWidth(b, confidence) + b.slowerNs;
}

export function segmentInterval(mean: RowMean, confidence: number): Interval {
  const own = interval(mean, confidence);
  if (mean.slowerNs === 0) return own;
  return { ...own, highNs: own.highNs + mean.slowerNs, common: { lowNs: 0, highNs: mean.slowerNs } };
}

export function interval(estimated: Estimated, confidence: number): Interval {
  const { valueNs } = estimated;
  const half = halfWidth(estimated, confidence);
  return { valueNs, lowNs: valueNs - half, highNs: valueNs + half };
}
