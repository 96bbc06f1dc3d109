/** Formats the estimates of a compare report for the terminal. */

import { countOf, formatBytes, formatCount, significant } from "../../base/quantity.ts";
import { formatDuration } from "../../base/time.ts";
import type { EstimateReport, FlowClass } from "../../compare/estimate-report.ts";
import type { Palette } from "./palette.ts";
import { plainReason } from "./reason.ts";
import { type Column, formatTable } from "./table.ts";

const error = (e: number | null) => (e === null ? "" : `, ${e >= 0 ? "+" : ""}${(100 * e).toFixed(2)} %`);
const share = (e: number | null) =>
  e === null ? "–" : `${e >= 10 ? formatCount(100 * e) : significant(100 * e, 3)} %`;

export function estimateLines(estimates: Record<string, EstimateReport>, c: Palette): string[] {
  const out: string[] = [];
  for (const [name, e] of Object.entries(estimates)) {
    const confidence = `${100 * e.confidence} %`;
    out.push(`${c.bold(name)}  ${c.dim(e.parameters)}`);
    out.push(...segmentLines(e, confidence, c));
    if (e.flows) {
      out.push(
        `  ${countOf(e.flows.length, "flow")}, ${formatCount(e.flows.filter((f) => f.meanNs !== null).length)} answered`,
      );
      if (e.flowClasses && e.flowClasses.length > 0) out.push(classTable(e.flowClasses, confidence, c));
    }
    if (e.packets) {
      const { asked, answered, medianError, p90Error, withinBounds } = e.packets;
      out.push(
        `  ${countOf(asked, "packet")} asked one by one, ${formatCount(answered)} answered; error median ${share(medianError)}, p90 ${share(p90Error)}, within bounds ${share(withinBounds)}`,
      );
    }
    const list = e.flowListBytes > 0 ? ` + ${formatBytes(e.flowListBytes)} of flow list` : "";
    const bits = e.bitsPerPacket === null ? "" : `, ${significant(e.bitsPerPacket, 3)} bit per packet`;
    out.push(`  exchanged ${formatBytes(e.senderBytes)} + ${formatBytes(e.receiverBytes)}${list}${bits}`);
    for (const note of e.notes) out.push(`  ${c.yellow(note)}`);
  }
  return out;
}

function segmentLines(e: EstimateReport, confidence: string, c: Palette): string[] {
  // An estimator of flows only has nothing to report here, and that needs no explanation.
  if (e.meanNs === null && e.flows && e.packetsUsed === 0) return [];
  const out: string[] = [];
  const ns = (value: number | null) => (value === null ? "unknown" : formatDuration(value));
  const exact = (value: number | null) => (value === null ? "" : `exact ${ns(value)}`);
  const line = (
    title: string,
    value: number | null,
    low: number | null,
    high: number | null,
    beside: string,
    why?: string,
  ) =>
    value === null
      ? `  ${title}  no answer: ${plainReason(why ?? "")}`
      : `  ${title}  ${c.bold(formatDuration(value))} (${confidence}: ${ns(low)} to ${ns(high)}; ${beside})`;
  out.push(
    line("mean ", e.meanNs, e.lowNs, e.highNs, `${exact(e.exactMeanNs)}${error(e.relativeError)}`, e.reason),
  );
  if (e.meanNs !== null) {
    out.push(
      line(
        "stdev",
        e.stdevNs,
        e.stdevLowNs,
        e.stdevHighNs,
        `${exact(e.exactStdevNs)}${error(e.stdevRelativeError)}`,
        e.stdevReason,
      ),
    );
  }
  const lost = e.lost === null ? "unknown" : formatCount(e.lost);
  // Packets of our own, such as probes, are not a share of the traffic.
  const own = e.packetsUsed > 0 && e.coverage === 0;
  const used =
    e.received === null || e.packetsUsed === 0
      ? ""
      : own
        ? `; based on ${countOf(e.packetsUsed, "packet")} of its own`
        : `; based on ${formatCount(e.packetsUsed)} of ${countOf(e.received, "packet")} (${share(e.coverage)})`;
  out.push(`  lost   ${lost} (exact ${formatCount(e.exactLost)})${used}`);
  return out;
}

function classTable(classes: readonly FlowClass[], confidence: string, c: Palette): string {
  const size = ({ from, to }: FlowClass) => {
    if (to === null) return `>= ${formatCount(from)}`;
    return from === to ? formatCount(from) : `${formatCount(from)}–${formatCount(to)}`;
  };
  const columns: Column<FlowClass>[] = [
    { title: "packets", value: size },
    { title: "flows", value: (k) => formatCount(k.flows) },
    { title: "answered", value: (k) => formatCount(k.answered) },
    { title: "median error", value: (k) => share(k.medianError) },
    { title: "p90 error", value: (k) => share(k.p90Error) },
    { title: `in ${confidence} interval`, value: (k) => share(k.withinInterval) },
  ];
  return formatTable(columns, classes, { colours: c });
}
