/** The text that `hoptime observe` prints at the end. */
import { countOf, formatBytes, formatCount, significant } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import type { ObservationReport } from "../observe/observe-point.ts";
import { skipText } from "../present/text/skip-text.ts";
import { warn } from "./output.ts";
import { colours } from "./terminal.ts";

export function formatObservation(report: ObservationReport, verbose: boolean): string {
  const c = colours;
  const lines: string[] = [];
  for (const { file, packets, ipPackets, skipped } of report.captures) {
    const rest = skipText(skipped);
    const unused = rest === "" ? "" : `; not used: ${rest}`;
    lines.push(
      `${c.bold(report.point)} ${file}: ${countOf(packets, "packet")} (${formatCount(ipPackets)} IP)${unused}`,
    );
  }
  for (const lane of report.lanes) {
    if (lane.segment === "" && lane.filter === "") continue;
    const name = lane.segment === "" ? "filter" : lane.segment;
    lines.push(`${c.bold(name)} ${lane.filter}: ${countOf(lane.packets, "packet")}, ${lane.role}`);
  }
  const { stored, unchanged, replaced, merged, refused, bytes, removed } = report.records;
  const other = [
    unchanged > 0 ? `${formatCount(unchanged)} already stored` : "",
    replaced > 0 ? `${formatCount(replaced)} replaced` : "",
    merged > 0 ? `${formatCount(merged)} merged with another part of their epoch` : "",
    refused > 0 ? `${formatCount(refused)} not stored` : "",
    removed > 0 ? `${formatCount(removed)} old ones removed` : "",
  ].filter((t) => t !== "");
  const { sent = 0, waiting = 0, refused: notTaken = 0 } = report.collector ?? {};
  if (report.collector)
    other.unshift(
      `${formatCount(sent)} sent`,
      ...(notTaken > 0 ? [`${formatCount(notTaken)} refused`] : []),
      ...(waiting > 0 ? [`${formatCount(waiting)} wait`] : []),
    );
  lines.push(
    `${c.bold("records")} ${formatCount(stored)} ${report.collector ? "for" : "written to"} ${report.directory} (${formatBytes(bytes)})${other.length > 0 ? `, ${other.join(", ")}` : ""}`,
  );
  const costs = costText(report.estimators);
  if (costs !== null) lines.push(`${c.bold("cost")}    ${costs}`);
  lines.push(`${c.bold("epochs")}  ${formatCount(report.epochs)}, ${cutText(report.cut)}`);
  if (verbose)
    for (const { name, parameters } of report.estimators) lines.push(`${c.bold(name)} ${c.dim(parameters)}`);
  for (const { startNs, reason } of report.voids) lines.push(c.yellow(`void    ${startNs}: ${reason}`));
  for (const note of report.notes) lines.push(`${c.bold("note")}    ${note}`);
  return `${lines.join("\n")}\n`;
}

/** Bits per packet of each estimator and in total. */
function costText(estimators: ObservationReport["estimators"]): string | null {
  const own = estimators.flatMap(({ name, bitsPerPacket }) =>
    bitsPerPacket === null ? [] : [{ name, bitsPerPacket }],
  );
  if (own.length === 0) return null;
  const bits = (n: number) => (n < 1000 ? significant(n, 3) : formatCount(n));
  const total = own.reduce((n, e) => n + e.bitsPerPacket, 0);
  const each = own.map((e) => `${e.name} ${bits(e.bitsPerPacket)}`).join(" + ");
  return `${each}${own.length > 1 ? ` = ${bits(total)}` : ""} bit/packet`;
}

function cutText(cut: string): string {
  const aligned = /^aligned (\d+) ns$/.exec(cut);
  return aligned ? `aligned, ${formatDuration(Number(aligned[1]))} each` : cut;
}

/** Warns about records that were not stored and packets that were not read; the exit code reflects it too. */
export function warnOf(report: ObservationReport): void {
  for (const line of report.refused) {
    warn(`hoptime: not stored: ${line}`);
    process.exitCode = 2;
  }
  const { waiting = 0, dropped = 0 } = report.collector ?? {};
  if (waiting > 0) {
    warn(
      `hoptime: ${countOf(waiting, "record")} not sent: they wait in the spool, and are sent when the point is observed again`,
    );
    process.exitCode = 2;
  }
  if (dropped > 0) {
    warn(`hoptime: ${countOf(dropped, "record")} given up: no room in the spool`);
    process.exitCode = 2;
  }
  for (const capture of report.captures) {
    if (!capture.partial) continue;
    warn(`hoptime: ${capture.partial}; the records cover the part that was read`);
    process.exitCode = 2;
  }
}
