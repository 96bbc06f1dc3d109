import { describe, expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import type { SizeRequest } from "../estimator.ts";
import { probes } from "../lab/probes/probes.ts";
import { trajectory } from "../lab/trajectory/trajectory.ts";
import { rli } from "./rli.ts";
import { predictError, SIZE_ERRORS, SIZE_EVERY, SIZE_FLOWS } from "./size.ts";

const request: SizeRequest = {
  ...{ packets: 400_000, flows: 60_000, flowPackets: null, loss: [], epochNs: 1e9, variation: 1 },
  ...{ error: null, flowSize: null, memoryBytes: null, fixed: { drain: 4.2e9 } },
};

describe("size rli", () => {
  test("errors are those of the table at its points and lie between them elsewhere", () => {
    for (const { utilisation, errors } of SIZE_ERRORS) {
      for (const [r, every] of SIZE_EVERY.entries()) {
        for (const [c, flow] of SIZE_FLOWS.entries())
          expect(predictError(utilisation, every, flow)).toBeCloseTo(errors[r]![c]!, 9);
      }
      const middle = predictError(utilisation, 50, 30);
      expect(middle).toBeLessThan(predictError(utilisation, 100, 10));
      expect(middle).toBeGreaterThan(predictError(utilisation, 30, 100));
    }
    // Nothing is predicted beyond the table.
    expect(predictError(0.7, 1, 1e6)).toBe(predictError(0.7, 10, 1000));
  });

  test("a wanted error is met with the rarest references that do", () => {
    const answer = rli.sizing!.size({ ...request, error: 0.1, flowSize: 100 });
    const { every } = answer.references!;
    expect(Math.max(...answer.predictions.map((p) => p.relativeError!))).toBeLessThanOrEqual(0.1);
    expect(Math.max(...SIZE_ERRORS.map((s) => predictError(s.utilisation, every! + 1, 100)))).toBeGreaterThan(
      0.1,
    );
    expect(answer.references!.perSecond).toBeCloseTo(400_000 / every!, 6);
    expect(answer.parameters.buffer).toBeGreaterThanOrEqual(16 * every!);
    expect(answer.parameters.max).toBe(75_000);
    expect(answer.notes.join("\n")).toMatch(/basis: the reference traffic/);
  });

  test("what cannot be reached is refused with what can", () => {
    expect(() => rli.sizing!.size({ ...request, error: 0.01, flowSize: 10 })).toThrow(/an error of 14 %/);
    expect(() => rli.sizing!.size({ ...request, memoryBytes: 1000 })).toThrow(/too little memory/);
    expect(() => rli.sizing!.size({ ...request, reliability: 0.9 })).toThrow(/reliability/);
  });

  test("a memory budget bounds the table, and says which flows to keep", () => {
    const answer = rli.sizing!.size({ ...request, memoryBytes: 1e6 });
    expect(answer.memoryBytes).toBeLessThanOrEqual(1e6);
    expect(answer.parameters.max).toBeGreaterThan(3000);
    expect(answer.notes.join("\n")).toMatch(/select=flows/);
  });
});

describe("size rli in a small memory", () => {
  test("the tap holds no more than it, buffer and index included", () => {
    const kernels = new Kernels();
    for (const memoryBytes of [65_536, 262_144]) {
      const { parameters, memoryBytes: predicted } = rli.sizing!.size({ ...request, memoryBytes });
      const tap = rli.createTap({ kernels, role: "receiver", seed: 1n }, parameters);
      expect(predicted).toBeLessThanOrEqual(memoryBytes);
      expect(tap.memoryBytes + 128 * parameters.max).toBeLessThanOrEqual(memoryBytes);
      tap.free();
    }
  });
});

describe("size of the baselines", () => {
  test("probes: four times as many for half the error", () => {
    const at = (error: number) => probes.sizing!.size({ ...request, fixed: {}, error }).references!.perSecond;
    expect(at(0.01)).toBeCloseTo(2e4 / Math.PI, 3);
    expect(at(0.005) / at(0.01)).toBeCloseTo(4, 6);
    expect(() => at(1e-4)).toThrow(/probes per second/);
  });

  test("trajectory: the rate for a flow's error, and what is lost is not sampled", () => {
    const asked = { ...request, fixed: {}, loss: [0.1], error: 0.05, flowSize: 10_000 };
    const { parameters, predictions } = trajectory.sizing!.size(asked);
    const [mean, flow] = predictions;
    expect(flow!.relativeError).toBeCloseTo(0.05, 9);
    expect(flow!.packetsUsed).toBeCloseTo(parameters.rate * 9000, 6);
    expect(mean!.relativeError).toBeLessThan(0.05);
    expect(() => trajectory.sizing!.size({ ...asked, flowSize: 10 })).toThrow(/too few for an error/);
  });
});
