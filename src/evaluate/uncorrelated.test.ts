import { expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { compareUncorrelated, uncorrelatedScenarios } from "./uncorrelated.ts";

const scenarios = uncorrelatedScenarios({ traffic: { durationS: 0.8 } });

test.each(Object.keys(scenarios))("LDS is ahead of RLI where delays are uncorrelated: %s", async (name) => {
  const { rli, lds } = await compareUncorrelated(new Kernels(), scenarios[name]!);
  expect(rli.answered).toBeGreaterThan(100);
  expect(lds.answered).toBeGreaterThan(100);
  expect(lds.median!).toBeLessThan(rli.median! / 2);
});
