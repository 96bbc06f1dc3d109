import { expect, it } from "vitest";
import { syntheticReport } from "../../../tests/support/synthetic-report.ts";
import { formatComparePrometheus } from "./compare-prometheus.ts";

it.each([
  ["good", 1],
  ["usable", 1],
  ["doubtful", 0],
  ["unusable", 0],
] as const)("clocks that are %s have the value %i", (trust, value) => {
  const report = syntheticReport();
  report.clock.trust = trust;
  const lines = formatComparePrometheus(report).split("\n");
  const samples = lines.filter((line) => line.startsWith("hoptime_clock_trusted{"));
  expect(samples).toEqual([expect.stringMatching(new RegExp(`trust="${trust}".*} ${value}$`))]);
});
