// Update loop of the Lossy Difference Aggregator (src/estimators/lda/): banks x rows of {time sum, packet count, xor of digests}. One 64-bit hash of the digest
// gives the bank (upper half, against thresholds) and the row (lower half, by multiplication): the two halves of an avalanched hash are independent. A packet
// is sampled if the upper half is below `limit`. The last bank has the lowest range, so that sampling by leading zero bits is the special case of powers of
// 1/2.
//
//   cell: time sum i64, modulo 2^64 | packets u32 | xor of the digests' lower halves u32

import { Batch } from "../decode/batch";
import { rehash } from "../decode/digest";

/** Up to this many banks inlined comparisons find the bank; beyond it a loop does. */
const FAST_BANKS: u32 = 4;

@unmanaged
class Lda {
  banks: u32;
  rows: u32;
  cells: u32;
  thresholds: u32; // u64 per bank: bank j is sampled from hashes in [thresholds[j], thresholds[j - 1]), bank 0 up to limit
  seed: u64;
  limit: u64; //      0 .. 2^32
}

export function ldaNew(banks: u32, rows: u32, seed: u64): usize {
  const p = heap.alloc(offsetof<Lda>());
  const lda = changetype<Lda>(p);
  lda.banks = banks;
  lda.rows = rows;
  lda.seed = seed;
  lda.limit = 0;
  lda.cells = <u32>heap.alloc((banks * rows) << 4);
  const slots = max<u32>(banks, FAST_BANKS);
  lda.thresholds = <u32>heap.alloc(slots << 3);
  memory.fill(lda.thresholds, 0, slots << 3);
  ldaClear(p);
  return p;
}

export function ldaFree(p: usize): void {
  const lda = changetype<Lda>(p);
  heap.free(lda.cells);
  heap.free(lda.thresholds);
  heap.free(p);
}

export function ldaClear(p: usize): void {
  const lda = changetype<Lda>(p);
  memory.fill(lda.cells, 0, (lda.banks * lda.rows) << 4);
}

export function ldaCells(p: usize): usize {
  return changetype<Lda>(p).cells;
}

export function ldaSetThreshold(p: usize, bank: u32, from: u64): void {
  store<u64>(changetype<Lda>(p).thresholds + (bank << 3), from);
}

export function ldaSetLimit(p: usize, limit: u64): void {
  changetype<Lda>(p).limit = limit;
}

/** Adds rows [from, to); times count from `start`. */
export function ldaUpdate(p: usize, b: usize, from: u32, to: u32, start: f64): void {
  const lda = changetype<Lda>(p);
  const batch = changetype<Batch>(b);
  const time = batch.time;
  const digests = batch.digest;
  const cells = lda.cells;
  const seed = lda.seed;
  const limit = lda.limit;
  const rows = <u64>lda.rows;
  if (lda.banks > FAST_BANKS) {
    for (let i = from; i < to; i++) {
      const digest = load<u64>(digests + (i << 3));
      const h = rehash(digest, seed);
      const g = h >> 32;
      if (g >= limit) continue;
      let bank: u32 = 0;
      while (g < load<u64>(lda.thresholds + (bank << 3))) bank++;
      add(cells, <u64>bank * rows + (((h & 0xffffffff) * rows) >> 32), digest, <i64>(load<f64>(time + (i << 3)) - start));
    }
    return;
  }
  // Unused banks have threshold 0, so no value is below it.
  const t0 = load<u64>(lda.thresholds);
  const t1 = load<u64>(lda.thresholds, 8);
  const t2 = load<u64>(lda.thresholds, 16);
  const bank1 = cells + (lda.rows << 4);
  const bank2 = bank1 + (lda.rows << 4);
  const bank3 = bank2 + (lda.rows << 4);
  for (let i = from; i < to; i++) {
    const digest = load<u64>(digests + (i << 3));
    const h = rehash(digest, seed);
    const g = h >> 32;
    if (g >= limit) continue;
    const bank = select<u32>(bank3, select<u32>(bank2, select<u32>(bank1, cells, g < t0), g < t1), g < t2);
    add(bank, ((h & 0xffffffff) * rows) >> 32, digest, <i64>(load<f64>(time + (i << 3)) - start));
  }
}

// @ts-ignore: decorator
@inline
function add(cells: usize, index: u64, digest: u64, time: i64): void {
  const cell = cells + (<usize>index << 4);
  store<i64>(cell, load<i64>(cell) + time);
  // Count and digest in one word: the count stays below 2^32, so the addition never carries into the digest.
  store<u64>(cell, (load<u64>(cell, 8) + 1) ^ (digest << 32), 8);
}
