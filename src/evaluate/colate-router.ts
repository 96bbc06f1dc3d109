/** COLATE on captures of a real router, over seeds: how often exact means lie in the 95 % intervals, and how wide those are. */
import type { EstimateReport } from "../compare/estimate-report.ts";
import { compareWithEstimates } from "../compare/estimates.ts";
import { colate } from "../estimators/colate/colate.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";

export interface Tally {
  asked: number;
  answered: number;
  held: number;
  /** Sums over answered flows, relative to the exact mean. */
  error: number;
  half: number;
}

export interface RouterRun {
  /** Flows of 30 packets and more, and the six largest of them. */
  readonly all: Tally;
  readonly six: Tally;
  /** Seeds at which all six, and the segment's mean, lay in their intervals. */
  readonly whole: number;
  readonly segment: number;
}

/** `text`: parameters; empty: those that compare chooses itself. */
export async function colateOnRouter(
  captures: { before: string; after: string },
  text: string,
  seeds: readonly number[],
): Promise<RouterRun> {
  const [all, six] = [newTally(), newTally()];
  let [whole, segment] = [0, 0];
  for (const seed of seeds) {
    const plan = { estimator: colate as Estimator, parameters: parseParameters(colate, text) };
    const plans = [text === "" ? { ...plan, given: new Set<string>() } : plan];
    const report = await compareWithEstimates({ ...captures, seed: BigInt(seed) }, { plans });
    const estimate = report.estimates?.["colate"] as EstimateReport | undefined;
    if (!estimate) continue;
    const large = largeFlows(estimate);
    for (const flow of large) count(all, flow);
    const before = six.held;
    for (const flow of large.slice(0, 6)) count(six, flow);
    if (six.held === before + 6) whole++;
    if (holds(estimate)) segment++;
  }
  return { all, six, whole, segment };
}

interface Interval {
  readonly meanNs: number | null;
  readonly lowNs: number | null;
  readonly highNs: number | null;
  readonly exactMeanNs: number | null;
}

/** Of 30 packets and more, the largest first. */
function largeFlows({ flows }: EstimateReport) {
  return [...(flows ?? [])]
    .sort((x, y) => (y.packets ?? 0) - (x.packets ?? 0))
    .filter((f) => (f.packets ?? 0) >= 30 && f.exactMeanNs !== null);
}

function holds({ lowNs, highNs, exactMeanNs }: Omit<Interval, "meanNs">): boolean {
  return (
    lowNs !== null && highNs !== null && exactMeanNs !== null && lowNs <= exactMeanNs && exactMeanNs <= highNs
  );
}

function newTally(): Tally {
  return { asked: 0, answered: 0, held: 0, error: 0, half: 0 };
}

function count(tally: Tally, flow: Interval): void {
  tally.asked++;
  const { meanNs, lowNs, highNs, exactMeanNs } = flow;
  if (meanNs === null || lowNs === null || highNs === null || exactMeanNs === null) return;
  tally.answered++;
  tally.error += Math.abs(meanNs / exactMeanNs - 1);
  tally.half += (highNs - lowNs) / 2 / exactMeanNs;
  if (holds(flow)) tally.held++;
}
