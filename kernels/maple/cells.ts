// MAPLE's delay groups: finds the centre of a delay, keeps sums per group, and fills the histogram that centres are chosen from.
//
// To find the group of a delay, its log bucket (kernels/sketches/cells.ts) gives the first group that reaches into the bucket; a few comparisons with the
// groups' upper edges follow at most. So the result is exact for any edges, and usually costs one comparison.
//
// Sums are integers relative to the group's centre, and exact: adding two epochs gives the same bytes as one epoch of both.

import { bucketOf } from "../sketches/cells";

const BUCKETS: u32 = 16384;
const BIAS: i32 = 8192;
/** Largest distance (4.29 s) whose square fits 64 bits. */
const MAX_DISTANCE: f64 = 4294967295.0;

/** One group: 64 bytes, read by src/estimators/maple/cell-table.ts. */
@unmanaged
class Cell {
  base: f64; //      the centre as a whole number of ns
  minimum: f64;
  maximum: f64;
  sum: i64; //       of (delay - base)
  squares: u64; //   of (delay - base)^2, low half
  carry: u64; //     its high half
  count: u64;
  upper: f64; //     first delay that belongs to the next group
}
const CELL_BYTES: u32 = 64;

/** {groups u32, cells u32, first u32}: `first` is a u16 per bucket. */
@unmanaged
class Groups {
  groups: u32;
  cells: u32;
  first: u32;
  pad: u32;
}

export function mapleCellsNew(groups: u32): usize {
  const p = heap.alloc(offsetof<Groups>());
  const table = changetype<Groups>(p);
  table.groups = groups;
  table.cells = <u32>heap.alloc(groups * CELL_BYTES);
  table.first = <u32>heap.alloc(BUCKETS * 2);
  memory.fill(table.cells, 0, groups * CELL_BYTES);
  memory.fill(table.first, 0, BUCKETS * 2);
  return p;
}

export function mapleCellsFree(p: usize): void {
  const table = changetype<Groups>(p);
  heap.free(table.cells);
  heap.free(table.first);
  heap.free(p);
}

export function mapleCellsAt(p: usize): usize {
  return changetype<Groups>(p).cells;
}

/** Called after the upper edges are written: builds the table of buckets and clears the sums. */
export function mapleCellsReset(p: usize): void {
  const table = changetype<Groups>(p);
  let code: u32 = 0;
  const last = table.groups - 1;
  let group: u32 = 0;
  for (; group < table.groups; group++) {
    const cell = changetype<Cell>(table.cells + group * CELL_BYTES);
    cell.minimum = Infinity;
    cell.maximum = -Infinity;
    cell.sum = 0;
    cell.squares = 0;
    cell.carry = 0;
    cell.count = 0;
  }
  // Buckets ascend with the delay; a bucket's first group is the first whose upper edge is not in an earlier bucket.
  for (let b: u32 = 0; b < BUCKETS; b++) {
    while (code < last && bucketOf(changetype<Cell>(table.cells + code * CELL_BYTES).upper) + BIAS < <i32>b) code++;
    store<u16>(table.first + (b << 1), <u16>code);
  }
}

// @ts-ignore: decorator
@inline
function find(table: Groups, delay: f64): u32 {
  let code: u32 = load<u16>(table.first + (<u32>(bucketOf(delay) + BIAS) << 1));
  const last = table.groups - 1;
  while (code < last && delay >= changetype<Cell>(table.cells + code * CELL_BYTES).upper) code++;
  return code;
}

/** Writes the codes (u16) of n delays (f64, whole ns) and adds the delays to the groups' sums. */
export function mapleAssign(p: usize, delays: usize, codes: usize, n: u32): void {
  const table = changetype<Groups>(p);
  for (let i: u32 = 0; i < n; i++) {
    const delay = load<f64>(delays + (i << 3));
    const code = find(table, delay);
    store<u16>(codes + (i << 1), <u16>code);
    const cell = changetype<Cell>(table.cells + code * CELL_BYTES);
    const x = delay - cell.base;
    cell.sum += <i64>x;
    const distance = <u64>min<f64>(abs<f64>(x), MAX_DISTANCE);
    const square = distance * distance;
    cell.squares += square;
    if (cell.squares < square) cell.carry++;
    cell.count++;
    cell.minimum = min<f64>(cell.minimum, delay);
    cell.maximum = max<f64>(cell.maximum, delay);
  }
}

/** Adds n delays to a dense histogram: {count f64, sum f64} per bucket, from bucket -8192 on. */
export function mapleHistogram(histogram: usize, delays: usize, n: u32): void {
  for (let i: u32 = 0; i < n; i++) {
    const delay = load<f64>(delays + (i << 3));
    const at = histogram + (<usize>(bucketOf(delay) + BIAS) << 4);
    store<f64>(at, load<f64>(at) + 1);
    store<f64>(at, load<f64>(at, 8) + delay, 8);
  }
}
