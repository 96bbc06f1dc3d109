/** Results in one DuckDB file. Writes that belong together are one transaction, so a kill leaves nothing half done. */
import { earlier, later } from "../base/time.ts";
import { ARRIVALS_TABLE, DuckdbArrivals } from "./arrivals-table.ts";
import { type ColumnType, DUCKDB, type ReadRows, type Value } from "./dialect.ts";
import { type Database, openDatabase } from "./duckdb.ts";
import { DuckdbHappenings, type Statements } from "./happenings.ts";
import { NewestRows } from "./newest-rows.ts";
import {
  type OpenSpan,
  ResultsStore,
  type RetainedRows,
  type RolledSpans,
  spansOf,
} from "./results-store.ts";
import type { FlowRow, SegmentRow, Step } from "./rows.ts";
import {
  ADDED,
  EXPORT_ORDER,
  FLOW_COLUMNS,
  flowValues,
  KEY,
  SEGMENT_COLUMNS,
  segmentValues,
} from "./tables.ts";

/** Most names of marked spans kept in memory; others are looked up in the table. */
const MAX_DIRTY = 100_000;
const KEY_TYPES = KEY.map((name) => SEGMENT_COLUMNS.find(([column]) => column === name)?.[2] ?? "text");
const SAME_SPAN = KEY.map((name) => `dirty.${name} = i.${name}`).join(" AND ");

/** Number of rows used to estimate the width of a row. */
const SAMPLE = 1000;
const WIDTHS: Record<ColumnType, (name: string) => string> = {
  text: (name) => `coalesce(strlen(${name}), 0)`,
  bytes: (name) => `coalesce(octet_length(${name}), 0)`,
  bigint: () => "8",
  double: () => "8",
  integer: () => "4",
};

const dirtyName = (span: OpenSpan) => keyOf(span).join("\n");

type Dropped = Pick<SegmentRow, "segment" | "estimator" | "startNs">;

export class DuckdbStore extends ResultsStore {
  readonly incidents: DuckdbHappenings;
  readonly alerts: DuckdbHappenings;
  readonly arrivals: DuckdbArrivals;
  readonly #db: Database;
  /** Writes run one at a time, because a transaction belongs to the connection. Reads have a connection and a queue of their own. */
  readonly #writing: Line;
  readonly #reading: Line;
  readonly #all: ReadRows;
  /** Spans known to be in the table `dirty`, written by this process: further rows of the same minute need no mark. */
  readonly #dirty = new Set<string>();
  readonly #newest = new NewestRows();

  private constructor(db: Database) {
    const reading = new Line();
    const all: ReadRows = (sql, values) => reading.next(() => db.all(sql, values));
    super({ all, dialect: DUCKDB });
    this.#db = db;
    this.#all = all;
    this.#reading = reading;
    this.#writing = new Line();
    const statements: Statements = {
      run: (sql, values) => this.#alone(() => db.run(sql, values)),
      runAll: (list) =>
        this.#alone(() =>
          db.transaction(async () => {
            for (const [sql, values] of list) await db.run(sql, values);
          }),
        ),
      all,
      dialect: DUCKDB,
    };
    this.incidents = new DuckdbHappenings("incidents", statements);
    this.alerts = new DuckdbHappenings("alerts", statements);
    this.arrivals = new DuckdbArrivals({
      ...statements,
      append: (table, rows, types) => this.#alone(() => db.append(table, rows, types)),
    });
  }

  static async open(path: string): Promise<DuckdbStore> {
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
    // Spans of a step that must be rolled up from finer rows.
    await db.run(
      "CREATE TABLE IF NOT EXISTS dirty (from_point VARCHAR, to_point VARCHAR, label VARCHAR, estimator VARCHAR, step_s INTEGER, start_ns BIGINT)",
    );
    await db.run("CREATE TEMP TABLE incoming_dirty AS SELECT * FROM dirty LIMIT 0");
    for (const table of ["incidents", "alerts"])
      await db.run(
        `CREATE TABLE IF NOT EXISTS ${table} (id VARCHAR, opened_ns BIGINT, closed_ns BIGINT, body VARCHAR)`,
      );
    await db.run(ARRIVALS_TABLE);
    return new DuckdbStore(db);
  }

  async write(segments: readonly SegmentRow[], flows: readonly FlowRow[]): Promise<void> {
    if (segments.length === 0 && flows.length === 0) return;
    await this.#alone(async () => {
      const marked = await this.#db.transaction(async () => {
        const improved = await this.#dropMissing(segments);
        if (improved.length > 0) this.#newest.forget();
        await this.#replace("segments", segments.map(segmentValues), SEGMENT_COLUMNS);
        await this.#replace("flows", flows.map(flowValues), FLOW_COLUMNS);
        return await this.#markDirty(spansOf([...segments, ...improved]));
      });
      if (this.#dirty.size > MAX_DIRTY) this.#dirty.clear();
      for (const name of marked) this.#dirty.add(name);
      // In the order in which writes reach the table.
      this.#newest.note(segments);
    });
    this.noteSegments(segments);
  }

  override async newestRows(fromNs: bigint, toNs: bigint): Promise<SegmentRow[]> {
    const kept = this.#newest.within(fromNs, toNs);
    if (kept) return kept;
    const lastNs = (await this.segments()).map((s) => s.lastNs).reduce(later, 0n);
    const read = () => super.newestRows(fromNs, toNs);
    return toNs < lastNs ? await read() : await this.#newest.fill(fromNs, read);
  }

  /** Deletes rows that reported an endpoint as missing which has arrived since. Returns the deleted rows. */
  async #dropMissing(rows: readonly SegmentRow[]): Promise<Dropped[]> {
    const gone: Dropped[] = [];
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
    const same = KEY.map((name) => `t.${name} = i.${name}`).join(" AND ");
    // A row with both endpoints is never replaced by one lacking an endpoint: its record may be gone when the time is estimated again.
    if (table === "segments")
      await db.run(
        `DELETE FROM incoming_segments i USING segments t WHERE i.step_s = 0 AND i.missing > 0 AND t.missing = 0 AND t.start_ns BETWEEN $1 AND $2 AND ${same}`,
        [first, last],
      );
    await db.run(
      `DELETE FROM ${table} t USING incoming_${table} i WHERE t.start_ns BETWEEN $1 AND $2 AND ${same}`,
      [first, last],
    );
    await db.run(`INSERT INTO ${table} SELECT * FROM incoming_${table}`);
    await db.run(`DELETE FROM incoming_${table}`);
  }

  /** Marks spans. Returns the names of the spans that are marked once the transaction commits. */
  async #markDirty(spans: readonly OpenSpan[]): Promise<string[]> {
    const fresh = spans.filter((span) => !this.#dirty.has(dirtyName(span)));
    if (fresh.length === 0) return [];
    await this.#db.append("incoming_dirty", fresh.map(keyOf), KEY_TYPES);
    await this.#db.run(
      `INSERT INTO dirty SELECT * FROM incoming_dirty i WHERE NOT EXISTS (SELECT 1 FROM dirty WHERE ${SAME_SPAN})`,
    );
    await this.#db.run("DELETE FROM incoming_dirty");
    return fresh.map(dirtyName);
  }

  protected async openSpans(step: Step, untilNs: bigint, most: number): Promise<OpenSpan[]> {
    const spans = await this.#all(
      "SELECT from_point, to_point, label, estimator, start_ns FROM dirty WHERE step_s = $1 AND start_ns + $2 <= $3 ORDER BY start_ns LIMIT $4",
      [step, BigInt(step) * 1_000_000_000n, untilNs, most],
    );
    return spans.map(([from, to, label, estimator, start]) => ({
      ...{ from: String(from), to: String(to), label: String(label), estimator: String(estimator) },
      ...{ step, startNs: BigInt(start as bigint) },
    }));
  }

  protected async writeRolled({ spans, segments, flows }: RolledSpans): Promise<void> {
    await this.#alone(() =>
      this.#db.transaction(async () => {
        await this.#replace("segments", segments.map(segmentValues), SEGMENT_COLUMNS);
        await this.#replace("flows", flows.map(flowValues), FLOW_COLUMNS);
        await this.#db.append("incoming_dirty", spans.map(keyOf), KEY_TYPES);
        await this.#db.run(`DELETE FROM dirty USING incoming_dirty i WHERE ${SAME_SPAN}`);
        await this.#db.run("DELETE FROM incoming_dirty");
        // Correct even if the transaction fails: at worst, a marked span is marked again.
        for (const span of spans) this.#dirty.delete(dirtyName(span));
      }),
    );
  }

  async retain(step: Step, { nowNs, keepNs, maxBytes }: RetainedRows): Promise<void> {
    const keptShare = maxBytes === null ? 1 : maxBytes / Math.max(maxBytes, 1, await this.#bytesOf(step));
    for (const table of ["segments", "flows"] as const) {
      const [newest] = await this.#all(`SELECT max(end_ns), count(*) FROM ${table} WHERE step_s = $1`, [
        step,
      ]);
      if (newest?.[0] === null || newest?.[0] === undefined) continue;
      const newestNs = BigInt(newest[0] as bigint);
      let limitNs = keepNs === null ? null : (newestNs < nowNs ? newestNs : nowNs) - keepNs;
      if (keptShare < 1) {
        const [row] = await this.#all(
          `SELECT end_ns FROM ${table} WHERE step_s = $1 ORDER BY start_ns DESC LIMIT 1 OFFSET $2`,
          [step, Math.floor(keptShare * Number(newest[1]))],
        );
        const oldest = row?.[0] === undefined ? null : BigInt(row[0] as bigint);
        if (oldest !== null && (limitNs === null || oldest > limitNs)) limitNs = oldest;
      }
      if (limitNs !== null)
        await this.#alone(() =>
          this.#db.run(`DELETE FROM ${table} WHERE step_s = $1 AND end_ns <= $2`, [step, limitNs]),
        );
    }
    this.forgetSegments();
    this.#newest.forget();
  }

  /** Estimated size of the rows of a step: their number times the mean width of the newest ones. */
  async #bytesOf(step: Step): Promise<number> {
    let bytes = 0;
    for (const [table, columns] of [
      ["segments", SEGMENT_COLUMNS],
      ["flows", FLOW_COLUMNS],
    ] as const) {
      const widths = columns.map(([name, , type]) => WIDTHS[type](name)).join(" + ");
      const [row] = await this.#all(
        `SELECT (SELECT count(*) FROM ${table} WHERE step_s = $1), avg(${widths}) FROM (SELECT * FROM ${table} WHERE step_s = $1 ORDER BY start_ns DESC LIMIT ${SAMPLE})`,
        [step],
      );
      bytes += Number(row?.[0] ?? 0) * Number(row?.[1] ?? 0);
    }
    return bytes;
  }

  async export(table: "segments" | "flows", path: string, format: "parquet" | "csv"): Promise<void> {
    const columns = (table === "segments" ? SEGMENT_COLUMNS : FLOW_COLUMNS)
      .map((c) => c[0])
      .filter((name) => name !== "state");
    const quoted = path.replaceAll("'", "''");
    const how = format === "parquet" ? "FORMAT parquet" : "FORMAT csv, HEADER true";
    await this.#alone(() =>
      this.#db.run(
        `COPY (SELECT ${columns.join(", ")} FROM ${table} ORDER BY ${EXPORT_ORDER[table]}) TO '${quoted}' (${how})`,
      ),
    );
  }

  override async memoryBytes(): Promise<number> {
    const [row] = await this.#all("SELECT sum(memory_usage_bytes) FROM duckdb_memory()");
    return Number(row?.[0] ?? 0);
  }

  async close(): Promise<void> {
    await this.#writing.ended();
    await this.#reading.ended();
    this.#db.close();
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    return this.#writing.next(work);
  }
}

/** Runs work items one at a time; a failure does not stop the following ones. */
class Line {
  #last: Promise<unknown> = Promise.resolve();

  next<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work, work);
    this.#last = next.catch(() => undefined);
    return next;
  }

  async ended(): Promise<void> {
    await this.#last;
  }
}

function keyOf({ from, to, label, estimator, step, startNs }: OpenSpan): Value[] {
  return [from, to, label, estimator, step, startNs];
}
