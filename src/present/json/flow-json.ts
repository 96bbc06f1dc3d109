/** A flow of a comparison as JSON, for rows that are made without an object (FlowRows.texts): what JSON.stringify gives of a FlowReport, with a comma behind it. */
import type { RowField, RowForm } from "../../match/row-form.ts";

const KEY = ["src", "dst", "proto", "sport", "dport"] as const;
const COUNTS = [
  "sent",
  "received",
  "matched",
  "lost",
  "appeared",
  "duplicates",
  "reordered",
  "bytes",
] as const;
const LATENCY = [
  "count",
  "meanNs",
  "stdevNs",
  "minNs",
  "maxNs",
  "p50Ns",
  "p90Ns",
  "p99Ns",
  "p999Ns",
  "jitterNs",
] as const;

const isText = (field: RowField) => field === "src" || field === "dst" || field === "communityId";

function members(fields: readonly RowField[]): RowForm["parts"] {
  return fields.flatMap((field, i) => {
    const quote = isText(field) ? '"' : "";
    return [`${i === 0 ? "" : ","}"${field}":${quote}`, { field }, quote];
  });
}

export const FLOW_JSON: RowForm = {
  parts: [
    '{"key":{',
    ...members(KEY),
    "},",
    ...members(["communityId", ...COUNTS]),
    ',"latency":{',
    ...members(LATENCY),
    "}},",
  ],
  none: "null",
};
