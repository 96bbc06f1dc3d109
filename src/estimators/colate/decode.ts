/** From the differences of the counters and what is known of flows to each flow's mean delay and the variance of that. */
import type { KnownFlows } from "../estimator.ts";
import {
  type Background,
  backgroundVariance,
  type FlowSystem,
  jitterOf,
  levelVariances,
  meansOverPackets,
  noiseOf,
  type Prior,
  posteriorVariances,
  priorVariances,
  systemOf,
  weighed,
} from "./blup.ts";
import type { Difference } from "./difference.ts";
import { type FlowGraph, layFlows } from "./flow-graph.ts";
import { jitterWithinFlows } from "./jitter.ts";
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
  /** What packets of each flow are expected to take, seen or not; its variance now, and before counters were looked at. */
  level: { meanNs: Float64Array; variance: Float64Array; prior: Float64Array };
  /** The mean over the packets that each flow had. */
  meanNs: Float64Array;
  variance: Float64Array;
  priorVariance: Float64Array;
}

/** A size of cell is judged where there are so many. */
const BIN_CELLS = 30;
/** s^2 is taken to be at least so many of its standard errors: an interval that rests on no jitter at all holds nothing where there is some. */
const UNSURE = 2;
/** How V may fall with the size of flows, p^-gamma: steeper for as long as that makes the cells likelier. */
const GAMMA_STEP = 0.1;
const MAX_GAMMA = 0.5;

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
  const nsOf = (theta: Float64Array) => theta.map((t) => t + prior.meanNs);
  if (decoder === "quick") {
    const { thetaNs, variance } = quickAnswers(graph, packets, y, prior, priorVariance, background);
    const meanNs = nsOf(thetaNs);
    const level = { meanNs, variance, prior: priorVariance };
    return { ...common, system: null, level, meanNs, variance };
  }
  const noise = noiseOf(graph, packets, prior, unitNs, background);
  if (!prior.own) {
    const system = systemOf(graph, noise, priorVariance, parameters.iterations);
    const meanNs = nsOf(system.solve(system.project(y)));
    const { variance } = posteriorVariances(graph, noise, priorVariance, prior);
    return { ...common, system, level: { meanNs, variance, prior: priorVariance }, meanNs, variance };
  }
  const levelPrior = levelVariances(graph, prior);
  const system = systemOf(graph, noise, levelPrior, parameters.iterations);
  const levels = {
    thetaNs: system.solve(system.project(y)),
    variance: posteriorVariances(graph, noise, levelPrior, null).variance,
  };
  // The common mean has an error of its own, which flows share as far as they are drawn to it.
  for (let f = 0; f < graph.flows; f++)
    levels.variance[f]! += (levels.variance[f]! / levelPrior[f]!) ** 2 * prior.meanVariance;
  const { thetaNs, variance } = meansOverPackets(graph, noise, prior, y, levels);
  const level = { meanNs: nsOf(levels.thetaNs), variance: levels.variance, prior: levelPrior };
  return { ...common, system, level, meanNs: nsOf(thetaNs), variance };
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
  const within = jitterWithinFlows(difference, graph);
  const known = within ? jitterOf(graph, within.own.variance) : null;
  const fitAt = (gamma: number) => {
    const { squares, chance } = weighed(graph, gamma);
    return { gamma, ...fitVariance(packets, delayNs, (c) => squares[c]! + chance[c]!, known) };
  };
  const level = fitAt(0);
  let fit = level;
  // Where each flow has its own jitter, lasting flows show it there.
  while (!within && fit.gamma < MAX_GAMMA) {
    const steeper = fitAt(fit.gamma + GAMMA_STEP);
    if (steeper.deviance >= fit.deviance) break;
    fit = steeper;
  }
  return {
    gamma: fit.gamma,
    meanNs: fit.meanNs,
    meanVariance: fit.meanVariance,
    flowVariance: fit.first,
    // Which of the two falls with size is hard to tell: s^2 is not lowered for it. Nor is it known to be less than the error it is known with.
    packetVariance: within?.common ?? Math.max(fit.second, level.second, UNSURE * level.secondError),
    own: within?.own,
  };
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
