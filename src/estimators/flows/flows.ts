/**
 * The flow table: exact packets and bytes of every flow of an epoch. It measures no delay. It is kept at one end of a segment and provides the list of flows
 * that the per-flow decoders (LDS, COLATE) need.
 *
 * Bounded: with more than `max` flows, those with the largest hashes are dropped and counted together. The rest is a uniform sample of the flows with exact
 * counts, independent of packet order, so merge(seal(A), seal(B)) is seal(A and B) bit for bit. Memory: up to 1.5 `max` flows of 64 bytes and their index.
 */

import type { Kernels } from "../../base/kernels.ts";
import { countOf } from "../../base/quantity.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import type { KernelKept } from "../../capture/ebpf/kernel-plan.ts";
import type {
  Estimator,
  EstimatorAnswer,
  FlowEstimate,
  NoAnswer,
  ParameterValues,
  SealedEpoch,
  Tap,
} from "../estimator.ts";
import { compareFlows, KEY_WORDS, wideAt } from "../flow-keys.ts";
import { copyFlow, decodeFlows, emptyList, encodeFlows, type FlowList, readKnownFlows } from "./payload.ts";

export interface FlowTableParameters extends ParameterValues {
  max: number;
}

const HEAD_WORDS = 12;
/** Size of a flow counted in the kernel. */
const KEPT_BYTES = 64;
const MAX_FLOWS = 1 << 26;

class FlowTableTap implements Tap {
  readonly #kernels: Kernels;
  readonly #max: number;
  readonly #address: number;
  #packets = 0;

  constructor(kernels: Kernels, max: number) {
    this.#kernels = kernels;
    this.#max = max;
    kernels.ensure();
    this.#address = kernels.call.flowCountsNew() >>> 0;
  }

  get memoryBytes(): number {
    return this.#count * 64 + Math.max(4096, 2 ** Math.ceil(Math.log2(2 * this.#count + 2))) * 8;
  }

  get #table(): number {
    return this.#kernels.call.flowCountsTable(this.#address) >>> 0;
  }
  get #count(): number {
    return this.#kernels.call.flowsCount(this.#table) >>> 0;
  }

  begin(_epochStartNs: number): void {
    // Flows have no times.
  }

  update(batch: PacketBatch, from: number, to: number): void {
    this.#kernels.call.flowCountsUpdate(this.#address, batch.address, from, to);
    this.#packets += to - from;
    // Half as many again before dropping flows, so that the expensive search for the cut is rare.
    if (this.#count > this.#max * 1.5 + 1024) this.#shed();
  }

  take({ flows, shed, packets }: KernelKept): void {
    const { call } = this.#kernels;
    for (const piece of flows) {
      const at = this.#kernels.alloc(piece.length);
      this.#kernels.u8.set(piece, at);
      call.flowCountsAdd(this.#address, at, piece.length / KEPT_BYTES);
      this.#kernels.free(at);
    }
    if (shed) {
      this.#cut = shed.cut;
      call.flowCountsShed(this.#address, shed.cut);
      call.flowCountsAddShed(this.#address, shed.packets, shed.bytes);
    }
    this.#packets += packets;
  }

  seal(): SealedEpoch {
    if (this.#count > this.#max) this.#shed();
    const payload = encodeFlows(this.#sorted());
    const sealed = { payload, packets: this.#packets };
    this.#kernels.call.flowCountsClear(this.#address);
    this.#cut = null;
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    this.#kernels.call.flowCountsFree(this.#address);
  }

  #cut: bigint | null = null;

  #shed(): void {
    const hashes = new BigUint64Array(this.#count);
    for (let id = 0; id < hashes.length; id++) {
      hashes[id] = this.#kernels.u64[(this.#kernels.call.flowsRecord(this.#table, id) >>> 0) >>> 3]!;
    }
    hashes.sort();
    this.#cut = hashes[this.#max]!;
    this.#kernels.call.flowCountsShed(this.#address, this.#cut);
  }

  #sorted(): FlowList {
    const { call } = this.#kernels;
    const table = this.#table;
    const raw = emptyList(this.#count);
    for (let id = 0; id < raw.count; id++) {
      const at = (call.flowsRecord(table, id) >>> 0) >>> 2;
      const words = this.#kernels.u32.subarray(at, at + HEAD_WORDS + 4);
      raw.hash.set(words.subarray(0, 2), 2 * id);
      raw.keyWords.set(words.subarray(2, HEAD_WORDS), KEY_WORDS * id);
      raw.packets[id] = words[HEAD_WORDS]! + words[HEAD_WORDS + 1]! * 0x1_0000_0000;
      raw.bytes[id] = words[HEAD_WORDS + 2]! + words[HEAD_WORDS + 3]! * 0x1_0000_0000;
    }
    const order = Uint32Array.from({ length: raw.count }, (_, i) => i);
    order.sort((i, j) => compareFlows(raw, i, raw, j));
    const list = emptyList(raw.count);
    for (let i = 0; i < raw.count; i++) copyFlow(raw, order[i]!, list, i);
    list.cut = this.#cut;
    list.shedPackets = Number(BigInt.asUintN(64, call.flowCountsShedPackets(this.#address)));
    list.shedBytes = Number(BigInt.asUintN(64, call.flowCountsShedBytes(this.#address)));
    return list;
  }
}

/** Returns the flows of both lists, at most `max` of them: those with the smallest hashes. */
function mergeFlows(a: FlowList, b: FlowList, max: number): FlowList {
  const all = emptyList(a.count + b.count);
  let n = 0;
  for (let i = 0, j = 0; i < a.count || j < b.count; n++) {
    const order = i >= a.count ? 1 : j >= b.count ? -1 : compareFlows(a, i, b, j);
    if (order <= 0) copyFlow(a, i, all, n);
    else copyFlow(b, j, all, n);
    if (order === 0) {
      all.packets[n]! += b.packets[j]!;
      all.bytes[n]! += b.bytes[j]!;
    }
    if (order <= 0) i++;
    if (order >= 0) j++;
  }
  // The union drops what either list dropped, and then the flows beyond `max`.
  const cuts = [a.cut, b.cut, n > max ? wideAt(all.hash, max) : null].filter((c) => c !== null);
  const cut = cuts.sort((x, y) => (x < y ? -1 : 1))[0] ?? null;
  let kept = n;
  let shedPackets = a.shedPackets + b.shedPackets;
  let shedBytes = a.shedBytes + b.shedBytes;
  while (cut !== null && kept > 0 && wideAt(all.hash, kept - 1) >= cut) {
    kept--;
    shedPackets += all.packets[kept]!;
    shedBytes += all.bytes[kept]!;
  }
  return {
    count: kept,
    hash: all.hash.subarray(0, 2 * kept),
    keyWords: all.keyWords.subarray(0, KEY_WORDS * kept),
    packets: all.packets.subarray(0, kept),
    bytes: all.bytes.subarray(0, kept),
    cut,
    shedPackets,
    shedBytes,
  };
}

const NO_DELAY: NoAnswer = {
  reason: "not-supported",
  text: "a flow table counts packets and has no delays",
};

export const flowTable: Estimator<FlowTableParameters> = {
  name: "flows",
  version: 1,
  title: "flow table: packets and bytes of every flow",
  text: {
    answers:
      "Packets, bytes and lost packets of every flow; no delays. Other estimators take their list of flows from it.",
    needs: "A tap at the sender; at both points for loss per flow.",
    cost: "About 26 bytes per flow and epoch (50 with IPv6), and one table lookup per packet.",
    example: "hoptime observe a.pcap ‘point A’ ‘estimators flows,lds’",
  },
  answers: [],
  needs: { sender: true, delays: false, flows: "none" },
  parameters: [
    {
      name: "max",
      kind: "integer",
      default: 262_144,
      min: 1,
      max: MAX_FLOWS,
      help: "flows kept per epoch; the rest is shed by hash and only counted",
    },
  ],
  complete: (values) => values as FlowTableParameters,
  createTap: (context, parameters) => new FlowTableTap(context.kernels, parameters.max),
  merge(a, b, parameters) {
    const merged = mergeFlows(decodeFlows(a.payload), decodeFlows(b.payload), parameters.max);
    return { payload: encodeFlows(merged), packets: a.packets + b.packets };
  },
  rebase: (sealed) => sealed,
  kernel: { part: ({ max }) => ({ kind: "flows", max }) },
  flowList: {
    atSender: true,
    read: (sealed) => readKnownFlows(sealed),
  },
  tuning: {
    keepFlows: (parameters, given) => (given.has("max") ? parameters : { ...parameters, max: MAX_FLOWS }),
  },
  /** Counts only: packets sent and received of each requested flow. */
  estimate({ sender, receiver, flows }): EstimatorAnswer {
    const sent = sender ? index(decodeFlows(sender.payload)) : null;
    const received = receiver ? index(decodeFlows(receiver.payload)) : null;
    const notes: string[] = [];
    for (const end of [sent, received]) {
      if (end && end.list.cut !== null) {
        notes.push(`the flow table was full: ${countOf(end.list.shedPackets, "packet")} of flows not listed`);
      }
    }
    const answers: FlowEstimate[] = [];
    for (let i = 0; flows !== null && i < flows.count; i++) {
      const name = `${flows.hash[2 * i + 1]}:${flows.hash[2 * i]}`;
      const before = sent?.packets(name) ?? null;
      const after = received?.packets(name) ?? null;
      const lost = before === null || after === null ? null : before - after;
      answers.push({ flow: i, mean: NO_DELAY, stdev: NO_DELAY, packets: sent ? before : after, lost });
    }
    return {
      segment: {
        mean: NO_DELAY,
        stdev: NO_DELAY,
        sent: sender?.packets ?? null,
        received: receiver?.packets ?? null,
        lost: sender && receiver ? sender.packets - receiver.packets : null,
        packetsUsed: 0,
        coverage: 0,
        notes,
      },
      flows: answers,
      notes,
    };
  },
};

/** Returns packets by hash; null for a flow that may have been dropped. */
function index(list: FlowList): { list: FlowList; packets: (name: string) => number | null } {
  const places = new Map<string, number>();
  for (let i = 0; i < list.count; i++) places.set(`${list.hash[2 * i + 1]}:${list.hash[2 * i]}`, i);
  return {
    list,
    packets: (name) => {
      const at = places.get(name);
      return at !== undefined ? list.packets[at]! : list.cut === null ? 0 : null;
    },
  };
}
