// The heaviest flows of a stream in bounded memory (Misra and Gries 1982, in batches): the flows for which a sketch without keys can be queried
// (src/estimators/lds/heavy-keys.ts).
//
// A flow is counted from the packet that brings it into the table. `floor` is the maximum number of packets that a flow outside the table may have had. A flow
// that enters may have missed `floor` packets before: it stores that number, so its true count lies within [packets, packets + missed]. When there are twice
// `max` flows, the floor rises until at most `max` flows exceed it, and the others are removed. Every rise by v takes v from more than max flows: floor <= all
// packets / (max + 1). The content of the table depends on the order of the packets, not on how they were cut into batches.
//
//   record: hash u64 | meta u64 | addrA u64 | addrB u64 | addrC u64 | addrD u64 | packets u64 | bytes u64 | missed u64
//   index:  upper half of the hash << 32 | record number + 1; 0 is a free slot

import { Batch, META_IPV6 } from "../decode/batch";

export const RECORD: u32 = 72;
export const PACKETS: u32 = 48;
export const BYTES: u32 = 56;
export const MISSED: u32 = 64;
const TAG: u64 = 0xffffffff00000000;

@unmanaged
export class HeavyFlows {
  count: u32;
  max: u32;
  records: u32;
  index: u32;
  mask: u32;
  floor: u64;
}

export function heavyFlowsNew(max: u32): usize {
  const p = heap.alloc(offsetof<HeavyFlows>());
  const heavy = changetype<HeavyFlows>(p);
  let slots: u32 = 16;
  while (slots < max << 2) slots <<= 1;
  heavy.max = max;
  heavy.records = <u32>heap.alloc(((max << 1) + 1) * RECORD);
  heavy.mask = slots - 1;
  heavy.index = <u32>heap.alloc(slots << 3);
  heavyFlowsClear(p);
  return p;
}

export function heavyFlowsFree(p: usize): void {
  heap.free(changetype<HeavyFlows>(p).records);
  heap.free(changetype<HeavyFlows>(p).index);
  heap.free(p);
}

/** Removes all flows. */
export function heavyFlowsClear(p: usize): void {
  const heavy = changetype<HeavyFlows>(p);
  heavy.count = 0;
  heavy.floor = 0;
  memory.fill(heavy.index, 0, (heavy.mask + 1) << 3);
}

export function heavyFlowsCount(p: usize): u32 {
  return changetype<HeavyFlows>(p).count;
}
export function heavyFlowsRecord(p: usize, id: u32): usize {
  return changetype<HeavyFlows>(p).records + id * RECORD;
}
export function heavyFlowsFloor(p: usize): u64 {
  return changetype<HeavyFlows>(p).floor;
}

// @ts-ignore: decorator
@inline
function boundOf(r: usize): u64 {
  return load<u64>(r, PACKETS) + load<u64>(r, MISSED);
}

function above(heavy: HeavyFlows, value: u64): u32 {
  const end = heavy.records + heavy.count * RECORD;
  let n: u32 = 0;
  for (let r: usize = heavy.records; r < end; r += RECORD) n += <u32>(boundOf(r) > value);
  return n;
}

/** Returns the smallest number that at most `max` flows exceed. Most flows have few packets, so small numbers are tried first. */
function cutOf(heavy: HeavyFlows): u64 {
  let low = heavy.floor;
  let step: u64 = 1;
  let high = low + step;
  while (above(heavy, high) > heavy.max) {
    low = high;
    step <<= 1;
    high = low + step;
  }
  while (high - low > 1) {
    const middle = low + ((high - low) >> 1);
    if (above(heavy, middle) > heavy.max) low = middle;
    else high = middle;
  }
  return high;
}

/** Removes flows until at most `max` are left. */
export function heavyFlowsShed(p: usize): void {
  const heavy = changetype<HeavyFlows>(p);
  if (heavy.count <= heavy.max) return;
  const floor = cutOf(heavy);
  const mask = heavy.mask;
  const index = heavy.index;
  memory.fill(index, 0, (mask + 1) << 3);
  let kept: u32 = 0;
  for (let id: u32 = 0; id < heavy.count; id++) {
    const r = heavy.records + id * RECORD;
    if (boundOf(r) <= floor) continue;
    // Copied word by word: for so few bytes the engine's copy call takes longer.
    if (kept != id) for (let o: u32 = 0; o < RECORD; o += 8) store<u64>(heavy.records + kept * RECORD + o, load<u64>(r + o));
    const hash = load<u64>(heavy.records + kept * RECORD);
    let j = <u32>hash & mask;
    while (load<u64>(index + (j << 3)) != 0) j = (j + 1) & mask;
    store<u64>(index + (j << 3), (hash & TAG) | <u64>++kept);
  }
  heavy.count = kept;
  heavy.floor = floor;
}

/** Adds a record for the flow of row `i`, at the free slot where its search ended. */
function addFlow(heavy: HeavyFlows, batch: Batch, i: u32, slot: u32): usize {
  const o = i << 3;
  const hash = load<u64>(batch.flowHash + o);
  const meta = load<u64>(batch.meta + o);
  const v6 = (meta & META_IPV6) != 0;
  const r: usize = heavy.records + heavy.count * RECORD;
  store<u64>(r, hash);
  store<u64>(r, meta, 8);
  store<u64>(r, load<u64>(batch.addrA + o), 16);
  store<u64>(r, v6 ? load<u64>(batch.addrB + o) : 0, 24);
  store<u64>(r, v6 ? load<u64>(batch.addrC + o) : 0, 32);
  store<u64>(r, v6 ? load<u64>(batch.addrD + o) : 0, 40);
  store<u64>(r, 0, PACKETS);
  store<u64>(r, 0, BYTES);
  store<u64>(r, heavy.floor, MISSED);
  store<u64>(slot, (hash & TAG) | <u64>++heavy.count);
  return r;
}

/** Returns whether the rest of an IPv6 key equals that of row `i`. */
function sameRest(r: usize, batch: Batch, i: u32): bool {
  const o = i << 3;
  return (
    load<u64>(r, 24) == load<u64>(batch.addrB + o) && load<u64>(r, 32) == load<u64>(batch.addrC + o) && load<u64>(r, 40) == load<u64>(batch.addrD + o)
  );
}

export function heavyFlowsUpdate(p: usize, b: usize, from: u32, to: u32): void {
  const heavy = changetype<HeavyFlows>(p);
  const batch = changetype<Batch>(b);
  const most = heavy.max << 1;
  const mask = heavy.mask;
  const index = heavy.index;
  const records = heavy.records;
  const hashes = batch.flowHash;
  const metas = batch.meta;
  const addresses = batch.addrA;
  const lengths = batch.wireLength;
  for (let i = from; i < to; i++) {
    const hash = load<u64>(hashes + (i << 3));
    const meta = load<u64>(metas + (i << 3));
    const address = load<u64>(addresses + (i << 3));
    let at = index + ((<u32>hash & mask) << 3);
    let r: usize = 0;
    for (let slot = load<u64>(at); slot != 0; slot = load<u64>(at)) {
      if (((slot ^ hash) & TAG) == 0) {
        const known: usize = records + (<u32>slot - 1) * RECORD;
        if (load<u64>(known, 8) == meta && load<u64>(known, 16) == address && ((meta & META_IPV6) == 0 || sameRest(known, batch, i))) {
          r = known;
          break;
        }
      }
      at = index + ((((at - index) >> 3) + 1) & mask) * 8;
    }
    const isNew = r == 0;
    if (isNew) r = addFlow(heavy, batch, i, at);
    store<u64>(r, load<u64>(r, PACKETS) + 1, PACKETS);
    store<u64>(r, load<u64>(r, BYTES) + <u64>load<u32>(lengths + (i << 2)), BYTES);
    if (isNew && heavy.count > most) heavyFlowsShed(p);
  }
}
