/**
 * How packets vary within a flow (s_f^2), seen where a flow has several cells to itself: its packets fall into them at random, so the cells' means differ by
 * jitter alone. Nothing between flows comes in, while a regression over the cells can take one variance for the other.
 *
 * A flow's own few cells tell its jitter badly, and those of others only as far as flows are alike: behind one queue a flow that lasts sees far
 * more of it than a short one. How alike they are shows in the spread of their variances beyond chance: ln s_f^2 of d_f degrees of freedom has
 * variance trigamma(d_f / 2), and trigamma(d_0 / 2) beside it where flows differ. The others then count as d_0 degrees of freedom, and answers have
 * d_f + d_0. Heavy tails make the same spread of what is alike: a segment that is slow for a small part of the time shows some flows' cells that part and others' none of it. So the spread of
 * s_f^2 is also held against what the fourth moments within flows let expect, var s_f^2 = (m_4 - s^4) / d_f, and the larger d_0 counts; and a flow's own cells count for 2 / (kurtosis - 1) of
 * their degrees of freedom. Their variance is the pooled one, which weighs flows by what they showed: a line or a mean over ln s^2 would be that of the many short
 * flows, too low for the large ones, and an interval errs on the side of the wider.
 */
import { digamma, trigamma } from "../../base/math/special.ts";

/** Sums of squares of what cells of one's own differ by, of their fourth powers, and the degrees of freedom in them: one less than there are cells. */
export interface OwnCells {
  squares: Float64Array;
  fourths: Float64Array;
  freedom: Float64Array;
}

export interface Jitter {
  /** Variance of a packet around its flow's mean, ns^2, and the degrees of freedom that this is worth. */
  variance: Float64Array;
  freedom: Float64Array;
  /** Of these, what others lend to every flow. */
  shared: number;
  /** Over all flows, and what it rests on. */
  common: number;
  total: number;
}

/** Flows with fewer degrees of freedom say next to nothing of how flows differ. */
const JUDGED_FREEDOM = 3;
/** What others count for at least and at most. */
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

/** Flows with at least this share of a flow's packets last as long as it, and show as much of a queue. */
const AS_LARGE = 0.25;
/** Degrees of freedom of those, at least; else smaller flows are taken in. */
const LENT_FREEDOM = 10;

/**
 * The jitter of flows as large as each, but not below that of all: behind a queue a flow that lasts sees more of it, and under loss nearly all cells that can be used are those of short
 * flows.
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

/** d_0: degrees of freedom that the jitter of all others is worth to a flow. */
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

/** The same by moments, which know heavy tails from flows that differ. */
function sharedByMoments({ squares, fourths, freedom }: OwnCells): number {
  let [sum, total, fourth, cells] = [0, 0, 0, 0];
  for (let f = 0; f < squares.length; f++) {
    const d = freedom[f]!;
    if (d < JUDGED_FREEDOM) continue;
    sum += squares[f]!;
    total += d;
    // Around the flow's own mean, as its squares.
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

/** What a degree of freedom is worth: s^2 of heavy tails varies more than chi-square does. By the kurtosis within flows, whatever they differ by. */
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

/** d with trigamma(d / 2) = variance, by bisection: trigamma falls. */
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
