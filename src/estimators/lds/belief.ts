/**
 * Gaussian belief propagation over the known flows: all flows are decoded together, so that what is learnt about one is taken out of the cells it
 * shares with others. Goes beyond the paper, whose decoders look at one flow at a time.
 *
 * Model: y_c = S_c - mean N_c = sum over the flows g of the cell of a_gc theta_g + noise_c, theta_g = a flow's mean delay - the common mean, prior
 * N(0, V + s^2 / packets). a_gc: packets of g in the cell. Where every packet of a flow falls into one cell of the row (k = 1, rate 1) a is known and there
 * is no noise. Elsewhere a flow's packets spread by chance: given the cell's count N_c, flow g has N_c pi_g of them in the mean, pi_g its
 * share of what is expected; the noise is jitter within flows, s^2 N_c, and chance in the allocation, V N_c (1 - sum pi_g^2), which is
 * small where one flow dominates. Packets of flows not in the list are noise like any background.
 *
 * Messages: cell to flow m = y_c - sum_{g != f} a_g theta_g, v = sum_{g != f} a_g^2 v_g + noise; flow to cell precision 1/V + sum_{c' != c} a^2 / v, mean
 * (sum a m / v) / precision; damped, the more the longer they swing. The graph has loops: means are right where it converges, variances are approximate, which is why
 * their promise is tested. Cost: rounds x flows x rows x k.
 */

import { buildGraph, fitPrior, type Graph } from "./belief-graph.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";
import { ENOUGH_FREEDOM, measureJitter } from "./jitter.ts";
import { type Background, backgroundVariance } from "./variance.ts";

export interface Beliefs {
  /** Mean delay and variance of it, per flow; variance is NaN where no cell of the flow is usable. */
  meanNs: Float64Array;
  variance: Float64Array;
  priorVariance: Float64Array;
  /** The common mean, the variance between flows and within them. */
  commonNs: number;
  flowVariance: number;
  packetVariance: number;
  /** Within each flow, where flows show it. */
  perFlow: Float64Array | null;
  rounds: number;
  /** False where the messages kept swinging: the means are worthless then. */
  settled: boolean;
}

const FIRST_STEP = 0.5;
/** Mean square of a round's changes over the prior variance: below, nothing moves any more; above, there is no answer. */
const CONVERGED = 1e-9;
const UNSETTLED = 1e-3;
/**
 * Neighbours that overlap in several cells (k > 1) tell each other what they have heard from each other: by so many flows per cell the variance that
 * messages claim is half of the true one (measured: without it 42 flows per cell leave 84 to 91 % of intervals right, 8 leave 95).
 */
const ECHO = 40;

export function propagateBeliefs(
  sketch: DelaySketch,
  flows: FlowSet,
  background: Background,
  maxRounds: number,
): Beliefs {
  const graph = buildGraph(sketch, flows);
  const prior = priorOf(sketch, flows, graph);
  const { flowVariance } = prior;
  // A variance between flows that is too large does little harm, one too small draws all flows to the mean: where the cells' sizes say that
  // flows differ more than the fit does, the larger one is tried first, and the flows themselves decide.
  if (flowVariance >= 0.5 * background.flowVariance)
    return run(sketch, flows, background, graph, prior, maxRounds);
  const wide = { ...prior, flowVariance: background.flowVariance };
  const beliefs = run(sketch, flows, background, graph, wide, maxRounds);
  const learnt = Math.max(flowVariance, learntVariance(beliefs));
  if (!beliefs.settled || learnt > 0.5 * background.flowVariance) return beliefs;
  return run(sketch, flows, background, graph, { ...prior, flowVariance: learnt }, maxRounds);
}

interface Prior {
  commonNs: number;
  flowVariance: number;
  packetVariance: number;
  /** Of each flow's packets, where flows show it. */
  perFlow: Float64Array | null;
}

function priorOf(sketch: DelaySketch, flows: FlowSet, graph: Graph): Prior {
  const { meanNs: commonNs, first, second } = fitPrior(sketch, graph);
  const jitter = measureJitter(sketch, flows);
  // Foreign packets can only add to what a flow's cells differ by: the smaller figure is the better one.
  const seen = jitter.freedom >= ENOUGH_FREEDOM && (jitter.pooled < second || second === 0);
  const packetVariance = seen ? jitter.pooled : second;
  return { commonNs, flowVariance: first, packetVariance, perFlow: seen ? jitter.perFlow : null };
}

/** Mean square distance of flows from the common mean, each by how much was learnt about it. */
function learntVariance({ meanNs, variance, commonNs, flowVariance }: Beliefs): number {
  let sum = 0;
  let weights = 0;
  for (let f = 0; f < meanNs.length; f++) {
    const weight = 1 - variance[f]! / flowVariance;
    if (!(weight > 0)) continue;
    sum += weight * ((meanNs[f]! - commonNs) ** 2 + variance[f]!);
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

function run(
  sketch: DelaySketch,
  flows: FlowSet,
  background: Background,
  graph: Graph,
  prior: Prior,
  maxRounds: number,
): Beliefs {
  const { cell, a, starts } = graph;
  const edges = cell.length;
  const { commonNs, flowVariance, packetVariance, perFlow } = prior;
  const n = flows.count;
  const cells = sketch.usable.length;

  const noise = new Float64Array(cells);
  const y = new Float64Array(cells);
  for (let c = 0; c < cells; c++) {
    if (graph.sum[c] === 0) continue;
    const packets = sketch.received[c]!;
    y[c] = sketch.delaySumNs[c]! - commonNs * packets;
    // A sixth of a ns^2 per packet: what whole nanoseconds at both ends leave open.
    noise[c] = packets / 6 + flowVariance * graph.chance[c]! + backgroundVariance(background, graph.left[c]!);
  }
  const priorVariance = new Float64Array(n);
  for (let f = 0; f < n; f++) {
    const within = perFlow?.[f] ?? packetVariance;
    const weight = flows.weights?.[f] ?? 1;
    priorVariance[f] = flowVariance + within / Math.max(1, flows.packets[f]!) + 1e-6;
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const share = sketch.shares[Math.floor(cell[e]! / sketch.geometry.columns)]!;
      noise[cell[e]!]! += (1 - share) * weight * a[e]! * within;
    }
  }
  const theta = new Float64Array(edges);
  const spread = new Float64Array(edges);
  for (let f = 0; f < n; f++) spread.fill(priorVariance[f]!, starts[f]!, starts[f + 1]!);
  const sumTheta = new Float64Array(cells);
  const sumSpread = new Float64Array(cells);
  const meanNs = new Float64Array(n);
  const precisions = new Float64Array(n);
  const perEdge = new Float64Array(2 * flows.cellsPerFlow);
  let step = FIRST_STEP;
  let rounds = 0;
  let sinceRestart = 0;
  let least = Number.POSITIVE_INFINITY;
  let change = Number.POSITIVE_INFINITY;
  while (change > CONVERGED && sinceRestart < maxRounds) {
    sumTheta.fill(0);
    sumSpread.set(noise);
    for (let e = 0; e < edges; e++) {
      const c = cell[e]!;
      const w = a[e]!;
      sumTheta[c]! += w * theta[e]!;
      sumSpread[c]! += w * w * spread[e]!;
    }
    change = 0;
    for (let f = 0; f < n; f++) {
      const from = starts[f]!;
      const to = starts[f + 1]!;
      const own = 1 / priorVariance[f]!;
      let precision = own;
      let weighted = 0;
      for (let e = from; e < to; e++) {
        const c = cell[e]!;
        const w = a[e]!;
        const m = y[c]! - (sumTheta[c]! - w * theta[e]!);
        // What rounding leaves of a sum after its largest part is taken out again must not pass for certainty.
        const v = Math.max(1e-13 * sumSpread[c]!, sumSpread[c]! - w * w * spread[e]!);
        const p = (w * w) / v;
        const q = (w * m) / v;
        perEdge[2 * (e - from)] = p;
        perEdge[2 * (e - from) + 1] = q;
        precision += p;
        weighted += q;
      }
      const moved = weighted / precision - meanNs[f]!;
      change += moved * moved * own;
      meanNs[f]! += moved;
      precisions[f] = precision;
      for (let e = from; e < to; e++) {
        // Never less than the flow's own prior, whatever cancels.
        const without = Math.max(own, precision - perEdge[2 * (e - from)]!);
        const t = (weighted - perEdge[2 * (e - from) + 1]!) / without;
        theta[e]! += step * (t - theta[e]!);
        spread[e]! += step * (1 / without - spread[e]!);
      }
    }
    change /= Math.max(1, n);
    rounds++;
    sinceRestart++;
    if (sinceRestart > 1 && !(change <= 2 * least) && step > 0.03) {
      // Swinging: flows that share many cells overcorrect each other. Smaller steps, from the start.
      step /= 2;
      theta.fill(0);
      least = Number.POSITIVE_INFINITY;
      sinceRestart = 0;
    } else least = Math.min(least, change);
  }
  const variance = finalVariances(sketch, graph, priorVariance, spread, sumSpread, noise);
  for (let f = 0; f < n; f++) {
    meanNs[f]! += commonNs;
    if (starts[f] === starts[f + 1]) variance[f] = Number.NaN;
  }
  const settled = change < UNSETTLED;
  return {
    meanNs,
    variance,
    priorVariance,
    commonNs,
    flowVariance,
    packetVariance,
    perFlow,
    rounds,
    settled,
  };
}

/** Posterior variances; the k cells of a row share the flows that collide there, so their interference counts as one and the same. */
function finalVariances(
  sketch: DelaySketch,
  { starts, cell, a, sum }: Graph,
  priorVariance: Float64Array,
  spread: Float64Array,
  sumSpread: Float64Array,
  noise: Float64Array,
): Float64Array {
  const { columns, k } = sketch.geometry;
  const out = new Float64Array(priorVariance.length);
  let filled = 0;
  for (const packets of sum) if (packets > 0) filled++;
  const echo = k > 1 ? 1 + cell.length / Math.max(1, filled) / ECHO : 1;
  for (let f = 0; f < out.length; f++) {
    let precision = 1 / priorVariance[f]!;
    for (let e = starts[f]!; e < starts[f + 1]!; ) {
      const end = (Math.floor(cell[e]! / columns) + 1) * columns;
      let squares = 0;
      let shared = 0;
      let separate = 0;
      for (; e < starts[f + 1]! && cell[e]! < end; e++) {
        const c = cell[e]!;
        const w = a[e]!;
        const v = Math.max(1e-13 * sumSpread[c]!, sumSpread[c]! - w * w * spread[e]!);
        const interference = Math.max(0, v - noise[c]!);
        const weight = w / v;
        squares += weight * w;
        shared += weight * Math.sqrt(interference);
        separate += weight * weight * (v - interference);
      }
      precision += (squares * squares) / (separate + shared * shared);
    }
    out[f] = Math.min(priorVariance[f]!, echo / precision);
  }
  return out;
}
