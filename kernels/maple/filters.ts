// The structures that MAPLE is compared with (section 3.3): a partitioned Bloom filter per group (PBF), combinatorial Bloom filters (COMB) and a hash table
// without collision handling. Answers have the form described in svbf.ts.

import { Asked } from "./asked";
import { P2, rehash } from "../decode/digest";
import { KIND_MATCH, KIND_MULTI } from "./svbf";

// --- PBF. `parts` holds {first bit u32, bits u32, capacity u32, used u32} per group. ---

/** Returns the number of packets left out because their group's filter was full. */
export function pbfInsert(bits: usize, parts: usize, hashes: u32, seed: u64, keys: usize, codes: usize, n: u32): u32 {
  let left: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const part = parts + (<u32>load<u16>(codes + (i << 1)) << 4);
    const used = load<u32>(part, 12);
    if (used >= load<u32>(part, 8)) {
      left++;
      continue;
    }
    store<u32>(part, used + 1, 12);
    const start = load<u32>(part);
    const m: u64 = load<u32>(part, 4);
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    let x = <u32>h;
    let y = <u32>(h >> 32) | 1;
    for (let j: u32 = 0; j < hashes; j++) {
      const at = start + <u32>((<u64>x * m) >> 32);
      const byte = bits + (at >> 3);
      store<u8>(byte, load<u8>(byte) | <u8>((<u32>1) << (at & 7)));
      x += y;
      y += j;
    }
  }
  return left;
}

// Candidate groups of a packet, in globals: they are accessed rarely compared with the bits tested.
let found: u32 = 0;
let best: u32 = 0;
let bestCount: u32 = 0;
let lowest: u32 = 0;
let highest: u32 = 0;

/** Of several candidate groups, the one with most packets is the answer. */
function addCandidate(group: u32, counts: usize): void {
  const count = load<u32>(counts + (group << 2)) + 1;
  if (found++ == 0) {
    lowest = group;
    bestCount = 0;
  }
  highest = group;
  if (count > bestCount) {
    bestCount = count;
    best = group;
  }
}

function storeCandidates(out: usize): void {
  store<u32>(out, found == 0 ? 0 : best | (found == 1 ? KIND_MATCH : KIND_MULTI));
  store<u32>(out, found == 0 ? 0 : lowest | (highest << 16), 4);
}

export function pbfLookup(bits: usize, parts: usize, hashes: u32, seed: u64, groups: u32, asked: usize): void {
  const a = changetype<Asked>(asked);
  const keys: usize = a.keys;
  const n = a.count;
  const out: usize = a.out;
  const counts: usize = a.counts;
  for (let i: u32 = 0; i < n; i++) {
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    found = 0;
    for (let group: u32 = 0; group < groups; group++) {
      const part = parts + (group << 4);
      if (load<u32>(part, 12) == 0) continue;
      const start = load<u32>(part);
      const m: u64 = load<u32>(part, 4);
      let x = <u32>h;
      let y = <u32>(h >> 32) | 1;
      let inside = true;
      for (let j: u32 = 0; j < hashes && inside; j++) {
        const at = start + <u32>((<u64>x * m) >> 32);
        inside = ((load<u8>(bits + (at >> 3)) >> <u8>(at & 7)) & 1) != 0;
        x += y;
        y += j;
      }
      if (!inside) continue;
      addCandidate(group, counts);
    }
    storeCandidates(out + (i << 3));
  }
}

// --- COMB(f, theta): `words` holds the f-bit code of each group (u64, theta bits set). Each code bit has `hashes` hash functions. ---

// @ts-ignore: decorator
@inline
function bitHash(h: u64, bit: u32): u64 {
  const z = (h ^ (<u64>(bit + 1) * P2)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 32);
}

export function combInsert(bits: usize, m: u32, hashes: u32, seed: u64, words: usize, keys: usize, codes: usize, n: u32): void {
  for (let i: u32 = 0; i < n; i++) {
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    let word = load<u64>(words + (<u32>load<u16>(codes + (i << 1)) << 3));
    while (word != 0) {
      const g = bitHash(h, <u32>ctz<u64>(word));
      word &= word - 1;
      let x = <u32>g;
      let y = <u32>(g >> 32) | 1;
      for (let j: u32 = 0; j < hashes; j++) {
        const at = <u32>((<u64>x * <u64>m) >> 32);
        const byte = bits + (at >> 3);
        store<u8>(byte, load<u8>(byte) | <u8>((<u32>1) << (at & 7)));
        x += y;
        y += j;
      }
    }
  }
}

/** A group is a candidate if all bits of its code were found. */
export function combLookup(bits: usize, m: u32, hashes: u32, seed: u64, f: u32, words: usize, groups: u32, asked: usize): void {
  const a = changetype<Asked>(asked);
  const keys: usize = a.keys;
  const n = a.count;
  const out: usize = a.out;
  const counts: usize = a.counts;
  for (let i: u32 = 0; i < n; i++) {
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    let code: u64 = 0;
    for (let b: u32 = 0; b < f; b++) {
      const g = bitHash(h, b);
      let x = <u32>g;
      let y = <u32>(g >> 32) | 1;
      let all: u32 = 1;
      for (let j: u32 = 0; j < hashes; j++) {
        const at = <u32>((<u64>x * <u64>m) >> 32);
        all &= <u32>load<u8>(bits + (at >> 3)) >> (at & 7);
        x += y;
        y += j;
      }
      code |= <u64>(all & 1) << <u64>b;
    }
    found = 0;
    for (let group: u32 = 0; group < groups; group++) {
      const word = load<u64>(words + (group << 3));
      if ((word & code) != word) continue;
      addCandidate(group, counts);
    }
    storeCandidates(out + (i << 3));
  }
}

// --- Hash table: `slots` entries of `width` bits, 0 for empty, else group + 1; a later packet overwrites an earlier one. ---

export function tableInsert(table: usize, slots: u32, width: u32, seed: u64, keys: usize, codes: usize, n: u32): void {
  const mask: u32 = (1 << width) - 1;
  for (let i: u32 = 0; i < n; i++) {
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    const bit = <u64>((h >> 32) * <u64>slots >> 32) * width;
    const at = table + <usize>(bit >> 3);
    const shift = <u32>bit & 7;
    const value = <u32>load<u16>(codes + (i << 1)) + 1;
    store<u32>(at, (load<u32>(at) & ~(mask << shift)) | (value << shift));
  }
}

export function tableLookup(table: usize, slots: u32, width: u32, seed: u64, keys: usize, n: u32, out: usize): void {
  const mask: u32 = (1 << width) - 1;
  for (let i: u32 = 0; i < n; i++) {
    const h = rehash(load<u64>(keys + (i << 3)), seed);
    const bit = <u64>((h >> 32) * <u64>slots >> 32) * width;
    const value = (load<u32>(table + <usize>(bit >> 3)) >> (<u32>bit & 7)) & mask;
    const q = out + (i << 3);
    store<u32>(q, value == 0 ? 0 : (value - 1) | KIND_MATCH);
    store<u32>(q, value == 0 ? 0 : (value - 1) | ((value - 1) << 16), 4);
  }
}
