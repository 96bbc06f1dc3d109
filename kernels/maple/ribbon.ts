// Static retrieval: stores r bits for each of n known keys in about 1.03 r n bits, by a ribbon of width 64 (Dillinger and Walzer, "Ribbon filter", 2021). A key
// stands for a linear equation over GF(2): 64 coefficients from a start slot on. Solving the equations gives r bits per slot; the XOR of the slots selected by
// a key's coefficients is its stored value. An unknown key gets r random bits.
//
// Keys are distributed over blocks of about 2,000, each with its own seed: if its equations contradict each other, the next seed is tried. So blocks can be
// nearly as tight as equations (n + a few slots), and building never starts over as a whole.
//
//   H     = rehash(key, store seed)             upper half chooses the block, lower bits mask what is stored
//   h     = rehash(H, block seed)               upper half chooses the start slot, coefficients follow from h
//   slots: bit j of slot s is bit (s mod 64) of word (s div 64) r + j: 64 slots are interleaved, so a look-up reads 2 r consecutive words
//   index: one u32 per block plus one: first slot << 6 | block seed

import { Asked } from "./asked";
import { P3, rehash } from "../decode/digest";
import { KIND_MATCH } from "./svbf";

const WIDTH: u32 = 64;
const SEED_BITS: u32 = 6;
const SEEDS: u32 = 1 << SEED_BITS;
/** Maximum keys of a block, because its tables are allocated once. */
const MAX_BLOCK: u32 = 8192;

@unmanaged
class Ribbon {
  n: u32; //         keys stored, repeated ones left out
  r: u32;
  blocks: u32;
  index: u32; //     u32 per block and one more
  words: u32; //     u64, r per 64 slots
  wordCount: u32;
  slots: u32;
  repeats: u32; //   keys that were there already: the first one counts
  tries: u32; //     block seeds tried in all
  widened: u32; //   blocks that needed more slots than planned
}

/** Returns the coefficients of a key. Bit 0 is always set, so that the start slot is the first one in use. */
// @ts-ignore: decorator
@inline
function coefficients(h: u64): u64 {
  const z = (h ^ (h >> 31)) * P3;
  return (z ^ (z >> 29)) | 1;
}

// @ts-ignore: decorator
@inline
function blockSeed(seed: u32): u64 {
  return (<u64>seed + 1) * 0x94d049bb133111eb;
}

// @ts-ignore: decorator
@inline
function startOf(h: u64, slots: u32): u32 {
  return <u32>(((h >> 32) * <u64>(slots - WIDTH + 1)) >> 32);
}

// @ts-ignore: decorator
@inline
function blockOf(hash: u64, blocks: u32): u32 {
  return <u32>(((hash >> 32) * <u64>blocks) >> 32);
}

export function ribbonFree(p: usize): void {
  const ribbon = changetype<Ribbon>(p);
  heap.free(ribbon.index);
  heap.free(ribbon.words);
  heap.free(p);
}

/**
 * Builds a store of n keys (u64) with r-bit codes (u16), r up to 16. A block of n keys gets n + extra slots. Returns 0 if a block is too large or cannot be
 * solved (which distinct keys never cause).
 */
export function ribbonBuild(keys: usize, codes: usize, n: u32, seed: u64, r: u32, blockKeys: u32, extra: u32): usize {
  const p = build(keys, codes, n, seed, r, blockKeys, extra);
  // Equal keys fall into the same block; if they are too many for it, remove the duplicates first.
  return p != 0 || n <= MAX_BLOCK ? p : buildDistinct(keys, codes, n, seed, r, blockKeys, extra);
}

function buildDistinct(keys: usize, codes: usize, n: u32, seed: u64, r: u32, blockKeys: u32, extra: u32): usize {
  const ownKeys = heap.alloc(n << 3);
  const ownCodes = heap.alloc(n << 1);
  memory.copy(ownKeys, keys, n << 3);
  memory.copy(ownCodes, codes, n << 1);
  let size: u32 = 64;
  while (size < n << 1) size <<= 1;
  const table = heap.alloc(size << 2);
  const kept = dropRepeats(ownKeys, ownCodes, n, table);
  heap.free(table);
  const p = kept < n ? build(ownKeys, ownCodes, kept, seed, r, blockKeys, extra) : 0;
  heap.free(ownKeys);
  heap.free(ownCodes);
  if (p != 0) changetype<Ribbon>(p).repeats += n - kept;
  return p;
}

function build(keys: usize, codes: usize, n: u32, seed: u64, r: u32, blockKeys: u32, extra: u32): usize {
  const p = heap.alloc(offsetof<Ribbon>());
  memory.fill(p, 0, offsetof<Ribbon>());
  const ribbon = changetype<Ribbon>(p);
  const blocks = max<u32>(1, (n + (blockKeys >> 1)) / blockKeys);
  ribbon.r = r;
  ribbon.blocks = blocks;
  ribbon.index = <u32>heap.alloc((blocks + 1) << 2);

  // Sort keys by block, stably, so that the first of several equal keys is kept.
  const ends = heap.alloc((blocks + 1) << 2);
  memory.fill(ends, 0, (blocks + 1) << 2);
  const hashes = heap.alloc(max<u32>(1, n) << 3);
  for (let i: u32 = 0; i < n; i++) {
    const hash = rehash(load<u64>(keys + (i << 3)), seed);
    store<u64>(hashes + (i << 3), hash);
    const at = ends + ((blockOf(hash, blocks) + 1) << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  let largest: u32 = 0;
  for (let b: u32 = 0; b < blocks; b++) {
    const at = ends + ((b + 1) << 2);
    largest = max<u32>(largest, load<u32>(at));
    store<u32>(at, load<u32>(at) + load<u32>(ends + (b << 2)));
  }
  const grouped = heap.alloc(max<u32>(1, n) << 3);
  const groupedCodes = heap.alloc(max<u32>(1, n) << 1);
  for (let i: u32 = 0; i < n; i++) {
    const hash = load<u64>(hashes + (i << 3));
    const at = ends + (blockOf(hash, blocks) << 2);
    const to = load<u32>(at);
    store<u32>(at, to + 1);
    store<u64>(grouped + (to << 3), hash);
    store<u16>(groupedCodes + (to << 1), load<u16>(codes + (i << 1)));
  }
  heap.free(hashes);

  // There are at most as many slots as keys plus the widening of all blocks.
  const room: u32 = ((n + blocks * (extra + WIDTH)) >> 6) + 3;
  ribbon.words = <u32>heap.alloc((room * r) << 3);
  memory.fill(ribbon.words, 0, (room * r) << 3);
  const maximum = MAX_BLOCK + extra + 4 * WIDTH;
  const scratch = heap.alloc(maximum * (8 + 8 + 8 + 4 + 4 + 4) + 4096);
  let ok = largest <= MAX_BLOCK;
  let first: u32 = 0;
  let slotAt: u32 = 0;
  for (let b: u32 = 0; b < blocks && ok; b++) {
    const end = load<u32>(ends + (b << 2));
    const solved = solveBlock(ribbon, b, grouped + (first << 3), groupedCodes + (first << 1), end - first, extra, slotAt, scratch);
    ok = solved != 0 && slotAt + solved <= (room - 2) << 6;
    slotAt += solved;
    first = end;
  }
  store<u32>(ribbon.index + (blocks << 2), slotAt << SEED_BITS);
  ribbon.slots = slotAt;
  // The last window may reach into one group of words beyond the slots; it is allocated and zero.
  ribbon.wordCount = ((slotAt + 63) >> 6) * r;
  heap.free(ends);
  heap.free(grouped);
  heap.free(groupedCodes);
  heap.free(scratch);
  if (ok) return p;
  ribbonFree(p);
  return 0;
}

/** Moves repeated keys out; returns how many are left. `table` has room for a power of two of u32, at least 64 and at least 2 n. */
function dropRepeats(hashes: usize, codes: usize, n: u32, table: usize): u32 {
  let size: u32 = 64;
  while (size < n << 1) size <<= 1;
  memory.fill(table, 0, size << 2);
  const mask = size - 1;
  let kept: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const hash = load<u64>(hashes + (i << 3));
    // Use the middle bits: the upper ones are alike within a block.
    let j = <u32>(hash >> 8) & mask;
    let repeated = false;
    while (true) {
      const other = load<u32>(table + (j << 2));
      if (other == 0) break;
      if (load<u64>(hashes + ((other - 1) << 3)) == hash) {
        repeated = true;
        break;
      }
      j = (j + 1) & mask;
    }
    if (repeated) continue;
    store<u64>(hashes + (kept << 3), hash);
    store<u16>(codes + (kept << 1), load<u16>(codes + (i << 1)));
    kept++;
    store<u32>(table + (j << 2), kept);
  }
  return kept;
}

/** Solves one block from global slot `slotAt` on. Returns its number of slots, or 0 if it cannot be solved. */
function solveBlock(
  ribbon: Ribbon, block: u32, hashes: usize, codes: usize, all: u32, extra: u32, slotAt: u32, scratch: usize,
): u32 {
  const maximum = MAX_BLOCK + extra + 4 * WIDTH;
  const rows = scratch; //                     u64 coefficients by slot
  const sorted = rows + (maximum << 3); //        u64 coefficients by start
  const results = sorted + (maximum << 3); //     u32 by slot
  const values = results + (maximum << 2); //     u32 by start: start << 16 | value
  const heads = values + (maximum << 3); //       u32 counts by start
  const n = dropRepeats(hashes, codes, all, rows);
  ribbon.n += n;
  ribbon.repeats += all - n;
  let slots = max<u32>(WIDTH, n + extra);
  const mask: u32 = (1 << ribbon.r) - 1;
  for (let widening: u32 = 0; widening < 8; widening++) {
    for (let seed: u32 = 0; seed < SEEDS; seed++) {
      ribbon.tries++;
      const salt = blockSeed(seed);
      // Sorted by start slot, solving touches only neighbouring slots.
      memory.fill(heads, 0, (slots + 1) << 2);
      for (let i: u32 = 0; i < n; i++) {
        const at = heads + (startOf(rehash(load<u64>(hashes + (i << 3)), salt), slots) << 2);
        store<u32>(at, load<u32>(at) + 1);
      }
      let sum: u32 = 0;
      for (let s: u32 = 0; s < slots; s++) {
        const at = heads + (s << 2);
        const count = load<u32>(at);
        store<u32>(at, sum);
        sum += count;
      }
      for (let i: u32 = 0; i < n; i++) {
        const hash = load<u64>(hashes + (i << 3));
        const h = rehash(hash, salt);
        const start = startOf(h, slots);
        const at = heads + (start << 2);
        const to = load<u32>(at);
        store<u32>(at, to + 1);
        store<u64>(sorted + (to << 3), coefficients(h));
        store<u32>(values + (to << 3), start);
        store<u32>(values + (to << 3), (<u32>load<u16>(codes + (i << 1)) ^ <u32>hash) & mask, 4);
      }
      memory.fill(rows, 0, slots << 3);
      memory.fill(results, 0, slots << 2);
      if (!eliminate(rows, results, sorted, values, n)) continue;
      store<u32>(ribbon.index + (block << 2), (slotAt << SEED_BITS) | seed);
      substitute(ribbon, rows, results, slots, slotAt);
      return slots;
    }
    slots += 8;
    ribbon.widened++;
  }
  return 0;
}

/** Brings the equations into echelon form; returns false if two of them contradict each other. */
function eliminate(rows: usize, results: usize, sorted: usize, values: usize, n: u32): bool {
  for (let i: u32 = 0; i < n; i++) {
    let row = load<u64>(sorted + (i << 3));
    let slot = load<u32>(values + (i << 3));
    let result = load<u32>(values + (i << 3), 4);
    while (true) {
      const pivot = load<u64>(rows + (slot << 3));
      if (pivot == 0) {
        store<u64>(rows + (slot << 3), row);
        store<u32>(results + (slot << 2), result);
        break;
      }
      row ^= pivot;
      result ^= load<u32>(results + (slot << 2));
      if (row == 0) {
        if (result != 0) return false;
        break;
      }
      const zeros = ctz<u64>(row);
      row >>= zeros;
      slot += <u32>zeros;
    }
  }
  return true;
}

/** Solves from the last slot to the first: `state` holds, per bit, the 64 slots from the current one on. */
function substitute(ribbon: Ribbon, rows: usize, results: usize, slots: u32, slotAt: u32): void {
  const r = ribbon.r;
  const state = memory.data(16 * 8);
  memory.fill(state, 0, r << 3);
  for (let i = slots; i-- > 0; ) {
    const row = load<u64>(rows + (i << 3));
    const result = load<u32>(results + (i << 2));
    for (let j: u32 = 0; j < r; j++) {
      const bits = load<u64>(state + (j << 3)) << 1;
      const bit = (popcnt<u64>(bits & row) ^ <u64>(result >> j)) & 1;
      store<u64>(state + (j << 3), bits | bit);
    }
    const slot = slotAt + i;
    const shift = <u64>(slot & 63);
    if (shift != 0 && i != 0) continue;
    const at = ribbon.words + (((slot >> 6) * r) << 3);
    for (let j: u32 = 0; j < r; j++) {
      const word = at + (j << 3);
      store<u64>(word, load<u64>(word) | (load<u64>(state + (j << 3)) << shift));
    }
  }
}

/** Returns the r bits stored for a key, from a window of two groups of words. */
// @ts-ignore: decorator
@inline
function evaluate(words: usize, r: u32, shift: u64, row: u64): u32 {
  let value: u32 = 0;
  for (let j: u32 = 0; j < r; j++) {
    const low = load<u64>(words + (j << 3)) >> shift;
    // Shift in two steps: a shift by 64 would be a shift by 0.
    const high = (load<u64>(words + ((j + r) << 3)) << 1) << (63 - shift);
    value |= <u32>(popcnt<u64>((low | high) & row) & 1) << j;
  }
  return value;
}

/** Answers the queried keys from a whole store in memory; codes from `groups` on are No-Match. One group of words beyond the end must be readable. */
export function ribbonLookup(index: usize, words: usize, blocks: u32, seed: u64, r: u32, groups: u32, asked: usize): void {
  const a = changetype<Asked>(asked);
  const keys: usize = a.keys;
  const n = a.count;
  const out: usize = a.out;
  const mask: u32 = (1 << r) - 1;
  for (let i: u32 = 0; i < n; i++) {
    const hash = rehash(load<u64>(keys + (i << 3)), seed);
    const entry = index + (blockOf(hash, blocks) << 2);
    const head = load<u32>(entry);
    const first = head >> SEED_BITS;
    const slots = (load<u32>(entry, 4) >> SEED_BITS) - first;
    const h = rehash(hash, blockSeed(head & (SEEDS - 1)));
    const slot = first + startOf(h, slots);
    const value = evaluate(words + (((slot >> 6) * r) << 3), r, <u64>(slot & 63), coefficients(h)) ^ (<u32>hash & mask);
    const q = out + (i << 3);
    const known = value < groups;
    store<u32>(q, known ? value | KIND_MATCH : 0);
    store<u32>(q, known ? value | (value << 16) : 0, 4);
  }
}

// For stores that are read in parts: the block, the slot, and the value of a window.
export function ribbonBlock(key: u64, seed: u64, blocks: u32): u32 {
  return blockOf(rehash(key, seed), blocks);
}
export function ribbonSlot(key: u64, seed: u64, head: u32, next: u32): u32 {
  const h = rehash(rehash(key, seed), blockSeed(head & (SEEDS - 1)));
  const first = head >> SEED_BITS;
  return first + startOf(h, (next >> SEED_BITS) - first);
}
export function ribbonValue(key: u64, seed: u64, head: u32, slot: u32, window: usize, r: u32): u32 {
  const hash = rehash(key, seed);
  const row = coefficients(rehash(hash, blockSeed(head & (SEEDS - 1))));
  return evaluate(window, r, <u64>(slot & 63), row) ^ (<u32>hash & ((1 << r) - 1));
}
