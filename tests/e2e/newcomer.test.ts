/** An estimator that is added as one line of table.ts is listed, compared, raced and in the frontier figure, without any other change. */
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { compareCommand } from "../../src/cli/compare.ts";
import { estimatorsCommand } from "../../src/cli/estimators.ts";
import { evaluateCommand } from "../../src/cli/evaluate.ts";
import { ESTIMATORS } from "../../src/estimators/table.ts";
import { racing, runRace } from "../../src/evaluate/race/race.ts";
import { simulatedSegment } from "../../src/evaluate/race/simulated.ts";
import { beyondFindings } from "../../src/evaluate/reproduce/beyond.ts";
import { drawFigure } from "../../src/present/figure/draw.ts";
import { independentFlows } from "../../src/simulate/presets.ts";
import { ROOT } from "../support/demo-captures.ts";

vi.mock("../../src/estimators/table.ts", async (original) => {
  const { ESTIMATORS } = await original<typeof import("../../src/estimators/table.ts")>();
  const { pairedSums } = await import("../support/paired-sums.ts");
  const { findAmong } = await import("../../src/estimators/parameters.ts");
  const table = [...ESTIMATORS, pairedSums];
  return { ESTIMATORS: table, findEstimator: (name: string) => findAmong(table, name) };
});

const CAPTURES = ["router-in", "router-out"].map((name) => join(ROOT, `demo/${name}.pcap.gz`));

/** Returns the output of a command. */
async function printed(run: () => Promise<unknown>): Promise<string> {
  const out = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    await run();
    return out.mock.calls.map(([text]) => String(text)).join("");
  } finally {
    out.mockRestore();
  }
}

test("hoptime estimators lists and describes it", async () => {
  expect(ESTIMATORS.at(-1)?.name).toBe("paired-sums");
  const list = await printed(() => estimatorsCommand().parseAsync([], { from: "user" }));
  expect(list).toMatch(/paired-sums +segment, flow +sums of times in cells/);
  const one = await printed(() => estimatorsCommand().parseAsync(["paired-sums"], { from: "user" }));
  expect(one).toMatch(/columns +1024 +cells of a tap/);
});

test("hoptime compare runs it beside the exact match, with parameters of its own", async () => {
  const words = ["--estimators", "paired-sums", "--paired-sums", "columns=4096", "--json"];
  const command = await compareCommand(words);
  expect(command.options.find((o) => o.long === "--estimators")?.description).toContain("paired-sums");
  const text = await printed(() => command.parseAsync([...CAPTURES, ...words], { from: "user" }));
  const { estimates, segment } = JSON.parse(text);
  const found = estimates["paired-sums"];
  expect(found).toMatchObject({ parameters: "columns=4096", exactMeanNs: segment.latency.meanNs });
  // A flow without loss, alone in its cell, has its exact mean.
  const answered: { meanNs: number; exactMeanNs: number }[] = found.flows.filter(
    (f: { meanNs: number | null }) => f.meanNs !== null,
  );
  const exact = answered.filter((f) => Math.abs(f.meanNs - f.exactMeanNs) < 1);
  expect(exact.length).toBeGreaterThan(0.8 * answered.length);
  expect(answered.length).toBeGreaterThan(0.3 * found.flows.length);
});

test("hoptime evaluate races it", async () => {
  const words = ["--estimators", "lds,paired-sums", "--paired-sums", "columns=4096", "--json"];
  const text = await printed(() =>
    evaluateCommand().parseAsync([...CAPTURES, "--memory", "128kB", ...words], { from: "user" }),
  );
  const { rows } = JSON.parse(text).budgets[0].races[0];
  expect(rows[1]).toMatchObject({
    ...{ estimator: "paired-sums", parameters: "columns=4096", memoryBytes: 65_536, fits: true },
    ...{ needsDelays: false, atSender: true, usesList: true },
  });
  expect(rows[1].answered).toBeGreaterThan(0.3);
});

test("the frontier, calibration and cost have it: in the tables, and drawn in the figures", async () => {
  // All estimators of the table race there; two of them are enough for the figure.
  expect(racing().at(-1)?.name).toBe("paired-sums");
  const estimators = racing().filter((e) => ["global-mean", "paired-sums"].includes(e.name));
  const scenario = independentFlows({ seed: 5, traffic: { durationS: 0.02 } });
  const segment = simulatedSegment(new Kernels(), "own", scenario, { estimators, injectEvery: 50 });
  const race = await runRace(segment, { budget: null, estimators });
  const row = race.rows.find((r) => r.estimator === "paired-sums");
  expect(row?.segmentError).toBeLessThan(0.01);
  expect(row?.answered).toBeGreaterThan(0.9);
  const findings = beyondFindings("here", ["own", "again"], [[race], [race]]);
  for (const [id, { figures, table }] of Object.entries(findings)) {
    expect(
      table.rows.map((r) => r[0]?.split(" ")[0]),
      id,
    ).toContain("paired-sums");
    for (const figure of figures) expect(drawFigure(figure), id).toContain("paired-sums");
  }
});
