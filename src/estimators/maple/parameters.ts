/** MAPLE's parameters, the relations between them, and derived values. */
import { UsageError } from "../../base/errors.ts";
import type { ParameterSpec, ParameterValues } from "../estimator.ts";
import type { Strategy } from "./centres/pipeline.ts";
import { bestHashes, codeBitsOf } from "./dimension.ts";
import { FLOW_ROW_BYTES, ROW_BYTES } from "./epoch-buffer.ts";
import type { Identity } from "./identity.ts";
import { isBuilt, STORE_KINDS, type StoreGeometry, type StoreKind } from "./stores/packet-store.ts";

// A type, not an interface: it must be assignable to ParameterValues.
export type MapleParameters = {
  store: StoreKind;
  k: number;
  check: number;
  fewer: number;
  centres: "exact" | Strategy;
  identity: Identity | "both";
  /** A string, because existing records store it as such: "true" lists keys and IPIDs, "delays" stores each flow's delays by its hash. */
  index: "delays" | "true" | "false";
  capacity: number;
  flows: number;
  rate: number;
  s0: number;
  bits: number;
  hashes: number;
  f: number;
  theta: number;
  low: number;
  high: number;
  sampling: number;
};

export const MAPLE_PARAMETERS: readonly ParameterSpec[] = [
  {
    name: "store",
    kind: "choice",
    choices: STORE_KINDS,
    default: "ribbon",
    help: "structure: ribbon is built at the epoch's end, mixed too, with fewer bits for some packets; svbf, comb, pbf and table (the paper's) take packets as they come",
  },
  { name: "k", kind: "integer", default: 64, min: 1, max: 4096, help: "groups of delays" },
  {
    name: "check",
    kind: "integer",
    default: 4,
    min: 0,
    max: 15,
    help: "ribbon: bits beside the group's number; a packet that was never seen is answered with probability k / 2^(bits of k + check)",
  },
  {
    name: "fewer",
    kind: "number",
    default: 0.9,
    min: 0,
    max: 1.5,
    help: "mixed: bits of the group's number that a packet does without, on average",
  },
  {
    name: "centres",
    kind: "choice",
    choices: ["exact", "hybrid", "log", "kmedians"],
    default: "exact",
    help: "where groups come from: exact (the epoch's own delays, ribbon only), or from two epochs before (hybrid, kmedians), or a fixed range (log)",
  },
  {
    name: "identity",
    kind: "choice",
    choices: ["both", "digest", "flow-ipid"],
    default: "digest",
    help: "what packets can be asked by: their digest, their flow and IPID, or both (a store each)",
  },
  {
    name: "index",
    kind: "choice",
    choices: ["delays", "true", "false"],
    default: "delays",
    help: "ribbon: delays: keep the delays of each flow, to ask for a flow without a capture; true: list keys and IPIDs instead (with identity=both), to ask for all flows, hosts or prefixes; false: neither",
  },
  {
    name: "capacity",
    kind: "integer",
    default: 1_048_576,
    min: 1,
    max: 2 ** 25,
    help: "packets of an epoch that are kept; more are shed and counted",
  },
  {
    name: "flows",
    kind: "integer",
    default: 262_144,
    min: 1,
    max: 2 ** 24,
    help: "flows of an epoch that are listed",
  },
  {
    name: "rate",
    kind: "number",
    default: 0,
    min: 0,
    max: 1e15,
    unit: "bit/s",
    help: "rate of the link: store the queueing delay, without a packet's own transmission (questions must know sizes); 0: the delay",
  },
  {
    name: "s0",
    kind: "number",
    default: 200,
    min: 1,
    max: 1e9,
    unit: "ns",
    help: "below this, exact centres make absolute errors small, above relative ones",
  },
  {
    name: "bits",
    kind: "number",
    default: 12.8,
    min: 1,
    max: 1000,
    help: "svbf, comb, pbf, table: bits per packet of the capacity",
  },
  {
    name: "hashes",
    kind: "integer",
    default: 0,
    min: 0,
    max: 32,
    help: "svbf, comb, pbf: number of hash functions; 0: the best number",
  },
  { name: "f", kind: "integer", default: 8, min: 1, max: 64, help: "comb: bits of a group's code" },
  { name: "theta", kind: "integer", default: 3, min: 1, max: 64, help: "comb: bits set in it" },
  {
    name: "low",
    kind: "number",
    default: 100,
    min: 1,
    max: 1e12,
    unit: "ns",
    help: "start of the range of log centres",
  },
  {
    name: "high",
    kind: "number",
    default: 10_000_000,
    min: 2,
    max: 1e13,
    unit: "ns",
    help: "end of the range of log centres",
  },
  {
    name: "sampling",
    kind: "number",
    default: 0.1,
    min: 0.0001,
    max: 1,
    help: "share of packets that centres are learnt from",
  },
];

export function completeParameters(values: ParameterValues): MapleParameters {
  const p = { ...values } as MapleParameters;
  const bad = (message: string, hint: string) =>
    new UsageError("bad-parameter", message, hint, { parameter: "maple" });
  if (!isBuilt(p.store)) {
    // Streaming stores need centres before the packets, and keep no packets to list flows from.
    if (p.centres === "exact") p.centres = "hybrid";
    p.index = "false";
  } else if (codeBitsOf(p.k) + p.check > 16) {
    throw bad(
      `k=${p.k} and check=${p.check} need ${codeBitsOf(p.k) + p.check} bits`,
      "at most 16: use a smaller check",
    );
  }
  // A store of digests cannot be searched by IPID ranges, so a list of them would be useless.
  if (p.identity === "digest" && isBuilt(p.store) && p.index === "true") p.index = "delays";
  if (!(p.low < p.high)) throw bad(`low=${p.low} is not below high=${p.high}`, "both in ns");
  if (p.store === "comb" && p.theta > p.f)
    throw bad(`theta=${p.theta} is above f=${p.f}`, "COMB(8, 3) has f=8, theta=3");
  if (p.hashes === 0 && !isBuilt(p.store) && p.store !== "table") {
    p.hashes = bestHashes(p.bits, p.store === "comb" ? p.theta : 1);
  }
  return p;
}

export function identitiesOf(p: MapleParameters): Identity[] {
  return p.identity === "both" ? ["digest", "flow-ipid"] : [p.identity];
}

/** Transmission time per byte in ns that is subtracted from a delay; 0: none. */
export function nsPerByteOf(p: MapleParameters): number {
  return p.rate > 0 ? 8e9 / p.rate : 0;
}

/** The geometry of a store with this many groups (exact centres may be fewer than k). */
export function geometryOf(p: MapleParameters, groups: number, seed: bigint): StoreGeometry {
  const comb = p.store === "comb";
  return {
    kind: p.store,
    groups,
    seed,
    codeBits: isBuilt(p.store) ? codeBitsOf(p.k) + p.check : p.store === "table" ? codeBitsOf(p.k + 1) : 0,
    hashes: isBuilt(p.store) || p.store === "table" ? 0 : p.hashes,
    f: comb ? p.f : 0,
    theta: comb ? p.theta : 0,
  };
}

/** Records of the flow table are allocated in segments; its index has up to four slots per flow while it grows (kernels/flows/flows.ts). */
const FLOW_SEGMENT = 16_384;
const FLOW_RECORD_BYTES = 48;
const FLOW_INDEX_BYTES = 8 * 6;
const FLOW_TABLE_BYTES = 1 << 17;

/** Maximum memory of a tap in bytes: the buffer plus what building at the end of the epoch takes, or the filters. */
export function tapBytes(p: MapleParameters, batchRows: number): number {
  const stores = identitiesOf(p).length;
  if (!isBuilt(p.store)) return batchRows * (ROW_BYTES + 2) + Math.ceil((stores * p.capacity * p.bits) / 8);
  let row = ROW_BYTES + (p.index === "false" ? 0 : FLOW_ROW_BYTES);
  // Building: codes, two columns of hashes, grouped codes and the words; plus the histogram and the tables of one block.
  const building = 2 + 8 + 8 + 2 + (1.05 * (codeBitsOf(p.k) + p.check)) / 8;
  const fixed = 1 << 20;
  // Mixed ribbons also copy keys and numbers.
  if (p.store === "mixed") row += 8 + 2 + 4 + 3 * 10;
  if (p.index === "false") return Math.ceil(p.capacity * (row + building)) + fixed;
  // Listing: records, their index, order and counts, at most 64 bytes of list per flow; IPIDs and at most 6 bytes of ranges per packet.
  const records = Math.ceil(p.flows / FLOW_SEGMENT) * FLOW_SEGMENT * FLOW_RECORD_BYTES + FLOW_TABLE_BYTES;
  const listing = records + p.flows * (FLOW_INDEX_BYTES + 64 + 16) + p.capacity * 8;
  return Math.ceil(p.capacity * (row + building) + listing) + fixed;
}
