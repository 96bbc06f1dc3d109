/**
 * Loss of a flow in one epoch, signed: packets that were in flight at a cut are missing in the epoch in which they were sent, and too many in the one in which they arrived. Summed over the
 * epochs both are gone, and what was lost is left; counted from 0 in each epoch, every packet in flight at a cut would pass for a lost one.
 *
 * Where both ends list the flow, its loss is what was sent less what arrived. Otherwise it is the estimator's. Where more packets appeared than may have been in flight at the cut, others are
 * among them (foreign ones, duplicates), which make up for no loss: a flow then has no more too many than it may have had in flight.
 *
 * An estimator counts from 0 in each epoch: of what it misses in one that is cut by time, some may have been in flight at its end.
 *
 * Where a capture begins or ends in the epoch, what was in flight then is in one capture only: the loss is known that much worse.
 */
import type { EstimatorAnswer, FlowEstimate, KnownFlows } from "../estimators/estimator.ts";
import { isInFlight, MOST_AT_CUT, shareInFlight } from "./in-flight.ts";

/** The same of a flow at the edge of a capture. */
const MOST_AT_EDGE = 2;

export function withFlowLosses(
  answer: EstimatorAnswer,
  known: KnownFlows | null,
  { epochNs, edge, byTime }: { epochNs: number; edge: boolean; byTime: boolean },
): EstimatorAnswer {
  const { segment, flows } = answer;
  if (!known || flows.length === 0) return answer;
  const share = segment ? shareInFlight(segment, epochNs) : 1;
  // Of an estimator of flows alone nothing says how many were in flight.
  const arrivedLate = segment === null || isInFlight(segment, epochNs);
  const lossOf = (one: FlowEstimate): number | null => {
    const lost = listedLoss(known, one.flow) ?? one.lost;
    if (lost === null || lost >= 0 || arrivedLate) return lost;
    return Math.max(lost, -Math.ceil(MOST_AT_CUT * share * (one.packets ?? 0)));
  };
  return {
    ...answer,
    flows: flows.map((one) => {
      const lost = lossOf(one);
      if (lost === null) return { ...one, lost };
      const low = lost - Math.ceil(MOST_AT_EDGE * share * (one.packets ?? 0));
      if (edge) return { ...one, lost, lostLow: low };
      const counted = !byTime || listedLoss(known, one.flow) !== null;
      return counted ? { ...one, lost } : { ...one, lost, lostLow: Math.min(lost, Math.max(0, low)) };
    }),
  };
}

function listedLoss({ packets, received }: KnownFlows, flow: number): number | null {
  const lost = (packets[flow] ?? Number.NaN) - (received?.[flow] ?? Number.NaN);
  return Number.isNaN(lost) ? null : lost;
}
