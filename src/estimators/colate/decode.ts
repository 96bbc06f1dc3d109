/** Decodes the differences of the counters: from what is known about the flows to each flow's mean delay and its variance. */
import { fitSmooth, looseFlowVariance, type SmoothBackground } from "../cells/background.ts";
import { heavyTails, jitterByLevel } from "../cells/tails.ts";
import { filledCells, fitVariance, type VarianceFit } from "../cells/variance.ts";
import type { KnownFlows } from "../estimator.ts";
import {
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

export interface Decoded {
  graph: FlowGraph;
  prior: Prior;
  background: SmoothBackground;
  decoder: "blup" | "quick";
  /** Only for blup. */
  system: FlowSystem | null;
  /** Expected delay of a packet of each flow, seen or not; its variance after decoding, and the prior variance. */
  level: { meanNs: Float64Array; variance: Float64Array; prior: Float64Array };
  /** The mean over the packets that each flow had. */
  meanNs: Float64Array;
  variance: Float64Array;
  priorVariance: Float64Array;
  /** Share of the variance that is due to the variation of the flow's own packets; 0 if the jitter of single flows is not known. */
  ofJitter?: Float64Array;
}

/** Lower limit of s^2, in its standard errors. An interval based on zero jitter would never hold if there is some. */
const UNSURE = 2;
/** Minimum share of all packets for flows to be solved jointly. Below it, most packets in their counters are of unknown flows. */
const MOST = 0.5;
/** V may decrease with flow size as p^-gamma: gamma is increased as long as the cells' likelihood grows. */
const GAMMA_STEP = 0.1;
const MAX_GAMMA = 0.5;

export function decodeFlows(
  difference: Difference,
  known: KnownFlows,
  places: Uint32Array,
  parameters: ColateParameters,
): Decoded {
  const { packets, delayNs } = difference;
  const sized = known.packets.filter((p) => p > 0);
  const complete = known.complete && sized.length === known.count;
  const most = sized.reduce((s, p) => s + p, 0) >= MOST * packets.reduce((s, n) => s + n, 0);
  const decoder = parameters.decoder === "auto" ? (complete || most ? "blup" : "quick") : parameters.decoder;
  const graph = layFlows(difference, { ...known, complete: complete && decoder === "blup" }, places);
  const cells = filledCells(packets);
  const loose = fitSmooth({ cells, delaySumNs: delayNs, packets });
  const background: SmoothBackground = { alpha: loose.second, beta: loose.first };
  const prior = fitPrior(difference, cells, graph, loose);
  if (decoder === "quick") {
    const priorVariance = priorVariances(graph, prior);
    const y = delayNs.map((x, c) => x - prior.meanNs * packets[c]!);
    const { thetaNs, variance } = quickAnswers(graph, packets, y, prior, priorVariance, background);
    const meanNs = thetaNs.map((t) => t + prior.meanNs);
    const level = { meanNs, variance, prior: priorVariance };
    return { graph, prior, background, decoder, priorVariance, system: null, level, meanNs, variance };
  }
  const solve = (like: Prior) => solveAll(difference, graph, like, background, parameters.iterations);
  const first = solve(prior);
  const ofFlows = heavyTails(
    first.level.meanNs.map((x) => x - prior.meanNs),
    first.level.variance,
    prior.flowVariance,
  );
  if (!ofFlows) return { ...first, graph, background, decoder };
  const own = prior.own && jitterByLevel(prior.own, first.level.meanNs);
  return { ...solve({ ...prior, ofFlows, own }), graph, background, decoder };
}

/** Solves for all flows at once with these priors. */
function solveAll(
  { packets, delayNs, unitNs }: Difference,
  graph: FlowGraph,
  prior: Prior,
  background: SmoothBackground,
  iterations: number,
): Pick<Decoded, "prior" | "system" | "level" | "meanNs" | "variance" | "priorVariance" | "ofJitter"> {
  const priorVariance = priorVariances(graph, prior);
  const y = delayNs.map((x, c) => x - prior.meanNs * packets[c]!);
  const nsOf = (theta: Float64Array) => theta.map((t) => t + prior.meanNs);
  const noise = noiseOf(graph, packets, prior, unitNs, background);
  if (!prior.own) {
    const system = systemOf(graph, noise, priorVariance, iterations);
    const meanNs = nsOf(system.solve(system.project(y)));
    const { variance } = posteriorVariances(graph, noise, priorVariance, prior);
    const level = { meanNs, variance, prior: priorVariance };
    return { prior, priorVariance, system, level, meanNs, variance };
  }
  const levelPrior = levelVariances(graph, prior);
  const system = systemOf(graph, noise, levelPrior, iterations);
  const levels = {
    thetaNs: system.solve(system.project(y)),
    variance: posteriorVariances(graph, noise, levelPrior, null).variance,
  };
  // The common mean has its own error, which flows share in proportion to their shrinkage.
  for (let f = 0; f < graph.flows; f++)
    levels.variance[f]! += (levels.variance[f]! / levelPrior[f]!) ** 2 * prior.meanVariance;
  const { thetaNs, variance, ofJitter } = meansOverPackets(graph, noise, prior, y, levels);
  const level = { meanNs: nsOf(levels.thetaNs), variance: levels.variance, prior: levelPrior };
  return { prior, priorVariance, system, level, meanNs: nsOf(thetaNs), variance, ofJitter };
}

/** Fits V and s^2: if all flows are known, from what they explain; otherwise from the variation of the cells' means. */
function fitPrior(
  difference: Difference,
  cells: readonly number[],
  graph: FlowGraph,
  loose: VarianceFit,
): Prior {
  const { packets, delayNs } = difference;
  if (!graph.complete) {
    // The part within flows is unknown; to be safe, all of it is taken.
    const flowVariance = looseFlowVariance({ cells, delaySumNs: delayNs, packets }, loose);
    const packetVariance = Math.max(loose.second, flowVariance);
    return { meanNs: loose.meanNs, meanVariance: loose.meanVariance, flowVariance, packetVariance };
  }
  const within = jitterWithinFlows(difference, graph);
  const known = within ? jitterOf(graph, within.variance) : null;
  const fitAt = (gamma: number) => {
    const { squares, chance } = weighed(graph, gamma);
    const x1 = squares.map((s, c) => s + chance[c]!);
    return { gamma, ...fitVariance({ cells, delaySumNs: delayNs, packets, x1, known }) };
  };
  const level = fitAt(0);
  let fit = level;
  // If each flow has its own jitter, lasting flows show the decrease there.
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
    // It is hard to tell which of the two variances falls with size, so s^2 is not lowered for it. It is not set below its own uncertainty either.
    packetVariance: within?.common ?? Math.max(fit.second, level.second, UNSURE * level.secondError),
    own: within ?? undefined,
  };
}
