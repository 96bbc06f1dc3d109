/**
 * COLATE on simulated traffic, at the levels of the reference simulations: accuracy, coverage of the intervals, bits on disk, predicted sizes, the triangle of
 * senders and receivers, combined epochs; and on a real router. Seeds are fixed.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { formatCount } from "../../src/base/quantity.ts";
import type { EstimateReport } from "../../src/compare/estimate-report.ts";
import { compareWithEstimates } from "../../src/compare/estimates.ts";
import { encodeRecord } from "../../src/epoch/record.ts";
import { colate } from "../../src/estimators/colate/colate.ts";
import type { EstimatorAnswer, KnownFlows, SealedEpoch } from "../../src/estimators/estimator.ts";
import { isNoAnswer } from "../../src/estimators/estimator.ts";
import { parseParameters } from "../../src/estimators/parameters.ts";
import { runTriangle, type TriangleAnswer, type TriangleCase } from "../../src/evaluate/colate-triangle.ts";
import { type FlowRun, pickFlows, runFlows, scoreFlows } from "../../src/evaluate/flow-runs.ts";
import { independentFlows } from "../../src/simulate/presets.ts";
import { ROOT } from "../support/demo-captures.ts";
import { numberedRecord } from "../support/numbered-record.ts";

const kernels = new Kernels();
const SEED = 7n;

function ask(
  text: string,
  sealed: { sender: SealedEpoch; receiver: SealedEpoch },
  flows: KnownFlows | null,
  confidence = 0.95,
): EstimatorAnswer {
  const parameters = parseParameters(colate, text);
  return colate.estimate({ parameters, seed: SEED, ...sealed, flows, confidence, epochNs: 1e10 });
}

const pairOf = (text: string) => ({
  estimator: colate,
  parameters: parseParameters(colate, text),
  seed: SEED,
});
const lossOf = (probability: number) => ({ kind: "loss", model: "uniform", probability }) as const;

describe("on the reference traffic, each flow with a latency of its own, 65,536 counters, two per flow", () => {
  /** 26 bits of 256 ns are enough for 8.6 s of delays in a counter. */
  const lossless = "n=65536,m=2,vectors=1,check=0,b=26,unit=256,delay=1e6";
  let run: FlowRun;
  beforeAll(async () => {
    run = await runFlows(kernels, independentFlows(), [pairOf(lossless)]);
  });

  it("large flows are within 1 %, 93 of 100 within 5 %, those of hundreds of packets within 7 %", () => {
    const answer = ask(lossless, run.sealed[0]!, run.flows);
    const [hundreds, thousands] = scoreFlows(run, answer, [
      [100, 999],
      [1000, 9999],
    ]) as [ReturnType<typeof scoreFlows>[0], ReturnType<typeof scoreFlows>[0]];
    expect(thousands.answered).toBe(thousands.flows);
    expect(thousands.median).toBeLessThanOrEqual(0.01);
    expect(thousands.within5).toBeGreaterThanOrEqual(0.93);
    expect(hundreds.answered).toBe(hundreds.flows);
    expect(hundreds.median).toBeLessThanOrEqual(0.07);
    // About 3,650 flows; intervals of flows that share counters are not quite independent: six standard deviations of a binomial.
    expect(hundreds.inInterval).toBeGreaterThan(0.928);
    expect(hundreds.inInterval).toBeLessThan(0.985);
    expect(thousands.inInterval).toBeGreaterThan(0.9);
    // Nothing is lost: the mean over all packets is exact, except for the unit.
    const { mean, coverage, lost } = answer.segment!;
    let exact = 0;
    let packets = 0;
    for (const [f, n] of run.received.entries()) {
      exact += run.meanNs[f]! * n;
      packets += n;
    }
    expect(isNoAnswer(mean)).toBe(false);
    if (!isNoAnswer(mean)) expect(Math.abs(mean.valueNs - exact / packets)).toBeLessThan(1);
    expect({ coverage, lost }).toEqual({ coverage: 1, lost: 0 });
  });

  it("a record on disk takes 0.54 bits per packet", () => {
    const { payload, packets } = run.sealed[0]!.sender;
    const record = numberedRecord(1);
    const bytes = encodeRecord({
      ...record,
      estimator: "colate",
      payload,
      counters: { ...record.counters, packets },
    });
    expect((8 * bytes.length) / packets).toBeLessThan(0.55);
    // The sums cannot be compressed further: the record adds its head.
    expect(bytes.length).toBeLessThan(payload.length + 500);
  });

  it("with only the large flows known, they are still found, by either decoder", () => {
    const known = largeFlows(run, 100);
    for (const decoder of ["blup", "quick"]) {
      const answer = ask(`${lossless},decoder=${decoder}`, run.sealed[0]!, known.flows);
      const [thousands] = scoreFlows(run, renumber(answer, known.ids), [[1000, 9999]]);
      expect(thousands!.median, decoder).toBeLessThan(0.015);
      expect(thousands!.inInterval, decoder).toBeGreaterThan(0.9);
    }
  });
});

describe("with loss", () => {
  it("four vectors answer for large flows at 0.1 % and 1 %, one vector does not", async () => {
    // The same number of packets per counter as 65,536 have in ten seconds.
    const four = "n=26214,m=2";
    const one = "n=26214,m=2,vectors=1";
    for (const [probability, median] of [
      [0.001, 0.02],
      [0.01, 0.09],
    ] as const) {
      const scenario = independentFlows({ seed: 2, traffic: { durationS: 4 }, loss: lossOf(probability) });
      const run = await runFlows(kernels, scenario, [pairOf(four), pairOf(one)]);
      const [some, all] = scoreFlows(run, ask(four, run.sealed[0]!, run.flows), [
        [1000, 9999],
        [100, Number.POSITIVE_INFINITY],
      ]);
      expect(some!.answered / some!.flows).toBeGreaterThan(0.98);
      expect(some!.median).toBeLessThan(median);
      // About 1,700 flows: four standard deviations of a binomial.
      expect(all!.inInterval).toBeGreaterThan(0.928);
      const [few] = scoreFlows(run, ask(one, run.sealed[1]!, run.flows), [[1000, 9999]]);
      expect(few!.answered / few!.flows).toBeLessThan(0.7);
    }
  });
});

describe("sizes", () => {
  it("predict the error and the reliability of flows by their size", async () => {
    for (const [text, fixed, loss] of [
      ["n=16384,m=2,vectors=1", { n: 16_384, m: 2, vectors: [1] }, 0],
      ["n=32768,m=4", { n: 32_768, m: 4, vectors: [0.75, 0.2, 0.04, 0.01] }, 0.001],
    ] as const) {
      const scenario = independentFlows({
        seed: 5,
        traffic: { durationS: 4 },
        ...(loss > 0 ? { loss: lossOf(loss) } : {}),
      });
      const run = await runFlows(kernels, scenario, [pairOf(text)]);
      const answer = ask(text, run.sealed[0]!, run.flows);
      const { packets } = run.sealed[0]!.sender;
      const size = colate.sizing!.size({
        ...{ packets, flows: run.flows.count, flowPackets: run.flows.packets, loss: [loss], epochNs: 4e9 },
        // Of the delays over all packets: lognormal flows of sigma 0.75, with a jitter of 30 %.
        ...{ variation: 0.955, error: null, flowSize: 300, interval: 0.05, memoryBytes: null, fixed },
      });
      expect(Math.abs(size.payloadBytes / run.sealed[0]!.sender.payload.length - 1)).toBeLessThan(0.1);
      for (const p of [100, 300, 1000]) {
        const errors: number[] = [];
        for (const { flow, mean } of answer.flows) {
          const n = run.flows.packets[flow]!;
          if (n < p / 1.25 || n > p * 1.25 || isNoAnswer(mean)) continue;
          errors.push(Math.abs(mean.valueNs / run.meanNs[flow]! - 1));
        }
        const predicted = size.predictions.find((q) => q.quantity === `flows of ${formatCount(p)} packets`)!;
        const found = errors.sort((a, b) => a - b)[errors.length >> 1] ?? Number.NaN;
        const within = errors.filter((e) => e <= 0.05).length / errors.length;
        expect(predicted.relativeError! / found, `${text}: ${p} packets`).toBeGreaterThan(0.6);
        expect(predicted.relativeError! / found, `${text}: ${p} packets`).toBeLessThan(1.6);
        expect(Math.abs(predicted.reliability! - within), `${text}: ${p} packets`).toBeLessThan(0.15);
      }
    }
  });

  it("satisfy a wanted reliability, with fewer counters for larger flows", () => {
    const request = {
      packets: 1e6,
      flows: 1e5,
      flowPackets: null,
      loss: [0],
      epochNs: 1e9,
      variation: 1,
      error: null,
    };
    const rest = { reliability: 0.9, interval: 0.1, memoryBytes: null, fixed: { delay: 1e6 } };
    const [small, large] = [500, 5000].map((flowSize) =>
      colate.sizing!.size({ ...request, ...rest, flowSize }),
    );
    for (const [answer, p] of [
      [small!, 500],
      [large!, 5000],
    ] as const) {
      const asked = answer.predictions.find(
        (q) => q.quantity === `mean of flows of ${formatCount(p)} packets`,
      );
      expect(asked!.reliability).toBeGreaterThanOrEqual(0.9);
      // A delay of a millisecond needs fewer bits than the 48 for any delay.
      expect(answer.parameters.b).toBeLessThan(36);
    }
    expect(large!.parameters.n).toBeLessThan(small!.parameters.n / 4);
  });
});

/** Points A, B and C with a network each, every flow with its own delay: what A and B can say about the segment from A to B. */
describe("in a triangle of senders and receivers", () => {
  let answers: Record<TriangleCase, TriangleAnswer>;
  beforeAll(async () => {
    answers = await runTriangle(kernels, SEED);
  });

  it("a vector per peer answers as if there were one sender; it costs its memory once per peer", () => {
    const own = answers["a vector per peer"];
    const half = answers["a vector per peer in the same memory"];
    expect(own).toMatchObject({ coverage: 1, answered: 1, foreign: false });
    expect(half).toMatchObject({ coverage: 1, answered: 1, foreign: false });
    expect(own.median).toBeLessThan(0.02);
    // Half the counters for the same packets: about twice the error.
    expect(half.median).toBeLessThan(3 * own.median);
    expect(half.memoryBytes).toBeLessThan(0.51 * own.memoryBytes);
    expect(own.memoryBytes).toBe(2 * answers["not separated"].memoryBytes);
  });

  it("traffic that is not separated leaves next to no counter usable, and the answer says so", () => {
    const mixed = answers["not separated"];
    expect(mixed.coverage).toBeLessThan(0.05);
    expect(mixed.foreign).toBe(true);
    expect(mixed.answered).toBeLessThan(0.05);
  });
});

/** Returns a list of only the flows with at least this many packets. */
function largeFlows(run: FlowRun, minimum: number): { flows: KnownFlows; ids: number[] } {
  const ids = [...run.flows.packets.keys()].filter((f) => run.flows.packets[f]! >= minimum);
  return { flows: pickFlows(run, ids), ids };
}

function renumber(answer: EstimatorAnswer, ids: readonly number[]): EstimatorAnswer {
  return { ...answer, flows: answer.flows.map((f) => ({ ...f, flow: ids[f.flow]! })) };
}

const folder = join(
  process.env["HOPTIME_SHARED"] ?? join(ROOT, "..", "shared"),
  "traces",
  "twopoint",
  "linux-router",
);
const missing = !existsSync(folder);
if (missing) console.log(`skipped: ${folder} is not there (HOPTIME_SHARED names the folder)`);

describe.skipIf(missing)("on a real router that lost 5 % of its packets", () => {
  it("the six largest flows have intervals that contain the exact means", async () => {
    const captures = {
      before: join(folder, "router-busy-in.pcap.gz"),
      after: join(folder, "router-busy-out.pcap.gz"),
    };
    const plans = [{ estimator: colate, parameters: parseParameters(colate, "m=64") }];
    const report = await compareWithEstimates(captures, { plans });
    const estimate = report.estimates!["colate"] as EstimateReport;
    const largest = [...estimate.flows!].sort((a, b) => b.packets! - a.packets!).slice(0, 6);
    for (const { packets, meanNs, lowNs, highNs, exactMeanNs } of largest) {
      expect(packets).toBeGreaterThan(2000);
      expect(lowNs!).toBeLessThanOrEqual(exactMeanNs!);
      expect(highNs!).toBeGreaterThanOrEqual(exactMeanNs!);
      expect(Math.abs(meanNs! / exactMeanNs! - 1)).toBeLessThan(0.02);
      // A useful interval: within 1/20 of the mean.
      expect(highNs! - lowNs!).toBeLessThan(0.05 * exactMeanNs!);
    }
    // A sketch counts packets that no router forwards as lost; the exact match knows them.
    expect(estimate.lost).toBeGreaterThanOrEqual(report.segment.lost);
    expect(estimate.lost).toBeLessThanOrEqual(report.segment.lost + report.segment.linkLocal);
    expect(estimate.coverage).toBeLessThan(0.3);
    expect(estimate.notes.join()).toContain("of the packets received");
  });
});
