import { describe, expect, it } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { globalMean } from "../estimators/lab/global-mean/global-mean.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { independentFlows } from "../simulate/presets.ts";
import { RACE_CLASSES, type Race, type RaceRow, recommend, runRace } from "./race.ts";

const expected = { packets: 20_000, flows: 3000, loss: [], epochNs: 5e7 };
const scenario = independentFlows({ seed: 3, traffic: { durationS: 0.05 } });

describe("runRace", () => {
  it("runs every estimator of the table that answers anything, at the memory that was asked for", {
    timeout: 120_000,
  }, async () => {
    const { rows } = await runRace(new Kernels(), scenario, { memoryBytes: 65_536, expected });
    expect(rows.map((r) => r.estimator)).toEqual(
      ESTIMATORS.filter((e) => e.answers.length > 0).map((e) => e.name),
    );
    for (const row of rows) {
      if (row.sized) expect(row.memoryBytes, row.estimator).toBeLessThanOrEqual(1.1 * 65_536);
      expect(row.cpuNsPerPacket).toBeGreaterThanOrEqual(0);
    }
    expect(rows.filter((r) => r.sized).map((r) => r.estimator)).toEqual(
      expect.arrayContaining(["lda", "lds", "colate"]),
    );
    const lds = rows.find((r) => r.estimator === "lds");
    const mean = rows.find((r) => r.estimator === "global-mean");
    // Each flow has a latency of its own: a sketch of flows beats the mean of all.
    expect(lds?.classes[2]?.median ?? 1).toBeLessThan(0.3 * (mean?.classes[2]?.median ?? 0));
  });

  it("takes an estimator that nobody here knows", async () => {
    const own = { ...globalMean, name: "newcomer" };
    const { rows } = await runRace(new Kernels(), scenario, {
      memoryBytes: null,
      expected,
      estimators: [own],
    });
    expect(rows.map((r) => r.estimator)).toEqual(["newcomer"]);
    expect(rows[0]?.segmentError).toBeLessThan(1e-9);
  });
});

describe("recommend", () => {
  const row = (
    estimator: string,
    median: number,
    bitsPerPacket: number,
    more: Partial<RaceRow> = {},
  ): RaceRow => ({
    ...{ estimator, parameters: "", needsDelays: false, sized: true, memoryBytes: 1, bitsPerPacket },
    ...{ cpuNsPerPacket: 1, segmentError: 0, segmentInside: true },
    classes: RACE_CLASSES.map((c) => ({
      ...{ ...c, flows: 50, answered: 50, median, p75: median, p90: median, mean: median },
      ...{ withinInterval: 1, medianWidth: median },
    })),
    ...more,
  });
  const race = (...rows: RaceRow[]): Race => ({ packets: 1, flows: 1, meanNs: 1, rows });

  it("takes the smallest error, and of equals the one that exchanges less", () => {
    expect(recommend([race(row("a", 0.1, 1), row("b", 0.01, 9))])?.estimator).toBe("b");
    expect(recommend([race(row("a", 0.0101, 1), row("b", 0.01, 9))])?.estimator).toBe("a");
  });

  it("judges over all kinds of delay", () => {
    const races = [race(row("a", 0.001, 1), row("b", 0.01, 1)), race(row("a", 0.9, 1), row("b", 0.01, 1))];
    expect(recommend(races)?.estimator).toBe("b");
  });

  it("leaves out what needs each packet's delay, and what does not answer", () => {
    const silent = row("c", 0.001, 1);
    const classes = silent.classes.map((c) => ({ ...c, answered: 10 }));
    const rows = [row("a", 0.001, 1, { needsDelays: true }), { ...silent, classes }];
    expect(recommend([race(...rows)])).toBeNull();
    expect(recommend([race(...rows, row("b", 0.5, 1))])?.estimator).toBe("b");
  });
});
