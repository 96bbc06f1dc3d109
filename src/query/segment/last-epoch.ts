/** The end of the sender's capture: packets in flight then arrive in an epoch that only the receiver has. */
import type { CutMode } from "../../epoch/record.ts";
import { isNoAnswer, type SegmentEstimate } from "../../estimators/estimator.ts";
import type { EpochPlace } from "./epoch-facts.ts";

/** The segment's estimate in one epoch. */
export interface OwnEpoch {
  segment: SegmentEstimate;
  mode: CutMode;
  span: EpochPlace;
  place: EpochPlace;
}

/** The last epoch that both points have: its packet rate, and how many packets may have been in flight at its end. */
export interface LastEpoch {
  perNs: number;
  missing: number;
  meanNs: number | null;
}

/** Allows for this many times the packets in flight at its start that the mean delay implies. */
const MOST_UNDER_WAY = 4;

export function lastEpoch({ sent, received, mean }: SegmentEstimate, span: EpochPlace): LastEpoch | null {
  if (!sent || received === null) return null;
  const perNs = sent / Number(span.endNs - span.startNs);
  const meanNs = isNoAnswer(mean) ? null : mean.valueNs;
  const atStart = MOST_UNDER_WAY * perNs * Math.abs(meanNs ?? 0);
  return { perNs, missing: Math.max(0, sent - received) + atStart, meanNs };
}
