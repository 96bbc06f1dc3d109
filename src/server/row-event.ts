/** A row in the form sent to event listeners. */
import type { EpochLoss } from "../collect/epoch-losses.ts";
import { combineRows, type SegmentRow } from "../results/rows.ts";
import { pointOf } from "../results/series.ts";

export function rowEvent(row: SegmentRow, loss: EpochLoss | null): Record<string, unknown> {
  const { segment, estimator, startNs, endNs } = row;
  const made = combineRows([row], { step: 0, startNs, endNs });
  return {
    from: segment.from,
    to: segment.to,
    label: segment.label,
    estimator,
    ...(made ? pointOf(made, loss) : {}),
  };
}
