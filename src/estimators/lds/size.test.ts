import { describe, expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { formatCount } from "../../base/quantity.ts";
import { Random } from "../../base/random.ts";
import { makePopulation, runPopulation, scorePopulation } from "../../evaluate/flow-population.ts";
import type { Estimator, SizeRequest } from "../estimator.ts";
import { sds } from "../lab/sds/sds.ts";
import { fitPareto, sizesFromCapture, sizesFromMean, survival } from "./flow-sizes.ts";
import { lds } from "./lds.ts";
import type { LdsParameters } from "./parameters.ts";

const request: SizeRequest = {
  packets: 7.8e6,
  flows: 146_000,
  flowPackets: null,
  loss: [],
  epochNs: 10e9,
  // Flow latencies of 100 or 320 µs: 110 over 210.
  variation: 110 / 210,
  error: null,
  flowSize: null,
  memoryBytes: null,
  fixed: {},
};

describe("flow sizes", () => {
  test("the Pareto law of the paper's trace follows from packets and flows alone: shape 0.8", () => {
    const sizes = sizesFromMean(7.8e6, 146_000);
    expect(sizes.shape).toBeCloseTo(0.8, 1);
    const random = new Random(1);
    let sum = 0;
    for (let i = 0; i < 400_000; i++) sum += sizes.draw(random);
    // The tail of the law makes the mean of 400,000 draws uncertain by 3 %.
    expect(Math.abs(sum / 400_000 / (7.8e6 / 146_000) - 1)).toBeLessThan(0.12);
  });

  test("a fit to sizes drawn from a Pareto law finds its shape", () => {
    for (const shape of [0.8, 1.1, 1.6]) {
      const random = new Random(shape);
      const sizes = Float64Array.from({ length: 30_000 }, () =>
        Math.floor((1 - random.float()) ** (-1 / shape)),
      );
      expect(Math.abs(fitPareto(sizes) / shape - 1)).toBeLessThan(0.03);
      const law = sizesFromCapture(sizes);
      expect(law.tail(50)).toBeCloseTo(sizes.filter((s) => s > 50).length / sizes.length, 10);
    }
  });

  test("survival is the paper's: 91 % of flows meet at most 50 packets with half as many cells as flows in one row, 98.5 % in four", () => {
    const sizes = { draw: () => 1, tail: (x: number) => (x === 50 ? 0.04375 : 0), shape: 0.8, largest: 1e5 };
    expect(survival(sizes, 2000, { rows: 1, columns: 1000, k: 1 }, 50)).toBeCloseTo(0.9125, 4);
    expect(survival(sizes, 2000, { rows: 4, columns: 250, k: 1 }, 50)).toBeCloseTo(0.985, 3);
  });
});

describe("predictions against simulation", () => {
  const population = makePopulation({ flows: 30_000, shape: 0.8, maxPackets: 40_000, seed: 12 });
  const classes = [
    [80, 125],
    [500, 1000],
    [1500, 3000],
  ] as const;
  const sizes = [100, 700, 2000];

  test.each([
    ["bp", "rows=4,columns=3600,k=1", 0],
    ["smallest", "rows=4,columns=3600,k=1", 0],
    ["bp", "rows=4,columns=18000,k=5,rates=1/.5/.1/.01", 0.001],
    ["bp", "rows=4,columns=18000,k=5,rates=1/.5/.1/.01", 0.01],
  ] as const)(
    "%s, %s, loss %d: the median error of a size class within a factor of 1.8",
    (decoder, text, loss) => {
      const fixed = Object.fromEntries(
        text.split(",").map((p) => {
          const [name, value] = p.split("=") as [string, string];
          return [name, name === "rates" ? value.split("/").map(Number) : Number(value)];
        }),
      );
      const answer = lds.sizing!.size({
        ...request,
        packets: population.packets,
        flows: null,
        flowPackets: Float64Array.from(population.size),
        loss: [loss],
        fixed: { ...fixed, decoder },
      });
      const run = runPopulation(
        new Kernels(),
        population,
        [{ estimator: lds as Estimator, parameters: answer.parameters, seed: 1n }],
        { loss },
      );
      const estimate = lds.estimate({
        parameters: answer.parameters,
        seed: 1n,
        ...run.sealed[0]!,
        flows: run.flows,
        confidence: 0.95,
        epochNs: 10e9,
      });
      const scores = scorePopulation(run, estimate, classes);
      for (const [i, score] of scores.entries()) {
        const asked = `of ${formatCount(sizes[i]!)} packets`;
        const predicted = answer.predictions.find((p) => p.quantity.endsWith(asked))!;
        const ratio = predicted.relativeError! / score.medianError;
        expect(
          ratio,
          `${sizes[i]} packets: ${predicted.relativeError} and ${score.medianError}`,
        ).toBeGreaterThan(1 / 1.8);
        expect(
          ratio,
          `${sizes[i]} packets: ${predicted.relativeError} and ${score.medianError}`,
        ).toBeLessThan(1.8);
      }
      const bytes = run.sealed[0]!.sender.payload.length;
      expect(Math.abs(answer.payloadBytes / bytes - 1)).toBeLessThan(0.15);
    },
  );
});

describe("choosing a size", () => {
  test("neither error nor budget: the paper's half as many cells as flows in four rows, k = 1", () => {
    const { parameters, notes } = lds.sizing!.size(request);
    expect(parameters).toMatchObject({ rows: 4, columns: 18_250, k: 1, rates: [1, 1, 1, 1] });
    expect(notes.join()).toMatch(/Pareto, shape 0\.79/);
    expect(notes.join()).toMatch(/sized for no loss/);
  });

  test("loss brings banks: the lowest rate is k over the losses of the largest flow", () => {
    const { parameters } = lds.sizing!.size({ ...request, loss: [0.001, 0.01] });
    expect(parameters.k).toBe(5);
    expect(parameters.rates[0]).toBe(1);
    expect(parameters.rates.at(-1)!).toBeCloseTo(5 / (0.01 * 156_000), 4);
  });

  test("a smaller error takes more columns, a budget is kept, and the impossible is refused", () => {
    const columns = (error: number) =>
      (
        lds.sizing!.size({ ...request, error, flowSize: 1000, fixed: { decoder: "smallest" } })
          .parameters as LdsParameters
      ).columns;
    const [rough, fine] = [columns(0.02), columns(0.005)];
    expect(fine).toBeGreaterThan(1.5 * rough);
    const budget = sds.sizing!.size({ ...request, memoryBytes: 300_000 });
    expect(budget.memoryBytes).toBeLessThanOrEqual(300_000);
    expect(budget.memoryBytes).toBeGreaterThan(299_000);
    expect(() => lds.sizing!.size({ ...request, memoryBytes: 500 })).toThrow(/too little memory/);
    expect(() => lds.sizing!.size({ ...request, flows: null })).toThrow(/number of flows/);
    expect(() =>
      lds.sizing!.size({ ...request, flows: 1000, packets: 1e5, loss: [0.9], error: 1e-6 }),
    ).toThrow(/no sketch/);
  });
});
