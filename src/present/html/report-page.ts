/**
 * The HTML report of `hoptime compare`: the page built by `web/build.mjs`, filled with one report. The result is one self-contained file; its content security
 * policy forbids all requests.
 *
 * File names, keys and sentences are untrusted (they come from captures and command lines). They enter the page as JSON without any `<`, so that no text can
 * end the script element, and as escaped text in the title and in the text shown without scripts.
 */
import { readFileSync } from "node:fs";
import { findPackageFile } from "../../base/package-file.ts";
import { countOf, formatCount, formatShare } from "../../base/quantity.ts";
import { formatNs } from "../../base/time.ts";
import type { PacketTable } from "../../compare/packets.ts";
import type { ReportView, SegmentReport } from "../../compare/report.ts";
import { PAGE_LIMITS, type PageLimits, toPageData } from "./page-data.ts";

/** Returns the page as HTML. Needs a built `dist/web/report.html`. `packets`: those of the comparison, for series of the reverse direction and of flows. */
export function renderComparePage(
  report: ReportView,
  limits: Partial<PageLimits> = {},
  packets: PacketTable | null = null,
): string {
  const data = toPageData(report, { ...PAGE_LIMITS, ...limits }, packets);
  const fill: Record<string, string> = {
    TITLE: escapeText(`${baseName(report.before.file)} → ${baseName(report.after.file)} · hoptime compare`),
    SUMMARY: escapeText(plainSummary(report)),
    DATA: escapeJson(JSON.stringify(data)),
  };
  return readTemplate().replace(/<!--HOPTIME:([A-Z]+)-->/g, (mark, name: string) => fill[name] ?? mark);
}

/** Escapes JSON for use inside a script element and inside JavaScript. */
function escapeJson(json: string): string {
  return json.replace(/[<>\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function escapeText(text: string): string {
  return text.replace(/[&<>"'\u2028\u2029]/g, (c) => `&#${c.charCodeAt(0)};`);
}

function readTemplate(): string {
  const path = findPackageFile("web/report.html");
  if (path === null) throw new Error("dist/web/report.html is missing: run `npm run build`");
  return readFileSync(path, "utf8");
}

function plainSummary(report: ReportView): string {
  return [
    `${report.before.file} → ${report.after.file}: ${segmentSentence(report.segment)}`,
    report.reverse ? `The other way: ${segmentSentence(report.reverse)}` : "",
    `Clocks: ${report.clock.trust}. ${report.clock.lines.join(" ")}`,
    ...report.notes,
  ]
    .filter((line) => line !== "")
    .join("\n");
}

function segmentSentence(segment: SegmentReport): string {
  const { latency } = segment;
  const delay = latency
    ? `mean ${formatNs(latency.meanNs)}, p50 ${formatNs(latency.p50Ns)}, p99 ${formatNs(latency.p99Ns)}`
    : `no delay (${segment.reason ?? "no reason was given"})`;
  const rate = segment.lossRate === null ? "" : ` (${formatShare(segment.lossRate)})`;
  return `${delay}; ${countOf(segment.sent, "packet")} sent, ${formatCount(segment.lost)} lost${rate}.`;
}

function baseName(path: string): string {
  return path.split(/[\\/]/).pop() || path;
}
