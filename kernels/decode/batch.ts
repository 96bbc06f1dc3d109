// A batch of decoded IP packets as columns (structure of arrays), resident in L2. The TypeScript side (src/capture/batch.ts) reads it by the generated layout
// (src/base/kernel-layout.ts). Only IP packets become rows; all other frames are counted.

@unmanaged
export class Batch {
  capacity: u32;
  count: u32;
  time: u32; //       f64  ns after the capture's origin
  digest: u32; //     u64  identity of the packet at every point
  flowHash: u32; //   u64  hash of the masked key (keyFlows)
  meta: u32; //       u64  see META_* below
  addrA: u32; //      u64  IPv4: source << 32 | destination; IPv6: source, high half (host order)
  addrB: u32; //      u64  IPv6: source, low half; IPv4: not written, as C and D
  addrC: u32; //      u64  IPv6: destination, high half
  addrD: u32; //      u64  IPv6: destination, low half
  wireLength: u32; // u32  bytes on the wire, as the capture says
  ipid: u32; //       u32  IPv4 identification, or the IPv6 fragment's
  flags: u32; //      u32  see FLAG_* below
  header: u32; //     u32  address of the IP header in memory; 0 where there are no bytes (simulation)
  captured: u32; //   u32  captured bytes from the IP header on
  iface: u32; //      u32  interface of the capture
  delay: u32; //      f64  delay in ns where the source knows it, else NaN
  select: u32; //     u8   scratch for filters, PLANES planes of `capacity` bytes
  shorts: u32; //     rows with FLAG_SHORT that were decoded since the reader last looked
  frame: u32; //      u32  number of the frame in its capture, from 1 on; 0: not written (batchKeepFrames)
  lean: u32; //       1: identification, header, captured (but of short rows) and interface are not written
}

// meta: destination port 0-15, source port 16-31, protocol 32-39, DSCP 40-45, VLAN id 46-57, then single bits
export const META_PROTO: u64 = 0xff << 32;
export const META_DSCP: u64 = 0x3f << 40;
export const META_VLAN_ID: u64 = 0xfff << 46;
export const META_VLAN: u64 = 1 << 58;
export const META_IPV6: u64 = 1 << 59;
export const META_PORTS: u64 = 1 << 60;

// flags: TTL or hop limit 0-7, TCP flags 8-15, then single bits
export const FLAG_FRAGMENT: u32 = 1 << 16; //       any fragment
export const FLAG_LATER_FRAGMENT: u32 = 1 << 17; // not the first one: no ports
export const FLAG_SHORT: u32 = 1 << 18; //          cut by the snap length within what the digest covers
export const FLAG_INNER: u32 = 1 << 19; //          inside a tunnel
export const FLAG_IPID: u32 = 1 << 20; //           has an identification field
export const FLAG_CUT_L4: u32 = 1 << 21; //         ports not captured
export const FLAG_REFERENCE: u32 = 1 << 22; //      simulated: a reference packet
export const FLAG_PROBE: u32 = 1 << 23; //          simulated: a probe
export const FLAG_INBOUND: u32 = 1 << 26; //        the interface received it, as the capture says
export const FLAG_OUTBOUND: u32 = 1 << 27; //       the interface sent it, as the capture says
export const FLAG_LINK_LOCAL: u32 = 1 << 24; //     never leaves its link: 224.0.0.0/24, the limited broadcast, fe80::/10, ff02::/16
export const FLAG_VERIFIED: u32 = 1 << 25; //       a reference packet whose authentication code was verified (kernels/rli/hmac.ts)

export const PLANES: u32 = 8;
const COLUMN_BYTES: u32 = 8;

/** Allocates a batch and its columns. */
export function batchNew(capacity: u32): usize {
  const b = heap.alloc(offsetof<Batch>());
  const batch = changetype<Batch>(b);
  batch.capacity = capacity;
  batch.count = 0;
  batch.time = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.digest = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.flowHash = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.meta = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.addrA = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.addrB = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.addrC = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.addrD = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.wireLength = <u32>heap.alloc(capacity * 4);
  batch.ipid = <u32>heap.alloc(capacity * 4);
  batch.flags = <u32>heap.alloc(capacity * 4);
  batch.header = <u32>heap.alloc(capacity * 4);
  batch.captured = <u32>heap.alloc(capacity * 4);
  batch.iface = <u32>heap.alloc(capacity * 4);
  batch.delay = <u32>heap.alloc(capacity * COLUMN_BYTES);
  batch.select = <u32>heap.alloc(capacity * PLANES);
  batch.shorts = 0;
  batch.lean = 0;
  batch.frame = 0;
  return b;
}

/** Rows decoded from now on have the numbers of their frames. */
export function batchKeepFrames(b: usize): void {
  const batch = changetype<Batch>(b);
  batch.frame = <u32>heap.alloc(batch.capacity * 4);
}

export function batchFree(b: usize): void {
  const batch = changetype<Batch>(b);
  heap.free(batch.time);
  heap.free(batch.digest);
  heap.free(batch.flowHash);
  heap.free(batch.meta);
  heap.free(batch.addrA);
  heap.free(batch.addrB);
  heap.free(batch.addrC);
  heap.free(batch.addrD);
  heap.free(batch.wireLength);
  heap.free(batch.ipid);
  heap.free(batch.flags);
  heap.free(batch.header);
  heap.free(batch.captured);
  heap.free(batch.iface);
  heap.free(batch.delay);
  heap.free(batch.select);
  if (batch.frame != 0) heap.free(batch.frame);
  heap.free(b);
}

/** Allocates memory for the TypeScript side. */
export function alloc(bytes: u32): usize {
  return heap.alloc(bytes);
}
export function free(p: usize): void {
  heap.free(p);
}

/** Returns the first row of [from, count) with time + shift above `until`, or count. Times may step backward. */
export function batchUntil(b: usize, from: u32, until: f64, shift: f64): u32 {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  const times = batch.time;
  let to = from;
  while (to < n && load<f64>(times + (to << 3)) + shift <= until) to++;
  return to;
}

/** The same for times that never step backward. */
export function batchUntilOrdered(b: usize, from: u32, until: f64, shift: f64): u32 {
  const batch = changetype<Batch>(b);
  const times = batch.time;
  let low = from;
  let high = batch.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<f64>(times + (middle << 3)) + shift <= until) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the first row of [from, count) with a time outside [low, end), or count. */
export function batchWithin(b: usize, from: u32, low: f64, end: f64): u32 {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  const times = batch.time;
  let to = from;
  while (to < n) {
    const t = load<f64>(times + (to << 3));
    if (!(t >= low && t < end)) break;
    to++;
  }
  return to;
}

/** Returns how many rows of [from, to) have one of these flags. */
export function batchFlagged(b: usize, from: u32, to: u32, mask: u32): u32 {
  const flags = changetype<Batch>(b).flags;
  // Usually none has: test two rows with one word.
  let any: u64 = 0;
  let i = from;
  for (; i + 2 <= to; i += 2) any |= load<u64>(flags + (i << 2));
  if (i < to) any |= <u64>load<u32>(flags + (i << 2));
  if ((<u32>(any | (any >> 32)) & mask) == 0) return 0;
  let n: u32 = 0;
  for (i = from; i < to; i++) n += <u32>((load<u32>(flags + (i << 2)) & mask) != 0);
  return n;
}

/** Returns how many rows of [from, to) have a time before `start`. */
export function batchBefore(b: usize, from: u32, to: u32, start: f64): u32 {
  const times = changetype<Batch>(b).time;
  let n: u32 = 0;
  for (let i = from; i < to; i++) n += <u32>(load<f64>(times + (i << 3)) < start);
  return n;
}

/** Keeps the rows whose byte in plane 0 of `select` is not 0. Returns how many were dropped. */
export function batchCompact(b: usize): u32 {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  let j: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    if (load<u8>(batch.select + i) == 0) continue;
    if (i != j) {
      store<u64>(batch.time + (j << 3), load<u64>(batch.time + (i << 3)));
      store<u64>(batch.digest + (j << 3), load<u64>(batch.digest + (i << 3)));
      store<u64>(batch.flowHash + (j << 3), load<u64>(batch.flowHash + (i << 3)));
      store<u64>(batch.meta + (j << 3), load<u64>(batch.meta + (i << 3)));
      store<u64>(batch.addrA + (j << 3), load<u64>(batch.addrA + (i << 3)));
      store<u64>(batch.addrB + (j << 3), load<u64>(batch.addrB + (i << 3)));
      store<u64>(batch.addrC + (j << 3), load<u64>(batch.addrC + (i << 3)));
      store<u64>(batch.addrD + (j << 3), load<u64>(batch.addrD + (i << 3)));
      store<u64>(batch.delay + (j << 3), load<u64>(batch.delay + (i << 3)));
      store<u32>(batch.wireLength + (j << 2), load<u32>(batch.wireLength + (i << 2)));
      store<u32>(batch.ipid + (j << 2), load<u32>(batch.ipid + (i << 2)));
      store<u32>(batch.flags + (j << 2), load<u32>(batch.flags + (i << 2)));
      store<u32>(batch.header + (j << 2), load<u32>(batch.header + (i << 2)));
      store<u32>(batch.captured + (j << 2), load<u32>(batch.captured + (i << 2)));
      store<u32>(batch.iface + (j << 2), load<u32>(batch.iface + (i << 2)));
      if (batch.frame != 0) store<u32>(batch.frame + (j << 2), load<u32>(batch.frame + (i << 2)));
    }
    j++;
  }
  batch.count = j;
  return n - j;
}
