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
import type { CutPlan } from "../epoch/cutter.ts";
import type { Answered } from "../query/segment/answer.ts";
import { askArchive } from "../query/segment/ask.ts";
import { RECEIVER, type Scenario, SENDER } from "../simulate/scenario.ts";
import { observeScenario } from "./observed-run.ts";
import type { SegmentTruth } from "./run-segment.ts";

export interface CoverageCase {
  name: string;
  /** Made anew for every seed. */
  scenario: (seed: number) => Scenario;
  cut: CutPlan;
  estimators: readonly string[];
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
      found = { case: one.name, estimator, class: size, ...none, packets: 0, answered: 0, widths: [] };
      tallies.set(name, found);
    }
    return found;
  };
  for (const seed of seeds) {
    const { cut, estimators } = one;
    const run = await observeScenario(kernels, one.scenario(seed), { cut, estimators, seed: BigInt(seed) });
    const answer = askArchive(
      run.records,
      { between: [SENDER, RECEIVER], top: Number.MAX_SAFE_INTEGER, confidence },
      { kernels },
    );
    const { truth } = run;
    const flows = flowsByText(truth);
    for (const [estimator, told] of Object.entries(answer.estimates)) {
      const exact = { packets: truth.packets, meanNs: truth.meanNs, stdevNs: truth.stdevNs };
      judge(tally(estimator, "segment"), told, exact, told.answered.share);
    }
    for (const group of answer.groups) {
      const flow = flows.get(group.text);
      // Sent, and lost whole: it has no delay to be right about.
      if (flow === undefined) continue;
      const exact = {
        packets: truth.flows.packets[flow]!,
        meanNs: truth.flowMeanNs[flow]!,
        stdevNs: truth.flowStdevNs[flow]!,
      };
      judge(tally(group.estimator, classOf(exact.packets)), group, exact, group.answered.share);
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

interface Exact {
  packets: number;
  meanNs: number;
  stdevNs: number;
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

function flowsByText(truth: SegmentTruth): Map<string, number> {
  const spec = FlowKeySpec.parse();
  const out = new Map<string, number>();
  for (let i = 0; i < truth.flows.count; i++)
    out.set(formatFlowKey(spec.describe(truth.flows.keyWords.subarray(10 * i, 10 * (i + 1)))), i);
  return out;
}
