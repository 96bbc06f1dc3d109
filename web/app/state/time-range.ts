/** The time that all screens show: the last so long before the newest data, or from one instant to another. It lives in the URL. Times are ms since 1970. */
import { computed, signal } from "@preact/signals";
import { collectorNowMs, mayBeNow } from "./clock.ts";
import { param, setParams } from "./location.ts";

export interface TimeRange {
  fromMs: number;
  toMs: number;
  /** Ends with the newest data, and moves along. */
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

/** End of the newest data that was heard of; 0 before the first answer. */
export const newestMs = signal(0);
/** The collector was asked what its newest is; before, nothing that ends with it can be asked for. */
export const newestAsked = signal(false);
/** Stands still at this instant while the viewer pauses. */
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

/** Times in the future are of a clock that is wrong: they would move everything else out of sight. */
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

/** Nearer (below 1) or farther, around the middle. */
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
/** The step to ask for, so that a range has a few hundred points; null: as the epochs are. */
export function stepFor({ fromMs, toMs }: TimeRange): number | null {
  const rough = (toMs - fromMs) / 1000 / 600;
  if (rough <= 1) return null;
  return NICE_S.find((s) => s >= rough) ?? 86_400;
}

/** As the API takes it: nanoseconds. */
export const nsText = (ms: number): string => `${BigInt(Math.round(ms * 1000)) * 1000n}`;
/** From the API's nanoseconds. */
export const msOf = (ns: string): number => Number(BigInt(ns) / 1000n) / 1000;
