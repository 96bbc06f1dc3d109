/** All segments, asked for as a whole now and then, and kept up with what comes in between. */
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
/** Counts what came live: who shows it reads this. */
export const liveRound = signal(0);

/** What is asked for: nothing but its length while it moves along, so that it is not asked for again with each epoch. */
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

/** `quickly`: the newest answers first, which take the collector a fraction of the time, and what was before when those are shown. */
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
