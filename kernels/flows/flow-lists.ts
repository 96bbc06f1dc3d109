// Delays of a flow by log bucket. From the fourth matched packet on (up to three follow from min, max and sum) a flow has a list of its buckets, two bytes
// each, that grows in steps. A full list of the largest size is counted into the table of cells (kernels/sketches/cells.ts) and starts again. So memory is two
// bytes per packet or a cell per bucket, whichever is less.
//
// On links with many flows the list of a packet's flow is in no cache. There buckets are first appended to a journal. Some hundred thousand entries at a time
// are then put into the lists, grouped by flow number, so that the lists of a group stay in the cache.

import { Cells, cellsAddMany } from "../sketches/cells";
import { allocate } from "./tables";
import { JOURNAL_PIECES, flowIn, FlowMore, flowSegments, FlowStats, moreAt, moreOf, slabTake, statsCount } from "./flow-records";

const LAST_CLASS: u32 = 4;
/** Lists of this length are counted into the cells: many entries are equal by then, and each bucket is looked up only once. */
export const LONGEST_LIST: u32 = 2048;
export const BUCKET_BIAS: i32 = 8192;

/** Allocates a list of a size class: 8, 32, 128, 512 or 2048 entries. */
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

/** Counts the buckets of a flow's list into its cells. */
function pour(stats: FlowStats, list: u32, count: u32, id: u32): void {
  const cells = changetype<Cells>(<usize>stats.cells);
  const counts = stats.counts;
  for (let i: u32 = 0; i < count; i++) {
    const at = counts + (<u32>load<u16>(list + (i << 1)) << 1);
    store<u16>(at, load<u16>(at) + 1);
  }
  for (let i: u32 = 0; i < count; i++) {
    const bucket: u32 = load<u16>(list + (i << 1));
    const n: u32 = load<u16>(counts + (bucket << 1));
    if (n == 0) continue;
    store<u16>(counts + (bucket << 1), 0);
    cellsAddMany(cells, id, <i32>bucket - BUCKET_BIAS, n);
  }
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
    pour(stats, more.list, count, id);
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

/** Adds a delay in this bucket. */
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

/** The journal: pieces of this many entries (flow number << 16 | biased bucket, u64 each). */
const PIECE_BITS: u32 = 16;
const PIECE: u32 = 1 << PIECE_BITS;
/** The journal is divided into 2^GROUP_BITS groups of flows before lists are accessed. */
const GROUP_BITS: u32 = 8;

/** Adds a delay in this bucket to the journal, for a flow with more than three delays; statsSettle moves it to the list. */
// @ts-ignore: decorator
@inline
export function journalAdd(stats: FlowStats, id: u32, bucket: i32): void {
  if ((stats.noted & (PIECE - 1)) == 0) nextPiece(stats);
  store<u64>(stats.piece + ((stats.noted & (PIECE - 1)) << 3), (<u64>id << 16) | <u64>(bucket + BUCKET_BIAS));
  stats.noted++;
}

/** Starts the piece for entry `noted`; if all pieces are full, settles them and starts with the first piece again. */
function nextPiece(stats: FlowStats): void {
  if (stats.journal == 0) {
    stats.journal = <u32>heap.alloc(JOURNAL_PIECES << 2);
    memory.fill(stats.journal, 0, JOURNAL_PIECES << 2);
  }
  if (stats.noted == PIECE * JOURNAL_PIECES) statsSettle(changetype<usize>(stats));
  const at = stats.journal + ((stats.noted >> PIECE_BITS) << 2);
  if (load<u32>(at) == 0) store<u32>(at, allocate(PIECE << 3));
  stats.piece = load<u32>(at);
}

/** Replaces an entry that is already in its list. */
const TAKEN: u64 = 0xffffffffffffffff;

// @ts-ignore: decorator
@inline
function putInList(stats: FlowStats, segments: u32, entry: u64): void {
  const id = <u32>(entry >> 16);
  listAdd(stats, moreOf(flowIn(segments, id)), id, <i32>(entry & 0xffff) - BUCKET_BIAS);
}

// Each loop over one piece is an exported function, and so not inlined: V8 switches to optimised code between two calls, not within one.

/** Adds the bytes that each group's entries need at `groups`. */
export function journalCount(from: u32, to: u32, shift: u32, groups: u32): void {
  for (let at = from; at < to; at += 8) {
    const entry = load<u64>(at);
    if (entry == TAKEN) continue;
    const group = groups + (<u32>(entry >> shift) << 2);
    store<u32>(group, load<u32>(group) + 8);
  }
}
/** Copies entries to the next position of their group. */
export function journalDivide(from: u32, to: u32, shift: u32, groups: u32): void {
  for (let at = from; at < to; at += 8) {
    const entry = load<u64>(at);
    if (entry == TAKEN) continue;
    const group = groups + (<u32>(entry >> shift) << 2);
    const place = load<u32>(group);
    store<u64>(place, entry);
    store<u32>(group, place + 8);
  }
}
/** Puts entries into their lists. */
export function journalPut(p: usize, from: u32, to: u32): void {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  for (let at = from; at < to; at += 8) putInList(stats, segments, load<u64>(at));
}

// @ts-ignore: decorator
@inline
function pieceStart(stats: FlowStats, piece: u32): u32 {
  return load<u32>(stats.journal + (piece << 2));
}
// @ts-ignore: decorator
@inline
function pieceEnd(stats: FlowStats, piece: u32): u32 {
  return pieceStart(stats, piece) + (min<u32>(PIECE, stats.noted - (piece << PIECE_BITS)) << 3);
}
// @ts-ignore: decorator
@inline
function pieceCount(stats: FlowStats): u32 {
  return (stats.noted + PIECE - 1) >> PIECE_BITS;
}

/** Puts all journal entries into the lists of their flows. Must be called before lists are read. */
export function statsSettle(p: usize): void {
  const stats = changetype<FlowStats>(p);
  if (stats.noted == 0) return;
  const pieces = pieceCount(stats);
  const groups = <u32>heap.alloc(4 << GROUP_BITS);
  const sorted = <u32>heap.alloc(stats.noted << 3);
  const numberBits: u32 = 32 - <u32>clz<u32>(statsCount(p));
  const shift = 16 + (numberBits > GROUP_BITS ? numberBits - GROUP_BITS : 0);
  memory.fill(groups, 0, 4 << GROUP_BITS);
  for (let i: u32 = 0; i < pieces; i++) journalCount(pieceStart(stats, i), pieceEnd(stats, i), shift, groups);
  let end = sorted;
  for (let at = groups; at < groups + (4 << GROUP_BITS); at += 4) {
    const bytes = load<u32>(at);
    store<u32>(at, end);
    end += bytes;
  }
  for (let i: u32 = 0; i < pieces; i++) journalDivide(pieceStart(stats, i), pieceEnd(stats, i), shift, groups);
  for (let at = sorted; at < end; at += PIECE << 3) journalPut(p, at, min<u32>(end, at + (PIECE << 3)));
  heap.free(sorted);
  heap.free(groups);
  stats.noted = 0;
}

/** Number of journal entries from which settling pays off in idle time: a minimum, and a few per flow. */
const TIDY_ENTRIES: u32 = 1 << 18;
const TIDY_PER_FLOW: u32 = 4;

/** For idle time: settles the journal if that pays off. Returns whether it did. */
export function statsTidy(p: usize): bool {
  if (changetype<FlowStats>(p).noted < max<u32>(TIDY_ENTRIES, TIDY_PER_FLOW * statsCount(p))) return false;
  statsSettle(p);
  return true;
}

/** Settles only the flows whose bits are set at `wanted`: for few flows this is a fraction of the work. */
export function statsSettleSome(p: usize, wanted: u32): void {
  const stats = changetype<FlowStats>(p);
  const pieces = pieceCount(stats);
  for (let i: u32 = 0; i < pieces; i++) journalPick(p, pieceStart(stats, i), pieceEnd(stats, i), wanted);
}
export function journalPick(p: usize, from: u32, to: u32, wanted: u32): void {
  const stats = changetype<FlowStats>(p);
  const segments = flowSegments(stats);
  for (let at = from; at < to; at += 8) {
    const entry = load<u64>(at);
    const id = <u32>(entry >> 16);
    if (entry == TAKEN || ((load<u8>(wanted + (id >> 3)) >> (<u8>id & 7)) & 1) == 0) continue;
    putInList(stats, segments, entry);
    store<u64>(at, TAKEN);
  }
}

/** Loads the flow records of `n` partners (16 bytes each, the entry first): loads that do not depend on each other overlap their cache misses. */
export function touchFlows(stats: FlowStats, found: u32, n: u32): void {
  const segments = flowSegments(stats);
  let sum: u32 = 0;
  for (let k: u32 = 0; k < n; k++) {
    const flow = flowIn(segments, load<u32>(load<u32>(found + (k << 4)), 16));
    sum += flow.matched + moreAt(flow).negative;
  }
  stats.touched = sum;
}
