// What is known of each flow, by flow number (kernels/flows.ts gives the numbers; the keys are not needed here). A flow of one matched packet,
// as most are, is one cache line; the second one is made when there is more to tell. All of it is read by src/estimators/exact/.
//
//   flow: sent u32 | received u32 | matched u32 | more u32 | next order u32 | negative u32 |
//         bytes f64 | first delay f64 | last delay f64 | sum of |difference of consecutive delays| f64 | sum of (delay - first) f64
//   more: bits 0-29 number of the second record + 1, bits 30-31 direction (0 unknown, 1 before -> after, 2 after -> before)
//   second record: sum of (delay - first)^2 f64 | least f64 | most f64 | list u32 | in the list u16, its class u16 |
//         lost | appeared | duplicates | head before | tail before | head after | tail after | reordered (u32 each)
//
// Delays by log bucket: from the fourth matched packet on (up to three are told by least, most and sum) a flow has a list of its buckets,
// two bytes each, that grows in steps; a full list of the largest kind is poured into the table of cells (kernels/cells.ts) and begins anew. So
// a packet costs one store beside the last one of its flow, and memory is two bytes per packet or a cell per bucket, whichever is less.

import { Cells, cellsAdd } from "./cells";

const RECORD: u32 = 64;
const SEGMENT_BITS: u32 = 14;
const SEGMENT: u32 = 1 << SEGMENT_BITS;
const MAX_SEGMENTS: u32 = 1 << 14;
const NUMBER: u32 = 0x3fffffff;
const SLAB: u32 = 65536;
const LAST_CLASS: u32 = 3;
export const BUCKET_BIAS: i32 = 8192;

@unmanaged
export class Flow {
  sent: u32; //     rows at BEFORE
  received: u32; // rows at AFTER
  matched: u32;
  more: u32;
  nextOrder: u32;
  negative: u32;
  bytes: f64; //    at BEFORE
  first: f64;
  last: f64;
  jitter: f64;
  sum: f64;
}

@unmanaged
export class FlowMore {
  squares: f64;
  least: f64;
  most: f64;
  list: u32;
  listState: u32; //   count, class << 16
  lost: u32; //        BEFORE rows without partner
  appeared: u32; //    AFTER rows without partner
  duplicates: u32; //  AFTER rows that are further copies of a matched packet
  headBefore: u32; //  unmatched while the other capture was not seen to run yet
  tailBefore: u32;
  headAfter: u32;
  tailAfter: u32;
  reordered: u32;
}

/** Records in segments, so that they never move. */
@unmanaged
class Table {
  count: u32;
  room: u32;
  segments: u32; // addresses, aligned to cache lines
  blocks: u32; //   the same as they were allocated
}

@unmanaged
export class FlowStats {
  flows: u32; // Table
  more: u32; //  Table
  cells: u32;
  slab: u32; //  newest slab: its first word is the one before it
  slabUsed: u32;
  free0: u32; // lists that are free, by class
  free1: u32;
  free2: u32;
}

function tableNew(): u32 {
  const t = changetype<Table>(heap.alloc(offsetof<Table>()));
  t.count = 0;
  t.room = 0;
  t.segments = <u32>heap.alloc(MAX_SEGMENTS * 4);
  t.blocks = <u32>heap.alloc(MAX_SEGMENTS * 4);
  return <u32>changetype<usize>(t);
}

function tableFree(p: u32): void {
  const t = changetype<Table>(p);
  for (let i: u32 = 0; i < t.room >> SEGMENT_BITS; i++) heap.free(load<u32>(t.blocks + (i << 2)));
  heap.free(t.segments);
  heap.free(t.blocks);
  heap.free(p);
}

// @ts-ignore: decorator
@inline
function recordOf(t: Table, id: u32): u32 {
  return load<u32>(t.segments + ((id >> SEGMENT_BITS) << 2)) + ((id & (SEGMENT - 1)) * RECORD);
}

function tableGrow(t: Table): void {
  const block = <u32>heap.alloc(SEGMENT * RECORD + 64);
  const i = t.room >> SEGMENT_BITS;
  store<u32>(t.blocks + (i << 2), block);
  store<u32>(t.segments + (i << 2), (block + 63) & ~63);
  t.room += SEGMENT;
}

/** The next record, zeroed here and not by segments: it is about to be used, and so in the cache. */
// @ts-ignore: decorator
@inline
function tableAdd(t: Table): u32 {
  if (t.count == t.room) tableGrow(t);
  const r = recordOf(t, t.count++);
  for (let o: u32 = 0; o < RECORD; o += 8) store<u64>(r + o, 0);
  return r;
}

export function statsNew(cells: usize): usize {
  const p = heap.alloc(offsetof<FlowStats>());
  memory.fill(p, 0, offsetof<FlowStats>());
  const stats = changetype<FlowStats>(p);
  stats.flows = tableNew();
  stats.more = tableNew();
  stats.cells = <u32>cells;
  stats.slabUsed = SLAB;
  // Number 0 is no flow's: touchMore reads it in place of those that are not there.
  tableAdd(changetype<Table>(stats.more));
  return p;
}

export function statsFree(p: usize): void {
  const stats = changetype<FlowStats>(p);
  tableFree(stats.flows);
  tableFree(stats.more);
  let slab = stats.slab;
  while (slab != 0) {
    const before = load<u32>(slab);
    heap.free(slab);
    slab = before;
  }
  heap.free(p);
}

/** Makes room for flows [0, count). */
export function statsEnsure(p: usize, count: u32): void {
  const t = changetype<Table>(changetype<FlowStats>(p).flows);
  while (t.count < count) tableAdd(t);
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
  return changetype<Flow>(<usize>(load<u32>(segments + ((id >> SEGMENT_BITS) << 2)) + ((id & (SEGMENT - 1)) * RECORD)));
}
// @ts-ignore: decorator
@inline
export function directionOf(flow: Flow): u32 {
  return flow.more >> 30;
}

function moreNew(stats: FlowStats, flow: Flow): FlowMore {
  const t = changetype<Table>(stats.more);
  const r = tableAdd(t);
  // The count is the new record's number + 1.
  flow.more |= t.count;
  return changetype<FlowMore>(<usize>r);
}
// @ts-ignore: decorator
@inline
export function moreOf(stats: FlowStats, flow: Flow): FlowMore {
  const n = flow.more & NUMBER;
  if (n == 0) return moreNew(stats, flow);
  return changetype<FlowMore>(<usize>recordOf(changetype<Table>(stats.more), n - 1));
}

// Addresses for the TypeScript side; 0 where there is no second record.
export function statsFlow(p: usize, id: u32): usize {
  return changetype<usize>(flowIn(flowSegments(changetype<FlowStats>(p)), id));
}
export function statsMore(p: usize, id: u32): usize {
  const stats = changetype<FlowStats>(p);
  const n = flowIn(flowSegments(stats), id).more & NUMBER;
  return n == 0 ? 0 : <usize>recordOf(changetype<Table>(stats.more), n - 1);
}

function slabTake(stats: FlowStats, bytes: u32): u32 {
  if (stats.slabUsed + bytes > SLAB) {
    const slab = <u32>heap.alloc(SLAB);
    store<u32>(slab, stats.slab);
    stats.slab = slab;
    stats.slabUsed = 16;
  }
  const p = stats.slab + stats.slabUsed;
  stats.slabUsed += bytes;
  return p;
}

/** A list of a class: 8, 32, 128 or 512 entries. */
function listNew(stats: FlowStats, kind: u32): u32 {
  if (kind < LAST_CLASS) {
    const free = changetype<usize>(stats) + offsetof<FlowStats>("free0") + (kind << 2);
    const p = load<u32>(free);
    if (p != 0) {
      store<u32>(free, load<u32>(p));
      return p;
    }
  }
  return slabTake(stats, <u32>16 << (kind << 1));
}

function listRoom(stats: FlowStats, more: FlowMore, id: u32): void {
  const state = more.listState;
  const count = state & 0xffff;
  const kind = state >> 16;
  if (more.list == 0) {
    more.list = listNew(stats, 0);
    return;
  }
  if (kind == LAST_CLASS) {
    const cells = changetype<Cells>(<usize>stats.cells);
    for (let i: u32 = 0; i < count; i++) cellsAdd(cells, id, <i32>load<u16>(more.list + (i << 1)) - BUCKET_BIAS);
    more.listState = LAST_CLASS << 16;
    return;
  }
  const fresh = listNew(stats, kind + 1);
  for (let o: u32 = 0; o < count << 1; o += 8) store<u64>(fresh + o, load<u64>(more.list + o));
  const free = changetype<usize>(stats) + offsetof<FlowStats>("free0") + (kind << 2);
  store<u32>(more.list, load<u32>(free));
  store<u32>(free, more.list);
  more.list = fresh;
  more.listState = ((kind + 1) << 16) | count;
}

/** One more delay of this bucket. */
// @ts-ignore: decorator
@inline
export function listAdd(stats: FlowStats, more: FlowMore, id: u32, bucket: i32): void {
  let state = more.listState;
  if (more.list == 0 || (state & 0xffff) == <u32>8 << ((state >> 16) << 1)) {
    listRoom(stats, more, id);
    state = more.listState;
  }
  store<u16>(more.list + ((state & 0xffff) << 1), <u16>(bucket + BUCKET_BIAS));
  more.listState = state + 1;
}

/**
 * Loads the second records and the lists of the flows of `n` partners (16 bytes each: the entry first, the last word is ours), one kind after
 * the other: loads that do not wait for each other overlap their cache misses.
 */
export function touchMore(stats: FlowStats, found: u32, n: u32): u32 {
  const segments = flowSegments(stats);
  const t = changetype<Table>(stats.more);
  let sum: u32 = 0;
  let flows: u32 = 0;
  let last: u32 = 0xffffffff;
  for (let k: u32 = 0; k < n; k++) {
    const id = load<u32>(load<u32>(found + (k << 4)), 16);
    if (id == last) continue;
    last = id;
    const more = flowIn(segments, id).more & NUMBER;
    // A flow without one reads the first, which is there: a branch would cost more.
    const record = recordOf(t, more == 0 ? 0 : more - 1);
    store<u32>(found + (flows << 4), record, 12);
    sum += load<u32>(record, 24);
    flows++;
  }
  for (let k: u32 = 0; k < flows; k++) {
    const record = changetype<FlowMore>(<usize>load<u32>(found + (k << 4), 12));
    sum += load<u8>(record.list + ((record.listState & 0xffff) << 1));
  }
  return sum;
}

// Sums over flows, 16 f64 per way: sent, received, matched, lost, appeared, duplicates, head before, tail before, head after, tail after,
// then the last four again of flows with partners.
const WAY: u32 = 16 * 8;

// @ts-ignore: decorator
@inline
function add(at: usize, n: u32): void {
  store<f64>(at, load<f64>(at) + <f64>n);
}

/** Adds flows [from, to) to `out`: forward ones first, then, where `twoWay`, those of direction 2. */
export function statsSums(p: usize, from: u32, to: u32, twoWay: u32, out: usize): void {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  for (let id = from; id < to; id++) {
    const flow = flowIn(segments, id);
    const at = twoWay != 0 && directionOf(flow) == 2 ? out + WAY : out;
    add(at, flow.sent);
    add(at + 8, flow.received);
    add(at + 16, flow.matched);
    if ((flow.more & NUMBER) == 0) continue;
    const more = moreOf(stats, flow);
    add(at + 24, more.lost);
    add(at + 32, more.appeared);
    add(at + 40, more.duplicates);
    add(at + 48, more.headBefore);
    add(at + 56, more.tailBefore);
    add(at + 64, more.headAfter);
    add(at + 72, more.tailAfter);
    if (flow.matched == 0) continue;
    add(at + 80, more.headBefore);
    add(at + 88, more.tailBefore);
    add(at + 96, more.headAfter);
    add(at + 104, more.tailAfter);
  }
}

// What flows are put in order by.
const BY_PACKETS: u32 = 0;
const BY_BYTES: u32 = 1;
const BY_MEAN: u32 = 2;
const BY_MOST: u32 = 3;
const BY_LOST: u32 = 4;

/**
 * One f64 per flow of [from, to): what it is put in order by, NaN for flows of another way (1 or 2; `twoWay` 0: all are of way 1), -Infinity where
 * there is no answer. `edges`: which unmatched packets at the captures' ends count as lost (bits: head before, tail before, head after, tail after).
 */
export function statsMeasure(p: usize, from: u32, to: u32, by: u32, way: u32, twoWay: u32, edges: u32, out: usize): void {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  for (let id = from; id < to; id++) {
    const flow = flowIn(segments, id);
    const reverse: bool = twoWay != 0 && directionOf(flow) == 2;
    const n = flow.matched;
    let v: f64 = 0;
    if (reverse != (way == 2)) v = NaN;
    else if (by == BY_PACKETS) v = <f64>max<u32>(flow.sent, flow.received);
    else if (by == BY_BYTES) v = flow.bytes;
    else if (by == BY_LOST) {
      if ((flow.more & NUMBER) != 0) {
        const more = moreOf(stats, flow);
        if (reverse) {
          v = <f64>more.appeared + <f64>more.duplicates + ((edges & 4) != 0 ? <f64>more.headAfter : 0) + ((edges & 8) != 0 ? <f64>more.tailAfter : 0);
        } else v = <f64>more.lost + ((edges & 1) != 0 ? <f64>more.headBefore : 0) + ((edges & 2) != 0 ? <f64>more.tailBefore : 0);
      }
    } else if (n == 0) v = -Infinity;
    else if (by == BY_MEAN) v = flow.first + flow.sum / <f64>n;
    else if (by == BY_MOST) v = n == 1 ? flow.first : moreOf(stats, flow).most;
    store<f64>(out + ((id - from) << 3), v);
  }
}

/** Numbers of the flows of [from, to) that have unmatched packets at the captures' ends and no matched one; returns how many. */
export function statsEdgesOnly(p: usize, from: u32, to: u32, out: usize): u32 {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  let n: u32 = 0;
  for (let id = from; id < to; id++) {
    const flow = flowIn(segments, id);
    if (flow.matched != 0 || (flow.more & NUMBER) == 0) continue;
    const more = moreOf(stats, flow);
    if ((more.headBefore | more.tailBefore | more.headAfter | more.tailAfter) == 0) continue;
    store<u32>(out + (n << 2), id);
    n++;
  }
  return n;
}

export function statsDirection(p: usize, id: u32): u32 {
  return directionOf(flowIn(flowSegments(changetype<FlowStats>(p)), id));
}
export function statsTurn(p: usize, id: u32, direction: u32): void {
  const flow = flowIn(flowSegments(changetype<FlowStats>(p)), id);
  flow.more = (flow.more & NUMBER) | (direction << 30);
}
