/** Formats an interval for `hoptime top`: a screen that is redrawn in place, or one line. */
import { countOf, formatBitRate, formatCount, formatPercent } from "../../base/quantity.ts";
import { formatInstant, formatNs } from "../../base/time.ts";
import type { WatchedFlow, WatchedInterval } from "../../observe/watch.ts";
import type { Palette } from "./palette.ts";
import { type Column, formatTable } from "./table.ts";

export const TOP_ORDERS = ["packets", "loss", "mean", "max", "jitter"] as const;
export type TopOrder = (typeof TOP_ORDERS)[number];

export interface TopView {
  order: TopOrder;
  /** Show only flows whose text contains this. */
  search: string;
  rows: number;
}

const VALUE: Record<TopOrder, (flow: WatchedFlow) => number> = {
  packets: (f) => f.sent,
  loss: (f) => (f.sent > 0 ? f.lost / f.sent : 0),
  mean: (f) => f.meanNs ?? Number.NEGATIVE_INFINITY,
  max: (f) => f.maxNs ?? Number.NEGATIVE_INFINITY,
  jitter: (f) => f.jitterNs ?? Number.NEGATIVE_INFINITY,
};

/** Returns the flows to show, in order. Ties are sorted by packets, then by name, so that rows keep their places. */
export function topFlows(
  interval: Pick<WatchedInterval, "flows">,
  { order, search, rows }: TopView,
): WatchedFlow[] {
  const value = VALUE[order];
  return interval.flows
    .filter(({ flow }) => flow.includes(search))
    .sort((a, b) => value(b) - value(a) || b.sent - a.sent || (a.flow < b.flow ? -1 : 1))
    .slice(0, rows);
}

const ns = (value: number | null) => (value === null ? "–" : formatNs(value, 3));

export const FLOW_COLUMNS: Column<WatchedFlow>[] = [
  { title: "flow", align: "left", value: (f) => f.flow, maxWidth: 60 },
  { title: "packets", value: (f) => formatCount(f.sent) },
  { title: "loss", value: (f) => formatPercent(f.sent > 0 ? f.lost / f.sent : null, 1) },
  { title: "mean", value: (f) => ns(f.meanNs) },
  { title: "max", value: (f) => ns(f.maxNs) },
  { title: "jitter", value: (f) => ns(f.jitterNs) },
];

export function formatTop(
  names: readonly [string, string],
  interval: WatchedInterval,
  view: TopView,
  c: Palette,
): string {
  const { sent, lost, latency, lengthNs } = interval;
  const rate = formatBitRate((8 * interval.bytes * 1e9) / lengthNs);
  const perSecond = Math.round((sent * 1e9) / lengthNs);
  const loss = formatPercent(sent > 0 ? lost / sent : null);
  const delays = latency
    ? `mean ${ns(latency.meanNs)}  p50 ${ns(latency.p50Ns)}  p90 ${ns(latency.p90Ns)}  p99 ${ns(latency.p99Ns)}  max ${ns(latency.maxNs)}  jitter ${ns(interval.jitterNs)}`
    : "no packet arrived";
  const shown = topFlows(interval, view);
  const [before, after] = interval.dropped;
  const notes = [
    interval.complete ? "" : "not watched whole",
    interval.appeared > 0 ? `${formatCount(interval.appeared)} not seen at ${names[0]}` : "",
    before || after ? c.red(`not captured: ${formatCount((before ?? 0) + (after ?? 0))}`) : "",
    interval.otherPackets > 0 ? `${countOf(interval.otherPackets, "packet")} of other flows` : "",
  ].filter((text) => text !== "");
  return [
    `${c.bold(`${names[0]} > ${names[1]}`)}  ${formatInstant(interval.startNs, 0)}  ${formatCount(perSecond)} packets/s  ${rate}  loss ${lost > 0 ? c.yellow(loss) : loss}`,
    `${c.bold("delay")}  ${delays}`,
    `${c.bold("flows")}  ${formatCount(interval.flows.length)}, by ${view.order}${view.search === "" ? "" : `, with '${view.search}'`}${notes.length > 0 ? `; ${notes.join("; ")}` : ""}`,
    formatTable(FLOW_COLUMNS, shown, { colours: c }),
  ].join("\n");
}

/** Formats an interval in one line, for files and pipes. */
export function topLine(interval: WatchedInterval): string {
  const { sent, lost, latency, flows } = interval;
  const delays = latency
    ? `mean ${ns(latency.meanNs)} p50 ${ns(latency.p50Ns)} p90 ${ns(latency.p90Ns)} p99 ${ns(latency.p99Ns)} max ${ns(latency.maxNs)} jitter ${ns(interval.jitterNs)}`
    : "no packet arrived";
  return `${formatInstant(interval.startNs, 0)} sent ${formatCount(sent)} lost ${formatCount(lost)} (${formatPercent(sent > 0 ? lost / sent : null)}) ${delays} flows ${formatCount(flows.length)}${interval.complete ? "" : " (incomplete)"}`;
}
