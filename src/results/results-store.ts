/**
 * The result store: rows of segments and flows, incidents, alerts and arrivals. Two implementations: embedded DuckDB (duckdb-store.ts) and ClickHouse
 * servers (clickhouse/). Both answer the same questions with the same numbers, because queries (segment-reader.ts, flow-reader.ts) and the roll-up are
 * written once.
 *
 * A row written again replaces the earlier one, so what is estimated twice, after a crash or for a late record, counts once. A row lacking an endpoint
 * never replaces one that has both. Rows of minutes and hours are made when their time is over, and again when an epoch in them changes; the spans to
 * be made are stored beside the rows.
 */
import { grouped } from "../base/grouped.ts";
import type { ArrivalsTable } from "./arrivals-table.ts";
import type { Questions } from "./dialect.ts";
import { FlowReader } from "./flow-reader.ts";
import type { HappeningTable } from "./happenings.ts";
import { bucketOf } from "./row-selection.ts";
import { combineFlow, combineRows, type FlowRow, type SegmentRow, STEPS, type Step } from "./rows.ts";
import { SegmentReader } from "./segment-reader.ts";

/** Flows kept per minute or hour: those with the most packets. */
const ROLLED_FLOWS = 200;
/** Spans read, rolled up and written together. */
const SPANS_AT_ONCE = 50;

/** A minute or an hour of a segment that must be rolled up from finer rows. */
export interface OpenSpan {
  from: string;
  to: string;
  label: string;
  estimator: string;
  step: Step;
  startNs: bigint;
}

export interface RolledSpans {
  spans: readonly OpenSpan[];
  segments: readonly SegmentRow[];
  flows: readonly FlowRow[];
}

export interface RetainedRows {
  nowNs: bigint;
  keepNs: bigint | null;
  /** Total size of segment and flow rows, before the database compresses them. */
  maxBytes: number | null;
}

export abstract class ResultsStore extends SegmentReader {
  readonly flows: FlowReader;
  abstract readonly incidents: HappeningTable;
  abstract readonly alerts: HappeningTable;
  abstract readonly arrivals: ArrivalsTable;
  #rolling: Promise<unknown> = Promise.resolve();

  protected constructor(questions: Questions) {
    super(questions);
    this.flows = new FlowReader(questions);
  }

  /**
   * Writes rows; they are durable when it resolves. May be repeated with the same rows. All flows of an epoch are passed together and replace the
   * earlier ones. `fenceOf`: with several writers, an earlier owner of a segment has a smaller fence than the current one and replaces none of its
   * rows, however late its rows arrive.
   */
  abstract write(
    segments: readonly SegmentRow[],
    flows: readonly FlowRow[],
    fenceOf?: (segment: SegmentRow["segment"]) => number,
  ): Promise<void>;

  /**
   * Removes rows of a step that ended more than `keepNs` before the newest row (or before now, if that is earlier), and the oldest beyond
   * `maxBytes`.
   */
  abstract retain(step: Step, rows: RetainedRows): Promise<void>;

  /** Writes a table to a file. */
  abstract export(table: "segments" | "flows", path: string, format: "parquet" | "csv"): Promise<void>;

  /** Memory used by the database if it is in this process; otherwise null. */
  async memoryBytes(): Promise<number | null> {
    return null;
  }

  abstract close(): Promise<void>;

  /** Returns the spans of a step that ended at or before a time and must be rolled up, oldest first. */
  protected abstract openSpans(step: Step, untilNs: bigint, most: number): Promise<OpenSpan[]>;

  /** Writes rolled-up rows and closes their spans, unless something in them was written meanwhile. */
  protected abstract writeRolled(rolled: RolledSpans): Promise<void>;

  /** Rolls up the minutes and hours that ended at or before `untilNs` and have changed. Returns how many. Calls run one at a time. */
  rollUp(untilNs: bigint, most = 500): Promise<number> {
    const made = this.#rolling.then(() => this.#rollUpNow(untilNs, most));
    this.#rolling = made.catch(() => 0);
    return made;
  }

  async #rollUpNow(untilNs: bigint, most: number): Promise<number> {
    let made = 0;
    for (const [i, step] of STEPS.entries()) {
      const below = STEPS[i - 1];
      if (step === 0 || below === undefined) continue;
      const spans = await this.openSpans(step, untilNs, most);
      for (const together of chunks(spans)) await this.#roll(together, step, below);
      made += spans.length;
    }
    return made;
  }

  /** Rolls up spans of one step, given in order of time: one read and one write for all. */
  async #roll(spans: readonly OpenSpan[], step: Step, below: Step): Promise<void> {
    const lengthNs = BigInt(step) * 1_000_000_000n;
    const endNs = (spans.at(-1)?.startNs ?? 0n) + lengthNs;
    const asked = new Set(spans.map(openName));
    const nameOf = ({ segment, estimator, startNs }: SegmentRow | FlowRow) =>
      openName({ ...segment, estimator, step, startNs: bucketOf(startNs, step) });
    const spanOf = (row: SegmentRow | FlowRow) => {
      const startNs = bucketOf(row.startNs, step);
      return { step, startNs, endNs: startNs + lengthNs };
    };
    const isAsked = ([name]: [string, unknown]) => asked.has(name);
    const rows = [...grouped(await this.rowsOf(spans, endNs, below), nameOf)].filter(isAsked);
    const flowRows = [...grouped(await this.flows.rowsOf(spans, endNs, below), nameOf)].filter(isAsked);
    const segments = rows.flatMap(([, list]) => {
      const [first] = list;
      return (first && combineRows(list, spanOf(first))?.row) ?? [];
    });
    const flows = flowRows.flatMap(([, list]) => {
      const byFlow = grouped(list, (row) => row.flow);
      const rolled = [...byFlow.values()].flatMap((own) => {
        const [first] = own;
        return (first && combineFlow(own, spanOf(first))?.row) ?? [];
      });
      rolled.sort(byPackets);
      return rolled.slice(0, ROLLED_FLOWS);
    });
    await this.writeRolled({ spans, segments, flows });
  }
}

/** Returns the minutes and hours that the rows are part of. */
export function spansOf(rows: Iterable<Pick<SegmentRow, "segment" | "estimator" | "startNs">>): OpenSpan[] {
  const spans = new Map<string, OpenSpan>();
  for (const { segment, estimator, startNs } of rows)
    for (const step of STEPS.slice(1)) {
      const span = { ...segment, estimator, step, startNs: bucketOf(startNs, step) };
      spans.set(openName(span), span);
    }
  return [...spans.values()];
}

export function openName({ from, to, label, estimator, step, startNs }: OpenSpan): string {
  return JSON.stringify([from, to, label, estimator, step, `${startNs}`]);
}

/** Whether a row lacking an endpoint is replaced by a pair: its middle lies in the pair's time. If packets delimit epochs, the starts differ. */
export function isReplacedBy(
  missing: { startNs: bigint; endNs: bigint },
  pair: Pick<SegmentRow, "startNs" | "endNs">,
): boolean {
  const twice = missing.startNs + missing.endNs;
  const overlap = missing.startNs < pair.endNs && missing.endNs > pair.startNs;
  return overlap && twice >= 2n * pair.startNs && twice <= 2n * pair.endNs;
}

function* chunks(spans: readonly OpenSpan[]): Generator<OpenSpan[]> {
  for (let at = 0; at < spans.length; at += SPANS_AT_ONCE) yield spans.slice(at, at + SPANS_AT_ONCE);
}

function byPackets(a: FlowRow, b: FlowRow): number {
  return (b.state.packets ?? 0) - (a.state.packets ?? 0) || (a.flow < b.flow ? -1 : 1);
}
