/** The whole path, over the epochs for which every segment has an estimate: otherwise parts of different times would be added. */

import { entryAt } from "../../base/lists.ts";
import { countOf, formatCount } from "../../base/quantity.ts";
import { burstiness, burstyLossRate, countLoss } from "./loss.ts";
import { type LossRate, overallLatency, type SegmentLatency } from "./segment-estimate.ts";
import type { EpochRow } from "./verdicts.ts";

export interface EndToEnd {
  /** At the first point, in the epochs with known loss of every segment; in all epochs if there are none. */
  readonly sent: number;
  readonly lost: number;
  readonly loss: LossRate | null;
  readonly latency: Omit<SegmentLatency, "stdevNs" | "packets"> | null;
}

export function endToEnd(
  rows: readonly EpochRow[],
  segments: number,
  width: number,
): { total: EndToEnd; notes: string[] } {
  const complete = (has: (e: NonNullable<EpochRow[number]>) => boolean) =>
    rows.filter((row) => row.length === segments && row.every((e) => e !== undefined && has(e)));
  const counted = complete((e) => countLoss([e]).sent > 0);
  const timed = complete((e) => e.meanNs !== null);
  const notes: string[] = [];
  // The first and the last epoch of captures are seldom complete; that needs no note.
  if (timed.length === 0 && segments > 1)
    notes.push("no end-to-end delay: no epoch has an answer for every segment");
  else if (timed.length > 0 && timed.length < rows.length - 2)
    notes.push(
      `end-to-end delay is based on ${formatCount(timed.length)} of ${countOf(rows.length, "epoch")}: in the others a segment has no answer`,
    );
  const columns = (from: readonly EpochRow[]) =>
    Array.from({ length: segments }, (_, j) => from.map((row) => entryAt(row, j)));
  const latencies = columns(timed).flatMap((column) => overallLatency(column, width) ?? []);
  const meanNs = latencies.reduce((sum, l) => sum + l.meanNs, 0);
  const halfNs = Math.sqrt(latencies.reduce((sum, l) => sum + ((l.highNs - l.lowNs) / 2) ** 2, 0));
  const { sent } = countLoss((counted.length > 0 ? counted : rows).map((row) => row[0]));
  const lost = columns(counted).reduce((sum, column) => sum + Math.max(0, countLoss(column).lost), 0);
  return {
    total: {
      sent,
      lost: Math.min(sent, lost),
      loss: productOf(
        columns(counted).flatMap(
          (column) => burstyLossRate(countLoss(column), burstiness(column), width) ?? [],
        ),
        segments,
      ),
      latency:
        latencies.length === segments ? { meanNs, lowNs: meanNs - halfNs, highNs: meanNs + halfNs } : null,
    },
    notes,
  };
}

/** The share delivered is the product of the segments' shares; errors are independent, so their squares add up. */
function productOf(rates: readonly LossRate[], segments: number): LossRate | null {
  if (rates.length < segments) return null;
  const rate = 1 - rates.reduce((through, r) => through * (1 - r.rate), 1);
  const below = Math.sqrt(rates.reduce((sum, r) => sum + (r.rate - r.low) ** 2, 0));
  const above = Math.sqrt(rates.reduce((sum, r) => sum + (r.high - r.rate) ** 2, 0));
  return { rate, low: Math.max(0, rate - below), high: Math.min(1, rate + above) };
}
