import { expect, test } from "vitest";
import type { OpeningPair } from "../match/match-types.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { alignedOpening, expectedOpening } from "./opening.ts";

const MS = 1e6;
const ALIGN = 100 * MS;

/** Both directions, 55 and 0 ms, and a forward packet with about the difference of the other direction; and others. */
function opening(differenceNs = -1 * MS, others: OpeningPair[] = []): ExactMatcher {
  const pairs: OpeningPair[] = Array.from({ length: 100 }, (_, i) => ({
    atNs: i * MS,
    differenceNs: i % 2 === 0 ? 55 * MS + i : i,
    again: false,
    forward: i % 2 === 0,
    otherNs: Number.NaN,
  }));
  pairs[6] = { atNs: 6 * MS, differenceNs, again: true, forward: true, otherNs: Number.NaN };
  pairs.unshift(...others);
  return { opening: () => pairs.values(), repeated: { before: 2, after: 2 } } as unknown as ExactMatcher;
}

test("the first pairs of a flow whose direction is known are expected to have the delays of that direction", () => {
  // Equal to a delay of the other direction, too: that is no evidence of a clock that was set.
  for (const differenceNs of [-1 * MS, 1]) {
    const expected = expectedOpening(opening(differenceNs), 0n, ALIGN, true);
    expect(expected).toMatchObject({ judged: true, known: true });
    const ways = alignedOpening(expected!, 0n, ALIGN).ways!;
    expect(ways.forward.lowNs).toBeGreaterThan(50 * MS);
    expect(ways.reverse.lowNs).toBeLessThan(0);
    expect(ways.reverse.highNs).toBeLessThan(5 * MS);
  }
});

test("without known directions they may have the delays of either", () => {
  expect(expectedOpening(opening(), 0n, ALIGN, false)).toMatchObject({
    judged: true,
    known: false,
    ways: null,
  });
});

test("pairs that agree are no evidence of a clock that was set if the identical packets seen later fit", () => {
  const pair = { atNs: 0, differenceNs: -500 * MS, again: true, forward: true };
  const expectedLow = (otherNs: number) => {
    const others = [
      { ...pair, otherNs },
      { ...pair, atNs: 1, otherNs },
    ];
    return expectedOpening(opening(-1 * MS, others), 0n, ALIGN, true)?.lowNs;
  };
  expect(expectedLow(Number.NaN)).toBeLessThan(-300 * MS);
  expect(expectedLow(55 * MS)).toBeGreaterThan(50 * MS);
});
