// One epoch of packets with their delays, waiting for its end (MAPLE's stores that are built then): columns of a fixed capacity. What comes when it
// is full is counted, not kept. Streaming stores use it too, a batch at a time.

import { Batch, FLAG_IPID, META_IPV6 } from "../decode/batch";
import { mixWord, avalanche } from "../decode/digest";
import { Flows, flowRecord, flowsFind } from "../flows/flows";

export const NO_FLOW: u32 = 0xffffffff;
const MAX_DISTANCE: f64 = 4294967295.0;

/** src/estimators/maple/epoch-buffer.ts reads it: u32 fields first, then 8-byte ones. */
@unmanaged
export class Buffer {
  capacity: u32;
  count: u32;
  seen: u32; //      rows of the epoch, kept or not
  unknown: u32; //   rows without a delay
  shed: u32; //      rows that found the buffer full
  untold: u32; //    rows kept whose flow found the flow table full
  digest: u32; //    u64
  flow: u32; //      u64  key of (flow, IPID)
  delay: u32; //     f64  what is stored: the delay, or the queueing delay
  ipid: u32; //      u32  IPID, bit 16 set where the packet has one
  flowId: u32; //    u32
  flows: u32; //     the flow table, or 0
  flowLimit: u32;
  pad: u32;
  perByte: f64; //   ns per byte that are taken off the delay
  bytes: f64;
  sum: i64; //       of delays
  squares: u64;
  carry: u64;
  minimum: f64;
  maximum: f64;
}

export function mapleBufferNew(capacity: u32, flowLimit: u32, perByte: f64): usize {
  const p = heap.alloc(offsetof<Buffer>());
  memory.fill(p, 0, offsetof<Buffer>());
  const buffer = changetype<Buffer>(p);
  buffer.capacity = capacity;
  buffer.digest = <u32>heap.alloc(capacity << 3);
  buffer.flow = <u32>heap.alloc(capacity << 3);
  buffer.delay = <u32>heap.alloc(capacity << 3);
  if (flowLimit > 0) {
    buffer.ipid = <u32>heap.alloc(capacity << 2);
    buffer.flowId = <u32>heap.alloc(capacity << 2);
  }
  buffer.flowLimit = flowLimit;
  buffer.perByte = perByte;
  mapleBufferReset(p);
  return p;
}

export function mapleBufferFree(p: usize): void {
  const buffer = changetype<Buffer>(p);
  heap.free(buffer.digest);
  heap.free(buffer.flow);
  heap.free(buffer.delay);
  if (buffer.flowLimit > 0) {
    heap.free(buffer.ipid);
    heap.free(buffer.flowId);
  }
  heap.free(p);
}

export function mapleBufferReset(p: usize): void {
  const buffer = changetype<Buffer>(p);
  buffer.count = 0;
  buffer.seen = 0;
  buffer.unknown = 0;
  buffer.shed = 0;
  buffer.untold = 0;
  buffer.bytes = 0;
  buffer.sum = 0;
  buffer.squares = 0;
  buffer.carry = 0;
  buffer.minimum = Infinity;
  buffer.maximum = -Infinity;
}

/** Forgets the rows and keeps the sums: a streaming store has taken them. */
export function mapleBufferTaken(p: usize): void {
  changetype<Buffer>(p).count = 0;
}

/** The identity of a packet by its flow and IPID. */
// @ts-ignore: decorator
@inline
function flowPacket(flowHash: u64, ipid: u32): u64 {
  return avalanche(mixWord(flowHash, <u64>ipid | 0x10000));
}

export function flowPacketKey(flowHash: u64, ipid: u32): u64 {
  return flowPacket(flowHash, ipid);
}

/** Keys of n packets of one flow, IPIDs from `first` on. */
export function flowPacketKeys(flowHash: u64, first: u32, n: u32, out: usize): void {
  for (let i: u32 = 0; i < n; i++) store<u64>(out + (i << 3), flowPacket(flowHash, (first + i) & 0xffff));
}

/** The flow's number, NO_FLOW where it is new and the table is full. */
function seek(flows: Flows, limit: u32, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): u32 {
  if (flows.count < limit) return flowsFind(flows, hash, meta, a, b, c, d);
  const mask = flows.indexMask;
  let j = <u32>hash & mask;
  while (true) {
    const slot = load<u64>(flows.index + (j << 3));
    if (slot == 0) return NO_FLOW;
    if ((slot ^ hash) >> 32 == 0) {
      const id = <u32>slot - 1;
      const r = flowRecord(flows, id);
      const same = load<u64>(r, 8) == meta && load<u64>(r, 16) == a;
      if (same && ((meta & META_IPV6) == 0 || (load<u64>(r, 24) == b && load<u64>(r, 32) == c && load<u64>(r, 40) == d))) return id;
    }
    j = (j + 1) & mask;
  }
}

/** Takes rows [from, to) of a batch. */
export function mapleBufferAppend(p: usize, b: usize, from: u32, to: u32): void {
  const buffer = changetype<Buffer>(p);
  const batch = changetype<Batch>(b);
  let n = buffer.count;
  buffer.seen += to - from;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const exact = load<f64>(batch.delay + o);
    if (exact != exact) {
      buffer.unknown++;
      continue;
    }
    if (n == buffer.capacity) {
      buffer.shed++;
      continue;
    }
    const delay = nearest<f64>(exact);
    const bytes = <f64>load<u32>(batch.wireLength + (i << 2));
    const flowHash = load<u64>(batch.flowHash + o);
    const has: u32 = load<u32>(batch.flags + (i << 2)) & FLAG_IPID;
    const ipid: u32 = has != 0 ? load<u32>(batch.ipid + (i << 2)) & 0xffff : 0;
    const to8 = n << 3;
    store<u64>(buffer.digest + to8, load<u64>(batch.digest + o));
    store<u64>(buffer.flow + to8, flowPacket(flowHash, ipid));
    store<f64>(buffer.delay + to8, nearest<f64>(delay - bytes * buffer.perByte));
    if (buffer.flowLimit > 0) {
      const meta = load<u64>(batch.meta + o);
      const a = load<u64>(batch.addrA + o);
      const id = seek(
        changetype<Flows>(buffer.flows), buffer.flowLimit, flowHash, meta, a,
        load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
      );
      store<u32>(buffer.flowId + (n << 2), id);
      store<u32>(buffer.ipid + (n << 2), ipid | (has != 0 ? 0x10000 : 0));
      if (id == NO_FLOW) buffer.untold++;
    }
    n++;
    buffer.bytes += bytes;
    buffer.sum += <i64>delay;
    const distance = <u64>min<f64>(abs<f64>(delay), MAX_DISTANCE);
    const square = distance * distance;
    buffer.squares += square;
    if (buffer.squares < square) buffer.carry++;
    buffer.minimum = min<f64>(buffer.minimum, delay);
    buffer.maximum = max<f64>(buffer.maximum, delay);
  }
  buffer.count = n;
}

export function mapleBufferFlows(p: usize, flows: usize): void {
  changetype<Buffer>(p).flows = <u32>flows;
}
