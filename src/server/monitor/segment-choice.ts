/** Chooses which rows of a segment count if several estimators or labels answer for it: one at a time, so that a series has a single source. */
import { isWhole } from "../../epoch/direction-label.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import type { SegmentRow } from "../../results/rows.ts";

/** Number of epochs without a row after which the next best takes over. */
const PATIENCE = 20n;

interface Chosen {
  rank: number;
  name: string;
  lastNs: bigint;
}

export class SegmentChoice {
  readonly #chosen = new Map<string, Chosen>();

  /** Returns whether the row counts. `only`: the requested estimator. `classes`: traffic classes count separately, in addition to the whole. */
  accepts(row: SegmentRow, only?: string | undefined, classes = false): boolean {
    const { segment, estimator, startNs, endNs } = row;
    if (only !== undefined && estimator !== only) return false;
    const { from, to, label } = segment;
    const key = classes && !isWhole(label, from, to) ? `${from}\n${to}\n${label}` : `${from}\n${to}`;
    const name = `${segment.label}\n${estimator}`;
    const known = this.#chosen.get(key);
    const rank = rankOf(row);
    const takes =
      !known ||
      known.name === name ||
      rank < known.rank ||
      startNs > known.lastNs + PATIENCE * (endNs - startNs);
    if (!takes) return false;
    if (!known || endNs > known.lastNs || known.name !== name)
      this.#chosen.set(key, { rank, name, lastNs: endNs });
    return true;
  }

  /**
   * Sorts rows by start, best first: labels A:B, then direction labels, then no label, then other labels; within a label, in the order of the estimator table;
   * equal ones by name, so that the order does not depend on which was written first.
   */
  static sort(rows: readonly SegmentRow[]): SegmentRow[] {
    const ranked = rows.map((row) => ({ row, rank: rankOf(row) }));
    ranked.sort((a, b) =>
      a.row.startNs === b.row.startNs
        ? a.rank - b.rank || byName(a.row.segment, b.row.segment)
        : a.row.startNs < b.row.startNs
          ? -1
          : 1,
    );
    return ranked.map(({ row }) => row);
  }
}

function byName(a: SegmentRow["segment"], b: SegmentRow["segment"]): number {
  for (const part of ["from", "to", "label"] as const)
    if (a[part] !== b[part]) return a[part] < b[part] ? -1 : 1;
  return 0;
}

function rankOf({ segment, estimator }: SegmentRow): number {
  const { from, to, label } = segment;
  const labelRank = !isWhole(label, from, to) ? 3 : label === "" ? 2 : label === `${from}:${to}` ? 0 : 1;
  const at = ESTIMATORS.findIndex((e) => e.name === estimator);
  return labelRank * 1000 + (at < 0 ? 999 : at);
}
