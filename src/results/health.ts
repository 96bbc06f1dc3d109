/** Judges a segment's health against its own normal (normals.ts), the same way on the page and on the command line. */
import type { SegmentOverview } from "./overview.ts";
import type { SeriesPoint } from "./series.ts";

export type Health = "slow" | "loss" | "silent" | "unmeasured" | "fine";
/** Worst first. */
export const HEALTHS: readonly Health[] = ["slow", "loss", "silent", "unmeasured", "fine"];
export const HEALTH_WORDS: Readonly<Record<Health, string>> = {
  slow: "slow",
  loss: "losing packets",
  silent: "no data",
  unmeasured: "not measurable",
  fine: "normal",
};

/** Slow: the whole interval is above the median by this many spreads and by this share of the median. */
const SPREADS = 4;
const SHARE = 0.25;
const LOSS = 0.01;
const SILENT_MS = 30_000;
const SILENT_EPOCHS = 10;

type Judged = Pick<SegmentOverview, "latest" | "normal">;

const msOf = (ns: string): number => Number(BigInt(ns) / 1000n) / 1000;

/** Whether more packets are missing than can be in flight at the epoch's end: rate × delay on average, plus four standard deviations. */
export function surelyLost({ sent, received, lost, latency }: SeriesPoint, lengthMs: number): boolean {
  const inFlight = ((sent ?? 0) / (lengthMs * 1e6)) * Math.abs(latency?.meanNs ?? 0);
  const missing = sent !== null && received !== null ? sent - received : (lost ?? 0);
  return missing > inFlight + 4 * Math.sqrt(inFlight) + 1;
}

export function healthOf({ latest, normal }: Judged, nowMs: number): Health {
  if (!latest || isSilent(latest, nowMs)) return "silent";
  if (!latest.latency) return latest.missing > 0 ? "silent" : "unmeasured";
  if (
    normal &&
    latest.latency.lowNs > normal.valueNs + Math.max(SPREADS * normal.spreadNs, SHARE * normal.valueNs)
  )
    return "slow";
  const lossy = latest.lossRate !== null && latest.lossRate > LOSS;
  return lossy && surelyLost(latest, msOf(latest.endNs) - msOf(latest.startNs)) ? "loss" : "fine";
}

function isSilent(latest: SeriesPoint, nowMs: number): boolean {
  const endMs = msOf(latest.endNs);
  const lengthMs = endMs - msOf(latest.startNs);
  return nowMs - endMs > Math.max(SILENT_MS, SILENT_EPOCHS * lengthMs);
}

/** Ratio of the current delay to the normal; null if either is unknown. */
export function overNormal({ latest, normal }: Judged): number | null {
  return latest?.latency && normal && normal.valueNs > 0 ? latest.latency.meanNs / normal.valueNs : null;
}
