/**
 * Keeps the newest epoch of each segment and estimator in memory, for a store with a single writer: every overview asks for it, and the database
 * takes long to find it. It is read once, for a time after which there is no further row, and then kept up to date by the writes. Questions about
 * earlier times are read from the database.
 */
import type { SegmentRow } from "./rows.ts";

interface Kept {
  /** Segments not listed here have no row that starts at or after this time. */
  sinceNs: bigint;
  rows: Map<string, SegmentRow>;
}

const keyOf = ({ segment: { from, to, label }, estimator }: SegmentRow): string =>
  JSON.stringify([from, to, label, estimator]);

export class NewestRows {
  #kept: Kept | null = null;
  /** Reads in progress: rows written meanwhile are noted there too. */
  readonly #filling = new Set<Kept>();

  /** Returns the newest rows that start in a time range; null if they must be read from the database. */
  within(fromNs: bigint, toNs: bigint): SegmentRow[] | null {
    if (!this.#kept || fromNs < this.#kept.sinceNs) return null;
    const rows = [...this.#kept.rows.values()];
    return rows.some((r) => r.startNs >= toNs) ? null : rows.filter((r) => r.startNs >= fromNs);
  }

  /** Reads the newest rows since a time, and keeps them. */
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

  /** Called after rows were removed: everything is read again. */
  forget(): void {
    this.#kept = null;
    this.#filling.clear();
  }
}

/** Later rows replace earlier ones; a row lacking an endpoint never replaces one that has both. */
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
