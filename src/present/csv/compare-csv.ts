/** Writes the flows of a compare report as CSV: one row per flow, with an empty cell for a missing value. */
import {
  COUNT_FIELDS,
  type FlowReport,
  type FlowRows,
  LATENCY_FIELDS,
  type ReportView,
} from "../../compare/report.ts";

import type { RowForm } from "../../match/row-form.ts";

/** Formats text as one cell (RFC 4180). */
export function csvCell(value: string): string {
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

const KEY_COLUMNS = ["src", "dst", "proto", "sport", "dport", "dscp", "vlan"] as const;

export const CSV_COLUMNS = [
  "direction",
  ...KEY_COLUMNS,
  "communityId",
  ...COUNT_FIELDS,
  ...LATENCY_FIELDS,
] as const;

/** Yields the CSV line by line, so that the output may be larger than memory. */
export function* compareCsvLines(report: Pick<ReportView, "flows" | "reverseFlows">): Generator<string> {
  yield `${CSV_COLUMNS.join(",")}\n`;
  yield* rowsOf("forward", report.flows);
  yield* rowsOf("reverse", report.reverseFlows);
}

export function formatCompareCsv(report: Pick<ReportView, "flows" | "reverseFlows">): string {
  return [...compareCsvLines(report)].join("");
}

function* rowsOf(direction: string, flows: FlowRows): Generator<string> {
  const row = (flow: FlowReport) => `${direction},${cells(flow).join(",")}\n`;
  const texts = flows.texts?.(formOf(direction), row);
  if (texts) yield* texts;
  else for (const flow of flows) yield row(flow);
}

/** Describes the same row for writers that build no object per flow: a plain five-tuple has neither DSCP nor VLAN. */
function formOf(direction: string): RowForm {
  const columns = [...KEY_COLUMNS, "communityId" as const, ...COUNT_FIELDS, ...LATENCY_FIELDS];
  const fields = columns.map((field) => (field === "dscp" || field === "vlan" ? [","] : [",", { field }]));
  return { parts: [direction, ...fields.flat(), "\n"], none: "" };
}

function cells(flow: FlowReport): (string | number)[] {
  const { key, latency } = flow;
  return [
    ...KEY_COLUMNS.map((field) => {
      const value = key[field];
      return typeof value === "string" ? csvCell(value) : (value ?? "");
    }),
    flow.communityId ?? "",
    ...COUNT_FIELDS.map((field) => flow[field] ?? ""),
    ...LATENCY_FIELDS.map((field) => latency?.[field] ?? ""),
  ];
}
