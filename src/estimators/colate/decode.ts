/** From the differences of the counters and what is known of flows to each flow's mean delay and the variance of that. */
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
  /** Of blup. */
  system: FlowSystem | null;
  /** What packets of each flow are expected to take, seen or not; its variance now, and before counters were looked at. */
  level: { meanNs: Float64Array; variance: Float64Array; prior: Float64Array };
  /** The mean over the packets that each flow had. */
  meanNs: Float64Array;
  variance: Float64Array;
  priorVariance: Float64Array;
  /** Of the variance, the share that rests on how the flow's own packets vary; 0 where each flow's jitter is not known by itself. */
  ofJitter?: Float64Array;
}

/** s^2 is taken to be at least so many of its standard errors: an interval that rests on no jitter at all holds nothing where there is some. */
const UNSURE = 2;
/** Flows that make up less of the packets are not solved for together: what they meet in their counters is others, about which nothing is known. */
const MOST = 0.5;
/** How V may fall with the size of flows, p^-gamma: steeper for as long as that makes the cells likelier. */
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

/** All flows at once, with these priors. */
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
  // The common mean has an error of its own, which flows share as far as they are drawn to it.
  for (let f = 0; f < graph.flows; f++)
    levels.variance[f]! += (levels.variance[f]! / levelPrior[f]!) ** 2 * prior.meanVariance;
  const { thetaNs, variance, ofJitter } = meansOverPackets(graph, noise, prior, y, levels);
  const level = { meanNs: nsOf(levels.thetaNs), variance: levels.variance, prior: levelPrior };
  return { prior, priorVariance, system, level, meanNs: nsOf(thetaNs), variance, ofJitter };
}

/** V and s^2: where all flows are known, from what they explain; else from how much the means of cells vary. */
function fitPrior(
  difference: Difference,
  cells: readonly number[],
  graph: FlowGraph,
  loose: VarianceFit,
): Prior {
  const { packets, delayNs } = difference;
  if (!graph.complete) {
    // How much of it is within flows is not known: all of it, to be on the safe side.
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
    own: within ?? undefined,
  };
}
