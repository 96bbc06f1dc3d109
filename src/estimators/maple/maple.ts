/**
 * MAPLE (Lee, Duffield, Kompella: "MAPLE: A Scalable Architecture for Maintaining Packet Latency Measurements", IMC 2012): a store that answers, later,
 * for any packet that came by: how long it took. Packets are clustered by delay into k groups; a structure remembers the group of each.
 *
 * Guarantee: for a packet that was stored, the ribbon (default) tells its group, and the true delay lies within the group's least and
 * most. Means over all packets of an epoch are exact. Assumes that the delay of each packet is known when it comes by (exact match with the
 * sender, a timestamp in the packet, RLI's interpolation). How it fails: packets beyond the capacity are shed and counted; packets of
 * the same identity in one epoch share one answer; a packet that never came by is answered with a stated probability.
 */
import { FormatError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import type {
  EstimateInput,
  Estimator,
  EstimatorAnswer,
  FlowEstimate,
  Interval,
  KnownFlows,
  NoAnswer,
  PacketAnswers,
  SealedEpoch,
  SegmentEstimate,
} from "../estimator.ts";
import { NO_MATCH } from "../packet-answers.ts";
import { flowPacketKeys } from "../packet-keys.ts";
import type { EpochTotals } from "./epoch-buffer.ts";
import { FLOW_DELAYS_KIND } from "./flow-delays.ts";
import { KIND_AT } from "./flow-index.ts";
import { IDENTITIES } from "./identity.ts";
import { MaplePayload } from "./lookup.ts";
import {
  completeParameters,
  geometryOf,
  identitiesOf,
  MAPLE_PARAMETERS,
  type MapleParameters,
  nsPerByteOf,
} from "./parameters.ts";
import { decodeParts, mergeParts, type PartContents } from "./payload.ts";
import { sizeMaple } from "./size.ts";
import { MapleTap } from "./tap.ts";

/** Squares of longer delays are not kept whole (kernels/maple/buffer.ts). */
const LONGEST_SQUARED_NS = 2 ** 32;

export const maple: Estimator<MapleParameters> = {
  name: "maple",
  version: 1,
  title: "MAPLE: a store of every packet's delay",
  text: {
    answers:
      "The delay of single packets, of flows, hosts or any other group of packets, and of the segment, asked for afterwards.",
    needs: "The delay of every packet at the receiver (the sender's capture, or reference packets).",
    cost: "6 to 16 bits per packet at the receiver, and a buffer for one epoch.",
    example: "hoptime observe b.pcap --point B --sender a.pcap --estimators maple",
  },
  answers: ["segment", "flow", "packet"],
  needs: { sender: false, delays: true, flows: "none" },
  parameters: MAPLE_PARAMETERS,
  complete: completeParameters,
  createTap: (context, parameters) => new MapleTap(context, parameters),
  merge: (a, b, parameters) => {
    const [x, y] = [partsOf(a, parameters), partsOf(b, parameters)];
    for (const part of y) requireSeed(part, x[0]?.geometry.seed ?? part.geometry.seed);
    return { payload: mergeParts(x, y), packets: a.packets + b.packets };
  },
  /** No times are kept. */
  rebase: (sealed) => sealed,
  estimate,
  sizing: { size: sizeMaple },
  flowList: { atSender: false, read: readFlows },
  packets: { open: (kernels, read, bytes) => new MaplePayload(kernels, read, bytes) },
};

let shared: Kernels | undefined;
/** Estimates have no kernels of their own: one instance serves them all. */
function estimateKernels(): Kernels {
  shared ??= new Kernels();
  return shared;
}

function estimate(input: EstimateInput<MapleParameters>): EstimatorAnswer {
  const { receiver } = input;
  if (!receiver) return { segment: null, flows: [], notes: [] };
  const parts = partsOf(receiver, input.parameters);
  for (const part of parts) requireSeed(part, input.seed);
  const segment = segmentOf(parts.map((p) => p.totals));
  return { segment, flows: input.flows ? flowsOf(receiver, input.flows) : [], notes: segment.notes };
}

/** The parts of a payload; FormatError where they were not made with these parameters. */
function partsOf(sealed: SealedEpoch, parameters: MapleParameters): PartContents[] {
  const parts = decodeParts(sealed.payload);
  const expected = geometryOf(parameters, parameters.k, 0n);
  for (const part of parts) {
    const { geometry, totals, sections } = part;
    const differs = (["kind", "codeBits", "hashes", "f", "theta"] as const).find(
      (name) => geometry[name] !== expected[name],
    );
    const wrong =
      differs ??
      (part.k !== parameters.k || geometry.groups > part.k ? "k" : null) ??
      (part.nsPerByte !== nsPerByteOf(parameters) ? "rate" : null) ??
      (totals.stored > 0 &&
      IDENTITIES.some((id) => (sections[id] !== undefined) !== identitiesOf(parameters).includes(id))
        ? "identity"
        : null) ??
      (totals.stored > 0 && indexOf(sections.index) !== parameters.index ? "index" : null);
    if (wrong === null) continue;
    throw new FormatError(
      "bad-record",
      "maple payload",
      0,
      `the payload was made with another ${wrong} than the parameters say`,
    );
  }
  return parts;
}

/** What kind of index a part has, as the parameter says it. */
function indexOf(section: Uint8Array | undefined): MapleParameters["index"] {
  if (!section) return "false";
  return section[KIND_AT] === FLOW_DELAYS_KIND ? "delays" : "true";
}

function requireSeed(part: PartContents, seed: bigint): void {
  if (part.geometry.seed === BigInt.asUintN(64, seed)) return;
  throw new FormatError("bad-record", "maple payload", 0, "the payload was made with another seed");
}

function segmentOf(totals: readonly EpochTotals[]): SegmentEstimate {
  let [seen, stored, unknown, shed] = [0, 0, 0, 0];
  let [sum, squares] = [0n, 0n];
  let longest = 0;
  for (const t of totals) {
    seen += t.seen;
    stored += t.stored;
    unknown += t.unknown;
    shed += t.shed;
    sum += t.sum;
    squares += t.squares;
    if (t.stored > 0) longest = Math.max(longest, Math.abs(t.leastNs), Math.abs(t.mostNs));
  }
  const notes: string[] = [];
  if (unknown > 0) notes.push(`${unknown} of ${seen} packets had no delay (no partner at the sender)`);
  if (shed > 0) notes.push(`${shed} of ${seen} packets were shed: the epoch had more than the capacity`);
  // Shed packets are like those stored; packets without a partner at the sender did not cross the segment.
  const rest = {
    sent: null,
    received: seen,
    measured: seen - unknown,
    lost: null,
    packetsUsed: stored,
    notes,
  };
  if (stored === 0) {
    const none: NoAnswer = { reason: "no-packets", text: "no packet with a known delay came by" };
    return { ...rest, mean: none, stdev: none, coverage: 0 };
  }
  // Integers throughout: n * squares - sum^2 does not cancel.
  const variance = Number(BigInt(stored) * squares - sum * sum) / stored / stored;
  // Exact but for the rounding of each delay to whole ns.
  const exact = (valueNs: number): Interval => ({ valueNs, lowNs: valueNs - 0.5, highNs: valueNs + 0.5 });
  const overflow: NoAnswer = { reason: "overflow", text: "delays above 4.29 s are not squared exactly" };
  return {
    ...rest,
    mean: exact(Number(sum) / stored),
    stdev: longest >= LONGEST_SQUARED_NS ? overflow : exact(Math.sqrt(Math.max(0, variance))),
    coverage: stored / seen,
  };
}

/** Flows by the epoch's own list: their IPIDs are looked up in the store. */
function flowsOf(sealed: SealedEpoch, flows: KnownFlows): FlowEstimate[] {
  const payload = MaplePayload.of(estimateKernels(), sealed.payload);
  const out: FlowEstimate[] = [];
  for (let flow = 0; flow < flows.count; flow++) {
    const none = (reason: NoAnswer["reason"], text: string): FlowEstimate => ({
      flow,
      mean: { reason, text },
      stdev: { reason, text },
      packets: null,
      lost: null,
    });
    const hash = (BigInt(flows.hash[2 * flow + 1]!) << 32n) | BigInt(flows.hash[2 * flow]!);
    if (!payload.lists && !payload.keepsFlows) {
      out.push(none("not-supported", "the tap kept no flows (index=false): ask by digests or IPIDs"));
      continue;
    }
    const sums = { n: 0, value: 0, low: 0, high: 0, squares: 0, widths: 0 };
    let packets = 0;
    const add = (answers: PacketAnswers) => {
      for (let i = 0; i < answers.count; i++) {
        if (answers.kind[i] === NO_MATCH) continue;
        const value = answers.valueNs[i]!;
        sums.n++;
        sums.value += value;
        sums.low += answers.lowNs[i]!;
        sums.high += answers.highNs[i]!;
        sums.squares += value * value + answers.varianceNs2[i]!;
        sums.widths += (answers.highNs[i]! - answers.lowNs[i]!) ** 2;
      }
    };
    for (const part of payload.parts) {
      const kept = part.flowPackets(hash);
      if (kept) {
        packets += kept.count;
        add(kept);
      }
      const entry = part.index?.find(flows.hash[2 * flow + 1]!, flows.keyWords, 10 * flow);
      if (!entry) continue;
      packets += entry.packets;
      add(part.lookup("flow-ipid", flowPacketKeys(estimateKernels(), hash, entry.ranges)));
    }
    if (sums.n === 0) {
      out.push(
        packets === 0
          ? none("not-in-sketch", "no packet of the flow is listed")
          : none("no-usable-cells", "its packets have no IPID"),
      );
      continue;
    }
    const mean = sums.value / sums.n;
    const stdev = Math.sqrt(Math.max(0, sums.squares / sums.n - mean * mean));
    // Each delay is off by at most its group's width, so the deviation is off by at most the root mean square of those.
    const width = Math.sqrt(sums.widths / sums.n);
    out.push({
      flow,
      mean: { valueNs: mean, lowNs: sums.low / sums.n, highNs: sums.high / sums.n },
      stdev: { valueNs: stdev, lowNs: Math.max(0, stdev - width), highNs: stdev + width },
      packets,
      lost: null,
    });
  }
  payload.free();
  return out;
}

function readFlows(sealed: SealedEpoch): KnownFlows {
  const kernels = estimateKernels();
  const payload = MaplePayload.of(kernels, sealed.payload);
  const { seed } = decodeParts(sealed.payload)[0]?.geometry ?? { seed: 0n };
  const flows = new Map<string, { words: Uint32Array; packets: number }>();
  let complete = payload.parts.length > 0;
  for (const part of payload.parts) {
    if (!part.index) complete &&= part.head.totals.stored === 0;
    else {
      complete &&= part.index.untold === 0;
      for (const { keyWords, packets } of part.index.all()) {
        const name = keyWords.join();
        const known = flows.get(name);
        if (known) known.packets += packets;
        else flows.set(name, { words: keyWords, packets });
      }
    }
  }
  const count = flows.size;
  const out: KnownFlows = {
    count,
    hash: new Uint32Array(2 * count),
    packets: new Float64Array(count),
    bytes: new Float64Array(count).fill(Number.NaN),
    keyWords: new Uint32Array(10 * count),
    complete,
  };
  const scratch = kernels.alloc(40);
  [...flows.values()].forEach(({ words, packets }, i) => {
    kernels.u32.set(words, scratch >>> 2);
    const hash = BigInt.asUintN(64, kernels.call.hashKey(scratch, seed) as bigint);
    out.hash.set([Number(hash & 0xffff_ffffn), Number(hash >> 32n)], 2 * i);
    out.packets[i] = packets;
    out.keyWords.set(words, 10 * i);
  });
  kernels.free(scratch);
  payload.free();
  return out;
}
