// The update loop of LDS and SDS: rows x columns cells, one cell per row and packet. The owner is src/estimators/lds/tap.ts.
//
//   cell (16 bytes): sum i64 (ns, wraps) | count u32 | digest u32 (xor of the packets' digests)
//   row  (32 bytes): flow seed u64 | packet seed u64 | sampling threshold u64 (2^32: all) | total u64 (what was added to counts)
//   bytes, if kept: u64 per cell, in a plane of their own
//
// Column: fastrange of the flow's mixed hash; within the flow's k cells: fastrange of the packet's. Differences of wrapped sums are right as long
// as the sum of the delays in a cell fits into an i64. Rows run one after the other: the seeds stay in registers, and a row is a
// smaller piece of memory than the sketch.

import { Batch } from "./batch";

@unmanaged
class Lds {
  rows: u32;
  columns: u32;
  k: u32;
  delays: u32; //  1: the delay column is summed, rows without a delay are left out (SDS)
  cells: u32;
  table: u32; //   rows
  bytes: u32; //   plane of bytes or 0
  list: u32; //    scratch: numbers of chosen batch rows
  room: u32; //    entries of list
  pad: u32;
  start: f64; //   of the epoch, on the batch's axis
}

const ROW: u32 = 32;

export function ldsNew(rows: u32, columns: u32, k: u32, delays: bool, bytes: bool): usize {
  const p = heap.alloc(offsetof<Lds>());
  const lds = changetype<Lds>(p);
  lds.rows = rows;
  lds.columns = columns;
  lds.k = k;
  lds.delays = delays ? 1 : 0;
  lds.cells = <u32>heap.alloc(<usize>rows * columns * 16);
  lds.table = <u32>heap.alloc(rows * ROW);
  lds.bytes = bytes ? <u32>heap.alloc(<usize>rows * columns * 8) : 0;
  lds.list = 0;
  lds.room = 0;
  lds.start = 0;
  ldsClear(p);
  return p;
}

/** Times count from here on, on the axis of the batches to come. */
export function ldsBegin(p: usize, start: f64): void {
  changetype<Lds>(p).start = start;
}

export function ldsClear(p: usize): void {
  const lds = changetype<Lds>(p);
  memory.fill(lds.cells, 0, <usize>lds.rows * lds.columns * 16);
  if (lds.bytes != 0) memory.fill(lds.bytes, 0, <usize>lds.rows * lds.columns * 8);
  for (let r: u32 = 0; r < lds.rows; r++) store<u64>(lds.table + r * ROW, 0, 24);
}

export function ldsRow(p: usize, row: u32, flowSeed: u64, packetSeed: u64, threshold: u64): void {
  const at = changetype<Lds>(p).table + row * ROW;
  store<u64>(at, flowSeed);
  store<u64>(at, packetSeed, 8);
  store<u64>(at, threshold, 16);
}

export function ldsCells(p: usize): usize {
  return changetype<Lds>(p).cells;
}
export function ldsTable(p: usize): usize {
  return changetype<Lds>(p).table;
}
export function ldsBytes(p: usize): usize {
  return changetype<Lds>(p).bytes;
}

export function ldsFree(p: usize): void {
  const lds = changetype<Lds>(p);
  heap.free(lds.cells);
  heap.free(lds.table);
  if (lds.bytes != 0) heap.free(lds.bytes);
  if (lds.list != 0) heap.free(lds.list);
  heap.free(p);
}

// splitmix64's finaliser, as src/base/hash.ts has it.
// @ts-ignore: decorator
@inline
function mix(h: u64): u64 {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

/** Rows [from, to) of a batch. `weights`: u32 per row of the batch, or 0 where all weigh 1. */
export function ldsUpdate(p: usize, b: usize, from: u32, to: u32, weights: usize): void {
  const lds = changetype<Lds>(p);
  const batch = changetype<Batch>(b);
  if (from >= to) return;
  const columns = <u64>lds.columns;
  const needed = (to - from) << 1;
  if (lds.room < needed) {
    if (lds.list != 0) heap.free(lds.list);
    lds.list = <u32>heap.alloc(needed << 2);
    lds.room = needed;
  }
  // Of SDS only the rows with a delay count; a comparison with itself is false for NaN alone.
  const base = lds.list;
  let n = to - from;
  let listed = false;
  if (lds.delays != 0) {
    n = 0;
    for (let i = from; i < to; i++) {
      const d = load<f64>(batch.delay + (i << 3));
      store<u32>(base + (n << 2), i);
      n += d == d ? 1 : 0;
    }
    listed = true;
  }
  const chosen = base + ((to - from) << 2);
  for (let r: u32 = 0; r < lds.rows; r++) {
    const row = lds.table + r * ROW;
    const threshold = load<u64>(row, 16);
    const cells = lds.cells + r * lds.columns * 16;
    if (!listed && threshold >> 32 != 0 && lds.k == 1 && weights == 0 && lds.bytes == 0) {
      updateAll(lds, batch, row, cells, columns, from, to);
      continue;
    }
    // Sampling first, without a branch on it: half the packets taken at random is the worst a predictor can meet.
    const packetSeed = load<u64>(row, 8);
    let m: u32 = 0;
    for (let j: u32 = 0; j < n; j++) {
      const i = listed ? load<u32>(base + (j << 2)) : from + j;
      const h = mix(load<u64>(batch.digest + (i << 3)) ^ packetSeed);
      store<u32>(chosen + (m << 2), i);
      m += (h & 0xffffffff) < threshold ? 1 : 0;
    }
    updateListed(lds, batch, row, cells, columns, chosen, m, weights, r);
  }
}

/** One row of the plain sketch: every packet, k = 1, no weights. */
// @ts-ignore: decorator
@inline
function updateAll(lds: Lds, batch: Batch, row: usize, cells: usize, columns: u64, from: u32, to: u32): void {
  const seed = load<u64>(row);
  const start = lds.start;
  const time = batch.time;
  const hash = batch.flowHash;
  const digest = batch.digest;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const h = mix(load<u64>(hash + o) ^ seed);
    const c = cells + (<usize>(((h >> 32) * columns) >> 32) << 4);
    store<i64>(c, load<i64>(c) + <i64>floor<f64>(load<f64>(time + o) - start));
    // count and digest as one word: the count is the low half and no carry leaves it before 2^32 packets
    const word = load<u64>(c, 8);
    store<u64>(c, (word + 1) ^ (<u64>load<u32>(digest + o) << 32), 8);
  }
  store<u64>(row, load<u64>(row, 24) + (to - from), 24);
}

// @ts-ignore: decorator
@inline
function updateListed(
  lds: Lds, batch: Batch, row: usize, cells: usize, columns: u64, list: usize, n: u32, weights: usize, r: u32,
): void {
  const flowSeed = load<u64>(row);
  const packetSeed = load<u64>(row, 8);
  const k = <u64>lds.k;
  const values = lds.delays != 0 ? batch.delay : batch.time;
  const start = lds.delays != 0 ? 0.0 : lds.start;
  const bytes: u32 = lds.bytes != 0 ? lds.bytes + r * lds.columns * 8 : 0;
  let total: u64 = 0;
  for (let j: u32 = 0; j < n; j++) {
    const i = load<u32>(list + (j << 2));
    const o = i << 3;
    const digest = load<u64>(batch.digest + o);
    const h = mix(load<u64>(batch.flowHash + o) ^ flowSeed);
    // The low half decided about sampling, the high half decides about the cell.
    const within = ((mix(digest ^ packetSeed) >> 32) * k) >> 32;
    let column = (((h >> 32) * columns) >> 32) + within;
    column = select(column - columns, column, column >= columns);
    const weight: u32 = weights != 0 ? load<u32>(weights + (i << 2)) : 1;
    const c = cells + (<usize>column << 4);
    store<i64>(c, load<i64>(c) + <i64>floor<f64>(load<f64>(values + o) - start) * <i64>weight);
    store<u32>(c, load<u32>(c, 8) + weight, 8);
    store<u32>(c, load<u32>(c, 12) ^ <u32>digest, 12);
    if (bytes != 0) {
      const q: usize = bytes + (<u32>column << 3);
      store<u64>(q, load<u64>(q) + load<u32>(batch.wireLength + (i << 2)));
    }
    total += weight;
  }
  store<u64>(row, load<u64>(row, 24) + total, 24);
}
