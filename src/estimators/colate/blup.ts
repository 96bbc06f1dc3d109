/**
 * The full answer: the best linear unbiased prediction (BLUP) of the mean delays of all known flows at once. What is learned about one flow is subtracted from
 * the counters that it shares with others.
 *
 *   y = A theta + noise,  theta_f = a flow's mean delay - the common mean, prior N(0, V + s^2 / p_f),  noise_c ~ N(0, S_c)
 *   (P^-1 + A' S^-1 A) theta = A' S^-1 y,  P the prior variances, by conjugate gradients with the diagonal as preconditioner
 *
 * S_c is the remaining uncertainty: which of a flow's packets fell into the cell (V), how those differ from their flow's mean (s^2), packets of unlisted flows,
 * and the time unit. The variance of an answer is the posterior variance, computed as in belief propagation: each cell tells as much about a flow as the
 * uncertainty of the other flows in it allows. The graph has loops, so this is an approximation; a test checks its coverage.
 *
 * A few flows, each with its own jitter (jitter.ts), are answered more precisely. Theta is then the flow's level, prior N(0, V), and the answer is the mean
 * over its actual packets: the share s_f^2 a_cf / S_c of a cell's residual is jitter of flow f. A flow that does not share its counters is answered exactly,
 * without shrinkage towards the other flows.
 */
import { solveCg } from "../../base/math/linear.ts";
import type { SmoothBackground } from "../cells/background.ts";
import type { Jitter } from "../cells/jitter.ts";
import type { FlowGraph } from "./flow-graph.ts";

export interface Prior {
  /** The common mean and its variance. */
  meanNs: number;
  meanVariance: number;
  /** V: variance between the means of flows; V p^-gamma for flows of p packets. */
  flowVariance: number;
  gamma?: number;
  /** s^2: variance within a flow. */
  packetVariance: number;
  /** Jitter of each flow, if there are few flows and they show it; and its degrees of freedom. */
  own?: Jitter | undefined;
  /** V of each flow, if some are far from the others. */
  ofFlows?: Float64Array;
}

const TOLERANCE = 1e-4;
/**
 * Flows known almost exactly dominate the norm of the right-hand side. So the residual also has to be this small for an average flow, in standard deviations of
 * its answer.
 */
const DEVIATIONS = 0.01;
const ROUNDS = 10;
/** Minimum share of a cell's noise that is attributed to other flows. */
const OWN_FLOOR = 0.1;

export function noiseOf(
  graph: FlowGraph,
  counts: Float64Array,
  prior: Prior,
  unitNs: number,
  { alpha, beta }: SmoothBackground,
): Float64Array {
  const { jitter, left, leftSquare, expected } = graph;
  const { chance } = weighed(graph, prior.gamma ?? 0);
  const noise = new Float64Array(expected.length);
  const within = prior.own ? jitterOf(graph, prior.own.variance) : null;
  for (let c = 0; c < noise.length; c++) {
    if (expected[c] === 0) continue;
    noise[c] =
      prior.flowVariance * chance[c]! +
      (within ? within[c]! : prior.packetVariance * jitter[c]!) +
      alpha * left[c]! +
      beta * leftSquare[c]! +
      // Rounding at both ends adds a variance of unit^2 / 6 per packet.
      (counts[c]! * unitNs * unitNs) / 6;
  }
  return noise;
}

/** Variance that jitter adds to the cells, if each flow has its own jitter. */
export function jitterOf(
  { flows, starts, cell, a, expected }: FlowGraph,
  variance: Float64Array,
): Float64Array {
  const out = new Float64Array(expected.length);
  for (let f = 0; f < flows; f++) {
    for (let e = starts[f]!; e < starts[f + 1]!; e++) out[cell[e]!]! += a[e]! * variance[f]!;
  }
  return out;
}

/** s^2 of flow f. */
export function packetVarianceOf({ packetVariance, own }: Prior, f: number): number {
  return own ? own.variance[f]! : packetVariance;
}

/** Prior variances of the flows' levels. */
export function levelVariances(graph: FlowGraph, prior: Prior): Float64Array {
  return new Float64Array(graph.flows).map((_, f) => (prior.ofFlows?.[f] ?? prior.flowVariance) + 1e-6);
}

/** Prior variances of the means over the flows' packets. */
export function priorVariances(graph: FlowGraph, prior: Prior): Float64Array {
  return graph.packets.map(
    (p, f) => flowVarianceOf(prior, p, f) + packetVarianceOf(prior, f) / Math.max(1, p) + 1e-6,
  );
}

/** V of flow f, which has this many packets. */
export function flowVarianceOf(
  { flowVariance, ofFlows, gamma = 0 }: Prior,
  packets: number,
  f: number,
): number {
  return (ofFlows?.[f] ?? flowVariance) * Math.max(1, packets) ** -gamma;
}

/** Per cell and unit of V: sum of a^2 and variance of the allocation, if a flow of p packets has V p^-gamma. */
export function weighed(graph: FlowGraph, gamma: number): { squares: Float64Array; chance: Float64Array } {
  const { flows, starts, cell, a, open, packets } = graph;
  if (gamma === 0) return graph;
  const squares = new Float64Array(graph.squares.length);
  const chance = new Float64Array(graph.squares.length);
  for (let f = 0; f < flows; f++) {
    const weight = Math.max(1, packets[f]!) ** -gamma;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      squares[c]! += weight * a[e]! * a[e]!;
      chance[c]! += weight * open[e]!;
    }
  }
  return { squares, chance };
}

/** The linear system of all flows; `solve` returns (P^-1 + A' S^-1 A)^-1 times a right-hand side. */
export interface FlowSystem {
  solve(rhs: Float64Array): Float64Array;
  /** Returns A' S^-1 y. */
  project(y: Float64Array): Float64Array;
}

export function systemOf(
  graph: FlowGraph,
  noise: Float64Array,
  priors: Float64Array,
  iterations: number,
): FlowSystem {
  const { flows, starts, cell, a } = graph;
  const inverse = noise.map((v) => (v > 0 ? 1 / v : 0));
  // In the variables theta sqrt(diagonal), the diagonal is 1. Small residuals then mean small errors for every flow, not only for the largest.
  const scale = new Float64Array(flows);
  for (let f = 0; f < flows; f++) {
    let d = 1 / priors[f]!;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) d += a[e]! * a[e]! * inverse[cell[e]!]!;
    scale[f] = 1 / Math.sqrt(d);
  }
  const sums = new Float64Array(noise.length);
  const apply = (input: Float64Array, output: Float64Array) => {
    sums.fill(0);
    for (let f = 0; f < flows; f++) {
      const x = input[f]! * scale[f]!;
      for (let e = starts[f]!; e < starts[f + 1]!; e++) sums[cell[e]!]! += a[e]! * x;
    }
    for (let c = 0; c < sums.length; c++) sums[c]! *= inverse[c]!;
    for (let f = 0; f < flows; f++) {
      let out = (input[f]! * scale[f]!) / priors[f]!;
      for (let e = starts[f]!; e < starts[f + 1]!; e++) out += a[e]! * sums[cell[e]!]!;
      output[f] = out * scale[f]!;
    }
  };
  const diagonal = new Float64Array(flows).fill(1);
  return {
    solve(rhs) {
      const scaled = rhs.map((r, f) => r * scale[f]!);
      const size = Math.sqrt(scaled.reduce((sum, r) => sum + r * r, 0));
      const tolerance = Math.min(TOLERANCE, (DEVIATIONS * Math.sqrt(flows)) / size);
      const { solution } = solveCg({ apply, diagonal, rhs: scaled, iterations, tolerance });
      return solution.map((x, f) => x * scale[f]!);
    },
    project(y) {
      const out = new Float64Array(flows);
      for (let f = 0; f < flows; f++) {
        let r = 0;
        for (let e = starts[f]!; e < starts[f + 1]!; e++) r += a[e]! * inverse[cell[e]!]! * y[cell[e]!]!;
        out[f] = r;
      }
      return out;
    },
  };
}

/**
 * Returns the variance of each flow's answer and, per cell, the variance of everything in it. The deviations of a flow's packets from their mean cancel over
 * its cells, because a packet missing in one cell is in another. This part of the noise therefore counts for the flow itself only as far as its cells have
 * unequal weights or are unusable: s^2 / p (B / A^2 - 1) with A = sum rho w, B = sum rho w^2 over the weights w of its cells. With equal weights, B / A^2 is 1
 * / the share of its packets seen. Levels have no such part.
 */
export function posteriorVariances(
  graph: FlowGraph,
  noise: Float64Array,
  priors: Float64Array,
  prior: Prior | null,
): { variance: Float64Array; cellVariance: Float64Array } {
  const { flows, starts, cell, a, rho, packets } = graph;
  // Variance of a flow as seen from a cell: given the flow's other cells.
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
      const packetVariance = prior ? packetVarianceOf(prior, f) : 0;
      let precision = own;
      let weights = 0;
      let squares = 0;
      for (let e = from; e < to; e++) {
        const square = a[e]! * a[e]!;
        const sum = sums[cell[e]!]!;
        // Rounding errors left after subtracting a sum's largest term must not count as certainty.
        const others = Math.max(1e-13 * sum, sum - square * spread[e]!);
        const part = Math.max(OWN_FLOOR * others, others - packetVariance * a[e]! * (1 - rho[e]!));
        const w = a[e]! / part;
        precision += a[e]! * w;
        weights += rho[e]! * w;
        squares += rho[e]! * w * w;
      }
      if (from === to) {
        variance[f] = priors[f]!;
        continue;
      }
      const uneven = (packetVariance / packets[f]!) * (squares / (weights * weights) - 1);
      variance[f] = Math.min(priors[f]!, 1 / precision + uneven);
      for (let e = from; e < to; e++) {
        const square = a[e]! * a[e]!;
        const ofCell = square / Math.max(1e-13 * sums[cell[e]!]!, sums[cell[e]!]! - square * spread[e]!);
        spread[e] = 1 / Math.max(own, precision - ofCell);
      }
    }
  }
  return { variance, cellVariance: sums };
}

/**
 * Means over the flows' actual packets, from their levels. With u_c = s_f^2 a_cf / S_c, the share of f's jitter in a cell's noise,
 *   mean_f = theta_f + sum_c u_c r_c / p,  r = y - A theta
 * and its variance, with errors of different flows taken as independent:
 *   (1 - sum u_c a_cf / p)^2 v_f + sum_c u_c^2 sum_g a_cg^2 v_g / p^2 + s_f^2 (p - sum u_c a_cf) / p^2
 */
export function meansOverPackets(
  graph: FlowGraph,
  noise: Float64Array,
  prior: Prior,
  y: Float64Array,
  levels: { thetaNs: Float64Array; variance: Float64Array },
): { thetaNs: Float64Array; variance: Float64Array; ofJitter: Float64Array } {
  const { flows, starts, cell, a, packets } = graph;
  const ofJitter = new Float64Array(flows);
  const residual = Float64Array.from(y);
  const spread = new Float64Array(noise.length);
  for (let f = 0; f < flows; f++) {
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      residual[cell[e]!]! -= a[e]! * levels.thetaNs[f]!;
      spread[cell[e]!]! += a[e]! * a[e]! * levels.variance[f]!;
    }
  }
  const thetaNs = Float64Array.from(levels.thetaNs);
  const variance = Float64Array.from(levels.variance);
  for (let f = 0; f < flows; f++) {
    const p = Math.max(1, packets[f]!);
    const jitter = packetVarianceOf(prior, f);
    let [moved, own, others, expected] = [0, 0, 0, 0];
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      if (!(noise[c]! > 0)) continue;
      const share = Math.min(1, (jitter * a[e]!) / noise[c]!);
      expected += a[e]!;
      moved += share * residual[c]!;
      own += share * a[e]!;
      others += share * share * Math.max(0, spread[c]! - a[e]! * a[e]! * levels.variance[f]!);
    }
    const seen = Math.min(1, own / p);
    thetaNs[f]! += moved / Math.max(p, own);
    // If more packets are expected in its cells than the flow had, the excess belongs to other flows.
    const foreign = (prior.flowVariance + jitter) * Math.max(0, expected - p);
    const unseen = (jitter * (1 - seen)) / p;
    variance[f] = (1 - seen) ** 2 * levels.variance[f]! + (others + foreign) / (p * p) + unseen;
    ofJitter[f] = variance[f]! > 0 ? unseen / variance[f]! : 0;
  }
  return { thetaNs, variance, ofJitter };
}
