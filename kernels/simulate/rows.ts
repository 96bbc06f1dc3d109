// Rows of simulated packets: writing, copying, observing; and the packet's number, from which the digest is made by a bijection.

import { Batch, FLAG_IPID } from "../decode/batch";
import { avalanche, P1 } from "../decode/digest";

/** Returns a packet's digest: a bijection of its number, so that two packets of a simulation never share one. */
// @ts-ignore: decorator
@inline
export function digestOf(number: u64, seed: u64): u64 {
  return avalanche(number * P1 + seed);
}

/** Appends an IPv4 packet that has just been sent, from input 0. */
// @ts-ignore: decorator
@inline
export function writeRow(
  batch: Batch, time: f64, digest: u64, meta: u64, addr: u64, length: u32, ipid: u32, flags: u32,
): void {
  const i = batch.count;
  const o = i << 3;
  const q = i << 2;
  store<f64>(batch.time + o, time);
  store<u64>(batch.digest + o, digest);
  store<u64>(batch.flowHash + o, 0);
  store<u64>(batch.meta + o, meta);
  store<u64>(batch.addrA + o, addr);
  store<u64>(batch.addrB + o, 0);
  store<u64>(batch.addrC + o, 0);
  store<u64>(batch.addrD + o, 0);
  store<f64>(batch.delay + o, 0);
  store<u32>(batch.wireLength + q, length);
  store<u32>(batch.ipid + q, ipid);
  store<u32>(batch.flags + q, 64 | flags | FLAG_IPID);
  store<u32>(batch.header + q, 0);
  store<u32>(batch.captured + q, 0);
  store<u32>(batch.iface + q, 0);
  batch.count = i + 1;
}

/** A copy of one row of a batch (88 bytes). */
@unmanaged
export class Row {
  time: f64;
  digest: u64;
  order: u64;
  meta: u64;
  addrA: u64;
  addrB: u64;
  addrC: u64;
  addrD: u64;
  delay: f64;
  wireLength: u32;
  ipid: u32;
  flags: u32;
  iface: u32;
}
export const ROW_BYTES: u32 = 88;

// @ts-ignore: decorator
@inline
export function takeRow(batch: Batch, i: u32, p: usize): void {
  const row = changetype<Row>(p);
  const o = i << 3;
  const q = i << 2;
  row.time = load<f64>(batch.time + o);
  row.digest = load<u64>(batch.digest + o);
  row.order = load<u64>(batch.flowHash + o);
  row.meta = load<u64>(batch.meta + o);
  row.addrA = load<u64>(batch.addrA + o);
  row.addrB = load<u64>(batch.addrB + o);
  row.addrC = load<u64>(batch.addrC + o);
  row.addrD = load<u64>(batch.addrD + o);
  row.delay = load<f64>(batch.delay + o);
  row.wireLength = load<u32>(batch.wireLength + q);
  row.ipid = load<u32>(batch.ipid + q);
  row.flags = load<u32>(batch.flags + q);
  row.iface = load<u32>(batch.iface + q);
}

/** Appends a copied row to a batch that has room. */
// @ts-ignore: decorator
@inline
export function putRow(batch: Batch, p: usize): void {
  const row = changetype<Row>(p);
  const i = batch.count;
  const o = i << 3;
  const q = i << 2;
  store<f64>(batch.time + o, row.time);
  store<u64>(batch.digest + o, row.digest);
  store<u64>(batch.flowHash + o, row.order);
  store<u64>(batch.meta + o, row.meta);
  store<u64>(batch.addrA + o, row.addrA);
  store<u64>(batch.addrB + o, row.addrB);
  store<u64>(batch.addrC + o, row.addrC);
  store<u64>(batch.addrD + o, row.addrD);
  store<f64>(batch.delay + o, row.delay);
  store<u32>(batch.wireLength + q, row.wireLength);
  store<u32>(batch.ipid + q, row.ipid);
  store<u32>(batch.flags + q, row.flags);
  store<u32>(batch.iface + q, row.iface);
  store<u32>(batch.header + q, 0);
  store<u32>(batch.captured + q, 0);
  batch.count = i + 1;
}

// @ts-ignore: decorator
@inline
export function copyRow(from: Batch, i: u32, to: Batch): void {
  const j = to.count;
  const a = i << 3;
  const b = j << 3;
  const c = i << 2;
  const d = j << 2;
  store<f64>(to.time + b, load<f64>(from.time + a));
  store<u64>(to.digest + b, load<u64>(from.digest + a));
  store<u64>(to.flowHash + b, load<u64>(from.flowHash + a));
  store<u64>(to.meta + b, load<u64>(from.meta + a));
  store<u64>(to.addrA + b, load<u64>(from.addrA + a));
  store<u64>(to.addrB + b, load<u64>(from.addrB + a));
  store<u64>(to.addrC + b, load<u64>(from.addrC + a));
  store<u64>(to.addrD + b, load<u64>(from.addrD + a));
  store<f64>(to.delay + b, load<f64>(from.delay + a));
  store<u32>(to.wireLength + d, load<u32>(from.wireLength + c));
  store<u32>(to.ipid + d, load<u32>(from.ipid + c));
  store<u32>(to.flags + d, load<u32>(from.flags + c));
  store<u32>(to.iface + d, load<u32>(from.iface + c));
  store<u32>(to.header + d, 0);
  store<u32>(to.captured + d, 0);
  to.count = j + 1;
}

/** Numbers the rows in sending order (in the flow hash column, until keyFlows overwrites it); returns the next number. */
export function simTimestampOrder(b: usize, first: f64): f64 {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  let order = <u64>first;
  for (let i: u32 = 0; i < n; i++) store<u64>(batch.flowHash + (i << 3), order++);
  return <f64>order;
}

/**
 * Merges two streams by arrival here (time + delay; the first stream wins ties) into `out` until it is full or one stream is used up. `position` points to the
 * two u32 row positions. Lost rows of the first stream are passed on at once.
 */
export function simMerge(a: usize, b: usize, position: usize, out: usize): void {
  const first = changetype<Batch>(a);
  const second = changetype<Batch>(b);
  const to = changetype<Batch>(out);
  let i = load<u32>(position);
  let j = load<u32>(position, 4);
  while (to.count < to.capacity && i < first.count && j < second.count) {
    const s = load<f64>(first.time + (i << 3)) + load<f64>(first.delay + (i << 3));
    const t = load<f64>(second.time + (j << 3)) + load<f64>(second.delay + (j << 3));
    if (t < s) copyRow(second, j++, to);
    else copyRow(first, i++, to);
  }
  store<u32>(position, i);
  store<u32>(position, j, 4);
}

/** Appends rows [from, ...) of a batch to another until that is full; returns the next row. */
export function simAppend(a: usize, from: u32, out: usize): u32 {
  const source = changetype<Batch>(a);
  const to = changetype<Batch>(out);
  let i = from;
  while (i < source.count && to.count < to.capacity) copyRow(source, i++, to);
  return i;
}

/** Returns the sum of wire lengths of all rows. */
export function simBytes(b: usize): f64 {
  const batch = changetype<Batch>(b);
  let sum: u64 = 0;
  for (let i: u32 = 0; i < batch.count; i++) sum += <u64>load<u32>(batch.wireLength + (i << 2));
  return <f64>sum;
}

/** The fields that all injected packets share. */
@unmanaged
class Injected {
  seed: u64;
  meta: u64;
  addr: u64;
  length: u32;
  flags: u32;
}

/** The caller frees the result. */
export function simInjectedNew(seed: u64, meta: u64, addr: u64, length: u32, flags: u32): usize {
  const p = heap.alloc(offsetof<Injected>());
  const packet = changetype<Injected>(p);
  packet.seed = seed;
  packet.meta = meta;
  packet.addr = addr;
  packet.length = length;
  packet.flags = flags;
  return p;
}

/** Copies a batch and inserts a packet of ours ahead of each row that has a time at `times`; returns the number inserted. */
export function simInject(b: usize, times: usize, out: usize, number: u64, injectedPacket: usize): u32 {
  const packet = changetype<Injected>(injectedPacket);
  const batch = changetype<Batch>(b);
  const to = changetype<Batch>(out);
  to.count = 0;
  let injected: u32 = 0;
  for (let i: u32 = 0; i < batch.count; i++) {
    const at = load<f64>(times + (i << 3));
    if (at == at) {
      // Never later than the packet it goes ahead of, never earlier than the previous one.
      let time = min(nearest<f64>(at), load<f64>(batch.time + (i << 3)));
      if (to.count > 0) time = max(time, load<f64>(to.time + ((to.count - 1) << 3)));
      const n = number + <u64>injected;
      writeRow(to, time, digestOf(n, packet.seed), packet.meta, packet.addr, packet.length, <u32>n & 0xffff, packet.flags);
      injected++;
    }
    copyRow(batch, i, to);
  }
  return injected;
}

/** Returns memory of twice the size with the same content, and frees `p`. */
export function doubled(p: usize, bytes: u32): u32 {
  const larger = heap.alloc(2 * bytes);
  memory.copy(larger, p, bytes);
  heap.free(p);
  return <u32>larger;
}
