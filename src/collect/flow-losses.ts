/**
 * Loss of a flow in one epoch, signed: packets in flight at a cut are missing in the epoch in which they were sent, and in excess in the one in which they
 * arrived. In the sum over the epochs both cancel, and the loss remains; counted from 0 in each epoch, every packet in flight at a cut would look lost.
 *
 * If both ends list the flow, its loss is sent minus arrived packets. Otherwise it is the estimator's. If more packets appeared than may have been in flight at
 * the cut, some are foreign or duplicates, which do not compensate loss: the excess of a flow is limited to what it may have had in flight.
 *
 * An estimator counts from 0 in each epoch: of what it misses in an epoch cut by time, some packets may have been in flight at its end.
 *
 * If a capture begins or ends in the epoch, packets in flight then are in one capture only: the loss is uncertain by that many.
 */
import type { EstimatorAnswer, FlowEstimate, KnownFlows } from "../estimators/estimator.ts";
import { isInFlight, MOST_AT_CUT, shareInFlight } from "./in-flight.ts";

/** Like MOST_AT_CUT, for a flow at the edge of a capture. */
const MOST_AT_EDGE = 2;

export function withFlowLosses(
  answer: EstimatorAnswer,
  known: KnownFlows | null,
  { epochNs, edge, byTime }: { epochNs: number; edge: boolean; byTime: boolean },
): EstimatorAnswer {
  const { segment, flows } = answer;
  if (!known || flows.length === 0) return answer;
  const share = segment ? shareInFlight(segment, epochNs) : 1;
  // With an estimator of flows alone, nothing shows how many were in flight.
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
