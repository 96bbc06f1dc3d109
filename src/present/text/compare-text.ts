/** Formats a compare report for the terminal. */

import { countOf, formatCount, formatPercent } from "../../base/quantity.ts";
import { formatDuration, formatTime } from "../../base/time.ts";
import { formatFlowKey } from "../../capture/flow/flow-text.ts";
import { MEASURES, type Measure } from "../../compare/columns.ts";
import type { EstimateReport } from "../../compare/estimate-report.ts";
import type { FlowOrder } from "../../compare/flows.ts";
import { lossDoubt } from "../../compare/loss-doubt.ts";
import type {
  CaptureSummary,
  FlowReport,
  FlowRows,
  Latency,
  ReportView,
  SegmentReport,
} from "../../compare/report.ts";
import { estimateLines } from "./compare-estimate-text.ts";
import type { Palette } from "./palette.ts";
import { skipText } from "./skip-text.ts";
import { type Column, formatTable } from "./table.ts";

export interface TextOptions {
  top: number;
  sort: FlowOrder;
  colours: Palette;
}

export function formatCompare(report: ReportView, options: TextOptions): string {
  const { colours: c } = options;
  const out: string[] = [];
  out.push(captureLine("before", report.before, c), captureLine("after ", report.after, c), "");
  if (report.direction.order === "swapped") {
    out.push(
      c.red(`The files look swapped: ${report.direction.evidence.join("; ")}.`),
      c.red(`Run: hoptime compare ${report.after.file} ${report.before.file}`),
      "",
    );
  }
  out.push(...segmentLines(report.segment, "", c));
  const doubt = lossDoubt(report);
  if (doubt !== null) out.push(c.red(`loss is probably not real: ${doubt}`));
  if (report.reverse) out.push("", ...segmentLines(report.reverse, "reverse (after → before): ", c));
  const reverseDoubt = lossDoubt(report, "reverse");
  if (reverseDoubt !== null) out.push(c.red(`reverse loss is probably not real: ${reverseDoubt}`));
  for (const [title, flows] of [
    ["flows", report.flows],
    ["reverse flows", report.reverseFlows],
  ] as const) {
    const shown = sorted(flows, options.sort).slice(0, options.top);
    if (shown.length > 0)
      out.push("", c.bold(`${title} by ${options.sort}`), flowTable(shown, options.sort, c));
  }
  if (report.estimates) {
    out.push("", c.bold("estimates beside the exact values"));
    out.push(...estimateLines(report.estimates as Record<string, EstimateReport>, c));
  }
  const trust = String(report.clock.trust);
  const paint = trust === "good" ? c.green : trust === "usable" ? c.yellow : c.red;
  out.push(
    "",
    `${c.bold("clocks")}  ${paint(trust)} (${report.clock.mode === "asis" ? "delays as captured" : String(report.clock["applied"])})`,
  );
  for (const line of report.clock.lines) out.push(`  ${line}`);
  if (report.notes.length > 0) {
    out.push("", c.bold("notes"));
    for (const note of report.notes) out.push(`  ${note}`);
  }
  return `${out.join("\n")}\n`;
}

function captureLine(name: string, s: CaptureSummary, c: Palette): string {
  const span =
    s.firstNs !== null && s.lastNs !== null
      ? `${formatTime(BigInt(s.firstNs), 3)}, ${formatDuration(Number(BigInt(s.lastNs) - BigInt(s.firstNs)))}`
      : "no packets";
  const skipped = skipText(s.skipped);
  const rest = skipped === "" ? "" : `; not used: ${skipped}`;
  const partial = s.partial ? c.red(" PARTIAL") : "";
  return `${c.bold(name)} ${s.file}: ${countOf(s.packets, "packet")} (${formatCount(s.ipPackets)} IP), ${span}${rest}${partial}`;
}

function segmentLines(s: SegmentReport, prefix: string, c: Palette): string[] {
  const lines: string[] = [];
  const extras = [
    s.appeared > 0 ? `${formatCount(s.appeared)} appeared` : "",
    s.duplicates > 0 ? `${formatCount(s.duplicates)} duplicated` : "",
    s.reordered !== null && s.reordered > 0
      ? `${formatCount(s.reordered)} reordered (by up to ${formatCount(s.reorderExtent?.max ?? 0)})`
      : "",
    s.head > 0 ? `${formatCount(s.head)} before a capture began` : "",
    s.tail > 0 ? `${formatCount(s.tail)} after a capture ended` : "",
    s.undecided > 0 ? `${formatCount(s.undecided)} undecided at the ends` : "",
    s.linkLocal > 0 ? `${formatCount(s.linkLocal)} link-local` : "",
    s.mirrored > 0 ? `${formatCount(s.mirrored)} mirrored` : "",
  ].filter((t) => t !== "");
  lines.push(
    `${prefix}${c.bold("packets")}  ${formatCount(s.sent)} sent, ${formatCount(s.received)} received, ${formatCount(s.matched)} matched, ${formatCount(s.lost)} lost (${formatPercent(s.lossRate)})${extras.length > 0 ? `, ${extras.join(", ")}` : ""}`,
  );
  if (s.latency) {
    const l = s.latency;
    const part = (name: string, ns: number) => `${name} ${c.bold(formatDuration(ns))}`;
    lines.push(
      `${prefix ? "  " : ""}${c.bold("delay")}    ${[
        part("mean", l.meanNs),
        part("stdev", l.stdevNs),
        part("min", l.minNs),
        part("p50", l.p50Ns),
        part("p90", l.p90Ns),
        part("p99", l.p99Ns),
        part("p99.9", l.p999Ns),
        part("max", l.maxNs),
        ...(l.jitterNs === null ? [] : [part("jitter", l.jitterNs)]),
      ].join("  ")}`,
    );
  } else lines.push(`${c.bold("delay")}    no answer: ${s.reason}`);
  return lines;
}

function sorted(flows: FlowRows, by: FlowOrder): FlowReport[] {
  const measure: Measure = MEASURES[by];
  const value = (flow: FlowReport) => measure.value(flow) ?? Number.NEGATIVE_INFINITY;
  return [...flows].sort((a, b) => value(b) - value(a));
}

function flowTable(flows: FlowReport[], by: FlowOrder, c: Palette): string {
  const delay = (pick: (l: Latency) => number) => (f: FlowReport) =>
    f.latency ? formatDuration(pick(f.latency)) : "–";
  const columns: Column<FlowReport>[] = [
    { title: "flow", align: "left", value: (f) => formatFlowKey(f.key) },
    { title: "sent", value: (f) => formatCount(f.sent) },
    { title: "lost", value: (f) => formatCount(f.lost) },
    {
      title: "loss",
      value: (f) => formatPercent(f.matched + f.lost > 0 ? f.lost / (f.matched + f.lost) : null),
    },
    { title: "appeared", value: (f) => formatCount(f.appeared) },
    { title: "mean", value: delay((l) => l.meanNs) },
    { title: "stdev", value: delay((l) => l.stdevNs) },
    { title: "min", value: delay((l) => l.minNs) },
    { title: "p50", value: delay((l) => l.p50Ns) },
    { title: "p99", value: delay((l) => l.p99Ns) },
    { title: "max", value: delay((l) => l.maxNs) },
  ];
  // Show the column that flows are sorted by. Packets need none, because the column of packets sent is nearly the same.
  if (by !== "packets" && !columns.some((column) => column.title === by)) {
    const { unit, value }: Measure = MEASURES[by];
    columns.push({
      title: by,
      value: (f) => {
        const v = value(f);
        return v === null ? "–" : unit === "ns" ? formatDuration(v) : formatCount(v);
      },
    });
  }
  return formatTable(columns, flows, { colours: c });
}
