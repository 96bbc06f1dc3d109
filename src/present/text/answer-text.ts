/** An answer as people read it in a terminal. */

import { formatBytes, formatCount } from "../../base/quantity.ts";
import { formatDuration, formatTime } from "../../base/time.ts";
import type {
  Answer,
  AnswerLatency,
  GroupAnswer,
  SegmentAnswer,
  SeriesRow,
} from "../../query/segment/answer.ts";
import type { Palette } from "./compare-text.ts";

const count = (n: number | null) => (n === null ? "–" : formatCount(n));
const percent = (share: number | null) => (share === null ? "–" : `${(100 * share).toFixed(2)} %`);
const MAX_LINES = 10;

export interface AnswerTextOptions {
  colours: Palette;
  /** Rows of the series over time; 0 for none. */
  series: number;
}

export function formatAnswer(answer: Answer, options: AnswerTextOptions): string {
  const { colours: c } = options;
  const [from, to] = answer.question["between"] as [string, string];
  const { epochs } = answer;
  const span =
    epochs.firstNs !== null && epochs.lastNs !== null
      ? `, ${formatTime(BigInt(epochs.firstNs))} to ${formatTime(BigInt(epochs.lastNs))}`
      : "";
  const out = [`${c.bold(`${from} → ${to}`)}  ${count(epochs.used)} epochs${span}`];
  for (const point of answer.points) {
    out.push(
      c.dim(
        `  ${point.name}: ${count(point.packets)} packets in ${count(point.records)} records, ${formatBytes(point.bytes)}`,
      ),
    );
  }
  const names = Object.keys(answer.estimates);
  if (names.length > 0)
    out.push(
      "",
      segmentTable(
        names.map((n) => [n, answer.estimates[n]!]),
        c,
      ),
    );
  for (const name of names) {
    const { reason, series, notes } = answer.estimates[name]!;
    if (reason !== undefined) out.push(`  ${name}: no answer: ${reason}`);
    for (const note of notes) out.push(`  ${name}: ${note}`);
    if (options.series > 0 && series.length > 0)
      out.push("", c.bold(`${name} over time`), seriesTable(series.slice(0, options.series), c));
  }
  if (answer.groups.length > 0) out.push("", c.bold("flows"), groupTable(answer.groups, names.length > 1, c));
  out.push(
    ...problems(
      "missing",
      epochs.missing.map((m) => `${m.point} ${time(m.startNs)} ${m.estimator}: ${m.reason}`),
      c,
    ),
  );
  out.push(
    ...problems(
      "refused",
      epochs.refused.map((r) => `${r.estimator} ${time(r.startNs)}: ${r.reason}`),
      c,
    ),
  );
  if (answer.notes.length > 0) out.push("", c.bold("notes"), ...answer.notes.map((n) => `  ${n}`));
  return `${out.join("\n")}\n`;
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

type Columns<T> = [title: string, value: (row: T) => string][];

const delay = (pick: (l: AnswerLatency) => number | null) => (row: { latency: AnswerLatency | null }) => {
  const ns = row.latency ? pick(row.latency) : null;
  return ns === null ? "–" : formatDuration(ns);
};
const DELAYS: Columns<{ latency: AnswerLatency | null }> = [
  ["mean", delay((l) => l.meanNs)],
  ["low", delay((l) => l.lowNs)],
  ["high", delay((l) => l.highNs)],
  ["stdev", delay((l) => l.stdevNs)],
];

function segmentTable(rows: [string, SegmentAnswer][], c: Palette): string {
  type Row = SegmentAnswer & { name: string };
  const columns: Columns<Row> = [
    ["estimator", (r) => r.name],
    ...DELAYS,
    ["sent", (r) => count(r.sent)],
    ["received", (r) => count(r.received)],
    ["lost", (r) => count(r.lost === null ? null : Math.round(r.lost))],
    ["loss", (r) => percent(r.lossRate)],
    ["coverage", (r) => percent(r.coverage)],
    ["bit/packet", (r) => (r.bitsPerPacket === null ? "–" : r.bitsPerPacket.toFixed(3))],
  ];
  return table(
    columns,
    rows.map(([name, r]) => ({ ...r, name })),
    c,
  );
}

function groupTable(rows: GroupAnswer[], several: boolean, c: Palette): string {
  const columns: Columns<GroupAnswer> = [
    ["flow", (r) => r.text],
    ...(several ? ([["estimator", (r) => r.estimator]] as Columns<GroupAnswer>) : []),
    ["packets", (r) => count(r.packets === null ? null : Math.round(r.packets))],
    ["lost", (r) => count(r.lost === null ? null : Math.round(r.lost))],
    ...DELAYS,
    ["", (r) => r.reason ?? ""],
  ];
  return table(columns, rows, c);
}

function seriesTable(rows: SeriesRow[], c: Palette): string {
  const columns: Columns<SeriesRow> = [
    ["start", (r) => time(r.startNs)],
    ["sent", (r) => count(r.sent)],
    ["received", (r) => count(r.received)],
    ["lost", (r) => count(r.lost === null ? null : Math.round(r.lost))],
    ...DELAYS,
    ["", (r) => r.reason ?? (r.edge ? "a capture begins or ends here" : "")],
  ];
  return table(columns, rows, c);
}

function table<T>(columns: Columns<T>, rows: readonly T[], c: Palette): string {
  const cells = rows.map((row) => columns.map(([, value]) => value(row)));
  const widths = columns.map(([title], i) => Math.max(title.length, ...cells.map((r) => [...r[i]!].length)));
  const line = (texts: string[]) =>
    texts
      .map((t, i) => {
        const gap = " ".repeat(widths[i]! - [...t].length);
        // Texts stand left, numbers right.
        return i === 0 || columns[i]![0] === "" ? t + gap : gap + t;
      })
      .join("  ")
      .trimEnd();
  return [c.dim(`  ${line(columns.map(([title]) => title))}`), ...cells.map((r) => `  ${line(r)}`)].join(
    "\n",
  );
}

function time(ns: string): string {
  return formatTime(BigInt(ns));
}
