// Authenticates reference packets (RFC 8762, sections 4.2 and 4.4): HMAC-SHA-256 over the first 96 bytes of a STAMP packet, whose first 16 bytes follow them.
// Packets with the right code get FLAG_VERIFIED; taps that ask for authentication use no others. The key never enters parameters or records. The tests compare
// with node:crypto.

import { Batch, FLAG_VERIFIED } from "../decode/batch";
import { stampAt } from "./references";

/** Bytes that the code covers, and bytes of the code. */
const COVERED: u32 = 96;
const CODE: u32 = 16;
const BLOCK: u32 = 64;
const STATE: u32 = 32;

const K: StaticArray<u32> = [
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/** {inner u32 x 8, outer u32 x 8, state u32 x 8, block 64 bytes, schedule u32 x 64}. */
const INNER: u32 = 0;
const OUTER: u32 = INNER + STATE;
const NOW: u32 = OUTER + STATE;
const TEXT: u32 = NOW + STATE;
const SCHEDULE: u32 = TEXT + BLOCK;
const BYTES: u32 = SCHEDULE + 256;

function start(h: usize): void {
  store<u32>(h, 0x6a09e667, 0);
  store<u32>(h, 0xbb67ae85, 4);
  store<u32>(h, 0x3c6ef372, 8);
  store<u32>(h, 0xa54ff53a, 12);
  store<u32>(h, 0x510e527f, 16);
  store<u32>(h, 0x9b05688c, 20);
  store<u32>(h, 0x1f83d9ab, 24);
  store<u32>(h, 0x5be0cd19, 28);
}

/** Processes one block of 64 bytes into the state at h. w: room for the schedule. */
function compress(h: usize, block: usize, w: usize): void {
  for (let i: u32 = 0; i < 16; i++) store<u32>(w + (i << 2), bswap<u32>(load<u32>(block + (i << 2))));
  for (let i: u32 = 16; i < 64; i++) {
    const q = w + (i << 2);
    const x = load<u32>(q - 60);
    const y = load<u32>(q - 8);
    const small = rotr<u32>(x, 7) ^ rotr<u32>(x, 18) ^ (x >> 3);
    const large = rotr<u32>(y, 17) ^ rotr<u32>(y, 19) ^ (y >> 10);
    store<u32>(q, load<u32>(q - 64) + small + load<u32>(q - 28) + large);
  }
  let a = load<u32>(h);
  let b = load<u32>(h, 4);
  let c = load<u32>(h, 8);
  let d = load<u32>(h, 12);
  let e = load<u32>(h, 16);
  let f = load<u32>(h, 20);
  let g = load<u32>(h, 24);
  let k = load<u32>(h, 28);
  for (let i: u32 = 0; i < 64; i++) {
    const choice = (e & f) ^ (~e & g);
    const t = k + (rotr<u32>(e, 6) ^ rotr<u32>(e, 11) ^ rotr<u32>(e, 25)) + choice + unchecked(K[i]) + load<u32>(w + (i << 2));
    const u = (rotr<u32>(a, 2) ^ rotr<u32>(a, 13) ^ rotr<u32>(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    k = g;
    g = f;
    f = e;
    e = d + t;
    d = c;
    c = b;
    b = a;
    a = t + u;
  }
  store<u32>(h, load<u32>(h) + a);
  store<u32>(h, load<u32>(h, 4) + b, 4);
  store<u32>(h, load<u32>(h, 8) + c, 8);
  store<u32>(h, load<u32>(h, 12) + d, 12);
  store<u32>(h, load<u32>(h, 16) + e, 16);
  store<u32>(h, load<u32>(h, 20) + f, 20);
  store<u32>(h, load<u32>(h, 24) + g, 24);
  store<u32>(h, load<u32>(h, 28) + k, 28);
}

/** Processes the last block of a message of `all` bytes, of which `n` (at most 55) are left. */
function finish(h: usize, rest: usize, n: u32, all: u32, p: usize): void {
  const block = p + TEXT;
  memory.fill(block, 0, BLOCK);
  memory.copy(block, rest, n);
  store<u8>(block + n, 0x80);
  store<u32>(block, bswap<u32>(all << 3), 60);
  compress(h, block, p + SCHEDULE);
}

/** Creates the state for a key of at most 64 bytes (the caller hashes longer ones first). */
export function hmacNew(key: usize, bytes: u32): usize {
  const p = heap.alloc(BYTES);
  const block = p + TEXT;
  for (let outer: u32 = 0; outer < 2; outer++) {
    memory.fill(block, 0, BLOCK);
    memory.copy(block, key, bytes);
    const pad: u8 = outer != 0 ? 0x5c : 0x36;
    for (let i: u32 = 0; i < BLOCK; i++) store<u8>(block + i, load<u8>(block + i) ^ pad);
    const h = p + (outer != 0 ? OUTER : INNER);
    start(h);
    compress(h, block, p + SCHEDULE);
  }
  memory.fill(block, 0, BLOCK);
  return p;
}

export function hmacFree(p: usize): void {
  memory.fill(p, 0, BYTES);
  heap.free(p);
}

/** Returns whether the code behind the first 96 bytes is right. */
function verifies(p: usize, packet: usize): bool {
  const h = p + NOW;
  memory.copy(h, p + INNER, STATE);
  compress(h, packet, p + SCHEDULE);
  finish(h, packet + BLOCK, COVERED - BLOCK, BLOCK + COVERED, p);
  // The inner digest is the message of the outer hash, in big-endian.
  const inner = p + SCHEDULE + 224;
  for (let i: u32 = 0; i < STATE; i += 4) store<u32>(inner + i, bswap<u32>(load<u32>(h + i)));
  memory.copy(h, p + OUTER, STATE);
  finish(h, inner, STATE, BLOCK + STATE, p);
  let off: u32 = 0;
  for (let i: u32 = 0; i < CODE; i += 4) off |= bswap<u32>(load<u32>(h + i)) ^ load<u32>(packet + COVERED + i);
  return off == 0;
}

/** Marks the rows that are references with the right code. Returns how many references have a wrong code or were truncated. */
export function hmacVerify(p: usize, b: usize, port: u32): u32 {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  let wrong: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const at = stampAt(batch, i, port, load<u64>(batch.meta + (i << 3)));
    if (at == 0) continue;
    const header = load<u32>(batch.header + (i << 2));
    const captured = load<u32>(batch.captured + (i << 2));
    const flags = batch.flags + (i << 2);
    if (captured >= at + COVERED + CODE && verifies(p, header + at)) store<u32>(flags, load<u32>(flags) | FLAG_VERIFIED);
    else {
      store<u32>(flags, load<u32>(flags) & ~FLAG_VERIFIED);
      wrong++;
    }
  }
  return wrong;
}
