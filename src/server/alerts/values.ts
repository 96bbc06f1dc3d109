/** The quantities of a result row that alert rules compare: value and interval. */
import { lossOf } from "../../network/localise/from-records.ts";
import { burstyLossRate, countLoss } from "../../network/localise/loss.ts";
import { combineRows, type SegmentRow } from "../../results/rows.ts";
import { pointOf } from "../../results/series.ts";
import type { Quantity } from "./condition.ts";
import type { Measured } from "./rule.ts";

/** Half width of a 95 % interval, in standard errors. */
const WIDTH = 1.96;

/** Returns null if the row has no value for this quantity. */
export function measuredIn(row: SegmentRow, quantity: Quantity): Measured | null {
  const { startNs, endNs, sent, received, lost } = row;
  const made = combineRows([row], { step: 0, startNs, endNs });
  if (!made) return null;
  const { latency, answered } = pointOf(made);
  const exact = (value: number | null | undefined): Measured | null =>
    value === null || value === undefined ? null : { value, low: value, high: value };
  switch (quantity) {
    case "mean":
      return latency && { value: latency.meanNs, low: latency.lowNs, high: latency.highNs };
    case "stdev":
      return exact(latency?.stdevNs);
    case "coverage":
      return exact(row.epochs > row.missing + row.refused ? answered : 0);
    case "loss": {
      if (sent === null && lost === null) return null;
      const counted = lossOf({
        sent,
        received,
        lost,
        startNs,
        endNs,
        latency,
        edge: row.edges > 0 || row.missing > 0,
      });
      const estimate = {
        ...{
          fromPoint: "",
          toPoint: "",
          epochStartNs: 0,
          epochEndNs: 1,
          meanNs: null,
          lowNs: null,
          highNs: null,
        },
        stdevNs: null,
        ...counted,
      };
      const rate = burstyLossRate(countLoss([estimate]), 1, WIDTH);
      return rate && { value: rate.rate, low: rate.low, high: rate.high };
    }
    case "silent":
      return null;
  }
}
