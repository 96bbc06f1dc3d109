import { expect, test } from "vitest";
import type { EnvelopePoints } from "./envelope.ts";
import { type ClockPiece, cutBeside, removedPieces } from "./pieces.ts";

function points(valueNs: readonly number[]): EnvelopePoints {
  const { length } = valueNs;
  const timeNs = Float64Array.from(valueNs, (_, i) => i * 1e9);
  return { timeNs, valueNs: Float64Array.from(valueNs), count: new Float64Array(length).fill(1), length };
}
const SLEWED = points([5e6, 5.2e6, 5.1e6, 5.4e6, 5.3e6, 5.05e6, 3.4e6]);

test("the last packet before a step is left out where a clock on its way there has made it too early", () => {
  expect(Array.from(cutBeside(SLEWED, Number.NEGATIVE_INFINITY, 7e9, 0).valueNs)).not.toContain(3.4e6);
  // At the end of a capture it is a packet like the others.
  expect(cutBeside(SLEWED, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, 0)).toHaveLength(7);
});

test("one that is within what the others differ by stays", () => {
  const usual = points([5e6, 5.2e6, 5.1e6, 5.4e6, 5.3e6, 5.05e6, 4.95e6]);
  expect(cutBeside(usual, Number.NEGATIVE_INFINITY, 7e9, 0)).toHaveLength(7);
});

test("a step is as uncertain as the smallest round trip beside it changes", () => {
  const piece = (fromNs: number | null, levelNs: number, reverseLevelNs: number): ClockPiece => ({
    fromNs,
    toNs: fromNs === null ? 1e9 : null,
    step: fromNs === null ? null : "clock",
    offset: { kind: "constant", estimateNs: 0, lowNs: -reverseLevelNs, highNs: levelNs, explanation: "" },
    levelNs,
    reverseLevelNs,
    spreadNs: 1e4,
    unseenNs: 0,
    besideNs: 0,
  });
  const pieces = [piece(null, 1e6, 1e6), piece(1e9, 1e9 + 1.5e6, 1e6 - 1e9)];
  const wishes = { twoWay: true, absolute: false, ambiguous: false, offsetOf: () => 0 };
  const [, second] = removedPieces(pieces, 1e6, wishes);
  expect(second).toMatchObject({ removedNs: 1e9 + 1.5e6, stepUncertaintyNs: 5e5 });
});
