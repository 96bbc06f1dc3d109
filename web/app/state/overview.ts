/** All segments: the whole list is requested from time to time, and updated with live events in between. */
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get } from "../api/client.ts";
import { onEpochs } from "../api/live.ts";
import type { Overview } from "../api/types.ts";
import { type Asked, useAnswer, useTicks } from "../api/use-answer.ts";
import { param } from "./location.ts";
import { applyEvent, type Segment, segmentKey } from "./segments.ts";
import { chosenLast, heardOf, msOf, newestAsked, nsText, pausedAtMs, timeRange } from "./time-range.ts";

export interface SegmentList {
  segments: Segment[];
  byKey: ReadonlyMap<string, Segment>;
  fromMs: number;
  toMs: number;
  stepMs: number;
}

const AGAIN_MS = 10_000;
/** Counts live updates; components that show them read it. */
export const liveRound = signal(0);

/** For a range that moves with time, the key contains only its length, so that it is not requested again with each epoch. */
function useRangeQuery(): { key: string; refresh: number; span: Record<string, string>; fixed: boolean } {
  const ticks = useTicks(AGAIN_MS);
  const fixed = param("since") !== null || pausedAtMs.value !== null;
  if (!fixed) return { key: chosenLast.value, refresh: ticks, span: { last: chosenLast.value }, fixed };
  const { fromMs, toMs } = timeRange.value;
  return {
    ...{ key: `${fromMs}-${toMs}`, refresh: 0, fixed },
    span: { since: nsText(fromMs), until: nsText(toMs) },
  };
}

async function askOverview(
  span: Record<string, string>,
  steps: number,
  signal: AbortSignal,
): Promise<Overview> {
  const answer = await get<Overview>("/v1/overview", { ...span, steps }, signal);
  for (const { latest } of answer.segments) if (latest) heardOf(msOf(latest.endNs));
  newestAsked.value = true;
  return answer;
}

/** With `quickly`, the newest answers are requested first, which takes the collector a fraction of the time, and the older ones after these are shown. */
export function useSegments(steps = 60, quickly = false): Asked<SegmentList> {
  const { key, refresh, span, fixed } = useRangeQuery();
  const first = useAnswer<Overview>(quickly ? "first" : null, (signal) => askOverview(span, 0, signal));
  const waits = quickly && first.data === null && first.error === null;
  const whole = useAnswer<Overview>(
    waits ? null : `${key} ${steps}`,
    (signal) => askOverview(span, steps, signal),
    refresh,
  );
  const asked = whole.data === null && whole.error === null && quickly ? first : whole;
  const data = useMemo<SegmentList | null>(() => {
    if (!asked.data) return null;
    const segments = asked.data.segments.map((s) => ({ ...s, key: segmentKey(s) }));
    const [fromMs, toMs, stepMs] = [asked.data.fromNs, asked.data.toNs, asked.data.stepNs].map(msOf) as [
      number,
      number,
      number,
    ];
    return { segments, byKey: new Map(segments.map((s) => [s.key, s])), fromMs, toMs, stepMs };
  }, [asked.data]);
  useEffect(
    () =>
      onEpochs((events) => {
        if (!data || fixed) return;
        let unknown = false;
        for (const event of events) {
          const segment = data.byKey.get(segmentKey(event));
          if (segment) applyEvent(segment, event);
          else unknown = true;
        }
        liveRound.value++;
        if (unknown) whole.again();
      }),
    [data, fixed],
  );
  return { ...asked, data };
}
