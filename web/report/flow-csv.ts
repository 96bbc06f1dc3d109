import { COUNT_FIELDS, LATENCY_FIELDS } from "../../src/compare/report.ts";
import { csvCell } from "../../src/present/csv/compare-csv.ts";
import type { FlowRows } from "./flow-rows.ts";

export function flowsAsCsv(rows: FlowRows, order: Uint32Array): string {
  const { columns } = rows;
  const lines = [
    [
      "source",
      "destination",
      "proto",
      "dscp",
      "vlan",
      "communityId",
      ...COUNT_FIELDS,
      ...LATENCY_FIELDS,
      "reason",
    ].join(","),
  ];
  for (const row of order) {
    lines.push(
      [
        text(rows.address(row, "src")),
        text(rows.address(row, "dst")),
        columns.key.proto[row],
        columns.key.dscp[row],
        columns.key.vlan[row],
        text(columns.communityId[row] ?? ""),
        ...COUNT_FIELDS.map((field) => columns.count[field][row]),
        ...LATENCY_FIELDS.map((field) => columns.latency[field][row]),
        text(rows.reason(row)),
      ]
        .map((value) => value ?? "")
        .join(","),
    );
  }
  return `${lines.join("\r\n")}\r\n`;
}

/** Quoted where needed; a text that a spreadsheet would take for a formula is made one that it doesn't. */
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
