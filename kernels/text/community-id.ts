// Community ID v1 (seed 0) of flows with ports: base64 of the SHA-1 of both ends, the smaller first. The message is one block of 16 or 40 bytes before padding.

const words = memory.data(80 * 4);
const LETTERS = memory.data<u8>([
  65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108,
  109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 43, 47,
]);

// @ts-ignore: decorator
@inline
function word(i: u32): u32 {
  return load<u32>(words + (i << 2));
}
// @ts-ignore: decorator
@inline
function setWord(i: u32, value: u32): void {
  store<u32>(words + (i << 2), value);
}

/** Computes the digest of the block in `words`; it replaces the first five words. */
function hashBlock(): void {
  for (let i: u32 = 16; i < 80; i++) setWord(i, rotl<u32>(word(i - 3) ^ word(i - 8) ^ word(i - 14) ^ word(i - 16), 1));
  let a: u32 = 0x67452301;
  let b: u32 = 0xefcdab89;
  let c: u32 = 0x98badcfe;
  let d: u32 = 0x10325476;
  let e: u32 = 0xc3d2e1f0;
  // Five rounds at a time, after which every variable is back in its place.
  for (let i: u32 = 0; i < 20; i += 5) {
    e += rotl<u32>(a, 5) + (d ^ (b & (c ^ d))) + 0x5a827999 + word(i);
    b = rotl<u32>(b, 30);
    d += rotl<u32>(e, 5) + (c ^ (a & (b ^ c))) + 0x5a827999 + word(i + 1);
    a = rotl<u32>(a, 30);
    c += rotl<u32>(d, 5) + (b ^ (e & (a ^ b))) + 0x5a827999 + word(i + 2);
    e = rotl<u32>(e, 30);
    b += rotl<u32>(c, 5) + (a ^ (d & (e ^ a))) + 0x5a827999 + word(i + 3);
    d = rotl<u32>(d, 30);
    a += rotl<u32>(b, 5) + (e ^ (c & (d ^ e))) + 0x5a827999 + word(i + 4);
    c = rotl<u32>(c, 30);
  }
  for (let i: u32 = 20; i < 40; i += 5) {
    e += rotl<u32>(a, 5) + (b ^ c ^ d) + 0x6ed9eba1 + word(i);
    b = rotl<u32>(b, 30);
    d += rotl<u32>(e, 5) + (a ^ b ^ c) + 0x6ed9eba1 + word(i + 1);
    a = rotl<u32>(a, 30);
    c += rotl<u32>(d, 5) + (e ^ a ^ b) + 0x6ed9eba1 + word(i + 2);
    e = rotl<u32>(e, 30);
    b += rotl<u32>(c, 5) + (d ^ e ^ a) + 0x6ed9eba1 + word(i + 3);
    d = rotl<u32>(d, 30);
    a += rotl<u32>(b, 5) + (c ^ d ^ e) + 0x6ed9eba1 + word(i + 4);
    c = rotl<u32>(c, 30);
  }
  for (let i: u32 = 40; i < 60; i += 5) {
    e += rotl<u32>(a, 5) + ((b & c) | (d & (b | c))) + 0x8f1bbcdc + word(i);
    b = rotl<u32>(b, 30);
    d += rotl<u32>(e, 5) + ((a & b) | (c & (a | b))) + 0x8f1bbcdc + word(i + 1);
    a = rotl<u32>(a, 30);
    c += rotl<u32>(d, 5) + ((e & a) | (b & (e | a))) + 0x8f1bbcdc + word(i + 2);
    e = rotl<u32>(e, 30);
    b += rotl<u32>(c, 5) + ((d & e) | (a & (d | e))) + 0x8f1bbcdc + word(i + 3);
    d = rotl<u32>(d, 30);
    a += rotl<u32>(b, 5) + ((c & d) | (e & (c | d))) + 0x8f1bbcdc + word(i + 4);
    c = rotl<u32>(c, 30);
  }
  for (let i: u32 = 60; i < 80; i += 5) {
    e += rotl<u32>(a, 5) + (b ^ c ^ d) + 0xca62c1d6 + word(i);
    b = rotl<u32>(b, 30);
    d += rotl<u32>(e, 5) + (a ^ b ^ c) + 0xca62c1d6 + word(i + 1);
    a = rotl<u32>(a, 30);
    c += rotl<u32>(d, 5) + (e ^ a ^ b) + 0xca62c1d6 + word(i + 2);
    e = rotl<u32>(e, 30);
    b += rotl<u32>(c, 5) + (d ^ e ^ a) + 0xca62c1d6 + word(i + 3);
    d = rotl<u32>(d, 30);
    a += rotl<u32>(b, 5) + (c ^ d ^ e) + 0xca62c1d6 + word(i + 4);
    c = rotl<u32>(c, 30);
  }
  setWord(0, a + 0x67452301);
  setWord(1, b + 0xefcdab89);
  setWord(2, c + 0x98badcfe);
  setWord(3, d + 0x10325476);
  setWord(4, e + 0xc3d2e1f0);
}

/** Appends 16 bits to the message. */
let half: u32 = 0;
function add16(value: u32): void {
  const i = half >> 1;
  setWord(i, (half & 1) == 0 ? value << 16 : word(i) | value);
  half++;
}
function add64(value: u64): void {
  add16(<u32>(value >> 48));
  add16(<u32>(value >> 32) & 0xffff);
  add16(<u32>(value >> 16) & 0xffff);
  add16(<u32>value & 0xffff);
}

/** Writes a Community ID. Addresses are two u64 each; for IPv4 the first is 0 and the second has 32 bits. `ports`: source << 16 | destination. */
export function putCommunityId(start: u32, a1: u64, a2: u64, b1: u64, b2: u64, proto: u32, ports: u32, wide: bool): u32 {
  const source = ports >> 16;
  const target = ports & 0xffff;
  const swap = a1 != b1 ? a1 > b1 : a2 != b2 ? a2 > b2 : source > target;
  half = 0;
  add16(0);
  for (let end = 0; end < 2; end++) {
    const first = (end == 0) != swap;
    if (wide) {
      add64(first ? a1 : b1);
      add64(first ? a2 : b2);
    } else {
      add16(<u32>(first ? a2 : b2) >> 16);
      add16(<u32>(first ? a2 : b2) & 0xffff);
    }
  }
  add16(proto << 8);
  add16(swap ? target : source);
  add16(swap ? source : target);
  const bits = half << 4;
  add16(0x8000);
  while (half < 30) add16(0);
  setWord(15, bits);
  hashBlock();
  store<u16>(start, 0x3a31); // 1:
  let at = start + 2;
  for (let bit: u32 = 0; bit < 160; bit += 6) {
    const i = bit >> 5;
    const both = (<u64>word(i) << 32) | (i < 4 ? <u64>word(i + 1) : 0);
    store<u8>(at++, load<u8>(LETTERS + (<u32>(both >> (58 - (bit & 31))) & 63)));
  }
  store<u8>(at++, 61);
  return at;
}
