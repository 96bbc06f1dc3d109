/** An estimator that is one more line of table.ts is in every list, and in the race, without any other change. */
import { expect, test, vi } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { compareCommand } from "../../src/cli/compare.ts";
import { estimatorsCommand } from "../../src/cli/estimators.ts";
import { evaluateCommand } from "../../src/cli/evaluate.ts";
import type { Estimator } from "../../src/estimators/estimator.ts";
import { ESTIMATORS } from "../../src/estimators/table.ts";
import { racing, runRace } from "../../src/evaluate/race/race.ts";
import { simulatedSegment } from "../../src/evaluate/race/simulated.ts";
import { beyondFindings } from "../../src/evaluate/reproduce/beyond.ts";
import { independentFlows } from "../../src/simulate/presets.ts";

vi.mock("../../src/estimators/table.ts", async (original) => {
  const { ESTIMATORS, findEstimator } = await original<typeof import("../../src/estimators/table.ts")>();
  const { globalMean } = await import("../../src/estimators/lab/global-mean/global-mean.ts");
  const { findAmong } = await import("../../src/estimators/parameters.ts");
  const newcomer = {
    ...globalMean,
    name: "newcomer",
    title: "an estimator that is new",
    parameters: [{ name: "depth", kind: "integer", default: 3, min: 1, max: 9, help: "how deep" }],
    complete: (values: Record<string, unknown>) => values,
  } as unknown as Estimator;
  const table = [...ESTIMATORS, newcomer];
  return {
    ESTIMATORS: table,
    findEstimator: (name: string) => findAmong(table, name) ?? findEstimator(name),
  };
});

test("hoptime estimators, compare and evaluate list it", async () => {
  expect(ESTIMATORS.at(-1)?.name).toBe("newcomer");
  const out = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  await estimatorsCommand().parseAsync([], { from: "user" });
  const printed = out.mock.calls.map(([text]) => String(text)).join("");
  out.mockRestore();
  expect(printed).toMatch(/newcomer .*an estimator that is new/);
  const compare = await compareCommand(["--estimators", "newcomer"]);
  expect(compare.options.find((o) => o.long === "--estimators")?.description).toContain("newcomer");
  for (const command of [compare, evaluateCommand()])
    expect(command.options.some((o) => o.long === "--newcomer")).toBe(true);
});

test("the race and the frontier have it", async () => {
  expect(racing().map((e) => e.name)).toContain("newcomer");
  const kernels = new Kernels();
  const scenario = independentFlows({ seed: 5, traffic: { durationS: 0.02 } });
  const segment = simulatedSegment(kernels, "own", scenario, { estimators: racing(), injectEvery: 50 });
  const race = await runRace(segment, { budget: null });
  const row = race.rows.find((r) => r.estimator === "newcomer");
  expect(row?.segmentError).toBeLessThan(1e-9);
  const { frontier, calibration, cost } = beyondFindings("here", ["own", "again"], [[race], [race]]);
  for (const { figures, table } of [frontier, calibration, cost]) {
    for (const figure of figures.slice(0, 1))
      expect(figure.series.map((s) => s.name.split(" ")[0])).toContain("newcomer");
    expect(table.rows.map((r) => r[0]?.split(" ")[0])).toContain("newcomer");
  }
});
