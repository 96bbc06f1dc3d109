/** The page's flows as CSV, with the columns of `hoptime compare --csv`. */
import { COUNT_FIELDS, LATENCY_FIELDS } from "../../src/compare/report.ts";
import { CSV_COLUMNS, csvCell } from "../../src/present/csv/compare-csv.ts";
import type { FlowRows } from "./flow-rows.ts";

export function flowsAsCsv(rows: FlowRows, order: Uint32Array, direction: "forward" | "reverse"): string {
  const { columns } = rows;
  const lines = [CSV_COLUMNS.join(",")];
  const plain = (row: number, side: "src" | "dst") => {
    const at = columns[side][row] ?? null;
    return at === null ? "" : text(columns.addresses[at] ?? "");
  };
  for (const row of order) {
    lines.push(
      [
        direction,
        plain(row, "src"),
        plain(row, "dst"),
        ...(["proto", "sport", "dport", "dscp", "vlan"] as const).map((field) => columns.key[field][row]),
        text(columns.communityId[row] ?? ""),
        ...COUNT_FIELDS.map((field) => columns.count[field][row]),
        ...LATENCY_FIELDS.map((field) => columns.latency[field][row]),
      ]
        .map((value) => value ?? "")
        .join(","),
    );
  }
  return `${lines.join("\n")}\n`;
}

/** Quotes a cell if necessary, and prevents spreadsheets from reading it as a formula. */
function text(value: string): string {
  return csvCell(/^[=+\-@\t\r]/.test(value) ? `'${value}` : value);
}

export function save(name: string, content: string): void {
  const url = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
