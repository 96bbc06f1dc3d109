import fc from "fast-check";
import { expect, test } from "vitest";
import { delayErrorOf, mergeDelayErrors, packDelayError, unpackDelayError } from "./delay-error.ts";

test("what a record keeps of an error is never less than it, and at most 0.8 % more", () => {
  const ns = fc.double({ min: 1e-3, max: 1e12, noNaN: true });
  fc.assert(
    fc.property(ns, ns, (packetNs, meanNs) => {
      const kept = unpackDelayError(packDelayError({ packetNs, meanNs }))!;
      for (const [was, is] of [
        [packetNs, kept.packetNs],
        [meanNs, kept.meanNs],
      ] as const) {
        expect(is).toBeGreaterThanOrEqual(was * (1 - 1e-7));
        expect(is).toBeLessThanOrEqual(was * 1.008);
      }
    }),
  );
  expect(unpackDelayError(packDelayError(null))).toBeNull();
});

test("gaps err independently, what is alike in all does not average out", () => {
  // Four gaps of 25 packets, each packet off by 10.
  const sums = { packets: 100, squares: 100 * 100, gapSquares: 4 * 250 ** 2, alike: 0 };
  expect(delayErrorOf(sums)).toEqual({ packetNs: 10, meanNs: 5 });
  expect(delayErrorOf({ ...sums, gapSquares: 0, alike: 300 })!.meanNs).toBe(3);
  expect(delayErrorOf({ ...sums, packets: 0 })).toBeNull();
});

test("two epochs as one: the mean's errors add by squares, a packet's are averaged", () => {
  const error = { packetNs: 10, meanNs: 4 };
  const both = mergeDelayErrors({ error, packets: 50 }, { error, packets: 50 })!;
  expect(both.packetNs).toBeCloseTo(10);
  expect(both.meanNs).toBeCloseTo(4 / Math.SQRT2);
});
