// The update loop of LDS and SDS: rows x columns cells, one cell per row and packet. The owner is src/estimators/lds/tap.ts.
//
//   cell (16 bytes): sum i64 (ns, wraps) | count u32 | digest u32 (xor of the packets' digests)
//   row  (32 bytes): flow seed u64 | packet seed u64 | sampling threshold u64 (2^32: all) | total u64 (sum of what was added to the counts)
//   bytes, if kept: u64 per cell, in a separate plane
//
// Column: fastrange of the flow's mixed hash; within the flow's k cells: fastrange of the packet's. Differences of wrapped sums are right as long as the sum of
// the delays in a cell fits into an i64. Rows are processed one after the other: the seeds stay in registers, and a row is a smaller piece of memory than the
// sketch. Cell addresses depend on the columns alone, so cache misses overlap without touching cells first.

import { Batch } from "../decode/batch";

@unmanaged
export class Lds {
  rows: u32;
  columns: u32;
  k: u32;
  delays: u32; //  1: the delay column is summed, rows without a delay are left out (SDS)
  cells: u32;
  table: u32; //   rows
  bytes: u32; //   plane of bytes or 0
  list: u32; //    scratch: rows with a delay (u32 each), then rows sampled (u64 each)
  room: u32; //    words of list
  pad: u32;
  start: f64; //   of the epoch, on the batch's axis
}

const ROW: u32 = 32;
/** Number of rows sampled in one pass. */
const TOGETHER: u32 = 3;

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

/** Sets the origin of times, on the time axis of later batches. */
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

// splitmix64's finaliser as in src/base/hash.ts, in two steps.
// @ts-ignore: decorator
@inline
function mix(h: u64): u64 {
  return finish(fold(h));
}

// @ts-ignore: decorator
@inline
function fold(h: u64): u64 {
  return h ^ (h >> 30);
}

// @ts-ignore: decorator
@inline
function finish(h: u64): u64 {
  h *= 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

/** Adds rows [from, to) of a batch. `weights`: u32 per row of the batch, or 0 if all weights are 1. */
export function ldsUpdate(p: usize, b: usize, from: u32, to: u32, weights: usize): void {
  const lds = changetype<Lds>(p);
  const batch = changetype<Batch>(b);
  if (from >= to) return;
  const columns = <u64>lds.columns;
  const needed = (to - from) * (1 + 2 * TOGETHER);
  if (lds.room < needed) {
    heap.free(lds.list);
    // If the new allocation fails, the old list must not be freed twice.
    lds.list = 0;
    lds.room = 0;
    lds.list = <u32>heap.alloc(needed << 2);
    lds.room = needed;
  }
  // For SDS only rows with a delay count; only NaN differs from itself.
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
      if (r + 1 < lds.rows && load<u64>(row, ROW + 16) >> 32 != 0) {
        updateTwo(lds, batch, row, cells, columns, from, to);
        r++;
      } else updateAll(lds, batch, row, cells, columns, from, to);
      continue;
    }
    if (!listed && threshold >> 32 != 0 && weights == 0 && lds.bytes == 0) {
      updateWhole(lds, batch, row, cells, from, to);
      continue;
    }
    if (!listed && r + TOGETHER <= lds.rows) {
      sampleThree(lds, batch, r, from, to, weights);
      r += TOGETHER - 1;
      continue;
    }
    const m = listed ? sampleListed(batch.digest, row, base, n, chosen) : sampleRange(batch.digest, row, from, to, chosen);
    updateListed(lds, batch, row, cells, chosen, m, weights, r);
  }
}

// Sampling runs first, without a branch on it: half the packets taken at random is the worst case for branch prediction. The low half of a packet's hash
// decides about sampling, the high half, stored with the row's number, about the cell.
// @ts-ignore: decorator
@inline
function sampleRange(digest: u32, row: usize, from: u32, to: u32, chosen: usize): u32 {
  const seed = load<u64>(row, 8);
  const threshold = load<u64>(row, 16);
  let at = chosen;
  for (let i = from; i < to; i++) {
    const h = mix(load<u64>(digest + (i << 3)) ^ seed);
    store<u64>(at, (h & 0xffffffff00000000) | <u64>i);
    at += (h & 0xffffffff) < threshold ? 8 : 0;
  }
  return <u32>((at - chosen) >> 3);
}

/**
 * Samples three rows in one pass over the digests: the first step of `mix` is linear, mix(x ^ seed) = finish(fold(x) ^ fold(seed)), so x is folded once for
 * all. Only the first row is sampled without a branch: rates fall from row to row, and branches on rarely sampled packets are predicted right.
 */
function sampleThree(lds: Lds, batch: Batch, r: u32, from: u32, to: u32, weights: usize): void {
  const row = lds.table + r * ROW;
  const seed0 = fold(load<u64>(row, 8));
  const seed1 = fold(load<u64>(row, ROW + 8));
  const seed2 = fold(load<u64>(row, 2 * ROW + 8));
  const threshold0 = load<u64>(row, 16);
  const threshold1 = load<u64>(row, ROW + 16);
  const threshold2 = load<u64>(row, 2 * ROW + 16);
  const digests = batch.digest;
  const listBytes = (to - from) << 3;
  const list0: usize = lds.list;
  const list1 = list0 + listBytes;
  const list2 = list1 + listBytes;
  let at0 = list0;
  let at1 = list1;
  let at2 = list2;
  for (let i = from; i < to; i++) {
    const folded = fold(load<u64>(digests + (i << 3)));
    const h0 = finish(folded ^ seed0);
    store<u64>(at0, (h0 & 0xffffffff00000000) | <u64>i);
    at0 += (h0 & 0xffffffff) < threshold0 ? 8 : 0;
    const h1 = finish(folded ^ seed1);
    if ((h1 & 0xffffffff) < threshold1) {
      store<u64>(at1, (h1 & 0xffffffff00000000) | <u64>i);
      at1 += 8;
    }
    const h2 = finish(folded ^ seed2);
    if ((h2 & 0xffffffff) < threshold2) {
      store<u64>(at2, (h2 & 0xffffffff00000000) | <u64>i);
      at2 += 8;
    }
  }
  const cells = lds.cells + r * lds.columns * 16;
  const rowBytes = lds.columns * 16;
  updateRow(lds, batch, row, cells, list0, <u32>((at0 - list0) >> 3), weights, r);
  updateRow(lds, batch, row + ROW, cells + rowBytes, list1, <u32>((at1 - list1) >> 3), weights, r + 1);
  updateRow(lds, batch, row + 2 * ROW, cells + 2 * rowBytes, list2, <u32>((at2 - list2) >> 3), weights, r + 2);
}

/** Not inlined, because its loop would be copied three times. */
function updateRow(lds: Lds, batch: Batch, row: usize, cells: usize, list: usize, n: u32, weights: usize, r: u32): void {
  updateListed(lds, batch, row, cells, list, n, weights, r);
}

// @ts-ignore: decorator
@inline
function sampleListed(digest: u32, row: usize, list: usize, n: u32, chosen: usize): u32 {
  const seed = load<u64>(row, 8);
  const threshold = load<u64>(row, 16);
  let at = chosen;
  for (let j: u32 = 0; j < n; j++) {
    const i = load<u32>(list + (j << 2));
    const h = mix(load<u64>(digest + (i << 3)) ^ seed);
    store<u64>(at, (h & 0xffffffff00000000) | <u64>i);
    at += (h & 0xffffffff) < threshold ? 8 : 0;
  }
  return <u32>((at - chosen) >> 3);
}

/** Updates one row of the plain sketch: every packet, k = 1, no weights. */
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
    // Count and digest in one word: the count is the low half and does not carry before 2^32 packets.
    const word = load<u64>(c, 8);
    store<u64>(c, (word + 1) ^ (<u64>load<u32>(digest + o) << 32), 8);
  }
  store<u64>(row, load<u64>(row, 24) + (to - from), 24);
}

/** Updates two such rows in one pass: a packet's hash is folded and its time loaded once for both. More rows at once would not stay in the cache. */
function updateTwo(lds: Lds, batch: Batch, row: usize, cells: usize, columns: u64, from: u32, to: u32): void {
  const seed0 = fold(load<u64>(row));
  const seed1 = fold(load<u64>(row, ROW));
  const below = cells + (<usize>columns << 4);
  const start = lds.start;
  const time = batch.time;
  const hash = batch.flowHash;
  const digest = batch.digest;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const folded = fold(load<u64>(hash + o));
    const value = <i64>floor<f64>(load<f64>(time + o) - start);
    const mark = <u64>load<u32>(digest + o) << 32;
    const c0 = cells + (<usize>(((finish(folded ^ seed0) >> 32) * columns) >> 32) << 4);
    const c1 = below + (<usize>(((finish(folded ^ seed1) >> 32) * columns) >> 32) << 4);
    store<i64>(c0, load<i64>(c0) + value);
    store<u64>(c0, (load<u64>(c0, 8) + 1) ^ mark, 8);
    store<i64>(c1, load<i64>(c1) + value);
    store<u64>(c1, (load<u64>(c1, 8) + 1) ^ mark, 8);
  }
  const n = <u64>(to - from);
  store<u64>(row, load<u64>(row, 24) + n, 24);
  store<u64>(row, load<u64>(row, ROW + 24) + n, ROW + 24);
}

/** Updates one row that takes every packet, with k cells per flow and no weights: no list is needed. */
// @ts-ignore: decorator
@inline
function updateWhole(lds: Lds, batch: Batch, row: usize, cells: usize, from: u32, to: u32): void {
  const flowSeed = load<u64>(row);
  const packetSeed = load<u64>(row, 8);
  const columns = <u64>lds.columns;
  const k = <u64>lds.k;
  const start = lds.start;
  const time = batch.time;
  const hash = batch.flowHash;
  const digests = batch.digest;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const digest = load<u64>(digests + o);
    const within = mix(digest ^ packetSeed) >> 32;
    const h = mix(load<u64>(hash + o) ^ flowSeed);
    let column = (((h >> 32) * columns) >> 32) + ((within * k) >> 32);
    column = select(column - columns, column, column >= columns);
    const c = cells + (<usize>column << 4);
    store<i64>(c, load<i64>(c) + <i64>floor<f64>(load<f64>(time + o) - start));
    store<u64>(c, (load<u64>(c, 8) + 1) ^ (digest << 32), 8);
  }
  store<u64>(row, load<u64>(row, 24) + (to - from), 24);
}

// @ts-ignore: decorator
@inline
function updateListed(
  lds: Lds, batch: Batch, row: usize, cells: usize, list: usize, n: u32, weights: usize, r: u32,
): void {
  const flowSeed = load<u64>(row);
  const columns = <u64>lds.columns;
  const k = <u64>lds.k;
  const values = lds.delays != 0 ? batch.delay : batch.time;
  const start = lds.delays != 0 ? 0.0 : lds.start;
  const bytes: u32 = lds.bytes != 0 ? lds.bytes + r * lds.columns * 8 : 0;
  const hash = batch.flowHash;
  const digest = batch.digest;
  const lengths = batch.wireLength;
  let total: u64 = weights != 0 ? 0 : n;
  const end = list + (n << 3);
  for (let at = list; at < end; at += 8) {
    const entry = load<u64>(at);
    const i = <u32>entry;
    const o = i << 3;
    const h = mix(load<u64>(hash + o) ^ flowSeed);
    let column = (((h >> 32) * columns) >> 32) + (((entry >> 32) * k) >> 32);
    column = select(column - columns, column, column >= columns);
    const c = cells + (<usize>column << 4);
    const value = <i64>floor<f64>(load<f64>(values + o) - start);
    const mark = <u64>load<u32>(digest + o) << 32;
    if (weights == 0) {
      store<i64>(c, load<i64>(c) + value);
      store<u64>(c, (load<u64>(c, 8) + 1) ^ mark, 8);
    } else {
      const weight = <u64>load<u32>(weights + (i << 2));
      store<i64>(c, load<i64>(c) + value * <i64>weight);
      store<u64>(c, (load<u64>(c, 8) + weight) ^ mark, 8);
      total += weight;
    }
    if (bytes != 0) {
      const q: usize = bytes + (<u32>column << 3);
      store<u64>(q, load<u64>(q) + load<u32>(lengths + (i << 2)));
    }
  }
  store<u64>(row, load<u64>(row, 24) + total, 24);
}
