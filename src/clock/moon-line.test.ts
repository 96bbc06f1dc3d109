import fc from "fast-check";
import { expect, test } from "vitest";
import { moonLine } from "./moon-line.ts";

test("no line through two points that lies below all points is nearer to them in sum (slow twin: all pairs)", () => {
  const xs = fc.uniqueArray(fc.integer({ min: 0, max: 50 }), { minLength: 2, maxLength: 12 });
  fc.assert(
    fc.property(xs, fc.infiniteStream(fc.integer({ min: 0, max: 30 })), (unsorted, values) => {
      const x = unsorted.sort((a, b) => a - b);
      const y = x.map(() => values.next().value as number);
      const mean = x.reduce((a, b) => a + b, 0) / x.length;
      const line = moonLine(Float64Array.from(x), Float64Array.from(y), mean)!;
      const distance = (slope: number, at: number, value: number) => {
        const gaps = x.map((t, i) => y[i]! - (value + slope * (t - at)));
        return gaps.some((g) => g < -1e-9) ? Number.POSITIVE_INFINITY : gaps.reduce((a, b) => a + b, 0);
      };
      let best = Number.POSITIVE_INFINITY;
      for (let i = 0; i < x.length; i++) {
        for (let j = 0; j < i; j++) {
          best = Math.min(best, distance((y[i]! - y[j]!) / (x[i]! - x[j]!), x[j]!, y[j]!));
        }
      }
      expect(distance(line.slope, line.atNs, line.valueNs)).toBeCloseTo(best, 6);
    }),
  );
});

test("one time alone has no line", () => {
  expect(moonLine(Float64Array.of(4, 4), Float64Array.of(1, 2), 4)).toBeNull();
});
