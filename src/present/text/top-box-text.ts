/** Formats an interval for `hoptime top --ebpf`: delay, loss, queues, classes and flows of a way through this box. */
import { formatBitRate, formatBytes, formatCount, formatPercent } from "../../base/quantity.ts";
import { formatInstant, formatNs } from "../../base/time.ts";
import type { BoxGroup, BoxInterval, BoxLatency } from "../../observe/watch-box.ts";
import type { Palette } from "./palette.ts";
import { type Column, formatTable } from "./table.ts";
import { FLOW_COLUMNS, type TopView, topFlows } from "./top-text.ts";

export interface BoxView extends TopView {
  /** Index of the way whose flows are shown. */
  way: number;
  /** 99th percentiles of the last intervals of each way, newest last. */
  history: readonly (readonly number[])[];
}

const ns = (value: number | null | undefined) =>
  value === null || value === undefined ? "–" : formatNs(value, 3);
const share = (part: number, of: number) => formatPercent(of > 0 ? part / of : null);

/** DSCP names of RFC 2474, 2597, 3246, 5865 and 8622. */
const DSCP_NAMES = new Map([
  [0, "best effort"],
  [1, "LE"],
  [44, "VA"],
  [46, "EF"],
  ...[1, 2, 3, 4, 5, 6, 7].map((n) => [8 * n, `CS${n}`] as const),
  ...[1, 2, 3, 4].flatMap((c) => [1, 2, 3].map((d) => [8 * c + 2 * d, `AF${c}${d}`] as const)),
]);

function dscpName(dscp: number): string {
  return DSCP_NAMES.get(dscp) ?? String(dscp);
}

interface GroupRow extends BoxGroup {
  name: string;
  backlog: string;
}

const GROUP_COLUMNS: Column<GroupRow>[] = [
  { title: "queue or class", align: "left", value: (g) => g.name },
  { title: "packets", value: (g) => formatCount(g.sent) },
  { title: "loss", value: (g) => share(g.lost, g.sent) },
  { title: "mean", value: (g) => ns(g.latency?.meanNs) },
  { title: "p50", value: (g) => ns(g.latency?.p50Ns) },
  { title: "p99", value: (g) => ns(g.latency?.p99Ns) },
  { title: "max", value: (g) => ns(g.latency?.maxNs) },
];
const BACKLOG_COLUMN: Column<GroupRow> = { title: "most waiting", value: (g) => g.backlog };

/** Formats every way with its queues and classes, then the flows of one of them. */
export function formatBox(intervals: readonly BoxInterval[], view: BoxView, c: Palette): string {
  const heads = intervals.map((interval, i) => formatWay(interval, view.history[i] ?? [], c));
  const chosen = intervals[Math.min(view.way, intervals.length - 1)];
  if (!chosen) return heads.join("\n\n");
  const of = intervals.length > 1 ? ` of ${chosen.way.input} > ${chosen.way.output}` : "";
  const search = view.search === "" ? "" : `, with '${view.search}'`;
  const room = Math.max(1, view.rows - heads.join("\n").split("\n").length);
  return [
    ...heads,
    `${c.bold("flows")}${of}  ${formatCount(chosen.flows.length)}, by ${view.order}${search}`,
    formatTable(FLOW_COLUMNS, topFlows(chosen, { ...view, rows: room }), { colours: c }),
  ].join("\n");
}

function formatWay(interval: BoxInterval, history: readonly number[], c: Palette): string {
  const { way, sent, lost, latency, lengthNs, bytes } = interval;
  const perSecond = formatCount(Math.round((sent * 1e9) / lengthNs));
  const loss = share(lost, sent);
  const title = `${c.bold(`${way.input} > ${way.output}`)}  ${formatInstant(interval.startNs, 0)}  ${perSecond} packets/s  ${formatBitRate((8 * bytes * 1e9) / lengthNs)}`;
  const notes = notesOf(interval);
  return [
    `${title}  loss ${lost > 0 ? c.yellow(`${loss} (${formatCount(lost)})`) : loss}`,
    `${c.bold("delay")}  ${delaysOf(latency, interval.jitterNs)}`,
    ...(history.length > 1
      ? [`${c.bold("p99")}    ${sparkline(history)}  up to ${ns(Math.max(...history))}`]
      : []),
    ...(interval.forwarding ? [`${c.bold("where")}  ${whereOf(interval)}`] : []),
    ...(interval.drops.length > 0 ? [`${c.bold("drops")}  ${c.yellow(dropsOf(interval))}`] : []),
    ...(notes.length > 0 ? [c.dim(notes.join("; "))] : []),
    ...(sent > 0 ? [groupTable(interval, c)] : []),
  ].join("\n");
}

function groupTable(interval: BoxInterval, c: Palette): string {
  const rows = rowsOf(interval);
  const known = rows.some(({ backlog }) => backlog !== "");
  return formatTable(known ? [...GROUP_COLUMNS, BACKLOG_COLUMN] : GROUP_COLUMNS, rows, { colours: c });
}

function delaysOf(latency: BoxLatency | null, jitterNs: number | null): string {
  if (!latency) return "no packet left";
  const { meanNs, stdevNs, p50Ns, p90Ns, p99Ns, p999Ns, maxNs } = latency;
  return `mean ${ns(meanNs)}  stdev ${ns(stdevNs)}  p50 ${ns(p50Ns)}  p90 ${ns(p90Ns)}  p99 ${ns(p99Ns)}  p99.9 ${ns(p999Ns)}  max ${ns(maxNs)}  jitter ${ns(jitterNs)}`;
}

/** Formats the two parts of the delay. Forwarding covers all packets that reached the queue, including those lost there. */
function whereOf({ forwarding, latency }: BoxInterval): string {
  const before = `forwarding mean ${ns(forwarding?.meanNs)}, max ${ns(forwarding?.maxNs)}`;
  if (!latency || !forwarding) return before;
  return `${before}; queue mean ${ns(Math.max(0, latency.meanNs - forwarding.meanNs))}`;
}

function dropsOf({ drops }: BoxInterval): string {
  const one = ({ reason, packets }: BoxInterval["drops"][0]) => `${reason} ${formatCount(packets)}`;
  return (["queue", "forwarding"] as const)
    .map((place) => {
      const here = drops.filter((drop) => drop.place === place);
      return here.length > 0 ? `${place}: ${here.map(one).join(", ")}` : "";
    })
    .filter((text) => text !== "")
    .join("; ");
}

function notesOf(interval: BoxInterval): string[] {
  const { complete, waiting, late, untimed, marked, merged, otherPackets, way } = interval;
  const count = (n: number, text: string) => (n > 0 ? [`${formatCount(n)} ${text}`] : []);
  return [
    ...(complete ? [] : ["not watched whole"]),
    ...count(waiting, "neither left nor dropped yet"),
    ...count(late, "left after their interval was shown"),
    ...count(merged, `arrived merged into others (GRO of ${way.input})`),
    ...count(marked, "not measured: they carry a firewall mark"),
    ...count(untimed, `not measured: not IP, or not timed at ${way.input}`),
    ...count(otherPackets, "of flows beyond the table"),
  ];
}

function rowsOf({ queues, classes }: BoxInterval): GroupRow[] {
  const queued = queues
    .toSorted((a, b) => a.queue - b.queue)
    .map((q) => ({
      ...q,
      name: `queue ${q.queue}${q.qdisc === "" ? "" : ` ${q.qdisc}`}`,
      backlog:
        q.backlogPackets > 0
          ? `${formatBytes(q.backlogBytes)}, ${formatCount(q.backlogPackets)} packets`
          : "",
    }));
  const classed = classes
    .toSorted((a, b) => b.sent - a.sent)
    .map((g) => ({ ...g, name: `class ${dscpName(g.dscp)}`, backlog: "" }));
  // A single class equals the whole and adds nothing.
  return [...queued, ...(classed.length > 1 ? classed : [])];
}

const BARS = "▁▂▃▄▅▆▇█";

/** Logarithmic scale: a queue that fills has thousands of times the delay of one that does not. */
export function sparkline(values: readonly number[]): string {
  const logs = values.map((value) => Math.log(Math.max(1, value)));
  const low = Math.min(...logs);
  const span = Math.max(...logs) - low;
  return logs
    .map(
      (log) =>
        BARS[span === 0 ? 0 : Math.min(BARS.length - 1, Math.floor(((log - low) / span) * BARS.length))],
    )
    .join("");
}

/** Formats an interval in one line, for files and pipes. */
export function boxLine(interval: BoxInterval): string {
  const { way, sent, lost, latency, forwarding, drops, complete, flows } = interval;
  const delays = latency
    ? `mean ${ns(latency.meanNs)} p50 ${ns(latency.p50Ns)} p90 ${ns(latency.p90Ns)} p99 ${ns(latency.p99Ns)} max ${ns(latency.maxNs)} forwarding ${ns(forwarding?.meanNs)}`
    : "no packet left";
  return `${formatInstant(interval.startNs, 0)} ${way.input} > ${way.output} sent ${formatCount(sent)} lost ${formatCount(lost)} (${share(lost, sent)}) ${delays} flows ${formatCount(flows.length)}${drops.length > 0 ? ` drops ${dropsOf(interval)}` : ""}${complete ? "" : " (incomplete)"}`;
}
