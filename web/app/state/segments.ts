/** The state of a segment, relative to its own normal (src/results/normals.ts). */
import { healthOf } from "../../../src/results/health.ts";
import type { EpochEvent, SegmentName, SegmentOverview } from "../api/types.ts";
import { delayText, durationText, reasonText, shareText } from "../parts/text.ts";
import { collectorNowMs, mayBeNow } from "./clock.ts";
import { msOf } from "./time-range.ts";

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

/** Returns the state as one sentence. */
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
    return `the clocks of its taps are ${durationText(msOf(lastNs) - collectorNowMs())} ahead: synchronise them`;
  if (health === "silent")
    return latest ? `no data for ${durationText(nowMs - msOf(latest.endNs))}` : "no data in this time";
  if (health === "unmeasured") return reasonText(latest?.reason ?? "not measurable");
  return "normal";
}

/** Applies a live row: it becomes the newest of its segment and part of the last step. */
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
