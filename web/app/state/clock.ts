/** What time it is at the collector: the viewer's own clock may be wrong, and taps and answers are of the collector's time. Known from the date of its answers, to a second. */
let aheadMs: number | null = null;

export function noteDate(date: string | null): void {
  const ms = date === null ? Number.NaN : Date.parse(date);
  if (!Number.isNaN(ms)) aheadMs = ms - Date.now();
}

export const collectorNowMs = (): number => Date.now() + (aheadMs ?? 0);

/** Clocks of taps may be ahead by so much; what is further in the future is not what is newest. */
const AHEAD_MS = 60_000;

/** Before an answer has come, everything may be. */
export const mayBeNow = (ms: number): boolean => aheadMs === null || ms <= collectorNowMs() + AHEAD_MS;
