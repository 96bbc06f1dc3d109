/**
 * Where results are kept: rows of segments and flows, incidents, alerts and arrivals. Two databases: DuckDB embedded (duckdb-store.ts), ClickHouse on servers (clickhouse/). Both answer the same questions
 * with the same numbers: what is asked is written once (segment-reader.ts, flow-reader.ts), and so is how minutes and hours are made of what is below them.
 *
 * A row written again replaces the one before: what is estimated twice, after a crash or because a late record came, counts once. A row that names an end as missing never replaces one that has both.
 * Rows of a minute and of an hour are made when their time is over, and again when something in them changes: which ones are to be made is kept beside the rows.
 */
import { grouped } from "../base/grouped.ts";
import type { ArrivalsTable } from "./arrivals-table.ts";
import type { Questions } from "./dialect.ts";
import { FlowReader } from "./flow-reader.ts";
import type { HappeningTable } from "./happenings.ts";
import { bucketOf } from "./row-selection.ts";
import { combineFlow, combineRows, type FlowRow, type SegmentRow, STEPS, type Step } from "./rows.ts";
import { SegmentReader } from "./segment-reader.ts";

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
  /** Of rows of segments and flows together, before the database packs them. */
  maxBytes: number | null;
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

  /**
   * When it resolves they are kept. May be called again with the same rows. All flows of an epoch come together, and replace those before. `fenceOf`: where several processes write, one that owned a
   * segment before has a smaller fence than the one that owns it now, and replaces nothing of it, however late its rows arrive.
   */
  abstract write(
    segments: readonly SegmentRow[],
    flows: readonly FlowRow[],
    fenceOf?: (segment: SegmentRow["segment"]) => number,
  ): Promise<void>;

  /** Removes rows of a step that ended longer before the newest (or before now, where that is earlier) than is kept, and the oldest beyond so many bytes. */
  abstract retain(step: Step, rows: RetainedRows): Promise<void>;

  /** The rows of a table as a file. */
  abstract export(table: "segments" | "flows", path: string, format: "parquet" | "csv"): Promise<void>;

  /** Memory of the database, where it is in this process. */
  async memoryBytes(): Promise<number | null> {
    return null;
  }

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
      for (const together of chunks(spans)) await this.#roll(together, step, below);
      made += spans.length;
    }
    return made;
  }

  /** Spans of one step, in order of time: read, made and written together. */
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

function* chunks(spans: readonly OpenSpan[]): Generator<OpenSpan[]> {
  for (let at = 0; at < spans.length; at += SPANS_AT_ONCE) yield spans.slice(at, at + SPANS_AT_ONCE);
}

function byPackets(a: FlowRow, b: FlowRow): number {
  return (b.state.packets ?? 0) - (a.state.packets ?? 0) || (a.flow < b.flow ? -1 : 1);
}
