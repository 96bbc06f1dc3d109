/** A segment over time: requested in steps that fit the range, and updated with live events. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api/client.ts";
import { onEpochs } from "../api/live.ts";
import type { EpochEvent, SegmentName, Series, SeriesPoint } from "../api/types.ts";
import { type Asked, useAnswer, useTicks } from "../api/use-answer.ts";
import type { Gap } from "../parts/chart.tsx";
import { reasonText } from "../parts/text.ts";
import { median } from "./segments.ts";
import { msOf, newestAsked, nsText, stepFor, type TimeRange, timeRange } from "./time-range.ts";

export interface EstimatorSeries {
  estimator: string;
  points: SeriesPoint[];
}

const PAGE = 5000;
const MAX_PAGES = 4;
/** Number of recent epochs kept, of all estimators. */
const RECENT = 500;

export async function askSeries(
  segment: SegmentName,
  estimator: string,
  range: TimeRange,
  signal: AbortSignal,
): Promise<EstimatorSeries> {
  const step = stepFor(range);
  const points: SeriesPoint[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < MAX_PAGES; page++) {
    const answer: Series = await get<Series>(
      "/v1/latency",
      {
        ...{ from: segment.from, to: segment.to, label: segment.label, estimator, limit: PAGE },
        ...{ since: nsText(range.fromMs), until: nsText(range.toMs) },
        step: step === null ? null : `${step}s`,
        cursor,
      },
      signal,
    );
    points.push(...answer.points);
    cursor = answer.next;
    if (cursor === null) break;
  }
  return { estimator, points };
}

/** Keeps a moving range constant until it has moved by part of its length, so that it is requested again only from time to time and not with each epoch. */
export function useCalmRange(): TimeRange & { key: string; refresh: number } {
  const range = timeRange.value;
  const lengthMs = range.toMs - range.fromMs;
  const stepMs = (stepFor(range) ?? 15) * 1000;
  const ticks = useTicks(Math.max(5000, Math.min(stepMs, 60_000)));
  const key = range.live ? `${lengthMs} ${newestAsked.value}` : `${range.fromMs}-${range.toMs}`;
  const refresh = range.live ? ticks : 0;
  return useMemo(() => ({ ...range, key, refresh }), [key, refresh]);
}

export function useSeries(
  segment: SegmentName,
  estimators: readonly string[],
): Asked<EstimatorSeries[]> & { round: number } {
  const range = useCalmRange();
  const name = JSON.stringify([segment, estimators]);
  const asked = useAnswer(
    estimators.length === 0 ? null : `${name} ${range.key}`,
    (signal) => Promise.all(estimators.map((e) => askSeries(segment, e, range, signal))),
    range.refresh,
  );
  const [round, setRound] = useState(0);
  // Events that arrive while the request is pending are not in its answer, so they are kept and added afterwards.
  const recent = useRef<EpochEvent[]>([]);
  const follows = range.live && stepFor(range) === null;
  const add = (events: readonly EpochEvent[]) => {
    if (!asked.data || !follows || events.length === 0) return;
    for (const event of events)
      for (const series of asked.data) if (series.estimator === event.estimator) append(series, event);
    setRound((n) => n + 1);
  };
  useEffect(() => {
    recent.current = [];
  }, [name]);
  useEffect(() => add(recent.current), [asked.data]);
  useEffect(
    () =>
      onEpochs((events) => {
        const own = events.filter(
          (e) => e.from === segment.from && e.to === segment.to && e.label === segment.label,
        );
        recent.current = [...recent.current, ...own].slice(-RECENT);
        add(own);
      }),
    [asked.data, name, follows],
  );
  return { ...asked, round };
}

function append({ points }: EstimatorSeries, event: EpochEvent): void {
  const at = points.findIndex((p) => p.startNs === event.startNs);
  if (at >= 0) points[at] = event;
  else if (points.length === 0 || BigInt(event.startNs) > BigInt(points.at(-1)?.startNs ?? "0"))
    points.push(event);
}

/** Times of all estimators together, with each estimator's point at each time: null if it has none, undefined if its epochs have other times. */
export interface Aligned {
  times: number[];
  stepMs: number;
  columns: (SeriesPoint | null | undefined)[][];
  gaps: Gap[];
}

export function align(list: readonly EstimatorSeries[], range: TimeRange): Aligned {
  const starts = new Set<number>();
  const lengths: number[] = [];
  for (const { points } of list)
    for (const { startNs, endNs } of points) {
      const start = msOf(startNs);
      starts.add(start);
      lengths.push(msOf(endNs) - start);
    }
  const stepMs = lengths.length === 0 ? 1000 : median(lengths);
  const sorted = [...starts].sort((a, b) => a - b);
  const gaps: Gap[] = [];
  const times: number[] = [];
  for (const [i, start] of sorted.entries()) {
    const before = sorted[i - 1];
    if (before !== undefined && start - before > 1.6 * stepMs) {
      gaps.push({ fromMs: before + stepMs, toMs: start, reason: NO_RECORDS });
      times.push(before + stepMs);
    }
    times.push(start);
  }
  const [first, last] = [sorted[0], sorted.at(-1)];
  if (first !== undefined && first - range.fromMs > 2 * stepMs)
    gaps.push({
      fromMs: range.fromMs,
      toMs: first,
      reason: "no results: before the first epoch, or no longer kept",
    });
  if (last !== undefined && range.toMs - last > 3 * stepMs)
    gaps.push({ fromMs: last + stepMs, toMs: range.toMs, reason: NO_RECORDS });
  const columns = list.map(({ points }) =>
    columnOf(points, times, sorted.length < times.length ? starts : null),
  );
  const [main] = list;
  for (const p of main?.points ?? [])
    if (!p.latency)
      gaps.push({
        fromMs: msOf(p.startNs),
        toMs: msOf(p.endNs),
        reason: reasonText(p.reason ?? "no answer"),
      });
  return { times, stepMs, columns, gaps };
}

const NO_RECORDS = "no records arrived for this time";

function columnOf(
  points: readonly SeriesPoint[],
  times: readonly number[],
  known: ReadonlySet<number> | null,
) {
  const byTime = new Map(points.map((p) => [msOf(p.startNs), p]));
  return times.map((t) => byTime.get(t) ?? (known === null || known.has(t) ? undefined : null));
}
