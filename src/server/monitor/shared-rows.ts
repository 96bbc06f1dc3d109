/**
 * Rows in the order of their epochs, for paths and alerts: what is judged must not depend on which row was written first (docs/decisions/0035). A late end completes an epoch after newer ones; after a
 * worker died, the next one writes later epochs before it has made those that were open. Segments of a path may be worked by different workers, one of them behind: rows are given out only as far as
 * every segment has come, so that an epoch of a path is judged with all of its segments. A segment that stays away, or an epoch that is left out, is waited for a while, and then missing.
 */
import { earlier, later } from "../../base/time.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { RowsFrom } from "../../results/row-selection.ts";
import type { SegmentRow } from "../../results/rows.ts";

/** How long one segment waits for another, ms. */
const WAIT_MS = 60_000;
/** How long an epoch that is left out is waited for: longer than a lease and taking over, and longer than it waits for its other end. */
const GAP_MS = 30_000;
const MAX_GAP_MS = 90_000;
/** After one that never came, those of its series are not waited for: taps that pause often would hold up all paths. */
const PAUSE_MS = 600_000;
/** Of what was there before it was read, one that is older than this is not waited for. */
const RECENT_NS = 60_000_000_000n;
/** What comes later than this after newer rows is not looked for, and a segment that is silent for so long is not waited for. */
const LOOK_NS = 600_000_000_000n;
const FAR_NS = 9_000_000_000_000_000_000n;

export interface SharedRowsOptions {
  results: ResultsStore;
  /** The paths' segments: an epoch waits for all of them, whether they have rows yet or not. Null: no segment waits for another. */
  segments: readonly { from: string; to: string }[] | null;
  /** Is it one of those, or beside them? */
  isWanted: (from: string, to: string, label: string, estimator: string) => boolean;
  /** How much of a segment that is new here is read, ns. */
  freshNs?: bigint | undefined;
  waitMs?: number | undefined;
  gapMs?: number | undefined;
  nowMs?: (() => number) | undefined;
}

/** How long to wait for an epoch that is left out where epochs wait so long for their other end. */
export function gapMsOf(latenessNs: bigint): number {
  return Math.min(MAX_GAP_MS, Math.max(GAP_MS, Number(latenessNs / 1_000_000n) + 15_000));
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
  /** Nothing was given out of it yet. */
  isFresh: boolean;
}

export class SharedRows {
  readonly #options: SharedRowsOptions;
  /** By segment, label and estimator. */
  readonly #read = new Map<string, Series>();
  /** How far each segment is: where its last row ends. */
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
    const { results, isWanted, freshNs = LOOK_NS } = this.#options;
    const spans: RowsFrom[] = [];
    for (const { from, to, label, estimators, firstNs, lastNs } of await results.segments()) {
      const recentNs = later(firstNs, lastNs - LOOK_NS);
      for (const estimator of estimators) {
        if (!isWanted(from, to, label, estimator)) continue;
        const names = { from, to, label, estimator };
        const read = this.#read.get(nameOf(names));
        if (read === undefined || lastNs > read.startNs)
          spans.push({
            ...names,
            startNs:
              read === undefined ? later(firstNs, lastNs - freshNs) : later(read.startNs + 1n, recentNs),
          });
      }
    }
    spans.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
    this.hold(await results.rowsOf(spans, FAR_NS, 0));
    return this.release();
  }

  /** Drops what is known of segments: what they have is read anew. */
  forget(isGone: (from: string, to: string) => boolean): void {
    for (const name of this.#read.keys()) {
      const [from = "", to = ""] = JSON.parse(name) as string[];
      if (!isGone(from, to)) continue;
      this.#read.delete(name);
      this.#newest.delete(keyOfName(name));
    }
    this.#held = this.#held.filter(({ segment }) => !isGone(segment.from, segment.to));
  }

  /** Rows that were read otherwise. */
  hold(rows: readonly SegmentRow[]): void {
    for (const row of [...rows].sort((a, b) => (a.startNs < b.startNs ? -1 : 1))) {
      const { segment, estimator, startNs, endNs } = row;
      if (!this.#options.isWanted(segment.from, segment.to, segment.label, estimator)) continue;
      const name = nameOf({ ...segment, estimator });
      const known = this.#read.get(name);
      if (known && (startNs <= known.startNs || known.ahead.has(startNs))) continue;
      if (known) known.ahead.set(startNs, endNs);
      else this.#read.set(name, { startNs, endNs, ahead: new Map(), gapMs: null, hastyMs: 0, isFresh: true });
      this.#silent.delete(keyOf(segment));
      this.#held.push(row);
    }
  }

  /** What may be judged by now; in no order. */
  release(): SegmentRow[] {
    for (const series of this.#read.values()) this.#join(series);
    if (this.#options.segments === null)
      return this.#take(
        ({ segment, estimator, startNs }) =>
          startNs <= (this.#read.get(nameOf({ ...segment, estimator }))?.startNs ?? 0n),
      );
    this.#look();
    if (this.#held.length === 0) this.#movedMs = this.#nowMs();
    else if (this.#nowMs() - this.#movedMs >= (this.#options.waitMs ?? WAIT_MS)) this.#giveUp();
    const untilNs = this.#frontier();
    const out = this.#take((row) => row.startNs < untilNs);
    if (out.length > 0) this.#movedMs = this.#nowMs();
    return out;
  }

  #take(isFree: (row: SegmentRow) => boolean): SegmentRow[] {
    const out = this.#held.filter(isFree);
    if (out.length > 0) this.#held = this.#held.filter((row) => !isFree(row));
    return out;
  }

  /** How far each segment is. */
  #look(): void {
    this.#newest.clear();
    const gaps = new Map<string, bigint>();
    for (const [name, { endNs, gapMs }] of this.#read) {
      const key = keyOfName(name);
      if (gapMs !== null) gaps.set(key, earlier(endNs, gaps.get(key) ?? endNs));
      this.#newest.set(key, later(endNs, this.#newest.get(key) ?? 0n));
    }
    // Other estimators of the segment do not go on without it.
    for (const [key, endNs] of gaps) this.#newest.set(key, endNs);
  }

  /** As far as no epoch is left out, or is waited for no longer. */
  #join(series: Series): void {
    if (series.ahead.size === 0) return;
    const nowMs = this.#nowMs();
    const recentNs = series.isFresh ? [...series.ahead.keys()].reduce(later, 0n) - RECENT_NS : 0n;
    series.isFresh = false;
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

  /** By segment: how far it is; 0 before its first row. */
  #reached(): [string, bigint][] {
    const keys = new Set([...(this.#options.segments ?? []).map(keyOf), ...this.#newest.keys()]);
    return [...keys].map((key) => [key, this.#newest.get(key) ?? 0n]);
  }

  /** Those that are behind are not waited for any longer. */
  #giveUp(): void {
    const lastNs = this.#held.map((row) => row.startNs).reduce(later, 0n);
    for (const [key, ns] of this.#reached()) if (ns <= lastNs) this.#silent.add(key);
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
