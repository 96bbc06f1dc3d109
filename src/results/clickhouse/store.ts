/**
 * Results in ClickHouse. There are no transactions: what is written together is written in an order that leaves no harm when it stops in the middle, and all of it again when the caller comes again.
 * Any number of workers may write; which of two rows of one key counts is decided by what they are, then by the fence of who wrote them (row-writer.ts), then by which came last to the server, never by
 * the clocks of workers.
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
import { type ClickhouseAddress, ClickhouseHttp } from "./http.ts";
import { Marks } from "./marks.ts";
import { flowColumns, segmentColumns, type WriteSettings, writeFlows, writeSegments } from "./row-writer.ts";
import { type Cluster, PARTITION_HOURS, type Place, prepareSchema } from "./schema.ts";

export interface ClickhouseOptions extends ClickhouseAddress {
  cluster?: Cluster | null | undefined;
  /** How long rows of each step are kept, s. */
  keepS?: Record<Step, number> | undefined;
  /** A minute or an hour that a worker has marked and not made for so long is made by any other, s (default 180). */
  leftS?: number | undefined;
  /** Only to be read: the database has to be there, and nothing of it is changed. */
  onlyRead?: boolean | undefined;
}

/** Others write too: the list of segments is read again after this. */
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

  /** UsageError where the server is away or too old, the user is not known, or the database is of a newer hoptime. */
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
      throw error;
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
    // A row of one end may have lost against what is there: it is read with the others.
    this.noteSegments(segments.filter((row) => row.missing === 0));
  }

  /** Flows first: a row that can be seen has its flows. */
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

  /** Rows of ends that came late, where packets cut epochs: their start is not that of the pair. */
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

  /** By the hours that the materialised view knows: first and last hour of each segment, not all rows. */
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

  /** Whole partitions (a day of epochs, 30 days of minutes, 365 of hours) go when all of it is too old or too much: rows may stay that much longer. */
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

  /** Marks that were taken away, once they are one row with what took them. */
  async #forgetMarks(): Promise<void> {
    const table = `${this.#place.local("dirty")}${this.#place.everywhere}`;
    try {
      await this.#http.run(`OPTIMIZE TABLE ${table} FINAL`);
    } catch (error) {
      // Of copied tables not every version can: marks stay then, and so do those that took them away.
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
