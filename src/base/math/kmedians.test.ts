import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Random } from "../random.ts";
import { kMedians1d } from "./kmedians.ts";

fc.configureGlobal({ seed: 20 });

type Weighted = [value: number, weight: number];

// Brute force: every set of at most k values as centres (some optimal set of centres consists of values).
function bruteCost(points: Weighted[], k: number): number {
  const values = [...new Set(points.filter(([, w]) => w > 0).map(([v]) => v))];
  if (values.length === 0) return 0;
  let minimum = Infinity;
  const choose = (from: number, centres: number[]) => {
    if (centres.length > 0) minimum = Math.min(minimum, costWith(points, centres));
    if (centres.length === k) return;
    for (let i = from; i < values.length; i++) choose(i + 1, [...centres, values[i]!]);
  };
  choose(0, []);
  return minimum;
}

function costWith(points: Weighted[], centres: ArrayLike<number>): number {
  let cost = 0;
  for (const [v, w] of points)
    if (w > 0) cost += w * Math.min(...Array.from(centres, (c) => Math.abs(v - c)));
  return cost;
}

function solve(points: Weighted[], k: number) {
  const sorted = points.toSorted((a, b) => a[0] - b[0]);
  return kMedians1d(
    Float64Array.from(sorted, (p) => p[0]),
    Float64Array.from(sorted, (p) => p[1]),
    k,
  );
}

// The plain dynamic programme, without Knuth's bound and the stepping median, for sizes that brute force cannot reach.
function plainCost(points: Weighted[], k: number): number {
  const s = points.toSorted((a, b) => a[0] - b[0]);
  const n = s.length;
  const cost = (a: number, b: number) => {
    const part = s.slice(a, b);
    return Math.min(...part.map(([c]) => part.reduce((sum, [v, w]) => sum + w * Math.abs(v - c), 0)));
  };
  const costs = Array.from({ length: n }, (_, a) =>
    Array.from({ length: n + 1 }, (_, b) => (b > a ? cost(a, b) : 0)),
  );
  let best = Array.from({ length: n + 1 }, (_, i) => (i === 0 ? 0 : costs[0]![i]!));
  for (let j = 2; j <= k; j++) {
    best = best.map((_, i) =>
      Math.min(...Array.from({ length: i + 1 }, (_, m) => best[m]! + (m < i ? costs[m]![i]! : 0))),
    );
  }
  return best[n]!;
}

const weight = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constantFrom(1, 1000, 1e6));
const tight = fc.tuple(fc.integer({ min: -6, max: 6 }), weight);
const wide = fc.tuple(
  fc.integer({ min: 0, max: 40 }).map((e) => Math.round(1.7 ** e)),
  weight,
);

describe("k-medians in one dimension", () => {
  test("costs what brute force over all sets of centres costs", () => {
    for (const point of [tight, wide]) {
      fc.assert(
        fc.property(fc.array(point, { maxLength: 9 }), fc.integer({ min: 1, max: 5 }), (points, k) => {
          const found = solve(points, k);
          expect(found.cost).toBe(bruteCost(points, k));
        }),
        { numRuns: 1500 },
      );
    }
  });

  test("costs what the plain dynamic programme costs on larger samples", () => {
    const r = new Random(1);
    for (let run = 0; run < 12; run++) {
      const points = Array.from({ length: 60 }, (): Weighted => {
        const value = run % 3 === 0 ? r.below(1e6) : Math.round(r.pareto(run % 3 === 1 ? 0.5 : 1.5, 100));
        return [value, run % 2 === 0 ? 1 : Math.ceil(r.pareto(0.7, 1))];
      });
      for (const k of [2, 3, 7, 20, 45]) expect(solve(points, k).cost).toBe(plainCost(points, k));
    }
  });

  test("returns centres that are values and boundaries that give every value its nearest centre", () => {
    fc.assert(
      fc.property(
        fc.array(wide, { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 12 }),
        (points, k) => {
          const { centres, boundaries, cost } = solve(points, k);
          const heavy = new Set(points.filter(([, w]) => w > 0).map(([v]) => v));
          expect(centres.length).toBe(Math.min(k, heavy.size));
          expect(boundaries.length).toBe(Math.max(0, centres.length - 1));
          for (const c of centres) expect(heavy.has(c)).toBe(true);
          for (let i = 1; i < centres.length; i++) expect(centres[i]!).toBeGreaterThan(centres[i - 1]!);
          let byBoundary = 0;
          for (const [v, w] of points) {
            if (w > 0) byBoundary += w * Math.abs(v - centres[boundaries.filter((b) => b <= v).length]!);
          }
          expect(byBoundary).toBe(cost);
          expect(costWith(points, centres)).toBe(cost);
        },
      ),
      { numRuns: 1000 },
    );
  });

  test("does not care for a common offset, for order of equal values or for weights of zero", () => {
    const offset = 1.7e15;
    fc.assert(
      fc.property(
        fc.array(tight, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 6 }),
        (points, k) => {
          const near = solve(points, k);
          const far = solve(
            points.map(([v, w]) => [v + offset, w]),
            k,
          );
          expect(far.cost).toBe(near.cost);
          expect([
            ...solve(
              points.filter(([, w]) => w > 0),
              k,
            ).centres,
          ]).toEqual([...near.centres]);
        },
      ),
    );
  });

  test("has no cost once every value has a centre, and nothing for nothing", () => {
    expect(
      solve(
        [
          [1, 2],
          [5, 1],
          [9, 3],
        ],
        3,
      ),
    ).toEqual({
      centres: Float64Array.of(1, 5, 9),
      boundaries: Float64Array.of(3, 7),
      cost: 0,
    });
    expect(solve([], 4).centres.length).toBe(0);
    expect(solve([[1, 0]], 4).centres.length).toBe(0);
  });

  test("refuses what is not a weighted sorted sample", () => {
    const of = (...v: number[]) => Float64Array.from(v);
    const tries = [
      () => kMedians1d(of(2, 1), of(1, 1), 1),
      () => kMedians1d(of(1, NaN), of(1, 1), 1),
      () => kMedians1d(of(1), of(-1), 1),
      () => kMedians1d(of(1), of(NaN), 1),
      () => kMedians1d(of(1, 2), of(1), 1),
      () => kMedians1d(of(1), of(1), 0),
      () => kMedians1d(of(1), of(1), 1.5),
    ];
    for (const attempt of tries) expect(attempt).toThrow(RangeError);
  });

  // The goal is 1 s. The test measures CPU time and allows 4 s, because the machines that run tests are shared and slow.
  test("handles 4,096 values and 1,024 centres quickly, light and heavy weights alike", () => {
    const r = new Random(2);
    const logs = Float64Array.from({ length: 4096 }, () => Math.log(r.pareto(1.1, 100))).sort();
    const shapes = {
      equal: () => 1,
      heavyTailed: () => r.pareto(0.6, 1),
      falling: (i: number) => 2 ** (-i / 100),
      rising: (i: number) => 2 ** (i / 100),
    };
    for (const [name, weightOf] of Object.entries(shapes)) {
      const weights = Float64Array.from({ length: 4096 }, (_, i) => weightOf(i));
      for (const k of [2, 64, 1024]) {
        const start = process.cpuUsage();
        const { centres } = kMedians1d(logs, weights, k);
        const elapsedMs = process.cpuUsage(start).user / 1000;
        expect(centres.length).toBe(k);
        expect([name, k, elapsedMs < 4000]).toEqual([name, k, true]);
      }
    }
  });
});
