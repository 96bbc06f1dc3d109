/** Where the sender's capture ends: packets that were under way then arrive in an epoch that the receiver alone has. */
import type { CutMode } from "../../epoch/record.ts";
import { isNoAnswer, type SegmentEstimate } from "../../estimators/estimator.ts";
import type { EpochPlace } from "./epoch-facts.ts";

/** The segment in one epoch. */
export interface OwnEpoch {
  segment: SegmentEstimate;
  mode: CutMode;
  span: EpochPlace;
  place: EpochPlace;
}

/** The last epoch that both ends have: its rate, and packets that may still have been under way at its end. */
export interface LastEpoch {
  perNs: number;
  missing: number;
  meanNs: number | null;
}

/** As many packets were under way at its start as the mean delay makes, times this. */
const MOST_UNDER_WAY = 4;

export function lastEpoch({ sent, received, mean }: SegmentEstimate, span: EpochPlace): LastEpoch | null {
  if (!sent || received === null) return null;
  const perNs = sent / Number(span.endNs - span.startNs);
  const meanNs = isNoAnswer(mean) ? null : mean.valueNs;
  const atStart = MOST_UNDER_WAY * perNs * Math.abs(meanNs ?? 0);
  return { perNs, missing: Math.max(0, sent - received) + atStart, meanNs };
}
