/** The report over time: one row per interval, and the heat map of delays. */
import { bucketHigh, bucketLow, bucketMid, LogHistogram } from "../base/log-histogram.ts";
import { latencyOf } from "./compare-latency.ts";
import type { PassResult } from "./compare-pass.ts";
import type { HeatMap, IntervalReport } from "./compare-report.ts";

/** As many as the matcher keeps (kernels/match-state.ts). */
export const MOST_INTERVALS = 1_048_576;
const HEAT_COLUMNS = 200;
const HEAT_ROWS = 60;

/** `edges`: packets at the ends of BEFORE that count as lost, of which the matcher kept no time. */
export function buildIntervals(
  result: PassResult,
  epochNs: number,
  edges: { head: number; tail: number },
): {
  reports: IntervalReport[];
  /** There were no more intervals to be had: the last holds all that follows, up to its `endNs`. */
  full: boolean;
  heat: () => HeatMap | null;
} {
  const { matcher, epochStart } = result;
  const step = BigInt(Math.round(epochNs));
  const intervals = matcher.intervals();
  const place = (ns: bigint | null) =>
    Math.max(0, Math.min(intervals.length - 1, Number(((ns ?? epochStart) - epochStart) / step)));
  const edgeLost = new Map<number, number>();
  for (const [n, ns] of [
    [edges.head, result.before.firstNs],
    [edges.tail, result.before.lastNs],
  ] as const) {
    if (n > 0) edgeLost.set(place(ns), (edgeLost.get(place(ns)) ?? 0) + n);
  }
  const runs = matcher.intervalBuckets();
  const full = intervals.length === MOST_INTERVALS;
  const lastNs = result.before.lastNs ?? epochStart;
  const reports: IntervalReport[] = [];
  const grouped = Math.max(1, Math.ceil(intervals.length / HEAT_COLUMNS));
  const columns: LogHistogram[] = [];
  const starts: string[] = [];
  for (const [i, interval] of intervals.entries()) {
    if (i % grouped === 0) {
      columns.push(new LogHistogram());
      starts.push((epochStart + BigInt(i) * step).toString());
    }
    const lost = interval.lost + (edgeLost.get(i) ?? 0);
    // Empty stretches (a clock set years ahead) are no rows.
    if (interval.matched + lost === 0 && intervals.length > 10_000) continue;
    const histogram = new LogHistogram();
    const { buckets, counts } = runs(i);
    for (let k = 0; k < buckets.length; k++) {
      histogram.addBucket(buckets[k]!, counts[k]!);
      columns.at(-1)!.addBucket(buckets[k]!, counts[k]!);
    }
    const startNs = epochStart + BigInt(i) * step;
    reports.push({
      startNs: startNs.toString(),
      endNs: (full && i === MOST_INTERVALS - 1 && lastNs >= startNs + step
        ? lastNs + 1n
        : startNs + step
      ).toString(),
      sent: interval.matched + lost,
      matched: interval.matched,
      lost,
      latency: latencyOf(interval.delay, histogram, null),
    });
  }
  let heat: HeatMap | null | undefined;
  return {
    reports,
    full,
    heat: () => {
      heat ??= heatOf(columns, starts, epochNs * grouped);
      return heat;
    },
  };
}

function heatOf(columns: LogHistogram[], columnStartNs: string[], columnWidthNs: number): HeatMap | null {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (const column of columns) {
    for (const [bucket] of column.entries()) {
      if (bucketHigh(bucket) <= 0) continue;
      least = Math.min(least, Math.max(1, bucketLow(bucket)));
      most = Math.max(most, bucketHigh(bucket));
    }
  }
  if (!(most > least)) return null;
  // Rows narrower than two log buckets would show the buckets, not the delays.
  const range = Math.log((most + 1) / least);
  const rows = Math.max(1, Math.min(HEAT_ROWS, Math.floor(range / (2 / 128))));
  const ratio = range / rows;
  const delayEdgesNs = Array.from({ length: rows + 1 }, (_, i) => least * Math.exp(i * ratio));
  const counts = columns.map((column) => {
    const row = new Array<number>(rows).fill(0);
    for (const [bucket, n] of column.entries()) {
      // Delays at or below 0 belong to the lowest row: a logarithmic axis has no other place for them.
      const at = Math.floor(Math.log(Math.max(least, bucketMid(bucket)) / least) / ratio);
      row[Math.min(rows - 1, Math.max(0, at))]! += n;
    }
    return row;
  });
  return { delayEdgesNs, columnStartNs, columnWidthNs, counts };
}
