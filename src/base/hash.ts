/**
 * 64-bit hashing as pairs of unsigned 32-bit halves, high half first, without BigInt on the path.
 *
 * mix64 is the finaliser of splitmix64 (Stafford's variant 13): a bijection of 64 bits with full avalanche. hashBytes64 chains it over little-endian 64-bit
 * words, with the length folded into the seed. Neither resists an attacker who knows the seed: they spread values evenly, they do not authenticate.
 */
import { UsageError } from "./errors.ts";

const GOLDEN_HI = 0x9e3779b9;
const GOLDEN_LO = 0x7f4a7c15;

/** Returns the high 32 bits of the 64-bit product of two uint32, by 16-bit halves: no partial sum exceeds 32 bits. */
export function mulHigh32(a: number, b: number): number {
  return mulHigh(a | 0, b | 0) >>> 0;
}

/** Writes mix64 of (hi, lo) to out[0] = hi, out[1] = lo, without allocation. */
export function mix64Into(hi: number, lo: number, out: Uint32Array): void {
  // Signed 32-bit throughout: V8 boxes an unsigned value above 2^31 when it is passed on, which costs more than the mix.
  let h = hi | 0;
  let l = lo | 0;
  // z ^= z >>> 30; z *= 0xbf58476d1ce4e5b9
  let low = l ^ ((l >>> 30) | (h << 2));
  h ^= h >>> 30;
  l = Math.imul(low, 0x1ce4e5b9);
  h = (mulHigh(low, 0x1ce4e5b9) + Math.imul(low, 0xbf58476d) + Math.imul(h, 0x1ce4e5b9)) | 0;
  // z ^= z >>> 27; z *= 0x94d049bb133111eb
  low = l ^ ((l >>> 27) | (h << 5));
  h ^= h >>> 27;
  l = Math.imul(low, 0x133111eb);
  h = (mulHigh(low, 0x133111eb) + Math.imul(low, 0x94d049bb) + Math.imul(h, 0x133111eb)) | 0;
  // z ^= z >>> 31
  out[1] = l ^ ((l >>> 31) | (h << 1));
  out[0] = h ^ (h >>> 31);
}

export function mix64(hi: number, lo: number): [hi: number, lo: number] {
  mix64Into(hi, lo, pair);
  return [pair[0]!, pair[1]!];
}

/** Writes the hash of bytes[start, end) to out[0] = hi, out[1] = lo, without allocation. */
export function hashBytes64Into(
  bytes: Uint8Array,
  start: number,
  end: number,
  seedHi: number,
  seedLo: number,
  out: Uint32Array,
): void {
  const length = end - start;
  if (!(start >= 0 && length >= 0 && end <= bytes.length)) {
    throw new RangeError(`cannot hash bytes ${start} to ${end} of ${bytes.length}`);
  }
  // The length goes in first, so that zero padding of the last word cannot make two inputs alike.
  mix64Into(seedHi ^ Math.floor(length / 4294967296), seedLo ^ length, out);
  for (let at = start; at < end; at += 8) {
    let wordLo = 0;
    let wordHi = 0;
    const left = end - at;
    if (left >= 8) {
      wordLo = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
      wordHi = bytes[at + 4]! | (bytes[at + 5]! << 8) | (bytes[at + 6]! << 16) | (bytes[at + 7]! << 24);
    } else {
      for (let i = 0; i < left; i++) {
        if (i < 4) wordLo |= bytes[at + i]! << (8 * i);
        else wordHi |= bytes[at + i]! << (8 * (i - 4));
      }
    }
    // h = mix(h ^ word + golden): the addition keeps zero from being a fixed point.
    const low = ((out[1]! ^ wordLo) + GOLDEN_LO) | 0;
    const carry = low >>> 0 < GOLDEN_LO ? 1 : 0;
    mix64Into(((out[0]! ^ wordHi) + GOLDEN_HI + carry) | 0, low, out);
  }
}

export function hashBytes64(bytes: Uint8Array, seedHi: number, seedLo: number): [hi: number, lo: number] {
  hashBytes64Into(bytes, 0, bytes.length, seedHi, seedLo, pair);
  return [pair[0]!, pair[1]!];
}

/** Sixteen lower-case hexadecimal digits. */
export function hex64(hi: number, lo: number): string {
  return (hi >>> 0).toString(16).padStart(8, "0") + (lo >>> 0).toString(16).padStart(8, "0");
}

/** One to sixteen hexadecimal digits, with or without 0x. */
export function parseHex64(text: string): [hi: number, lo: number] {
  const digits = /^(?:0[xX])?([0-9a-fA-F]{1,16})$/.exec(text)?.[1];
  if (digits === undefined) {
    throw new UsageError(
      "bad-parameter",
      `'${text}' is not a 64-bit hexadecimal number`,
      "write 1 to 16 hexadecimal digits, such as 00c0ffee00c0ffee",
    );
  }
  const full = digits.padStart(16, "0");
  return [Number.parseInt(full.slice(0, 8), 16), Number.parseInt(full.slice(8), 16)];
}

// Scratch of the allocating variants; safe because nothing here yields or is re-entered.
const pair = new Uint32Array(2);

function mulHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0;
  const cross = (Math.imul(aLow, bHigh) + (middle & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (cross >>> 16)) | 0;
}
