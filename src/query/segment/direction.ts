/**
 * Which of the two directions of a link goes from A to B. Asked from A to B, the packets that do take d1 + o and the others -(d2) + o, with o the offset of B's clock: the
 * difference is d1 + d2 whatever the clocks say, and above 0. So the direction with the larger mean is the one from A to B.
 */
import { UsageError } from "../../base/errors.ts";
import { formatDuration } from "../../base/time.ts";
import type { Answer, AnswerLatency } from "./answer.ts";

export interface AskedLabel {
  label: string;
  answer: Answer;
}

/** UsageError where it does not show. */
export function forwardLabel(
  between: readonly [string, string],
  asked: readonly AskedLabel[],
): { label: string; note: string } {
  const [one, other] = asked;
  for (const name of Object.keys(one?.answer.estimates ?? {})) {
    const [a, b] = [latencyOf(one, name), latencyOf(other, name)];
    if (!one || !other || (!a && !b)) continue;
    if (!a || !b) {
      // One direction only: it is the one asked for where packets arrive after they are sent.
      const [label, only] = a ? [one.label, a] : [other.label, b];
      if (!only || only.lowNs <= 0) continue;
      return { label, note: `'${label}' is the only direction that both points have packets of` };
    }
    const [label, forward, back] = a.meanNs > b.meanNs ? [one.label, a, b] : [other.label, b, a];
    // Intervals that overlap do not tell.
    if (forward.lowNs <= back.highNs) continue;
    return {
      label,
      note: `both directions were observed: '${label}' goes from ${between[0]} to ${between[1]} (${formatDuration(forward.meanNs)}; the other way ${formatDuration(-back.meanNs)}, clock offset included)`,
    };
  }
  throw new UsageError(
    "bad-question",
    `${between.join(" and ")} were observed in both directions, and the records do not show which goes from ${between[0]} to ${between[1]}`,
    `name one with ‘segment’: ${asked.map((t) => `'${t.label}'`).join(", ")}`,
    { parameter: "segment" },
  );
}

/** Of all packets, or of those that have an answer: for the order of two means either will do. */
function latencyOf(asked: AskedLabel | undefined, estimator: string): AnswerLatency | null {
  const estimate = asked?.answer.estimates[estimator];
  return estimate?.latency ?? estimate?.answered.latency ?? null;
}
