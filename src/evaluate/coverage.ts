/**
 * How often the truth lies in the interval that a question gets, over the whole question: observed, sealed, recorded, paired and combined over the epochs, as
 * `query` does it. A share of hits says nothing without the share of packets that were answered for, so both stand in every row.
 *
 * A flow that has no interval is no hit and no miss: it is left out of `inside`, and its packets are missing in `answered`.
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
  /** Traffic made anew for every seed, observed at both ends. */
  observe: (kernels: Kernels, seed: number, estimators: readonly string[]) => Promise<CoverageRun>;
}

export interface CoverageRun {
  records: RecordStore;
  truth: CoverageTruth;
  /** Removes what it has written. */
  done?: () => void;
}

interface Exact {
  packets: number;
  meanNs: number;
  stdevNs: number;
}

/** Of the packets that arrived, all and by flow. */
export interface CoverageTruth extends Exact {
  lost: number;
  /** By the key as people write it. */
  flows: Map<string, Exact>;
}

/** A simulated segment straight from memory. */
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

/** Packets of a flow over the whole question; the whole segment is a class of its own. */
export const COVERAGE_CLASSES = ["segment", "1-9", "10-99", "100-999", "1000+"] as const;
export type CoverageClass = (typeof COVERAGE_CLASSES)[number];

export interface CoverageRow {
  case: string;
  estimator: string;
  class: CoverageClass;
  /** Flows of the class (or runs, for the segment), and those that have an interval for the mean. */
  asked: number;
  withMean: number;
  /** Of those: the truth lies inside. */
  inside: number;
  /** Median of (high - low) / truth of those. */
  width: number | null;
  /** The same of deviations. */
  withDeviation: number;
  deviationInside: number;
  /** Packets of the class, and those that the answers are based on. */
  packets: number;
  answered: number;
  /** Packets that were lost, and what the answers for the segment say; null for flows, and where no answer says it. */
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
    // Sent, and lost whole: it has no delay to be right about.
    if (exact) judge(tally(group.estimator, classOf(exact.packets)), group, exact, group.answered.share);
  }
}

/** Timestamps and truth are whole nanoseconds; sums of them are not. */
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
