/**
 * How packets vary within a flow (s_f^2), measured on flows with several cells to themselves. Their packets fall into these cells at random, so the cells'
 * means differ by jitter alone. Differences between flows do not matter here, whereas a regression over the cells can mistake one variance for the other.
 *
 * A flow's few own cells measure its jitter poorly, and the cells of other flows help only if the flows are alike: behind one queue, a lasting flow sees
 * far more jitter than a short one. The spread of the flows' variances beyond chance shows how alike they are. With d_f degrees of freedom, ln s_f^2 has
 * the variance trigamma(d_f / 2), plus trigamma(d_0 / 2) if flows differ. The other flows then count as d_0 degrees of freedom, and an answer has d_f +
 * d_0.
 *
 * Heavy tails cause the same spread among flows that are alike: if a segment is slow for a short time, the cells of some flows show that time and others do
 * not. So var s_f^2 is also compared with what the fourth moments within flows predict, (m_4 - s^4) / d_f, and the larger d_0 is used. A flow's own cells
 * count for 2 / (kurtosis - 1) of their degrees of freedom. The variance lent by others is the pooled one, which weights flows by degrees of freedom: a
 * line or a mean over ln s^2 would follow the many short flows and be too low for large ones. Intervals err on the wide side.
 */
import { digamma, trigamma } from "../../base/math/special.ts";

/**
 * Per flow, over cells that hold only its packets: sums of the squared differences of the cells, sums of their fourth powers, and degrees of freedom (cells
 * minus one).
 */
export interface OwnCells {
  squares: Float64Array;
  fourths: Float64Array;
  freedom: Float64Array;
}

export interface Jitter {
  /** Variance of a packet around its flow's mean, ns^2, and its degrees of freedom. */
  variance: Float64Array;
  freedom: Float64Array;
  /** The degrees of freedom that other flows lend to every flow. */
  shared: number;
  /** The variance over all flows, and its degrees of freedom. */
  common: number;
  total: number;
}

/** Flows with fewer degrees of freedom say almost nothing about how flows differ. */
const JUDGED_FREEDOM = 3;
/** Limits of the degrees of freedom that other flows count for. */
const MIN_COMMON = 1;
const MAX_COMMON = 30;

/** `packets`: of each flow. */
export function jitterOfFlows(own: OwnCells, packets: ArrayLike<number>): Jitter {
  const { squares, freedom } = own;
  const total = freedom.reduce((s, x) => s + x, 0);
  const common = total > 0 ? squares.reduce((s, x) => s + x, 0) / total : 0;
  const shared = Math.max(sharedFreedom(squares, freedom), sharedByMoments(own));
  const worth = worthOfOwn(own);
  const lent = jitterBySize(own, packets, common);
  return {
    variance: squares.map((s, f) => (worth * s + shared * lent[f]!) / (worth * freedom[f]! + shared)),
    freedom: freedom.map((x) => worth * x + shared),
    shared,
    common,
    total,
  };
}

/** Flows with at least this share of a flow's packets last as long, and see as much of a queue. */
const AS_LARGE = 0.25;
/** Minimum degrees of freedom of these flows; if they have fewer, smaller flows are added. */
const LENT_FREEDOM = 10;

/**
 * Returns, per flow, the jitter of flows that are as large, but not less than that of all flows. Behind a queue, a lasting flow sees more jitter. Under
 * loss, nearly all usable cells are those of short flows.
 */
function jitterBySize(
  { squares, freedom }: Omit<OwnCells, "fourths">,
  packets: ArrayLike<number>,
  common: number,
): Float64Array {
  const largest = Uint32Array.from({ length: squares.length }, (_, f) => f).sort(
    (f, g) => packets[g]! - packets[f]!,
  );
  const out = new Float64Array(squares.length);
  let [sum, total, next] = [0, 0, 0];
  for (const f of largest) {
    while (next < largest.length) {
      const g = largest[next]!;
      if (packets[g]! < AS_LARGE * packets[f]! && total >= LENT_FREEDOM) break;
      sum += squares[g]!;
      total += freedom[g]!;
      next++;
    }
    out[f] = Math.max(common, total > 0 ? sum / total : 0);
  }
  return out;
}

/** Returns d_0: the degrees of freedom that the jitter of all other flows is worth to a flow. */
function sharedFreedom(squares: Float64Array, freedom: Float64Array): number {
  let [count, sum, sumOfSquares, chance] = [0, 0, 0, 0];
  for (let f = 0; f < squares.length; f++) {
    const d = freedom[f]!;
    if (d < JUDGED_FREEDOM || squares[f] === 0) continue;
    const z = Math.log(squares[f]!) - digamma(d / 2);
    count++;
    sum += z;
    sumOfSquares += z * z;
    chance += trigamma(d / 2);
  }
  if (count < 2) return MIN_COMMON;
  return freedomOf((sumOfSquares - (sum * sum) / count) / (count - 1) - chance / count);
}

/** Returns d_0 from moments, which distinguish heavy tails from flows that differ. */
function sharedByMoments({ squares, fourths, freedom }: OwnCells): number {
  let [sum, total, fourth, cells] = [0, 0, 0, 0];
  for (let f = 0; f < squares.length; f++) {
    const d = freedom[f]!;
    if (d < JUDGED_FREEDOM) continue;
    sum += squares[f]!;
    total += d;
    // Around the flow's own mean, like its squares.
    fourth += fourths[f]! * (1 + 1 / d) ** 2;
    cells += d + 1;
  }
  if (!(sum > 0)) return MIN_COMMON;
  const variance = sum / total;
  const chance = fourth / cells - variance ** 2;
  let [apart, weights] = [0, 0];
  for (let f = 0; f < squares.length; f++) {
    const d = freedom[f]!;
    if (d < JUDGED_FREEDOM) continue;
    apart += d * (squares[f]! / d - variance) ** 2 - chance;
    weights += d;
  }
  if (!(apart > 0)) return MAX_COMMON;
  return Math.min(MAX_COMMON, Math.max(MIN_COMMON, (2 * variance ** 2 * weights) / apart));
}

/**
 * Returns what a degree of freedom is worth: with heavy tails, s^2 varies more than chi-square. Uses the kurtosis within flows, which does not depend on
 * differences between them.
 */
function worthOfOwn({ squares, fourths, freedom }: OwnCells): number {
  let [kurtosis, weights] = [0, 0];
  for (let f = 0; f < squares.length; f++) {
    const d = freedom[f]!;
    if (d < JUDGED_FREEDOM || !(squares[f]! > 0)) continue;
    kurtosis += (fourths[f]! * d * d) / squares[f]! ** 2;
    weights += d + 1;
  }
  return weights > 0 ? Math.min(1, 2 / Math.max(2, kurtosis / weights - 1)) : 1;
}

/** Solves trigamma(d / 2) = variance for d by bisection; trigamma decreases. */
function freedomOf(variance: number): number {
  if (variance <= trigamma(MAX_COMMON / 2)) return MAX_COMMON;
  let [low, high] = [MIN_COMMON, MAX_COMMON];
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (trigamma(middle / 2) > variance) low = middle;
    else high = middle;
  }
  return low;
}
