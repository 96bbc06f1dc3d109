/**
 * Packets that appeared at the receiver only: those in flight at a cut belong to the segment; if there are far more than that, they were not captured at the
 * sender, or are foreign.
 */
import { type FlowEstimate, isNoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";

/** Maximum number of packets in flight at a cut, as a multiple of rate x mean delay; and the number allowed if that is close to 0. */
export const MOST_AT_CUT = 16;
const FEW_AT_CUT = 4;

/** Mean share of an epoch's packets in flight at a cut (Little); 1 if the delay is unknown. */
export function shareInFlight({ mean }: SegmentEstimate, epochNs: number): number {
  return isNoAnswer(mean) || !(epochNs > 0) ? 1 : Math.min(1, Math.abs(mean.valueNs) / epochNs);
}

/**
 * The same for the longest delay that the epoch may have: after a queue that was long at the cut and is short afterwards, the interval of the mean covers the
 * packets in it.
 */
function mostInFlight({ mean }: SegmentEstimate, epochNs: number): number {
  if (isNoAnswer(mean) || !(epochNs > 0)) return 1;
  return Math.min(1, Math.max(Math.abs(mean.lowNs), Math.abs(mean.highNs)) / epochNs);
}

/** Whether all packets that appeared at the receiver may have been in flight. */
export function isInFlight(segment: SegmentEstimate, epochNs: number): boolean {
  const { sent, received, lost } = segment;
  if (sent === null || received === null || lost === null) return true;
  const appeared = lost - (sent - received);
  return appeared <= MOST_AT_CUT * mostInFlight(segment, epochNs) * received + FEW_AT_CUT;
}

/**
 * Packets of an epoch that were sent in the segment and arrived: its weight among others. A capture that begins late at the sender, foreign packets and
 * duplicates would give epochs too much weight.
 */
export function arrivedOf(segment: SegmentEstimate, epochNs: number): number | null {
  const { sent, received, lost, measured } = segment;
  if (measured !== undefined) return measured;
  if (sent === null || received === null) return received;
  const least = { ...segment, lost: lost ?? Math.max(0, sent - received) };
  if (isInFlight(least, epochNs)) return received;
  return Math.max(0, sent - least.lost);
}

/** The same for a flow: `received` as listed by the receiver. Its loss is below 0 by at most what may have been in flight. */
export function arrivedOfFlow(
  { measured, lost }: Pick<FlowEstimate, "measured" | "lost">,
  packets: number | null,
  received: number | null,
): number | null {
  if (measured !== undefined) return measured;
  if (packets === null) return received;
  if (received === null) return Math.max(0, packets - Math.max(0, lost ?? 0));
  return lost === null ? received : Math.max(0, Math.min(received, packets - lost));
}
