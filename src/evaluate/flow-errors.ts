/** Errors of per-flow estimates: |estimate - truth| / truth, with quantiles over the flows of a size class. */
import { quantileSorted } from "../base/math/regression.ts";
import { type FlowEstimate, isNoAnswer } from "../estimators/estimator.ts";
import type { SegmentTruth } from "./run-segment.ts";

export interface SizeClass {
  from: number;
  /** Inclusive; null: no limit. */
  to: number | null;
}

export const ALL_FLOWS: SizeClass = { from: 1, to: null };
export const RLI_CLASSES: readonly SizeClass[] = [ALL_FLOWS, { from: 10, to: 99 }, { from: 100, to: null }];

export interface FlowErrors extends SizeClass {
  flows: number;
  answered: number;
  /** Null if no flow has an answer. */
  median: number | null;
  p75: number | null;
  p90: number | null;
  mean: number | null;
  /** Share of the answered flows whose true mean is within [low, high]. */
  withinInterval: number | null;
  /** Median of (high - low) / truth. */
  medianWidth: number | null;
}

export interface FlowErrorOptions {
  quantity?: "mean" | "stdev";
  /** Restricts the evaluation to these flows, by their index in the truth. */
  only?: (flow: number) => boolean;
}

export function flowErrors(
  truth: SegmentTruth,
  answers: readonly FlowEstimate[],
  classes: readonly SizeClass[] = RLI_CLASSES,
  { quantity = "mean", only = () => true }: FlowErrorOptions = {},
): FlowErrors[] {
  const exact = quantity === "mean" ? truth.flowMeanNs : truth.flowStdevNs;
  return classes.map(({ from, to }) => {
    const errors: number[] = [];
    const widths: number[] = [];
    let flows = 0;
    let within = 0;
    for (const answer of answers) {
      const packets = truth.flows.packets[answer.flow]!;
      if (packets < from || packets > (to ?? Infinity) || !only(answer.flow)) continue;
      flows++;
      const estimate = answer[quantity];
      const right = exact[answer.flow]!;
      if (isNoAnswer(estimate) || right === 0) continue;
      errors.push(Math.abs(estimate.valueNs - right) / Math.abs(right));
      widths.push((estimate.highNs - estimate.lowNs) / Math.abs(right));
      if (estimate.lowNs <= right && right <= estimate.highNs) within++;
    }
    errors.sort((a, b) => a - b);
    widths.sort((a, b) => a - b);
    return { from, to, flows, ...errorSummary(errors, widths, within) };
  });
}

/** Summarises relative errors and widths, both in ascending order; `within` is the number of intervals that contain the true mean. */
export function errorSummary(
  errors: readonly number[],
  widths: readonly number[],
  within: number,
): Omit<FlowErrors, "from" | "to" | "flows"> {
  const n = errors.length;
  return {
    answered: n,
    median: quantileSorted(errors, 0.5),
    p75: quantileSorted(errors, 0.75),
    p90: quantileSorted(errors, 0.9),
    mean: n === 0 ? null : errors.reduce((s, e) => s + e, 0) / n,
    withinInterval: n === 0 ? null : within / n,
    medianWidth: quantileSorted(widths, 0.5),
  };
}
