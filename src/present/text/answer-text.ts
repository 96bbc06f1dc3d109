/** Formats an answer for the terminal. */

import { formatBytes, formatCount, significant } from "../../base/quantity.ts";
import { formatDuration, formatTime } from "../../base/time.ts";
import type {
  Answer,
  AnswerLatency,
  GroupAnswer,
  SegmentAnswer,
  SeriesRow,
} from "../../query/segment/answer.ts";
import type { Palette } from "./palette.ts";
import { plainReason } from "./reason.ts";
import { type Column, formatTable } from "./table.ts";

const count = (n: number | null) => (n === null ? "–" : formatCount(n));
const percent = (share: number | null) => (share === null ? "–" : `${(100 * share).toFixed(2)} %`);
const MAX_LINES = 10;

export interface AnswerTextOptions {
  colours: Palette;
  /** Number of rows of the series over time; 0 for none. */
  series: number;
  /** Also print the estimators' parameters and all their notes. */
  verbose?: boolean;
}

/** Number of notes per estimator that are printed unless all are asked for. */
const FEW_NOTES = 2;

export function formatAnswer(answer: Answer, options: AnswerTextOptions): string {
  const { colours: c } = options;
  const [from, to] = answer.question["between"] as [string, string];
  const { epochs } = answer;
  const span =
    epochs.firstNs !== null && epochs.lastNs !== null
      ? `, ${time(epochs.firstNs)} to ${time(epochs.lastNs)}`
      : "";
  const out = [`${c.bold(`${from} → ${to}`)}  ${count(epochs.used)} epochs${span}`];
  for (const point of answer.points) {
    // Estimators that know delays at the receiver keep no records at the sender.
    if (point.records === 0) continue;
    out.push(
      c.dim(
        `  ${point.name}: ${count(point.packets)} packets in ${count(point.records)} records, ${formatBytes(point.bytes)}`,
      ),
    );
  }
  const estimates = Object.entries(answer.estimates);
  if (estimates.length > 0) out.push("", segmentTable(estimates, c));
  for (const [name, estimate] of estimates) {
    const { reason } = estimate;
    if (reason !== undefined) out.push(`  ${name}: no answer: ${plainReason(reason)}`);
    const part = answeredPart(estimate);
    if (part !== null) out.push(`  ${name}: ${part}`);
    out.push(...estimatorLines(estimate, options.verbose ?? false).map((line) => `  ${name}: ${line}`));
  }
  for (const [name, { series }] of options.series > 0 ? estimates : []) {
    if (series.length > 0)
      out.push("", c.bold(`${name} over time`), seriesTable(series.slice(0, options.series), c));
  }
  if (answer.groups.length > 0)
    out.push("", c.bold("flows"), groupTable(answer.groups, estimates.length > 1, c));
  out.push(
    ...problems(
      "missing",
      byEstimators(epochs.missing, (m) => [`${m.point} ${time(m.startNs)}`, m.reason]),
      c,
    ),
  );
  out.push(
    ...problems(
      "refused",
      byEstimators(epochs.refused, (r) => [time(r.startNs), r.reason]),
      c,
    ),
  );
  if (answer.notes.length > 0) out.push("", c.bold("notes"), ...answer.notes.map((n) => `  ${n}`));
  return `${out.join("\n")}\n`;
}

function estimatorLines({ notes, parameters }: SegmentAnswer, verbose: boolean): string[] {
  if (verbose) return [...(parameters === "" ? [] : [parameters]), ...notes];
  const more = notes.length - FEW_NOTES;
  return more <= 0
    ? notes
    : [
        ...notes.slice(0, FEW_NOTES),
        `… and ${count(more)} more ${more === 1 ? "note" : "notes"} (‘verbose’)`,
      ];
}

/** Mean and standard deviation of the packets with an answer, if that is not all packets. */
function answeredPart(estimate: SegmentAnswer | undefined): string | null {
  const { share, latency } = estimate?.answered ?? { share: null, latency: null };
  if (share === null || share >= 1 || !latency) return null;
  const range = `${formatDuration(latency.lowNs)} to ${formatDuration(latency.highNs)}`;
  const mean = `mean ${formatDuration(latency.meanNs)} (${range})`;
  const stdev = latency.stdevNs === null ? "" : `, stdev ${formatDuration(latency.stdevNs)}`;
  // Rounding must not make a part look like the whole.
  const part = percent(Math.min(share, 0.9999));
  return `${part} of the packets have an answer: ${mean}${stdev}; the interval above is for all packets`;
}

/** Joins estimators with the same message about an epoch in one line. */
function byEstimators<T extends { estimator: string }>(
  list: readonly T[],
  parts: (one: T) => [place: string, reason: string],
): string[] {
  const lines = new Map<string, { place: string; reason: string; names: string[] }>();
  for (const one of list) {
    const [place, reason] = parts(one);
    const known = lines.get(`${place}\n${reason}`);
    if (known) known.names.push(one.estimator);
    else lines.set(`${place}\n${reason}`, { place, reason, names: [one.estimator] });
  }
  return [...lines.values()].map(({ place, reason, names }) => `${place} ${names.join(", ")}: ${reason}`);
}

function problems(title: string, lines: string[], c: Palette): string[] {
  if (lines.length === 0) return [];
  const more =
    lines.length > MAX_LINES ? [`  … and ${count(lines.length - MAX_LINES)} more (‘json’ lists them)`] : [];
  return [
    "",
    c.yellow(`${title} (${count(lines.length)})`),
    ...lines.slice(0, MAX_LINES).map((l) => `  ${l}`),
    ...more,
  ];
}

type Columns<T> = Column<T>[];

const delay = (pick: (l: AnswerLatency) => number | null) => (row: { latency: AnswerLatency | null }) => {
  const ns = row.latency ? pick(row.latency) : null;
  return ns === null ? "–" : formatDuration(ns);
};
const DELAYS: Columns<{ latency: AnswerLatency | null }> = [
  { title: "mean", value: delay((l) => l.meanNs) },
  { title: "low", value: delay((l) => l.lowNs) },
  { title: "high", value: delay((l) => l.highNs) },
  { title: "stdev", value: delay((l) => l.stdevNs) },
];

function segmentTable(rows: [string, SegmentAnswer][], c: Palette): string {
  type Row = SegmentAnswer & { name: string };
  const columns: Columns<Row> = [
    { title: "estimator", align: "left", value: (r) => r.name },
    ...DELAYS,
    { title: "sent", value: (r) => count(r.sent) },
    { title: "received", value: (r) => count(r.received) },
    { title: "lost", value: (r) => count(r.lost === null ? null : Math.round(r.lost)) },
    { title: "loss", value: (r) => percent(r.lossRate) },
    { title: "coverage", value: (r) => percent(r.coverage) },
    { title: "bit/packet", value: (r) => (r.bitsPerPacket === null ? "–" : significant(r.bitsPerPacket, 3)) },
  ];
  return formatTable(
    columns,
    rows.map(([name, r]) => ({ ...r, name })),
    { colours: c },
  );
}

function groupTable(rows: GroupAnswer[], several: boolean, c: Palette): string {
  const columns: Columns<GroupAnswer> = [
    { title: "flow", align: "left", value: (r) => r.text },
    ...(several
      ? ([{ title: "estimator", align: "left", value: (r) => r.estimator }] as Columns<GroupAnswer>)
      : []),
    { title: "packets", value: (r) => count(r.packets === null ? null : Math.round(r.packets)) },
    ...packetBounds(rows),
    ...(rows.some((r) => r.bytes !== null)
      ? ([
          { title: "bytes", value: (r) => (r.bytes === null ? "–" : formatBytes(r.bytes)) },
        ] as Columns<GroupAnswer>)
      : []),
    { title: "lost", value: (r) => count(r.lost === null ? null : Math.round(r.lost)) },
    ...DELAYS,
    ...(rows.some((r) => (r.answered.share ?? 1) < 1)
      ? ([{ title: "answered", value: (r) => percent(r.answered.share) }] as Columns<GroupAnswer>)
      : []),
    ...quantileColumns(rows),
    { title: "", align: "left", value: (r) => plainReason(r.reason ?? "") },
  ];
  return formatTable(columns, rows, { colours: c });
}

/** Columns of the bounds, if packets are estimated. */
function packetBounds(rows: readonly GroupAnswer[]): Columns<GroupAnswer> {
  if (rows.every((r) => r.packetsHigh === null || r.packetsLow === r.packetsHigh)) return [];
  return [
    { title: "min", value: (r) => count(r.packetsHigh === null ? null : Math.round(r.packetsLow)) },
    { title: "max", value: (r) => count(r.packetsHigh === null ? null : Math.round(r.packetsHigh)) },
  ];
}

/** Columns of the quantiles, if an estimator has them. */
function quantileColumns(rows: readonly GroupAnswer[]): Columns<GroupAnswer> {
  const shares = rows.find((r) => r.quantiles)?.quantiles?.map((q) => q.share) ?? [];
  return shares.map((share) => ({
    title: `p${100 * share}`,
    value: (r) => {
      const found = r.quantiles?.find((q) => q.share === share);
      return found ? formatDuration(found.valueNs) : "–";
    },
  }));
}

function seriesTable(rows: SeriesRow[], c: Palette): string {
  const columns: Columns<SeriesRow> = [
    { title: "start", align: "left", value: (r) => time(r.startNs) },
    { title: "sent", value: (r) => count(r.sent) },
    { title: "received", value: (r) => count(r.received) },
    { title: "lost", value: (r) => count(r.lost === null ? null : Math.round(r.lost)) },
    ...DELAYS,
    {
      title: "",
      align: "left",
      value: (r) => (r.reason ? plainReason(r.reason) : r.edge ? "a capture begins or ends here" : ""),
    },
  ];
  return formatTable(columns, rows, { colours: c });
}

/** Milliseconds are enough to identify an epoch; the JSON has nanoseconds. */
function time(ns: string): string {
  return formatTime(BigInt(ns), 3);
}
