/**
 * Returns rows in the order of their epochs, for paths and alerts, so that the result does not depend on which row was written first (docs/decisions/0035). A
 * late end completes an epoch after newer ones; after a worker has died, the next one writes later epochs before it has completed the open ones. Workers may
 * process the segments of a path at different speed, so rows are returned only up to the time that every segment has reached, and an epoch of a path is
 * evaluated with all of its segments. A silent segment or a missing epoch is waited for during a limited time.
 */
import { earlier, later } from "../../base/time.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { RowsFrom } from "../../results/row-selection.ts";
import type { SegmentRow } from "../../results/rows.ts";

/** How long one segment waits for another, in ms. */
const WAIT_MS = 60_000;
/** How long a missing epoch is waited for: longer than a lease plus a takeover, and longer than an epoch waits for its other end. */
const GAP_MS = 30_000;
const MAX_GAP_MS = 90_000;
/**
 * After an epoch that never came, missing epochs of the same series are not waited for during this time; otherwise taps that pause often would delay all paths.
 */
const PAUSE_MS = 600_000;
/** Missing epochs before the first read are not waited for if they are older than this. */
const RECENT_NS = 60_000_000_000n;
/** Rows that come later than this after newer ones are not read, and a segment that is silent for this long is not waited for. */
const LOOK_NS = 600_000_000_000n;
const FAR_NS = 9_000_000_000_000_000_000n;

export interface SharedRowsOptions {
  results: ResultsStore;
  /** The segments of the paths: an epoch waits for all of them, even if they have no rows yet. Null: no segment waits for another. */
  segments: readonly { from: string; to: string }[] | null;
  /** Returns whether rows are read: those of these segments, and others that are needed in addition. */
  isWanted: (from: string, to: string, label: string, estimator: string) => boolean;
  /** How much of a segment that is new here is read, in ns. */
  freshNs?: bigint | undefined;
  waitMs?: number | undefined;
  gapMs?: number | undefined;
  nowMs?: (() => number) | undefined;
}

/** Returns how long to wait for a missing epoch, given how long epochs wait for their other end. */
export function gapMsOf(latenessNs: bigint): number {
  return Math.min(MAX_GAP_MS, Math.max(GAP_MS, Number(latenessNs / 1_000_000n) + 15_000));
}

/** How far the rows of a segment, label and estimator have been read. */
interface Series {
  /** Start and end of the last epoch before the first gap. */
  startNs: bigint;
  endNs: bigint;
  /** Epochs behind a gap: end by start. */
  ahead: Map<bigint, bigint>;
  /** When the gap was first seen; null without a gap. */
  gapMs: number | null;
  /** Until this time, gaps are not waited for. */
  hastyMs: number;
  /** No row of it has been returned yet. */
  isFresh: boolean;
}

export class SharedRows {
  readonly #options: SharedRowsOptions;
  /** By segment, label and estimator. */
  readonly #read = new Map<string, Series>();
  /** By segment: end of the last row before the first gap. */
  readonly #newest = new Map<string, bigint>();
  /** Segments that were waited for in vain, until they have new rows. */
  readonly #silent = new Set<string>();
  #held: SegmentRow[] = [];
  #movedMs: number;

  constructor(options: SharedRowsOptions) {
    this.#options = options;
    this.#movedMs = this.#nowMs();
  }

  /** Reads new rows from the results; returns those that are ready to be evaluated, unsorted. */
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

  /** Forgets segments, so that their rows are read again. */
  forget(isGone: (from: string, to: string) => boolean): void {
    for (const name of this.#read.keys()) {
      const [from = "", to = ""] = JSON.parse(name) as string[];
      if (!isGone(from, to)) continue;
      this.#read.delete(name);
      this.#newest.delete(keyOfName(name));
    }
    this.#held = this.#held.filter(({ segment }) => !isGone(segment.from, segment.to));
  }

  /** Adds rows that were read elsewhere. */
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

  /** Returns the rows that are ready to be evaluated, unsorted. */
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

  /** Finds how far each segment has got. */
  #look(): void {
    this.#newest.clear();
    const gaps = new Map<string, bigint>();
    for (const [name, { endNs, gapMs }] of this.#read) {
      const key = keyOfName(name);
      if (gapMs !== null) gaps.set(key, earlier(endNs, gaps.get(key) ?? endNs));
      this.#newest.set(key, later(endNs, this.#newest.get(key) ?? 0n));
    }
    // Other estimators of the segment wait for the gap too.
    for (const [key, endNs] of gaps) this.#newest.set(key, endNs);
  }

  /** Advances a series to its next gap, or beyond a gap that is no longer waited for. */
  #join(series: Series): void {
    if (series.ahead.size === 0) return;
    const nowMs = this.#nowMs();
    const recentNs = series.isFresh ? [...series.ahead.keys()].reduce(later, 0n) - RECENT_NS : 0n;
    series.isFresh = false;
    for (const [startNs, endNs] of [...series.ahead].sort(([a], [b]) => (a < b ? -1 : 1))) {
      // A restarted tap begins in the middle of an epoch.
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

  /** Returns, by segment, how far it has got; 0 before its first row. */
  #reached(): [string, bigint][] {
    const keys = new Set([...(this.#options.segments ?? []).map(keyOf), ...this.#newest.keys()]);
    return [...keys].map((key) => [key, this.#newest.get(key) ?? 0n]);
  }

  /** Stops waiting for the segments that are behind. */
  #giveUp(): void {
    const lastNs = this.#held.map((row) => row.startNs).reduce(later, 0n);
    for (const [key, ns] of this.#reached()) if (ns <= lastNs) this.#silent.add(key);
  }

  /** Returns the time that every segment has reached, without those that are not waited for. */
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
