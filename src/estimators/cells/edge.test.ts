import { expect, it } from "vitest";
import { type FlowEstimate, type Interval, isNoAnswer, type KnownFlows } from "../estimator.ts";
import { delayInFlight, type EdgeEvidence, flowsInFlight } from "./edge.ts";

const MS = 1e6;
const all: Interval = { valueNs: MS, lowNs: 0.9 * MS, highNs: 1.1 * MS };
const evidence: EdgeEvidence = {
  ...{ cutInFlight: true, cutByPackets: false, appeared: 100, missing: 0, received: 1100, epochNs: 1e9 },
  ...{ varianceNs2: MS ** 2, confidence: 0.95 },
};
const flows: KnownFlows = {
  ...{ count: 1, hash: new Uint32Array(2), bytes: new Float64Array(1), keyWords: new Uint32Array(10) },
  ...{ packets: Float64Array.of(100), received: Float64Array.of(110), complete: true },
};
const own: FlowEstimate = { flow: 0, mean: all, stdev: all, packets: 100, lost: -10 };

function flowMean(given: EdgeEvidence): Interval {
  const mean = flowsInFlight([own], flows, all, given)[0]?.mean;
  if (!mean || isNoAnswer(mean)) throw new Error("no mean");
  return mean;
}

it("reaches as far for a flow as a queue that was long at the cut may draw its mean", () => {
  const queued = flowMean({ ...evidence, atCut: { delayNs: 200 * MS, shown: 100 } });
  // Ten of 110 packets, or as many as a 200 ms queue holds, were in flight with that delay, half of it or twice.
  for (const delayNs of [100 * MS, 200 * MS, 400 * MS])
    for (const share of [10 / 110, 0.2]) {
      const truth = MS + share * (delayNs - MS);
      expect(queued.lowNs).toBeLessThan(truth);
      expect(queued.highNs).toBeGreaterThan(truth);
    }
  expect(queued.highNs).toBeLessThan(200 * MS);
});

it("stays near the mean for a flow where nothing shows that the delay at the cut was another", () => {
  for (const atCut of [null, { delayNs: 1.1 * MS, shown: 100 }])
    expect(flowMean({ ...evidence, atCut }).highNs).toBeLessThan(2 * MS);
});

it("knows about the delay of packets that overtook a delimiter what is known of single packets", () => {
  const byPackets = { ...evidence, cutInFlight: false, cutByPackets: true };
  const { inFlight } = delayInFlight(all, byPackets);
  expect(inFlight?.valueNs).toBe(MS);
  expect(inFlight?.highNs).toBeCloseTo(MS + Math.hypot(1.96, 0.1) * MS, -3);
  expect(delayInFlight(all, { ...byPackets, appeared: 0 })).toEqual({});
});
