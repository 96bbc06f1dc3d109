/**
 * Traffic for tests and benchmarks of per-flow estimators: flows with Pareto sizes, each with its own latency from one of two modes, and jitter per packet.
 * Packets are generated flow by flow, or shuffled; the sums are the same, but the cache behaviour differs.
 */

import { mix64Into } from "../base/hash.ts";
import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { median } from "../base/math/regression.ts";
import { Random } from "../base/random.ts";
import { PacketBatch } from "../capture/batch.ts";
import {
  type EstimatorAnswer,
  isNoAnswer,
  type KnownFlows,
  type SealedEpoch,
  type Tap,
} from "../estimators/estimator.ts";
import { openTaps, type TapPair } from "./both-ends.ts";

export interface Population {
  flows: number;
  packets: number;
  /** Flow hashes as pairs [low, high]. */
  hash: Uint32Array;
  size: Uint32Array;
  baseNs: Float64Array;
  jitter: number;
  seed: number;
}

export interface PopulationOptions {
  flows: number;
  /** P(size >= x) = x^-shape, cut at maxPackets. */
  shape: number;
  maxPackets: number;
  /** The two modes of the flow latency, and the share of the first. */
  modesNs?: [number, number];
  shareLow?: number;
  /** Relative deviation of a packet from its flow's latency. */
  jitter?: number;
  seed: number;
}

export function makePopulation(options: PopulationOptions): Population {
  const random = new Random(options.seed);
  const [low, high] = options.modesNs ?? [100_000, 320_000];
  const { flows } = options;
  const hash = new Uint32Array(2 * flows);
  const size = new Uint32Array(flows);
  const baseNs = new Float64Array(flows);
  let packets = 0;
  for (let f = 0; f < flows; f++) {
    hash[2 * f] = random.uint32();
    hash[2 * f + 1] = random.uint32();
    size[f] = Math.min(options.maxPackets, Math.floor((1 - random.float()) ** (-1 / options.shape)));
    packets += size[f]!;
    baseNs[f] = random.bernoulli(options.shareLow ?? 0.5) ? low : high;
  }
  return { flows, packets, hash, size, baseNs, jitter: options.jitter ?? 0.1, seed: options.seed };
}

/** Generates the packets one by one: calls `emit` with the flow, both halves of the digest, the send time and the delay. */
export function eachPacket(
  population: Population,
  spanNs: number,
  emit: (flow: number, digestLow: number, digestHigh: number, sendNs: number, delayNs: number) => void,
  order?: Uint32Array,
): void {
  const random = new Random(population.seed).fork("packets");
  const { flows, size, baseNs, jitter, packets } = population;
  const pair = new Uint32Array(2);
  let number = 0;
  const one = (f: number) => {
    mix64Into(population.seed, ++number, pair);
    const base = baseNs[f]!;
    const delay = Math.max(0, Math.round(base * (1 + jitter * random.normal())));
    emit(f, pair[1]!, pair[0]!, Math.floor((spanNs / packets) * number), delay);
  };
  if (order) for (const f of order) one(f);
  else for (let f = 0; f < flows; f++) for (let i = size[f]!; i > 0; i--) one(f);
}

/** Returns the flow of each packet, in random order. */
export function shuffledPackets(population: Population): Uint32Array {
  const random = new Random(population.seed).fork("order");
  const order = new Uint32Array(population.packets);
  for (let f = 0, n = 0; f < population.flows; f++) {
    order.fill(f, n, n + population.size[f]!);
    n += population.size[f]!;
  }
  for (let i = order.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    const kept = order[i]!;
    order[i] = order[j]!;
    order[j] = kept;
  }
  return order;
}

/** What two points recorded of a population, and the true values. */
export interface PopulationRun {
  sealed: { sender: SealedEpoch; receiver: SealedEpoch }[];
  /** Number of packets that arrived, by flow; the sums below are over their delays. */
  received: Float64Array;
  sumNs: Float64Array;
  squaresNs2: Float64Array;
  flows: KnownFlows;
}

export interface PopulationRunOptions {
  spanNs?: number;
  /** Uniform loss rate. */
  loss?: number;
  /** Packets that only the receiver sees. */
  extra?: { flows: number; packets: number };
}

const LOST = Number.NaN;

/** Passes every packet to the taps of both ends. Estimators that need delays get them at the receiver. */
export function runPopulation(
  kernels: Kernels,
  population: Population,
  pairs: readonly TapPair[],
  { spanNs = 10e9, loss = 0, extra }: PopulationRunOptions = {},
): PopulationRun {
  const { senders, receivers } = openTaps(kernels, pairs);
  const batch = new PacketBatch(kernels);
  const losses = new Random(population.seed).fork("loss");
  const n = population.flows;
  const received = new Float64Array(n);
  const sumNs = new Float64Array(n);
  const squaresNs2 = new Float64Array(n);
  const bytes = new Float64Array(n);
  let columns = columnsOf(batch);
  let rows = 0;
  const flush = () => {
    batch.count = rows;
    for (const tap of senders) tap.update(batch, 0, rows);
    const after = columnsOf(batch);
    const select = kernels.u8.subarray(batch.column("select"), batch.column("select") + rows);
    let kept = 0;
    for (let i = 0; i < rows; i++) {
      after.time[i]! += after.delay[i]!;
      select[i] = Number.isNaN(after.delay[i]!) ? 0 : 1;
      kept += select[i]!;
    }
    if (kept < rows) batch.compact();
    for (const tap of receivers) tap.update(batch, 0, batch.count);
    columns = columnsOf(batch);
    rows = 0;
  };
  eachPacket(population, spanNs, (f, low, high, sendNs, delayNs) => {
    const lost = loss > 0 && losses.bernoulli(loss);
    const { time, digest, hash, delay, wireLength } = columns;
    time[rows] = sendNs;
    digest[2 * rows] = low;
    digest[2 * rows + 1] = high;
    hash[2 * rows] = population.hash[2 * f]!;
    hash[2 * rows + 1] = population.hash[2 * f + 1]!;
    delay[rows] = lost ? LOST : delayNs;
    wireLength[rows] = 40 + (low % 1461);
    bytes[f]! += 40 + (low % 1461);
    if (!lost) {
      received[f]!++;
      sumNs[f]! += delayNs;
      squaresNs2[f]! += delayNs * delayNs;
    }
    if (++rows === batch.capacity) flush();
  });
  flush();
  if (extra) addForeign(batch, receivers, extra, spanNs, population.seed);
  const sealed = pairs.map((_, i) => ({
    sender: entryAt(senders, i).seal(),
    receiver: entryAt(receivers, i).seal(),
  }));
  for (const tap of [...senders, ...receivers]) tap.free();
  batch.free();
  const flows: KnownFlows = {
    count: n,
    hash: population.hash,
    packets: Float64Array.from(population.size),
    bytes,
    keyWords: new Uint32Array(10 * n),
    complete: true,
  };
  return { sealed, received, sumNs, squaresNs2, flows };
}

/** Adds packets of other flows that only these taps see. */
function addForeign(
  batch: PacketBatch,
  taps: readonly Tap[],
  extra: { flows: number; packets: number },
  spanNs: number,
  seed: number,
): void {
  const random = new Random(seed).fork("foreign");
  const hashes = Uint32Array.from({ length: 2 * extra.flows }, () => random.uint32());
  for (let done = 0; done < extra.packets; ) {
    const { time, digest, hash, delay } = columnsOf(batch);
    const rows = Math.min(batch.capacity, extra.packets - done);
    for (let i = 0; i < rows; i++) {
      const f = random.below(extra.flows);
      time[i] = random.below(spanNs);
      digest[2 * i] = random.uint32();
      digest[2 * i + 1] = random.uint32();
      hash[2 * i] = hashes[2 * f]!;
      hash[2 * i + 1] = hashes[2 * f + 1]!;
      delay[i] = LOST;
    }
    batch.count = rows;
    for (const tap of taps) tap.update(batch, 0, rows);
    done += rows;
  }
}

function columnsOf(batch: PacketBatch) {
  return {
    time: batch.timeNs,
    digest: batch.digest,
    hash: batch.flowHash,
    delay: batch.delayNs,
    wireLength: batch.wireLength,
  };
}

export interface PopulationScore {
  flows: number;
  answered: number;
  /** Median of |estimate - truth| / truth, and the share of answers whose interval contains the true mean. */
  medianError: number;
  coverage: number;
}

const POPULATION_CLASSES: readonly (readonly [number, number])[] = [
  [100, 499],
  [500, 999],
  [1000, 4999],
  [5000, Number.POSITIVE_INFINITY],
];

export function scorePopulation(
  run: PopulationRun,
  answer: EstimatorAnswer,
  classes: readonly (readonly [number, number])[] = POPULATION_CLASSES,
): PopulationScore[] {
  return classes.map(([minimum, maximum]) => {
    const errors: number[] = [];
    let flows = 0;
    let covered = 0;
    for (const { flow, mean } of answer.flows) {
      const size = run.flows.packets[flow]!;
      if (size < minimum || size > maximum || run.received[flow] === 0) continue;
      flows++;
      if (isNoAnswer(mean)) continue;
      const truth = run.sumNs[flow]! / run.received[flow]!;
      errors.push(Math.abs(mean.valueNs - truth) / truth);
      if (truth >= mean.lowNs && truth <= mean.highNs) covered++;
    }
    return {
      flows,
      answered: errors.length,
      medianError: median(errors) ?? Number.NaN,
      coverage: covered / errors.length,
    };
  });
}
