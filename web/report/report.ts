/** The report of two captures; builds its sections. */

import { formatCount } from "../../src/base/quantity.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import { Timeline } from "./chart.ts";
import { distribution } from "./distribution.ts";
import { append, type Child, card, el } from "./elements.ts";
import { estimates } from "./estimates.ts";
import { FlowRows } from "./flow-rows.ts";
import { FlowTable } from "./flow-table.ts";
import { header, tiles, warnings } from "./headline.ts";
import { heatMap } from "./heat-map.ts";
import { delayOverTime, lossOverTime } from "./over-time.ts";
import {
  captures,
  clocks,
  directionAndNotes,
  made,
  notes,
  packets,
  quantileTable,
  reverse,
} from "./sections.ts";

/** A page has one main element, so inside another page the report is a section. */
export type MainTag = "main" | "section";

/** Returns the header and the sections. `actions`: buttons of the surrounding page. */
export function reportParts(
  data: PageData,
  actions: Child = null,
  tag: MainTag = "main",
): [header: HTMLElement, main: HTMLElement] {
  const main = el(tag, { id: "main", tabindex: -1, aria: { label: "Report" } });
  const timeline = timelineOf(data);
  const parts: Child[] = [
    warnings(data),
    tiles(data.segment, data.clock),
    overTime(data, timeline),
    spread(data),
    flows(data),
    reverse(data, timeline),
    el("div", { class: "pair" }, clocks(data), el("div", {}, directionAndNotes(data), notes(data))),
    packets(data),
    captures(data),
    estimates(data),
    made(data),
  ];
  append(main, parts);
  return [header(data, actions), main];
}

/** Returns the shared time axis of all charts over time; null if there is nothing to draw. */
function timelineOf({ intervals, heat, reverseIntervals, originNs }: PageData): Timeline | null {
  const ends = [
    ...intervals.endNs,
    ...(heat ? heat.columnStartNs.map((s) => s + heat.columnWidthNs) : []),
    ...(reverseIntervals?.endNs ?? []),
  ];
  if (ends.length === 0) return null;
  const start = Math.min(0, reverseIntervals?.startNs[0] ?? 0);
  return new Timeline(BigInt(originNs), start / 1e9, ends.reduce((a, b) => Math.max(a, b)) / 1e9);
}

function overTime(data: PageData, timeline: Timeline | null): HTMLElement[] {
  const { intervals, heat } = data;
  if (timeline === null) return [card("delay", "Delay over time", nothing(data))];
  const hasDelay = intervals.latency.meanNs.some((v) => v !== null);
  const hasHeat = heat?.counts.some((column) => column.length > 1) ?? false;
  return [
    card(
      "delay",
      "Delay over time",
      zoomHint(timeline),
      intervals.grouped > 1 &&
        el(
          "p",
          { class: "lead" },
          `Each point is ${formatCount(intervals.grouped)} intervals: their min and max delay, and the quantiles of the worst of them.`,
        ),
      hasDelay ? delayOverTime(intervals, data.segment.latency?.p50Ns ?? 0, timeline) : nothing(data),
    ),
    card("heat", "Heat map of delays", hasHeat ? heatMap(heat!, timeline) : nothing(data)),
    card(
      "loss",
      "Loss over time",
      intervals.sent.length > 0 ? lossOverTime(intervals, timeline) : nothing(data),
    ),
  ];
}

function zoomHint(timeline: Timeline): HTMLElement {
  const reset = el(
    "button",
    { type: "button", class: "plain-button", hidden: true, on: { click: () => timeline.showAll() } },
    "Show all",
  );
  timeline.onChange((zoomed) => {
    reset.hidden = !zoomed;
  });
  return el("div", { class: "hint" }, el("span", {}, "UTC · drag to zoom, double-click for all"), reset);
}

function spread(data: PageData): HTMLElement {
  const { segment, cdf } = data;
  return card(
    "distribution",
    "Distribution of delays",
    cdf.delayNs.length === 0
      ? nothing(data)
      : el(
          "div",
          { class: "beside" },
          el("div", {}, distribution(cdf, segment.latency)),
          quantileTable(segment.latency, segment.reason),
        ),
  );
}

function flows(data: PageData): HTMLElement {
  const directions = [
    {
      ...{ label: "Forward", rows: new FlowRows(data.flows), whole: data.segment.latency },
      series: data.flowSeries.forward,
    },
    {
      ...{ label: "Reverse", rows: new FlowRows(data.reverseFlows), whole: data.reverse?.latency ?? null },
      series: data.flowSeries.reverse,
    },
  ].filter((d) => d.rows.columns.length > 0);
  return card(
    "flows",
    "Flows",
    directions.length > 0
      ? new FlowTable(directions).root
      : el("p", { class: "no-answer" }, "No flow was seen."),
  );
}

function nothing(data: PageData): HTMLElement {
  const reason = data.segment.latency
    ? "the report contains no data for it"
    : (data.segment.reason ?? "no packet was matched");
  return el("p", { class: "no-answer" }, `Nothing to draw: ${reason}.`.replace(/\.\.$/, "."));
}
