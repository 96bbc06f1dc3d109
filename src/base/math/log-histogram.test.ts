import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FormatError } from "../errors.ts";
import { bucketHigh, bucketLow, bucketMid, bucketOf, LogHistogram, nearestRank } from "./log-histogram.ts";

fc.configureGlobal({ seed: 20 });

const MAX = 2 ** 53;
// Hostile values: zero, both signs, powers of two and their neighbours, all magnitudes.
const powers = fc
  .tuple(fc.integer({ min: 0, max: 52 }), fc.integer({ min: -2, max: 2 }))
  .map(([e, d]) => 2 ** e + d);
const magnitude = fc.oneof(
  fc.integer({ min: 0, max: 600 }),
  powers,
  fc.integer({ min: 0, max: MAX - 1 }),
  fc.double({ min: 0, max: 53, noNaN: true }).map((e) => Math.floor(2 ** e)),
);
const value = fc.tuple(magnitude, fc.boolean()).map(([v, negative]) => (negative && v !== 0 ? -v : v));

// Reference implementation in BigInt and text: the leading bit is where the binary digits start.
function bucketTwin(v: number): number {
  if (v < 0) return -1 - bucketTwin(-v);
  if (v < 256) return v;
  const e = BigInt(v).toString(2).length - 1;
  return 256 + (e - 8) * 128 + Number(BigInt(v) >> BigInt(e - 7)) - 128;
}

function filled(values: number[]): LogHistogram {
  const h = new LogHistogram();
  for (const v of values) h.add(v);
  return h;
}

describe("buckets", () => {
  test("follow the written rule at every magnitude and sign", () => {
    fc.assert(
      fc.property(value, (v) => {
        expect(bucketOf(v)).toBe(bucketTwin(v));
      }),
      { numRuns: 5000 },
    );
    for (let e = 0; e <= 53; e++) {
      for (const v of [2 ** e - 1, 2 ** e]) expect(bucketOf(v)).toBe(bucketTwin(v));
    }
    expect([0, 1, 255, 256, 257, 258, 511, 512, -1, -256].map((v) => bucketOf(v))).toEqual([
      0, 1, 255, 256, 256, 257, 383, 384, -2, -257,
    ]);
  });

  test("lie side by side without a gap or an overlap, negative ones mirrored", () => {
    for (let index = 0; index < bucketOf(MAX); index++) {
      expect(bucketLow(index + 1)).toBe(bucketHigh(index) + 1);
      expect(bucketOf(bucketLow(index))).toBe(index);
      expect(bucketOf(bucketHigh(index))).toBe(index);
      if (index > 0) {
        expect(bucketLow(-1 - index)).toBe(-bucketHigh(index));
        expect(bucketMid(-1 - index)).toBe(-bucketMid(index));
      }
    }
  });

  test("have a midpoint within 1/256 of every value in them", () => {
    fc.assert(
      fc.property(value, (v) => {
        expect(Math.abs(bucketMid(bucketOf(v)) - v)).toBeLessThanOrEqual(Math.abs(v) / 256);
      }),
      { numRuns: 5000 },
    );
  });

  test("round a fraction of a nanosecond, also below zero and near 2^53", () => {
    expect([0.4, 0.5, 1.49, -0.4, -0.5, -0].map((v) => bucketOf(v))).toEqual([0, 1, 1, 0, -2, 0]);
    expect(bucketOf(MAX - 1)).toBe(bucketTwin(MAX - 1));
  });

  test("refuse what is no delay", () => {
    for (const v of [NaN, Infinity, -Infinity, MAX + 2, -MAX - 2])
      expect(() => bucketOf(v)).toThrow(RangeError);
    for (const i of [-1, 0.5, NaN, 6017, -6018]) {
      expect(() => bucketLow(i)).toThrow(RangeError);
      expect(() => new LogHistogram().addBucket(i, 1)).toThrow(RangeError);
    }
    expect(() => new LogHistogram().add(1, -1)).toThrow(RangeError);
    expect(() => new LogHistogram().add(1, 0.5)).toThrow(RangeError);
  });
});

describe("a histogram", () => {
  test("answers every quantile with the bucket of the nearest-rank sample", () => {
    fc.assert(
      fc.property(
        fc.array(value, { minLength: 1, maxLength: 60 }),
        fc.oneof(fc.constantFrom(0, 0.5, 0.9, 0.99, 1), fc.double({ min: 0, max: 1, noNaN: true })),
        (values, q) => {
          const sorted = values.toSorted((a, b) => a - b);
          const truth = sorted[nearestRank(q, sorted.length) - 1]!;
          const h = filled(values);
          expect(h.quantile(q)).toBe(bucketMid(bucketOf(truth)));
          const clamped = h.quantile(q, sorted[0], sorted.at(-1))!;
          expect(clamped).toBeGreaterThanOrEqual(sorted[0]!);
          expect(clamped).toBeLessThanOrEqual(sorted.at(-1)!);
          expect(Math.abs(clamped - truth)).toBeLessThanOrEqual(Math.abs(truth) / 256);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test("goes on counting after it was read", () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 30 }), (values) => {
        const h = new LogHistogram();
        values.forEach((v, i) => {
          h.add(v);
          const sorted = values.slice(0, i + 1).sort((a, b) => a - b);
          expect(h.quantile(0.5)).toBe(bucketMid(bucketOf(sorted[nearestRank(0.5, sorted.length) - 1]!)));
        });
      }),
    );
  });

  test("has no quantile while it is empty", () => {
    expect(new LogHistogram().quantile(0.5)).toBeNull();
    expect(new LogHistogram().cdf()).toEqual([]);
    expect(() => filled([1]).quantile(1.01)).toThrow(RangeError);
  });

  test("takes the rank that was meant where q n is not exact in doubles", () => {
    expect(0.55 * 100).toBeGreaterThan(55);
    expect(nearestRank(0.55, 100)).toBe(55);
    const wrong: [number, number][] = [];
    for (let n = 1; n <= 1000; n++) {
      for (let k = 1; k <= n; k++) if (nearestRank(k / n, n) !== k) wrong.push([k, n]);
    }
    expect(wrong).toEqual([]);
    expect([nearestRank(0, 9), nearestRank(1, 9), nearestRank(0.5, 9), nearestRank(0.5, 10)]).toEqual([
      1, 9, 5, 5,
    ]);
  });

  test("merged from two parts equals the histogram of all, in either order", () => {
    fc.assert(
      fc.property(fc.array(value), fc.array(value), (a, b) => {
        const all = filled([...a, ...b]);
        const ab = filled(a);
        ab.merge(filled(b));
        const ba = filled(b);
        ba.merge(filled(a));
        expect(ab.count).toBe(a.length + b.length);
        expect([...ab.entries()]).toEqual([...all.entries()]);
        expect([...ba.entries()]).toEqual([...all.entries()]);
      }),
    );
    const twice = filled([1, 2, -3]);
    twice.merge(twice);
    expect([...twice.entries()]).toEqual([
      [-4, 2],
      [1, 2],
      [2, 2],
    ]);
  });

  test("goes through JSON unchanged", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(value, fc.integer({ min: 0, max: 1e6 }))), (parts) => {
        const h = new LogHistogram();
        for (const [v, n] of parts) h.add(v, n);
        const back = LogHistogram.fromJSON(JSON.parse(JSON.stringify(h)));
        expect([...back.entries()]).toEqual([...h.entries()]);
        expect(back.count).toBe(h.count);
      }),
    );
  });

  test("refuses JSON that is no histogram", () => {
    const bad = [
      null,
      7,
      {},
      { buckets: [1], counts: [] },
      { buckets: [1, 0], counts: [1, 1] },
      { buckets: [1], counts: [0] },
      { buckets: [1.5], counts: [1] },
      { buckets: [-1], counts: [1] },
      { buckets: [9999], counts: [1] },
      { buckets: ["1"], counts: [1] },
      { buckets: [1], counts: [-2] },
    ];
    for (const json of bad) expect(() => LogHistogram.fromJSON(json)).toThrow(FormatError);
  });

  test("has a cdf that rises to one and counts what is not above each bucket", () => {
    fc.assert(
      fc.property(fc.array(value, { minLength: 1 }), (values) => {
        const cdf = filled(values).cdf();
        expect(cdf.at(-1)!.share).toBe(1);
        for (const { valueNs, share } of cdf) {
          const below = values.filter((v) => bucketMid(bucketOf(v)) <= valueNs).length;
          expect(share).toBe(below / values.length);
        }
      }),
    );
  });
});
