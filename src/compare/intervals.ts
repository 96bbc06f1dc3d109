/** The report over time: one row per interval, and the heat map of delays. */
import { entryAt } from "../base/lists.ts";
import { bucketHigh, bucketLow, bucketMid } from "../base/math/log-histogram.ts";
import type { BucketRun } from "../match/flow-result.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import { FATE } from "../match/packet-log.ts";
import { runLatency } from "./latency.ts";
import type { PassResult } from "./pass.ts";
import type { HeatMap, IntervalReport } from "./report.ts";

const HEAT_COLUMNS = 200;
const HEAT_ROWS = 60;
/** Up to this many intervals are listed without gaps. */
const MAX_EMPTY = 10_000;

export interface Intervals {
  reports: IntervalReport[];
  heat: () => HeatMap | null;
}

/** `edges`: packets at the ends of BEFORE that count as lost; those whose times the matcher did not keep go to the first and the last interval. */
export function buildIntervals(
  result: PassResult,
  epochNs: number,
  edges: { head: number; tail: number },
): Intervals {
  const { matcher, epochStart } = result;
  const step = BigInt(Math.round(epochNs));
  const filled = matcher.intervals();
  const place = (ns: bigint | null) => Math.max(0, Number(((ns ?? epochStart) - epochStart) / step));
  const edgeLost = new Map<number, number>();
  const startNs = Number(epochStart - result.originNs);
  const lose = (at: number, n: number) => edgeLost.set(at, (edgeLost.get(at) ?? 0) + n);
  for (const [n, fate, ns] of [
    [edges.head, FATE.headBefore, result.before.firstNs],
    [edges.tail, FATE.tailBefore, result.before.lastNs],
  ] as const) {
    const known = n > 0 ? timesOf(matcher, fate, n) : [];
    for (const timeNs of known) lose(Math.max(0, Math.floor((timeNs - startNs) / epochNs)), 1);
    if (n > known.length) lose(place(ns), n - known.length);
  }
  const last = Math.max(filled.at(-1)?.index ?? -1, ...edgeLost.keys());
  const byIndex = new Map(filled.map((interval) => [interval.index, interval]));
  const indices = [...rowsOf(byIndex, edgeLost, last)];
  const runs = matcher.intervalBuckets();
  const grouped = Math.max(1, Math.ceil((last + 1) / HEAT_COLUMNS));
  const columns = Array.from({ length: Math.ceil((last + 1) / grouped) }, (): BucketRun[] => []);
  const starts = columns.map((_, i) => (epochStart + BigInt(i) * BigInt(grouped) * step).toString());
  const reports = indices.map((index): IntervalReport => {
    const interval = byIndex.get(index);
    const matched = interval?.matched ?? 0;
    const lost = (interval?.lost ?? 0) + (edgeLost.get(index) ?? 0);
    const run = interval && matched > 0 ? runs(interval.slot) : null;
    if (run) entryAt(columns, Math.floor(index / grouped)).push(run);
    const startNs = epochStart + BigInt(index) * step;
    return {
      startNs: startNs.toString(),
      endNs: (startNs + step).toString(),
      sent: matched + lost,
      matched,
      lost,
      latency: run && interval?.delay ? runLatency(interval.delay, run) : null,
    };
  });
  let heat: HeatMap | null | undefined;
  return {
    reports,
    heat: () => {
      heat ??= heatOf(columns, starts, epochNs * grouped);
      return heat;
    },
  };
}

/** Returns the send times of forward packets that were attributed to an end of AFTER, at most `most`. */
function timesOf(matcher: ExactMatcher, edge: number, most: number): number[] {
  const times: number[] = [];
  for (const { side, fate, flow, timeNs } of matcher.alone()) {
    if (times.length === most) break;
    if (side === 0 && fate === edge && matcher.flows.direction(flow) !== 2) times.push(timeNs);
  }
  return times;
}

/** Intervals to list: all up to the last or, if there are very many (a long silence, a timestamp years ahead), only those with packets. */
function* rowsOf(
  filled: ReadonlyMap<number, unknown>,
  edgeLost: ReadonlyMap<number, unknown>,
  last: number,
): Generator<number> {
  if (last < MAX_EMPTY) for (let i = 0; i <= last; i++) yield i;
  else if (last >= 0) yield* [...new Set([...filled.keys(), ...edgeLost.keys()])].sort((a, b) => a - b);
}

function heatOf(
  columns: readonly BucketRun[][],
  columnStartNs: string[],
  columnWidthNs: number,
): HeatMap | null {
  let minimum = Number.POSITIVE_INFINITY;
  let maximum = 0;
  const seen = new Set<number>();
  const baseNs = columns.flat()[0]?.baseNs ?? 0;
  for (const { buckets } of columns.flat()) for (const bucket of buckets) seen.add(bucket);
  for (const bucket of seen) {
    if (baseNs + bucketHigh(bucket) <= 0) continue;
    minimum = Math.min(minimum, Math.max(1, baseNs + bucketLow(bucket)));
    maximum = Math.max(maximum, baseNs + bucketHigh(bucket));
  }
  if (!(maximum > minimum)) return null;
  // Rows narrower than two log buckets would show the buckets, not the delays.
  const range = Math.log((maximum + 1) / minimum);
  const rows = Math.max(1, Math.min(HEAT_ROWS, Math.floor(range / (2 / 128))));
  const ratio = range / rows;
  const delayEdgesNs = Array.from({ length: rows + 1 }, (_, i) => minimum * Math.exp(i * ratio));
  const places = new Map<number, number>();
  const placeOf = (bucket: number) => {
    const known = places.get(bucket);
    if (known !== undefined) return known;
    // Delays at or below 0 go to the lowest row: a logarithmic axis has no other place for them.
    const at = Math.floor(Math.log(Math.max(minimum, baseNs + bucketMid(bucket)) / minimum) / ratio);
    const place = Math.min(rows - 1, Math.max(0, at));
    places.set(bucket, place);
    return place;
  };
  const counts = columns.map((runs) => {
    const row = new Array<number>(rows).fill(0);
    for (const { buckets, counts: own } of runs)
      for (let k = 0; k < buckets.length; k++) row[placeOf(buckets[k]!)]! += own[k]!;
    return row;
  });
  return { delayEdgesNs, columnStartNs, columnWidthNs, counts };
}
