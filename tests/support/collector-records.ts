/** Real records of two points for tests of a collector: simulated traffic, observed in memory. */
import { Kernels } from "../../src/base/kernels.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { formatFlowKey } from "../../src/capture/flow/flow-text.ts";
import type { CutPlan } from "../../src/epoch/cutter.ts";
import { type EpochRecord, encodeRecord } from "../../src/epoch/record.ts";
import { observeScenario } from "../../src/evaluate/observed-run.ts";
import type { SegmentTruth } from "../../src/evaluate/run-segment.ts";
import { maskedWords, maskWordsOf } from "../../src/query/segment/groups.ts";
import { RECEIVER, type Scenario, SENDER } from "../../src/simulate/scenario.ts";
import { frameRecord } from "../../src/transport/batch.ts";

export const POINTS = { from: SENDER, to: RECEIVER };

export interface ObservedRecords {
  records: EpochRecord[];
  /** Returns the records of one point. */
  of(point: string): EpochRecord[];
  /** Returns the true mean of all packets that arrived, grouped by a key. */
  meansOf(key: string): Map<string, number>;
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
  const { records: store, truth } = await observeScenario(new Kernels(), scenario, {
    cut,
    estimators: [...estimators],
  });
  const records = store.list().entries.map((entry) => store.readRecord(entry));
  const meansOf = (key: string) => groupMeans(truth, FlowKeySpec.parse(key));
  return { records, of: (point) => records.filter((r) => r.point === point), meansOf };
}

function groupMeans({ flows, flowMeanNs }: SegmentTruth, spec: FlowKeySpec): Map<string, number> {
  const masks = maskWordsOf(spec);
  const sums = new Map<string, { packets: number; delayNs: number }>();
  for (let f = 0; f < flows.count; f++) {
    const name = formatFlowKey(
      spec.describe(maskedWords(flows.keyWords.subarray(10 * f, 10 * f + 10), masks)),
    );
    const { packets, delayNs } = sums.get(name) ?? { packets: 0, delayNs: 0 };
    const own = flows.packets[f]!;
    sums.set(name, { packets: packets + own, delayNs: delayNs + own * flowMeanNs[f]! });
  }
  return new Map([...sums].map(([name, { packets, delayNs }]) => [name, delayNs / packets]));
}

export function message(records: readonly EpochRecord[]): Buffer {
  return Buffer.concat(records.flatMap((r) => frameRecord(encodeRecord(r))));
}
