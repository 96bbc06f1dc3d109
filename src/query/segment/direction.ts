/**
 * Finds which of a link's two directions goes from A to B. Asked from A to B, packets in that direction take d1 + o and the others -(d2) + o, where
 * o is the offset of B's clock. The difference d1 + d2 is positive whatever the offset, so the direction with the larger mean goes from A to B.
 */
import { UsageError } from "../../base/errors.ts";
import { formatDuration } from "../../base/time.ts";
import type { Answer, AnswerLatency } from "./answer.ts";

export interface AskedLabel {
  label: string;
  answer: Answer;
}

/** Throws UsageError if the records do not show it. */
export function forwardLabel(
  between: readonly [string, string],
  asked: readonly AskedLabel[],
): { label: string; note: string } {
  const [one, other] = asked;
  for (const name of Object.keys(one?.answer.estimates ?? {})) {
    const [a, b] = [latencyOf(one, name), latencyOf(other, name)];
    if (!one || !other || (!a && !b)) continue;
    if (!a || !b) {
      // Only one direction has packets: it is the one asked for if they arrive after they are sent.
      const [label, only] = a ? [one.label, a] : [other.label, b];
      if (!only || only.lowNs <= 0) continue;
      return { label, note: `'${label}' is the only direction that both points have packets of` };
    }
    const [label, forward, back] = a.meanNs > b.meanNs ? [one.label, a, b] : [other.label, b, a];
    // Overlapping intervals do not decide.
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

/** Latency of all packets, or of the answered ones: either suffices to compare two means. */
function latencyOf(asked: AskedLabel | undefined, estimator: string): AnswerLatency | null {
  const estimate = asked?.answer.estimates[estimator];
  return estimate?.latency ?? estimate?.answered.latency ?? null;
}
