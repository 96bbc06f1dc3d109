/**
 * The normal delay of a segment: its median and usual spread. Taken from the same hour of the week if there are weeks of rows; else from a week of
 * hours; else from the last hours by minutes; else from the last minutes by epochs. In that last case the lower quartile replaces the median,
 * because most of so short a time may be the trouble itself.
 */
import type { ResultsStore } from "./results-store.ts";

export interface Normal {
  valueNs: number;
  /** 1.48 times the median absolute deviation: the standard deviation if the delays are Gaussian. */
  spreadNs: number;
  of: "hour of the week" | "last week" | "last hours" | "last minutes";
}

const HOUR_NS = 3_600_000_000_000n;
const WEEK_NS = 168n * HOUR_NS;
/** Includes the hours before and after, so three weeks yield nine hours. */
const FEWEST_OF_WEEK = 9;
const SOURCES = [
  { of: "last week", step: 3600, lengthNs: WEEK_NS, fewest: 12, share: 0.5 },
  { of: "last hours", step: 60, lengthNs: 6n * HOUR_NS, fewest: 60, share: 0.5 },
  { of: "last minutes", step: 0, lengthNs: HOUR_NS / 6n, fewest: 10, share: 0.25 },
] as const;
/** Cached, because normals change slowly and every overview asks for them. */
const KEPT_MS = 60_000;
const KEPT_OLD_MS = 3_600_000;

export class Normals {
  readonly #store: ResultsStore;
  #made: { atMs: number; toNs: bigint; normals: Map<string, Normal> } | null = null;
  #making: { toNs: bigint; normals: Promise<Map<string, Normal>> } | null = null;

  constructor(store: ResultsStore) {
    this.#store = store;
  }

  /** Returns the normals by segment and estimator (`normalKey`), from rows before a time. `old`: accepts cached ones from the last hour. */
  async before(toNs: bigint, { nowMs = Date.now(), old = false } = {}): Promise<ReadonlyMap<string, Normal>> {
    const made = this.#made;
    // A minute more or less does not matter. An empty result is never reused: at the beginning each minute counts.
    const [nearNs, keptMs] = old ? [HOUR_NS, KEPT_OLD_MS] : [HOUR_NS / 60n, KEPT_MS];
    const near = made && toNs >= made.toNs && toNs - made.toNs < nearNs;
    if (made && near && made.normals.size > 0 && nowMs - made.atMs < keptMs) return made.normals;
    // Concurrent requests share one computation.
    if (this.#making?.toNs !== toNs) this.#making = { toNs, normals: normalsBefore(this.#store, toNs) };
    const making = this.#making;
    try {
      const normals = await making.normals;
      this.#made = { atMs: nowMs, toNs, normals };
      return normals;
    } finally {
      if (this.#making === making) this.#making = null;
    }
  }
}

export const normalKey = (from: string, to: string, label: string, estimator: string): string =>
  JSON.stringify([from, to, label, estimator]);

async function normalsBefore(store: ResultsStore, toNs: bigint): Promise<Map<string, Normal>> {
  const normals = new Map<string, Normal>();
  const ofWeek = await store.spreads({ step: 3600, fromNs: 0n, toNs, share: 0.5, hourOfWeekNs: toNs });
  for (const { key, count, valueNs, spreadNs } of ofWeek)
    if (count >= FEWEST_OF_WEEK) normals.set(key, { valueNs, spreadNs, of: "hour of the week" });
  for (const { of, step, lengthNs, fewest, share } of SOURCES)
    for (const row of await store.spreads({
      step,
      fromNs: toNs - lengthNs,
      toNs,
      share,
      hourOfWeekNs: null,
    })) {
      const { key, count, valueNs, spreadNs } = row;
      if (count >= fewest && !normals.has(key)) normals.set(key, { valueNs, spreadNs, of });
    }
  return normals;
}
