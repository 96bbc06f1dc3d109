// 64-bit mixing (xxh64's round and avalanche over 8-byte words) and the hash of flow keys.

import { Batch, META_IPV6 } from "./batch";

export const P1: u64 = 0x9e3779b185ebca87;
export const P2: u64 = 0xc2b2ae3d27d4eb4f;
export const P3: u64 = 0x165667b19e3779f9;
export const P4: u64 = 0x85ebca77c2b2ae63;
export const P5: u64 = 0x27d4eb2f165667c5;

// @ts-ignore: decorator
@inline
export function mixWord(h: u64, w: u64): u64 {
  return rotl<u64>(h ^ (rotl<u64>(w * P2, 31) * P1), 27) * P1 + P4;
}

// @ts-ignore: decorator
@inline
export function avalanche(h: u64): u64 {
  h = (h ^ (h >> 33)) * P2;
  h = (h ^ (h >> 29)) * P3;
  return h ^ (h >> 32);
}

/** Derives a second, independent hash from a digest: one multiply-xorshift round with another seed. */
// @ts-ignore: decorator
@inline
export function rehash(h: u64, seed: u64): u64 {
  return avalanche((h ^ seed) * P1 + P5);
}

/** rehash for the TypeScript side (tests, single look-ups). */
export function rehash64(h: u64, seed: u64): u64 {
  return rehash(h, seed);
}

/**
 * Masks the key columns in place and hashes them: afterwards the key columns hold the flow key. `mask` points to 7 u64: meta for IPv4, address pair for IPv4,
 * meta for IPv6, then the four address words for IPv6.
 */
export function keyFlows(b: usize, mask: usize, seed: u64): void {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  const meta4 = load<u64>(mask);
  const addr4 = load<u64>(mask, 8);
  const meta6 = load<u64>(mask, 16);
  const a6 = load<u64>(mask, 24);
  const b6 = load<u64>(mask, 32);
  const c6 = load<u64>(mask, 40);
  const d6 = load<u64>(mask, 48);
  const metas = batch.meta;
  const addresses = batch.addrA;
  const hashes = batch.flowHash;
  const begin = seed + P5;
  for (let i: u32 = 0; i < n; i++) {
    const o = i << 3;
    let meta = load<u64>(metas + o);
    let h: u64;
    if ((meta & META_IPV6) == 0) {
      meta &= meta4;
      const a = load<u64>(addresses + o) & addr4;
      store<u64>(addresses + o, a);
      store<u64>(metas + o, meta);
      // Hash every row, even if the key repeats: on most links a branch on "same flow as before" is mispredicted, which costs more than the hash.
      store<u64>(hashes + o, avalanche(mixWord(mixWord(begin, meta), a)));
      continue;
    } else {
      meta &= meta6;
      const a = load<u64>(batch.addrA + o) & a6;
      const bb = load<u64>(batch.addrB + o) & b6;
      const c = load<u64>(batch.addrC + o) & c6;
      const d = load<u64>(batch.addrD + o) & d6;
      store<u64>(batch.addrA + o, a);
      store<u64>(batch.addrB + o, bb);
      store<u64>(batch.addrC + o, c);
      store<u64>(batch.addrD + o, d);
      h = mixWord(mixWord(begin, meta), a);
      // A key without addresses is the same for both IP versions: its masked meta has no version bit.
      if ((meta & META_IPV6) != 0) h = mixWord(mixWord(mixWord(h, bb), c), d);
    }
    store<u64>(batch.meta + o, meta);
    store<u64>(batch.flowHash + o, avalanche(h));
  }
}

/** Returns the flow hash of one key, given as 5 masked u64 (meta, addrA..addrD). */
export function hashKey(key: usize, seed: u64): u64 {
  const meta = load<u64>(key);
  let h = mixWord(mixWord(seed + P5, meta), load<u64>(key, 8));
  if ((meta & META_IPV6) != 0) h = mixWord(mixWord(mixWord(h, load<u64>(key, 16)), load<u64>(key, 24)), load<u64>(key, 32));
  return avalanche(h);
}
