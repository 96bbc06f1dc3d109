/**
 * The collector's time. The viewer's clock may be wrong, and taps and answers use the collector's time. It is known to a second from the Date header of its
 * answers.
 */
let aheadMs: number | null = null;

export function noteDate(date: string | null): void {
  const ms = date === null ? Number.NaN : Date.parse(date);
  if (!Number.isNaN(ms)) aheadMs = ms - Date.now();
}

export const collectorNowMs = (): number => Date.now() + (aheadMs ?? 0);

/** Clocks of taps may be ahead by this much; later times do not count as the newest data. */
const AHEAD_MS = 60_000;

/** Before the first answer, any time is accepted. */
export const mayBeNow = (ms: number): boolean => aheadMs === null || ms <= collectorNowMs() + AHEAD_MS;
