/** For screens about one segment: the one in the path of the URL (`#/flows/A/B/label`), or the first with results. */
import type { ComponentChildren } from "preact";
import { segmentText } from "../../../src/present/text/segment-name.ts";
import { get } from "../api/client.ts";
import type { KnownSegment } from "../api/types.ts";
import { useAnswer, useOwnSignal, useTicksUntil } from "../api/use-answer.ts";
import { go, hrefTo, place } from "../state/location.ts";
import { segmentKey } from "../state/segments.ts";
import { heardOf, msOf } from "../state/time-range.ts";
import { Answered, Empty } from "./states.tsx";

export async function askSegments(signal?: AbortSignal): Promise<KnownSegment[]> {
  const { segments } = await get<{ segments: KnownSegment[] }>("/v1/segments", {}, signal);
  for (const { lastNs } of segments) if (lastNs !== null) heardOf(msOf(lastNs));
  return segments;
}

export function WithSegment({
  children,
}: {
  children: (own: KnownSegment, all: readonly KnownSegment[]) => ComponentChildren;
}) {
  const there = useOwnSignal(false);
  const ticks = useTicksUntil(there.value);
  const ask = async (signal: AbortSignal) => {
    const segments = (await askSegments(signal)).filter((s) => s.estimators.length > 0);
    there.value = segments.length > 0;
    return segments;
  };
  const asked = useAnswer("segments", ask, ticks);
  return (
    <Answered asked={asked} what="the segments">
      {(segments) => {
        const [, from, to, label = ""] = place.value.path;
        const own =
          segments.find((s) => s.from === from && s.to === to && s.label === label) ??
          segments.find((s) => s.from === from && s.to === to) ??
          (from === undefined ? segments[0] : undefined);
        if (own) return children(own, segments);
        return (
          <Empty title={from === undefined ? "No segment has results yet" : `No results of ${from} → ${to}`}>
            <a href={hrefTo(["overview"])}>Go to the overview</a>
          </Empty>
        );
      }}
    </Answered>
  );
}

/** Selects another segment for the same screen, with the same parameters. */
export function SegmentSelect({
  own,
  all,
  keep,
}: {
  own: KnownSegment;
  all: readonly KnownSegment[];
  keep: Record<string, string | null>;
}) {
  return (
    <label>
      Segment
      <select
        value={segmentKey(own)}
        onChange={(e) => {
          const next = all.find((s) => segmentKey(s) === e.currentTarget.value);
          if (next) go(hrefTo([place.value.path[0] ?? "overview", next.from, next.to, next.label], keep));
        }}
      >
        {all.map((s) => (
          <option key={segmentKey(s)} value={segmentKey(s)}>
            {segmentText(s)}
          </option>
        ))}
      </select>
    </label>
  );
}
