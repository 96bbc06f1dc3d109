/** The newest rows of each segment and estimator: what is shown of the newest epoch, and the few before it that its loss is known by. */
import { type CountedEpoch, type EpochLoss, epochLosses } from "../collect/epoch-losses.ts";
import type { SegmentRow } from "../results/rows.ts";
import { countedEpoch } from "../results/series.ts";

export interface LatestRow {
  row: SegmentRow;
  /** Beyond what may be in flight; null where nobody counted. */
  loss: EpochLoss | null;
}

/** Epochs that are remembered: as many as it takes until a small loss is more than what may be in flight. */
const REMEMBERED = 32;

export class LatestRows {
  readonly #rows = new Map<string, LatestRow & { before: CountedEpoch[] }>();

  /** In any order; returns the loss of the row, by those that are known around it. */
  add(row: SegmentRow): EpochLoss | null {
    const { from, to, label } = row.segment;
    const key = JSON.stringify([from, to, label, row.estimator]);
    const known = this.#rows.get(key);
    const own = countedEpoch(row);
    const before = [...(known?.before ?? []).filter((e) => e.startNs !== own.startNs), own];
    before.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
    const losses = epochLosses(before);
    const loss = losses[before.indexOf(own)] ?? null;
    const newest = !known || row.endNs >= known.row.endNs;
    const last = newest ? { row, loss } : { row: known.row, loss: losses.at(-1) ?? null };
    this.#rows.set(key, { ...last, before: before.slice(-REMEMBERED) });
    return loss;
  }

  values(): Iterable<LatestRow> {
    return this.#rows.values();
  }
}
