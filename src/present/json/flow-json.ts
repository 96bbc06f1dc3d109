/** A flow of a comparison as JSON, for rows made without an object (FlowRows.texts): the output of JSON.stringify for a FlowReport, followed by a comma. */
import { COUNT_FIELDS, LATENCY_FIELDS } from "../../compare/report.ts";
import type { RowField, RowForm } from "../../match/row-form.ts";

const KEY = ["src", "dst", "proto", "sport", "dport"] as const;
const LATENCY = ["count", ...LATENCY_FIELDS] as const;

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
    ...members(["communityId", ...COUNT_FIELDS]),
    ',"latency":{',
    ...members(LATENCY),
    "}},",
  ],
  none: "null",
};
