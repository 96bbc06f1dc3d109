import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ByteReader, ByteWriter, crc32c } from "./bytes.ts";
import { FormatError } from "./errors.ts";

fc.configureGlobal({ seed: 20 });

const MAX = Number.MAX_SAFE_INTEGER;
const ascii = (text: string) => new TextEncoder().encode(text);
// Covers all magnitudes, not only large ones.
const unsigned = fc.tuple(fc.integer({ min: 0, max: 53 }), fc.nat(MAX)).map(([e, v]) => v % 2 ** e);
const signed = fc.tuple(unsigned, fc.boolean()).map(([v, negative]) => (negative ? 0 - v : v));

type Field =
  | ["u8" | "u16" | "u32" | "f64" | "varint" | "zigzag", number]
  | ["u64" | "i64", bigint]
  | ["utf8", string];
const field: fc.Arbitrary<Field> = fc.oneof(
  fc.tuple(fc.constant("u8" as const), fc.nat(0xff)),
  fc.tuple(fc.constant("u16" as const), fc.nat(0xffff)),
  fc.tuple(fc.constant("u32" as const), fc.nat(0xffffffff)),
  fc.tuple(fc.constant("f64" as const), fc.double()),
  fc.tuple(fc.constant("varint" as const), unsigned),
  fc.tuple(fc.constant("zigzag" as const), signed),
  fc.tuple(fc.constant("u64" as const), fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })),
  fc.tuple(fc.constant("i64" as const), fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n })),
  fc.tuple(fc.constant("utf8" as const), fc.string({ unit: "grapheme" })),
);
function write(fields: Field[], capacity?: number): Uint8Array {
  const writer = new ByteWriter(capacity);
  for (const [kind, value] of fields) (writer[kind] as (v: unknown) => void)(value);
  expect(writer.length).toBe(writer.view().length);
  return writer.finish();
}

function failure(run: () => unknown): FormatError {
  try {
    run();
  } catch (error) {
    if (error instanceof FormatError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("bytes written and read", () => {
  test("come back as they were, in any mixture", () => {
    fc.assert(
      fc.property(fc.array(field), fc.integer({ min: 0, max: 64 }), (fields, capacity) => {
        const reader = new ByteReader(write(fields, capacity));
        for (const [kind, value] of fields) expect(reader[kind]()).toBe(value);
        reader.expectEnd();
      }),
      { numRuns: 500 },
    );
  });

  test("cut anywhere are refused as truncated with the file and offset, and never read past the end", () => {
    fc.assert(
      fc.property(fc.array(field, { minLength: 1 }), fc.nat(), fc.nat(1000), (fields, cut, baseOffset) => {
        const whole = write(fields);
        const short = whole.subarray(0, cut % whole.length);
        const reader = new ByteReader(short, { file: "x.rec", baseOffset });
        const error = failure(() => {
          for (const [kind] of fields) reader[kind]();
        });
        expect([error.code, error.file]).toEqual(["truncated", "x.rec"]);
        expect(error.offset).toBeGreaterThanOrEqual(baseOffset);
        expect(error.offset).toBeLessThanOrEqual(baseOffset + short.length);
      }),
      { numRuns: 500 },
    );
  });

  test("have the layout that is documented", () => {
    const writer = new ByteWriter();
    writer.u16(0x0102);
    writer.u32(0x03040506);
    writer.varint(300);
    writer.zigzag(-1);
    writer.zigzag(64);
    writer.i64(-2n);
    writer.utf8("µ");
    writer.bytes(Uint8Array.of(9, 8));
    const expected = [2, 1, 6, 5, 4, 3, 0xac, 0x02, 1, 0x80, 1, 0xfe, 255, 255, 255, 255, 255, 255, 255];
    expect([...writer.finish()]).toEqual([...expected, 2, 0xc2, 0xb5, 9, 8]);
  });

  test("encode zigzag as the varint of twice the value where that fits", () => {
    fc.assert(
      fc.property(fc.integer({ min: -(2 ** 51), max: 2 ** 51 }), (value) => {
        const a = new ByteWriter();
        const b = new ByteWriter();
        a.zigzag(value);
        b.varint(value < 0 ? -2 * value - 1 : 2 * value);
        expect(a.finish()).toEqual(b.finish());
      }),
    );
  });

  test("reach the ends of the range", () => {
    const writer = new ByteWriter();
    writer.varint(MAX);
    writer.zigzag(MAX);
    writer.zigzag(-MAX);
    const reader = new ByteReader(writer.finish());
    expect([reader.varint(), reader.zigzag(), reader.zigzag()]).toEqual([MAX, MAX, -MAX]);
  });

  test("that are impossible are refused by name and place", () => {
    const read = (bytes: number[], kind: "varint" | "zigzag" | "utf8") =>
      failure(() => new ByteReader(Uint8Array.from(bytes), { baseOffset: 5 })[kind]());
    const beyond = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
    for (const error of [
      read([0x80, 0], "varint"),
      read(beyond, "varint"),
      read([255, 255, 255, 255, 255, 255, 255, 255, 1], "varint"),
      read([0x80, 0], "zigzag"),
      read([255, 255, 255, 255, 255, 255, 255, 127], "zigzag"),
      read([1, 0xff], "utf8"),
    ]) {
      expect(error.code).toBe("bad-record");
      expect(error.offset).toBeGreaterThanOrEqual(5);
    }
    expect(read([0x7f, 1], "utf8").code).toBe("truncated");
    const reader = new ByteReader(Uint8Array.of(1, 2, 3), { baseOffset: 10 });
    reader.skip(1);
    expect([reader.offset, reader.position, reader.remaining]).toEqual([11, 1, 2]);
    expect(failure(() => reader.expectEnd()).offset).toBe(11);
    expect(failure(() => reader.bytes(-1)).code).toBe("truncated");
    expect(failure(() => reader.bytes(3)).message).toContain("expected 3 bytes, but 2 bytes are left");
  });

  test("that do not fit are not written", () => {
    const writer = new ByteWriter();
    const tries: (() => void)[] = [
      () => writer.u8(256),
      () => writer.u8(-1),
      () => writer.u16(0.5),
      () => writer.u32(2 ** 32),
      () => writer.u32(NaN),
      () => writer.varint(-1),
      () => writer.varint(2 ** 53),
      () => writer.zigzag(2 ** 53),
      () => writer.u64(-1n),
      () => writer.i64(1n << 63n),
      () => writer.patchU32(0, 1),
    ];
    for (const attempt of tries) expect(attempt).toThrow(RangeError);
    expect(writer.length).toBe(0);
  });

  test("can be patched after the fact, and a finished copy stays as it was", () => {
    const writer = new ByteWriter();
    writer.u32(0);
    const before = writer.finish();
    writer.patchU32(0, 7);
    expect(new ByteReader(before).u32()).toBe(0);
    expect(new ByteReader(writer.finish()).u32()).toBe(7);
  });

  test("in the middle of a larger buffer are read from their own start", () => {
    const inner = Uint8Array.of(9, 9, 1, 2, 3, 4, 9).subarray(2, 6);
    const reader = new ByteReader(inner);
    expect(reader.u32()).toBe(0x04030201);
    expect(() => reader.u8()).toThrow(FormatError);
  });
});

describe("crc32c", () => {
  test("gives the known answers of RFC 3720", () => {
    expect(crc32c(ascii("123456789"))).toBe(0xe3069283);
    expect(crc32c(new Uint8Array(0))).toBe(0);
    expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
    expect(crc32c(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd794e);
    expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => 31 - i))).toBe(0x113fdb5c);
  });

  test("equals the bit-by-bit definition and chains over any split", () => {
    const slow = (bytes: Uint8Array) => {
      let crc = 0xffffffff;
      for (const byte of bytes) {
        crc ^= byte;
        for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
      }
      return ~crc >>> 0;
    };
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), fc.nat(100), (bytes, at) => {
        expect(crc32c(bytes)).toBe(slow(bytes));
        expect(crc32c(bytes.subarray(at), crc32c(bytes.subarray(0, at)))).toBe(slow(bytes));
      }),
      { numRuns: 500 },
    );
  });

  test("notices every flipped bit", () => {
    const bytes = ascii("a sealed epoch of one tap");
    const right = crc32c(bytes);
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      bytes[bit >> 3]! ^= 1 << (bit & 7);
      expect(crc32c(bytes)).not.toBe(right);
      bytes[bit >> 3]! ^= 1 << (bit & 7);
    }
  });
});
