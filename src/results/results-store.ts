/**
 * Rows on disk (DuckDB). A row written again replaces the one before: what is estimated twice, after a crash or because a late record came, counts once. Rows of a minute and of an hour are made
 * from those below when their time is over, and again when something in them changes: which ones are to be made is part of the same transaction, so that a kill leaves nothing half made.
 */
import { earlier, later } from "../base/time.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import type { CutMode } from "../epoch/record.ts";
import { ARRIVALS_TABLE, ArrivalsTable } from "./arrivals-table.ts";
import { type ColumnType, type Database, openDatabase, type Value } from "./duckdb.ts";
import { HappeningTable, type Statements } from "./happenings.ts";
import { combineFlow, combineRows, type FlowRow, type SegmentRow, STEPS, type Step } from "./rows.ts";
import { decodeState, encodeState } from "./state-bytes.ts";

const SEGMENT_COLUMNS: readonly (readonly [string, string, ColumnType])[] = [
  ["from_point", "VARCHAR", "text"],
  ["to_point", "VARCHAR", "text"],
  ["label", "VARCHAR", "text"],
  ["estimator", "VARCHAR", "text"],
  ["step_s", "INTEGER", "integer"],
  ["start_ns", "BIGINT", "bigint"],
  ["end_ns", "BIGINT", "bigint"],
  ["mode", "VARCHAR", "text"],
  ["epochs", "INTEGER", "integer"],
  ["missing", "INTEGER", "integer"],
  ["refused", "INTEGER", "integer"],
  ["edges", "INTEGER", "integer"],
  ["merged", "INTEGER", "integer"],
  ["sent", "DOUBLE", "double"],
  ["received", "DOUBLE", "double"],
  ["lost", "DOUBLE", "double"],
  ["dropped", "DOUBLE", "double"],
  ["bytes", "DOUBLE", "double"],
  ["cut_shift", "DOUBLE", "double"],
  ["reason", "VARCHAR", "text"],
  ["mean_ns", "DOUBLE", "double"],
  ["low_ns", "DOUBLE", "double"],
  ["high_ns", "DOUBLE", "double"],
  ["stdev_ns", "DOUBLE", "double"],
  ["state", "BLOB", "bytes"],
  // Newer ones come last: tables of before get them added.
  ["missing_from", "INTEGER", "integer"],
  ["missing_to", "INTEGER", "integer"],
  ["clock_ns", "DOUBLE", "double"],
];
const ADDED = ["missing_from", "missing_to", "clock_ns"];
const FLOW_COLUMNS: typeof SEGMENT_COLUMNS = [
  ...SEGMENT_COLUMNS.slice(0, 7),
  ["flow", "VARCHAR", "text"],
  ["packets", "DOUBLE", "double"],
  ["lost", "DOUBLE", "double"],
  ["bytes", "DOUBLE", "double"],
  ["mean_ns", "DOUBLE", "double"],
  ["low_ns", "DOUBLE", "double"],
  ["high_ns", "DOUBLE", "double"],
  ["state", "BLOB", "bytes"],
];
const KEY = ["from_point", "to_point", "label", "estimator", "step_s", "start_ns"];
/** Flows kept of a minute or an hour: those with the most packets. */
const ROLLED_FLOWS = 200;

export interface RowSelection {
  from: string;
  to: string;
  label: string;
  estimator: string;
  fromNs: bigint;
  toNs: bigint;
}

export interface KnownSegment extends CollectedSegment {
  estimators: string[];
  firstNs: bigint;
  lastNs: bigint;
}

const COVERAGE = [
  ["epochs", "epochs"],
  ["missing", "missing"],
  ["missing_from", "missingFrom"],
  ["missing_to", "missingTo"],
  ["refused", "refused"],
  ["edges", "edges"],
  ["CASE WHEN mean_ns IS NULL THEN 0 ELSE 1 END", "answered"],
] as const;

export type SegmentCoverage = CollectedSegment & { estimator: string } & Record<
    (typeof COVERAGE)[number][1],
    number
  >;

export interface StepQuestion {
  fromNs: bigint;
  toNs: bigint;
  stepNs: bigint;
  /** The coarsest rows that may be read. */
  step: Step;
}

export interface StepRow {
  from: string;
  to: string;
  label: string;
  estimator: string;
  /** Which step, from 0. */
  at: number;
  meanNs: number | null;
  lowNs: number | null;
  highNs: number | null;
  /** Of epochs in which both are known. */
  sent: number | null;
  received: number | null;
  epochs: number;
  missing: number;
  refused: number;
}

export interface SpreadQuestion {
  step: Step;
  fromNs: bigint;
  toNs: bigint;
  /** Which quantile is the middle. */
  share: number;
  hourOfWeekNs: bigint | null;
}

export interface SpreadRow {
  /** Of segment and estimator (normals.ts). */
  key: string;
  count: number;
  valueNs: number;
  spreadNs: number;
}

export class ResultsStore {
  readonly #db: Database;
  /** One statement after the other: a transaction is the connection's. Reading has a connection, and a line, of its own. */
  #last: Promise<unknown> = Promise.resolve();
  #lastRead: Promise<unknown> = Promise.resolve();

  readonly incidents: HappeningTable;
  readonly alerts: HappeningTable;
  readonly arrivals: ArrivalsTable;

  private constructor(db: Database) {
    this.#db = db;
    const statements: Statements = {
      run: (sql, values) => this.#alone(() => db.run(sql, values)),
      all: (sql, values) => this.#all(sql, values),
    };
    this.incidents = new HappeningTable("incidents", statements);
    this.alerts = new HappeningTable("alerts", statements);
    this.arrivals = new ArrivalsTable(statements);
  }

  static async open(path: string): Promise<ResultsStore> {
    const db = await openDatabase(path);
    const columns = (list: typeof SEGMENT_COLUMNS) =>
      list.map(([name, type]) => `${name} ${type}`).join(", ");
    for (const [table, list] of [
      ["segments", SEGMENT_COLUMNS],
      ["flows", FLOW_COLUMNS],
    ] as const) {
      await db.run(`CREATE TABLE IF NOT EXISTS ${table} (${columns(list)})`);
      await db.run(`CREATE TEMP TABLE incoming_${table} (${columns(list)})`);
    }
    for (const [name, type] of SEGMENT_COLUMNS.filter((c) => ADDED.includes(c[0])))
      await db.run(`ALTER TABLE segments ADD COLUMN IF NOT EXISTS ${name} ${type}`);
    // Spans of a step that are to be made from the rows below.
    await db.run(
      "CREATE TABLE IF NOT EXISTS dirty (from_point VARCHAR, to_point VARCHAR, label VARCHAR, estimator VARCHAR, step_s INTEGER, start_ns BIGINT)",
    );
    for (const table of ["incidents", "alerts"])
      await db.run(
        `CREATE TABLE IF NOT EXISTS ${table} (id VARCHAR, opened_ns BIGINT, closed_ns BIGINT, body VARCHAR)`,
      );
    await db.run(ARRIVALS_TABLE);
    return new ResultsStore(db);
  }

  /** When it resolves they are on disk. */
  async write(segments: readonly SegmentRow[], flows: readonly FlowRow[]): Promise<void> {
    if (segments.length === 0 && flows.length === 0) return;
    await this.#alone(() =>
      this.#db.transaction(async () => {
        const improved = await this.#dropMissing(segments);
        await this.#replace("segments", segments.map(segmentValues), SEGMENT_COLUMNS, KEY);
        // All flows of an epoch come together, and replace those before.
        await this.#replace("flows", flows.map(flowValues), FLOW_COLUMNS, KEY);
        await this.#markDirty([...segments, ...improved]);
      }),
    );
  }

  /** An end that came late: the row that said it was missing goes. Where packets cut epochs, its start is not that of the pair. Returns what went. */
  async #dropMissing(
    rows: readonly SegmentRow[],
  ): Promise<Pick<SegmentRow, "segment" | "estimator" | "startNs">[]> {
    const gone: Pick<SegmentRow, "segment" | "estimator" | "startNs">[] = [];
    for (const { segment, estimator, startNs, endNs, mode, missing } of rows) {
      if (mode === "aligned" || missing > 0) continue;
      const found = await this.#db.all(
        `DELETE FROM segments WHERE from_point = $1 AND to_point = $2 AND label = $3 AND estimator = $4 AND step_s = 0
          AND missing > 0 AND start_ns < $6 AND end_ns > $5 AND (start_ns + end_ns) / 2 BETWEEN $5 AND $6 RETURNING start_ns`,
        [segment.from, segment.to, segment.label, estimator, startNs, endNs],
      );
      for (const [start] of found) gone.push({ segment, estimator, startNs: BigInt(start as bigint) });
    }
    return gone;
  }

  async #replace(
    table: "segments" | "flows",
    rows: Value[][],
    columns: typeof SEGMENT_COLUMNS,
    key: readonly string[],
  ): Promise<void> {
    if (rows.length === 0) return;
    const db = this.#db;
    await db.append(
      `incoming_${table}`,
      rows,
      columns.map((c) => c[2]),
    );
    const starts = rows.map((r) => r[5] as bigint);
    const [first, last] = [starts.reduce(earlier), starts.reduce(later)];
    const same = key.map((name) => `t.${name} = i.${name}`).join(" AND ");
    await db.run(
      `DELETE FROM ${table} t USING incoming_${table} i WHERE t.start_ns BETWEEN $1 AND $2 AND ${same}`,
      [first, last],
    );
    await db.run(`INSERT INTO ${table} SELECT * FROM incoming_${table}`);
    await db.run(`DELETE FROM incoming_${table}`);
  }

  async #markDirty(rows: readonly Pick<SegmentRow, "segment" | "estimator" | "startNs">[]): Promise<void> {
    const spans = new Map<string, Value[]>();
    for (const { segment, estimator, startNs } of rows)
      for (const step of STEPS.slice(1)) {
        const key: Value[] = [
          segment.from,
          segment.to,
          segment.label,
          estimator,
          step,
          bucketOf(startNs, step),
        ];
        spans.set(key.join("\n"), key);
      }
    const same = KEY.map((name) => `dirty.${name} = d.${name}`).join(" AND ");
    for (const part of pieces([...spans.values()], 100)) {
      const rowsOf = part
        .map((_, i) => `(${KEY.map((__, k) => `$${KEY.length * i + k + 1}`).join(", ")})`)
        .join(", ");
      await this.#db.run(
        `INSERT INTO dirty SELECT * FROM (VALUES ${rowsOf}) d(${KEY.join(", ")}) WHERE NOT EXISTS (SELECT 1 FROM dirty WHERE ${same})`,
        part.flat(),
      );
    }
  }

  /** Makes the rows of minutes and hours that ended at or before `untilNs` and have changed; returns how many. */
  async rollUp(untilNs: bigint, most = 500): Promise<number> {
    let made = 0;
    for (const [i, step] of STEPS.entries()) {
      const below = STEPS[i - 1];
      if (step === 0 || below === undefined) continue;
      const spans = await this.#all(
        "SELECT from_point, to_point, label, estimator, start_ns FROM dirty WHERE step_s = $1 AND start_ns + $2 <= $3 ORDER BY start_ns LIMIT $4",
        [...[step, BigInt(step) * 1_000_000_000n, untilNs, most]],
      );
      for (const [from, to, label, estimator, start] of spans) {
        const startNs = BigInt(start as bigint);
        const where = {
          from: String(from),
          to: String(to),
          label: String(label),
          estimator: String(estimator),
        };
        await this.#roll(
          { ...where, fromNs: startNs, toNs: startNs + BigInt(step) * 1_000_000_000n },
          below,
          step,
        );
        made++;
      }
    }
    return made;
  }

  async #roll(selection: RowSelection, below: Step, step: Step): Promise<void> {
    const { from, to, label, estimator, fromNs: startNs, toNs: endNs } = selection;
    const rows = await this.segmentRows(selection, below);
    const flows = await this.#flowRows(selection, below, "");
    const span = { step, startNs, endNs };
    const row = combineRows(rows, span)?.row;
    const byFlow = new Map<string, FlowRow[]>();
    for (const flow of flows) byFlow.set(flow.flow, [...(byFlow.get(flow.flow) ?? []), flow]);
    const rolled = [...byFlow.values()].flatMap((list) => combineFlow(list, span)?.row ?? []);
    rolled.sort((a, b) => (b.state.packets ?? 0) - (a.state.packets ?? 0));
    await this.#alone(() =>
      this.#db.transaction(async () => {
        if (row) await this.#replace("segments", [segmentValues(row)], SEGMENT_COLUMNS, KEY);
        await this.#replace("flows", rolled.slice(0, ROLLED_FLOWS).map(flowValues), FLOW_COLUMNS, KEY);
        const where = KEY.map((name, i) => `${name} = $${i + 1}`).join(" AND ");
        await this.#db.run(`DELETE FROM dirty WHERE ${where}`, [from, to, label, estimator, step, startNs]);
      }),
    );
  }

  /** In order of time. */
  async segmentRows(
    { from, to, label, estimator, fromNs, toNs }: RowSelection,
    step: Step,
  ): Promise<SegmentRow[]> {
    const names = SEGMENT_COLUMNS.map((c) => c[0]).join(", ");
    const rows = await this.#all(
      `SELECT ${names} FROM segments WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ORDER BY start_ns`,
      [step, fromNs, toNs, from, to, label, estimator],
    );
    return rows.map(readSegmentRow);
  }

  /** The last so many epochs of a time, in order. */
  async lastRows(selection: RowSelection, most: number): Promise<SegmentRow[]> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const [row] = await this.#all(
      "SELECT min(start_ns) FROM (SELECT start_ns FROM segments WHERE step_s = 0 AND start_ns >= $1 AND start_ns < $2 AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 ORDER BY start_ns DESC LIMIT $7)",
      [fromNs, toNs, from, to, label, estimator, most],
    );
    const first = row?.[0] ?? null;
    return first === null ? [] : await this.segmentRows({ ...selection, fromNs: BigInt(first as bigint) }, 0);
  }

  /** Start of the first row from a time on, of those that `step` can be made of; null where there is none. */
  async firstFrom(selection: RowSelection, step: Step): Promise<bigint | null> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const [row] = await this.#all(
      "SELECT min(start_ns) FROM segments WHERE end_ns > $1 AND start_ns < $2 AND from_point = $3 AND to_point = $4 AND label = $5 AND estimator = $6 AND step_s <= $7",
      [fromNs, toNs, from, to, label, estimator, step],
    );
    const first = row?.[0] ?? null;
    return first === null ? null : BigInt(first as bigint);
  }

  /** Rows that cover a time in the coarsest steps that `step` allows: what is not rolled up yet comes as it is below. */
  async coveringRows(selection: RowSelection, step: Step): Promise<SegmentRow[]> {
    if (step === 0) return await this.segmentRows(selection, 0);
    const below = STEPS[STEPS.indexOf(step) - 1] ?? 0;
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const dirty = await this.#all(
      "SELECT start_ns FROM dirty WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ORDER BY start_ns",
      [step, bucketOf(fromNs, step), toNs, from, to, label, estimator],
    );
    const open = new Set(dirty.map(([start]) => BigInt(start as bigint)));
    // One that reaches into the time counts whole.
    const around = { ...selection, fromNs: bucketOf(fromNs, step) };
    const rows = (await this.segmentRows(around, step)).filter((r) => !open.has(r.startNs));
    // One question for all that is not rolled up: there may be many minutes of it.
    const [first, last] = [[...open][0], [...open].at(-1)];
    if (first !== undefined && last !== undefined) {
      const span = { ...selection, fromNs: first, toNs: last + BigInt(step) * 1_000_000_000n };
      for (const row of await this.coveringRows(span, below))
        if (open.has(bucketOf(row.startNs, step))) rows.push(row);
    }
    return rows.sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
  }

  /** `flow`: one flow; "" for all. */
  async flowRows(selection: RowSelection, step: Step, flow: string, most?: number): Promise<FlowRow[]> {
    return await this.#flowRows({ ...selection, fromNs: bucketOf(selection.fromNs, step) }, step, flow, most);
  }

  /** Flows by packets in a time: names only. */
  async topFlows(selection: RowSelection, step: Step, most: number): Promise<string[]> {
    const { from, to, label, estimator, fromNs, toNs } = selection;
    const rows = await this.#all(
      "SELECT flow FROM flows WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 GROUP BY flow ORDER BY sum(packets) DESC, flow LIMIT $8",
      [step, fromNs, toNs, from, to, label, estimator, most],
    );
    return rows.map(([flow]) => String(flow));
  }

  async #flowRows(
    { from, to, label, estimator, fromNs, toNs }: RowSelection,
    step: Step,
    flow: string,
    most = Number.MAX_SAFE_INTEGER,
  ): Promise<FlowRow[]> {
    const rows = await this.#all(
      `SELECT start_ns, end_ns, flow, bytes, state FROM flows WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND from_point = $4 AND to_point = $5 AND label = $6 AND estimator = $7 ${flow === "" ? "" : "AND flow = $8"} ORDER BY start_ns LIMIT ${most}`,
      [step, fromNs, toNs, from, to, label, estimator, ...(flow === "" ? [] : [flow])],
    );
    const segment = { from, to, label };
    return rows.map(([start = null, end = null, name = null, bytes = null, state = null]) => ({
      ...{
        segment,
        estimator,
        step,
        startNs: BigInt(start as bigint),
        endNs: BigInt(end as bigint),
        flow: String(name),
      },
      bytes: bytes === null ? null : Number(bytes),
      state: decodeState(bytesOf(state)),
    }));
  }

  /** Epochs of every segment and estimator in a time, and what became of them. */
  async coverage(fromNs: bigint, toNs: bigint): Promise<SegmentCoverage[]> {
    const sums = COVERAGE.map((c) => `sum(${c[0]})`).join(", ");
    const rows = await this.#all(
      `SELECT from_point, to_point, label, estimator, ${sums} FROM segments WHERE step_s = 0 AND start_ns >= $1 AND start_ns < $2 GROUP BY ALL ORDER BY ALL`,
      [fromNs, toNs],
    );
    return rows.map(([from, to, label, estimator, ...counts]) => ({
      ...{ from: String(from), to: String(to), label: String(label), estimator: String(estimator) },
      ...(Object.fromEntries(COVERAGE.map(([, name], i) => [name, Number(counts[i] ?? 0)])) as Record<
        (typeof COVERAGE)[number][1],
        number
      >),
    }));
  }

  /** End of the newest epoch; null where there is none. */
  async newest(): Promise<bigint | null> {
    const [row] = await this.#all("SELECT max(end_ns) FROM segments WHERE step_s = 0");
    return row?.[0] === null || row?.[0] === undefined ? null : BigInt(row[0] as bigint);
  }

  async segments(): Promise<KnownSegment[]> {
    const rows = await this.#all(
      // A minute or an hour that has begun ends in the time to come: the newest is that of the epochs.
      "SELECT from_point, to_point, label, estimator, min(start_ns), coalesce(max(end_ns) FILTER (WHERE step_s = 0), max(end_ns)) FROM segments GROUP BY ALL ORDER BY ALL",
    );
    const known = new Map<string, KnownSegment>();
    for (const [from, to, label, estimator, first, last] of rows) {
      const key = JSON.stringify([from, to, label]);
      const [firstNs, lastNs] = [BigInt(first as bigint), BigInt(last as bigint)];
      const before = known.get(key);
      if (before) {
        before.estimators.push(String(estimator));
        if (firstNs < before.firstNs) before.firstNs = firstNs;
        if (lastNs > before.lastNs) before.lastNs = lastNs;
      } else
        known.set(key, {
          from: String(from),
          to: String(to),
          label: String(label),
          estimators: [String(estimator)],
          firstNs,
          lastNs,
        });
    }
    return [...known.values()];
  }

  /** All segments and estimators in steps of any length, from rows of `step` or finer: sums, the mean weighted by packets, the lowest and highest bound. */
  async steps({ fromNs, toNs, stepNs, step }: StepQuestion): Promise<StepRow[]> {
    const union = await this.#pieces(fromNs, toNs, step);
    // One text for each segment: values that cross one by one take ten times as long.
    const fields = ["begins", "mean", "low", "high", "sent", "received", "epochs", "missing", "refused"];
    const texts = fields.map((f) => `coalesce(CAST(${f} AS VARCHAR), '')`).join(", ");
    const whole = (sql: string) => `CAST(round(${sql}) AS BIGINT)`;
    const rows = await this.#all(
      `SELECT from_point, to_point, label, estimator, string_agg(concat_ws(',', ${texts}), ';') FROM (
        SELECT from_point, to_point, label, estimator, (start_ns - $1) // $2 AS begins,
          ${whole("sum(mean_ns * weight) / sum(CASE WHEN mean_ns IS NULL THEN NULL ELSE weight END)")} AS mean,
          ${whole("min(low_ns)")} AS low, ${whole("max(high_ns)")} AS high,
          ${whole("sum(CASE WHEN received IS NULL THEN NULL ELSE sent END)")} AS sent,
          ${whole("sum(CASE WHEN sent IS NULL THEN NULL ELSE received END)")} AS received,
          sum(epochs) AS epochs, sum(missing) AS missing, sum(refused) AS refused
        FROM (SELECT from_point, to_point, label, estimator, start_ns, mean_ns, low_ns, high_ns, sent, received, epochs, missing, refused, greatest(coalesce(received, 1), 1) AS weight FROM segments WHERE ${union})
        GROUP BY from_point, to_point, label, estimator, begins) GROUP BY from_point, to_point, label, estimator`,
      [fromNs, stepNs],
    );
    return rows.flatMap(([from, to, label, estimator, text]) => {
      const names = {
        from: String(from),
        to: String(to),
        label: String(label),
        estimator: String(estimator),
      };
      return String(text)
        .split(";")
        .map((part) => stepRow(names, part));
    });
  }

  /** The newest epoch of each segment and estimator that lies in a time. */
  async newestRows(fromNs: bigint, toNs: bigint): Promise<SegmentRow[]> {
    const names = SEGMENT_COLUMNS.map((c) => c[0]).join(", ");
    const rows = await this.#all(
      `SELECT ${names} FROM segments WHERE step_s = 0 AND start_ns >= $1 AND start_ns < $2
        QUALIFY row_number() OVER (PARTITION BY from_point, to_point, label, estimator ORDER BY start_ns DESC) = 1`,
      [fromNs, toNs],
    );
    return rows.map(readSegmentRow);
  }

  /** Middle and spread of the means of each segment and estimator, by rows of one step; `hourOfWeekNs`: only of the hours next to this one's in each week. */
  async spreads(question: SpreadQuestion): Promise<SpreadRow[]> {
    const { step, fromNs, toNs, share, hourOfWeekNs } = question;
    const hour = "3600000000000";
    // Hours from the one asked for, around the week: 0, 1 and 167 are next to it.
    const near =
      hourOfWeekNs === null
        ? "true"
        : `(start_ns // ${hour} - ${hourOfWeekNs} // ${hour}) % 168 IN (0, 1, -1, 167, -167)`;
    const rows = await this.#all(
      `SELECT from_point, to_point, label, estimator, count(*), quantile_cont(mean_ns, ${share}), mad(mean_ns) FROM segments
        WHERE step_s = $1 AND start_ns >= $2 AND start_ns < $3 AND mean_ns IS NOT NULL AND ${near} GROUP BY ALL`,
      [step, fromNs, toNs],
    );
    return rows.map(([from, to, label, estimator, count, value, mad]) => ({
      key: JSON.stringify([from, to, label, estimator]),
      ...{ count: Number(count), valueNs: Number(value), spreadNs: 1.4826 * Number(mad) },
    }));
  }

  /** Which rows cover a time, in steps as coarse as `step` where all is rolled up, finer behind that. */
  async #pieces(fromNs: bigint, toNs: bigint, step: Step): Promise<string> {
    const parts: string[] = [];
    let startNs = fromNs;
    for (const coarse of [...STEPS].reverse().filter((s) => s <= step)) {
      const [open] =
        coarse === 0 ? [] : await this.#all("SELECT min(start_ns) FROM dirty WHERE step_s = $1", [coarse]);
      const openNs = open?.[0] === null || open?.[0] === undefined ? toNs : BigInt(open[0] as bigint);
      const endNs = coarse === 0 ? toNs : earlier(later(bucketOf(openNs, coarse), startNs), toNs);
      if (endNs > startNs)
        parts.push(`(step_s = ${coarse} AND start_ns >= ${startNs} AND start_ns < ${endNs})`);
      startNs = endNs;
    }
    return parts.length === 0 ? "false" : parts.join(" OR ");
  }

  /** Removes rows of a step that ended longer before the newest (or before now, where that is earlier) than is kept, and the oldest beyond so many. */
  async retain(
    step: Step,
    { nowNs, keepNs, maxRows }: { nowNs: bigint; keepNs: bigint | null; maxRows: number | null },
  ): Promise<void> {
    for (const table of ["segments", "flows"] as const) {
      const [newest] = await this.#all(`SELECT max(end_ns) FROM ${table} WHERE step_s = $1`, [step]);
      if (newest?.[0] === null || newest?.[0] === undefined) continue;
      const newestNs = BigInt(newest[0] as bigint);
      let limitNs = keepNs === null ? null : (newestNs < nowNs ? newestNs : nowNs) - keepNs;
      if (maxRows !== null) {
        const [row] = await this.#all(
          `SELECT end_ns FROM ${table} WHERE step_s = $1 ORDER BY start_ns DESC LIMIT 1 OFFSET $2`,
          [step, maxRows],
        );
        const oldest = row?.[0] === undefined ? null : BigInt(row[0] as bigint);
        if (oldest !== null && (limitNs === null || oldest > limitNs)) limitNs = oldest;
      }
      if (limitNs !== null)
        await this.#alone(() =>
          this.#db.run(`DELETE FROM ${table} WHERE step_s = $1 AND end_ns <= $2`, [step, limitNs]),
        );
    }
  }

  /** Is there anything at all? */
  async isEmpty(): Promise<boolean> {
    return (await this.#all("SELECT 1 FROM segments LIMIT 1")).length === 0;
  }

  /** The rows of a table as a file, by the ending of its name: .parquet or .csv. */
  async export(table: "segments" | "flows", path: string, format: "parquet" | "csv"): Promise<void> {
    const columns = (table === "segments" ? SEGMENT_COLUMNS : FLOW_COLUMNS)
      .map((c) => c[0])
      .filter((name) => name !== "state");
    const quoted = path.replaceAll("'", "''");
    const how = format === "parquet" ? "FORMAT parquet" : "FORMAT csv, HEADER true";
    await this.#alone(() =>
      this.#db.run(
        `COPY (SELECT ${columns.join(", ")} FROM ${table} ORDER BY start_ns, step_s) TO '${quoted}' (${how})`,
      ),
    );
  }

  async close(): Promise<void> {
    await this.#last.catch(() => undefined);
    await this.#lastRead.catch(() => undefined);
    this.#db.close();
  }

  #all(sql: string, values: readonly Value[] = []): Promise<Value[][]> {
    const work = () => this.#db.all(sql, values);
    const next = this.#lastRead.then(work, work);
    this.#lastRead = next.catch(() => undefined);
    return next;
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work, work);
    this.#last = next.catch(() => undefined);
    return next;
  }
}

/** Sixty thousand of these are made for an overview: plain, without spreads. */
function stepRow(names: Pick<StepRow, "from" | "to" | "label" | "estimator">, text: string): StepRow {
  const values = text.split(",");
  const orNull = (i: number) => (values[i] === "" ? null : Number(values[i]));
  return {
    from: names.from,
    to: names.to,
    label: names.label,
    estimator: names.estimator,
    at: Number(values[0]),
    meanNs: orNull(1),
    lowNs: orNull(2),
    highNs: orNull(3),
    sent: orNull(4),
    received: orNull(5),
    epochs: Number(values[6]),
    missing: Number(values[7]),
    refused: Number(values[8]),
  };
}

/** Start of the step that a time lies in. */
export function bucketOf(ns: bigint, step: number): bigint {
  const lengthNs = BigInt(step) * 1_000_000_000n;
  return lengthNs === 0n ? ns : ns - (((ns % lengthNs) + lengthNs) % lengthNs);
}

function* pieces<T>(list: readonly T[], length: number): Generator<T[]> {
  for (let at = 0; at < list.length; at += length) yield list.slice(at, at + length);
}

/** Mean with its interval, for readers of the table; null where there is none. */
function readable(state: SegmentRow["state"]): Value[] {
  if (state.weight === 0) return [null, null, null, null];
  const low = Math.hypot(state.errorLow, state.repeatingLow) + state.commonLow;
  const high = Math.hypot(state.errorHigh, state.repeatingHigh) + state.commonHigh;
  const stdev =
    state.whyStdev === null && state.spreadWeight > 0 ? Math.sqrt(state.spreadM2 / state.spreadWeight) : null;
  return [state.meanNs, state.meanNs - low / state.weight, state.meanNs + high / state.weight, stdev];
}

/** Of the mean's interval, what the clocks of both ends may be off by; null where nothing is known of them. */
export function clockNs({ weight, commonLow, commonHigh }: SegmentRow["state"]): number | null {
  return weight > 0 && commonLow + commonHigh > 0 ? Math.max(commonLow, commonHigh) / weight : null;
}

const blob = (bytes: Uint8Array) => bytes as unknown as Value;

function segmentValues(row: SegmentRow): Value[] {
  const { segment, estimator, step, startNs, endNs, mode, epochs, missing, refused, edges, merged } = row;
  const { sent, received, lost, dropped, bytes, cutShift, reason, state } = row;
  return [
    ...[segment.from, segment.to, segment.label, estimator, step, startNs, endNs, mode],
    ...[epochs, missing, refused, edges, merged, sent, received, lost, dropped, bytes, cutShift, reason],
    ...readable(state),
    blob(encodeState(state)),
    ...[row.missingFrom, row.missingTo, clockNs(state)],
  ];
}

function flowValues({ segment, estimator, step, startNs, endNs, flow, bytes, state }: FlowRow): Value[] {
  return [
    ...[segment.from, segment.to, segment.label, estimator, step, startNs, endNs, flow],
    ...[state.packets, state.lost, bytes],
    ...readable(state).slice(0, 3),
    blob(encodeState(state)),
  ];
}

function readSegmentRow(values: Value[]): SegmentRow {
  const text = (i: number) => String(values[i]);
  const number = (i: number) => Number(values[i]);
  const orNull = (i: number) => (values[i] === null ? null : Number(values[i]));
  return {
    segment: { from: text(0), to: text(1), label: text(2) },
    estimator: text(3),
    step: number(4) as Step,
    startNs: BigInt(values[5] as bigint),
    endNs: BigInt(values[6] as bigint),
    mode: text(7) as CutMode,
    ...{ epochs: number(8), missing: number(9), refused: number(10), edges: number(11), merged: number(12) },
    ...{
      sent: orNull(13),
      received: orNull(14),
      lost: orNull(15),
      dropped: orNull(16),
      bytes: number(17),
      cutShift: orNull(18),
    },
    reason: values[19] === null ? null : text(19),
    state: decodeState(bytesOf(values[24] ?? null)),
    missingFrom: number(25),
    missingTo: number(26),
  };
}

function bytesOf(value: Value): Uint8Array {
  return (value as { bytes: Uint8Array }).bytes;
}
