/** Converts estimates to the form used in answers. */
import type { Combined } from "../../collect/combine.ts";
import { type Interval, isNoAnswer, type NoAnswer } from "../../estimators/estimator.ts";
import type { Answered, AnswerLatency, WholeAnswer } from "./answer.ts";

interface Measured {
  mean: Interval | NoAnswer;
  stdev: Interval | NoAnswer;
}

export function answered({ mean, stdev }: Measured): Answered {
  if (isNoAnswer(mean)) return { latency: null, reason: `${mean.reason}: ${mean.text}` };
  const spread = isNoAnswer(stdev) ? null : stdev;
  const latency: AnswerLatency = {
    meanNs: mean.valueNs,
    lowNs: mean.lowNs,
    highNs: mean.highNs,
    stdevNs: spread?.valueNs ?? null,
    stdevLowNs: spread?.lowNs ?? null,
    stdevHighNs: spread?.highNs ?? null,
  };
  return { latency };
}

/** `own`: the answered part; `all`: including what is known of the rest, if that is more. */
export function wholeAnswer(own: Combined, all: Combined = own): WholeAnswer {
  const { mean, stdev, answered: share, answeredPackets, answers } = own;
  // The deviation of a part says nothing about the whole.
  const unknown: NoAnswer = { reason: "partly-answered", text: "not all packets have an answer" };
  return {
    ...answered({ mean: all.whole, stdev: all.complete ? all.stdev : unknown }),
    answered: {
      packets: share === null ? null : answeredPackets,
      share,
      epochs: answers,
      latency: answered({ mean, stdev }).latency,
    },
  };
}

/** Widens an answer's intervals of the mean by the possible clock difference between the points. The deviation does not depend on clocks. */
export function byClocks<T extends Answered & Partial<WholeAnswer>>(answer: T, errorNs: number): T {
  if (errorNs === 0) return answer;
  const widen = (latency: AnswerLatency | null) =>
    latency && { ...latency, lowNs: latency.lowNs - errorNs, highNs: latency.highNs + errorNs };
  return {
    ...answer,
    latency: widen(answer.latency),
    ...(answer.answered ? { answered: { ...answer.answered, latency: widen(answer.answered.latency) } } : {}),
  };
}
