/**
 * Rows that several workers write to one store, read for the paths as they come (docs/decisions/0035). Segments of a path may be worked by different workers, one of them behind: rows are given out only
 * as far as every segment has come, so that an epoch of a path is judged with all of its segments, and in order: after a worker died, the next one writes later epochs before it has made those that
 * were open. A segment that stays away, or an epoch that is left out, is waited for a while, and then missing.
 */
import { earlier, later } from "../../base/time.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { RowsFrom } from "../../results/row-selection.ts";
import type { SegmentRow } from "../../results/rows.ts";

/** How long one segment waits for another, ms. */
const WAIT_MS = 60_000;
/** How long an epoch that is left out is waited for: longer than a lease and taking over. */
const GAP_MS = 30_000;
/** After one that never came, those of its series are not waited for: taps that pause often would hold up all paths. */
const PAUSE_MS = 600_000;
/** Of what was there before it was read, one that is older than this is not waited for. */
const RECENT_NS = 60_000_000_000n;
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
  gapMs?: number | undefined;
  nowMs?: () => number;
}

/** How far the rows of a segment, label and estimator are read. */
interface Series {
  /** Start and end of the last one before which none is missing. */
  startNs: bigint;
  endNs: bigint;
  /** Those behind a gap, by their start. */
  ahead: Map<bigint, bigint>;
  /** When the gap was first seen; null: there is none. */
  gapMs: number | null;
  /** Until then no gap is waited for. */
  hastyMs: number;
}

export class SharedRows {
  readonly #options: SharedRowsOptions;
  /** By segment, label and estimator. */
  readonly #read = new Map<string, Series>();
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
        if (read === undefined || lastNs > read.startNs)
          spans.push({
            ...names,
            startNs: read === undefined ? recentNs : later(read.startNs + 1n, recentNs),
          });
      }
    }
    spans.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
    this.hold(await results.rowsOf(spans, FAR_NS, 0));
    return this.release();
  }

  /** Rows that were read otherwise. */
  hold(rows: readonly SegmentRow[]): void {
    const fresh = new Set<Series>();
    for (const row of [...rows].sort((a, b) => (a.startNs < b.startNs ? -1 : 1))) {
      const { segment, estimator, startNs, endNs } = row;
      const name = nameOf({ ...segment, estimator });
      const known = this.#read.get(name);
      if (known && (startNs <= known.startNs || known.ahead.has(startNs))) continue;
      if (known) known.ahead.set(startNs, endNs);
      else {
        const series: Series = { startNs, endNs, ahead: new Map(), gapMs: null, hastyMs: 0 };
        this.#read.set(name, series);
        fresh.add(series);
      }
      this.#silent.delete(keyOf(segment));
      this.#held.push(row);
    }
    this.#newest.clear();
    const gaps = new Map<string, bigint>();
    for (const [name, series] of this.#read) {
      this.#join(series, fresh.has(series));
      const [key, { startNs, gapMs }] = [keyOfName(name), series];
      if (gapMs !== null) gaps.set(key, earlier(startNs, gaps.get(key) ?? startNs));
      this.#newest.set(key, later(startNs, this.#newest.get(key) ?? 0n));
    }
    // Other estimators of the segment do not go on without it.
    for (const [key, startNs] of gaps) this.#newest.set(key, startNs);
  }

  /** As far as no epoch is left out, or is waited for no longer. */
  #join(series: Series, isFresh: boolean): void {
    const nowMs = this.#nowMs();
    const recentNs = isFresh ? [...series.ahead.keys()].reduce(later, 0n) - RECENT_NS : 0n;
    for (const [startNs, endNs] of [...series.ahead].sort(([a], [b]) => (a < b ? -1 : 1))) {
      // Taps that are started again begin in the middle of an epoch.
      const isLeftOut = 2n * (startNs - series.endNs) > endNs - startNs && startNs > recentNs;
      if (isLeftOut && nowMs >= series.hastyMs) {
        series.gapMs ??= nowMs;
        if (nowMs - series.gapMs < (this.#options.gapMs ?? GAP_MS)) return;
        series.hastyMs = nowMs + PAUSE_MS;
      }
      series.gapMs = null;
      series.ahead.delete(startNs);
      Object.assign(series, { startNs, endNs });
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
const keyOfName = (name: string) => {
  const [from = "", to = ""] = JSON.parse(name) as string[];
  return keyOf({ from, to });
};
const keyOf = ({ from, to }: { from: string; to: string }) => `${from}\n${to}`;
