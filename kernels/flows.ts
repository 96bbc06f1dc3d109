// A table of flows: whole keys, open addressing, never two flows in one record because their hashes collide.
// Records lie in segments of 2^14, so the table grows without moving them; a record begins with the key and its hash, the rest is the
// owner's. The index holds {upper half of the hash, record number + 1} per slot.
//
//   record: hash u64 | meta u64 | addrA u64 | addrB u64 | addrC u64 | addrD u64 | owner's bytes, zeroed

import { Batch, META_IPV6 } from "./batch";
import { hashKey } from "./digest";

const SEGMENT_BITS: u32 = 14;
const SEGMENT: u32 = 1 << SEGMENT_BITS;
const MAX_SEGMENTS: u32 = 1 << 14;
export const FLOW_HEAD: u32 = 48;

@unmanaged
export class Flows {
  count: u32;
  recordBytes: u32;
  segments: u32; // address of the table of segment addresses
  index: u32;
  indexMask: u32;
  touched: u32; // keeps the loads of the touching pass alive
}

export function flowsNew(ownerBytes: u32): usize {
  const p = heap.alloc(offsetof<Flows>());
  const flows = changetype<Flows>(p);
  flows.count = 0;
  flows.recordBytes = FLOW_HEAD + ownerBytes;
  flows.segments = <u32>heap.alloc(MAX_SEGMENTS * 4);
  memory.fill(flows.segments, 0, MAX_SEGMENTS * 4);
  flows.indexMask = 4095;
  flows.index = <u32>heap.alloc(4096 * 8);
  memory.fill(flows.index, 0, 4096 * 8);
  return p;
}

export function flowsFree(p: usize): void {
  const flows = changetype<Flows>(p);
  for (let i: u32 = 0; i < MAX_SEGMENTS; i++) {
    const s = load<u32>(flows.segments + (i << 2));
    if (s == 0) break;
    heap.free(s);
  }
  heap.free(flows.segments);
  heap.free(flows.index);
  heap.free(p);
}

// @ts-ignore: decorator
@inline
export function flowRecord(flows: Flows, id: u32): usize {
  return load<u32>(flows.segments + ((id >> SEGMENT_BITS) << 2)) + (id & (SEGMENT - 1)) * flows.recordBytes;
}

export function flowsCount(p: usize): u32 {
  return changetype<Flows>(p).count;
}
export function flowsRecord(p: usize, id: u32): usize {
  return flowRecord(changetype<Flows>(p), id);
}

function growIndex(flows: Flows): void {
  const size = (flows.indexMask + 1) << 1;
  const mask = size - 1;
  const fresh = heap.alloc(size << 3);
  memory.fill(fresh, 0, size << 3);
  for (let i: u32 = 0; i <= flows.indexMask; i++) {
    const slot = load<u64>(flows.index + (i << 3));
    if (slot == 0) continue;
    const hash = load<u64>(flowRecord(flows, <u32>slot - 1));
    let j = <u32>hash & mask;
    while (load<u64>(fresh + (j << 3)) != 0) j = (j + 1) & mask;
    store<u64>(fresh + (j << 3), slot);
  }
  heap.free(flows.index);
  flows.index = <u32>fresh;
  flows.indexMask = mask;
}

/** The number of the flow with this key, made when it is new. */
// @ts-ignore: decorator
@inline
export function flowsFind(flows: Flows, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): u32 {
  const tag = hash & 0xffffffff00000000;
  const mask = flows.indexMask;
  let j = <u32>hash & mask;
  while (true) {
    const slot = load<u64>(flows.index + (j << 3));
    if (slot == 0) break;
    if ((slot & 0xffffffff00000000) == tag) {
      const id = <u32>slot - 1;
      const r = flowRecord(flows, id);
      if (load<u64>(r, 8) == meta && load<u64>(r, 16) == a) {
        if ((meta & META_IPV6) == 0) return id;
        if (load<u64>(r, 24) == b && load<u64>(r, 32) == c && load<u64>(r, 40) == d) return id;
      }
    }
    j = (j + 1) & mask;
  }
  return flowsAdd(flows, j, tag, hash, meta, a, b, c, d);
}

function flowsAdd(flows: Flows, j: u32, tag: u64, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): u32 {
  const id = flows.count;
  const segment = flows.segments + ((id >> SEGMENT_BITS) << 2);
  if (load<u32>(segment) == 0) {
    const fresh = heap.alloc(SEGMENT * flows.recordBytes);
    memory.fill(fresh, 0, SEGMENT * flows.recordBytes);
    store<u32>(segment, <u32>fresh);
  }
  const r = flowRecord(flows, id);
  const v6 = (meta & META_IPV6) != 0;
  store<u64>(r, hash);
  store<u64>(r, meta, 8);
  store<u64>(r, a, 16);
  store<u64>(r, v6 ? b : 0, 24);
  store<u64>(r, v6 ? c : 0, 32);
  store<u64>(r, v6 ? d : 0, 40);
  store<u64>(flows.index + (j << 3), tag | <u64>(id + 1));
  flows.count = id + 1;
  if (flows.count * 2 > flows.indexMask) growIndex(flows);
  return id;
}

/** The flow with a given key (5 u64: meta, addrA..addrD), or -1. Makes none. */
export function flowsLookup(p: usize, key: usize, seed: u64): i32 {
  const flows = changetype<Flows>(p);
  const hash = hashKey(key, seed);
  const meta = load<u64>(key);
  const tag = hash & 0xffffffff00000000;
  const mask = flows.indexMask;
  let j = <u32>hash & mask;
  while (true) {
    const slot = load<u64>(flows.index + (j << 3));
    if (slot == 0) return -1;
    if ((slot & 0xffffffff00000000) == tag) {
      const r = flowRecord(flows, <u32>slot - 1);
      if (load<u64>(r, 8) == meta && load<u64>(r, 16) == load<u64>(key, 8)) {
        if ((meta & META_IPV6) == 0) return <i32>(<u32>slot - 1);
        if (load<u64>(r, 24) == load<u64>(key, 16) && load<u64>(r, 32) == load<u64>(key, 24) && load<u64>(r, 40) == load<u64>(key, 32)) {
          return <i32>(<u32>slot - 1);
        }
      }
    }
    j = (j + 1) & mask;
  }
  return -1;
}

/** Finds or makes the flow of every row; writes their numbers to `ids` (u32 per row). */
export function flowsAssign(p: usize, b: usize, ids: usize): void {
  const flows = changetype<Flows>(p);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  // Touch first: independent loads overlap their cache misses, the dependent ones of the loop below do not.
  if (flows.indexMask > 16383) {
    let sum: u32 = 0;
    for (let i: u32 = 0; i < n; i++) {
      const slot = load<u64>(flows.index + ((load<u32>(batch.flowHash + (i << 3)) & flows.indexMask) << 3));
      store<u32>(ids + (i << 2), <u32>slot);
    }
    for (let i: u32 = 0; i < n; i++) {
      const id = load<u32>(ids + (i << 2));
      if (id != 0) sum += load<u32>(flowRecord(flows, id - 1)) + load<u32>(flowRecord(flows, id - 1), 104);
    }
    flows.touched = sum;
  }
  for (let i: u32 = 0; i < n; i++) {
    const o = i << 3;
    const id = flowsFind(
      flows, load<u64>(batch.flowHash + o), load<u64>(batch.meta + o), load<u64>(batch.addrA + o), load<u64>(batch.addrB + o),
      load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
    );
    store<u32>(ids + (i << 2), id);
  }
}

/** The flow of the opposite direction (addresses and ports exchanged), or -1. */
export function flowsReverse(p: usize, id: u32, seed: u64, scratch: usize): i32 {
  const flows = changetype<Flows>(p);
  const r = flowRecord(flows, id);
  const meta = load<u64>(r, 8);
  const ports = <u32>meta;
  store<u64>(scratch, (meta & 0xffffffff00000000) | <u64>((ports >> 16) | (ports << 16)));
  if ((meta & META_IPV6) == 0) {
    store<u64>(scratch, rotl<u64>(load<u64>(r, 16), 32), 8);
    store<u64>(scratch, 0, 16);
    store<u64>(scratch, 0, 24);
    store<u64>(scratch, 0, 32);
  } else {
    store<u64>(scratch, load<u64>(r, 32), 8);
    store<u64>(scratch, load<u64>(r, 40), 16);
    store<u64>(scratch, load<u64>(r, 16), 24);
    store<u64>(scratch, load<u64>(r, 24), 32);
  }
  return flowsLookup(p, scratch, seed);
}

/** The number of the flow with this key, or -1. */
export function flowsPeek(flows: Flows, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): i32 {
  const tag = hash & 0xffffffff00000000;
  const mask = flows.indexMask;
  let j = <u32>hash & mask;
  while (true) {
    const slot = load<u64>(flows.index + (j << 3));
    if (slot == 0) return -1;
    if ((slot & 0xffffffff00000000) == tag) {
      const id = <u32>slot - 1;
      const r = flowRecord(flows, id);
      if (load<u64>(r, 8) == meta && load<u64>(r, 16) == a) {
        if ((meta & META_IPV6) == 0) return <i32>id;
        if (load<u64>(r, 24) == b && load<u64>(r, 32) == c && load<u64>(r, 40) == d) return <i32>id;
      }
    }
    j = (j + 1) & mask;
  }
  return -1;
}
