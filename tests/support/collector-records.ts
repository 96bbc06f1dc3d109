/** Real records of two points for tests of a collector: simulated traffic, observed in memory. */
import { Kernels } from "../../src/base/kernels.ts";
import type { CutPlan } from "../../src/epoch/cutter.ts";
import { type EpochRecord, encodeRecord } from "../../src/epoch/record.ts";
import { observeScenario } from "../../src/evaluate/observed-run.ts";
import { RECEIVER, type Scenario, SENDER } from "../../src/simulate/scenario.ts";
import { frameRecord } from "../../src/transport/batch.ts";

export const POINTS = { from: SENDER, to: RECEIVER };

export interface ObservedRecords {
  records: EpochRecord[];
  /** Of one point. */
  of(point: string): EpochRecord[];
}

export async function observedRecords(
  estimators: readonly string[],
  {
    seconds = 5,
    ratePps = 400,
    seed = 5,
    flows = 12,
    spike,
    cut = { mode: "aligned", lengthNs: 1_000_000_000n },
  }: {
    seconds?: number;
    ratePps?: number;
    seed?: number;
    flows?: number;
    spike?: number;
    cut?: CutPlan;
  } = {},
): Promise<ObservedRecords> {
  const scenario: Scenario = {
    seed,
    traffic: { kind: "population", ratePps, durationS: seconds, flows },
    path: [
      {
        kind: "delay",
        model: { kind: "uniform", lowNs: 100_000 + (spike ?? 0), highNs: 300_000 + (spike ?? 0) },
      },
    ],
  };
  const { records: store } = await observeScenario(new Kernels(), scenario, {
    cut,
    estimators: [...estimators],
  });
  const records = store.list().entries.map((entry) => store.readRecord(entry));
  return { records, of: (point) => records.filter((r) => r.point === point) };
}

export function message(records: readonly EpochRecord[]): Buffer {
  return Buffer.concat(records.flatMap((r) => frameRecord(encodeRecord(r))));
}
