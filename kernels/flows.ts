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
  wide: u32; //    there are keys with IPv6 addresses
  trail: u32; //   flows as flowsLead met them, if asked for: {hash, meta, addrA, number} per run of rows, then the last run by hash
  runs: u32; //    of the trail so far
  followed: u32; // run that is due next in flowsFollow
  misses: u32; //  of the last flowsFollow
}

const TRAIL: u32 = 4096;

export function flowsNew(ownerBytes: u32): usize {
  const p = heap.alloc(offsetof<Flows>());
  const flows = changetype<Flows>(p);
  flows.count = 0;
  flows.wide = 0;
  flows.trail = 0;
  flows.runs = 0;
  flows.followed = 0;
  flows.misses = 0;
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
  if (flows.trail != 0) heap.free(flows.trail);
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

/** Twice the slots. Records are read in their order, not the index's, which would miss the cache at each. */
function growIndex(flows: Flows): void {
  const size = (flows.indexMask + 1) << 1;
  const mask = size - 1;
  const fresh = <u32>heap.alloc(size << 3);
  memory.fill(fresh, 0, size << 3);
  heap.free(flows.index);
  flows.index = fresh;
  flows.indexMask = mask;
  indexAll(flows);
}

function indexAll(flows: Flows): void {
  const index = flows.index;
  const mask = flows.indexMask;
  for (let id: u32 = 0; id < flows.count; id++) {
    const hash = load<u64>(flowRecord(flows, id));
    let j = <u32>hash & mask;
    while (load<u64>(index + (j << 3)) != 0) j = (j + 1) & mask;
    store<u64>(index + (j << 3), (hash & 0xffffffff00000000) | <u64>(id + 1));
  }
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

/** The record of the next flow, with its key and without a place in the index. */
function flowsAppend(flows: Flows, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): void {
  const id = flows.count;
  const segment = flows.segments + ((id >> SEGMENT_BITS) << 2);
  if (load<u32>(segment) == 0) {
    const fresh = heap.alloc(SEGMENT * flows.recordBytes);
    if (flows.recordBytes > FLOW_HEAD) memory.fill(fresh, 0, SEGMENT * flows.recordBytes);
    store<u32>(segment, <u32>fresh);
  }
  const r = flowRecord(flows, id);
  const v6 = (meta & META_IPV6) != 0;
  if (v6) flows.wide = 1;
  store<u64>(r, hash);
  store<u64>(r, meta, 8);
  store<u64>(r, a, 16);
  store<u64>(r, v6 ? b : 0, 24);
  store<u64>(r, v6 ? c : 0, 32);
  store<u64>(r, v6 ? d : 0, 40);
  flows.count = id + 1;
}

function flowsAdd(flows: Flows, j: u32, tag: u64, hash: u64, meta: u64, a: u64, b: u64, c: u64, d: u64): u32 {
  const id = flows.count;
  flowsAppend(flows, hash, meta, a, b, c, d);
  store<u64>(flows.index + (j << 3), tag | <u64>(id + 1));
  if (flows.count * 2 > flows.indexMask) growIndex(flows);
  return id;
}

export function flowsWide(p: usize): u32 {
  return changetype<Flows>(p).wide;
}

/** Keys of `n` flows from `from` on: 2 u64 each (meta, addrA), or 5 where `wide`. */
export function flowsKeys(p: usize, from: u32, n: u32, wide: u32, out: usize): void {
  const flows = changetype<Flows>(p);
  for (let i: u32 = 0; i < n; i++) {
    const r = flowRecord(flows, from + i);
    store<u64>(out, load<u64>(r, 8));
    store<u64>(out, load<u64>(r, 16), 8);
    out += 16;
    if (wide == 0) continue;
    store<u64>(out, load<u64>(r, 24));
    store<u64>(out, load<u64>(r, 32), 8);
    store<u64>(out, load<u64>(r, 40), 16);
    out += 24;
  }
}

/** Adds flows with keys as flowsKeys gives them. They are found by key only after flowsIndex. */
export function flowsLoad(p: usize, keys: usize, n: u32, wide: u32, seed: u64): void {
  const flows = changetype<Flows>(p);
  const step: u32 = wide != 0 ? 40 : 16;
  for (let i: u32 = 0; i < n; i++) {
    const meta = load<u64>(keys);
    // Without IPv6 the hash covers the first two words alone.
    const hash = hashKey(keys, seed);
    if (wide != 0) flowsAppend(flows, hash, meta, load<u64>(keys, 8), load<u64>(keys, 16), load<u64>(keys, 24), load<u64>(keys, 32));
    else flowsAppend(flows, hash, meta, load<u64>(keys, 8), 0, 0, 0);
    keys += step;
  }
}

/** Puts all flows into the index. */
export function flowsIndex(p: usize): void {
  const flows = changetype<Flows>(p);
  let size = flows.indexMask + 1;
  while (flows.count * 2 > size - 1) size <<= 1;
  heap.free(flows.index);
  flows.index = <u32>heap.alloc(size << 3);
  flows.indexMask = size - 1;
  memory.fill(flows.index, 0, size << 3);
  indexAll(flows);
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

/** Loads what the look-ups of a batch will need: independent loads overlap their cache misses, the dependent ones of a look-up do not. */
function touchFlows(flows: Flows, batch: Batch, ids: usize, from: u32, to: u32): void {
  const hashes = batch.flowHash;
  const index = flows.index;
  const mask = flows.indexMask;
  let sum: u32 = 0;
  for (let i = from; i < to; i++) {
    const slot = load<u64>(index + ((load<u32>(hashes + (i << 3)) & mask) << 3));
    store<u32>(ids + (i << 2), <u32>slot);
  }
  let before: u32 = 0;
  for (let i = from; i < to; i++) {
    const id = load<u32>(ids + (i << 2));
    if (id != before && id != 0) sum += load<u32>(flowRecord(flows, id - 1));
    before = id;
  }
  flows.touched = sum;
}

/** Finds or makes the flow of every row; writes their numbers to `ids` (u32 per row). */
export function flowsAssign(p: usize, b: usize, ids: usize): void {
  flowsLead(p, b, ids, 0, changetype<Batch>(b).count);
}

/** The same for rows [from, to). */
export function flowsLead(p: usize, b: usize, ids: usize, from: u32, to: u32): void {
  const flows = changetype<Flows>(p);
  const batch = changetype<Batch>(b);
  const hashes = batch.flowHash;
  const metas = batch.meta;
  const addresses = batch.addrA;
  if (flows.indexMask > 16383) touchFlows(flows, batch, ids, from, to);
  const trail = flows.trail;
  let run = flows.runs;
  // Packets come in bursts: a row is often of the flow of the row before it.
  let lastHash: u64 = 0;
  let lastMeta: u64 = 0;
  let lastA: u64 = 0;
  let last: u32 = 0;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const hash = load<u64>(hashes + o);
    const meta = load<u64>(metas + o);
    const a = load<u64>(addresses + o);
    if (i == from || hash != lastHash || meta != lastMeta || a != lastA || (meta & META_IPV6) != 0) {
      last = flowsFind(flows, hash, meta, a, load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o));
      lastHash = hash;
      lastMeta = meta;
      lastA = a;
      if (trail != 0) {
        const r = trail + ((run & (TRAIL - 1)) << 5);
        store<u64>(r, hash);
        store<u64>(r, meta, 8);
        store<u64>(r, a, 16);
        store<u32>(r, last, 24);
        store<u32>(trail + TRAIL * 32 + ((<u32>hash & (TRAIL - 1)) << 2), run);
        run++;
      }
    }
    store<u32>(ids + (i << 2), last);
  }
  flows.runs = run;
}

/** flowsLead leaves a trail from now on, for flowsFollow. */
export function flowsTrail(p: usize): void {
  const flows = changetype<Flows>(p);
  flows.trail = <u32>heap.alloc(TRAIL * 36);
  memory.fill(flows.trail, 0, TRAIL * 36);
}

/** The run of the trail that has this key, at or a little after the one that is due, or where its flow was last seen; -1 for none. */
// @ts-ignore: decorator
@inline
function trailFind(flows: Flows, hash: u64, meta: u64, a: u64): i64 {
  const trail = flows.trail;
  let run = flows.followed;
  // Runs may have been lost.
  for (let k = 0; k < 3 && run != flows.runs; k++) {
    const r = trail + ((run & (TRAIL - 1)) << 5);
    if (load<u64>(r) == hash && load<u64>(r, 8) == meta && load<u64>(r, 16) == a) return run;
    run++;
  }
  run = load<u32>(trail + TRAIL * 32 + ((<u32>hash & (TRAIL - 1)) << 2));
  const r = trail + ((run & (TRAIL - 1)) << 5);
  if (load<u64>(r) == hash && load<u64>(r, 8) == meta && load<u64>(r, 16) == a) return run;
  return -1;
}

/** The same for rows that mostly have been met by flowsLead before, in the same order: the trail tells their flows. */
export function flowsFollow(p: usize, b: usize, ids: usize, from: u32, to: u32): void {
  const flows = changetype<Flows>(p);
  const batch = changetype<Batch>(b);
  const hashes = batch.flowHash;
  const metas = batch.meta;
  const addresses = batch.addrA;
  // A trail that was left behind is gone.
  if (flows.runs - flows.followed > TRAIL) flows.followed = flows.runs;
  // Touched only where the trail did not help with the batch before.
  if (flows.misses > (to - from) >> 4 && flows.indexMask > 16383) touchFlows(flows, batch, ids, from, to);
  let misses: u32 = 0;
  let lastHash: u64 = 0;
  let lastMeta: u64 = 0;
  let lastA: u64 = 0;
  let last: u32 = 0;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const hash = load<u64>(hashes + o);
    const meta = load<u64>(metas + o);
    const a = load<u64>(addresses + o);
    if (i == from || hash != lastHash || meta != lastMeta || a != lastA || (meta & META_IPV6) != 0) {
      const run = (meta & META_IPV6) == 0 ? trailFind(flows, hash, meta, a) : -1;
      if (run >= 0) {
        last = load<u32>(flows.trail + ((<u32>run & (TRAIL - 1)) << 5), 24);
        flows.followed = <u32>run + 1;
      } else {
        last = flowsFind(flows, hash, meta, a, load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o));
        misses++;
      }
      lastHash = hash;
      lastMeta = meta;
      lastA = a;
    }
    store<u32>(ids + (i << 2), last);
  }
  flows.misses = misses;
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
