/** Estimates in the words of an answer. */
import { type Interval, isNoAnswer, type NoAnswer } from "../../estimators/estimator.ts";
import type { Answered } from "./answer.ts";

export function answered({
  mean,
  stdev,
}: {
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
}): Answered {
  if (isNoAnswer(mean)) return { latency: null, reason: `${mean.reason}: ${mean.text}` };
  const spread = isNoAnswer(stdev) ? null : stdev;
  return {
    latency: {
      meanNs: mean.valueNs,
      lowNs: mean.lowNs,
      highNs: mean.highNs,
      stdevNs: spread?.valueNs ?? null,
      stdevLowNs: spread?.lowNs ?? null,
      stdevHighNs: spread?.highNs ?? null,
    },
  };
}
