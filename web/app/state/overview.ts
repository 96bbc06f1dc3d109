/** All segments, asked for as a whole now and then, and kept up with what comes in between. */
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get } from "../api/client.ts";
import { onEpochs } from "../api/live.ts";
import type { Overview } from "../api/types.ts";
import { type Asked, useAnswer, useTicks } from "../api/use-answer.ts";
import { param } from "./location.ts";
import { applyEvent, type Segment, segmentKey } from "./segments.ts";
import { chosenLast, heardOf, LASTS, msOf, newestMs, nsText, pausedAtMs, timeRange } from "./time-range.ts";

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
function useRangeQuery(): { key: string; since: string | undefined; until: string | undefined } {
  const ticks = useTicks(AGAIN_MS);
  const fixed = param("since") !== null || pausedAtMs.value !== null;
  const { fromMs, toMs } = fixed ? timeRange.value : { fromMs: 0, toMs: 0 };
  const lengthMs = LASTS.find(([name]) => name === chosenLast.value)?.[1] ?? 3600e3;
  if (fixed) return { key: `${fromMs}-${toMs}`, since: nsText(fromMs), until: nsText(toMs) };
  // Before anything is known of, the collector says what its newest is.
  const known = newestMs.peek();
  const since = known === 0 ? undefined : nsText(known - lengthMs);
  return { key: `${chosenLast.value} ${ticks} ${newestMs.value > 0}`, since, until: undefined };
}

export function useSegments(steps = 60): Asked<SegmentList> {
  const { key, since, until } = useRangeQuery();
  const asked = useAnswer<Overview>(`${key} ${steps}`, async (signal) => {
    const answer = await get<Overview>("/v1/overview", { since, until, steps }, signal);
    if (answer.segments.length > 0)
      heardOf(Math.max(...answer.segments.map((s) => (s.latest ? msOf(s.latest.endNs) : 0))));
    return answer;
  });
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
        if (!data || until !== undefined) return;
        let unknown = false;
        for (const event of events) {
          const segment = data.byKey.get(segmentKey(event));
          if (segment) applyEvent(segment, event);
          else unknown = true;
        }
        liveRound.value++;
        if (unknown) asked.again();
      }),
    [data, until],
  );
  return { ...asked, data };
}
