/**
 * RLI and its baselines on simulated queues, compared with the levels of the reference simulation on short traces. Seeds are fixed, so these tests do not fail
 * by chance. The limits are those for the whole trace of 10 s (bench/rli.ts).
 */
import { describe, expect, test } from "vitest";
import { rounds } from "../../tests/support/rounds.ts";
import { Kernels } from "../base/kernels.ts";
import { binomialCdf } from "../base/math/special.ts";
import { isNoAnswer } from "../estimators/estimator.ts";
import { simulate } from "../simulate/simulate.ts";
import { answeredByAll, baselineContestants } from "./baselines.ts";
import { ALL_FLOWS, flowErrors } from "./flow-errors.ts";
import { measureInterference } from "./interference.ts";
import { referenceInjector } from "./reference-injectors.ts";
import { rliAsWritten, rliScenario, runRli, SCHEMES, withReferences } from "./rli-experiment.ts";

const traffic = { durationS: 0.8 };

describe.each([
  // The link is faster than its input, so packets wait only for references.
  { utilisation: 0.2, limit: 0.01 },
  { utilisation: 0.55, limit: 0.33 },
  { utilisation: 0.7, limit: 0.3 },
  { utilisation: 0.88, limit: 0.33 },
  { utilisation: 0.95, limit: 0.1 },
])("at a utilisation of $utilisation", ({ utilisation, limit }) => {
  test("the adaptive scheme is within its limits, and its intervals hold what they promise", async () => {
    const run = await runRli(new Kernels(), { utilisation, traffic }, SCHEMES.adaptive);
    const [rli, left] = run.entries.map((e) => flowErrors(run.truth, e.answer.flows));
    expect(rli![0]!.median).toBeLessThanOrEqual(limit);
    if (utilisation >= 0.7) expect(rli![0]!.median!).toBeLessThanOrEqual(left![0]!.median!);
    if (utilisation === 0.88) expect(rli![2]!.median).toBeLessThanOrEqual(0.035);
    // 95 % intervals of tens of thousands of flows, which are not independent: one percentage point of tolerance.
    for (const { withinInterval } of rli!) expect(withinInterval).toBeGreaterThan(0.94);
    const { mean, stdev } = run.entries[0]!.answer.segment!;
    if (isNoAnswer(mean) || isNoAnswer(stdev)) throw new Error("the segment has no answer");
    expect(Math.abs(mean.valueNs / run.truth.meanNs - 1)).toBeLessThan(0.05);
    expect(Math.abs(stdev.valueNs / run.truth.stdevNs - 1)).toBeLessThan(0.1);
    expect(stdev.lowNs).toBeLessThanOrEqual(run.truth.stdevNs);
    expect(stdev.highNs).toBeGreaterThanOrEqual(run.truth.stdevNs);
    if (utilisation === 0.55 || utilisation === 0.7) {
      const fixed = await runRli(new Kernels(), { utilisation, traffic }, SCHEMES["1-in-300"]);
      const [all] = flowErrors(fixed.truth, fixed.entries[0]!.answer.flows);
      expect(rli![0]!.median!).toBeLessThanOrEqual(0.65 * all!.median!);
      // Using the backlog needs fewer references: the error is far smaller with either scheme.
      for (const name of ["adaptive", "1-in-300"] as const) {
        const setting = { utilisation, traffic };
        const backlogRun = await runRli(new Kernels(), setting, SCHEMES[name], [], { more: ",line=backlog" });
        const [backlog] = flowErrors(backlogRun.truth, backlogRun.entries[0]!.answer.flows);
        expect(backlog!.median!).toBeLessThanOrEqual(0.6 * rli![0]!.median!);
      }
    }
  });
});

/** 20 epochs of 0.08 s (HOPTIME_FULL=1: 40); the false alarm rate is 0.001. */
test("the segment's mean lies in its interval as often as it says", async () => {
  const epochs = rounds(20, 40);
  let inside = 0;
  const kernels = new Kernels();
  for (let seed = 1; seed <= epochs; seed++) {
    const setting = { utilisation: 0.8, seed, traffic: { durationS: 0.08 } };
    const run = await runRli(kernels, setting, SCHEMES.adaptive);
    const { mean } = run.entries[0]!.answer.segment!;
    if (!isNoAnswer(mean) && mean.lowNs <= run.truth.meanNs && run.truth.meanNs <= mean.highNs) inside++;
  }
  expect(binomialCdf(inside, epochs, 0.95), `${inside} of ${epochs}`).toBeGreaterThan(1e-3);
});

test("on the same flows RLI is ahead of RLI-L, that of the multiflow estimator, that of trajectory sampling", async () => {
  const run = await runRli(
    new Kernels(),
    { utilisation: 0.88, traffic },
    SCHEMES.adaptive,
    baselineContestants(),
  );
  const only = answeredByAll(run.entries);
  const median = Object.fromEntries(
    run.entries.map(({ name, answer }) => [
      name,
      flowErrors(run.truth, answer.flows, [ALL_FLOWS], { only })[0]!.median!,
    ]),
  );
  expect(median["rli"]!).toBeLessThan(median["rli-l"]!);
  expect(median["rli-l"]!).toBeLessThan(median["multiflow"]!);
  expect(median["multiflow"]!).toBeLessThan(median["trajectory"]!);
  // An order of magnitude better.
  expect(10 * median["rli"]!).toBeLessThan(median["multiflow"]!);
});

test("the baselines' means of the segment are right where they are exact or unbiased", async () => {
  const run = await runRli(
    new Kernels(),
    { utilisation: 0.7, traffic },
    SCHEMES.adaptive,
    baselineContestants(0.05),
  );
  const mean = (name: string) => {
    const found = run.entries.find((e) => e.name === name)!.answer.segment!.mean;
    if (isNoAnswer(found)) throw new Error(found.text);
    return found;
  };
  expect(mean("global-mean").valueNs / run.truth.meanNs).toBeCloseTo(1, 9);
  expect(mean("trajectory").lowNs).toBeLessThan(run.truth.meanNs);
  expect(mean("trajectory").highNs).toBeGreaterThan(run.truth.meanNs);
});

describe("injection", () => {
  const rows = (n: number) => Array.from({ length: n }, (_, i) => ({ timeNs: 1000 * i, bytes: 500 }));
  function sent(injection: Parameters<typeof referenceInjector>[0], n = 1000): number[] {
    const injector = referenceInjector(injection);
    const sendNs = new Float64Array(n);
    const packets = rows(n);
    const batch = {
      count: n,
      timeNs: Float64Array.from(packets, (p) => p.timeNs),
      wireLength: Uint32Array.from(packets, (p) => p.bytes),
    };
    injector.inspect(batch as never, sendNs, 0);
    return Array.from(sendNs).filter((t) => !Number.isNaN(t));
  }

  test("1-in-n goes ahead of every n-th packet", () => {
    expect(sent({ kind: "packets", every: 300 })).toEqual([0, 300_000, 600_000, 900_000]);
  });

  test("1-in-tau is sent when the time has come, not when a packet has", () => {
    expect(sent({ kind: "time", everyNs: 250_500 })).toEqual([0, 250_500, 501_000, 751_500]);
  });

  test("both: whichever comes first", () => {
    expect(sent({ kind: "either", every: 300, everyNs: 250_500 })).toEqual([0, 250_500, 501_000, 751_500]);
    expect(sent({ kind: "either", every: 200, everyNs: 250_500 })).toEqual([
      0, 200_000, 400_000, 600_000, 800_000,
    ]);
  });

  test("adaptive sends 1-in-10 where the queue is idle, 1-in-300 where it is full", () => {
    // 500 bytes per us are 4 Gbit/s.
    const idle = sent({ kind: "adaptive", drainBps: 40e9 }, 10_000).length;
    expect(idle).toBeGreaterThan(980);
    expect(idle).toBeLessThan(1020);
    const full = sent({ kind: "adaptive", drainBps: 4.2e9 }, 100_000).length;
    expect(full).toBeLessThan(360);
    expect(full).toBeGreaterThan(320);
  });

  test("references are packets among the others: they cost bandwidth and delay them", async () => {
    const setting = { utilisation: 0.7, traffic: { durationS: 0.5 } };
    const i = await measureInterference(new Kernels(), setting, SCHEMES.adaptive);
    expect(i.injectionRate).toBeGreaterThan(0.02);
    expect(i.bandwidthShare).toBeGreaterThan(0.001);
    expect(i.meanNs.with).toBeGreaterThan(i.meanNs.without);
    expect(i.meanNs.with).toBeLessThan(1.1 * i.meanNs.without);
    expect(i.lossRate.with).toBe(0);
  });

  test("behind the packet that triggers it a reference would hold that packet's transmission; ahead it does not", async () => {
    const kernels = new Kernels();
    const { scenario, drainBps } = await rliScenario(kernels, {
      utilisation: 0.2,
      traffic: { durationS: 0.05 },
    });
    const { scenario: with1 } = withReferences(scenario, SCHEMES["1-in-300"], drainBps);
    const alone = (64 * 8e9) / drainBps;
    let minimum = Infinity;
    for await (const packet of simulate(kernels, with1).packets()) {
      if (packet.own === "reference") minimum = Math.min(minimum, packet.delayNs!);
    }
    expect(minimum).toBeLessThanOrEqual(Math.ceil(alone));
  });
});

test("as written the line is read where packets arrive, and ours errs less than two thirds as much on the same packets", async () => {
  expect(
    rliAsWritten(1e9).map(({ name, parameters }) => [name, parameters["estimator"], parameters["line"]]),
  ).toEqual([
    ["rli", "rli", "arrival"],
    ["rli-l", "rli-l", "arrival"],
    ["ours", "rli", "backlog"],
  ]);
  const setting = { utilisation: 0.55, traffic: { durationS: 0.3 } };
  const options = { contestants: rliAsWritten };
  const { truth, entries } = await runRli(new Kernels(), setting, SCHEMES.adaptive, [], options);
  const [written, , ours] = entries.map(
    ({ answer }) => flowErrors(truth, answer.flows, [ALL_FLOWS])[0]?.median ?? 1,
  );
  expect(ours).toBeLessThan((2 / 3) * (written ?? 0));
});
