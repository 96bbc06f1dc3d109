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

describe("the payload of a full packet", () => {
  const onWire = (sent: [number, number][], arrived: [number, number][]) =>
    matchRanges(0, segments(sent, 0), segments(arrived, 300_000), 1e9)?.wirePayload;

  test("is not the rest of a segment that arrived alone", () => {
    expect(onWire([[2881, 4542]], [[4321, 4542]])).toBe(1440);
    // Short packets only: the long segment consists of them.
    const short = Array.from({ length: 20 }, (_, i): [number, number] => [100 * i, 100 * (i + 1)]);
    expect(onWire([[0, 2000]], short)).toBe(100);
  });

  test("is not a divisor of packets that differ in length", () => {
    // 1,024, 832 and 1,216 bytes, merged at both points.
    expect(
      onWire(
        [
          [0, 2048],
          [2048, 4096],
          [4096, 6144],
        ],
        [
          [0, 1024],
          [1024, 2880],
          [2880, 4928],
          [4928, 6144],
        ],
      ),
    ).toBe(1216);
  });
});
