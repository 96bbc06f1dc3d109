/** The rows of a table as CSV, hour by hour: no more of them is in memory. */
import { CLICKHOUSE, type ReadRows, type Value } from "../dialect.ts";

export async function* csvLines(
  all: ReadRows,
  table: "segments" | "flows",
  columns: readonly string[],
): AsyncGenerator<string> {
  yield `${columns.join(",")}\n`;
  const hours = await all("SELECT DISTINCT hour FROM spans ORDER BY hour");
  for (const [hour] of hours) {
    const rows = await all(
      `SELECT ${columns.join(", ")} ${CLICKHOUSE.from(table)} AND hour = ${Number(hour)} ORDER BY start_ns, step_s, from_point, to_point, label, estimator`,
    );
    yield rows.map((row) => `${row.map(field).join(",")}\n`).join("");
  }
}

function field(value: Value): string {
  if (value === null) return "";
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
