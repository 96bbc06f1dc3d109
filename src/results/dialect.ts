/**
 * Where the SQL of the two databases differs. Questions are written once (segment-reader.ts, flow-reader.ts, happenings.ts, arrivals.ts), in what both understand, and ask here for the rest.
 * ClickHouse keeps what is replaced or removed until it merges: `from` leaves that out, so that a question sees each row once.
 */

export type Value = string | number | bigint | boolean | null | object;

/** Reads rows as arrays, in the order of the columns. */
export type ReadRows = (sql: string, values?: readonly Value[]) => Promise<Value[][]>;

export type ColumnType = "text" | "bigint" | "integer" | "double" | "bytes";

export type TableName = "segments" | "flows" | "dirty" | "incidents" | "alerts" | "arrivals";

export interface Dialect {
  /** `FROM … WHERE …`: the rows that count; conditions follow with AND. */
  from(table: TableName): string;
  /** Rows of segments or flows that start in a time: as the database finds them quickly. */
  starting(fromNs: string, toNs: string): string;
  /** Rows that end after a time and start before another. */
  touching(fromNs: string, toNs: string): string;
  /** Whole quotient of two positive numbers. */
  quotient(a: string, b: string): string;
  bigint(sql: string): string;
  /** As text; empty for NULL. */
  text(sql: string): string;
  /** Texts with commas between them. */
  listed(texts: readonly string[]): string;
  /** Of a group: all its texts, with semicolons between them. */
  gathered(text: string): string;
  /** Of a group: quantile between the two nearest values, and median distance from the median. */
  quantile(column: string, share: number): string;
  medianDistance(column: string): string;
  /** A column of bytes, as `bytesOf` reads it. */
  bytes(column: string): string;
  /** Questions that others use by name: what comes before those, and what they call them. */
  named(questions: ReadonlyMap<string, string>): { before: string; of: (name: string) => string };
}

/** How a question reaches a database. */
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
/** Longer epochs than this are not looked for before a time. */
const LONGEST_NS = 48n * HOUR_NS;
/** Flows of an epoch are one row of arrays (clickhouse/schema.ts). */
const FLOW_ARRAYS = "flow, packets, lost, bytes, mean_ns, low_ns, high_ns, state";
const sorted = (column: string) => `arraySort(groupArray(assumeNotNull(${column})))`;

/** Between the two values of a sorted array that are nearest to a share of it. */
function between(array: string, share: string): string {
  const place = `(length(${array}) - 1) * ${share}`;
  const low = `${array}[toUInt32(floor(${place})) + 1]`;
  const high = `${array}[toUInt32(ceil(${place})) + 1]`;
  return `${low} + (${high} - ${low}) * (${place} - floor(${place}))`;
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
