import { expect, it } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { askArchive } from "../query/segment/ask.ts";
import { RECEIVER, SENDER } from "../simulate/scenario.ts";
import { observeScenario } from "./observed-run.ts";

it("clocks an epoch apart: sketches of two ends hold different packets, and claim neither delay nor loss; each packet's delay is known all the same", async () => {
  const kernels = new Kernels();
  const { records, truth } = await observeScenario(
    kernels,
    {
      seed: 41_501,
      traffic: { kind: "synthetic", ratePps: 4000, durationS: 3 },
      path: [{ kind: "queue", discipline: "droptail", utilisation: 0.8 }],
      clocks: { receiver: { offsetNs: 1_000_000_000 } },
    },
    { cut: { mode: "aligned", lengthNs: 1_000_000_000n }, estimators: ["lda", "lds", "sds"] },
  );
  const { estimates } = askArchive(records, { between: [SENDER, RECEIVER] }, { kernels });
  for (const name of ["lda", "lds"]) {
    expect(estimates[name], name).toMatchObject({ latency: null, lost: null, borrowed: [] });
    expect(estimates[name]!.series.length, name).toBeGreaterThan(0);
    // Nothing was lost, so no epoch may claim a certain loss.
    expect(
      estimates[name]!.series.every((row) => row.lost === 0 && row.lostLow === 0),
      name,
    ).toBe(true);
  }
  expect(estimates["sds"]!.latency!.meanNs).toBeCloseTo(truth.meanNs, 0);
});
