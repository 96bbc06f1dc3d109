/**
 * The payload of a flow table, version 1. Flows are in ascending order of their hash (then of their key), so equal tables have equal bytes.
 *
 *   u8      1 if flows were dropped, else 0
 *   u64     cut: only flows with a hash below it are listed (0 if none were dropped)
 *   varint  packets dropped
 *   varint  bytes dropped
 *   varint  flows listed
 *   per flow:
 *     u64     flow hash (kernels/decode/digest.ts keyFlows)
 *     u64     key: meta (kernels/decode/batch.ts); bit 59 is set for IPv6
 *     u64     key: addrA; IPv6: addrB, addrC, addrD follow, u64 each
 *     varint  packets
 *     varint  bytes on the wire
 *
 * The hash decides which flows are dropped: at most `max` flows with the smallest hashes stay. The cut is the hash of the first flow that did not fit, so it
 * does not depend on the order of packets or merges.
 */
import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { KnownFlows, SealedEpoch } from "../estimator.ts";
import { compareFlows, type FlowKeys, KEY_WORDS, readFlowKey, wideAt, writeFlowKey } from "../flow-keys.ts";

const NAME = "flows payload";

export interface FlowList extends FlowKeys {
  count: number;
  packets: Float64Array;
  bytes: Float64Array;
  /** Null: nothing was dropped. */
  cut: bigint | null;
  shedPackets: number;
  shedBytes: number;
}

export function emptyList(count: number): FlowList {
  return {
    count,
    hash: new Uint32Array(2 * count),
    keyWords: new Uint32Array(KEY_WORDS * count),
    packets: new Float64Array(count),
    bytes: new Float64Array(count),
    cut: null,
    shedPackets: 0,
    shedBytes: 0,
  };
}

export function copyFlow(from: FlowList, i: number, to: FlowList, j: number): void {
  to.hash[2 * j] = from.hash[2 * i]!;
  to.hash[2 * j + 1] = from.hash[2 * i + 1]!;
  for (let w = 0; w < KEY_WORDS; w++) to.keyWords[KEY_WORDS * j + w] = from.keyWords[KEY_WORDS * i + w]!;
  to.packets[j] = from.packets[i]!;
  to.bytes[j] = from.bytes[i]!;
}

/** The list must be sorted. */
export function encodeFlows(list: FlowList): Uint8Array {
  const out = new ByteWriter(64 + 40 * list.count);
  out.u8(list.cut === null ? 0 : 1);
  out.u64(list.cut ?? 0n);
  out.varint(list.shedPackets);
  out.varint(list.shedBytes);
  out.varint(list.count);
  for (let i = 0; i < list.count; i++) {
    writeFlowKey(out, list, i);
    out.varint(list.packets[i]!);
    out.varint(list.bytes[i]!);
  }
  return out.finish();
}

export function decodeFlows(payload: Uint8Array): FlowList {
  const reader = new ByteReader(payload, { file: NAME });
  const bad = (message: string) => new FormatError("bad-record", NAME, reader.offset, message);
  const shed = reader.u8();
  if (shed > 1) throw bad(`the flag of shed flows is ${shed}, not 0 or 1`);
  const cut = reader.u64();
  if (shed === 0 && cut !== 0n) throw bad("a cut is given though no flows were shed");
  const shedPackets = reader.varint();
  const shedBytes = reader.varint();
  const count = reader.varint();
  // A flow takes at least 26 bytes; a corrupt count must not cause a huge allocation.
  if (count > reader.remaining / 26) throw bad(`${count} flows do not fit into the remaining bytes`);
  const list = emptyList(count);
  list.cut = shed === 1 ? cut : null;
  list.shedPackets = shedPackets;
  list.shedBytes = shedBytes;
  for (let i = 0; i < count; i++) {
    readFlowKey(reader, list, i);
    list.packets[i] = reader.varint();
    list.bytes[i] = reader.varint();
    if (list.packets[i] === 0) throw bad("a flow without packets");
    if (i > 0 && compareFlows(list, i - 1, list, i) >= 0) throw bad("flows are out of order");
  }
  if (list.cut !== null && count > 0 && wideAt(list.hash, count - 1) >= list.cut)
    throw bad("a flow lies beyond the cut");
  reader.expectEnd();
  return list;
}

/** Returns the flows of a payload in the form that other estimators' decoders need. */
export function readKnownFlows(sealed: SealedEpoch | Uint8Array): KnownFlows {
  const list = decodeFlows(sealed instanceof Uint8Array ? sealed : sealed.payload);
  const { count, hash, packets, bytes, keyWords } = list;
  return { count, hash, packets, bytes, keyWords, complete: list.cut === null };
}
