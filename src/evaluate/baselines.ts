/** The systems that RLI is compared with, at the sampling rate of the paper (rli-ton, section V-C). */

import { isNoAnswer } from "../estimators/estimator.ts";
import { globalMean } from "../estimators/lab/global-mean/global-mean.ts";
import { multiflow } from "../estimators/lab/multiflow/multiflow.ts";
import { trajectory } from "../estimators/lab/trajectory/trajectory.ts";
import { parseParameters } from "../estimators/parameters.ts";
import type { Contestant, Entry } from "./run-segment.ts";

const PAPER_SAMPLING = 0.001;

export function baselineContestants(rate = PAPER_SAMPLING): Contestant[] {
  return [
    { estimator: trajectory, parameters: parseParameters(trajectory, `rate=${rate}`) },
    { estimator: multiflow, parameters: parseParameters(multiflow, `rate=${rate}`) },
    {
      name: "endpoint",
      estimator: multiflow,
      parameters: parseParameters(multiflow, `rate=${rate},decoder=endpoint`),
    },
    { estimator: globalMean, parameters: parseParameters(globalMean) },
  ];
}

/** Selects the flows that all of the systems have an answer for: errors over different flows cannot be compared. */
export function answeredByAll(entries: readonly Entry[]): (flow: number) => boolean {
  const counts = new Map<number, number>();
  for (const { answer } of entries) {
    for (const { flow, mean } of answer.flows)
      if (!isNoAnswer(mean)) counts.set(flow, (counts.get(flow) ?? 0) + 1);
  }
  return (flow) => counts.get(flow) === entries.length;
}
