import { describe, expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { binomialCdf } from "../../base/math/special.ts";
import { runSegment } from "../../evaluate/run-segment.ts";
import type { Scenario } from "../../simulate/scenario.ts";
import { type Estimator, isNoAnswer } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { DelaySums } from "./delay-sums.ts";
import { globalMean } from "./global-mean/global-mean.ts";
import { multiflow } from "./multiflow/multiflow.ts";
import { probes } from "./probes/probes.ts";
import { trajectory } from "./trajectory/trajectory.ts";

const kernels = new Kernels();
const contestant = (estimator: Estimator, text = "") => ({
  estimator,
  parameters: parseParameters(estimator, text),
});

/** Delays that do not depend on the arrival time, so probes see what packets see. */
const scenario = (seed: number): Scenario => ({
  seed,
  traffic: { kind: "population", ratePps: 1e5, packets: 20_000, flows: 300 },
  path: [{ kind: "delay", model: { kind: "exponential", meanNs: 50_000 } }],
  probes: { ratePps: 2000 },
});

/** 100 epochs of about 400 probes: 80 or fewer of 100 at 90 % has a false-alarm rate of 0.002. */
test("the mean of probes lies in its interval as often as it says", async () => {
  let [mean, stdev] = [0, 0];
  for (let seed = 1; seed <= 100; seed++) {
    const run = await runSegment(kernels, scenario(seed), [contestant(probes)], { confidence: 0.9 });
    const { segment } = run.entries[0]!.answer;
    expect(segment!.packetsUsed).toBeGreaterThan(300);
    expect(segment!.received).toBe(run.truth.packets);
    for (const quantity of ["mean", "stdev"] as const) {
      const interval = segment![quantity];
      const exact = quantity === "mean" ? run.truth.meanNs : run.truth.stdevNs;
      if (isNoAnswer(interval) || exact < interval.lowNs || exact > interval.highNs) continue;
      if (quantity === "mean") mean++;
      else stdev++;
    }
  }
  expect(binomialCdf(mean, 100, 0.9), `mean: ${mean} of 100`).toBeGreaterThan(0.002);
  expect(binomialCdf(stdev, 100, 0.9), `deviation: ${stdev} of 100`).toBeGreaterThan(0.002);
});

test("sampling every packet, trajectory sampling is exact, and endpoints are a flow's first and last packet", async () => {
  const run = await runSegment(
    kernels,
    { ...scenario(3), path: [{ kind: "delay", model: { kind: "constant", ns: 5000 } }] },
    [
      contestant(trajectory, "rate=1"),
      contestant(multiflow, "rate=1,decoder=endpoint"),
      contestant(multiflow, "rate=1"),
    ],
  );
  expect(run.entries[0]!.answer.segment).toMatchObject({ packetsUsed: 20_000, lost: 0 });
  for (const { answer } of run.entries) {
    for (const { flow, mean } of answer.flows) {
      expect(mean).toMatchObject({ valueNs: run.truth.flowMeanNs[flow] });
    }
  }
});

test("the multiflow estimator lends a flow the delays of others between its first and last packet", async () => {
  const run = await runSegment(kernels, scenario(4), [
    contestant(multiflow, "rate=0.2"),
    contestant(multiflow, "rate=0.2,decoder=endpoint"),
  ]);
  const [many, two] = run.entries.map(({ answer }) => {
    const errors = answer.flows.flatMap(({ flow, mean }) =>
      isNoAnswer(mean) || run.truth.flows.packets[flow]! < 50
        ? []
        : [Math.abs(mean.valueNs / run.truth.flowMeanNs[flow]! - 1)],
    );
    return errors.sort((a, b) => a - b)[errors.length >> 1]!;
  });
  expect(many!).toBeLessThan(two! / 2);
});

/** About 1,000 flows each: with honest intervals, fewer than 92 % would hold in one run of 10,000. */
test.each([
  ["a latency per flow", { kind: "delay", model: { kind: "per-flow" } }],
  ["a queue", { kind: "queue", utilisation: 0.85 }],
] as const)("means of flows lie in their intervals though delays are lent: %s", async (_, hop) => {
  const traffic = { kind: "synthetic", ratePps: 100_000, durationS: 1 } as const;
  const run = await runSegment(
    kernels,
    { seed: 5, traffic, path: [hop] },
    [contestant(multiflow, "rate=0.05"), contestant(globalMean)],
    { confidence: 0.95 },
  );
  for (const [i, { answer }] of run.entries.entries()) {
    let [held, answered] = [0, 0];
    for (const { flow, mean, packets } of answer.flows) {
      const exact = run.truth.flowMeanNs[flow]!;
      if (packets! < 10 || isNoAnswer(mean) || Number.isNaN(exact)) continue;
      answered++;
      if (mean.lowNs <= exact && exact <= mean.highNs) held++;
    }
    expect(answered).toBeGreaterThan(500);
    expect(held / answered, `${["multiflow", "global-mean"][i]}`).toBeGreaterThan(0.92);
  }
});

describe("exact sums", () => {
  test("hold squares beyond 2^53 to the last digit, and merge", () => {
    const delays = Array.from({ length: 5000 }, (_, i) => (i % 2 === 0 ? 1 : -1) * (4e12 - 7919 * i));
    const sums = new DelaySums();
    sums.addAll(delays, () => true, 0, delays.length);
    const squares = delays.reduce((s, d) => s + BigInt(d) * BigInt(d), 0n);
    expect(sums.squares).toBe(squares);
    expect(sums.sum).toBe(delays.reduce((s, d) => s + BigInt(d), 0n));
    const sealed = { payload: sums.encode(1), packets: 5000 };
    const twice = DelaySums.decode("x", DelaySums.merge("x", sealed, sealed)).sums;
    expect(twice.squares).toBe(2n * squares);
  });

  test("leave out what is no delay", () => {
    const sums = new DelaySums();
    sums.addAll([Number.NaN, 5, 2 ** 43, 7], (i) => i !== 3, 0, 4);
    expect(sums).toMatchObject({ count: 1, sum: 5n });
    expect(new DelaySums().moments()).toBeNull();
  });
});
