import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { UsageError } from "./errors.ts";
import { hashBytes64, hashBytes64Into, hex64, mix64, mulHigh32, parseHex64 } from "./hash.ts";

fc.configureGlobal({ seed: 20 });

const MASK = (1n << 64n) - 1n;
const GOLDEN = 0x9e3779b97f4a7c15n;
const word = fc.integer({ min: 0, max: 0xffffffff });
const join = ([hi, lo]: [number, number]) => (BigInt(hi) << 32n) | BigInt(lo);

// Reference implementations in BigInt.
function mixTwin(z: bigint): bigint {
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return z ^ (z >> 31n);
}
function hashTwin(bytes: Uint8Array, seed: bigint): bigint {
  let h = mixTwin(seed ^ BigInt(bytes.length));
  for (let at = 0; at < bytes.length; at += 8) {
    let w = 0n;
    for (let i = 0; i < 8 && at + i < bytes.length; i++) w |= BigInt(bytes[at + i]!) << BigInt(8 * i);
    h = mixTwin(((h ^ w) + GOLDEN) & MASK);
  }
  return h;
}

describe("64-bit hashing in 32-bit halves", () => {
  test("the finaliser gives the published first outputs of splitmix64", () => {
    const outputs = (seed: bigint, n: number) =>
      Array.from({ length: n }, (_, i) => {
        const z = (seed + GOLDEN * BigInt(i + 1)) & MASK;
        return join(mix64(Number(z >> 32n), Number(z & 0xffffffffn)));
      });
    expect(outputs(0n, 1)).toEqual([0xe220a8397b1dcdafn]);
    expect(outputs(1234567n, 5)).toEqual([
      6457827717110365317n,
      3203168211198807973n,
      9817491932198370423n,
      4593380528125082431n,
      16408922859458223821n,
    ]);
  });

  test("the high half of a product equals BigInt's", () => {
    fc.assert(
      fc.property(word, word, (a, b) => {
        expect(BigInt(mulHigh32(a, b))).toBe((BigInt(a) * BigInt(b)) >> 32n);
      }),
    );
    expect(mulHigh32(0xffffffff, 0xffffffff)).toBe(0xfffffffe);
  });

  test("mix64 equals its BigInt twin", () => {
    fc.assert(
      fc.property(word, word, (hi, lo) => {
        expect(join(mix64(hi, lo))).toBe(mixTwin((BigInt(hi) << 32n) | BigInt(lo)));
      }),
      { numRuns: 2000 },
    );
  });

  test("hashBytes64 equals its BigInt twin for every length and seed", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 70 }), word, word, (bytes, hi, lo) => {
        expect(join(hashBytes64(bytes, hi, lo))).toBe(hashTwin(bytes, (BigInt(hi) << 32n) | BigInt(lo)));
      }),
      { numRuns: 1000 },
    );
  });

  test("a slice hashes as its copy does, and a range outside the bytes is refused", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.nat(60), fc.nat(60), (bytes, a, b) => {
        const start = Math.min(a, b, bytes.length);
        const end = Math.min(Math.max(a, b), bytes.length);
        const out = new Uint32Array(2);
        hashBytes64Into(bytes, start, end, 1, 2, out);
        expect([out[0], out[1]]).toEqual(hashBytes64(bytes.slice(start, end), 1, 2));
      }),
    );
    expect(() => hashBytes64Into(new Uint8Array(4), 0, 5, 0, 0, new Uint32Array(2))).toThrow(RangeError);
  });

  test("zero bytes of different lengths hash apart, and so do their prefixes", () => {
    const seen = new Set<string>();
    for (let n = 0; n < 200; n++) seen.add(hex64(...hashBytes64(new Uint8Array(n), 0, 0)));
    expect(seen.size).toBe(200);
  });

  // 64 output bits x 64 input bits, 2,000 words each: a flip rate has standard deviation 0.0112, so leaving 0.5 +- 0.07 is a 6.2-sigma event; over 4,096 cells
  // the false alarm rate is below 3e-6 (and the seed is fixed).
  test("flipping any input bit flips every output bit half of the time", () => {
    const flips = new Uint32Array(64 * 64);
    const n = 2000;
    for (let i = 0; i < n; i++) {
      const hi = Math.imul(i + 1, 0x9e3779b1) >>> 0;
      const lo = Math.imul(i + 7, 0x85ebca77) >>> 0;
      const [baseHi, baseLo] = mix64(hi, lo);
      for (let bit = 0; bit < 64; bit++) {
        const [h, l] = bit < 32 ? mix64(hi, lo ^ (1 << bit)) : mix64(hi ^ (1 << (bit - 32)), lo);
        const dl = l ^ baseLo;
        const dh = h ^ baseHi;
        for (let o = 0; o < 32; o++) {
          flips[bit * 64 + o]! += (dl >>> o) & 1;
          flips[bit * 64 + 32 + o]! += (dh >>> o) & 1;
        }
      }
    }
    for (const f of flips) expect(Math.abs(f / n - 0.5)).toBeLessThan(0.07);
  });

  test("hexadecimal text goes there and back, and what is not one is refused", () => {
    fc.assert(
      fc.property(word, word, (hi, lo) => {
        expect(parseHex64(hex64(hi, lo))).toEqual([hi, lo]);
      }),
    );
    expect(hex64(0, 255)).toBe("00000000000000ff");
    expect(parseHex64("0xFF")).toEqual([0, 255]);
    for (const bad of ["", "0x", "xyz", "-1", "12345678901234567", " 1"]) {
      expect(() => parseHex64(bad)).toThrow(UsageError);
    }
  });
});
