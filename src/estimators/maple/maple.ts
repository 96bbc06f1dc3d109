/**
 * MAPLE (Lee, Duffield, Kompella: "MAPLE: A Scalable Architecture for Maintaining Packet Latency Measurements", IMC 2012): a store that answers later, for any
 * packet that passed, how long it took. Packets are clustered by delay into k groups; a structure stores the group of each packet.
 *
 * Guarantee: for a stored packet, the ribbon (default) returns its group, and the true delay lies between the group's smallest and largest. Means over all
 * packets of an epoch are exact. Assumes: the delay of each packet is known when it passes (exact match with the sender, a timestamp in the packet, RLI's
 * interpolation). Limits: above the capacity, a sample by digest is stored, and flows are estimated from it; packets with the same identity in one epoch share
 * one answer; a packet that did not pass gets an answer with a stated probability.
 */
import { FormatError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import type { EstimateInput, Estimator, EstimatorAnswer, KnownFlows, SealedEpoch } from "../estimator.ts";
import { keepFlows } from "../keep-flows.ts";
import { estimateFlows, estimateSegment, sampleOf } from "./estimate.ts";
import { FLOW_DELAYS_KIND } from "./flow-delays.ts";
import { KIND_AT } from "./flow-index.ts";
import { IDENTITIES } from "./identity.ts";
import { MaplePayload } from "./lookup.ts";
import { mergeParts } from "./merge-parts.ts";
import {
  completeParameters,
  geometryOf,
  identitiesOf,
  MAPLE_PARAMETERS,
  type MapleParameters,
  nsPerByteOf,
} from "./parameters.ts";
import { decodeParts, type PartContents } from "./payload.ts";
import { sizeMaple } from "./size.ts";
import { MapleTap } from "./tap.ts";

export const maple: Estimator<MapleParameters> = {
  name: "maple",
  version: 1,
  title: "MAPLE: a store of every packet's delay",
  text: {
    answers:
      "The delay of single packets, of flows, hosts or any other group of packets, and of the segment, asked for afterwards.",
    needs: "The delay of every packet at the receiver (the sender's capture, or reference packets).",
    cost: "6 to 16 bits per packet at the receiver, and a buffer for one epoch.",
    example: "hoptime observe b.pcap ‘point B’ ‘sender a.pcap’ ‘estimators maple’",
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
  /** No times are stored. */
  rebase: (sealed) => sealed,
  estimate,
  sizing: { size: sizeMaple },
  tuning: { keepFlows: keepFlows(MAPLE_PARAMETERS, "flows") },
  flowList: { atSender: false, read: readFlows },
  packets: { open: (kernels, read, bytes) => new MaplePayload(kernels, read, bytes) },
};

function estimate(input: EstimateInput<MapleParameters>): EstimatorAnswer {
  const { receiver, flows, confidence } = input;
  if (!receiver) return { segment: null, flows: [], notes: [] };
  const parts = partsOf(receiver, input.parameters);
  for (const part of parts) requireSeed(part, input.seed);
  const totals = parts.map((p) => p.totals);
  const segment = estimateSegment(totals);
  return {
    segment,
    flows: flows ? estimateFlows(receiver, flows, sampleOf(totals), confidence) : [],
    notes: [],
  };
}

/** Returns the parts of a payload. Throws a FormatError if they were not made with these parameters. */
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

/** Returns the kind of a part's index, as a parameter value. */
function indexOf(section: Uint8Array | undefined): MapleParameters["index"] {
  if (!section) return "false";
  return section[KIND_AT] === FLOW_DELAYS_KIND ? "delays" : "true";
}

function requireSeed(part: PartContents, seed: bigint): void {
  if (part.geometry.seed === BigInt.asUintN(64, seed)) return;
  throw new FormatError("bad-record", "maple payload", 0, "the payload was made with another seed");
}

/** Returns the flows listed in the payload; the kernels for it live as long as this call. */
function readFlows(sealed: SealedEpoch): KnownFlows {
  const kernels = new Kernels();
  const payload = MaplePayload.of(kernels, sealed.payload);
  const { seed } = decodeParts(sealed.payload)[0]?.geometry ?? { seed: 0n };
  const flows = new Map<string, { words: Uint32Array; packets: number }>();
  let complete = payload.parts.length > 0;
  for (const part of payload.parts) {
    if (!part.index) complete &&= part.head.totals.stored === 0;
    else {
      complete &&= part.index.unlisted === 0;
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
