// Delays of a flow by log bucket: from the fourth matched packet on (up to three are in min, max and sum) a flow has a list of its
// buckets, two bytes each, that grows in steps; a full list of the largest kind is poured into the table of cells (kernels/sketches/cells.ts) and begins
// anew. So a packet costs one store beside the last one of its flow, and memory is two bytes per packet or a cell per bucket, whichever is less.

import { Cells, cellsAddMany } from "../sketches/cells";
import { flowIn, FlowMore, flowSegments, FlowStats, moreOrNone, slabTake } from "./flow-records";

const LAST_CLASS: u32 = 4;
/** Lists of so many buckets are poured into the cells: many of them are the same then, and each is looked up there once. */
export const LONGEST_LIST: u32 = 2048;
export const BUCKET_BIAS: i32 = 8192;

/** A list of a class: 8, 32, 128, 512 or 2048 entries. */
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

/** Counts the buckets of a flow's list in its cells. */
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

/** There is no room for one more; `state`: of a list that is there. */
// @ts-ignore: decorator
@inline
export function listFull(state: u32): bool {
  return (state & 0xffff) == <u32>8 << ((state >> 16) << 1);
}

/** One more delay of this bucket. */
// @ts-ignore: decorator
@inline
export function listAdd(stats: FlowStats, more: FlowMore, id: u32, bucket: i32): void {
  let state = more.listState;
  if (more.list == 0 || listFull(state)) {
    listRoom(stats, more, id);
    state = more.listState;
  }
  store<u16>(more.list + ((state & 0xffff) << 1), <u16>(bucket + BUCKET_BIAS));
  more.listState = state + 1;
}

/**
 * Loads the records and the lists of the flows of `n` partners (16 bytes each, the entry first; `scratch`: a word each), one kind after
 * the other: loads that do not wait for each other overlap their cache misses.
 */
export function touchMore(stats: FlowStats, found: u32, n: u32, scratch: u32): void {
  const segments = flowSegments(stats);
  let sum: u32 = 0;
  let flows: u32 = 0;
  let last: u32 = 0xffffffff;
  for (let k: u32 = 0; k < n; k++) {
    const id = load<u32>(load<u32>(found + (k << 4)), 16);
    if (id == last) continue;
    last = id;
    // A flow without one reads the first, which is there: a branch would cost more.
    store<u32>(scratch + (flows << 2), moreOrNone(stats, flowIn(segments, id)));
    flows++;
  }
  for (let k: u32 = 0; k < flows; k++) sum += load<u32>(load<u32>(scratch + (k << 2)), 40);
  for (let k: u32 = 0; k < flows; k++) {
    const record = changetype<FlowMore>(<usize>load<u32>(scratch + (k << 2)));
    sum += load<u8>(record.list + ((record.listState & 0xffff) << 1));
  }
  stats.touched = sum;
}
