/**
 * The keys of an epoch's heaviest flows, kept beside the cells. A sketch answers for any named flow (section 4.3); this list names the important ones, in
 * bounded memory (kernels/flows/heavy-flows.ts).
 *
 * Guarantee: a flow with more packets than `floor` is listed, and floor <= all packets / (keys + 1). A listed flow has [packets, packets + missed] packets;
 * missed is 0 for flows that were heavy from the beginning. If there were no more flows than keys, floor is 0: the list is complete and exact. Merging lists
 * adds their floors, so the guarantee holds for the union in any order. If a floor is above 0, the merge of parts is not bit-identical to the list of the
 * whole.
 *
 *   varint floor | varint flows | per flow, ascending by hash and key: key (../flow-keys.ts) | varint packets | varint bytes | varint missed
 */
import { type ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import type { KnownFlows } from "../estimator.ts";
import { compareFlows, type FlowKeys, KEY_WORDS, readFlowKey, writeFlowKey } from "../flow-keys.ts";

export const MAX_KEYS = 1 << 20;
export const DEFAULT_KEYS = 1024;

export interface HeavyKeys extends FlowKeys {
  count: number;
  /** Packets counted since the flow was listed. */
  packets: Float64Array;
  bytes: Float64Array;
  /** Maximum packets of the flow before it was listed. */
  missed: Float64Array;
  /** Maximum packets of a flow that is not listed. */
  floor: number;
}

/** Layout as in kernels/flows/heavy-flows.ts. */
const RECORD_BYTES = 72;
/** Flows packed at a time, and the maximum bytes of one. */
const PACKED_FLOWS = 128;
const PACKED_BYTES = 80;

export function heavyKeysBytes(max: number): number {
  if (max === 0) return 0;
  return (2 * max + 1) * RECORD_BYTES + 8 * Math.max(16, 2 ** Math.ceil(Math.log2(4 * max)));
}

/** The list while it is being built. */
export class HeavyKeysTap {
  readonly #kernels: Kernels;
  readonly #address: number;

  constructor(kernels: Kernels, max: number) {
    this.#kernels = kernels;
    this.#address = kernels.call.heavyFlowsNew(max) >>> 0;
  }

  update(batch: PacketBatch, from: number, to: number): void {
    this.#kernels.call.heavyFlowsUpdate(this.#address, batch.address, from, to);
  }

  /** Returns the list as bytes and starts a new one. */
  seal(): Uint8Array {
    const { call } = this.#kernels;
    call.heavyFlowsShed(this.#address);
    const count = call.heavyFlowsCount(this.#address) >>> 0;
    const out = new ByteWriter(32 + 40 * count);
    out.varint(Number(BigInt.asUintN(64, call.heavyFlowsFloor(this.#address))));
    out.varint(count);
    const order = call.heavyFlowsOrder(this.#address) >>> 0;
    const room = this.#kernels.alloc(PACKED_BYTES * PACKED_FLOWS);
    for (let done = 0; done < count; done += PACKED_FLOWS) {
      const flows = Math.min(PACKED_FLOWS, count - done);
      const length = call.heavyFlowsPack(order + 4 * done, flows, room) >>> 0;
      out.bytes(this.#kernels.u8.subarray(room, room + length));
    }
    this.#kernels.free(room);
    this.#kernels.free(order);
    call.heavyFlowsClear(this.#address);
    return out.finish();
  }

  free(): void {
    this.#kernels.call.heavyFlowsFree(this.#address);
  }
}

export function emptyKeys(count: number): HeavyKeys {
  return {
    count,
    hash: new Uint32Array(2 * count),
    keyWords: new Uint32Array(KEY_WORDS * count),
    packets: new Float64Array(count),
    bytes: new Float64Array(count),
    missed: new Float64Array(count),
    floor: 0,
  };
}

/** Writes a list held in TypeScript, such as a merged one. kernels/flows/heavy-pack.ts writes a tap's list, byte for byte the same. */
export function writeHeavyKeys(out: ByteWriter, keys: HeavyKeys): void {
  out.varint(keys.floor);
  out.varint(keys.count);
  for (let i = 0; i < keys.count; i++) {
    writeFlowKey(out, keys, i);
    out.varint(keys.packets[i] ?? 0);
    out.varint(keys.bytes[i] ?? 0);
    out.varint(keys.missed[i] ?? 0);
  }
}

export function readHeavyKeys(reader: ByteReader, file: string): HeavyKeys {
  const bad = (message: string) => new FormatError("bad-record", file, reader.offset, message);
  const floor = reader.varint();
  const count = reader.varint();
  // A flow takes at least 27 bytes; a corrupt count must not cause a huge allocation.
  if (count > reader.remaining / 27) throw bad(`${count} flow keys do not fit into the remaining bytes`);
  const keys = emptyKeys(count);
  keys.floor = floor;
  for (let i = 0; i < count; i++) {
    readFlowKey(reader, keys, i);
    const packets = reader.varint();
    keys.packets[i] = packets;
    keys.bytes[i] = reader.varint();
    const missed = reader.varint();
    keys.missed[i] = missed;
    if (packets === 0) throw bad("a heavy flow without packets");
    if (missed > floor) throw bad("a heavy flow missed more than the floor");
    if (i > 0 && compareFlows(keys, i - 1, keys, i) >= 0) throw bad("heavy flows are out of order");
  }
  return keys;
}

/** Returns the flows of both lists, at most `max` of them. */
export function mergeHeavyKeys(a: HeavyKeys, b: HeavyKeys, max: number): HeavyKeys {
  const all = emptyKeys(a.count + b.count);
  let n = 0;
  for (let i = 0, j = 0; i < a.count || j < b.count; n++) {
    const order = i >= a.count ? 1 : j >= b.count ? -1 : compareFlows(a, i, b, j);
    copyKey(order <= 0 ? a : b, order <= 0 ? i : j, all, n);
    if (order === 0) {
      all.packets[n]! += b.packets[j]!;
      all.bytes[n]! += b.bytes[j]!;
      all.missed[n]! += b.missed[j]!;
    } else all.missed[n]! += order < 0 ? b.floor : a.floor;
    if (order <= 0) i++;
    if (order >= 0) j++;
  }
  const floor = a.floor + b.floor;
  const bounds = Float64Array.from({ length: n }, (_, f) => all.packets[f]! + all.missed[f]!).sort();
  const cut = n > max ? Math.max(floor, bounds[n - max - 1]!) : floor;
  const out = emptyKeys(n);
  let kept = 0;
  for (let f = 0; f < n; f++) {
    if (n > max && all.packets[f]! + all.missed[f]! <= cut) continue;
    copyKey(all, f, out, kept++);
  }
  return { ...firstKeys(out, kept), floor: cut };
}

/** Returns the flows in the form that decoders need: exact if nothing was missed, otherwise between two bounds. */
export function knownHeavyFlows(keys: HeavyKeys): KnownFlows {
  const { count, hash, keyWords, floor } = keys;
  const exact = (values: Float64Array) => values.map((v, i) => (keys.missed[i] === 0 ? v : Number.NaN));
  return {
    count,
    hash,
    keyWords,
    packets: exact(keys.packets),
    bytes: exact(keys.bytes),
    complete: floor === 0,
    heavy: {
      floor,
      low: keys.packets,
      high: keys.packets.map((n, i) => n + (keys.missed[i] ?? 0)),
      bytes: keys.bytes,
    },
  };
}

export function copyKey(from: HeavyKeys, i: number, to: HeavyKeys, j: number): void {
  to.hash.set(from.hash.subarray(2 * i, 2 * i + 2), 2 * j);
  to.keyWords.set(from.keyWords.subarray(KEY_WORDS * i, KEY_WORDS * (i + 1)), KEY_WORDS * j);
  to.packets[j] = from.packets[i]!;
  to.bytes[j] = from.bytes[i]!;
  to.missed[j] = from.missed[i]!;
}

function firstKeys(keys: HeavyKeys, count: number): HeavyKeys {
  return {
    count,
    hash: keys.hash.slice(0, 2 * count),
    keyWords: keys.keyWords.slice(0, KEY_WORDS * count),
    packets: keys.packets.slice(0, count),
    bytes: keys.bytes.slice(0, count),
    missed: keys.missed.slice(0, count),
    floor: keys.floor,
  };
}
