/** Shared by LDA's studies: axes, distributions, and means over runs. */
import { entryAt } from "../../base/lists.ts";
import type { Point, Series } from "../../present/figure/figure.ts";
import type { Shape, TrialAnswer, TrialResult } from "./lda-trial.ts";
import { average } from "./numbers.ts";
import type { StudyContext } from "./study.ts";
export const WEIBULL: Shape = { kind: "weibull", shape: 0.6 };
export const SHAPES: readonly { readonly name: string; readonly shape: Shape }[] = [
  { name: "Weibull 0.6", shape: WEIBULL },
  { name: "Weibull 0.8", shape: { kind: "weibull", shape: 0.8 } },
  { name: "Pareto 3", shape: { kind: "pareto", shape: 3 } },
  { name: "Pareto 5", shape: { kind: "pareto", shape: 5 } },
];
export const LOSS_AXIS = { label: "loss", scale: "log", quantity: "share" } as const;
export const ERROR_AXIS = { label: "relative error", scale: "log", quantity: "share" } as const;

export const LOSSES = [0.0001, 0.001, 0.01, 0.06, 0.2];
export const RUNS = 25;
/**
 * At the highest loss rate the sample has about 1,200 packets, however many are sent, and the errors are close to the claimed ones, so more traces are needed.
 */
const TRACES_AT_MOST_LOSS = 4;

export function tracesAt(loss: number): number {
  return loss === LOSSES.at(-1) ? TRACES_AT_MOST_LOSS : 1;
}
export const RUNS_TEXT = `${RUNS} aggregators on one trace, on each of ${TRACES_AT_MOST_LOSS} traces at the highest loss`;

export function packetsOf({ scale }: StudyContext): number {
  return scale === "full" ? 5e6 : 1e6;
}

export const meanErrors = (answers: readonly TrialAnswer[]) => average(answers.map((a) => a.meanError));
/** Returns the uncertainty of the mean of these errors due to the number of runs: two standard errors. */
export function spread(
  answers: readonly TrialAnswer[],
  of: "meanError" | "deviationError" = "meanError",
): number {
  const mean = average(answers.map((a) => a[of]));
  const squares = average(answers.map((a) => (a[of] - mean) ** 2));
  return 2 * Math.sqrt(squares / Math.max(1, answers.length - 1));
}
export const deviationErrors = (answers: readonly TrialAnswer[]) =>
  average(answers.map((a) => a.deviationError));

/** Makes a series with one point per loss rate. */
export function line(name: string, losses: readonly number[], y: (i: number) => number): Series {
  return { name, points: losses.map((x, i): Point => ({ x, y: y(i) })) };
}

export const answersOf = (result: TrialResult, variant: number) => entryAt(result.answers, variant);
