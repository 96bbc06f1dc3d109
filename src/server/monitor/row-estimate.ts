/** Rows of the results as estimates for the localiser. */
import type { TimedEstimate } from "../../network/incidents/path-watch.ts";
import { lossOf } from "../../network/localise/from-records.ts";
import { combineRows, type SegmentRow } from "../../results/rows.ts";
import { pointOf } from "../../results/series.ts";

/** Converts a row for the localiser. Its clock error is the same in every epoch, so it does not affect a rise. */
export function estimateOf(row: SegmentRow): TimedEstimate {
  const { segment, startNs, endNs, state } = row;
  const made = combineRows([row], { step: 0, startNs, endNs });
  const point = made ? pointOf(made) : null;
  const latency = point?.latency ?? null;
  const has = latency !== null && state.weight > 0;
  const low = has ? Math.hypot(state.errorLow, state.repeatingLow) / state.weight : 0;
  const high = has ? Math.hypot(state.errorHigh, state.repeatingHigh) / state.weight : 0;
  const { sent, received, lost } = row;
  return {
    ...{ fromPoint: segment.from, toPoint: segment.to, startNs, endNs },
    meanNs: latency?.meanNs ?? null,
    lowNs: latency ? latency.meanNs - low : null,
    highNs: latency ? latency.meanNs + high : null,
    stdevNs: latency?.stdevNs ?? null,
    ...lossOf({ sent, received, lost, startNs, endNs, latency, edge: row.edges > 0 || row.missing > 0 }),
  };
}
