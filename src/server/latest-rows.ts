/** The newest rows of each segment and estimator: what is shown of the newest epoch, and the few before it that its loss is known by. */
import { type CountedEpoch, type EpochLoss, epochLosses } from "../collect/epoch-losses.ts";
import type { SegmentRow } from "../results/rows.ts";
import { countedEpoch } from "../results/series.ts";

export interface LatestRow {
  row: SegmentRow;
  /** Beyond what may be in flight, by those that are known around it; null where nobody counted. */
  loss: () => EpochLoss | null;
}

/** Epochs that are remembered: as many as it takes until a small loss is more than what may be in flight. */
const REMEMBERED = 32;

export class LatestRows {
  readonly #rows = new Map<string, LatestRow & { before: CountedEpoch[] }>();

  /** In any order; returns the loss of the row, by those that are known around it: worked out when it is asked for, which is not for most. */
  add(row: SegmentRow): LatestRow["loss"] {
    const { from, to, label } = row.segment;
    const key = JSON.stringify([from, to, label, row.estimator]);
    const known = this.#rows.get(key);
    const own = countedEpoch(row);
    const before = [...(known?.before ?? []).filter((e) => e.startNs !== own.startNs), own];
    before.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
    const at = before.indexOf(own);
    const loss = () => epochLosses(before)[at] ?? null;
    const newest = !known || row.endNs >= known.row.endNs;
    const last = newest ? { row, loss } : { row: known.row, loss: () => epochLosses(before).at(-1) ?? null };
    this.#rows.set(key, { ...last, before: before.slice(-REMEMBERED) });
    return loss;
  }

  values(): Iterable<LatestRow> {
    return this.#rows.values();
  }
}
