/**
 * Results in ClickHouse. There are no transactions: rows are written in an order that does no harm if it stops in the middle, and the caller then
 * writes all of them again. Any number of workers may write. Of two rows with the same key, the kind of row decides, then the writer's fence
 * (row-writer.ts), then which arrived last at the server; never the workers' clocks.
 */
import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { UsageError } from "../../base/errors.ts";
import { earlier, later } from "../../base/time.ts";
import { CLICKHOUSE } from "../dialect.ts";
import {
  isReplacedBy,
  type OpenSpan,
  ResultsStore,
  type RetainedRows,
  type RolledSpans,
  spansOf,
} from "../results-store.ts";
import { namesOf } from "../row-selection.ts";
import type { FlowRow, SegmentRow, Step } from "../rows.ts";
import type { SegmentSpan } from "../segment-reader.ts";
import { FLOW_COLUMNS, SEGMENT_COLUMNS } from "../tables.ts";
import { ClickhouseArrivals } from "./arrivals.ts";
import { csvLines } from "./csv.ts";
import { ClickhouseHappenings } from "./happenings.ts";
import { type ClickhouseAddress, ClickhouseHttp, isTlsFault } from "./http.ts";
import { Marks } from "./marks.ts";
import { flowColumns, segmentColumns, type WriteSettings, writeFlows, writeSegments } from "./row-writer.ts";
import { type Cluster, PARTITION_HOURS, type Place, prepareSchema } from "./schema.ts";

export interface ClickhouseOptions extends ClickhouseAddress {
  cluster?: Cluster | null | undefined;
  /** How long rows of each step are kept, s. */
  keepS?: Record<Step, number> | undefined;
  /** A minute or hour that its worker has marked but not rolled up for this long may be rolled up by any other, s (default 180). */
  leftS?: number | undefined;
  /** Read-only: the database must exist, and nothing in it is changed. */
  onlyRead?: boolean | undefined;
}

/** The list of segments is read again after this, because others write too. */
const KNOWN_MS = 2000;
const ROWS_AT_ONCE = 20_000;
const HOUR_NS = 3_600_000_000_000n;
const NAMES = "from_point, to_point, label, estimator";

export class ClickhouseStore extends ResultsStore {
  readonly incidents: ClickhouseHappenings;
  readonly alerts: ClickhouseHappenings;
  readonly arrivals: ClickhouseArrivals;
  protected override readonly knownMs = KNOWN_MS;
  readonly #http: ClickhouseHttp;
  readonly #place: Place;
  readonly #marks: Marks;

  private constructor(http: ClickhouseHttp, place: Place, leftS: number | undefined) {
    super({ all: http.all, dialect: CLICKHOUSE });
    this.#http = http;
    this.#place = place;
    this.#marks = new Marks(http, leftS);
    this.incidents = new ClickhouseHappenings("incidents", http, place);
    this.alerts = new ClickhouseHappenings("alerts", http, place);
    this.arrivals = new ClickhouseArrivals(http, place);
  }

  /** Throws UsageError if the server is unreachable or too old, the login fails, or the database is of a newer hoptime. */
  static async open(options: ClickhouseOptions): Promise<ClickhouseStore> {
    const http = new ClickhouseHttp(options);
    try {
      const place = await prepareSchema(http, {
        cluster: options.cluster ?? null,
        keepS: options.keepS ?? null,
        onlyRead: options.onlyRead ?? false,
      });
      return new ClickhouseStore(http, place, options.leftS);
    } catch (error) {
      http.close();
      if (!(error instanceof UsageError) || !isTlsFault(error)) throw error;
      throw new UsageError("bad-option", error.problem, error.hint, { cause: error });
    }
  }

  async write(
    segments: readonly SegmentRow[],
    flows: readonly FlowRow[],
    fenceOf?: (segment: SegmentRow["segment"]) => number,
  ): Promise<void> {
    if (segments.length === 0 && flows.length === 0) return;
    const dropped = await this.#replacedMissing(segments);
    await this.#insert(segments, flows, { dropped, fenceOf });
    await this.#marks.set(spansOf([...segments, ...dropped]));
    // A row lacking an endpoint may have lost against an existing row, so it is read again with the others.
    this.noteSegments(segments.filter((row) => row.missing === 0));
  }

  /** Writes flows first, so that every visible row has its flows. */
  async #insert(
    segments: readonly SegmentRow[],
    flows: readonly FlowRow[],
    { dropped = [], fenceOf = () => 0 }: Partial<WriteSettings> = {},
  ): Promise<void> {
    const settings = { dropped, fenceOf, most: ROWS_AT_ONCE };
    for (const bytes of writeFlows(flows, settings)) await this.#http.insert("flows", flowColumns(), bytes);
    for (const bytes of writeSegments(segments, settings))
      await this.#http.insert("segments", segmentColumns(), bytes);
  }

  /** Returns the rows with a missing endpoint that these rows replace. If packets delimit the epochs, their start differs from that of the pair. */
  async #replacedMissing(segments: readonly SegmentRow[]): Promise<SegmentRow[]> {
    const pairs = segments.filter((r) => r.mode !== "aligned" && r.missing === 0 && r.step === 0);
    if (pairs.length === 0) return [];
    const byName = new Map<string, SegmentRow[]>();
    for (const row of pairs) {
      const name = JSON.stringify(rowNames(row));
      byName.set(name, [...(byName.get(name) ?? []), row]);
    }
    const firstNs = pairs.map((r) => r.startNs).reduce(earlier);
    const lastNs = pairs.map((r) => r.endNs).reduce(later);
    const names = [...byName.values()].map((rows) => rowNames(rows[0] as SegmentRow));
    const rows = await this.missingRows(names, firstNs, lastNs);
    return rows.filter((row) =>
      byName.get(JSON.stringify(rowNames(row)))?.some((pair) => isReplacedBy(row, pair)),
    );
  }

  protected openSpans(step: Step, untilNs: bigint, most: number): Promise<OpenSpan[]> {
    return this.#marks.open(step, untilNs, most);
  }

  protected async writeRolled({ spans, segments, flows }: RolledSpans): Promise<void> {
    await this.#insert(segments, flows);
    await this.#marks.clear(spans);
  }

  /** Uses the hours known to the materialised view: reads only the first and last hour of each segment. */
  protected override async spans(): Promise<SegmentSpan[]> {
    const hours = [
      "min(hour) FROM spans",
      "min(hour) FROM spans WHERE step_s = 0",
      "max(hour) FROM spans WHERE step_s = 0",
      "max(hour) FROM spans",
    ];
    const own = hours.map((h) => `SELECT ${NAMES}, ${h} GROUP BY ${NAMES}`).join(" UNION ALL ");
    return await this.spansWhere(`AND (${NAMES}, hour) IN (${own})`);
  }

  override async newest(): Promise<bigint | null> {
    const [row] = await this.questions.all("SELECT count(*), max(hour) FROM spans WHERE step_s = 0");
    return Number(row?.[0] ?? 0) === 0 ? null : await super.newest(`AND hour >= ${Number(row?.[1]) - 1}`);
  }

  override async isEmpty(): Promise<boolean> {
    return (await this.questions.all("SELECT hour FROM spans LIMIT 1")).length === 0;
  }

  /**
   * Removes whole partitions (a day of epochs, 30 days of minutes, 365 days of hours) once all of their rows are too old or too many. Rows may
   * therefore stay that much longer.
   */
  async retain(step: Step, { nowNs, keepNs, maxBytes }: RetainedRows): Promise<void> {
    const newestNs = await this.#newestOf(step);
    if (newestNs === null) return;
    const limitNs = keepNs === null ? null : earlier(newestNs, nowNs) - keepNs;
    const bytes = maxBytes === null ? 0 : await this.#bytesOf(step);
    const keptShare = maxBytes === null ? 1 : maxBytes / Math.max(maxBytes, 1, bytes);
    for (const table of ["segments", "flows", "spans"] as const) {
      const parts = await this.#http.all(
        `SELECT partition_id, sum(rows) ${this.#place.parts(table)} AND partition_id LIKE '${step}-%' GROUP BY partition_id`,
      );
      const known = parts.map(([id, rows]) => ({
        id: String(id),
        endNs: partitionEnd(String(id), step),
        rows: Number(rows),
      }));
      known.sort((a, b) => (a.endNs > b.endNs ? -1 : 1));
      const mostRows = keptShare * known.reduce((sum, { rows }) => sum + rows, 0);
      let newer = 0;
      for (const { id, endNs, rows } of known) {
        const isOld = limitNs !== null && endNs <= limitNs;
        const isTooMuch = keptShare < 1 && table !== "spans" && newer >= mostRows;
        newer += rows;
        if (isOld || isTooMuch) await this.#alter(table, `DROP PARTITION ID '${id}'`);
      }
    }
    if (step === 0) await this.#forgetMarks();
    this.forgetSegments();
  }

  async #bytesOf(step: Step): Promise<number> {
    let bytes = 0;
    for (const table of ["segments", "flows"] as const) {
      const [row] = await this.#http.all(
        `SELECT sum(data_uncompressed_bytes) ${this.#place.parts(table)} AND partition_id LIKE '${step}-%'`,
      );
      bytes += Number(row?.[0] ?? 0);
    }
    return bytes;
  }

  async #newestOf(step: Step): Promise<bigint | null> {
    const [row] = await this.questions.all("SELECT count(*), max(hour) FROM spans WHERE step_s = $1", [step]);
    return Number(row?.[0] ?? 0) === 0 ? null : (BigInt(Number(row?.[1])) + 1n) * HOUR_NS;
  }

  /** Deletes cleared marks after merging each with the row that cleared it. */
  async #forgetMarks(): Promise<void> {
    const table = `${this.#place.local("dirty")}${this.#place.everywhere}`;
    try {
      await this.#http.run(`OPTIMIZE TABLE ${table} FINAL`);
    } catch (error) {
      // Not every version can do this on replicated tables; there, the marks and their clearing rows stay.
      if (error instanceof UsageError) throw error;
      return;
    }
    await this.#alter("dirty", "DELETE WHERE gone = 1 AND written < now() - 3600");
  }

  #alter(table: string, what: string): Promise<void> {
    return this.#http.run(`ALTER TABLE ${this.#place.local(table)}${this.#place.everywhere} ${what}`);
  }

  async export(table: "segments" | "flows", path: string, format: "parquet" | "csv"): Promise<void> {
    if (format === "parquet")
      throw new UsageError(
        "not-supported",
        "Parquet of results in ClickHouse is written by ClickHouse itself",
        `ask it for SELECT * FROM ${this.#http.address.database}.${table} FINAL${table === "segments" ? " WHERE gone = 0" : ""} FORMAT Parquet`,
      );
    const columns = (table === "segments" ? SEGMENT_COLUMNS : FLOW_COLUMNS).filter(
      ([name]) => name !== "state",
    );
    await pipeline(csvLines(this.#http.all, table, columns), createWriteStream(path));
  }

  async close(): Promise<void> {
    this.#http.close();
  }
}

function rowNames({ segment, estimator }: Pick<SegmentRow, "segment" | "estimator">): string[] {
  return namesOf({ ...segment, estimator });
}

function partitionEnd(id: string, step: Step): bigint {
  const at = Number(id.split("-")[1]);
  return BigInt((at + 1) * PARTITION_HOURS[step]) * HOUR_NS;
}
