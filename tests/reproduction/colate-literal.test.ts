/** COLATE as published: its equations hold where possible, but its estimates are wrong by orders of magnitude on traffic. */
import { describe, expect, it } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { median } from "../../src/base/math/regression.ts";
import { erf } from "../../src/base/math/special.ts";
import { Random } from "../../src/base/random.ts";
import { colate } from "../../src/estimators/colate/colate.ts";
import type { Estimator } from "../../src/estimators/estimator.ts";
import { isNoAnswer } from "../../src/estimators/estimator.ts";
import { denoise, noiseOfCounter, timeSum } from "../../src/estimators/lab/colate-literal/denoise.ts";
import { closedForm, virtualRepetitions } from "../../src/estimators/lab/colate-literal/deviation.ts";
import { colateLiteral } from "../../src/estimators/lab/colate-literal/literal.ts";
import { dumpAt, solveLiteral } from "../../src/estimators/lab/colate-literal/parameters.ts";
import { parseParameters } from "../../src/estimators/parameters.ts";
import { pickFlows, runFlows } from "../../src/evaluate/flow-runs.ts";
import { independentFlows, referenceQueue } from "../../src/simulate/presets.ts";

describe("on traffic", () => {
  it("the published estimator errs more than 100 times as much as the delay, where ours errs by per cents", async () => {
    const kernels = new Kernels();
    for (const scenario of [
      independentFlows({ traffic: { durationS: 2 } }),
      referenceQueue(0.7, { traffic: { durationS: 2 } }),
    ]) {
      const pairs = [
        { estimator: colateLiteral as Estimator, text: "n=65536,m=20,repetitions=1", seed: 3n },
        { estimator: colate as Estimator, text: "n=65536,m=2,vectors=1", seed: 3n },
      ].map((p) => ({ ...p, parameters: parseParameters(p.estimator, p.text) }));
      const run = await runFlows(kernels, scenario, pairs);
      const ids = [...run.flows.packets.keys()].filter((f) => run.flows.packets[f]! >= 300);
      const flows = pickFlows(run, ids);
      const errors = pairs.map(({ estimator, parameters, seed }, i) => {
        const answer = estimator.estimate({
          parameters,
          seed,
          ...run.sealed[i]!,
          flows,
          confidence: 0.95,
          epochNs: 2e9,
        });
        return median(
          answer.flows.map(({ flow, mean }) =>
            isNoAnswer(mean) ? Infinity : Math.abs(mean.valueNs / run.meanNs[ids[flow]!]! - 1),
          ),
        )!;
      });
      expect(errors[0]).toBeGreaterThan(100);
      expect(errors[1]).toBeLessThan(0.1);
    }
  });
});

describe("the deviation", () => {
  it("by 1,000 permutations is its closed form within 3 %, on any counters", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = new Random(seed);
      const x = Float64Array.from({ length: 20 }, () => random.normal() * 10 ** random.below(4) + 1e5);
      const repeated = virtualRepetitions(x, 1000, random.fork("permutations"));
      expect(Math.abs(repeated / closedForm(x) - 1), `seed ${seed}`).toBeLessThan(0.03);
    }
  });

  it("without noise and with the same draw at both ends is right in the mean over seeds, and as wide as sqrt(2 / (m - 1))", () => {
    const m = 20;
    const runs = 4000;
    let sum = 0;
    let squares = 0;
    for (let seed = 0; seed < runs; seed++) {
      const random = new Random(seed);
      const x = new Float64Array(m);
      let exact = 0;
      for (let i = 0; i < 500; i++) {
        const delay = random.exponential(100);
        x[random.below(m)]! += delay;
        exact += delay * delay;
      }
      // m times the sample variance of the counters divided by the sum of the squared delays.
      const ratio = closedForm(x) / exact;
      sum += ratio;
      squares += ratio * ratio;
    }
    const mean = sum / runs;
    // The mean has a standard deviation of 0.325 / sqrt(4000) = 0.005: 0.02 is four of them.
    expect(Math.abs(mean - 1)).toBeLessThan(0.02);
    const deviation = Math.sqrt(squares / runs - mean * mean);
    expect(Math.abs(deviation / Math.sqrt(2 / (m - 1)) - 1)).toBeLessThan(0.1);
  });

  it("gains nothing from more repetitions: what they converge to is wrong by as much", () => {
    const error = (repetitions: number) => {
      let sum = 0;
      for (let seed = 0; seed < 200; seed++) {
        const random = new Random(seed);
        const x = Float64Array.from({ length: 20 }, () => random.normal());
        // 20 counters of variance 1: sum of squares 20.
        sum += Math.abs(virtualRepetitions(x, repetitions, random) / 20 - 1);
      }
      return sum / 200;
    };
    expect(error(1000) / error(100)).toBeGreaterThan(0.95);
  });
});

describe("the equations", () => {
  it("(4) finds a flow's time sum where the others are spread evenly", () => {
    const counters = Float64Array.of(110, 120, 130, 140);
    // 96 other counters of 100: total 10,100; (100 x 500 - 4 x 10,100) / 96.
    expect(timeSum({ counters, total: 10_100, n: 100 })).toBeCloseTo(100, 9);
  });

  it("(7) is plain subtraction: the same noise is taken from every counter", () => {
    const point = { counters: Float64Array.of(5000, 6000, 9000, 4000), total: 1e6, n: 1000 };
    const w = denoise(point, 20_000);
    const differences = w.map((x, j) => point.counters[j]! - x);
    for (const d of differences) expect(d).toBeCloseTo(differences[0]!, 6);
    // The most likely value of a binomial is its mean, to within one.
    expect(Math.abs(noiseOfCounter(980_000, 1000) - 980)).toBeLessThan(1);
  });

  it("(13), (14), (15) and (22) are solved together", () => {
    const request = {
      ...{ memoryBits: 8 * 2 ** 20, reliability: 0.95, interval: 0.05, delayShare: 1 },
      ...{ minTimeSum: 1.5e9, maxTimeSum: 2e9 },
    };
    const { n, m, b, threshold } = solveLiteral(request);
    expect(n * b).toBeLessThanOrEqual(request.memoryBits);
    expect(n * (b + 1)).toBeGreaterThan(request.memoryBits);
    expect(m % 2).toBe(0);
    expect(threshold).toBeGreaterThanOrEqual(dumpAt({ n, b }));
    // (22) with the solution, before rounding to whole counters and bits: the promise A = (1 + 0.95) / 2 at B = 0.05.
    const k = Math.SQRT2 * inverseErf(0.975);
    const t = request.minTimeSum;
    const variance = (t / m) * (1 - 1 / m) + ((threshold - t) / n) * (1 - 1 / n);
    const right = (k * k * n * n * m * variance) / (n - m);
    expect(Math.sqrt(right) / (0.05 * t)).toBeGreaterThan(0.8);
    expect(Math.sqrt(right) / (0.05 * t)).toBeLessThan(1.25);
    expect(() => solveLiteral({ ...request, interval: 1e-9 })).toThrow("no n satisfies");
  });

  it("do not fit the paper's own example: b = 19, m = 20, n = 455,334, T = 8e10 for 1 MB, reliability 0.95, interval 0.05", () => {
    const [n, m, b, T] = [455_334, 20, 19, 8e10];
    // (13): 1 MB has fewer bits than that.
    expect(n * b).toBeGreaterThan(8 * 2 ** 20);
    // (15): the largest flow that fits has a time sum of 3.5e6 ...
    const maximum = (2 ** b - 1 - T / n) / (1 / m - 1 / n);
    expect(maximum).toBeLessThan(7e6);
    // ... and (22) needs at least 4e7 for the smallest, even if the clock shows nothing but delays (B = 0.05).
    const k = Math.SQRT2 * inverseErf(0.975);
    const needed = (t: number) => {
      const variance = (t / m) * (1 - 1 / m) + ((T - t) / n) * (1 - 1 / n);
      return (k * k * n * n * m * variance) / (n - m) <= (0.05 * t) ** 2;
    };
    expect(needed(maximum)).toBe(false);
    expect(needed(4e7)).toBe(false);
  });
});

function inverseErf(y: number): number {
  let [low, high] = [0, 6];
  for (let i = 0; i < 80; i++) {
    const x = (low + high) / 2;
    if (erf(x) < y) low = x;
    else high = x;
  }
  return low;
}
