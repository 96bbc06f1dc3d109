/**
 * Predicts the accuracy of a geometry before any packet is seen. Flows are placed on counters at random, and the posterior variances of blup.ts are calculated,
 * which need no times. Flows of the requested sizes are then added to these counters. A sample of the flows on the same share of the counters behaves like the
 * whole.
 */

import { normalCdf, normalQuantile } from "../../base/math/special.ts";
import { Random } from "../../base/random.ts";
import { noiseOf, posteriorVariances, priorVariances } from "./blup.ts";
import type { Difference } from "./difference.ts";
import { layFlows } from "./flow-graph.ts";
import { type Layout, layoutOf, vectorsOfCells } from "./layout.ts";
import type { ColateParameters } from "./parameters.ts";

export interface Traffic {
  packets: number;
  /** Packets of flows: all flows, or a sample. */
  flowPackets: Float64Array;
  flows: number;
  /** Variance between the means of flows and within a flow, divided by the squared mean. */
  flowVariance: number;
  packetVariance: number;
}

export interface Predicted {
  size: number;
  /** Share of such flows that get an answer: with a usable counter and not too much noise. */
  answered: number;
  /** Median relative error of these flows; null if less than half get an answer. */
  relativeError: number | null;
  /** Share of these flows with a relative error below the interval. */
  reliability: number | null;
  packetsUsed: number | null;
}

const SAMPLE_FLOWS = 8000;
const TRIALS = 300;
/** Packets per counter from which on a flow is placed individually. */
const LISTED = 0.2;
const NODES = 16;
const MEDIAN_STEP = 5;

export function predictFlows(
  parameters: ColateParameters,
  traffic: Traffic,
  loss: number,
  sizes: readonly number[],
  interval: number,
): Predicted[] {
  // A new generator per size: the prediction for a size does not depend on the other sizes requested.
  const state = background(parameters, traffic, loss, new Random("colate size"));
  return sizes.map((size) =>
    predictSize(state, parameters, traffic, loss, size, interval, new Random(`colate flows of ${size}`)),
  );
}

interface State {
  layout: Layout;
  usable: Uint8Array;
  /** Per cell: variance of the sum of delays, and of the count. */
  cellVariance: Float64Array;
  countVariance: Float64Array;
}

/**
 * Builds the counters for a sample of the traffic, without the requested flows. Flows with hardly a packet per counter say nothing about each other and are not
 * placed individually: their packets are noise with independent means.
 */
function background(parameters: ColateParameters, traffic: Traffic, loss: number, random: Random): State {
  const smallest = parameters.n * Math.min(...parameters.shares);
  const part = Math.min(1, Math.max(SAMPLE_FLOWS / traffic.flows, (4 * parameters.m) / smallest));
  const flows = Math.max(1, Math.round(traffic.flows * part));
  const all = new Float64Array(flows);
  for (let f = 0; f < flows; f++) {
    all[f] = traffic.flowPackets[Math.floor(((f + random.float()) / flows) * traffic.flowPackets.length)]!;
  }
  // A sample of a heavy tail rarely has its share of the packets, so sizes above one are scaled to fit.
  stretch(all, traffic.packets * part);
  const layout = layoutOf({ ...parameters, n: Math.max(16, Math.round(parameters.n * part)) });
  const { n, m, q, starts } = layout;
  const packets = all.filter((p) => p * Math.max(...q) >= LISTED * m);
  const small = traffic.packets * part - packets.reduce((s, p) => s + p, 0);
  const perFlow = m * q.length;
  const places = new Uint32Array(packets.length * perFlow);
  const listed = new Float64Array(n);
  const rest = new Float64Array(n);
  for (let v = 0; v < q.length; v++) {
    const cells = starts[v + 1]! - starts[v]!;
    rest.fill(Math.max(0, (small * q[v]!) / cells), starts[v]!, starts[v + 1]!);
    for (let f = 0; f < packets.length; f++) {
      for (let j = 0; j < m; j++) {
        const c = starts[v]! + random.below(cells);
        places[f * perFlow + v * m + j] = c;
        listed[c]! += (packets[f]! * q[v]!) / m;
      }
    }
  }
  const usable = new Uint8Array(n);
  for (let c = 0; c < n; c++) {
    if (random.float() < (1 - loss) ** (listed[c]! + rest[c]!)) usable[c] = 1;
    else listed[c] = 0;
  }
  const none = new Uint32Array(n);
  const difference: Difference = {
    ...{ layout, vector: vectorsOfCells(layout), usable, packets: listed, delayNs: new Float64Array(n) },
    ...{ sent: none, received: none, unitNs: 0, used: 0, usedCells: 0, filled: 0, missing: 0, appeared: 0 },
    ...{ late: [], swapped: 0, overfull: 0, outliers: { cells: 0, most: false }, vectors: [] },
  };
  const hash = new Uint32Array(0);
  const list = { count: packets.length, hash, packets, bytes: packets, keyWords: hash, complete: true };
  const graph = layFlows(difference, list, places);
  const { flowVariance, packetVariance } = traffic;
  const prior = { meanNs: 1, meanVariance: 0, flowVariance, packetVariance };
  const noise = noiseOf(graph, listed, prior, 0, { alpha: 0, beta: 0 });
  for (let c = 0; c < n; c++) noise[c]! += (flowVariance + packetVariance) * rest[c]!;
  const { cellVariance } = posteriorVariances(graph, noise, priorVariances(graph, prior), prior);
  const countVariance = graph.countVariance.map((v, c) => v + rest[c]!);
  return { layout, usable, cellVariance, countVariance };
}

function predictSize(
  { layout, usable, cellVariance, countVariance }: State,
  { m }: ColateParameters,
  { flowVariance, packetVariance }: Traffic,
  loss: number,
  size: number,
  interval: number,
  random: Random,
): Predicted {
  const { q, starts } = layout;
  const prior = flowVariance + packetVariance / size;
  const deviations: number[] = [];
  let seen = 0;
  for (let t = 0; t < TRIALS; t++) {
    let precision = 0;
    let [weights, squares, share] = [0, 0, 0];
    for (let v = 0; v < q.length; v++) {
      const rho = q[v]! / m;
      const a = size * rho;
      for (let j = 0; j < m; j++) {
        const c = starts[v]! + random.below(starts[v + 1]! - starts[v]!);
        if (usable[c] === 0 || random.float() >= (1 - loss) ** a) continue;
        const own = a * (1 - rho);
        const chance = own > 0 ? own * (1 - own / (own + countVariance[c]!)) : 0;
        const others = cellVariance[c]! + flowVariance * chance + 1e-9 * a * a;
        const w = a / others;
        precision += a * w;
        weights += rho * w;
        squares += rho * w * w;
        share += rho;
      }
    }
    if (precision === 0) continue;
    const uneven = (packetVariance / size) * Math.max(0, squares / (weights * weights) - 1);
    const variance = Math.min(prior, 1 / (1 / prior + precision) + uneven);
    if (variance > 0.9 * prior && 1.96 * Math.sqrt(variance) > 0.2) continue;
    deviations.push(Math.sqrt(variance));
    seen += share * size;
  }
  const answered = deviations.length / TRIALS;
  if (answered < 0.5) return { size, answered, relativeError: null, reliability: null, packetsUsed: null };
  return {
    size,
    answered,
    relativeError: medianError(deviations, flowVariance),
    reliability: reliabilityOf(deviations, flowVariance, interval),
    packetsUsed: seen / deviations.length,
  };
}

/** Returns the relative error that half of the flows, with lognormal means, do not exceed; by bisection of its logarithm. */
function medianError(deviations: readonly number[], flowVariance: number): number {
  const largest = deviations.reduce((s, d) => Math.max(s, d), 0);
  if (largest === 0) return 0;
  // A subset of the deviations is enough: the median of hundreds is not known more precisely.
  const some = deviations.filter((_, i) => i % MEDIAN_STEP === 0);
  let [low, high] = [1e-9, 1e3 * largest];
  while (high / low > 1.01) {
    const middle = Math.sqrt(low * high);
    if (reliabilityOf(some, flowVariance, middle) < 0.5) low = middle;
    else high = middle;
  }
  return high;
}

/** Returns the share of flows, with lognormal means, whose error is below the interval. */
function reliabilityOf(deviations: readonly number[], flowVariance: number, interval: number): number {
  const sigma = Math.sqrt(Math.log1p(flowVariance));
  let sum = 0;
  for (let i = 0; i < NODES; i++) {
    const truth = Math.exp(sigma * normalQuantile((i + 0.5) / NODES) - (sigma * sigma) / 2);
    for (const d of deviations) sum += 2 * normalCdf((interval * truth) / d) - 1;
  }
  return sum / (NODES * deviations.length);
}

function stretch(packets: Float64Array, wanted: number): void {
  const above = packets.reduce((s, p) => s + Math.max(0, p - 1), 0);
  const factor = above > 0 ? Math.max(0, wanted - packets.length) / above : 1;
  for (let f = 0; f < packets.length; f++) packets[f] = 1 + Math.max(0, packets[f]! - 1) * factor;
}
