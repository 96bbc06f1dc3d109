/** Segment means when loss makes cells unusable: they are unbiased and inside their intervals. Fixed seeds that were not used for tuning. */
import { expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import type { CutPlan } from "../epoch/cutter.ts";
import { askArchive } from "../query/segment/ask.ts";
import { type Hop, RECEIVER, SENDER } from "../simulate/scenario.ts";
import { observeSimulated } from "./coverage.ts";

const ALIGNED: CutPlan = { mode: "aligned", lengthNs: 1_000_000_000n };

async function ask(seed: number, ratePps: number, path: Hop[], cut: CutPlan, estimators: readonly string[]) {
  const kernels = new Kernels();
  const scenario = { seed, traffic: { kind: "synthetic", ratePps, durationS: 6 } as const, path };
  const { records, truth } = await observeSimulated(kernels, scenario, cut, estimators);
  const question = { between: [SENDER, RECEIVER] as [string, string], top: 1, confidence: 0.95 };
  return { truth, ...askArchive(records, question, { kernels }) };
}

/** The sum of the per-flow answers was 0.4 % too low: they are shrunk towards a common mean, which slow flows hardly affect. */
test("lds: the mean of all packets is not drawn to that of most flows", async () => {
  const errors: number[] = [];
  let inside = 0;
  for (let seed = 61_001; seed <= 61_008; seed++) {
    const { estimates, truth } = await ask(
      seed,
      10_000,
      [
        { kind: "delay", model: { kind: "per-flow", medianNs: 400_000, sigma: 0.6, jitter: 0.3 } },
        { kind: "loss", model: "uniform", probability: 0.001 },
      ],
      ALIGNED,
      ["flows", "lds"],
    );
    const { latency } = estimates["lds"] ?? {};
    if (!latency) throw new Error("no answer");
    const error = latency.meanNs / truth.meanNs - 1;
    errors.push(error);
    if (latency.lowNs <= truth.meanNs && truth.meanNs <= latency.highNs) inside++;
    expect((latency.highNs - latency.lowNs) / truth.meanNs, `seed ${seed}`).toBeLessThan(0.02);
  }
  const mean = errors.reduce((a, b) => a + b, 0) / errors.length;
  expect(Math.abs(mean), errors.join()).toBeLessThan(0.0015);
  // At 95 % coverage, fewer than 6 of 8 have a probability of 1/170.
  expect(inside).toBeGreaterThanOrEqual(6);
});

/**
 * A queue of 200 packets that overflows: a quarter of the packets is lost. Up to a third of an epoch's packets were in flight when it began, with far longer
 * delays than those sent in it.
 */
test.each(["lda"])(
  "%s: each epoch's interval holds the mean of what arrived in it, also where a long queue was under way at the cut",
  async (name) => {
    let [inside, epochs, low] = [0, 0, 0];
    for (let seed = 62_001; seed <= 62_010; seed++) {
      const queue: Hop = {
        kind: "queue",
        utilisation: 1.3,
        capacityPackets: 200,
        propagationNs: 100_000,
      };
      const { estimates } = await ask(seed, 1000, [queue], ALIGNED, ["flows", name, "sds"]);
      const exact = new Map(estimates["sds"]?.series.map((row) => [row.startNs, row.latency?.meanNs]));
      for (const { startNs, latency } of estimates[name]?.series ?? []) {
        const truth = exact.get(startNs);
        if (!latency || !truth) continue;
        epochs++;
        if (latency.lowNs <= truth && truth <= latency.highNs) inside++;
        else if (latency.highNs < truth) low++;
      }
    }
    expect(epochs).toBeGreaterThanOrEqual(50);
    // At 95 % coverage, more than 1/9 is missed with a probability of 1/100; before the fix 14 % were, nearly all of them too low.
    expect(inside / epochs, `${inside} of ${epochs}, ${low} too low`).toBeGreaterThanOrEqual(8 / 9);
  },
);
