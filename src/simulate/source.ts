/**
 * Generates traffic as batches in order of sending. Time, digest, 5-tuple, length, IPID and flags are filled in; the delay is still 0. Kernel memory is bounded
 * by the number of flows active at once.
 */
import { invalidValue, UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { DEFAULT_SIZES, storeKeys, writeFields } from "./keys.ts";
import { openReplay } from "./replay.ts";
import {
  type PopulationTraffic,
  type Probes,
  SIMULATED_FLAG,
  type Sizes,
  type SyntheticTraffic,
  type Traffic,
} from "./scenario.ts";

export interface Source {
  /** Empties the batch and fills it with the next packets; at the end the batch stays empty. */
  fill(batch: PacketBatch): void | Promise<void>;
  /** Nominal end in ns; null if the traffic has none. */
  readonly durationNs: number | null;
  free(): void;
}

/** Distinguishes the sources of one simulation. */
export interface SourceIdentity {
  seed: number;
  /** Number of the random stream. */
  stream: number;
  /** Upper 8 bits of packet numbers, so that digests of different sources never collide. */
  kind: number;
  flags?: number;
}

export function openSource(
  kernels: Kernels,
  traffic: Traffic,
  identity: SourceIdentity,
): Source | Promise<Source> {
  if (traffic.kind === "synthetic") return openSynthetic(kernels, traffic, identity);
  if (traffic.kind === "population") return openPopulation(kernels, traffic, identity);
  return openReplay(kernels, traffic, identity);
}

/** Runs the sources one after the other. */
export function inTurn(sources: readonly Source[]): Source {
  let at = 0;
  return {
    durationNs: sources.at(-1)?.durationNs ?? null,
    fill: async (batch) => {
      batch.count = 0;
      for (; at < sources.length; at++) {
        await sources[at]?.fill(batch);
        if (batch.count > 0) return;
      }
    },
    free: () => {
      for (const source of sources) source.free();
    },
  };
}

const NEVER_PACKETS = 2 ** 52;
/** Mean length of packets that are neither 576 nor 1500 bytes long: 40 or 52. */
const SMALL_BYTES = 46;

function positive(name: string, value: number): number {
  if (!(value > 0) || !Number.isFinite(value))
    throw invalidValue(name, value, "a number above 0", { code: "bad-parameter" });
  return value;
}

function checkedSizes(sizes: Sizes | undefined): Required<Sizes> {
  const all = { ...DEFAULT_SIZES, ...sizes };
  const { share1500, share576, mixing } = all;
  if (!(share1500 >= 0 && share576 >= 0 && share1500 + share576 <= 1) || !(mixing >= 0 && mixing <= 1))
    throw new UsageError("bad-parameter", "sizes: shares must lie in [0, 1] and share1500 + share576 too");
  return all;
}

/** Throws a UsageError if the traffic exceeds the capacity of its input links: packets would queue up before the links and fill the memory. */
function checkRate(ratePps: number, inputs: number, lineRateBps: number, sizes: Required<Sizes>): void {
  const { share1500, share576 } = sizes;
  const bytes = 1500 * share1500 + 576 * share576 + SMALL_BYTES * (1 - share1500 - share576);
  const maximum = (inputs * lineRateBps) / (8 * bytes);
  if (ratePps <= maximum) return;
  throw new UsageError(
    "bad-parameter",
    `${ratePps} packets per second of ${Math.round(bytes)} bytes do not fit ${inputs} input links of ${lineRateBps / 1e9} Gbit/s`,
    `at most ${Math.floor(maximum)}; more inputs carry more`,
  );
}

/** Number of terms that are summed; the rest of the sum is an integral (Euler-Maclaurin; the error is below 1e-20). */
const SUMMED_TERMS = 100_000;

/** Returns the mean flow size: the sum of P(size >= k). */
export function meanFlowPackets(alpha: number, maxPackets: number): number {
  const last = Math.floor(maxPackets);
  const summed = Math.min(last, SUMMED_TERMS);
  let sum = 0;
  for (let k = summed; k >= 1; k--) sum += k ** -alpha;
  if (last === summed) return sum;
  // The sum of f(k) from m to n is the integral from m to n plus half of f(m) + f(n), plus the correction by the slopes.
  const first = summed + 1;
  const integral =
    alpha === 1 ? Math.log(last / first) : (last ** (1 - alpha) - first ** (1 - alpha)) / (1 - alpha);
  const slope = (k: number) => -alpha * k ** (-alpha - 1);
  return sum + integral + (first ** -alpha + last ** -alpha) / 2 + (slope(last) - slope(first)) / 12;
}

const SYNTHETIC_DEFAULTS = {
  alpha: 1.1,
  maxFlowPackets: 10_000,
  inputs: 4,
  lineRateBps: 9_953_280_000,
  rtt: { medianMs: 50, sigma: 0.8, minMs: 2, maxMs: 400 },
  access: { minBps: 50e6, maxBps: 1e9 },
  window: { first: 2, capLow: 16, capHigh: 320 },
} as const;

function openSynthetic(kernels: Kernels, t: SyntheticTraffic, id: SourceIdentity): Source {
  const d = SYNTHETIC_DEFAULTS;
  const rate = positive("ratePps", t.ratePps);
  const durationNs = positive("durationS", t.durationS) * 1e9;
  const alpha = positive("alpha", t.alpha ?? d.alpha);
  const maxPackets = Math.min(positive("maxFlowPackets", t.maxFlowPackets ?? d.maxFlowPackets), 2 ** 31);
  const inputs = t.inputs ?? d.inputs;
  if (!Number.isInteger(inputs) || inputs < 1 || inputs > 255)
    throw new UsageError("bad-parameter", "inputs must be a whole number from 1 to 255");
  const rtt = { ...d.rtt, ...t.rtt };
  const access = { ...d.access, ...t.access };
  const window = { ...d.window, ...t.window };
  const sizes = checkedSizes(t.sizes);
  if (
    !(window.first >= 1 && window.capLow >= 1 && window.capHigh >= window.capLow && window.capHigh <= 65_535)
  )
    throw new UsageError("bad-parameter", "window: 1 <= capLow <= capHigh <= 65535 and first >= 1");
  if (!(access.minBps > 0 && access.maxBps >= access.minBps) || !(rtt.minMs > 0 && rtt.maxMs >= rtt.minMs))
    throw new UsageError("bad-parameter", "access and rtt: above 0, and the largest not below the smallest");
  const lineRate = positive("lineRateBps", t.lineRateBps ?? d.lineRateBps);
  checkRate(rate, inputs, lineRate, sizes);
  const keys = storeKeys(kernels, t.keys);
  // One packet per slot on average; one turn of the wheel takes longer than most round trips.
  const width = 2 ** Math.round(Math.log2(1e9 / rate));
  const slots = 2 ** Math.min(20, Math.max(10, Math.ceil(Math.log2((2e6 * rtt.medianMs) / width))));
  const fastest = 8e9 / positive("access.maxBps", access.maxBps);
  const slowest = 8e9 / positive("access.minBps", access.minBps);
  const address = kernels.call.simTrafficNew() >>> 0;
  writeFields(kernels, address, [
    rate / meanFlowPackets(alpha, maxPackets) / 1e9,
    alpha,
    Math.floor(maxPackets),
    durationNs,
    inputs,
    8e9 / lineRate,
    positive("rtt.medianMs", rtt.medianMs) * 1e6,
    rtt.sigma,
    positive("rtt.minMs", rtt.minMs) * 1e6,
    positive("rtt.maxMs", rtt.maxMs) * 1e6,
    fastest,
    Math.log(slowest / fastest),
    window.first,
    window.capLow,
    window.capHigh,
    sizes.share1500,
    sizes.share576,
    sizes.mixing,
    t.packets ?? NEVER_PACKETS,
    width,
    slots,
    keys.address,
    id.kind,
    id.flags ?? 0,
  ]);
  kernels.call.simTrafficStart(address, BigInt(id.seed), BigInt(id.stream));
  return {
    durationNs: t.packets === undefined ? durationNs : null,
    fill: (batch) => void kernels.call.simTrafficFill(address, batch.address),
    free: () => {
      kernels.call.simTrafficFree(address);
      keys.free();
    },
  };
}

const POPULATION_DEFAULTS = { flows: 10_000, alpha: 1.1, weightMax: 10_000 } as const;

function openPopulation(kernels: Kernels, t: PopulationTraffic, id: SourceIdentity): Source {
  const d = POPULATION_DEFAULTS;
  const rate = positive("ratePps", t.ratePps);
  if (t.durationS === undefined && t.packets === undefined)
    throw new UsageError("bad-parameter", "population traffic needs durationS or packets");
  const sizes = checkedSizes(t.sizes);
  const keys = storeKeys(kernels, t.keys);
  const durationNs = t.durationS === undefined ? Number.POSITIVE_INFINITY : t.durationS * 1e9;
  const address = kernels.call.simPopulationNew() >>> 0;
  writeFields(kernels, address, [
    Math.floor(positive("flows", t.flows ?? d.flows)),
    positive("alpha", t.alpha ?? d.alpha),
    1,
    positive("weightMax", t.weightMax ?? d.weightMax),
    1e9 / rate,
    t.arrivals === "uniform" ? 0 : 1,
    durationNs,
    t.packets ?? NEVER_PACKETS,
    sizes.share1500,
    sizes.share576,
    keys.address,
    id.kind,
    id.flags ?? 0,
  ]);
  kernels.call.simPopulationStart(address, BigInt(id.seed), BigInt(id.stream));
  const startNs = (t.startS ?? 0) * 1e9;
  const fill = (batch: PacketBatch) => {
    kernels.call.simPopulationFill(address, batch.address);
    if (startNs === 0) return;
    const { timeNs, count } = batch;
    for (let i = 0; i < count; i++) timeNs[i]! += startNs;
  };
  return {
    durationNs: t.packets === undefined ? startNs + durationNs : null,
    fill,
    free: () => {
      kernels.call.simPopulationFree(address);
      keys.free();
    },
  };
}

/** UDP port of STAMP (RFC 8762). */
const PROBE_PORT = 862;

/** Opens active probes: one UDP flow of small packets. */
export function openProbes(kernels: Kernels, probes: Probes, durationS: number, id: SourceIdentity): Source {
  const source = openPopulation(
    kernels,
    {
      kind: "population",
      ratePps: probes.ratePps,
      durationS,
      flows: 1,
      arrivals: probes.arrivals ?? "poisson",
      keys: { sources: [{ prefix: "192.0.2.1/32" }], targets: [{ prefix: "192.0.2.2/32" }], udpShare: 1 },
    },
    { ...id, flags: SIMULATED_FLAG.probe },
  );
  const length = probes.wireLength ?? 64;
  return {
    ...source,
    fill: async (batch) => {
      await source.fill(batch);
      batch.wireLength.fill(length, 0, batch.count);
      // The low word of a key contains both ports.
      const { meta, count } = batch;
      for (let i = 0; i < count; i++) meta[2 * i] = (PROBE_PORT << 16) | PROBE_PORT;
    },
  };
}
