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
 *
 * Few flows, each with its own jitter (jitter.ts), are answered more closely. Theta is then the flow's level, prior N(0, V), and what is asked for is
 * the mean over the packets that were there: of a cell's residual, jitter of flow f is the share s_f^2 a_cf / S_c. A flow that has its
 * counters to itself is answered exactly, without being drawn to the others.
 */
import { solveCg } from "../../base/math/linear.ts";
import type { SmoothBackground } from "../cells/background.ts";
import type { Jitter } from "../cells/jitter.ts";
import type { FlowGraph } from "./flow-graph.ts";

export interface Prior {
  /** The common mean, and its variance. */
  meanNs: number;
  meanVariance: number;
  /** V: variance between the means of flows; of flows of p packets it is V p^-gamma. */
  flowVariance: number;
  gamma?: number;
  /** s^2: variance within a flow. */
  packetVariance: number;
  /** Of each flow by itself, where flows are few and have shown it; and the degrees of freedom that this is worth. */
  own?: Jitter | undefined;
  /** V of each flow, where some are far from the others. */
  ofFlows?: Float64Array;
}

const TOLERANCE = 1e-4;
/** Flows that are known nearly exactly dominate the norm of the right side. The residual has to be this small for an average flow, too, in standard deviations of its answer. */
const DEVIATIONS = 0.01;
const ROUNDS = 10;
/** Of a cell's noise at least this much is taken to come from others. */
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
      // A sixth of a unit^2 per packet: what rounding at both ends leaves open.
      (counts[c]! * unitNs * unitNs) / 6;
  }
  return noise;
}

/** Variance that jitter brings into the cells, where each flow has its own. */
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

/** s^2 of a flow. */
export function packetVarianceOf({ packetVariance, own }: Prior, f: number): number {
  return own ? own.variance[f]! : packetVariance;
}

/** Of flows' levels. */
export function levelVariances(graph: FlowGraph, prior: Prior): Float64Array {
  return new Float64Array(graph.flows).map((_, f) => (prior.ofFlows?.[f] ?? prior.flowVariance) + 1e-6);
}

/** Of the means over their packets. */
export function priorVariances(graph: FlowGraph, prior: Prior): Float64Array {
  return graph.packets.map(
    (p, f) => flowVarianceOf(prior, p, f) + packetVarianceOf(prior, f) / Math.max(1, p) + 1e-6,
  );
}

/** V of flow f, which has so many packets. */
export function flowVarianceOf(
  { flowVariance, ofFlows, gamma = 0 }: Prior,
  packets: number,
  f: number,
): number {
  return (ofFlows?.[f] ?? flowVariance) * Math.max(1, packets) ** -gamma;
}

/** Per cell, per unit of V: sum of a^2 and variance of the allocation, where a flow of p packets has V p^-gamma. */
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

/** The system of all flows; `solve` takes a right side and gives (P^-1 + A' S^-1 A)^-1 times it. */
export interface FlowSystem {
  solve(rhs: Float64Array): Float64Array;
  /** A' S^-1 y */
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
  // In the variables theta sqrt(diagonal) the diagonal is 1, and small residuals mean small errors of every flow, not of the largest alone.
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
 * Variance of each flow's answer. How a flow's packets differ from their mean evens out over its cells (a packet that is not in one is in another), so
 * this part of the noise counts for the flow itself only as far as its cells weigh unequally or are unusable: s^2 / p (B / A^2 - 1) with
 * A = sum rho w, B = sum rho w^2 over the weights w of its cells; with equal weights B / A^2 is 1 / the share of its packets seen. Levels have no such part. Beside it, per cell, the variance of
 * all that is in it.
 */
export function posteriorVariances(
  graph: FlowGraph,
  noise: Float64Array,
  priors: Float64Array,
  prior: Prior | null,
): { variance: Float64Array; cellVariance: Float64Array } {
  const { flows, starts, cell, a, rho, packets } = graph;
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
      const packetVariance = prior ? packetVarianceOf(prior, f) : 0;
      let precision = own;
      let weights = 0;
      let squares = 0;
      for (let e = from; e < to; e++) {
        const square = a[e]! * a[e]!;
        const sum = sums[cell[e]!]!;
        // What rounding leaves of a sum after its largest part is taken out again must not pass for certainty.
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
 * Means over the packets that flows had, from their levels. With u_c = s_f^2 a_cf / S_c, the share of f's jitter in a cell's noise,
 *   mean_f = theta_f + sum_c u_c r_c / p,  r = y - A theta
 * and its variance, errors of different flows taken as independent:
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
    // Where more are expected in its cells than it had, the excess is of others.
    const foreign = (prior.flowVariance + jitter) * Math.max(0, expected - p);
    const unseen = (jitter * (1 - seen)) / p;
    variance[f] = (1 - seen) ** 2 * levels.variance[f]! + (others + foreign) / (p * p) + unseen;
    ofJitter[f] = variance[f]! > 0 ? unseen / variance[f]! : 0;
  }
  return { thetaNs, variance, ofJitter };
}
