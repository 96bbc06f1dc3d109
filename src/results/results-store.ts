/**
 * Where results are kept: rows of segments and flows, incidents, alerts and arrivals. Two databases: DuckDB embedded (duckdb-store.ts), ClickHouse on servers (clickhouse/). Both answer the same questions
 * with the same numbers: what is asked is written once (segment-reader.ts, flow-reader.ts), and so is how minutes and hours are made of what is below them.
 *
 * A row written again replaces the one before: what is estimated twice, after a crash or because a late record came, counts once. A row that names an end as missing never replaces one that has both.
 * Rows of a minute and of an hour are made when their time is over, and again when something in them changes: which ones are to be made is kept beside the rows.
 */
import type { ArrivalsTable } from "./arrivals-table.ts";
import type { Questions } from "./dialect.ts";
import { FlowReader } from "./flow-reader.ts";
import type { HappeningTable } from "./happenings.ts";
import { combineFlow, combineRows, type FlowRow, type SegmentRow, STEPS, type Step } from "./rows.ts";
import { bucketOf, SegmentReader } from "./segment-reader.ts";

/** Flows kept of a minute or an hour: those with the most packets. */
const ROLLED_FLOWS = 200;
/** Spans that are read, made and written together. */
const SPANS_AT_ONCE = 50;

/** A minute or an hour of a segment that is to be made from the rows below. */
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
  maxRows: number | null;
}

export abstract class ResultsStore extends SegmentReader {
  readonly flows: FlowReader;
  abstract readonly incidents: HappeningTable;
  abstract readonly alerts: HappeningTable;
  abstract readonly arrivals: ArrivalsTable;

  protected constructor(questions: Questions) {
    super(questions);
    this.flows = new FlowReader(questions);
  }

  /** When it resolves they are kept. May be called again with the same rows. All flows of an epoch come together, and replace those before. */
  abstract write(segments: readonly SegmentRow[], flows: readonly FlowRow[]): Promise<void>;

  /** Removes rows of a step that ended longer before the newest (or before now, where that is earlier) than is kept, and the oldest beyond so many. */
  abstract retain(step: Step, rows: RetainedRows): Promise<void>;

  /** The rows of a table as a file. */
  abstract export(table: "segments" | "flows", path: string, format: "parquet" | "csv"): Promise<void>;

  abstract close(): Promise<void>;

  /** Spans of a step that ended at or before a time and are to be made, oldest first. */
  protected abstract openSpans(step: Step, untilNs: bigint, most: number): Promise<OpenSpan[]>;

  /** Writes rows of spans; those are no longer open, unless something in them was written meanwhile. */
  protected abstract writeRolled(rolled: RolledSpans): Promise<void>;

  /** Makes the rows of minutes and hours that ended at or before `untilNs` and have changed; returns how many. */
  async rollUp(untilNs: bigint, most = 500): Promise<number> {
    let made = 0;
    for (const [i, step] of STEPS.entries()) {
      const below = STEPS[i - 1];
      if (step === 0 || below === undefined) continue;
      const spans = await this.openSpans(step, untilNs, most);
      for (const together of sameStart(spans)) {
        await this.#roll(together, below);
        made += together.length;
      }
    }
    return made;
  }

  /** Spans of one step that start together. */
  async #roll(spans: readonly OpenSpan[], below: Step): Promise<void> {
    const [first] = spans;
    if (!first) return;
    const { step, startNs } = first;
    const span = { step, startNs, endNs: startNs + BigInt(step) * 1_000_000_000n };
    const rows = grouped(await this.rowsOf(spans, span.endNs, below), spanName);
    const flowRows = grouped(await this.flows.rowsOf(spans, span.endNs, below), spanName);
    const segments = [...rows.values()].flatMap((list) => combineRows(list, span)?.row ?? []);
    const flows = [...flowRows.values()].flatMap((list) => {
      const byFlow = grouped(list, (row) => row.flow);
      const rolled = [...byFlow.values()].flatMap((own) => combineFlow(own, span)?.row ?? []);
      rolled.sort(byPackets);
      return rolled.slice(0, ROLLED_FLOWS);
    });
    await this.writeRolled({ spans, segments, flows });
  }
}

/** The steps above an epoch that a row is part of. */
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

/** A row whose other end had not come: where packets cut epochs, its start is not that of the pair. Is its middle in the pair's time? */
export function isReplacedBy(
  missing: { startNs: bigint; endNs: bigint },
  pair: Pick<SegmentRow, "startNs" | "endNs">,
): boolean {
  const twice = missing.startNs + missing.endNs;
  const overlap = missing.startNs < pair.endNs && missing.endNs > pair.startNs;
  return overlap && twice >= 2n * pair.startNs && twice <= 2n * pair.endNs;
}

function* sameStart(spans: readonly OpenSpan[]): Generator<OpenSpan[]> {
  let list: OpenSpan[] = [];
  for (const span of spans) {
    if (list.length === SPANS_AT_ONCE || (list[0] && list[0].startNs !== span.startNs)) {
      yield list;
      list = [];
    }
    list.push(span);
  }
  if (list.length > 0) yield list;
}

function grouped<T>(rows: Iterable<T>, nameOf: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const name = nameOf(row);
    const known = groups.get(name);
    if (known) known.push(row);
    else groups.set(name, [row]);
  }
  return groups;
}

const spanName = ({ segment, estimator }: Pick<SegmentRow, "segment" | "estimator">) =>
  JSON.stringify([segment.from, segment.to, segment.label, estimator]);

function byPackets(a: FlowRow, b: FlowRow): number {
  return (b.state.packets ?? 0) - (a.state.packets ?? 0) || (a.flow < b.flow ? -1 : 1);
}
