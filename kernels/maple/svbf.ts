// SVBF (MAPLE, section 3.3.3): one Bloom filter for all groups. A packet of group i sets the bits (h_j(s) + i) mod m. A look-up reads a burst of bits from each
// of the k positions h_j(s) on and ANDs them: the bits left are the groups that the packet may belong to.
//
// m is a multiple of 8; the first bits are repeated behind the end, so that a burst never wraps. A look-up returns two u32: {group | kind << 16, lowest
// candidate | highest candidate << 16}; kind 0 No-Match, 1 Match, 2 Multi-Match.

import { Asked } from "./asked";
import { rehash } from "../decode/digest";

export const KIND_MATCH: u32 = 1 << 16;
export const KIND_MULTI: u32 = 2 << 16;
/** Bits of a burst that an unaligned 64-bit load contains for any start bit. */
const BURST: u32 = 56;

/** Inserts `n` keys (u64) with their groups (u16) into the bits at `bits`. */
export function svbfInsert(bits: usize, m: u32, hashes: u32, seed: u64, keys: usize, codes: usize, n: u32): void {
  for (let i: u32 = 0; i < n; i++) {
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    const code: u32 = load<u16>(codes + (i << 1));
    let x = <u32>h;
    let y = <u32>(h >> 32) | 1;
    for (let j: u32 = 0; j < hashes; j++) {
      let at = <u32>((<u64>x * <u64>m) >> 32) + code;
      at = select<u32>(at - m, at, at >= m);
      const byte = bits + (at >> 3);
      store<u8>(byte, load<u8>(byte) | <u8>((<u32>1) << (at & 7)));
      // Enhanced double hashing: the growing step keeps two packets that share one pair of positions from sharing all.
      x += y;
      y += j;
    }
  }
}

/** Repeats the beginning behind the end: `tail` bytes. Called after the last insert. */
export function svbfClose(bits: usize, m: u32, tail: u32): void {
  // Copy byte by byte, in order: a filter shorter than a burst is repeated more than once.
  const end = bits + (m >> 3);
  for (let i: u32 = 0; i < tail; i++) store<u8>(end + i, load<u8>(bits + i));
}

// @ts-ignore: decorator
@inline
function largest(candidates: u64, from: u32, counts: usize, best: u32, bestCount: u32): u32 {
  let c = candidates;
  let at = best;
  let maximum = bestCount;
  while (c != 0) {
    const group = from + <u32>ctz<u64>(c);
    c &= c - 1;
    const count = load<u32>(counts + (group << 2)) + 1;
    if (count > maximum) {
      maximum = count;
      at = group;
    }
  }
  return at;
}

/** Answers the queried keys. */
export function svbfLookup(bits: usize, m: u32, hashes: u32, seed: u64, groups: u32, asked: usize): void {
  const a = changetype<Asked>(asked);
  const keys: usize = a.keys;
  const n = a.count;
  const out: usize = a.out;
  const counts: usize = a.counts;
  if (groups <= BURST) {
    const mask: u64 = (<u64>1 << groups) - 1;
    for (let i: u32 = 0; i < n; i++) {
      const h = rehash(load<u64>(keys + (i << 3)), seed);
      let x = <u32>h;
      let y = <u32>(h >> 32) | 1;
      let all = mask;
      for (let j: u32 = 0; j < hashes; j++) {
        const at = <u32>((<u64>x * <u64>m) >> 32);
        all &= load<u64>(bits + (at >> 3)) >> <u64>(at & 7);
        x += y;
        y += j;
      }
      answer(out + (i << 3), all, counts);
    }
    return;
  }
  for (let i: u32 = 0; i < n; i++) {
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    let found: u32 = 0;
    let best: u32 = 0;
    let bestCount: u32 = 0;
    let lowest: u32 = 0;
    let highest: u32 = 0;
    for (let from: u32 = 0; from < groups; from += BURST) {
      const width = min<u32>(BURST, groups - from);
      let all: u64 = (<u64>1 << width) - 1;
      let x = <u32>h;
      let y = <u32>(h >> 32) | 1;
      for (let j: u32 = 0; j < hashes; j++) {
        // Beyond m the repeated bits follow.
        const at = <u32>((<u64>x * <u64>m) >> 32) + from;
        all &= load<u64>(bits + (at >> 3)) >> <u64>(at & 7);
        x += y;
        y += j;
      }
      if (all == 0) continue;
      if (found == 0) lowest = from + <u32>ctz<u64>(all);
      highest = from + 63 - <u32>clz<u64>(all);
      found += <u32>popcnt<u64>(all);
      best = largest(all, from, counts, best, bestCount);
      bestCount = load<u32>(counts + (best << 2)) + 1;
    }
    const q = out + (i << 3);
    store<u32>(q, found == 0 ? 0 : best | (found == 1 ? KIND_MATCH : KIND_MULTI));
    store<u32>(q, lowest | (highest << 16), 4);
  }
}

/** Writes the answer for up to 64 candidates. */
// @ts-ignore: decorator
@inline
function answer(q: usize, all: u64, counts: usize): void {
  const first = <u32>ctz<u64>(all);
  if (popcnt<u64>(all) == 1) {
    store<u32>(q, first | KIND_MATCH);
    store<u32>(q, first | (first << 16), 4);
  } else if (all == 0) store<u64>(q, 0);
  else {
    store<u32>(q, largest(all, 0, counts, 0, 0) | KIND_MULTI);
    store<u32>(q, first | ((63 - <u32>clz<u64>(all)) << 16), 4);
  }
}

/** Returns the j-th position of a key, for filters that are read in parts. */
export function svbfPosition(key: u64, seed: u64, m: u32, j: u32): u32 {
  const h = rehash(key, seed);
  let x = <u32>h;
  let y = <u32>(h >> 32) | 1;
  for (let i: u32 = 0; i < j; i++) {
    x += y;
    y += i;
  }
  return <u32>((<u64>x * <u64>m) >> 32);
}
