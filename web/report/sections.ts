/** The sections below the charts: packets, clocks, captures, estimates, and how the report was made. */

import { countOrNot, formatBytes, formatCount, formatShare } from "../../src/base/quantity.ts";
import { formatInstant, formatNs } from "../../src/base/time.ts";
import type { CaptureSummary, Latency, SegmentReport } from "../../src/compare/report.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import { skipWords } from "../../src/present/text/skip-text.ts";
import type { Timeline } from "./chart.ts";
import { bdi, type Child, card, el, facts, sentences } from "./elements.ts";
import { baseName, tiles } from "./headline.ts";
import { delayOverTime, lossOverTime } from "./over-time.ts";
import { flatten, readable } from "./unknown-values.ts";

export function quantileTable(
  latency: Latency | null,
  reason: string | undefined,
  wide = false,
): HTMLElement {
  if (!latency) return el("p", { class: "no-answer" }, `No delays: ${reason ?? "no reason was given"}`);
  const rows: [string, number | null][] = [
    ["Min", latency.minNs],
    ["p50", latency.p50Ns],
    ["p90", latency.p90Ns],
    ["p99", latency.p99Ns],
    ["p99.9", latency.p999Ns],
    ["Max", latency.maxNs],
    ["Mean", latency.meanNs],
    ["Std. deviation", latency.stdevNs],
    ["Jitter (IPDV)", latency.jitterNs],
  ];
  const quantiles = rows.map(([name, ns]): [string, string] => [
    name,
    ns === null ? "no answer: needs two packets" : formatNs(ns),
  ]);
  return facts([...quantiles, ["Packets", formatCount(latency.count)]], wide);
}

const ACCOUNT: [name: string, meaning: string, of: (s: SegmentReport) => string][] = [
  ["Sent", "seen where they leave", (s) => formatCount(s.sent)],
  ["Received", "seen where they arrive", (s) => formatCount(s.received)],
  ["Matched", "seen at both points: delays are based on these", (s) => formatCount(s.matched)],
  [
    "Lost",
    "sent, never received",
    (s) => `${formatCount(s.lost)}${s.lossRate === null ? "" : ` (${formatShare(s.lossRate)})`}`,
  ],
  ["Appeared", "received, never sent", (s) => formatCount(s.appeared)],
  ["Duplicates", "copies of a packet already seen", (s) => formatCount(s.duplicates)],
  ["Reordered", "overtaken by later packets", (s) => countOrNot(s.reordered)],
  [
    "Reordering extent",
    "packets that overtook one, on average and at most (RFC 4737)",
    ({ reordered, reorderExtent: extent }) =>
      reordered === null
        ? "no answer"
        : extent
          ? `${Number(extent.mean.toFixed(1))}, at most ${formatCount(extent.max)}`
          : "none",
  ],
  ["Head", "unmatched because one capture began later; not loss", (s) => formatCount(s.head)],
  ["Tail", "unmatched because one capture ended earlier; not loss", (s) => formatCount(s.tail)],
  [
    "Ambiguous",
    "more than one possible match within the window: matched, but without a delay",
    (s) => formatCount(s.ambiguous),
  ],
];

export function packets(data: PageData): HTMLElement {
  const directions: [string, SegmentReport][] = [["Packets", data.segment]];
  if (data.reverse) {
    directions[0]![0] = "Forward";
    directions.push(["Reverse", data.reverse]);
  }
  return card(
    "packets",
    "Where the packets went",
    el(
      "div",
      { class: "scroll-x" },
      el(
        "table",
        { class: "small account" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "What"),
            directions.map(([name]) => el("th", { scope: "col" }, name)),
            el("th", { scope: "col", class: "text" }, "Meaning"),
          ),
        ),
        el(
          "tbody",
          {},
          ACCOUNT.map(([name, meaning, of]) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, name),
              directions.map(([, s]) => el("td", {}, of(s))),
              el("td", { class: "text meaning" }, meaning),
            ),
          ),
        ),
      ),
    ),
  );
}

export function reverse(data: PageData, timeline: Timeline | null): HTMLElement | null {
  if (!data.reverse) return null;
  const { reverseIntervals: intervals } = data;
  const drawn = intervals?.latency.meanNs.some((v) => v !== null) ?? false;
  return card(
    "reverse",
    "The other way",
    el("p", { class: "lead" }, bdi(baseName(data.after.file)), " → ", bdi(baseName(data.before.file))),
    tiles(data.reverse, null),
    data.reverse.latency &&
      el("div", { class: "spaced" }, quantileTable(data.reverse.latency, undefined, true)),
    timeline &&
      intervals && [
        drawn && [
          el("h3", { class: "spaced" }, "Delay over time"),
          delayOverTime(intervals, data.reverse.latency?.p50Ns ?? 0, timeline),
        ],
        el("h3", { class: "spaced" }, "Loss over time"),
        lossOverTime(intervals, timeline),
      ],
    !intervals &&
      el(
        "p",
        { class: "lead spaced" },
        "Not drawn over time: the captures are too large to keep every packet (hoptime compare --packets writes them).",
      ),
  );
}

export function clocks(data: PageData): HTMLElement {
  const { mode, trust, lines, ...details } = data.clock;
  const rest = flatten(details);
  return card(
    "clocks",
    "Clocks",
    el("p", { class: "lead" }, "Trust: ", el("strong", {}, trust), ` · mode: ${mode}`),
    lines.length > 0 ? sentences(lines) : el("p", {}, "The clock check found nothing."),
    rest.length > 0 &&
      el(
        "details",
        {},
        el("summary", {}, "Measurements behind it"),
        facts(rest.map(([k, v]) => [k, readable(k, v)])),
      ),
  );
}

export function directionAndNotes(data: PageData): HTMLElement {
  const { order, evidence } = data.direction;
  const verdict = {
    "as-given": "As given: packets pass the first file's point first.",
    swapped: "Swapped, it seems: packets pass the second file's point first.",
    unclear: "Unclear: the packets do not show which point comes first.",
  }[order];
  return card(
    "direction",
    "Direction",
    el("p", { class: "lead" }, verdict ?? order),
    evidence.length > 0 && sentences(evidence),
  );
}

export function notes(data: PageData): HTMLElement {
  return card(
    "notes",
    "What limits these numbers",
    data.notes.length > 0 ? sentences(data.notes) : el("p", {}, "Nothing unusual was found."),
  );
}

export function captures(data: PageData): HTMLElement {
  return card(
    "captures",
    "Captures",
    el("div", { class: "columns" }, capture("Before", data.before), capture("After", data.after)),
  );
}

function capture(role: string, summary: CaptureSummary): HTMLElement {
  const skipped = Object.entries(summary.skipped).sort((a, b) => b[1] - a[1]);
  const instant = (ns: string | null) => (ns === null ? "no packet" : `${formatInstant(BigInt(ns), 6)} UTC`);
  const skippedList: Child =
    skipped.length === 0
      ? "none"
      : el(
          "ul",
          { class: "reasons" },
          skipped.map(([reason, n]) =>
            el("li", {}, el("b", {}, formatCount(n)), " ", bdi(skipWords(reason))),
          ),
        );
  const rows: [Child, Child][] = [
    ["File", bdi(summary.file, "path")],
    ["Format", summary.format],
    ["Packets", `${formatCount(summary.packets)} (${formatCount(summary.ipPackets)} IP)`],
    ["Bytes", formatBytes(summary.bytes)],
    ["First", instant(summary.firstNs)],
    ["Last", instant(summary.lastNs)],
    [
      "Dropped by the capture",
      summary.dropped === null ? "the file does not say" : formatCount(summary.dropped),
    ],
    ["Not used", skippedList],
  ];
  if (summary.partial !== null) rows.push(["Partial", el("span", { class: "bad-text" }, summary.partial)]);
  return el("div", {}, el("h3", {}, role), facts(rows));
}

export function made(data: PageData): HTMLElement {
  const options = flatten(data.options);
  return card(
    "made",
    "How this was made",
    facts(
      [
        ["Program", `hoptime ${data.hoptime}`],
        ...options.map(([name, value]): [Child, Child] => [bdi(name), readable(name, value, "not set")]),
      ],
      true,
    ),
  );
}
