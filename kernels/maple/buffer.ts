// Packets of one epoch with their delays, kept until the epoch ends (for MAPLE's stores that are built then), as columns of a fixed capacity. Streaming stores
// use it too, for a batch at a time. Sums cover all packets with a delay, kept or not.
//
// When the buffer is full, half of the packets are removed, and half of the later ones are not taken. Whether a packet is kept depends on its digest alone, so
// that the kept packets are a fair sample of the whole epoch and not its beginning.

import { Batch, FLAG_IPID, META_IPV6 } from "../decode/batch";
import { mixWord, avalanche, rehash } from "../decode/digest";
import { Flows, flowRecord, flowsFind, flowsFree, flowsNew } from "../flows/flows";

export const NO_FLOW: u32 = 0xffffffff;
const MAX_DISTANCE: f64 = 4294967295.0;
/** Seed of the hash of digests that decides which packets are kept; different from the stores' seeds. */
const SAMPLE_SEED: u64 = 0x6d61706c655f7361;
/** ns: for delays from this on (clocks seconds or decades apart) the base is not 0 but near the first delays, a multiple of the step. */
const FAR: f64 = 4294967296.0;
const BASE_STEP: f64 = 1048576.0;
const BASE_TRIES: u32 = 8;
/** ns: a delay further from the base (18 min) is not counted: sums of many such delays would overflow. */
const BEYOND: f64 = 1099511627776.0;

/** Read by src/estimators/maple/epoch-buffer.ts: u32 fields first, then 8-byte ones. */
@unmanaged
export class Buffer {
  capacity: u32;
  count: u32;
  seen: u32; //      rows of the epoch, kept or not
  unknown: u32; //   rows without a delay
  shed: u32; //      rows that were not kept: the buffer was full
  unlisted: u32; //    rows kept whose flow found the flow table full
  digest: u32; //    u64
  flow: u32; //      u64  key of (flow, IPID)
  delay: u32; //     f64  what is stored: the delay, or the queueing delay
  ipid: u32; //      u32  IPID, bit 16 set where the packet has one
  flowId: u32; //    u32
  flows: u32; //     the flow table, or 0
  flowLimit: u32;
  keep: u32; //      digests whose hash is not above this are kept
  perByte: f64; //   ns per byte that are taken off the delay
  bytes: f64;
  sum: i64; //       of delays, as squares, min and max: beyond `base`
  squares: u64;
  carry: u64;
  minimum: f64;
  maximum: f64;
  base: f64;
  begun: u32; //     a delay of the epoch has been seen
  closed: u32; //    a flow found no place: no other gets one, or it would be listed with its later packets only
}

export function mapleBufferNew(capacity: u32, flowLimit: u32, perByte: f64): usize {
  const p = heap.alloc(offsetof<Buffer>());
  memory.fill(p, 0, offsetof<Buffer>());
  const buffer = changetype<Buffer>(p);
  buffer.capacity = capacity;
  buffer.base = 0;
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
    if (buffer.flows != 0) flowsFree(buffer.flows);
  }
  heap.free(p);
}

export function mapleBufferReset(p: usize): void {
  const buffer = changetype<Buffer>(p);
  buffer.count = 0;
  buffer.seen = 0;
  buffer.unknown = 0;
  buffer.shed = 0;
  buffer.unlisted = 0;
  buffer.bytes = 0;
  buffer.sum = 0;
  buffer.squares = 0;
  buffer.carry = 0;
  buffer.minimum = Infinity;
  buffer.maximum = -Infinity;
  buffer.keep = 0xffffffff;
  buffer.begun = 0;
  buffer.closed = 0;
}

/** Removes the rows and keeps the sums, after a streaming store has taken the rows. */
export function mapleBufferTaken(p: usize): void {
  changetype<Buffer>(p).count = 0;
}

/** Returns the key of a packet from its flow and IPID. */
// @ts-ignore: decorator
@inline
function flowPacket(flowHash: u64, ipid: u32): u64 {
  return avalanche(mixWord(flowHash, <u64>ipid | 0x10000));
}

export function flowPacketKey(flowHash: u64, ipid: u32): u64 {
  return flowPacket(flowHash, ipid);
}

/** Writes the keys of n packets of one flow, with IPIDs from `first` on. */
export function flowPacketKeys(flowHash: u64, first: u32, n: u32, out: usize): void {
  for (let i: u32 = 0; i < n; i++) store<u64>(out + (i << 3), flowPacket(flowHash, (first + i) & 0xffff));
}

/** Returns the flow's number, or NO_FLOW if it is new and the table is full. */
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

/**
 * At the first rows of an epoch, checks whether the base is still near most delays. If so, it stays, so that epochs can be compared; otherwise a base near most
 * delays is chosen, and not that of an outlier.
 */
function settleBase(buffer: Buffer, delays: usize, from: u32, to: u32): void {
  let tries: u32 = 0;
  let base = buffer.base;
  for (let i = from; ; i++) {
    let known: u32 = 0;
    let near: u32 = 0;
    for (let j = from; j < to; j++) {
      const delay = load<f64>(delays + (j << 3));
      if (!(abs<f64>(delay) < Infinity)) continue;
      known++;
      if (abs<f64>(delay - base) < FAR) near++;
    }
    if (known == 0) return;
    if (near + near >= known || i >= to || tries++ == BASE_TRIES) break;
    while (i < to && !(abs<f64>(load<f64>(delays + (i << 3))) < Infinity)) i++;
    if (i >= to) break;
    const delay = load<f64>(delays + (i << 3));
    base = abs<f64>(delay) < FAR ? 0 : nearest<f64>(delay / BASE_STEP) * BASE_STEP;
  }
  buffer.base = base;
  buffer.begun = 1;
}

// @ts-ignore: decorator
@inline
function drawOf(digest: u64): u32 {
  return <u32>(rehash(digest, SAMPLE_SEED) >> 32);
}

/** Removes half of the packets, by their digests; flows without packets are no longer listed. */
function thin(buffer: Buffer): void {
  const before = buffer.count;
  const lists = buffer.flowLimit > 0;
  const old = changetype<Flows>(buffer.flows);
  const fresh = lists ? flowsNew(0) : 0;
  buffer.keep >>= 1;
  let n: u32 = 0;
  let unlisted: u32 = 0;
  for (let i: u32 = 0; i < before; i++) {
    const digest = load<u64>(buffer.digest + (i << 3));
    if (drawOf(digest) > buffer.keep) continue;
    store<u64>(buffer.digest + (n << 3), digest);
    store<u64>(buffer.flow + (n << 3), load<u64>(buffer.flow + (i << 3)));
    store<u64>(buffer.delay + (n << 3), load<u64>(buffer.delay + (i << 3)));
    if (lists) {
      let id = load<u32>(buffer.flowId + (i << 2));
      if (id == NO_FLOW) unlisted++;
      else {
        const q = flowRecord(old, id);
        id = flowsFind(
          changetype<Flows>(fresh), load<u64>(q), load<u64>(q, 8), load<u64>(q, 16), load<u64>(q, 24), load<u64>(q, 32), load<u64>(q, 40),
        );
      }
      store<u32>(buffer.flowId + (n << 2), id);
      store<u32>(buffer.ipid + (n << 2), load<u32>(buffer.ipid + (i << 2)));
    }
    n++;
  }
  if (lists) {
    flowsFree(buffer.flows);
    buffer.flows = <u32>fresh;
  }
  buffer.shed += before - n;
  buffer.unlisted = unlisted;
  buffer.count = n;
}

// @ts-ignore: decorator
@inline
function addSums(buffer: Buffer, delay: f64, bytes: f64): void {
  buffer.bytes += bytes;
  buffer.sum += <i64>delay;
  const distance = <u64>min<f64>(abs<f64>(delay), MAX_DISTANCE);
  const square = distance * distance;
  buffer.squares += square;
  if (buffer.squares < square) buffer.carry++;
  buffer.minimum = min<f64>(buffer.minimum, delay);
  buffer.maximum = max<f64>(buffer.maximum, delay);
}

/** Stores the flow and IPID of row i with the n-th kept packet. */
function keepFlow(buffer: Buffer, batch: Batch, i: u32, n: u32, flowHash: u64, ipid: u32): void {
  const o = i << 3;
  const flows = changetype<Flows>(buffer.flows);
  const limit = buffer.closed != 0 ? 0 : buffer.flowLimit;
  const id = seek(
    flows, limit, flowHash, load<u64>(batch.meta + o), load<u64>(batch.addrA + o),
    load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
  );
  store<u32>(buffer.flowId + (n << 2), id);
  store<u32>(buffer.ipid + (n << 2), ipid);
  if (id == NO_FLOW) {
    buffer.unlisted++;
    buffer.closed = 1;
  }
}

/** Takes rows [from, to) of a batch. */
export function mapleBufferAppend(p: usize, b: usize, from: u32, to: u32): void {
  const buffer = changetype<Buffer>(p);
  const batch = changetype<Batch>(b);
  buffer.seen += to - from;
  if (buffer.begun == 0) settleBase(buffer, batch.delay, from, to);
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const exact = load<f64>(batch.delay + o);
    // Also true for NaN.
    if (!(abs<f64>(exact - buffer.base) < BEYOND)) {
      buffer.unknown++;
      continue;
    }
    const delay = nearest<f64>(exact) - buffer.base;
    const bytes = <f64>load<u32>(batch.wireLength + (i << 2));
    addSums(buffer, delay, bytes);
    const digest = load<u64>(batch.digest + o);
    // If all kept packets have the same digest, thinning may free nothing: then this packet is not taken.
    if (buffer.count == buffer.capacity && buffer.keep > 0) thin(buffer);
    if (buffer.count == buffer.capacity || (buffer.keep != 0xffffffff && drawOf(digest) > buffer.keep)) {
      buffer.shed++;
      continue;
    }
    const flowHash = load<u64>(batch.flowHash + o);
    const has: u32 = load<u32>(batch.flags + (i << 2)) & FLAG_IPID;
    const ipid: u32 = has != 0 ? load<u32>(batch.ipid + (i << 2)) & 0xffff : 0;
    const n = buffer.count;
    const to8 = n << 3;
    store<u64>(buffer.digest + to8, digest);
    store<u64>(buffer.flow + to8, flowPacket(flowHash, ipid));
    store<f64>(buffer.delay + to8, nearest<f64>(delay - bytes * buffer.perByte));
    if (buffer.flowLimit > 0) keepFlow(buffer, batch, i, n, flowHash, ipid | (has != 0 ? 0x10000 : 0));
    buffer.count = n + 1;
  }
}

/** Clears the flow table. */
export function mapleBufferForgetFlows(p: usize): void {
  const buffer = changetype<Buffer>(p);
  if (buffer.flows != 0) flowsFree(buffer.flows);
  buffer.flows = <u32>flowsNew(0);
}
