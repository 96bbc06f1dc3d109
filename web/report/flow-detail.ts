/** All values of one flow, compared with the delays of all packets. */

import { countOrNot, formatBytes, formatCount, formatShare } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import type { LatencyField } from "../../src/compare/report.ts";
import { bdi, el, facts } from "./elements.ts";
import type { FlowDirection } from "./flow-direction.ts";
import { type FlowRows, protocolName } from "./flow-rows.ts";
import { flowPicture } from "./flow-series.ts";

const DELAYS: [LatencyField, string][] = [
  ["minNs", "Min"],
  ["p50Ns", "p50"],
  ["p90Ns", "p90"],
  ["p99Ns", "p99"],
  ["p999Ns", "p99.9"],
  ["maxNs", "Max"],
  ["meanNs", "Mean"],
  ["stdevNs", "Std. deviation"],
  ["jitterNs", "Jitter"],
];

export function flowDetail(
  rows: FlowRows,
  row: number,
  { whole, series }: Pick<FlowDirection, "whole" | "series">,
  close: () => void,
): HTMLElement {
  const { count, latency, key, communityId } = rows.columns;
  const loss = rows.values("loss")[row] ?? null;
  const missing = rows.reason(row);
  const name = `${rows.address(row, "src")} → ${rows.address(row, "dst")}`;
  return el(
    "div",
    {},
    el(
      "div",
      { class: "detail-head" },
      el("h3", {}, bdi(name), " ", protocolName(key.proto[row] ?? null)),
      el("button", { type: "button", class: "plain-button", on: { click: close } }, "Close"),
    ),
    flowPicture(series, row, whole?.p50Ns ?? null),
    el(
      "div",
      { class: "columns" },
      facts([
        ["Sent", formatCount(count.sent[row]!)],
        ["Received", formatCount(count.received[row]!)],
        ["Matched", formatCount(count.matched[row]!)],
        ["Lost", `${formatCount(count.lost[row]!)}${loss === null ? "" : ` (${formatShare(loss)})`}`],
        ["Appeared", formatCount(count.appeared[row]!)],
        ["Duplicates", formatCount(count.duplicates[row]!)],
        ["Reordered", countOrNot(count.reordered[row] ?? null)],
        ["Bytes", formatBytes(count.bytes[row]!)],
        ...(typeof key.dscp[row] === "number" ? [["DSCP", String(key.dscp[row])] as [string, string]] : []),
        ...(typeof key.vlan[row] === "number" ? [["VLAN", String(key.vlan[row])] as [string, string]] : []),
        ["Community ID", communityId[row] ? el("code", {}, communityId[row]) : "none"],
      ]),
      missing
        ? el("p", { class: "no-answer" }, `No delay: ${missing}`)
        : el(
            "table",
            { class: "small" },
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                ["Delay", "This flow", "All packets"].map((t) => el("th", { scope: "col" }, t)),
              ),
            ),
            el(
              "tbody",
              {},
              DELAYS.map(([field, label]) => {
                const ns = latency[field][row] ?? null;
                const all = whole?.[field] ?? null;
                return el(
                  "tr",
                  {},
                  el("th", { scope: "row" }, label),
                  el("td", {}, ns === null ? "no answer" : formatNs(ns)),
                  el("td", {}, all === null ? "no answer" : formatNs(all)),
                );
              }),
            ),
          ),
    ),
  );
}
