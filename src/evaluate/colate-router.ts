/** COLATE on captures of a real router, over seeds: how often the 95 % intervals contain the exact mean, and how wide they are. */
import type { EstimateReport } from "../compare/estimate-report.ts";
import { compareWithEstimates } from "../compare/estimates.ts";
import { colate } from "../estimators/colate/colate.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";

export interface Tally {
  asked: number;
  answered: number;
  held: number;
  /** Sums of |error| and half widths over answered flows, relative to the exact mean. */
  error: number;
  half: number;
}

export interface RouterRun {
  /** Flows of at least 30 packets, and the six largest of them. */
  readonly all: Tally;
  readonly six: Tally;
  /** Number of seeds for which the intervals of all six flows, and that of the segment's mean, contain the exact mean. */
  readonly whole: number;
  readonly segment: number;
}

/** `text`: parameters; if empty, `compare` chooses them. */
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

/** Returns flows of at least 30 packets, largest first. */
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
