/**
 * The rows for alert rules, each segment in the order of its epochs (monitor/shared-rows.ts). For a segment that is new to this process, it reads from the
 * results the rows since the start of the segment's active alerts, or as many as a rule may need. The rules then have the same state as in a process that never
 * stopped.
 */
import { later } from "../../base/time.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import { isWhole } from "../../epoch/direction-label.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { RowsFrom } from "../../results/row-selection.ts";
import type { SegmentRow } from "../../results/rows.ts";
import { gapMsOf, SharedRows } from "../monitor/shared-rows.ts";
import type { AlertRule } from "./alert.ts";

/** Added to the longest hold time of the rules. */
const FRESH_NS = 30_000_000_000n;
/** Maximum time span of rows read for an active alert. */
const MAX_SINCE_NS = 86_400_000_000_000n;
const FAR_NS = 9_000_000_000_000_000_000n;

export interface AlertRowsOptions {
  results: ResultsStore;
  latenessNs: bigint | undefined;
  /** Returns whether this process evaluates the segments that end at a point. */
  owns: (point: string) => boolean;
  rules: () => readonly AlertRule[];
  /** Returns when the oldest active alert of a segment began; null without one. */
  activeSince: (segment: CollectedSegment) => bigint | null;
}

export class AlertRows {
  readonly #options: AlertRowsOptions;
  readonly #rows: SharedRows;
  /** Segments that `readFresh` has read. */
  readonly #known = new Set<string>();

  constructor(options: AlertRowsOptions) {
    const { results, latenessNs } = options;
    this.#options = options;
    this.#rows = new SharedRows({
      ...{ results, segments: null, freshNs: FRESH_NS },
      gapMs: latenessNs === undefined ? undefined : gapMsOf(latenessNs),
      isWanted: (from, to, label, estimator) => this.#isWanted({ from, to, label }, estimator),
    });
  }

  /** Whether any rule is about rows. */
  get areWanted(): boolean {
    return this.#options.rules().some(isAboutRows);
  }

  hold(rows: readonly SegmentRow[]): void {
    this.#rows.hold(rows);
  }

  /** Returns the rows that are ready to be evaluated. */
  release(): SegmentRow[] {
    return this.#rows.release();
  }

  /** Reads new rows from the results; returns those that are ready to be evaluated. */
  next(): Promise<SegmentRow[]> {
    return this.#rows.next();
  }

  /** Forgets the segments that another worker evaluates now. */
  giveUp(): void {
    const { owns } = this.#options;
    this.#rows.forget((_, to) => !owns(to));
    for (const name of this.#known) {
      const [, to = ""] = JSON.parse(name) as string[];
      if (!owns(to)) this.#known.delete(name);
    }
  }

  /** Reads earlier rows of segments that are new here. `begin` is called first if there are any. */
  async readFresh(begin: () => Promise<void>): Promise<void> {
    const { results, rules, activeSince } = this.#options;
    const fresh = (await results.segments()).flatMap(({ from, to, label, estimators, lastNs }) =>
      this.#known.has(JSON.stringify([from, to, label]))
        ? []
        : estimators
            .filter((estimator) => this.#isWanted({ from, to, label }, estimator))
            .map((estimator) => ({ from, to, label, estimator, lastNs })),
    );
    if (fresh.length === 0) return;
    await begin();
    const waitNs = rules()
      .map((r) => later(r.forNs, r.clearAfterNs))
      .reduce(later, 0n);
    const rows: SegmentRow[] = [];
    const spans: RowsFrom[] = [];
    for (const { lastNs, ...names } of fresh) {
      const beganNs = activeSince(names);
      const startNs = lastNs - waitNs - FRESH_NS;
      if (beganNs === null || beganNs >= startNs) spans.push({ ...names, startNs });
      else {
        const fromNs = later(beganNs, lastNs - MAX_SINCE_NS);
        rows.push(...(await results.segmentRows({ ...names, fromNs, toNs: lastNs }, 0)));
      }
    }
    spans.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
    if (spans.length > 0) rows.push(...(await results.rowsOf(spans, FAR_NS, 0)));
    for (const { from, to, label } of fresh) this.#known.add(JSON.stringify([from, to, label]));
    this.#rows.hold(rows);
  }

  #isWanted(segment: CollectedSegment, estimator: string): boolean {
    const { owns, rules } = this.#options;
    if (!owns(segment.to)) return false;
    return rules().some(
      (rule) => isAboutRows(rule) && isAbout(rule, segment) && (rule.estimator ?? estimator) === estimator,
    );
  }
}

function isAboutRows({ condition }: AlertRule): boolean {
  return condition.kind === "threshold" && condition.quantity !== "silent";
}

export function isAbout({ segment }: AlertRule, { from, to, label }: CollectedSegment): boolean {
  if (!segment) return true;
  if (segment.from !== from || segment.to !== to) return false;
  return segment.label === "" ? isWhole(label, from, to) : label === segment.label;
}
