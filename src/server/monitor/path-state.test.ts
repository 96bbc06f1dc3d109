import { expect, test } from "vitest";
import { pathState } from "./path-state.ts";

const estimate = (fromPoint: string, toPoint: string, lost: number, lostError?: number) => ({
  ...{ fromPoint, toPoint, epochStartNs: 0, epochEndNs: 1e9, meanNs: 1e6, lowNs: 9e5, highNs: 1.1e6 },
  ...{ stdevNs: null, packets: 1000, lost, ...(lostError === undefined ? {} : { lostError }) },
});

test("packets in flight over the ends of an epoch are neither lost nor gained on a path", () => {
  const row = [
    estimate("a", "b", -71, 40),
    estimate("b", "c", 30, 40),
    estimate("c", "d", 200, 40),
    estimate("d", "e", 7),
    estimate("e", "f", 5, Number.POSITIVE_INFINITY),
  ];
  const { segments } = pathState([..."abcdef"], { startNs: 0n, endNs: 1_000_000_000n, row });
  expect(segments.map((s) => s.lost)).toEqual([0, 0, 200, 7, null]);
  expect(segments.map((s) => s.lossRate)).toEqual([0, 0, 200 / 1200, 7 / 1007, null]);
});
