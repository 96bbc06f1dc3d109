import fc from "fast-check";
import { expect, test } from "vitest";
import { judgeOffset, recogniseOffset } from "./offset.ts";

const S = 1e9;

test.each([
  [37 * S, "tai-utc", 37 * S],
  [-37 * S, "tai-utc", -37 * S],
  [36 * S, "tai-utc", 36 * S],
  [18 * S, "tai-utc", 18 * S],
  [-19 * S, "tai-utc", -19 * S],
  [3600 * S, "time-zone", 3600 * S],
  [-5.5 * 3600 * S, "time-zone", -5.5 * 3600 * S],
  [5.75 * 3600 * S, "time-zone", 5.75 * 3600 * S],
  [(2 * 3600 + 37) * S, "tai-utc", (2 * 3600 + 37) * S],
])("an offset of %f ns under a delay of 3 ms is recognised", (offset, kind, expected) => {
  const verdict = judgeOffset(offset + 3e6, null, 2);
  expect(verdict.kind).toBe(kind);
  expect(verdict.estimateNs).toBe(expected);
});

test.each([
  [5e6, "not-measurable"],
  [1.9 * S, "not-measurable"],
  [-1, "not-measurable"], // within the resolution
  [-5000, "constant"],
  [-1.2 * S, "constant"],
  [42 * S, "unknown"],
  [1234 * S, "unknown"],
  [-42 * S, "constant"],
])("a smallest difference of %f ns is called %s", (floor, kind) => {
  expect(judgeOffset(floor, null, 2).kind).toBe(kind);
});

test("in two directions the true offset lies in the bounds, and the middle is wrong by at most half their width", () => {
  const delay = fc.integer({ min: 1, max: 1e9 });
  fc.assert(
    fc.property(fc.integer({ min: -1e13, max: 1e13 }), delay, delay, (offset, out, back) => {
      const verdict = judgeOffset(offset + out, offset - back, 2);
      expect(verdict.lowNs!).toBeLessThanOrEqual(offset);
      expect(verdict.highNs!).toBeGreaterThanOrEqual(offset);
      expect(Math.abs(verdict.estimateNs - offset)).toBeLessThanOrEqual(
        (out + back) / 2 + 2e9 * Number(isZone(verdict.kind)),
      );
      if (offset === 0) expect(verdict.kind).toBe("none");
    }),
  );
});

function isZone(kind: string): boolean {
  return kind === "time-zone" || kind === "tai-utc";
}

test("two directions: a plain offset is constant with the middle as estimate; a contradiction is unknown", () => {
  expect(judgeOffset(3e6 + 5000, 3e6 - 7000, 2)).toMatchObject({
    kind: "constant",
    estimateNs: 3e6 - 1000,
    lowNs: 3e6 - 7000,
    highNs: 3e6 + 5000,
  });
  expect(judgeOffset(100, 5000, 2).kind).toBe("unknown");
  expect(judgeOffset(37 * S + 1e6, 37 * S - 1e6, 2)).toMatchObject({ kind: "tai-utc", estimateNs: 37 * S });
});

// The share stated in the header: clocks wrong by up to a minute, at a delay of 5 ms.
test("a clock that is plainly wrong by up to a minute is taken for a time scale in about 3 % of cases", () => {
  let taken = 0;
  const steps = 24_000;
  for (let i = 0; i <= steps; i++) {
    if (recogniseOffset((-60 + (120 * i) / steps) * S + 5e6)?.kind === "tai-utc") taken++;
  }
  expect(taken / steps).toBeGreaterThan(0.02);
  expect(taken / steps).toBeLessThan(0.035);
});
