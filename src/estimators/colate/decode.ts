/** From the differences of the counters and what is known of flows to each flow's mean delay and the variance of that. */
import type { KnownFlows } from "../estimator.ts";
import {
  type Background,
  backgroundVariance,
  type FlowSystem,
  noiseOf,
  type Prior,
  posteriorVariances,
  priorVariances,
  systemOf,
} from "./blup.ts";
import type { Difference } from "./difference.ts";
import { type FlowGraph, layFlows } from "./flow-graph.ts";
import type { ColateParameters } from "./parameters.ts";
import { quickAnswers } from "./quick.ts";
import { fitVariance, type VarianceFit } from "./variance.ts";

export interface Decoded {
  graph: FlowGraph;
  prior: Prior;
  background: Background;
  decoder: "blup" | "quick";
  /** Of blup. */
  system: FlowSystem | null;
  meanNs: Float64Array;
  /** Of each flow's mean. */
  variance: Float64Array;
  /** Before its counters were looked at. */
  priorVariance: Float64Array;
}

/** A size of cell is judged where there are so many. */
const BIN_CELLS = 30;
/** A flow is alone in a cell where others have no more than this share of it. */
const ALONE = 1e-6;
const ENOUGH_FREEDOM = 10;
const COMMON_FREEDOM = 4;
const MANY_FLOWS = 1000;

export function decodeFlows(
  difference: Difference,
  known: KnownFlows,
  places: Uint32Array,
  parameters: ColateParameters,
): Decoded {
  const { packets, delayNs, unitNs } = difference;
  const sized = known.packets.reduce((s, p) => s + (p > 0 ? 1 : 0), 0);
  const complete = known.complete && sized === known.count;
  const decoder =
    parameters.decoder === "auto" ? (complete || sized > 1 ? "blup" : "quick") : parameters.decoder;
  const graph = layFlows(difference, { ...known, complete: complete && decoder === "blup" }, places);
  const loose = fitVariance(packets, delayNs, (c) => packets[c]! * packets[c]!);
  const background: Background = { alpha: loose.second, beta: loose.first };
  const prior = fitPrior(difference, graph, loose);
  const priorVariance = priorVariances(graph, prior);
  const y = delayNs.map((x, c) => x - prior.meanNs * packets[c]!);
  const common = { graph, prior, background, decoder, priorVariance } as const;
  if (decoder === "quick") {
    const { thetaNs, variance } = quickAnswers(graph, packets, y, prior, priorVariance, background);
    return { ...common, system: null, meanNs: thetaNs.map((t) => t + prior.meanNs), variance };
  }
  const noise = noiseOf(graph, packets, prior, unitNs, background);
  const system = systemOf(graph, noise, priorVariance, parameters.iterations);
  const thetaNs = system.solve(system.project(y));
  const { variance } = posteriorVariances(graph, noise, priorVariance, prior);
  return { ...common, system, meanNs: thetaNs.map((t) => t + prior.meanNs), variance };
}

/** V and s^2: where all flows are known, from what they explain; else from how much the means of cells vary. */
function fitPrior(difference: Difference, graph: FlowGraph, loose: VarianceFit): Prior {
  const { packets, delayNs } = difference;
  if (!graph.complete) {
    // How much of it is within flows is not known: all of it, to be on the safe side.
    const flowVariance = looseFlowVariance(difference, loose);
    const packetVariance = Math.max(loose.second, flowVariance);
    return { meanNs: loose.meanNs, meanVariance: loose.meanVariance, flowVariance, packetVariance };
  }
  const within = graph.flows < MANY_FLOWS ? varianceWithinFlows(difference, graph) : null;
  const x1 = (c: number) => graph.squares[c]! + graph.chance[c]!;
  const fit = fitVariance(packets, delayNs, x1, within?.common ?? null);
  return {
    meanNs: fit.meanNs,
    meanVariance: fit.meanVariance,
    flowVariance: fit.first,
    packetVariance: fit.second,
    own: within?.own,
  };
}

/**
 * s^2 from flows that have counters to themselves: how the parts of one flow differ from its mean. Nothing between flows comes in, while a regression over the
 * cells of few flows can take one variance for the other. Over many flows the regression is right, and allows for what the model
 * leaves out. Null where there is too little of it.
 */
function varianceWithinFlows(
  { packets, delayNs }: Difference,
  graph: FlowGraph,
): { common: number; own: NonNullable<Prior["own"]> } | null {
  const { flows, starts, cell, a } = graph;
  const squares = new Float64Array(flows);
  const freedom = new Float64Array(flows);
  for (let f = 0; f < flows; f++) {
    let [n, sum, ratio, cells] = [0, 0, 0, 0];
    for (let e = starts[f]!; e < starts[f + 1]!; e++) {
      const c = cell[e]!;
      if (packets[c]! - a[e]! > ALONE * packets[c]!) continue;
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
  if (total < ENOUGH_FREEDOM) return null;
  const common = squares.reduce((s, x) => s + x, 0) / total;
  // Flows differ in their jitter: each by itself as far as it has shown it, the common one for the rest.
  const variance = squares.map((s, f) => (s + COMMON_FREEDOM * common) / (freedom[f]! + COMMON_FREEDOM));
  return { common, own: { variance, freedom: freedom.map((x) => x + COMMON_FREEDOM) } };
}

/**
 * Variance of a flow's mean, no flow known. A cell mixes flows, so its mean varies less than a flow's; the size of cell where means vary most is nearest
 * to flows.
 */
export function looseFlowVariance({ packets, delayNs }: Difference, loose: VarianceFit): number {
  const background = { alpha: loose.second, beta: loose.first };
  const sums = new Float64Array(33);
  const sizes = new Float64Array(33);
  for (let c = 0; c < packets.length; c++) {
    if (packets[c] === 0) continue;
    const bin = 31 - Math.clz32(packets[c]!);
    const y = delayNs[c]! - loose.meanNs * packets[c]!;
    // Cells beyond all bounds hold different packets at their ends.
    if (y * y > 100 * backgroundVariance(background, packets[c]!)) continue;
    sums[bin]! += (y / packets[c]!) ** 2;
    sizes[bin]!++;
  }
  let variance = background.beta;
  for (const [bin, size] of sizes.entries()) {
    if (size >= BIN_CELLS) variance = Math.max(variance, sums[bin]! / size);
  }
  return variance;
}
