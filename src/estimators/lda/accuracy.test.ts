/**
 * The paper's synthetic setting, compared with the truth. The effective sample of a tuned bank is alpha e^-alpha m R/L: it depends on the loss rate, not on the
 * number of packets. So 500,000 packets per epoch show the errors of 5 million (bench/lda.ts runs those) in a tenth of the time.
 */
import { beforeAll, describe, expect, it } from "vitest";
import { rounds } from "../../../tests/support/rounds.ts";
import { Kernels } from "../../base/kernels.ts";
import { binomialCdf, lgamma } from "../../base/math/special.ts";
import { runBothEnds } from "../../evaluate/both-ends.ts";
import { WEIBULL_SHAPE, weibullScenario } from "../../evaluate/lda-scenarios.ts";
import { type Interval, isNoAnswer, type NoAnswer } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { lda } from "./lda.ts";
import { predict, weibullKurtosis } from "./size.ts";

const PACKETS = 500_000;
const RUNS = rounds(30, 60);
const LOSSES = [0.001, 0.01, 0.1] as const;
/** Two banks of 512 tuned to 0.5 % and 10 %. */
const TUNED = `packets=${PACKETS}`;
const CONFIDENCE = 0.95;
const moment = (k: number) => Math.exp(lgamma(1 + k / WEIBULL_SHAPE));
const VARIATION = Math.sqrt(moment(2) / moment(1) ** 2 - 1);

interface Outcome {
  meanError: number;
  deviationError: number;
  paperError: number;
  used: number;
  inMean: number;
  inDeviation: number;
  inBound: number;
}

const outcomes = new Map<number, Outcome>();

beforeAll(async () => {
  const kernels = new Kernels();
  for (const loss of LOSSES) {
    const o: Outcome = {
      meanError: 0,
      deviationError: 0,
      paperError: 0,
      used: 0,
      inMean: 0,
      inDeviation: 0,
      inBound: 0,
    };
    for (let run = 0; run < RUNS; run++) {
      const seed = BigInt(run + 1);
      const parameters = parseParameters(lda, TUNED);
      const scenario = weibullScenario({ packets: PACKETS, loss, seed: 100 + run });
      const { truth, sealed } = await runBothEnds(kernels, scenario, [{ estimator: lda, parameters, seed }]);
      const ask = (extra: object) =>
        lda.estimate({
          parameters: { ...parameters, ...extra },
          seed,
          ...sealed[0]!,
          flows: null,
          confidence: CONFIDENCE,
          epochNs: 1e9,
        }).segment!;
      const inside = (i: Interval | NoAnswer, exact: number) =>
        !isNoAnswer(i) && i.lowNs <= exact && exact <= i.highNs ? 1 : 0;
      const error = (i: Interval | NoAnswer, exact: number) =>
        isNoAnswer(i) ? 1 : Math.abs(i.valueNs / exact - 1);
      const { mean, stdev, packetsUsed } = ask({});
      const paper = ask({ deviation: "paper", interval: "bound" });
      o.meanError += error(mean, truth.meanNs) / RUNS;
      o.deviationError += error(stdev, truth.stdevNs) / RUNS;
      o.paperError += error(paper.stdev, truth.stdevNs) / RUNS;
      o.used += packetsUsed / RUNS;
      o.inMean += inside(mean, truth.meanNs);
      o.inBound += inside(paper.mean, truth.meanNs);
      o.inDeviation += inside(stdev, truth.stdevNs);
    }
    outcomes.set(loss, o);
  }
});

describe.each([
  { loss: 0.001, mean: 0.008, deviation: 0.04 },
  { loss: 0.01, mean: 0.013, deviation: 0.06 },
  { loss: 0.1, mean: 0.045, deviation: 0.09 },
])("at a loss of $loss", ({ loss, mean, deviation }) => {
  const outcome = () => outcomes.get(loss)!;

  it(`finds the mean within ${100 * mean} % and the deviation within ${100 * deviation} % on average`, () => {
    expect(outcome().meanError).toBeLessThan(mean);
    expect(outcome().deviationError).toBeLessThan(deviation);
  });

  it("finds the deviation better from residuals than by collapsing rows", () => {
    expect(outcome().deviationError).toBeLessThan(0.8 * outcome().paperError);
  });

  it("has the truth in its 95 % intervals as often as it says (false alarm 1e-3 each)", () => {
    const { inMean, inDeviation, inBound } = outcome();
    expect(binomialCdf(inMean, RUNS, CONFIDENCE), `mean: ${inMean} of ${RUNS}`).toBeGreaterThan(1e-3);
    expect(binomialCdf(inDeviation, RUNS, CONFIDENCE), `deviation: ${inDeviation}`).toBeGreaterThan(1e-3);
    // Bound (1) is an upper bound: 99.3 % at this confidence if the errors were normal.
    expect(binomialCdf(inBound, RUNS, 0.98), `bound: ${inBound}`).toBeGreaterThan(1e-3);
  });

  it("does as well as its size predicts, within the noise of 60 runs (false alarm 1e-3)", () => {
    const parameters = parseParameters(lda, TUNED);
    const request = {
      packets: PACKETS,
      flows: null,
      flowPackets: null,
      loss: [loss],
      epochNs: 1e9,
      variation: VARIATION,
      error: null,
      flowSize: null,
      memoryBytes: null,
      fixed: {},
    };
    const [meanPrediction, deviationPrediction] = predict(parameters, request, loss);
    // The mean of 60 half-normal errors has a relative standard deviation of 0.756/sqrt(60) = 9.8 %; the rest of the margin is for skew and burst losses.
    const ratio = outcome().meanError / meanPrediction!.relativeError!;
    expect(ratio, `mean ${outcome().meanError}`).toBeGreaterThan(0.66);
    expect(ratio, `mean ${outcome().meanError}`).toBeLessThan(1.4);
    const deviationRatio = outcome().deviationError / deviationPrediction!.relativeError!;
    expect(deviationRatio, `deviation ${outcome().deviationError}`).toBeGreaterThan(0.6);
    expect(deviationRatio, `deviation ${outcome().deviationError}`).toBeLessThan(1.5);
    expect(outcome().used / meanPrediction!.packetsUsed!).toBeGreaterThan(0.95);
    expect(outcome().used / meanPrediction!.packetsUsed!).toBeLessThan(1.05);
  });
});

it("predicts with the kurtosis of the Weibull delay that has the variation", () => {
  expect(weibullKurtosis(1)).toBeCloseTo(6, 6);
  // Shape 0.6, from the moments of the distribution.
  const [m1, m2, m3, m4] = [1, 2, 3, 4].map(moment) as [number, number, number, number];
  const variance = m2 - m1 * m1;
  const kurtosis = (m4 - 4 * m3 * m1 + 6 * m2 * m1 * m1 - 3 * m1 ** 4) / variance ** 2 - 3;
  expect(weibullKurtosis(VARIATION)).toBeCloseTo(kurtosis, 3);
});

describe("a size", () => {
  const request = {
    packets: 5e6,
    flows: null,
    flowPackets: null,
    loss: [0.01],
    epochNs: 1e9,
    variation: 1.76,
    error: 0.01,
    flowSize: null,
    memoryBytes: null,
    fixed: {},
  };

  it("is the smallest that reaches the error", () => {
    const { parameters, predictions, payloadBytes, bitsPerSecond, memoryBytes } = lda.sizing!.size(request);
    expect(predictions[0]).toMatchObject({ quantity: "mean", loss: 0.01 });
    expect(predictions[0]!.relativeError).toBeLessThanOrEqual(0.01);
    const fewer = parseParameters(lda, `packets=5e6,loss=0.01,rows=${(parameters["rows"] as number) - 1}`);
    expect(predict(fewer, request, 0.01)[0]!.relativeError).toBeGreaterThan(0.01);
    expect(bitsPerSecond).toBe(8 * payloadBytes);
    expect(memoryBytes).toBe(16 * (parameters["rows"] as number));
  });

  it("keeps to a memory budget, and says what cannot be had", () => {
    const { memoryBytes, predictions } = lda.sizing!.size({
      ...request,
      error: null,
      memoryBytes: 1000,
      loss: [0.001, 0.5],
    });
    expect(memoryBytes).toBeLessThanOrEqual(1000);
    expect(predictions).toHaveLength(4);
    expect(() => lda.sizing!.size({ ...request, error: null, memoryBytes: 10 })).toThrow(/too little memory/);
    expect(() => lda.sizing!.size({ ...request, error: 1e-7 })).toThrow(/no LDA/);
  });
});
