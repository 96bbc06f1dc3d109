/**
 * The newest epoch of each segment and estimator, kept in memory by a store that nobody else writes to: the overview asks for it with every look, and the database takes a while to find it. Read once, for
 * a time after which there is no row, and kept up to date by what is written; a question that goes further back is read again.
 */
import type { SegmentRow } from "./rows.ts";

interface Kept {
  /** Of segments that are not listed, no row starts from here on. */
  sinceNs: bigint;
  rows: Map<string, SegmentRow>;
}

const keyOf = ({ segment: { from, to, label }, estimator }: SegmentRow): string =>
  JSON.stringify([from, to, label, estimator]);

export class NewestRows {
  #kept: Kept | null = null;
  /** Being read: what is written meanwhile is noted there, too. */
  readonly #filling = new Set<Kept>();

  /** The newest of those that start in a time; null where they must be read. */
  within(fromNs: bigint, toNs: bigint): SegmentRow[] | null {
    if (!this.#kept || fromNs < this.#kept.sinceNs) return null;
    const rows = [...this.#kept.rows.values()];
    return rows.some((r) => r.startNs >= toNs) ? null : rows.filter((r) => r.startNs >= fromNs);
  }

  /** Reads and keeps the newest since a time. */
  async fill(sinceNs: bigint, read: () => Promise<SegmentRow[]>): Promise<SegmentRow[]> {
    const own: Kept = { sinceNs, rows: new Map() };
    this.#filling.add(own);
    try {
      const found = await read();
      const written = [...own.rows.values()];
      own.rows.clear();
      take(own.rows, found);
      take(own.rows, written);
      if (this.#filling.has(own)) this.#kept = own;
      return found;
    } finally {
      this.#filling.delete(own);
    }
  }

  note(written: readonly SegmentRow[]): void {
    const epochs = written.filter((r) => r.step === 0);
    for (const { rows } of this.#kept ? [this.#kept, ...this.#filling] : this.#filling) take(rows, epochs);
  }

  /** Rows went: all is read again. */
  forget(): void {
    this.#kept = null;
    this.#filling.clear();
  }
}

/** Later ones replace those before; one that names an end as missing replaces none that has both. */
function take(rows: Map<string, SegmentRow>, written: readonly SegmentRow[]): void {
  for (const row of written) {
    const key = keyOf(row);
    const known = rows.get(key);
    const stays =
      known &&
      (known.startNs > row.startNs ||
        (known.startNs === row.startNs && known.missing === 0 && row.missing > 0));
    if (!stays) rows.set(key, row);
  }
}
