/** Writes a table as CSV in DuckDB's format, hour by hour, so that no more than an hour is in memory. */
import { CLICKHOUSE, type ColumnType, type ReadRows, type Value } from "../dialect.ts";
import { EXPORT_ORDER } from "../tables.ts";

export async function* csvLines(
  all: ReadRows,
  table: "segments" | "flows",
  columns: readonly (readonly [name: string, sql: string, type: ColumnType])[],
): AsyncGenerator<string> {
  const names = columns.map(([name]) => name).join(",");
  yield `${names}\n`;
  const hours = await all("SELECT DISTINCT hour FROM spans ORDER BY hour");
  for (const [hour] of hours) {
    const rows = await all(
      `SELECT ${names} ${CLICKHOUSE.from(table)} AND hour = ${Number(hour)} ORDER BY ${EXPORT_ORDER[table]}`,
    );
    yield rows.map((row) => `${row.map((value, i) => field(value, columns[i]?.[2])).join(",")}\n`).join("");
  }
}

function field(value: Value, type: ColumnType | undefined): string {
  if (value === null) return "";
  if (type === "double" && Number.isInteger(value)) return `${value}.0`;
  const text = String(value);
  // An empty text differs from NULL.
  return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
