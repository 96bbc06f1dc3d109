/**
 * How packets vary within a flow (s_f^2), seen where a flow has several cells to itself: its packets fall into them at random, so the cells' means differ by
 * jitter alone. Nothing between flows comes in, while a regression over the cells can take one variance for the other.
 *
 * A flow's own few cells tell its jitter badly, and those of others only as far as flows are alike: behind one queue a flow that lasts sees far
 * more of it than a short one. How alike they are shows in the spread of their variances beyond chance: ln s_f^2 of d_f degrees of freedom has
 * variance trigamma(d_f / 2), and trigamma(d_0 / 2) beside it where flows differ. The others then count as d_0 degrees of freedom, and answers have
 * d_f + d_0. Their variance is the pooled one, which weighs flows by what they showed: a line or a mean over ln s^2 would be that of the many short
 * flows, too low for the large ones, and an interval errs on the side of the wider.
 */
import { digamma, trigamma } from "../../base/math/special.ts";

/** Sums of squares of what cells of one's own differ by, and the degrees of freedom in them. */
export interface OwnCells {
  squares: Float64Array;
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
export function jitterOfFlows({ squares, freedom }: OwnCells, packets: ArrayLike<number>): Jitter {
  const total = freedom.reduce((s, x) => s + x, 0);
  const common = total > 0 ? squares.reduce((s, x) => s + x, 0) / total : 0;
  const shared = sharedFreedom(squares, freedom);
  const lent = jitterBySize({ squares, freedom }, packets, common);
  return {
    variance: squares.map((s, f) => (s + shared * lent[f]!) / (freedom[f]! + shared)),
    freedom: freedom.map((x) => x + shared),
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
  { squares, freedom }: OwnCells,
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
