import fc from "fast-check";
import { expect, test } from "vitest";
import { FormatError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { emptyCells, type SketchCells, shiftCells } from "./cells.ts";
import { decodeCells, encodeCells, mergePayloads } from "./payload.ts";

/** Sums far apart and at both ends of 64 bits, counts up to 32 bits, runs of empty cells. */
const hostile: fc.Arbitrary<SketchCells> = fc
  .record({
    rows: fc.integer({ min: 1, max: 3 }),
    columns: fc.integer({ min: 1, max: 12 }),
    digestBits: fc.constantFrom(0, 8, 16, 32),
    delays: fc.boolean(),
    bytes: fc.boolean(),
    fingerprint: fc.integer({ min: 0, max: 0xffff_ffff }),
    salt: fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })),
    words: fc.array(
      fc.tuple(
        fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 0xffff_ffff })),
        fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }),
        fc.integer({ min: 0, max: 0xffff_ffff }),
        fc.integer({ min: 0, max: 2 ** 50 }),
      ),
      { minLength: 36, maxLength: 36 },
    ),
  })
  .map(({ words, ...of }) => {
    const cells = emptyCells(of);
    for (let i = 0; i < cells.count.length; i++) {
      const [count, sum, digest, bytes] = words[i]!;
      cells.count[i] = count;
      cells.totals[Math.floor(i / of.columns)]! += count;
      if (count === 0) continue;
      cells.sumLow[i] = Number(BigInt.asUintN(32, sum));
      cells.sumHigh[i] = Number(BigInt.asUintN(32, sum >> 32n));
      cells.digest[i] = of.digestBits === 0 ? 0 : digest >>> (32 - of.digestBits);
      if (cells.bytes) cells.bytes[i] = bytes;
    }
    return cells;
  });

test("what was written is read back, bit for bit", () => {
  fc.assert(
    fc.property(hostile, (cells) => {
      expect(decodeCells(encodeCells(cells), cells)).toEqual(cells);
    }),
    { numRuns: 300, seed: 1 },
  );
});

test("merging payloads adds cells modulo 2^64, in any order", () => {
  fc.assert(
    fc.property(hostile, fc.integer(), (cells, seed) => {
      // Splits the cells into two parts that add up to them: sums wrap around, counts do not.
      const random = new Random(seed);
      const part = structuredClone(cells);
      const rest = structuredClone(cells);
      const totals = [new Array<number>(cells.rows).fill(0), new Array<number>(cells.rows).fill(0)];
      for (let i = 0; i < cells.count.length; i++) {
        const row = Math.floor(i / cells.columns);
        part.count[i] = random.below(cells.count[i]! + 1);
        rest.count[i] = cells.count[i]! - part.count[i]!;
        if (part.count[i] === 0 || rest.count[i] === 0) {
          const none = part.count[i] === 0 ? part : rest;
          none.sumLow[i] = none.sumHigh[i] = none.digest[i] = 0;
          if (none.bytes) none.bytes[i] = 0;
        } else {
          const [low, high] = [random.uint32(), random.uint32()];
          const sum = (BigInt(cells.sumHigh[i]!) << 32n) | BigInt(cells.sumLow[i]!);
          const other = BigInt.asUintN(64, sum - ((BigInt(high) << 32n) | BigInt(low)));
          part.sumLow[i] = low;
          part.sumHigh[i] = high;
          rest.sumLow[i] = Number(other & 0xffffffffn);
          rest.sumHigh[i] = Number(other >> 32n);
          part.digest[i] = cells.digestBits === 0 ? 0 : random.uint32() >>> (32 - cells.digestBits);
          rest.digest[i] = (cells.digest[i]! ^ part.digest[i]!) >>> 0;
          if (part.bytes && rest.bytes) {
            part.bytes[i] = random.below(cells.bytes![i]! + 1);
            rest.bytes[i] = cells.bytes![i]! - part.bytes[i]!;
          }
        }
        totals[0]![row]! += part.count[i]!;
        totals[1]![row]! += rest.count[i]!;
      }
      [part.totals, rest.totals] = totals as [number[], number[]];
      const [a, b] = [part, rest].map((c) => ({ payload: encodeCells(c), packets: 2 }));
      expect(mergePayloads(a!, b!, cells)).toEqual({ payload: encodeCells(cells), packets: 4 });
      expect(mergePayloads(b!, a!, cells)).toEqual({ payload: encodeCells(cells), packets: 4 });
    }),
    { numRuns: 200, seed: 2 },
  );
});

test("times can be counted from earlier, and back", () => {
  fc.assert(
    fc.property(hostile, fc.integer({ min: -(2 ** 50), max: 2 ** 50 }), (cells, earlier) => {
      const moved = structuredClone(cells);
      shiftCells(moved, earlier);
      for (let i = 0; i < cells.count.length; i++) {
        const before = (BigInt(cells.sumHigh[i]!) << 32n) | BigInt(cells.sumLow[i]!);
        const after = (BigInt(moved.sumHigh[i]!) << 32n) | BigInt(moved.sumLow[i]!);
        expect(after).toBe(BigInt.asUintN(64, before + BigInt(cells.count[i]!) * BigInt(earlier)));
      }
      shiftCells(moved, -earlier);
      expect(moved).toEqual(cells);
    }),
    { numRuns: 100, seed: 3 },
  );
});

test("a payload cut or changed anywhere is refused with its offset, or read as other cells, never thrown on otherwise", () => {
  const cells = someCells();
  const payload = encodeCells(cells);
  for (let length = 0; length < payload.length; length++) {
    expect(() => decodeCells(payload.slice(0, length), cells, "x")).toThrow(FormatError);
  }
  const random = new Random("damage");
  for (let i = 0; i < 500; i++) {
    const bad = Uint8Array.from(payload);
    bad[random.below(bad.length)] = random.below(256);
    try {
      decodeCells(bad, cells, "x");
    } catch (error) {
      expect(error).toBeInstanceOf(FormatError);
      expect((error as FormatError).offset).toBeLessThanOrEqual(bad.length);
    }
  }
  expect(() => decodeCells(Uint8Array.from([...payload, 0]), cells)).toThrow(/left over/);
  expect(() => decodeCells(Uint8Array.from([9, ...payload.slice(1)]), cells)).toThrow(/layout 9/);
});

test("sketches of another geometry or seed do not merge", () => {
  const seal = (change: Partial<SketchCells>) => {
    const payload = encodeCells({ ...someCells(), ...change });
    return { payload, packets: 1 };
  };
  const a = seal({});
  for (const [change, named] of [
    [{ fingerprint: 1 }, /seed, geometry, rates or weights/],
    [{ rows: 1, columns: 80, totals: [5] }, /1 x 80 cells where 2 x 40/],
    [{ delays: true }, /delays/],
    [{ digestBits: 8 }, /digests of 8 bits, not 16/],
    [{ bytes: new Float64Array(80) }, /bytes/],
  ] as [Partial<SketchCells>, RegExp][]) {
    expect(() => mergePayloads(a, seal(change), someCells())).toThrow(FormatError);
    expect(() => mergePayloads(a, seal(change), someCells())).toThrow(named);
  }
});

test("cells around the centre are shorter than raw ones", () => {
  const random = new Random("bytes");
  const cells = emptyCells({
    rows: 1,
    columns: 1000,
    digestBits: 0,
    delays: false,
    bytes: false,
    fingerprint: 0,
    salt: 0n,
  });
  for (let packet = 0; packet < 100_000; packet++) {
    const i = random.below(1000);
    const low = cells.sumLow[i]! + random.below(1e9);
    cells.sumLow[i] = low;
    if (low > 0xffff_ffff) cells.sumHigh[i]!++;
    cells.count[i]!++;
    cells.totals[0]!++;
  }
  // 100 packets per cell in a second: 12 bytes in memory; encoded, 1 byte for the count and 5 for the sum.
  expect(encodeCells(cells).length / 1000).toBeLessThan(6.2);
});

function someCells(): SketchCells {
  const cells = emptyCells({
    rows: 2,
    columns: 40,
    digestBits: 16,
    delays: false,
    bytes: false,
    fingerprint: 77,
    salt: 0n,
  });
  const random = new Random("some");
  for (let i = 0; i < 80; i += 1 + random.below(5)) {
    cells.count[i] = 1 + random.below(300);
    cells.sumLow[i] = random.uint32();
    cells.sumHigh[i] = random.below(100);
    cells.digest[i] = random.below(65_536);
    cells.totals[i < 40 ? 0 : 1]! += cells.count[i]!;
  }
  return cells;
}
