import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Random } from "../random.ts";
import { lowerHullIndices, median, medianAgain, quantileSorted } from "./regression.ts";

fc.configureGlobal({ seed: 20 });

// Few distinct values as well as many: selection algorithms tend to fail on ties.
const values = fc.oneof(
  fc.array(fc.integer({ min: -3, max: 3 })),
  fc.array(fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e15, max: 1e15 })),
);

function medianTwin(array: number[]): number | null {
  if (array.length === 0) return null;
  const s = array.toSorted((a, b) => a - b);
  const high = s[s.length >> 1]!;
  const low = s[(s.length - 1) >> 1]!;
  return low + (high - low) / 2;
}

describe("the median of as many values again", () => {
  const random = new Random(41);
  const draw = (n: number) => Float64Array.from({ length: n }, () => Math.exp(2 * random.normal())).sort();

  // With 4,000 pairs the standard error of the share is 0.34 points: it is below 95 % - 4.5 standard errors in one of 10^5 runs.
  test.each([8, 9, 20, 101])("lies within its bounds in 95 of 100 cases, %i values", (n) => {
    const pairs = 4000;
    let inside = 0;
    for (let i = 0; i < pairs; i++) {
      const { low, high } = medianAgain(draw(n))!;
      const again = quantileSorted(draw(n), 0.5)!;
      if (low <= again && again <= high) inside++;
    }
    expect(inside / pairs).toBeGreaterThan(0.95 - 4.5 * 0.0034);
    // The bounds are not much too wide either.
    expect(inside / pairs).toBeLessThan(n < 20 ? 0.999 : 0.985);
  });

  test("of few values takes all of them, and of none there is none", () => {
    expect(medianAgain([1, 2, 3, 4, 5])).toEqual({ low: 1, high: 5 });
    expect(medianAgain([])).toBeNull();
    const many = medianAgain(Float64Array.from({ length: 100_001 }, (_, i) => i))!;
    expect(many.low / 50_000).toBeCloseTo(1 - 1.96 * Math.sqrt(2 / 100_000), 3);
    expect(many.high / 50_000).toBeCloseTo(1 + 1.96 * Math.sqrt(2 / 100_000), 3);
  });
});

describe("the median", () => {
  test("is the middle of the sorted values, and leaves them as they were", () => {
    fc.assert(
      fc.property(values, (array) => {
        const before = [...array];
        // + 0: the sign of zero does not matter.
        const found = median(array);
        expect(found === null ? null : found + 0).toBe(array.length === 0 ? null : medianTwin(array)! + 0);
        expect(array).toEqual(before);
      }),
      { numRuns: 2000 },
    );
    expect([median([]), median([4]), median([1, 2]), median(Float64Array.of(3, 1, 2))]).toEqual([
      null,
      4,
      1.5,
      2,
    ]);
  });

  test("of sorted, reversed, equal and sawtooth values takes linear time", () => {
    const n = 300_000;
    const shapes = [
      (i: number) => i,
      (i: number) => -i,
      () => 7,
      (i: number) => i % 2,
      (i: number) => Math.abs(i - n / 2),
    ];
    for (const shape of shapes) {
      const array = Float64Array.from({ length: n }, (_, i) => shape(i));
      const sorted = array.toSorted();
      // Quadratic time would take minutes: the suite's time limit is the check.
      expect(median(array)).toBe((sorted[n / 2 - 1]! + sorted[n / 2]!) / 2);
    }
  });

  test("and quantiles of sorted values are nearest ranks", () => {
    const sorted = [10, 20, 30, 40];
    expect([0, 0.25, 0.26, 0.5, 0.75, 0.76, 1].map((q) => quantileSorted(sorted, q))).toEqual([
      10, 10, 20, 20, 30, 40, 40,
    ]);
    expect(quantileSorted([], 0.5)).toBeNull();
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), fc.nat(100), (array, percent) => {
        const s = array.toSorted((a, b) => a - b);
        const needed = Math.ceil((percent * s.length) / 100);
        const smallest = s.find((v) => s.filter((w) => w <= v).length >= needed)!;
        expect(quantileSorted(s, percent / 100)).toBe(smallest);
      }),
    );
  });
});

interface Point {
  readonly x: number;
  readonly y: number;
}
function lowerHull(points: readonly Point[]): Point[] {
  const xs = Float64Array.from(points, (p) => p.x);
  const ys = Float64Array.from(points, (p) => p.y);
  return Array.from(lowerHullIndices(xs, ys), (i) => points[i]!);
}

describe("the lower hull", () => {
  // Exact reference in BigInt: p is a corner if no two other points, one on either side, have an edge at or below it.
  function hullTwin(points: Point[]): Point[] {
    const lowest = new Map<number, Point>();
    for (const p of points) if (!lowest.has(p.x) || lowest.get(p.x)!.y > p.y) lowest.set(p.x, p);
    const all = [...lowest.values()].sort((a, b) => a.x - b.x);
    return all.filter((p, i) =>
      all.slice(0, i).every((a) =>
        all.slice(i + 1).every((b) => {
          const [ax, ay, bx, by, px, py] = [a.x, a.y, b.x, b.y, p.x, p.y].map(BigInt) as [
            bigint,
            bigint,
            bigint,
            bigint,
            bigint,
            bigint,
          ];
          return (py - ay) * (bx - ax) < (by - ay) * (px - ax);
        }),
      ),
    );
  }
  const byX = (points: Point[]) => points.toSorted((a, b) => a.x - b.x);
  const small = fc.record({ x: fc.integer({ min: 0, max: 12 }), y: fc.integer({ min: -5, max: 5 }) });
  // Nearly on a line with nanosecond coordinates: cross products near 1e31, differences of a few units.
  const slanted = fc
    .tuple(fc.integer({ min: 0, max: 50 }), fc.integer({ min: -1, max: 1 }))
    .map(([i, d]) => ({ x: i * 100_000_000_000_001, y: i * 40_000_000_000_007 + d }));

  test("has the corners that exact arithmetic finds, also where doubles cannot tell", () => {
    for (const point of [small, slanted]) {
      fc.assert(
        fc.property(fc.array(point, { maxLength: 25 }), (points) => {
          const plain = (ps: Point[]) => ps.map(({ x, y }) => [x, y]);
          expect(plain(lowerHull(byX(points)))).toEqual(plain(hullTwin(points)));
        }),
        { numRuns: 1000 },
      );
    }
  });

  test("lies below every point", () => {
    const r = new Random(2);
    const points = byX(Array.from({ length: 5000 }, () => ({ x: r.float() * 1e9, y: r.exponential(1000) })));
    const hull = lowerHull(points);
    let edge = 0;
    for (const p of points) {
      while (edge + 2 < hull.length && hull[edge + 1]!.x <= p.x) edge++;
      const [a, b] = [hull[edge]!, hull[edge + 1]!];
      expect(a.y + ((b.y - a.y) * (p.x - a.x)) / (b.x - a.x)).toBeLessThanOrEqual(p.y + 1e-9);
    }
  });

  test("refuses points that are not sorted, and has none for none", () => {
    expect(() =>
      lowerHull([
        { x: 1, y: 0 },
        { x: 0, y: 0 },
      ]),
    ).toThrow(RangeError);
    expect(() =>
      lowerHull([
        { x: 0, y: 0 },
        { x: NaN, y: 0 },
      ]),
    ).toThrow(RangeError);
    expect(lowerHull([])).toEqual([]);
  });
});
