import { describe, expect, test } from "vitest";
import { matchRanges } from "./byte-ranges.ts";
import type { LonePacket } from "./collect.ts";

/** Segments as [first byte, end], one every 10 µs. */
function segments(ranges: readonly [number, number][], startNs: number): LonePacket[] {
  return ranges.map(
    ([from, to], i) =>
      ({
        timeNs: startNs + i * 10_000,
        mark: from * 10_000 + to,
        payload: to - from,
        tcp: { sequence: from, header: 20, flags: 0, mss: null },
      }) as LonePacket,
  );
}
const matched = (sent: [number, number][], arrived: [number, number][]) =>
  matchRanges(0, segments(sent, 0), segments(arrived, 300_000), 1e9)?.matched ?? 0;

describe("short segments that overlap", () => {
  test("are different packets if nothing begins or ends where the others do", () => {
    expect(matched([[1000, 1028]], [[1025, 1085]])).toBe(0);
    expect(matched([[1000, 1060]], [[1004, 1032]])).toBe(0);
    expect(matched([[1004, 1032]], [[1000, 1060]])).toBe(0);
  });

  test("were merged if they are cut where packets of one length are", () => {
    expect(
      matched(
        [[1000, 1400]],
        [
          [1000, 1100],
          [1100, 1200],
          [1300, 1400],
        ],
      ),
    ).toBe(3);
    expect(
      matched(
        [
          [1100, 1200],
          [1300, 1400],
        ],
        [[1000, 1400]],
      ),
    ).toBe(2);
  });

  test("were merged if what arrived was sent in packets of any lengths", () => {
    expect(
      matched(
        [
          [1000, 1030],
          [1030, 1100],
          [1100, 1150],
        ],
        [[1000, 1150]],
      ),
    ).toBe(3);
  });
});

test("segments longer than a frame were merged wherever they are cut", () => {
  expect(matched([[1000, 6000]], [[2300, 3300]])).toBe(1);
});
