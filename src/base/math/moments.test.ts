import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Moments } from "./moments.ts";

fc.configureGlobal({ seed: 20 });

// Exact reference on integers: n * m2 = n * sum(x^2) - sum(x)^2 in BigInt.
function exact(values: number[]): { mean: number; m2: number } {
  const n = BigInt(values.length);
  const origin = BigInt(values[0]!);
  let sum = 0n;
  let squares = 0n;
  for (const v of values) {
    const x = BigInt(v) - origin;
    sum += x;
    squares += x * x;
  }
  return { mean: Number(origin) + Number(sum) / Number(n), m2: Number(n * squares - sum * sum) / Number(n) };
}

function close(actual: number, expected: number, relative: number, floor = 0): void {
  expect(Math.abs(actual - expected)).toBeLessThanOrEqual(relative * Math.abs(expected) + floor);
}

function of(values: number[]): Moments {
  const m = new Moments();
  for (const v of values) m.add(v);
  return m;
}

// Large offsets with small spreads, where the textbook sum of squares loses all precision.
const hostile = fc
  .tuple(
    fc.integer({ min: -(2 ** 52), max: 2 ** 52 }),
    fc.constantFrom(0, 1, 100, 1e6, 1e12),
    fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 1, maxLength: 200 }),
  )
  .map(([offset, spread, units]) => units.map((u) => offset + Math.round(u * spread)));

describe("moments", () => {
  test("equal exact integer arithmetic at any offset", () => {
    fc.assert(
      fc.property(hostile, (values) => {
        const m = of(values);
        const truth = exact(values);
        close(m.mean!, truth.mean, 4e-16, 1e-12 * (m.max! - m.min!));
        close(m.m2, truth.m2, 1e-11);
        expect([m.count, m.min, m.max]).toEqual([values.length, Math.min(...values), Math.max(...values)]);
      }),
      { numRuns: 1000 },
    );
  });

  test("merged equal those of all values, however they are split", () => {
    fc.assert(
      fc.property(hostile, fc.nat(200), (values, at) => {
        const left = of(values.slice(0, at));
        left.merge(of(values.slice(at)));
        const truth = exact(values);
        close(left.mean!, truth.mean, 4e-16, 1e-12 * (left.max! - left.min!));
        close(left.m2, truth.m2, 1e-11);
        expect([left.count, left.min, left.max]).toEqual([
          values.length,
          Math.min(...values),
          Math.max(...values),
        ]);
      }),
      { numRuns: 1000 },
    );
  });

  test("stay right over a million values at an offset of a month in nanoseconds", () => {
    const m = new Moments();
    // 0 .. 999 around the offset, a thousand times each: mean offset + 499.5, m2 = n (1000^2 - 1) / 12.
    for (let i = 0; i < 1_000_000; i++) m.add(2.6e15 + ((i * 7919) % 1000));
    close(m.mean!, 2.6e15 + 499.5, 2e-16);
    close(m.m2, (1e6 * (1e6 - 1)) / 12, 1e-12);
    close(m.stdev!, Math.sqrt((1e6 - 1) / 12), 1e-12);
  });

  test("of known small samples are what the textbook says", () => {
    const m = of([2, 4, 4, 4, 5, 5, 7, 9]);
    expect([m.mean, m.m2, m.stdev]).toEqual([5, 32, 2]);
    close(m.sampleStdev!, Math.sqrt(32 / 7), 1e-15);
  });

  test("say nothing where there is nothing to say", () => {
    const empty = new Moments();
    expect([empty.mean, empty.stdev, empty.sampleStdev, empty.min, empty.max]).toEqual([
      null,
      null,
      null,
      null,
      null,
    ]);
    const one = of([-3]);
    expect([one.mean, one.stdev, one.sampleStdev, one.min, one.max]).toEqual([-3, 0, null, -3, -3]);
    one.merge(empty);
    empty.merge(one);
    expect([one.count, empty.count, empty.mean]).toEqual([1, 1, -3]);
  });

  test("rebuilt from their parts merge as the original does", () => {
    const a = of([1, 5, 9]);
    const parts = { count: a.count, mean: a.mean!, m2: a.m2, min: a.min!, max: a.max! };
    const b = Moments.of(parts);
    b.merge(of([100]));
    a.merge(of([100]));
    expect([b.count, b.mean, b.m2, b.min, b.max]).toEqual([a.count, a.mean, a.m2, a.min, a.max]);
  });
});
