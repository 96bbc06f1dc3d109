// A table of flows with whole keys and open addressing: two flows never share a record because their hashes collide. Records lie in segments of 2^14, so the
// table grows without moving them. A record begins with hash and key; the rest belongs to the table's owner. The index holds {upper half of the hash, record
// number + 1} per slot.
//
//   record: hash u64 | meta u64 | addrA u64 | addrB u64 | addrC u64 | addrD u64 | owner's bytes, zeroed

import { Batch, META_IPV6 } from "../decode/batch";

const SEGMENT_BITS: u32 = 14;
const SEGMENT: u32 = 1 << SEGMENT_BITS;
const MAX_SEGMENTS: u32 = 1 << 14;
export const FLOW_HEAD: u32 = 48;
const TAG: u64 = 0xffffffff00000000;

@unmanaged
export class Flows {
  count: u32;
  recordBytes: u32;
  segments: u32; // address of the table of segment addresses
  index: u32;
  indexMask: u32;
  touched: u32; // keeps the loads of touching passes alive
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

/** Doubles the slots. Records are read in their own order; the index's order would cause a cache miss for each. */
function growIndex(flows: Flows): void {
  const size = (flows.indexMask + 1) << 1;
  const mask = size - 1;
  const index = <u32>heap.alloc(size << 3);
  memory.fill(index, 0, size << 3);
  heap.free(flows.index);
  flows.index = index;
  flows.indexMask = mask;
  for (let id: u32 = 0; id < flows.count; id++) {
    const hash = load<u64>(flowRecord(flows, id));
    let j = <u32>hash & mask;
    while (load<u64>(index + (j << 3)) != 0) j = (j + 1) & mask;
    store<u64>(index + (j << 3), (hash & TAG) | <u64>(id + 1));
  }
}

/** Returns the number of the flow with this key, or -1 - the free slot where the search ended. */
// @ts-ignore: decorator
@inline
function search(flows: Flows, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): i32 {
  const mask = flows.indexMask;
  let j = <u32>hash & mask;
  while (true) {
    const slot = load<u64>(flows.index + (j << 3));
    if (slot == 0) return -1 - <i32>j;
    if (((slot ^ hash) & TAG) == 0) {
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

function flowsAdd(flows: Flows, slot: u32, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): u32 {
  const id = flows.count;
  const segment = flows.segments + ((id >> SEGMENT_BITS) << 2);
  if (load<u32>(segment) == 0) {
    const fresh = heap.alloc(SEGMENT * flows.recordBytes);
    if (flows.recordBytes > FLOW_HEAD) memory.fill(fresh, 0, SEGMENT * flows.recordBytes);
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
  flows.count = id + 1;
  store<u64>(flows.index + (slot << 3), (hash & TAG) | <u64>(id + 1));
  if (flows.count * 2 > flows.indexMask) growIndex(flows);
  return id;
}

/** Returns the number of the flow with this key; adds the flow if it is new. */
// @ts-ignore: decorator
@inline
export function flowsFind(flows: Flows, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): u32 {
  const found = search(flows, hash, meta, a, b, c, d);
  return found >= 0 ? <u32>found : flowsAdd(flows, <u32>(-1 - found), hash, meta, a, b, c, d);
}

/** Returns the number of the flow of row `i`, or -1. For IPv4 the columns that only IPv6 fills are not read. */
export function flowsPeek(flows: Flows, batch: Batch, i: u32, hash: u64, meta: u64): i32 {
  const o = i << 3;
  const a = load<u64>(batch.addrA + o);
  if ((meta & META_IPV6) == 0) return max<i32>(-1, search(flows, hash, meta, a, 0, 0, 0));
  return max<i32>(-1, search(flows, hash, meta, a, load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o)));
}

/** Finds or adds the flow of every row; writes the numbers to `ids` (u32 per row). */
export function flowsAssign(p: usize, b: usize, ids: usize): void {
  const flows = changetype<Flows>(p);
  const batch = changetype<Batch>(b);
  for (let i: u32 = 0; i < batch.count; i++) {
    const o = i << 3;
    const id = flowsFind(
      flows, load<u64>(batch.flowHash + o), load<u64>(batch.meta + o), load<u64>(batch.addrA + o), load<u64>(batch.addrB + o),
      load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
    );
    store<u32>(ids + (i << 2), id);
  }
}
