/** The time range of all screens: a length before the newest data, or from one time to another. It is part of the URL. Times are in ms since 1970. */
import { computed, signal } from "@preact/signals";
import { collectorNowMs, mayBeNow } from "./clock.ts";
import { param, setParams } from "./location.ts";

export interface TimeRange {
  fromMs: number;
  toMs: number;
  /** Ends at the newest data and moves with it. */
  live: boolean;
}

export const LASTS: readonly (readonly [string, number])[] = [
  ["2m", 120e3],
  ["5m", 300e3],
  ["15m", 900e3],
  ["1h", 3600e3],
  ["6h", 6 * 3600e3],
  ["1d", 86_400e3],
  ["7d", 7 * 86_400e3],
  ["30d", 30 * 86_400e3],
];
const DEFAULT_LAST = "1h";
const SHORTEST_MS = 10;

/** End of the newest data so far; 0 before the first answer. */
export const newestMs = signal(0);
/** Whether the collector has been asked for its newest data; before that, no live range can be requested. */
export const newestAsked = signal(false);
/** The end of the range while paused. */
export const pausedAtMs = signal<number | null>(null);

export const chosenLast = computed(() => {
  const asked = param("last");
  return LASTS.some(([name]) => name === asked) ? (asked as string) : DEFAULT_LAST;
});

export const timeRange = computed<TimeRange>(() => {
  const [since, until] = [param("since"), param("until")].map((t) =>
    t === null ? Number.NaN : Date.parse(t),
  );
  if (since !== undefined && until !== undefined && until > since)
    return { fromMs: since, toMs: until, live: false };
  const length = LASTS.find(([name]) => name === chosenLast.value)?.[1] ?? 3600e3;
  const toMs = pausedAtMs.value ?? (newestMs.value || collectorNowMs());
  return { fromMs: toMs - length, toMs, live: pausedAtMs.value === null };
});

/** Times in the future come from wrong clocks and are ignored; they would move all other data out of the range. */
export function heardOf(ms: number): void {
  if (ms > newestMs.value && mayBeNow(ms)) newestMs.value = ms;
}

export function showLast(name: string): void {
  pausedAtMs.value = null;
  setParams({ last: name === DEFAULT_LAST ? null : name, since: null, until: null });
}

export function showSpan(fromMs: number, toMs: number): void {
  if (!(toMs - fromMs >= SHORTEST_MS)) return;
  setParams({ since: new Date(fromMs).toISOString(), until: new Date(toMs).toISOString() });
}

/** Zooms in (factor below 1) or out, around the middle. */
export function zoom(factor: number): void {
  const { fromMs, toMs } = timeRange.value;
  const middle = (fromMs + toMs) / 2;
  const half = ((toMs - fromMs) / 2) * factor;
  showSpan(middle - half, middle + half);
}

export function move(share: number): void {
  const { fromMs, toMs } = timeRange.value;
  const by = (toMs - fromMs) * share;
  showSpan(fromMs + by, toMs + by);
}

const NICE_S = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400];
/** Returns the step for a few hundred points in the range; null: one point per epoch. */
export function stepFor({ fromMs, toMs }: TimeRange): number | null {
  const rough = (toMs - fromMs) / 1000 / 600;
  if (rough <= 1) return null;
  return NICE_S.find((s) => s >= rough) ?? 86_400;
}

/** Converts to ns as the API takes them. */
export const nsText = (ms: number): string => `${BigInt(Math.round(ms * 1000)) * 1000n}`;
/** Converts from the API's ns. */
export const msOf = (ns: string): number => Number(BigInt(ns) / 1000n) / 1000;
