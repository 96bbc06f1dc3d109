/**
 * The payload of the multiflow estimator, version 1: flow records like those of sampled NetFlow, ascending by flow hash.
 *
 *   u32     fingerprint: CRC-32C of seed and rate
 *   u8      1 if flows were dropped, else 0
 *   u64     cut: only flows with a hash below it are listed (0 if none were dropped)
 *   varint  records
 *   per record: u64 flow hash, varint sampled packets, zigzag time and u64 digest of the first, zigzag time and u64 digest of the last
 */

import { ByteWriter } from "../../../base/bytes.ts";
import { entryOf } from "../../../base/lists.ts";
import type { SealedEpoch } from "../../estimator.ts";
import { readSampled, refuseOthers, smallerCut } from "../sampling.ts";

const NAME = "multiflow payload";

export interface PacketTimestamp {
  timeNs: number;
  digest: bigint;
}

export interface FlowRecord {
  packets: number;
  first: PacketTimestamp;
  last: PacketTimestamp;
}

export interface FlowRecords {
  fingerprint: number;
  cut: bigint | null;
  records: Map<bigint, FlowRecord>;
}

export function earlier(a: PacketTimestamp, b: PacketTimestamp): boolean {
  return a.timeNs !== b.timeNs ? a.timeNs < b.timeNs : a.digest < b.digest;
}

export function addRecord(records: Map<bigint, FlowRecord>, flow: bigint, more: FlowRecord): void {
  const known = records.get(flow);
  if (!known) {
    records.set(flow, { ...more });
    return;
  }
  known.packets += more.packets;
  if (earlier(more.first, known.first)) known.first = more.first;
  if (earlier(known.last, more.last)) known.last = more.last;
}

/** Keeps at most `max` flows: those with the smallest hashes. */
export function boundRecords({ fingerprint, cut, records }: FlowRecords, max: number): FlowRecords {
  const order = BigUint64Array.from(records.keys()).sort();
  const at = smallerCut(order[max] ?? null, cut);
  if (at !== null) for (const flow of order) if (flow >= at) records.delete(flow);
  return { fingerprint, cut: at, records };
}

export function encodeRecords({ fingerprint, cut, records }: FlowRecords): Uint8Array {
  const out = new ByteWriter(32 + 40 * records.size);
  out.u32(fingerprint);
  out.u8(cut === null ? 0 : 1);
  out.u64(cut ?? 0n);
  out.varint(records.size);
  for (const flow of BigUint64Array.from(records.keys()).sort()) {
    const { packets, first, last } = entryOf(records, flow);
    out.u64(flow);
    out.varint(packets);
    for (const { timeNs, digest } of [first, last]) {
      out.zigzag(timeNs);
      out.u64(digest);
    }
  }
  return out.finish();
}

export function decodeRecords(sealed: SealedEpoch, fingerprint?: number): FlowRecords {
  const head = readSampled(NAME, sealed, fingerprint, (r) => r.u64());
  const { reader, bad, cut, count } = head;
  if (count > reader.remaining / 27) throw bad(`${count} records do not fit into the remaining bytes`);
  const records = new Map<bigint, FlowRecord>();
  let before = -1n;
  for (let i = 0; i < count; i++) {
    const flow = reader.u64();
    if (flow <= before || (cut !== null && flow >= cut)) throw bad("flows are out of order");
    before = flow;
    const packets = reader.varint();
    const first: PacketTimestamp = { timeNs: reader.zigzag(), digest: reader.u64() };
    const last: PacketTimestamp = { timeNs: reader.zigzag(), digest: reader.u64() };
    if (packets === 0 || earlier(last, first)) throw bad("a record ends before it begins");
    records.set(flow, { packets, first, last });
  }
  reader.expectEnd();
  return { fingerprint: head.fingerprint, cut, records };
}

export function mergeRecords(a: FlowRecords, b: FlowRecords, max: number): FlowRecords {
  refuseOthers(NAME, a, b);
  const records = new Map(a.records);
  for (const [flow, record] of b.records) addRecord(records, flow, record);
  const cut = smallerCut(a.cut, b.cut);
  if (cut !== null) for (const flow of [...records.keys()]) if (flow >= cut) records.delete(flow);
  return boundRecords({ fingerprint: a.fingerprint, cut, records }, max);
}
