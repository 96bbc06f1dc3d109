import { expect, it } from "vitest";
import type { EstimatorAnswer, Interval, KnownFlows } from "../estimators/estimator.ts";
import { withFlowLosses } from "./flow-losses.ts";

const mean: Interval = { valueNs: 1e6, lowNs: 0.9e6, highNs: 1.1e6 };
const known: KnownFlows = {
  count: 3,
  hash: new Uint32Array(6),
  packets: Float64Array.of(100, 40, 7),
  received: Float64Array.of(96, 44, Number.NaN),
  bytes: new Float64Array(3),
  keyWords: new Uint32Array(30),
  complete: true,
};

function losses(appeared: number, edge = false, segmentToo = true, ofAll = mean) {
  const answer: EstimatorAnswer = {
    segment: segmentToo
      ? {
          ...{
            mean: ofAll,
            stdev: mean,
            sent: 5000,
            received: 5000,
            lost: appeared,
            packetsUsed: 5000,
            coverage: 1,
          },
          notes: [],
        }
      : null,
    flows: [0, 1, 2].map((flow) => ({
      ...{ flow, mean, stdev: mean, lost: flow === 2 ? 2 : null },
      packets: known.packets[flow] ?? null,
    })),
    notes: [],
  };
  return withFlowLosses(answer, known, { epochNs: 1e9, edge, byTime: true }).flows;
}

const lostOf = (...of: Parameters<typeof losses>) => losses(...of).map((f) => f.lost);
const leastOf = (...of: Parameters<typeof losses>) => losses(...of).map((f) => f.lostLow ?? f.lost);

it("is what was sent less what arrived, where both ends list the flow; the estimator's otherwise", () => {
  expect(lostOf(5)).toEqual([4, -4, 2]);
  // Of the estimator's loss, one packet may have been in flight at the end of the epoch.
  expect(leastOf(5)).toEqual([4, -4, 1]);
});

it("is not made up for by packets that nobody sent: far more appeared than were in flight", () => {
  // 5,000 packets/s x 1 ms are 5 in flight; of 40 packets in a second at most one is.
  expect(lostOf(400)).toEqual([4, -1, 2]);
});

it("is made up for by packets of a queue that was long at the cut, which the interval of the mean reaches up for", () => {
  expect(lostOf(400, false, true, { ...mean, highNs: 10e6 })).toEqual([4, -4, 2]);
});

it("is known less well where a capture began or ended: what was in flight then is in one of them only", () => {
  expect(leastOf(5, true)).toEqual([3, -5, 1]);
});

it("adds up over epochs where an estimator answers for flows alone", () => {
  expect(lostOf(0, false, false)).toEqual([4, -4, 2]);
});
