/**
 * s_f^2, how packets of one flow differ from each other, from flows that have counters to themselves: how the parts of a flow differ from its mean. Nothing
 * between flows comes in, while a regression over the cells can take one variance for the other: delays of flows that differ by their level and jitter with it
 * have it find no jitter at all, now and then. Where hardly a flow is alone the regression remains, and allows for what the model leaves out.
 *
 * A flow's own few counters tell its jitter badly, and those of others only as far as flows are alike: behind one queue a flow that lasts sees far
 * more of it than a short one. How alike they are shows in the spread of their variances beyond chance: ln s_f^2 of d_f degrees of freedom has
 * variance trigamma(d_f / 2), and trigamma(d_0 / 2) beside it where flows differ. The others then count as d_0 degrees of freedom, and answers have
 * d_f + d_0. Their variance is the pooled one, which weighs flows by what they showed: a line or a mean over ln s^2 would be that of the many short
 * flows, too low for the large ones, and an interval errs on the side of the wider.
 */
import { digamma, trigamma } from "../../base/math/special.ts";
import type { Prior } from "./blup.ts";
import type { Difference } from "./difference.ts";
import type { FlowGraph } from "./flow-graph.ts";

/** A flow is alone in a cell where others have no more than this share of it. */
const ALONE = 1e-6;
const ENOUGH_FREEDOM = 10;
/** Flows with fewer degrees of freedom say next to nothing of how flows differ. */
const JUDGED_FREEDOM = 3;
/** What others count for at least and at most. */
const MIN_COMMON = 1;
const MAX_COMMON = 30;

/** Many flows crowd each other out: those that are alone all the same stand for the others only where so many packets of all lie in such cells. */
const MANY_FLOWS = 1000;
const SHARE_ALONE = 0.05;

/** Null where there is too little of it. */
export function jitterWithinFlows(
  { packets, delayNs }: Difference,
  graph: FlowGraph,
): { common: number; own: NonNullable<Prior["own"]> } | null {
  const { flows, starts, cell, a } = graph;
  const squares = new Float64Array(flows);
  const freedom = new Float64Array(flows);
  let [alone, all] = [0, 0];
  for (let f = 0; f < flows; f++) {
    let [n, sum, ratio, cells] = [0, 0, 0, 0];
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      all += a[e]!;
      if (packets[c]! - a[e]! > ALONE * packets[c]!) continue;
      alone += a[e]!;
      n += packets[c]!;
      sum += delayNs[c]!;
      ratio += (delayNs[c]! * delayNs[c]!) / packets[c]!;
      cells++;
    }
    if (cells < 2) continue;
    // sum (x - n mean)^2 / n = sum x^2 / n - (sum x)^2 / sum n
    squares[f] = Math.max(0, ratio - (sum * sum) / n);
    freedom[f] = cells - 1;
  }
  const total = freedom.reduce((s, x) => s + x, 0);
  if (total < ENOUGH_FREEDOM || (flows >= MANY_FLOWS && alone < SHARE_ALONE * all)) return null;
  const common = squares.reduce((s, x) => s + x, 0) / total;
  const shared = sharedFreedom(squares, freedom);
  const variance = squares.map((s, f) => (s + shared * common) / (freedom[f]! + shared));
  return { common, own: { variance, freedom: freedom.map((x) => x + shared) } };
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
