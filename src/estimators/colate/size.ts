/**
 * Chooses a geometry for the expected traffic: counters from memory or from a target error or reliability, vectors and counters per flow from the loss, bits
 * from the delay if known. Predicts the accuracy by flow size (predict.ts).
 */

import { UsageError } from "../../base/errors.ts";
import { countOf, formatCount, significant } from "../../base/quantity.ts";
import type { SizeAnswer, SizePrediction, SizeRequest } from "../estimator.ts";
import { CELL_BYTES } from "./layout.ts";
import {
  COLATE_PARAMETERS,
  type ColateParameters,
  completeColate,
  LOSSY_SHARES,
  LOSSY_VECTORS,
  MAX_COUNTERS,
} from "./parameters.ts";
import { type Predicted, predictFlows, type Traffic } from "./predict.ts";
import { memoryBytes } from "./tap.ts";

const DEFAULT_INTERVAL = 0.05;
const DEFAULT_SIZES = [10, 30, 100, 300, 1000, 3000, 10_000];
/** Packets per flow if the number of flows is not known. */
const DEFAULT_FLOW = 6;
/** Share of the delays' variance that is between flows. */
const BETWEEN_FLOWS = 0.8;
const MIN_COUNT = 256;

export function sizeColate(request: SizeRequest): SizeAnswer<ColateParameters> {
  const notes: string[] = [];
  const loss = request.loss.length > 0 ? request.loss : [0, 0.001, 0.01];
  if (request.loss.length === 0) notes.push("loss rate not given: vectors for up to 1 %");
  const traffic = trafficOf(request, notes);
  const { parameters, target } = choose(request, traffic, loss);
  const interval = request.interval ?? DEFAULT_INTERVAL;
  const sizes = [...new Set([...DEFAULT_SIZES, ...(request.flowSize === null ? [] : [request.flowSize])])]
    .filter((size) => size <= request.packets)
    .sort((a, b) => a - b);
  const predictions = loss.flatMap((rate) =>
    predictFlows(parameters, traffic, rate, sizes, interval).map((p) => describe(p, rate, p.size === target)),
  );
  const payloadBytes = expectedPayload(parameters, request.packets);
  notes.push("errors are medians over flows of that size");
  notes.push(
    `reliability: share of flows whose error is below ${significant(100 * interval, 3)} %, assuming that ${100 * BETWEEN_FLOWS} % of the variance of delays is between flows`,
  );
  if (request.fixed["b"] === undefined && request.fixed["delay"] === undefined) {
    notes.push("the maximum mean delay is not known: ‘set delay=10ms’ may need fewer bits per counter");
  }
  return {
    parameters,
    memoryBytes: memoryBytes(parameters),
    payloadBytes,
    bitsPerSecond: (8 * payloadBytes) / (request.epochNs / 1e9),
    bitsPerPacket: (8 * payloadBytes) / request.packets,
    predictions,
    notes,
  };
}

function describe(
  { size, relativeError, reliability, packetsUsed }: Predicted,
  loss: number,
  asked: boolean,
): SizePrediction {
  const quantity = `${asked ? "mean of " : ""}flows of ${formatCount(size)} packets`;
  return { quantity, loss, relativeError, packetsUsed, reliability };
}

function trafficOf(request: SizeRequest, notes: string[]): Traffic {
  const flows = request.flowPackets?.length ?? request.flows ?? Math.ceil(request.packets / DEFAULT_FLOW);
  if (request.flowPackets === null && request.flows === null)
    notes.push(`no number of flows given: ${DEFAULT_FLOW} packets each on average`);
  const variance = request.variation * request.variation;
  const common = { packets: request.packets, flows, flowVariance: BETWEEN_FLOWS * variance };
  const packetVariance = (1 - BETWEEN_FLOWS) * variance;
  if (request.flowPackets !== null) {
    return { ...common, packetVariance, flowPackets: Float64Array.from(request.flowPackets).sort() };
  }
  // Pareto with exponent 1.1, typical of backbone traffic: P(size >= k) = k^-1.1.
  const shape = 1.1;
  const flowPackets = Float64Array.from({ length: 20_000 }, (_, i) =>
    Math.floor((1 - (i + 0.5) / 20_000) ** (-1 / shape)),
  );
  return { ...common, packetVariance, flowPackets };
}

interface Choice {
  parameters: ColateParameters;
  /** The flow size for which an error or reliability was requested. */
  target: number | null;
}

function choose(request: SizeRequest, traffic: Traffic, loss: readonly number[]): Choice {
  const wanted = request.error !== null || (request.reliability ?? null) !== null;
  const target = wanted ? (request.flowSize ?? 1000) : null;
  const judged = target ?? request.flowSize ?? 1000;
  const interval = request.interval ?? DEFAULT_INTERVAL;
  const build = (n: number, shape: Shape) => complete(request, traffic, n, shape);
  // Flows ten times as large must reach the target too, because they lose a packet in every counter sooner.
  const sizes = [judged, 10 * judged].filter((size) => size <= Math.max(judged, request.packets / 10));
  const worst = (p: ColateParameters) => {
    const all = loss.flatMap((rate) => predictFlows(p, traffic, rate, sizes, interval));
    return {
      error: Math.max(...all.map((x) => x.relativeError ?? Infinity)),
      reliability: Math.min(...all.map((x) => x.reliability ?? 0)),
    };
  };
  const best = (n: number) => {
    let chosen: { parameters: ColateParameters; error: number; reliability: number } | null = null;
    for (const shape of shapes(request, loss)) {
      const parameters = tryBuild(() => build(n, shape));
      if (!parameters) continue;
      const found = { parameters, ...worst(parameters) };
      if (!chosen || found.error < chosen.error) chosen = found;
    }
    return chosen;
  };
  if (!wanted) {
    const given = request.fixed["n"] as number | undefined;
    const room = request.memoryBytes === null ? null : Math.floor(request.memoryBytes / CELL_BYTES);
    const n = given ?? (room === null ? 65_536 : Math.min(MAX_COUNTERS, room));
    for (let m = n; m >= 16; m = Math.floor(m * 0.98)) {
      const found = best(m);
      // The seeds of a flow's counters take memory as well.
      const fits =
        found && (request.memoryBytes === null || memoryBytes(found.parameters) <= request.memoryBytes);
      if (found && fits) return { parameters: found.parameters, target };
      if (given !== undefined) break;
    }
    throw new UsageError(
      "bad-parameter",
      `${countOf(request.memoryBytes ?? 0, "byte")}: too little memory for COLATE`,
      `${CELL_BYTES} bytes per counter, and a few hundred counters at least`,
    );
  }
  const enough = (n: number) => {
    const found = best(n);
    if (!found) return null;
    const good =
      (request.error === null || found.error <= request.error) &&
      found.reliability >= (request.reliability ?? 0);
    return good ? found.parameters : null;
  };
  let high = MIN_COUNT;
  let found = enough(high);
  while (!found) {
    high *= 2;
    if (high > MAX_COUNTERS / 4) {
      throw new UsageError(
        "bad-parameter",
        `no number of counters up to ${formatCount(MAX_COUNTERS / 4)} gives ${target === null ? "all flows" : `flows of ${formatCount(target)} packets`} what is wanted`,
        "allow a larger error, larger flows (‘flow-size’), or less loss",
      );
    }
    found = enough(high);
  }
  for (let low = high / 2; high / low > 1.08; ) {
    const middle = Math.round(Math.sqrt(low * high));
    const better = enough(middle);
    if (better) [high, found] = [middle, better];
    else low = middle;
  }
  return { parameters: found, target };
}

interface Shape {
  m: number;
  vectors: readonly number[];
  shares: readonly number[];
}

/** Returns the vectors and counters per flow to try. */
function shapes({ fixed }: SizeRequest, loss: readonly number[]): Shape[] {
  const lossy = loss.some((rate) => rate > 0);
  const ms = fixed["m"] !== undefined ? [fixed["m"] as number] : lossy ? [2, 8, 32] : [2];
  const one = { vectors: [1], shares: [1] };
  const four = { vectors: LOSSY_VECTORS, shares: LOSSY_SHARES };
  const given = fixed["vectors"] as readonly number[] | undefined;
  const sets = given
    ? [{ vectors: given, shares: (fixed["shares"] as readonly number[] | undefined) ?? [] }]
    : lossy
      ? [one, four]
      : [one];
  return sets.flatMap((set) => ms.map((m) => ({ m, ...set })));
}

function complete(request: SizeRequest, traffic: Traffic, n: number, shape: Shape): ColateParameters {
  const defaults = Object.fromEntries(COLATE_PARAMETERS.map((s) => [s.name, s.default]));
  const values = { ...defaults, ...bitsFor(request, traffic, n, shape), ...request.fixed };
  return completeColate({ ...values, ...shape, n });
}

/** Returns bits and unit for counters whose packets have the given delay, at a resolution of a thousandth of it. */
function bitsFor(
  { fixed }: SizeRequest,
  traffic: Traffic,
  n: number,
  { m, vectors, shares }: Shape,
): Record<string, number> {
  const delay = fixed["delay"] as number | undefined;
  if (delay === undefined || fixed["b"] !== undefined) return {};
  const unit = (fixed["unit"] as number | undefined) ?? 2 ** Math.max(0, Math.floor(Math.log2(delay / 1000)));
  const largest = traffic.flowPackets.reduce((s, p) => Math.max(s, p), 1);
  const first = Math.max(...vectors);
  const fullest = 2 * ((largest * first) / m + (traffic.packets * first) / (n * (shares[0] ?? 1)));
  return { unit, b: Math.min(52, Math.ceil(Math.log2((fullest * delay) / unit)) + 2) };
}

/** Packed as in payload.ts: sums, digests, and counts that take two bits more than their own length. */
function expectedPayload({ n, b, check, vectors, shares }: ColateParameters, packets: number): number {
  let bits = 0;
  for (const [v, q] of vectors.entries()) {
    const cells = n * shares[v]!;
    const mean = (packets * q) / cells;
    const filled = -Math.expm1(-mean);
    bits += cells * (filled * (b + check) + Math.log2(1 + mean) + 2.5);
  }
  return Math.ceil(bits / 8) + 32;
}

function tryBuild(build: () => ColateParameters): ColateParameters | null {
  try {
    return build();
  } catch (error) {
    if (error instanceof UsageError) return null;
    throw error;
  }
}
