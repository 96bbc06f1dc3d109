/** How a segment is, judged by its own normal (src/results/normals.ts). */
import type { EpochEvent, SegmentName, SegmentOverview, SeriesPoint } from "../api/types.ts";
import { delayText, durationText, reasonText, shareText } from "../parts/text.ts";
import { collectorNowMs, mayBeNow } from "./clock.ts";
import { msOf } from "./time-range.ts";

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

/** Slow: the whole interval is above the median by this many spreads, and by this share of it. */
const SPREADS = 4;
const SHARE = 0.25;
const LOSS = 0.01;
const SILENT_MS = 30_000;
const SILENT_EPOCHS = 10;

export interface Segment extends SegmentOverview {
  key: string;
}

export const segmentKey = ({ from, to, label }: SegmentName): string => JSON.stringify([from, to, label]);

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low = Number.NaN, high = low] = [sorted[(sorted.length - 1) >> 1], sorted[middle]];
  return (low + high) / 2;
}

/** More packets are missing than may be in flight at the end of the epoch: rate × delay on average, a few more by chance. */
export function surelyLost({ sent, received, lost, latency }: SeriesPoint, lengthMs: number): boolean {
  const inFlight = ((sent ?? 0) / (lengthMs * 1e6)) * Math.abs(latency?.meanNs ?? 0);
  const missing = sent !== null && received !== null ? sent - received : (lost ?? 0);
  return missing > inFlight + 4 * Math.sqrt(inFlight) + 1;
}

export function healthOf({ latest, normal }: Pick<Segment, "latest" | "normal">, nowMs: number): Health {
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

/** One sentence, as it would be said in a call. */
export function healthText(
  segment: Pick<Segment, "latest" | "normal"> & { lastNs?: string },
  nowMs: number,
): string {
  const { latest, normal, lastNs } = segment;
  const health = healthOf(segment, nowMs);
  if (health === "slow" && latest?.latency && normal)
    return `slow: ${delayText(latest.latency.meanNs)}, normally ${delayText(normal.valueNs)}`;
  if (health === "loss" && latest) return `loses ${shareText(latest.lossRate)} of its packets`;
  if (health === "silent" && latest?.missing)
    return reasonText(latest.reason ?? "records of one end are missing");
  if (health === "silent" && lastNs !== undefined && !mayBeNow(msOf(lastNs)))
    return `times of its taps are ${durationText(msOf(lastNs) - collectorNowMs())} ahead: set their clocks`;
  if (health === "silent")
    return latest ? `no data for ${durationText(nowMs - msOf(latest.endNs))}` : "no data in this time";
  if (health === "unmeasured") return reasonText(latest?.reason ?? "not measurable");
  return "normal";
}

/** How many times its own normal; null where there is none. */
export function overNormal({ latest, normal }: Pick<Segment, "latest" | "normal">): number | null {
  return latest?.latency && normal && normal.valueNs > 0 ? latest.latency.meanNs / normal.valueNs : null;
}

/** A row that came: the newest of its segment, and part of the last step. */
export function applyEvent(segment: Segment, event: EpochEvent): void {
  if (event.estimator !== segment.estimator) return;
  if (segment.latest && BigInt(event.startNs) < BigInt(segment.latest.startNs)) return;
  const again = segment.latest?.startNs === event.startNs;
  segment.latest = event;
  if (again) return;
  if (event.sent !== null && event.received !== null) {
    segment.sent = (segment.sent ?? 0) + event.sent;
    segment.lost = Math.max(0, (segment.lost ?? 0) + event.sent - event.received);
  }
}
