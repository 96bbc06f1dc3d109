/**
 * The full answer: the best linear unbiased prediction of all known flows' mean delays at once, so that what is learnt of one flow is taken out
 * of the counters it shares with others.
 *
 *   y = A theta + noise,  theta_f = a flow's mean delay - the common mean, prior N(0, V + s^2 / p_f),  noise_c ~ N(0, S_c)
 *   (P^-1 + A' S^-1 A) theta = A' S^-1 y,  P the prior variances, by conjugate gradients with the diagonal as preconditioner
 *
 * S_c is what chance leaves open: which of a flow's packets fell into the cell (V), how those differ from their flow's mean (s^2), packets of flows
 * not listed, and the unit of time. The variance of an answer is the posterior's, as belief propagation finds it: each cell tells a flow as
 * much as the uncertainty of the others in it allows. The graph has loops, so this is an approximation; its promise is tested.
 */
import { solveCg } from "../../base/linear.ts";
import type { FlowGraph } from "./flow-graph.ts";

export interface Prior {
  /** The common mean. */
  meanNs: number;
  /** V: variance between the means of flows. */
  flowVariance: number;
  /** s^2: variance within a flow. */
  packetVariance: number;
}

/** Mean delay less the common mean, and its variance, per flow. */
export interface Decoded {
  thetaNs: Float64Array;
  variance: Float64Array;
  iterations: number;
}

const TOLERANCE = 1e-3;
const ROUNDS = 10;

export function noiseOf(
  graph: FlowGraph,
  counts: Float64Array,
  prior: Prior,
  unitNs: number,
  background: (packets: number) => number,
): Float64Array {
  const { chance, jitter, left, expected } = graph;
  const noise = new Float64Array(expected.length);
  for (let c = 0; c < noise.length; c++) {
    if (expected[c] === 0) continue;
    noise[c] =
      prior.flowVariance * chance[c]! +
      prior.packetVariance * jitter[c]! +
      background(left[c]!) +
      // A sixth of a unit^2 per packet: what rounding at both ends leaves open.
      (counts[c]! * unitNs * unitNs) / 6;
  }
  return noise;
}

export function priorVariances(graph: FlowGraph, prior: Prior): Float64Array {
  return graph.packets.map((p) => prior.flowVariance + prior.packetVariance / Math.max(1, p) + 1e-6);
}

export function solveBlup(
  graph: FlowGraph,
  y: Float64Array,
  noise: Float64Array,
  priors: Float64Array,
  iterations: number,
): { thetaNs: Float64Array; iterations: number } {
  const { flows, starts, cell, a } = graph;
  const inverse = noise.map((v) => (v > 0 ? 1 / v : 0));
  const diagonal = new Float64Array(flows);
  const rhs = new Float64Array(flows);
  for (let f = 0; f < flows; f++) {
    let d = 1 / priors[f]!;
    let r = 0;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      const w = a[e]! * inverse[c]!;
      d += w * a[e]!;
      r += w * y[c]!;
    }
    diagonal[f] = d;
    rhs[f] = r;
  }
  const sums = new Float64Array(noise.length);
  const apply = (input: Float64Array, output: Float64Array) => {
    sums.fill(0);
    for (let f = 0; f < flows; f++) {
      const x = input[f]!;
      for (let e = starts[f]!; e < starts[f + 1]!; e++) sums[cell[e]!]! += a[e]! * x;
    }
    for (let c = 0; c < sums.length; c++) sums[c]! *= inverse[c]!;
    for (let f = 0; f < flows; f++) {
      let out = input[f]! / priors[f]!;
      for (let e = starts[f]!; e < starts[f + 1]!; e++) out += a[e]! * sums[cell[e]!]!;
      output[f] = out;
    }
  };
  const solved = solveCg({ apply, diagonal, rhs, iterations, tolerance: TOLERANCE });
  return { thetaNs: solved.solution, iterations: solved.iterations };
}

/** Variance of each flow's answer. */
export function posteriorVariances(
  graph: FlowGraph,
  noise: Float64Array,
  priors: Float64Array,
): Float64Array {
  const { flows, starts, cell, a } = graph;
  // Variance of a flow as a cell sees it: by what its other cells tell.
  const spread = new Float64Array(cell.length);
  for (let f = 0; f < flows; f++) spread.fill(priors[f]!, starts[f]!, starts[f + 1]!);
  const sums = new Float64Array(noise.length);
  const variance = new Float64Array(flows);
  for (let round = 0; round < ROUNDS; round++) {
    sums.set(noise);
    for (let e = 0; e < cell.length; e++) sums[cell[e]!]! += a[e]! * a[e]! * spread[e]!;
    for (let f = 0; f < flows; f++) {
      const own = 1 / priors[f]!;
      const from = starts[f]!;
      const to = starts[f + 1]!;
      let precision = own;
      for (let e = from; e < to; e++) {
        const square = a[e]! * a[e]!;
        // What rounding leaves of a sum after its largest part is taken out again must not pass for certainty.
        precision += square / Math.max(1e-13 * sums[cell[e]!]!, sums[cell[e]!]! - square * spread[e]!);
      }
      variance[f] = 1 / precision;
      for (let e = from; e < to; e++) {
        const square = a[e]! * a[e]!;
        const told = square / Math.max(1e-13 * sums[cell[e]!]!, sums[cell[e]!]! - square * spread[e]!);
        spread[e] = 1 / Math.max(own, precision - told);
      }
    }
  }
  return variance;
}
