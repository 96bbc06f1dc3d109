/** Measures by which a flow or a segment can be sorted and judged: one list for tables, conditions and metrics. */
import type { FlowReport, Latency, SegmentReport } from "./report.ts";

export type MeasuredRow = Pick<
  FlowReport | SegmentReport,
  "sent" | "received" | "matched" | "lost" | "appeared" | "duplicates" | "reordered" | "latency"
> & { bytes?: number };

export interface Measure {
  unit: "ns" | "share" | "count";
  /** Null if there is no answer. */
  value: (row: MeasuredRow) => number | null;
}

const delay = (pick: (latency: Latency) => number | null): Measure => ({
  unit: "ns",
  value: ({ latency }) => (latency ? pick(latency) : null),
});
const count = (value: Measure["value"]): Measure => ({ unit: "count", value });

export const MEASURES = {
  packets: count((r) => Math.max(r.sent, r.received)),
  sent: count((r) => r.sent),
  received: count((r) => r.received),
  matched: count((r) => r.matched),
  bytes: count((r) => r.bytes ?? null),
  lost: count((r) => r.lost),
  loss: {
    unit: "share",
    value: (r) => (r.matched + r.lost > 0 ? r.lost / (r.matched + r.lost) : null),
  },
  appeared: count((r) => r.appeared),
  duplicates: count((r) => r.duplicates),
  reordered: count((r) => r.reordered),
  mean: delay((l) => l.meanNs),
  stdev: delay((l) => l.stdevNs),
  min: delay((l) => l.minNs),
  p50: delay((l) => l.p50Ns),
  p90: delay((l) => l.p90Ns),
  p99: delay((l) => l.p99Ns),
  "p99.9": delay((l) => l.p999Ns),
  max: delay((l) => l.maxNs),
  jitter: delay((l) => l.jitterNs),
} as const satisfies Record<string, Measure>;

export type MeasureName = keyof typeof MEASURES;
export const MEASURE_NAMES = Object.keys(MEASURES) as MeasureName[];
