/**
 * Gaussian belief propagation over the known flows. All flows are decoded together, so that what is learned about one is subtracted from the cells it shares
 * with others. This goes beyond the paper, whose decoders look at one flow at a time.
 *
 * Model: y_c = S_c - mean N_c = sum over the flows g of the cell of a_gc theta_g + noise_c, theta_g = a flow's mean delay - the common mean, prior N(0, V + s^2
 * / packets^0.75). a_gc: packets of g in the cell. If every packet of a flow falls into one cell of the row (k = 1, rate 1), a is known and there is no noise.
 * Otherwise a flow's packets are spread at random: given the cell's count N_c, flow g has N_c pi_g of them in the mean, with pi_g its share of the expected
 * packets. The noise is then jitter within flows, s^2 N_c, plus the random allocation, V N_c (1 - sum pi_g^2), which is small if one flow dominates. Packets of
 * unlisted flows are background noise.
 *
 * Messages: cell to flow m = y_c - sum_{g != f} a_g theta_g, v = sum_{g != f} a_g^2 v_g + noise; flow to cell precision 1/V + sum_{c' != c} a^2 / v, mean (sum
 * a m / v) / precision. Messages are damped, more so if they keep oscillating. The graph has loops: means are right if it converges, variances are approximate,
 * so tests check their coverage. Cost: rounds x flows x rows x k.
 */
import { type Background, backgroundVariance } from "../cells/background.ts";
import type { Jitter } from "../cells/jitter.ts";
import { heavyTails, jitterByLevel } from "../cells/tails.ts";
import { buildGraph, fitPrior, type Graph } from "./belief-graph.ts";
import type { DelaySketch } from "./difference.ts";
import type { FlowSet } from "./flow-set.ts";
import { ENOUGH_FREEDOM, measureJitter } from "./jitter.ts";
import { type Exchanged, exchangeMessages, type Problem, posteriorVariances } from "./messages.ts";
import { answerBySums } from "./row-sums.ts";

export interface Beliefs {
  /** Mean delay and its variance, per flow; the variance is NaN if no cell of the flow is usable. */
  meanNs: Float64Array;
  variance: Float64Array;
  priorVariance: Float64Array;
  /** The common mean and its variance, the variance between flows, and the variance within flows. */
  commonNs: number;
  commonVariance: number;
  flowVariance: number;
  packetVariance: number;
  /** Variance within each flow, if the flows show it. */
  jitter: Jitter | null;
  /** Degrees of freedom of the variances, if the flows do not show their own jitter. */
  freedom: number;
  rounds: number;
  /** Some row was allocated by sizes and counts. */
  byCounts: boolean;
  /** False if the messages kept oscillating: the means are then worthless. */
  settled: boolean;
}

/** Limit of the mean square of the last changes over the prior variance; above it, there is no answer. */
const UNSETTLED = 1e-3;
/** Packets of a flow come in bursts that a queue delays alike: jitter averages out as over p^0.75 independent packets. */
const ALIKE = 0.75;
/** In standard errors of the fit. */
const CLEARLY_SMALLER = 3;
/** With fewer cells than this, even a little jitter shown by flows is used. */
const FEW_CELLS = 200;

interface Prior {
  commonNs: number;
  commonVariance: number;
  flowVariance: number;
  /** Prior variance of each flow, if some are far from the others. */
  ofFlows: Float64Array | null;
  packetVariance: number;
  jitter: Jitter | null;
  freedom: number;
}

interface Setting {
  sketch: DelaySketch;
  flows: FlowSet;
  background: Background;
  graph: Graph;
  maxRounds: number;
}

export function propagateBeliefs(
  sketch: DelaySketch,
  flows: FlowSet,
  background: Background,
  maxRounds: number,
): Beliefs {
  const graph = buildGraph(sketch, flows);
  const setting = { sketch, flows, background, graph, maxRounds };
  const prior = priorOf(sketch, flows, graph);
  const first = firstBeliefs(setting, prior);
  const { theta, commonNs, flowVariance } = first;
  if (!first.settled) return first;
  const ofFlows = heavyTails(theta, first.variance, flowVariance);
  const jitter =
    prior.jitter &&
    jitterByLevel(
      prior.jitter,
      theta.map((t) => commonNs + t),
    );
  if (!ofFlows) return first;
  const again = run(setting, { ...prior, flowVariance, ofFlows, jitter }, first.exchanged);
  return again.settled ? again : first;
}

/** Beliefs with theta and the messages, from which the next solution starts. */
type Solution = Beliefs & { theta: Float64Array; exchanged: Exchanged };

/**
 * Solves with a first prior. A prior variance between flows that is too large does little harm; one that is too small shrinks all flows to the mean. If the
 * spread by cell size suggests larger differences than the fit, the larger variance is tried first, and the answers decide which is kept.
 */
function firstBeliefs(setting: Setting, prior: Prior): Solution {
  const { flowVariance } = prior;
  const loose = setting.background.flowVariance;
  if (flowVariance >= 0.5 * loose) return run(setting, prior);
  const beliefs = run(setting, { ...prior, flowVariance: loose });
  const learnt = Math.max(flowVariance, learntVariance(beliefs));
  if (!beliefs.settled || learnt > 0.5 * loose) return beliefs;
  return run(setting, { ...prior, flowVariance: learnt });
}

function priorOf(sketch: DelaySketch, flows: FlowSet, graph: Graph): Prior {
  const fit = fitPrior(sketch, graph);
  const { meanNs: commonNs, meanVariance: commonVariance, first, second, cells } = fit;
  const jitter = measureJitter(sketch, flows);
  const { common, total } = jitter;
  // Foreign packets can only add to the differences between a flow's cells, so a clearly smaller fit is the better one. A few cells cannot distinguish jitter
  // from differences between flows.
  const fits = common < second + CLEARLY_SMALLER * fit.secondError || second === 0;
  const clear = total >= ENOUGH_FREEDOM && fits;
  const seen = clear || (total > 0 && cells < FEW_CELLS);
  const packetVariance = clear ? common : seen ? Math.max(common, second) : second;
  const freedom = Math.max(1, cells - 2);
  return {
    ...{ commonNs, commonVariance, flowVariance: first, ofFlows: null, packetVariance, freedom },
    jitter: seen ? jitter : null,
  };
}

/** Mean square distance of flows from the common mean, each weighted by how much was learned about it. */
function learntVariance({ theta, variance, flowVariance }: Solution): number {
  let sum = 0;
  let weights = 0;
  for (let f = 0; f < theta.length; f++) {
    const weight = 1 - variance[f]! / flowVariance;
    if (!(weight > 0)) continue;
    sum += weight * (theta[f]! ** 2 + variance[f]!);
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

function run(setting: Setting, prior: Prior, from?: Exchanged): Solution {
  const { graph, sketch, maxRounds } = setting;
  const problem = problemOf(setting, prior);
  const exchanged = exchangeMessages(problem, maxRounds, from);
  const variance = posteriorVariances(problem, sketch, setting.flows.packets, exchanged);
  const { rounds, change } = exchanged;
  const theta = Float64Array.from(exchanged.theta);
  answerBySums(problem, setting.flows.packets, sketch.geometry.columns, { ...exchanged, theta }, variance);
  for (let f = 0; f < theta.length; f++)
    if (graph.starts[f] === graph.starts[f + 1]) variance[f] = Number.NaN;
  const { commonNs, commonVariance, flowVariance, packetVariance, jitter, freedom } = prior;
  return {
    meanNs: theta.map((t) => t + commonNs),
    ...{ theta, variance, exchanged, rounds, priorVariance: problem.priorVariance },
    ...{ commonNs, commonVariance, flowVariance, packetVariance, jitter, freedom },
    byCounts: graph.fitted.includes(true),
    settled: change < UNSETTLED,
  };
}

/** Returns what the cells hold beyond the common mean, the noise, and the flows' priors. */
function problemOf({ sketch, flows, background, graph }: Setting, prior: Prior): Problem {
  const { cell, a, apart, starts } = graph;
  const { commonNs, flowVariance, ofFlows, packetVariance, jitter } = prior;
  const cells = sketch.usable.length;
  const noise = new Float64Array(cells);
  const y = new Float64Array(cells);
  for (let c = 0; c < cells; c++) {
    if (graph.sum[c] === 0) continue;
    const packets = sketch.received[c]!;
    y[c] = sketch.delaySumNs[c]! - commonNs * packets;
    // Whole nanoseconds at both ends add a rounding variance of 1/6 ns^2 per packet.
    noise[c] = packets / 6 + flowVariance * graph.chance[c]! + backgroundVariance(background, graph.left[c]!);
  }
  const priorVariance = new Float64Array(flows.count);
  const jitterVariance = new Float64Array(flows.count);
  for (let f = 0; f < flows.count; f++) {
    const within = jitter?.variance[f] ?? packetVariance;
    const weight = flows.weights?.[f] ?? 1;
    priorVariance[f] =
      (ofFlows?.[f] ?? flowVariance) + within / Math.max(1, flows.packets[f]!) ** ALIKE + 1e-6;
    jitterVariance[f] = weight * within;
    for (let e = starts[f]!; e < starts[f + 1]!; e++)
      noise[cell[e]!]! += apart[e]! * a[e]! * jitterVariance[f]!;
  }
  return { graph, y, noise, priorVariance, jitterVariance, mostCells: flows.cellsPerFlow };
}
