// What is known of each flow: its key (found through kernels/flows/flow-index.ts) and its statistics. Flows are numbered in order of appearance. A flow of one or two matched packets, as most are, is one cache
// line; the second one, which lies behind the first ones of its segment, is used when there is more to tell (its address needs no look at the first), and
// there is a small record for flows with packets that found no partner. Records lie in segments and never move. All of it is read by src/match/flow-results.ts.
//
//   flow:   sent u32 | received u32 | matched u32 | more u32 | meta u64 | addrA u64 | bytes f64 | first delay f64 | last delay f64 |
//           next order u32 | wide u32
//   more:   bit 0 the second record is in use, bit 29 there are faults, bits 30-31 direction (0 unknown, 1 before -> after, 2 after -> before)
//   second: from the third packet on: sum of (delay - first)^2 f64 | min f64 | max f64 | sum of (delay - first) f64 |
//           sum of |difference of consecutive delays|, as sent, f64 |
//           list u32 | in the list u16, its class u16 | negative ones u32; faults u32 | last pair u32 | delays without a place u32
//   faults: lost | appeared | duplicates | head before | tail before | head after | tail after | reordered | … (u32 each)
//   wide:   number + 1 of the rest of an IPv6 key: addrB u64 | addrC u64 | addrD u64

import { allocate, recordIn, SEGMENT, Table, tableAdd, tableFree, tableNew } from "./tables";

/** In `more`: the second record is in use. */
export const SECOND: u32 = 1;
/** In `more`: the flow has faults. */
export const FAULTY: u32 = 0x20000000;
const FIRST_BITS: u32 = 12;

@unmanaged
export class Flow {
  sent: u32; //     rows at BEFORE
  received: u32; // rows at AFTER
  matched: u32;
  more: u32;
  meta: u64;
  addrA: u64;
  bytes: f64; //    at BEFORE
  first: f64;
  last: f64;
  nextOrder: u32;
  wide: u32;
}

@unmanaged
export class FlowMore {
  squares: f64;
  minimum: f64;
  maximum: f64;
  sum: f64;
  jitter: f64;
  list: u32;
  listState: u32; // count, class << 16
  negative: u32;
  faults: u32;
  lastPair: u32; // number of its last pair (kernels/match/send-order.ts)
  apart: u32; //    delays that are not in the jitter: their place in the order of sending is not known
}

@unmanaged
export class FlowFaults {
  lost: u32; //        BEFORE rows without partner
  appeared: u32; //    AFTER rows without partner
  duplicates: u32; //  rows that are further copies of a matched packet, where they arrive: AFTER, or BEFORE in the reverse direction
  headBefore: u32; //  unmatched while the other capture was not seen to run yet
  tailBefore: u32;
  headAfter: u32;
  tailAfter: u32;
  reordered: u32;
  ambiguous: u32; //   matched, but with several equal ones at hand: no delay
  linkLocal: u32; //   without partner, because such packets do not leave their link
  mirrored: u32; //    rows that were seen twice where they come from
  merged: u32; //      packets that lay within longer ones at one of the points (src/match/residue)
  undecided: u32; //   near an end of the other capture: lost, or outside of it
  pad: u32;
}

@unmanaged
export class FlowStats {
  flows: u32; //  Table
  faults: u32; // Table
  wide: u32; //   Table
  none: u32; //   a second record of no flow, all 0
  cells: u32;
  slab: u32; //   newest slab of lists: its first word is the one before it
  slabUsed: u32;
  free0: u32; //  lists that are free, by class
  free1: u32;
  free2: u32;
  free3: u32;
  index: u32;
  indexBits: u32;
  touched: u32; // keeps the loads of touching passes alive
  counts: u32; // a u16 per bucket, all 0: lists are counted there (kernels/flows/flow-lists.ts)
  journal: u32; // buckets that are not in their lists yet (kernels/flows/flow-lists.ts): its pieces
  noted: u32; //  how many
  piece: u32; //  the piece that the next one goes to
  seed: u64; //   of the keys' hashes
  base: f64; //   delays are this and what their buckets say (kernels/match/match-state.ts)
}

export const DIRECTION_SHIFT: u32 = 30;
const FLOW: u32 = 64;
const MORE: u32 = 64;
const FAULTS: u32 = 56;
export const WIDE: u32 = 24;
const SLAB: u32 = 65536;
/** Pieces of the journal at most. */
export const JOURNAL_PIECES: u32 = 64;
/** Log buckets (kernels/sketches/cells.ts). */
const BUCKETS: u32 = 16384;

export function statsNew(cells: usize, seed: u64): usize {
  const p = heap.alloc(offsetof<FlowStats>());
  memory.fill(p, 0, offsetof<FlowStats>());
  const stats = changetype<FlowStats>(p);
  stats.flows = tableNew(FLOW + MORE);
  stats.faults = tableNew(FAULTS);
  stats.wide = tableNew(WIDE);
  stats.cells = <u32>cells;
  stats.slabUsed = SLAB;
  stats.counts = <u32>heap.alloc(BUCKETS << 1);
  memory.fill(stats.counts, 0, BUCKETS << 1);
  stats.seed = seed;
  stats.indexBits = FIRST_BITS;
  stats.index = <u32>heap.alloc(8 << FIRST_BITS);
  memory.fill(stats.index, 0, 8 << FIRST_BITS);
  stats.none = <u32>heap.alloc(MORE);
  memory.fill(stats.none, 0, MORE);
  return p;
}

export function statsFree(p: usize): void {
  const stats = changetype<FlowStats>(p);
  tableFree(stats.flows);
  tableFree(stats.faults);
  tableFree(stats.wide);
  heap.free(stats.index);
  heap.free(stats.counts);
  heap.free(stats.none);
  if (stats.journal != 0) {
    // Pieces that were never needed are 0.
    for (let at = stats.journal; at < stats.journal + (JOURNAL_PIECES << 2); at += 4) if (load<u32>(at) != 0) heap.free(load<u32>(at));
    heap.free(stats.journal);
  }
  let slab = stats.slab;
  while (slab != 0) {
    const before = load<u32>(slab);
    heap.free(slab);
    slab = before;
  }
  heap.free(p);
}

/** Memory for lists, in large pieces that are given back together. */
export function slabTake(stats: FlowStats, bytes: u32): u32 {
  if (stats.slabUsed + bytes > SLAB) {
    const slab = allocate(SLAB);
    store<u32>(slab, stats.slab);
    stats.slab = slab;
    stats.slabUsed = 16;
  }
  const p = stats.slab + stats.slabUsed;
  stats.slabUsed += bytes;
  return p;
}

export function statsCount(p: usize): u32 {
  return changetype<Table>(changetype<FlowStats>(p).flows).count;
}

/** Table of segment addresses, for loops that keep it in a local. */
// @ts-ignore: decorator
@inline
export function flowSegments(stats: FlowStats): u32 {
  return changetype<Table>(stats.flows).segments;
}
// @ts-ignore: decorator
@inline
export function flowIn(segments: u32, id: u32): Flow {
  return changetype<Flow>(<usize>recordIn(segments, id, FLOW));
}
// @ts-ignore: decorator
@inline
export function directionOf(flow: Flow): u32 {
  return flow.more >> DIRECTION_SHIFT;
}
/** What the buckets of its delays are above. */
// @ts-ignore: decorator
@inline
export function baseOf(stats: FlowStats, flow: Flow): f64 {
  return directionOf(flow) == 2 ? -stats.base : stats.base;
}

/** Where the second record of a flow lies, in use or not. */
// @ts-ignore: decorator
@inline
export function moreAt(flow: Flow): FlowMore {
  return changetype<FlowMore>(changetype<usize>(flow) + SEGMENT * FLOW);
}
function moreNew(flow: Flow): void {
  flow.more |= SECOND;
  memory.fill(changetype<usize>(moreAt(flow)), 0, MORE);
}
/** The second record, from now on in use. */
// @ts-ignore: decorator
@inline
export function moreOf(flow: Flow): FlowMore {
  if ((flow.more & SECOND) == 0) moreNew(flow);
  return moreAt(flow);
}
/** The address of the second record, or of one that is nobody's where it is not in use. */
// @ts-ignore: decorator
@inline
export function moreOrNone(stats: FlowStats, flow: Flow): u32 {
  return (flow.more & SECOND) == 0 ? stats.none : <u32>changetype<usize>(moreAt(flow));
}

export function faultsOf(stats: FlowStats, flow: Flow): FlowFaults {
  const more = moreOf(flow);
  if (more.faults == 0) {
    tableAdd(stats.faults, FAULTS);
    more.faults = changetype<Table>(stats.faults).count;
    flow.more |= FAULTY;
  }
  return changetype<FlowFaults>(<usize>recordIn(changetype<Table>(stats.faults).segments, more.faults - 1, FAULTS));
}

// Addresses for the TypeScript side; 0 where there is no such record.
export function statsFlow(p: usize, id: u32): usize {
  return changetype<usize>(flowIn(flowSegments(changetype<FlowStats>(p)), id));
}
export function statsMore(p: usize, id: u32): usize {
  const stats = changetype<FlowStats>(p);
  const flow = flowIn(flowSegments(stats), id);
  return (flow.more & SECOND) == 0 ? 0 : changetype<usize>(moreAt(flow));
}
export function statsFaults(p: usize, id: u32): usize {
  const more = statsMore(p, id);
  return more == 0 ? 0 : <usize>faultsOrNone(changetype<FlowStats>(p), changetype<FlowMore>(more));
}
/** The same, made where there is none. */
export function statsFaultsMade(p: usize, id: u32): usize {
  const stats = changetype<FlowStats>(p);
  return changetype<usize>(faultsOf(stats, flowIn(flowSegments(stats), id)));
}
// @ts-ignore: decorator
@inline
export function faultsOrNone(stats: FlowStats, more: FlowMore): u32 {
  return more.faults == 0 ? 0 : recordIn(changetype<Table>(stats.faults).segments, more.faults - 1, FAULTS);
}

// @ts-ignore: decorator
@inline
export function wideOf(stats: FlowStats, flow: Flow): u32 {
  return recordIn(changetype<Table>(stats.wide).segments, flow.wide - 1, WIDE);
}

/** A record for one more flow. */
// @ts-ignore: decorator
@inline
export function addRecord(stats: FlowStats): Flow {
  return changetype<Flow>(<usize>tableAdd(stats.flows, FLOW));
}
/** Room for the rest of its IPv6 key, which is copied there. */
export function addWide(stats: FlowStats, flow: Flow, rest: usize): void {
  memory.copy(tableAdd(stats.wide, WIDE), rest, WIDE);
  flow.wide = changetype<Table>(stats.wide).count;
}
