import fc from "fast-check";
import { expect, test } from "vitest";
import { BitReader, BitWriter, bitLength } from "./bits.ts";
import { FormatError } from "./errors.ts";

const field = fc.integer({ min: 0, max: 53 }).chain((width) =>
  fc.record({
    width: fc.constant(width),
    value: width === 0 ? fc.constant(0) : fc.maxSafeNat().map((v) => v % 2 ** width),
  }),
);

test("fields of any width come back, and equal a string of bits", () => {
  fc.assert(
    fc.property(fc.array(field, { maxLength: 60 }), (fields) => {
      const out = new BitWriter();
      let twin = "";
      for (const { value, width } of fields) {
        out.bits(value, width);
        const text = width === 0 ? "" : value.toString(2).padStart(width, "0");
        twin += [...text].reverse().join("");
      }
      const bytes = out.finish();
      expect(bytes.length).toBe(Math.ceil(twin.length / 8));
      const written = [...bytes].map((b) => [...b.toString(2).padStart(8, "0")].reverse().join("")).join("");
      expect(written.slice(0, twin.length)).toBe(twin);
      const reader = new BitReader(bytes);
      for (const { value, width } of fields) expect(reader.bits(width)).toBe(value);
      reader.expectEnd();
    }),
    { seed: 1 },
  );
});

test("counts in exponential Golomb code come back at every order, at the length that is promised", () => {
  const count = fc.oneof(fc.nat(1000), fc.nat(2 ** 31 - 1), fc.constant(2 ** 32 - 1));
  fc.assert(
    fc.property(fc.array(count, { maxLength: 40 }), fc.integer({ min: 0, max: 20 }), (counts, order) => {
      const out = new BitWriter();
      let bits = 0;
      for (const c of counts) {
        out.expGolomb(c, order);
        bits += 2 * bitLength(c + 2 ** order) - 1 - order;
      }
      const bytes = out.finish();
      expect(bytes.length).toBe(Math.ceil(bits / 8));
      const reader = new BitReader(bytes);
      for (const c of counts) expect(reader.expGolomb(order)).toBe(c);
      reader.expectEnd();
    }),
    { seed: 2 },
  );
});

test("bits that are missing, too many or not zero in the padding are refused", () => {
  expect(() => new BitReader(new Uint8Array(1)).bits(9)).toThrow(FormatError);
  expect(() => new BitReader(new Uint8Array(20)).expGolomb(0)).toThrow(FormatError);
  const tail = new BitReader(Uint8Array.of(0b1000_0001));
  tail.bits(1);
  expect(() => tail.expectEnd()).toThrow("padding");
  expect(() => new BitReader(new Uint8Array(2)).expectEnd()).toThrow("left over");
});

test("the length of a number is that of its binary text", () => {
  for (const v of [0, 1, 2, 255, 256, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 52, 2 ** 53 - 1]) {
    expect(bitLength(v)).toBe(v === 0 ? 0 : v.toString(2).length);
  }
});
