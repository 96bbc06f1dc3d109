/**
 * Measures how often the answer's interval contains the true value, over the whole chain: observe, seal, record, pair, and combine over the epochs, as `query`
 * does. The coverage is meaningless without the share of packets that were answered for, so every row contains both.
 *
 * A flow without an interval is neither a hit nor a miss: it is not part of `inside`, and its packets are missing in `answered`.
 */
import type { Kernels } from "../base/kernels.ts";
import { quantileSorted } from "../base/math/regression.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import type { RecordStore } from "../collect/record-store.ts";
import type { CutPlan } from "../epoch/cutter.ts";
import type { Answered } from "../query/segment/answer.ts";
import { askArchive } from "../query/segment/ask.ts";
import { RECEIVER, type Scenario, SENDER } from "../simulate/scenario.ts";
import { observeScenario } from "./observed-run.ts";
import type { SegmentTruth } from "./run-segment.ts";

export interface CoverageCase {
  name: string;
  estimators: readonly string[];
  /** Generates new traffic for a seed and observes it at both ends. */
  observe: (kernels: Kernels, seed: number, estimators: readonly string[]) => Promise<CoverageRun>;
}

export interface CoverageRun {
  records: RecordStore;
  truth: CoverageTruth;
  /** Removes the files that the run has written. */
  done?: () => void;
}

interface Exact {
  packets: number;
  meanNs: number;
  stdevNs: number;
}

/** Exact values over the packets that arrived, in total and by flow. */
export interface CoverageTruth extends Exact {
  lost: number;
  /** By flow key, formatted as text. */
  flows: Map<string, Exact>;
}

/** Observes a simulated segment in memory, without files. */
export async function observeSimulated(
  kernels: Kernels,
  scenario: Scenario,
  cut: CutPlan,
  estimators: readonly string[],
): Promise<CoverageRun> {
  const { records, truth, sent } = await observeScenario(kernels, scenario, {
    ...{ cut, estimators, seed: BigInt(scenario.seed ?? 0) },
  });
  const { packets, meanNs, stdevNs } = truth;
  return { records, truth: { packets, meanNs, stdevNs, lost: sent - packets, flows: flowsByText(truth) } };
}

/** Flow size classes by packets over the whole question, and one class for the segment. */
export const COVERAGE_CLASSES = ["segment", "1-9", "10-99", "100-999", "1000+"] as const;
export type CoverageClass = (typeof COVERAGE_CLASSES)[number];

export interface CoverageRow {
  case: string;
  estimator: string;
  class: CoverageClass;
  /** Number of flows in the class (for the segment: of runs), and of those with an interval for the mean. */
  asked: number;
  withMean: number;
  /** Number of intervals that contain the true mean. */
  inside: number;
  /** Median of (high - low) / truth of these intervals. */
  width: number | null;
  /** The same for the standard deviation. */
  withDeviation: number;
  deviationInside: number;
  /** Packets of the class, and those that the answers are based on. */
  packets: number;
  answered: number;
  /** Packets lost, and the losses that the segment's answers state; null for flows, and if no answer states losses. */
  lost: number | null;
  estimatedLost: number | null;
}

interface Tally extends CoverageRow {
  widths: number[];
}

export interface CoverageOptions {
  seeds: readonly number[];
  confidence?: number;
}

export async function measureCoverage(
  kernels: Kernels,
  one: CoverageCase,
  { seeds, confidence = 0.95 }: CoverageOptions,
): Promise<CoverageRow[]> {
  const tallies = new Map<string, Tally>();
  const tally = (estimator: string, size: CoverageClass): Tally => {
    const name = `${estimator} ${size}`;
    let found = tallies.get(name);
    if (!found) {
      const none = { asked: 0, withMean: 0, inside: 0, width: null, withDeviation: 0, deviationInside: 0 };
      const counts = { packets: 0, answered: 0, lost: null, estimatedLost: null };
      found = { case: one.name, estimator, class: size, ...none, ...counts, widths: [] };
      tallies.set(name, found);
    }
    return found;
  };
  for (const seed of seeds) {
    const run = await one.observe(kernels, seed, one.estimators);
    try {
      judgeRun(run, askAll(run.records, kernels, confidence), tally);
    } finally {
      run.done?.();
    }
  }
  const rows = [...tallies.values()].map(({ widths, ...row }) => ({
    ...row,
    width: quantileSorted(
      widths.sort((a, b) => a - b),
      0.5,
    ),
  }));
  const place = (r: CoverageRow) => COVERAGE_CLASSES.indexOf(r.class);
  return rows.sort((a, b) =>
    a.estimator < b.estimator ? -1 : a.estimator > b.estimator ? 1 : place(a) - place(b),
  );
}

const askAll = (records: RecordStore, kernels: Kernels, confidence: number) =>
  askArchive(records, { between: [SENDER, RECEIVER], top: Number.MAX_SAFE_INTEGER, confidence }, { kernels });

function judgeRun(
  { truth }: CoverageRun,
  { estimates, groups }: ReturnType<typeof askAll>,
  tally: (estimator: string, size: CoverageClass) => Tally,
): void {
  for (const [estimator, estimate] of Object.entries(estimates)) {
    const row = tally(estimator, "segment");
    judge(row, estimate, truth, estimate.answered.share);
    if (estimate.lost === null) continue;
    row.lost = (row.lost ?? 0) + truth.lost;
    row.estimatedLost = (row.estimatedLost ?? 0) + estimate.lost;
  }
  for (const group of groups) {
    const exact = truth.flows.get(group.text);
    // A flow that was lost completely has no true delay.
    if (exact) judge(tally(group.estimator, classOf(exact.packets)), group, exact, group.answered.share);
  }
}

/** Timestamps and true delays are whole ns, but their sums are rounded. */
const ROUNDING_NS = 1;

function judge(row: Tally, { latency }: Answered, exact: Exact, answeredShare: number | null): void {
  row.asked++;
  row.packets += exact.packets;
  row.answered += exact.packets * (answeredShare ?? (latency ? 1 : 0));
  if (!latency) return;
  row.withMean++;
  if (within(latency.lowNs, exact.meanNs, latency.highNs)) row.inside++;
  if (exact.meanNs !== 0) row.widths.push((latency.highNs - latency.lowNs) / Math.abs(exact.meanNs));
  const { stdevLowNs, stdevHighNs } = latency;
  if (stdevLowNs === null || stdevHighNs === null) return;
  row.withDeviation++;
  if (within(stdevLowNs, exact.stdevNs, stdevHighNs)) row.deviationInside++;
}

function within(low: number, value: number, high: number): boolean {
  return low - ROUNDING_NS <= value && value <= high + ROUNDING_NS;
}

function classOf(packets: number): CoverageClass {
  return packets < 10 ? "1-9" : packets < 100 ? "10-99" : packets < 1000 ? "100-999" : "1000+";
}

function flowsByText({ flows, flowMeanNs, flowStdevNs }: SegmentTruth): Map<string, Exact> {
  const spec = FlowKeySpec.parse();
  const out = new Map<string, Exact>();
  for (let i = 0; i < flows.count; i++)
    out.set(formatFlowKey(spec.describe(flows.keyWords.subarray(10 * i, 10 * (i + 1)))), {
      packets: flows.packets[i]!,
      meanNs: flowMeanNs[i]!,
      stdevNs: flowStdevNs[i]!,
    });
  return out;
}
