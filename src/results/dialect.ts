/**
 * The differences between the SQL of the two databases. Queries are written once (segment-reader.ts, flow-reader.ts, happenings.ts,
 * arrivals-table.ts) in what both understand, and use this for the rest. ClickHouse keeps replaced and removed rows until it merges; `from`
 * excludes them, so a query sees each row once.
 */

export type Value = string | number | bigint | boolean | null | object;

/** Returns rows as arrays, in column order. */
export type ReadRows = (sql: string, values?: readonly Value[]) => Promise<Value[][]>;

export type ColumnType = "text" | "bigint" | "integer" | "double" | "bytes";

export type TableName = "segments" | "flows" | "dirty" | "incidents" | "alerts" | "arrivals";

export interface Dialect {
  /** `FROM … WHERE …` for the rows that count; further conditions follow with AND. */
  from(table: TableName): string;
  /** Rows of segments or flows that start in a time range, in a form the database finds quickly. */
  starting(fromNs: string, toNs: string): string;
  /** Rows that end after `fromNs` and start before `toNs`. */
  touching(fromNs: string, toNs: string): string;
  /** Integer quotient of two positive numbers. */
  quotient(a: string, b: string): string;
  bigint(sql: string): string;
  /** As text; NULL becomes the empty text. */
  text(sql: string): string;
  /** Concatenates texts with commas. */
  listed(texts: readonly string[]): string;
  /** Aggregate: all texts of a group, joined with semicolons. */
  gathered(text: string): string;
  /** Aggregates: the interpolated quantile, and the median absolute deviation. */
  quantile(column: string, share: number): string;
  medianDistance(column: string): string;
  /** A column of bytes, in the form `bytesOf` reads. */
  bytes(column: string): string;
  /** Named subqueries: the text in front of a query, and how to refer to each. */
  named(questions: ReadonlyMap<string, string>): { before: string; of: (name: string) => string };
}

/** Access to a database. */
export interface Questions {
  all: ReadRows;
  dialect: Dialect;
}

export const DUCKDB: Dialect = {
  from: (table) => `FROM ${table} WHERE true`,
  starting: (fromNs, toNs) => `start_ns >= ${fromNs} AND start_ns < ${toNs}`,
  touching: (fromNs, toNs) => `end_ns > ${fromNs} AND start_ns < ${toNs}`,
  quotient: (a, b) => `(${a}) // (${b})`,
  bigint: (sql) => sql,
  text: (sql) => `coalesce(CAST(${sql} AS VARCHAR), '')`,
  listed: (texts) => `concat_ws(',', ${texts.join(", ")})`,
  gathered: (text) => `string_agg(${text}, ';')`,
  quantile: (column, share) => `quantile_cont(${column}, ${share})`,
  medianDistance: (column) => `mad(${column})`,
  bytes: (column) => column,
  named: (questions) => {
    const parts = [...questions].map(([name, sql]) => `${name} AS MATERIALIZED (${sql})`);
    return { before: parts.length === 0 ? "" : `WITH ${parts.join(", ")} `, of: (name) => name };
  },
};

const HOUR_NS = 3_600_000_000_000n;
/** Longest epoch that is found when its start lies before the requested time. */
const LONGEST_NS = 48n * HOUR_NS;
/** The flows of an epoch are one row of arrays (clickhouse/schema.ts). */
const FLOW_ARRAYS = "flow, packets, lost, bytes, mean_ns, low_ns, high_ns, state";
const sorted = (column: string) => `arraySort(groupArray(assumeNotNull(${column})))`;

/** Interpolates linearly between the two values of a sorted array that are nearest to a share of it. */
function between(array: string, share: string): string {
  const place = `(length(${array}) - 1) * ${share}`;
  const low = `${array}[toUInt32(floor(${place})) + 1]`;
  const high = `${array}[toUInt32(ceil(${place})) + 1]`;
  const part = `(${place} - floor(${place}))`;
  return `${low} * (1 - ${part}) + ${high} * ${part}`;
}

export const CLICKHOUSE: Dialect = {
  from: (table) => {
    if (table === "flows") return `FROM flows FINAL ARRAY JOIN ${FLOW_ARRAYS} WHERE 1`;
    const isMarked = table === "segments" || table === "dirty";
    return `FROM ${table} FINAL WHERE ${isMarked ? "gone = 0" : "1"}`;
  },
  starting: (fromNs, toNs) =>
    `start_ns >= ${fromNs} AND start_ns < ${toNs} AND hour >= intDiv(${fromNs}, ${HOUR_NS}) AND hour <= intDiv(${toNs}, ${HOUR_NS})`,
  touching: (fromNs, toNs) =>
    `end_ns > ${fromNs} AND start_ns < ${toNs} AND hour >= intDiv(${fromNs} - ${LONGEST_NS}, ${HOUR_NS}) AND hour <= intDiv(${toNs}, ${HOUR_NS})`,
  quotient: (a, b) => `intDiv(${a}, ${b})`,
  bigint: (sql) => `toInt64(${sql})`,
  text: (sql) => `ifNull(toString(${sql}), '')`,
  listed: (texts) => `arrayStringConcat([${texts.join(", ")}], ',')`,
  gathered: (text) => `arrayStringConcat(groupArray(${text}), ';')`,
  quantile: (column, share) => between(sorted(column), `${share}`),
  medianDistance: (column) => {
    const middle = between(sorted(column), "0.5");
    return between(
      `arraySort(arrayMap(x -> abs(x - (${middle})), groupArray(assumeNotNull(${column}))))`,
      "0.5",
    );
  },
  bytes: (column) => `hex(${column})`,
  named: (questions) => ({ before: "", of: (name) => `(${questions.get(name) ?? ""})` }),
};
