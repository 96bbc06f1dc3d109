/**
 * The data of the report page, made from a CompareReport: the same facts, with flows and intervals as columns, bounded in size. The form is private to one
 * build of the page (page and data always travel together) and has no version; the format to program against is `hoptime.compare/1`.
 *
 * Bounds: the flows with most packets are kept and the others counted. Intervals beyond the limit are drawn in groups, whose counts, minimum and maximum delay
 * stay exact and whose quantiles are those of the worst interval. The page states both. Delays of a microsecond and more are rounded to whole nanoseconds.
 */

import { entryAt } from "../../base/lists.ts";
import { earlier, later } from "../../base/time.ts";
import { lossDoubt } from "../../compare/loss-doubt.ts";
import type { PacketTable } from "../../compare/packets.ts";
import {
  COUNT_FIELDS,
  type CompareReport,
  type CountField,
  type FlowReport,
  type FlowRows,
  type HeatMap,
  type IntervalReport,
  LATENCY_FIELDS,
  type Latency,
  type LatencyField,
  type ReportView,
} from "../../compare/report.ts";
import { type FlowSeries, flowSeries, reverseIntervals } from "./packet-series.ts";

export const KEY_FIELDS = ["proto", "sport", "dport", "dscp", "vlan"] as const;
export type KeyField = (typeof KEY_FIELDS)[number];

/** An empty array stands for a column of nulls only. */
type Column = (number | null)[];

export interface FlowColumns {
  /** Flows in the report; `length` of them are in the columns. */
  total: number;
  length: number;
  /** Distinct texts: addresses, and reasons for missing latency; the columns hold indices into them. */
  addresses: string[];
  reasons: string[];
  src: Column;
  dst: Column;
  reason: Column;
  communityId: (string | null)[];
  key: Record<KeyField, Column>;
  count: Record<CountField, (number | null)[]>;
  latency: Record<LatencyField, Column>;
}

export interface IntervalColumns {
  /** Number of the report's intervals per interval here; nearly always 1. */
  grouped: number;
  /** Relative to `originNs`. */
  startNs: number[];
  endNs: number[];
  sent: number[];
  matched: number[];
  lost: number[];
  latency: Record<LatencyField, Column>;
}

export interface HeatColumns {
  delayEdgesNs: number[];
  /** Relative to `originNs`. */
  columnStartNs: number[];
  columnWidthNs: number;
  /** Per column: the first row that is not empty, then the counts from there to the last row that is not empty. */
  counts: number[][];
}

export interface PageData
  extends Omit<CompareReport, "flows" | "reverseFlows" | "intervals" | "cdf" | "heat" | "format"> {
  /** Why the loss is probably not real; null if there is no such doubt. */
  lossDoubt: string | null;
  reverseLossDoubt: string | null;
  /** Start of the time axis, in ns since 1970. */
  originNs: string;
  flows: FlowColumns;
  reverseFlows: FlowColumns;
  intervals: IntervalColumns;
  cdf: { delayNs: number[]; share: number[] };
  heat: HeatColumns | null;
  /** Intervals of the reverse direction, and series of the largest flows, if packets were kept. */
  reverseIntervals: IntervalColumns | null;
  flowSeries: { forward: FlowSeries | null; reverse: FlowSeries | null };
}

export interface PageLimits {
  maxFlows: number;
  maxIntervals: number;
  /** Maximum length of lists inside `estimates`, `options` and the details of `clock`. */
  maxListItems: number;
}

export const PAGE_LIMITS: PageLimits = { maxFlows: 50_000, maxIntervals: 50_000, maxListItems: 100 };

/** `packets`: all packets of the comparison, if they were kept. */
export function toPageData(
  report: ReportView,
  limits: PageLimits = PAGE_LIMITS,
  packets: PacketTable | null = null,
): PageData {
  const origin = firstInstant(report);
  const flows = first(report.flows, limits.maxFlows);
  const reverseFlows = first(report.reverseFlows, limits.maxFlows);
  const span = packets && spanOf(report, origin);
  const back = packets && report.reverse ? reverseIntervals(packets, report.intervals) : [];
  return {
    hoptime: report.hoptime,
    options: bounded(report.options, limits.maxListItems) as Record<string, unknown>,
    before: report.before,
    after: report.after,
    segment: report.segment,
    reverse: report.reverse,
    clock: bounded(report.clock, limits.maxListItems) as CompareReport["clock"],
    direction: report.direction,
    notes: report.notes,
    lossDoubt: lossDoubt(report),
    reverseLossDoubt: lossDoubt(report, "reverse"),
    ...(report.estimates && {
      estimates: bounded(report.estimates, limits.maxListItems) as Record<string, unknown>,
    }),
    originNs: String(origin),
    flows: flowColumns(flows, report.flows.length),
    reverseFlows: flowColumns(reverseFlows, report.reverseFlows.length),
    reverseIntervals: back.length > 0 ? intervalColumns(back, origin, limits.maxIntervals) : null,
    flowSeries: {
      forward: packets && span && flowSeries(packets, "forward", flows, span),
      reverse: packets && span && flowSeries(packets, "reverse", reverseFlows, span),
    },
    intervals: intervalColumns(report.intervals, origin, limits.maxIntervals),
    cdf: { delayNs: report.cdf.map((p) => rounded(p.delayNs)), share: report.cdf.map((p) => p.share) },
    heat: report.heat && heatColumns(report.heat, origin),
  };
}

function firstInstant(report: ReportView): bigint {
  const drawn = [report.intervals[0]?.startNs, report.heat?.columnStartNs[0]];
  const captured = [report.before.firstNs, report.after.firstNs];
  const starts = (drawn.some((s) => s !== undefined) ? drawn : captured).flatMap((s) =>
    s ? [BigInt(s)] : [],
  );
  let first = starts[0] ?? 0n;
  for (const start of starts) if (start < first) first = start;
  return first;
}

/** The time from the first packet of either capture to the last. */
function spanOf({ before, after }: ReportView, originNs: bigint) {
  const times = [before.firstNs, before.lastNs, after.firstNs, after.lastNs].flatMap((t) =>
    t === null ? [] : [BigInt(t)],
  );
  const [one] = times;
  if (one === undefined) return null;
  return { originNs, firstNs: times.reduce(earlier, one), lastNs: times.reduce(later, one) };
}

function flowColumns(kept: readonly FlowReport[], total: number): FlowColumns {
  const addresses = new Dictionary();
  const reasons = new Dictionary();
  return {
    total,
    length: kept.length,
    src: kept.map((f) => addresses.position(f.key.src)),
    dst: kept.map((f) => addresses.position(f.key.dst)),
    reason: orEmpty(
      kept.map((f) => (f.latency ? null : reasons.position(f.reason ?? "no reason was given"))),
    ),
    communityId: kept.map((f) => f.communityId),
    key: perField(KEY_FIELDS, (field) => orEmpty(kept.map((f) => f.key[field] ?? null))),
    count: perField(COUNT_FIELDS, (field) => kept.map((f) => f[field])),
    latency: latencyColumns(kept),
    addresses: addresses.texts,
    reasons: reasons.texts,
  };
}

/** Returns the flows with most packets. A list may have any order; rows made on demand come in that order already. */
function first(flows: FlowRows, limit: number): FlowReport[] {
  if (flows.length <= limit) return [...flows];
  if (Array.isArray(flows)) {
    const packets = (f: FlowReport) => f.sent + f.received;
    return (flows as FlowReport[]).toSorted((a, b) => packets(b) - packets(a)).slice(0, limit);
  }
  const kept: FlowReport[] = [];
  for (const flow of flows) {
    if (kept.length === limit) break;
    kept.push(flow);
  }
  return kept;
}

function intervalColumns(intervals: IntervalReport[], origin: bigint, limit: number): IntervalColumns {
  const grouped = Math.max(1, Math.ceil(intervals.length / limit));
  const shown = grouped === 1 ? intervals : groupIntervals(intervals, grouped);
  return {
    grouped,
    startNs: shown.map((i) => Number(BigInt(i.startNs) - origin)),
    endNs: shown.map((i) => Number(BigInt(i.endNs) - origin)),
    sent: shown.map((i) => i.sent),
    matched: shown.map((i) => i.matched),
    lost: shown.map((i) => i.lost),
    latency: latencyColumns(shown),
  };
}

function groupIntervals(intervals: IntervalReport[], size: number): IntervalReport[] {
  const groups: IntervalReport[] = [];
  for (let at = 0; at < intervals.length; at += size) {
    const part = intervals.slice(at, at + size);
    const sum = (field: "sent" | "matched" | "lost") => part.reduce((total, i) => total + i[field], 0);
    groups.push({
      startNs: entryAt(part, 0).startNs,
      endNs: entryAt(part, -1).endNs,
      sent: sum("sent"),
      matched: sum("matched"),
      lost: sum("lost"),
      latency: worstOf(part.flatMap((i) => i.latency ?? [])),
    });
  }
  return groups;
}

function worstOf(parts: Latency[]): Latency | null {
  if (parts.length === 0) return null;
  const count = parts.reduce((n, l) => n + l.count, 0);
  const maximum = (field: LatencyField) =>
    Math.max(...parts.map((l) => l[field] ?? Number.NEGATIVE_INFINITY));
  const jitterNs = maximum("jitterNs");
  return {
    count,
    meanNs: parts.reduce((sum, l) => sum + l.meanNs * l.count, 0) / count,
    minNs: Math.min(...parts.map((l) => l.minNs)),
    maxNs: maximum("maxNs"),
    stdevNs: maximum("stdevNs"),
    p50Ns: maximum("p50Ns"),
    p90Ns: maximum("p90Ns"),
    p99Ns: maximum("p99Ns"),
    p999Ns: maximum("p999Ns"),
    jitterNs: Number.isFinite(jitterNs) ? jitterNs : null,
  };
}

function heatColumns(heat: HeatMap, origin: bigint): HeatColumns {
  return {
    delayEdgesNs: heat.delayEdgesNs,
    columnStartNs: heat.columnStartNs.map((start) => Number(BigInt(start) - origin)),
    columnWidthNs: heat.columnWidthNs,
    counts: heat.counts.map((column) => {
      const first = column.findIndex((n) => n > 0);
      return first < 0 ? [0] : [first, ...column.slice(first, column.findLastIndex((n) => n > 0) + 1)];
    }),
  };
}

function latencyColumns(rows: readonly { latency: Latency | null }[]): Record<LatencyField, Column> {
  return perField(LATENCY_FIELDS, (field) => rows.map((row) => rounded(row.latency?.[field] ?? null)));
}

const orEmpty = (column: Column): Column => (column.every((v) => v === null) ? [] : column);

function perField<F extends string, V>(fields: readonly F[], make: (field: F) => V): Record<F, V> {
  return Object.fromEntries(fields.map((field) => [field, make(field)])) as Record<F, V>;
}

function rounded<T extends number | null>(ns: T): T {
  if (ns === null) return ns;
  return (Math.abs(ns) >= 1000 ? Math.round(ns) : Math.round(ns * 100) / 100) as T;
}

/** Returns a copy with truncated lists, for parts whose content others define (estimators, options). */
function bounded(value: unknown, maxItems: number, depth = 0): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`;
  if (depth >= 8) return "…";
  if (Array.isArray(value)) {
    const kept = value.slice(0, maxItems).map((item) => bounded(item, maxItems, depth + 1));
    return value.length > maxItems ? [...kept, `… ${value.length - maxItems} more`] : kept;
  }
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, bounded(v, maxItems, depth + 1)]));
}

class Dictionary {
  readonly texts: string[] = [];
  readonly #positions = new Map<string, number>();

  position(text: string | null): number | null {
    if (text === null) return null;
    let at = this.#positions.get(text);
    if (at === undefined) {
      at = this.texts.push(text) - 1;
      this.#positions.set(text, at);
    }
    return at;
  }
}
