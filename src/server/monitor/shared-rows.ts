/**
 * Rows that several workers write to one store, read for the paths as they come (docs/decisions/0035). Segments of a path may be worked by different workers, one of them behind: rows are given out only
 * as far as every segment has come, so that an epoch of a path is judged with all of its segments. A segment that stays away is waited for a while, and then missing.
 */
import { earlier, later } from "../../base/time.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { RowsFrom } from "../../results/row-selection.ts";
import type { SegmentRow } from "../../results/rows.ts";

/** How long one segment waits for another, ms. */
const WAIT_MS = 60_000;
/** What comes later than this after newer rows is not looked for, and a segment that is silent for so long is not waited for. */
const LOOK_NS = 600_000_000_000n;
const FAR_NS = 9_000_000_000_000_000_000n;

export interface SharedRowsOptions {
  results: ResultsStore;
  /** The paths' segments: an epoch waits for all of them, whether they have rows yet or not. */
  segments: readonly { from: string; to: string }[];
  /** Is it one of those, or beside them? */
  isWanted: (from: string, to: string) => boolean;
  waitMs?: number | undefined;
  nowMs?: () => number;
}

export class SharedRows {
  readonly #options: SharedRowsOptions;
  /** Start of the newest row that was read, by segment, label and estimator. */
  readonly #read = new Map<string, bigint>();
  /** The same by segment: how far each is. */
  readonly #newest = new Map<string, bigint>();
  /** They were waited for; until they come. */
  readonly #silent = new Set<string>();
  #held: SegmentRow[] = [];
  #movedMs: number;

  constructor(options: SharedRowsOptions) {
    this.#options = options;
    this.#movedMs = this.#nowMs();
  }

  /** What has come since, as far as it may be judged; in no order. */
  async next(): Promise<SegmentRow[]> {
    const { results, isWanted } = this.#options;
    const spans: RowsFrom[] = [];
    for (const { from, to, label, estimators, firstNs, lastNs } of await results.segments()) {
      if (!isWanted(from, to)) continue;
      const recentNs = later(firstNs, lastNs - LOOK_NS);
      for (const estimator of estimators) {
        const names = { from, to, label, estimator };
        const read = this.#read.get(nameOf(names));
        if (read === undefined || lastNs > read)
          spans.push({ ...names, startNs: read === undefined ? recentNs : later(read + 1n, recentNs) });
      }
    }
    spans.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
    this.hold(await results.rowsOf(spans, FAR_NS, 0));
    return this.release();
  }

  /** Rows that were read otherwise. */
  hold(rows: readonly SegmentRow[]): void {
    for (const row of rows) {
      const { segment, estimator, startNs } = row;
      const name = nameOf({ ...segment, estimator });
      if (startNs <= (this.#read.get(name) ?? -1n)) continue;
      this.#read.set(name, startNs);
      const key = keyOf(segment);
      this.#newest.set(key, later(startNs, this.#newest.get(key) ?? 0n));
      this.#silent.delete(key);
      this.#held.push(row);
    }
  }

  release(): SegmentRow[] {
    if (this.#held.length === 0) this.#movedMs = this.#nowMs();
    else if (this.#nowMs() - this.#movedMs >= (this.#options.waitMs ?? WAIT_MS)) this.#giveUp();
    const untilNs = this.#frontier();
    const out = this.#held.filter((row) => row.startNs <= untilNs);
    if (out.length > 0) this.#movedMs = this.#nowMs();
    this.#held = this.#held.filter((row) => row.startNs > untilNs);
    return out;
  }

  /** By segment: how far it is; 0 before its first row. */
  #reached(): [string, bigint][] {
    const keys = new Set([...this.#options.segments.map(keyOf), ...this.#newest.keys()]);
    return [...keys].map((key) => [key, this.#newest.get(key) ?? 0n]);
  }

  /** Those that are behind are not waited for any longer. */
  #giveUp(): void {
    const lastNs = this.#held.map((row) => row.startNs).reduce(later, 0n);
    for (const [key, ns] of this.#reached()) if (ns < lastNs) this.#silent.add(key);
  }

  /** Every segment that is waited for has come so far. */
  #frontier(): bigint {
    const reached = this.#reached();
    const lastNs = reached.map(([, ns]) => ns).reduce(later, 0n);
    return reached
      .filter(([key, ns]) => !this.#silent.has(key) && (ns === 0n || ns > lastNs - LOOK_NS))
      .reduce((least, [, ns]) => earlier(least, ns), lastNs);
  }

  #nowMs(): number {
    return (this.#options.nowMs ?? (() => performance.now()))();
  }
}

const nameOf = ({ from, to, label, estimator }: Omit<RowsFrom, "startNs">) =>
  JSON.stringify([from, to, label, estimator]);
const keyOf = ({ from, to }: { from: string; to: string }) => `${from}\n${to}`;
