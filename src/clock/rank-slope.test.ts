import fc from "fast-check";
import { expect, test } from "vitest";
import { Random } from "../base/random.ts";
import { rankSlope } from "./rank-slope.ts";

/** Kendall's S of the residuals at a slope, by its definition. */
function kendall(x: number[], y: number[], slope: number): number {
  let s = 0;
  for (let i = 0; i < x.length; i++) {
    for (let j = 0; j < i; j++)
      s += Math.sign((y[i]! - slope * x[i]! - (y[j]! - slope * x[j]!)) * (x[i]! - x[j]!));
  }
  return s;
}

test("inside the interval Kendall's S is within reach, outside it is beyond (slow twin)", () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: -100, max: 100, noNaN: true }), { minLength: 8, maxLength: 20 }),
      (y) => {
        const x = y.map((_, i) => i);
        const { low, high } = rankSlope([{ x, y }], 1.96);
        const n = x.length;
        const reach = 1.96 * Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18);
        const step = 1e-6 * (1 + Math.abs(low) + Math.abs(high));
        // S falls with the slope and counts ties as 0: at the ends of the interval it crosses the reach.
        expect(kendall(x, y, low - step)).toBeGreaterThanOrEqual(reach - 2);
        expect(kendall(x, y, high + step)).toBeLessThanOrEqual(-reach + 2);
      },
    ),
  );
});

test("adding a line and a scale moves slope and interval alike", () => {
  const dice = new Random(2);
  const x = Array.from({ length: 40 }, () => dice.float());
  const y = x.map(() => dice.normal());
  const plain = rankSlope([{ x, y }], 2);
  const moved = rankSlope([{ x, y: y.map((v, i) => 3 * v + 7 * x[i]! - 100) }], 2);
  expect(moved.slope).toBeCloseTo(3 * plain.slope + 7, 9);
  expect(moved.low).toBeCloseTo(3 * plain.low + 7, 9);
  expect(moved.high).toBeCloseTo(3 * plain.high + 7, 9);
});

test("strata may have levels of their own", () => {
  const x = [0, 1, 2, 3, 4, 5, 6, 7];
  const found = rankSlope(
    [
      { x, y: x.map((v) => 2 * v) },
      { x, y: x.map((v) => 2 * v + 1e9) },
    ],
    1.96,
  );
  expect(found).toMatchObject({ slope: 2, low: 2, high: 2 });
});

test("too few points leave the interval open, equal abscissas give no slope", () => {
  expect(rankSlope([{ x: [0, 1, 2], y: [0, 1, 2] }], 2.5).low).toBe(Number.NEGATIVE_INFINITY);
  expect(rankSlope([{ x: [1, 1, 1], y: [0, 1, 2] }], 2.5).pairs).toBe(0);
});

// 1,000 runs at 95 %: fewer than 925 hits have probability 3e-4 for an interval of exactly 95 %.
test("the interval holds the true slope in 95 of 100 runs of heavy-tailed noise", () => {
  let hits = 0;
  for (let seed = 0; seed < 1000; seed++) {
    const dice = new Random(seed);
    const x = Array.from({ length: 24 }, (_, i) => i);
    const y = x.map((v) => 0.5 * v + dice.float() ** -1.5);
    const { low, high } = rankSlope([{ x, y }], 1.96);
    if (low <= 0.5 && high >= 0.5) hits++;
  }
  expect(hits).toBeGreaterThanOrEqual(925);
});
