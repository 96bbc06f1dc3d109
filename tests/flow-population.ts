/**
 * Traffic for tests and benches of per-flow estimators: flows with Pareto sizes, each with a latency of its own from two modes and
 * jitter per packet. Packets are made flow by flow, or shuffled; sums do not mind, caches do.
 */
import { mix64 } from "../src/base/hash.ts";
import { Random } from "../src/base/random.ts";

export interface Population {
  flows: number;
  packets: number;
  /** [low, high] per flow. */
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
  /** Two modes of flow latency and the share of the first. */
  modesNs?: [number, number];
  shareLow?: number;
  /** Relative deviation of a packet around its flow's latency. */
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

/** One packet after the other: calls `emit` with the flow, the digest's halves, the send time and the delay. */
export function eachPacket(
  population: Population,
  spanNs: number,
  emit: (flow: number, digestLow: number, digestHigh: number, sendNs: number, delayNs: number) => void,
  order?: Uint32Array,
): void {
  const random = new Random(population.seed).fork("packets");
  const { flows, size, baseNs, jitter, packets } = population;
  let number = 0;
  const one = (f: number) => {
    const [high, low] = mix64(population.seed, ++number);
    const base = baseNs[f]!;
    const delay = Math.max(0, Math.round(base * (1 + jitter * random.normal())));
    emit(f, low, high, Math.floor((spanNs / packets) * number), delay);
  };
  if (order) for (const f of order) one(f);
  else for (let f = 0; f < flows; f++) for (let i = size[f]!; i > 0; i--) one(f);
}

/** The flow of each packet, in random order. */
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
