import { expect, it } from "vitest";
import type { SegmentEstimate } from "../estimators/estimator.ts";
import { arrivedOf, arrivedOfFlow } from "./in-flight.ts";

const mean = { valueNs: 1e6, lowNs: 0.9e6, highNs: 1.1e6 };

function arrived(sent: number | null, received: number, lost: number | null, measured?: number) {
  const segment: SegmentEstimate = {
    ...{ mean, stdev: mean, sent, received, lost, packetsUsed: 1, coverage: 1, notes: [] },
    ...(measured === undefined ? {} : { measured }),
  };
  return arrivedOf(segment, 1e9);
}

it("is what was received, of an epoch whose packets at the receiver only may have been in flight", () => {
  // 5,000 packets/s x 1 ms: 5 in flight.
  expect(arrived(5000, 4990, 12)).toBe(4990);
  expect(arrived(null, 5000, null)).toBe(5000);
  expect(arrived(5000, 5002, null)).toBe(5002);
});

it("leaves out what the sender never captured: foreign packets, copies, a capture that began late", () => {
  expect(arrived(4000, 4900, 100)).toBe(3900);
  expect(arrived(4000, 4900, null)).toBe(4000);
  expect(arrived(null, 4900, null, 3000)).toBe(3000);
});

it("is of a flow what both ends list, where more arrived than may have been in flight", () => {
  expect(arrivedOfFlow({ lost: -2 }, 40, 42)).toBe(42);
  expect(arrivedOfFlow({ lost: -2 }, 40, 90)).toBe(42);
  expect(arrivedOfFlow({ lost: 3 }, 40, null)).toBe(37);
  expect(arrivedOfFlow({ lost: null, measured: 7 }, 40, 30)).toBe(7);
  expect(arrivedOfFlow({ lost: null }, null, null)).toBeNull();
});
