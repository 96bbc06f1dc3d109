/**
 * From packets per epoch, a target error of single packets and a target false positive rate to groups, bits and bytes (MAPLE, section 3.4: dimension.ts; the
 * ribbon by its own rule). Errors are those of the groups: lognormal delays are divided into groups like an epoch's delays, and their distance from the group's
 * mean is measured.
 *
 * Width of the lognormal: queueing delays spread over more octaves than their variation shows, because most are short and a few long ones dominate the mean.
 * Measured on the reference traffic at 55 to 95 % load, groups perform as for a lognormal with a standard deviation of the logarithm of 0.3 to 1.5; the worst
 * is 88 %, where the variation of 1.4 would suggest 1.1. So at least 1.6 is used, and more if the given variation requires it. The stated errors are those of a
 * busy link; on an idle link they are smaller.
 */

import { UsageError } from "../../base/errors.ts";
import { required } from "../../base/lists.ts";
import { bucketOf } from "../../base/math/log-histogram.ts";
import { quantileSorted } from "../../base/math/regression.ts";
import { normalQuantile } from "../../base/math/special.ts";
import { formatBytes, significant } from "../../base/quantity.ts";
import { BATCH_ROWS } from "../../capture/batch.ts";
import type { ParameterValues, SizeAnswer, SizePrediction, SizeRequest } from "../estimator.ts";
import { centreOf } from "./centres/centres.ts";
import { epochCentres } from "./centres/epoch-centres.ts";
import {
  bestHashes,
  codeBitsOf,
  combFailure,
  dimensionComb,
  dimensionSvbf,
  dimensionTable,
  falsePositive,
  ribbonCodeBits,
  svbfFailure,
} from "./dimension.ts";
import {
  completeParameters,
  identitiesOf,
  MAPLE_PARAMETERS,
  type MapleParameters,
  tapBytes,
} from "./parameters.ts";

import { isBuilt } from "./stores/packet-store.ts";

const CHOICES = [4, 8, 16, 32, 50, 64, 100, 128, 200, 256, 400, 512, 800, 1024, 2048, 4096];
const DEFAULT_ABSENT = 0.1;
/** Rate of wrong answers that table 1 tunes the hash table for. */
const DEFAULT_WRONG = 0.02;
const RIBBON_OVERHEAD = 1.018;
/** Epochs differ: headroom over the given number of packets. */
const HEADROOM = 1.1;
const POINTS = 4000;
const CELL_BYTES = { compact: 14, plain: 48 };
const HEAD_BYTES = 150;
/** Minimum standard deviation of the logarithm of a busy queue's delays. */
const QUEUE_SIGMA = 1.6;
const DAY_NS = 86_400e9;
const FLOW_SIZES = [10, 100];

export function sizeMaple(request: SizeRequest): SizeAnswer<MapleParameters> {
  const notes: string[] = [];
  const parameters = fitMemory(choose(request, notes), request, notes);
  const { k } = parameters;
  const payloadBytes = bytesOf(parameters, request);
  const memoryBytes = tapBytes(parameters, BATCH_ROWS);
  const errors = packetErrors(k, request.variation);
  const predictions: SizePrediction[] = [
    { quantity: "packets, median", loss: 0, relativeError: errors.median, packetsUsed: 1 },
    { quantity: "packets, p90", loss: 0, relativeError: errors.p90, packetsUsed: 1 },
    ...FLOW_SIZES.map((n) => ({
      quantity: `mean of flows of ${n} packets`,
      loss: 0,
      relativeError: errors.mean / Math.sqrt(n),
      packetsUsed: n,
    })),
  ];
  notes.push(...describe(parameters));
  const perDay = (payloadBytes * DAY_NS) / request.epochNs;
  notes.push(`${formatBytes(perDay)} per day and point`);
  notes.push(
    "errors are those of a busy queue's delays, or of the variation given where that is larger; a wrong or missing answer comes on top",
  );
  return {
    parameters,
    memoryBytes,
    payloadBytes,
    bitsPerSecond: (8e9 * payloadBytes) / request.epochNs,
    bitsPerPacket: (8 * payloadBytes) / request.packets,
    predictions,
    notes,
  };
}

function choose(request: SizeRequest, notes: string[]): MapleParameters {
  const { fixed, error } = request;
  const values: ParameterValues = Object.fromEntries(MAPLE_PARAMETERS.map((s) => [s.name, s.default]));
  Object.assign(values, fixed);
  const absent = request.absent ?? null;
  if (fixed["k"] === undefined && error !== null) {
    const enough = CHOICES.find((k) => packetErrors(k, request.variation).median <= error);
    if (enough === undefined) {
      const message = `no number of groups up to ${CHOICES.at(-1)} makes the median error of a packet ${error}`;
      throw new UsageError("bad-parameter", message, "take a larger ‘error’");
    }
    values["k"] = enough;
  }
  const k = values["k"] as number;
  if (fixed["capacity"] === undefined) values["capacity"] = Math.round(HEADROOM * request.packets);
  if (fixed["flows"] === undefined && request.flows !== null)
    values["flows"] = Math.round(HEADROOM * request.flows);
  const wanted = absent ?? DEFAULT_ABSENT;
  const { store } = values;
  if (isBuilt(store as MapleParameters["store"])) {
    if (fixed["check"] === undefined && absent !== null)
      values["check"] = ribbonCodeBits(k, absent) - codeBitsOf(k);
    if (request.flows === null && values["index"] !== "false") {
      notes.push("number of flows not given: the index is sized for flows of 6 packets");
    }
  } else if (store === "table") {
    if (fixed["bits"] === undefined)
      values["bits"] = round(dimensionTable(absent ?? DEFAULT_WRONG, k).bitsPerPacket);
  } else {
    const { f, theta } = values as MapleParameters;
    const dimension = store === "comb" ? dimensionComb(wanted, f, theta) : dimensionSvbf(wanted, k);
    if (fixed["bits"] === undefined) {
      values["bits"] = round(dimension.bitsPerPacket);
      if (fixed["hashes"] === undefined) values["hashes"] = dimension.hashes;
    } else if (fixed["hashes"] === undefined) {
      values["hashes"] = bestHashes(values["bits"] as number, store === "comb" ? theta : 1);
    }
  }
  return completeParameters(values);
}

/** Fits the parameters into the memory: a streaming store, which needs no buffer of the epoch, or a smaller capacity. */
function fitMemory(chosen: MapleParameters, request: SizeRequest, notes: string[]): MapleParameters {
  const limit = request.memoryBytes;
  const needs = (p: MapleParameters) => tapBytes(p, BATCH_ROWS);
  if (limit === null || needs(chosen) <= limit) return chosen;
  if (chosen.store === "ribbon" && request.fixed["store"] === undefined) {
    notes.push("a ribbon needs a buffer of the epoch's packets: the memory holds a streaming store");
    const fixed = { ...request.fixed, store: "svbf" };
    return fitMemory(choose({ ...request, fixed }, notes), { ...request, fixed }, notes);
  }
  if (!isBuilt(chosen.store) && request.fixed["bits"] === undefined) {
    const free = limit - needs({ ...chosen, capacity: 1, bits: 0 });
    const bits = Math.floor((80 * free) / chosen.capacity / identitiesOf(chosen).length) / 10;
    if (bits >= 1) {
      const hashes =
        chosen.store === "table" ? 0 : bestHashes(bits, chosen.store === "comb" ? chosen.theta : 1);
      return { ...chosen, bits, hashes };
    }
  }
  // Memory is proportional to the packets, so the capacity is found by bisection.
  let [low, high] = [0, chosen.capacity];
  while (high - low > 1) {
    const capacity = (low + high) >>> 1;
    if (needs({ ...chosen, capacity, flows: Math.min(chosen.flows, capacity) }) <= limit) low = capacity;
    else high = capacity;
  }
  if (low === 0) {
    const message = `${limit} bytes are too few for a store of packets`;
    throw new UsageError("bad-parameter", message, "‘set store=svbf’ needs the smallest memory");
  }
  notes.push(`the memory holds ${low} packets of an epoch: the others are shed, and counted`);
  return { ...chosen, capacity: low, flows: Math.min(chosen.flows, low) };
}

const round = (bits: number) => Math.ceil(10 * bits) / 10;

/** Describes the structure's accuracy by the paper's formulas. */
function describe(p: MapleParameters): string[] {
  const share = (x: number) => `${significant(100 * x, 3)} %`;
  const { store, k, bits, hashes, f, theta } = p;
  if (isBuilt(store)) {
    const r = codeBitsOf(k) + p.check - (store === "mixed" ? p.fewer : 0);
    return [
      `${store}: k = ${k} in r = ${r} bits (${(RIBBON_OVERHEAD * r).toFixed(2)} with its overhead); never a wrong or second group`,
      `a packet that was never seen is answered with a probability of ${share(k / 2 ** (codeBitsOf(k) + p.check))}`,
    ];
  }
  if (store === "table") {
    const load = codeBitsOf(k + 1) / bits;
    return [
      `table: wrong for ${share(1 + Math.expm1(-load) / load)}, answers ${share(-Math.expm1(-load))} of packets that were never seen`,
    ];
  }
  const failure = store === "comb" ? combFailure(bits, hashes, f, theta) : svbfFailure(bits, hashes, k);
  const failing = `several groups for ${share(failure)} of packets (classification failure)`;
  if (store === "comb")
    return [`COMB(${f}, ${theta}): h = ${hashes} per code bit, ${bits} bits per packet; ${failing}`];
  const absent = 1 - (1 - falsePositive(1 / bits, hashes)) ** k;
  const out = [
    `${store}: k = ${k}, h = ${hashes}, ${bits} bits per packet; ${failing}`,
    `a packet that was never seen is answered with a probability of ${share(absent)}`,
  ];
  if (store === "pbf")
    out.push(
      "packets beyond what a group was expected to get are left out: 6 to 24 % where seconds differ as on busy links",
    );
  return out;
}

/** Returns a payload's bytes: stores, sums of groups, index. */
function bytesOf(p: MapleParameters, request: SizeRequest): number {
  const n = request.packets;
  const identities = identitiesOf(p).length;
  const compact = isBuilt(p.store) && p.index !== "true";
  const sums = p.k * (compact ? CELL_BYTES.compact : CELL_BYTES.plain) + HEAD_BYTES;
  if (!isBuilt(p.store)) return Math.round((identities * p.capacity * p.bits) / 8 + sums);
  const stores =
    (identities * n * RIBBON_OVERHEAD * (codeBitsOf(p.k) + p.check - (p.store === "mixed" ? p.fewer : 0))) /
    8;
  return Math.round(stores + sums + indexBits(p, request) / 8);
}

function indexBits(p: MapleParameters, { packets, flows, flowPackets }: SizeRequest): number {
  if (p.index === "false") return 0;
  const count = flowPackets?.length ?? flows ?? packets / 6;
  // An IPv4 key, two counts and a share of the bucket; a three-byte range of IPIDs for every other packet.
  if (p.index === "true") return 8 * (17 * count + 1.5 * packets);
  const sizes = flowPackets ?? [packets / count];
  const weight = flowPackets ? 1 : count;
  let bits = 0;
  for (const m of sizes) {
    const shift = Math.max(0, Math.floor(Math.log2(Math.max(1, p.k / m))));
    // Differences of sorted numbers add up to the last number.
    bits += weight * (10.5 + 2 * Math.log2(m) + 1 + m * (1 + shift) + (p.k * m) / (m + 1) / 2 ** shift);
  }
  return bits;
}

const known = new Map<string, { median: number; p90: number; mean: number }>();

/**
 * mean of the group - delay| / delay over lognormal delays around 1 ms, with k groups.
 */
function packetErrors(k: number, variation: number): { median: number; p90: number; mean: number } {
  const name = `${k}/${variation}`;
  const before = known.get(name);
  if (before) return before;
  const sigma = Math.max(QUEUE_SIGMA, Math.sqrt(Math.log1p(variation * variation)));
  const delays = Float64Array.from({ length: POINTS }, (_, i) =>
    Math.round(1e6 * Math.exp(sigma * normalQuantile((i + 0.5) / POINTS))),
  );
  const counts = new Map<number, [count: number, sum: number]>();
  for (const delay of delays) {
    const cell = counts.get(bucketOf(delay)) ?? [0, 0];
    counts.set(bucketOf(delay), [cell[0] + 1, cell[1] + delay]);
  }
  const buckets = [...counts].sort(([a], [b]) => a - b);
  const centres = epochCentres(
    {
      buckets: Int32Array.from(buckets, ([bucket]) => bucket),
      counts: Float64Array.from(buckets, ([, [count]]) => count),
      meansNs: Float64Array.from(buckets, ([, [count, sum]]) => sum / count),
    },
    k,
    { scale: "log" },
  );
  const groups = Uint16Array.from(delays, (d) => centreOf(centres, d));
  const errors = Float64Array.from(delays, (d, i) => Math.abs(centres.valuesNs[groups[i]!]! - d) / d).sort();
  const out = {
    median: required(quantileSorted(errors, 0.5), "the median error"),
    p90: required(quantileSorted(errors, 0.9), "the 90th percentile of errors"),
    mean: errors.reduce((sum, e) => sum + e, 0) / POINTS,
  };
  known.set(name, out);
  return out;
}
