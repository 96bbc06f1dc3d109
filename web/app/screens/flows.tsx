/** Who suffers: the flows of a segment, filtered and sorted; one flow over time beside its segment. */
import { useMemo } from "preact/hooks";
import { get } from "../api/client.ts";
import type { KnownSegment, SegmentName } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { flowFilter } from "../parts/flow-filter.ts";
import { FlowGroups } from "../parts/flow-groups.tsx";
import { FlowTable } from "../parts/flow-table.tsx";
import { FlowView } from "../parts/flow-view.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { segmentText } from "../parts/text.ts";
import { go, hrefTo, param, place, setParams } from "../state/location.ts";
import { segmentKey } from "../state/segments.ts";
import { heardOf, msOf } from "../state/time-range.ts";

export function FlowsScreen() {
  const asked = useAnswer("segments", async (signal) => {
    const { segments } = await get<{ segments: KnownSegment[] }>("/v1/segments", {}, signal);
    for (const { lastNs } of segments) if (lastNs !== null) heardOf(msOf(lastNs));
    return segments.filter((s) => s.estimators.length > 0);
  });
  return (
    <>
      <h1>Flows</h1>
      <Answered asked={asked} what="the segments">
        {(segments) => {
          const [, from, to, label = ""] = place.value.path;
          const own =
            segments.find((s) => s.from === from && s.to === to && s.label === label) ??
            segments.find((s) => s.from === from && s.to === to) ??
            (from === undefined ? segments[0] : undefined);
          if (!own)
            return (
              <Empty
                title={from === undefined ? "No segment has results yet" : `No results of ${from} → ${to}`}
              >
                <a href={hrefTo(["overview"])}>Go to the overview</a>
              </Empty>
            );
          return <SegmentFlows segments={segments} own={own} />;
        }}
      </Answered>
    </>
  );
}

const GROUPS: readonly (readonly [string, string])[] = [
  ["", "Flow"],
  ["host", "Pair of hosts"],
  ["src", "Source host"],
  ["dst", "Destination host"],
  ["prefix/24", "Pair of /24 networks"],
  ["dport", "Destination port"],
  ["proto", "Protocol"],
];

function SegmentFlows({ segments, own }: { segments: readonly KnownSegment[]; own: SegmentName }) {
  const text = param("q") ?? "";
  const group = param("group") ?? "";
  const flow = param("flow");
  const filter = useMemo(() => flowFilter(text), [text]);
  return (
    <>
      <div class="form">
        <label>
          Segment
          <select
            value={segmentKey(own)}
            onChange={(e) => {
              const next = segments.find((s) => segmentKey(s) === e.currentTarget.value);
              if (next) go(hrefTo(["flows", next.from, next.to, next.label], { q: text, group }));
            }}
          >
            {segments.map((s) => (
              <option key={segmentKey(s)} value={segmentKey(s)}>
                {segmentText(s)}
              </option>
            ))}
          </select>
        </label>
        <label>
          By
          <select value={group} onChange={(e) => setParams({ group: e.currentTarget.value })}>
            {GROUPS.map(([value, title]) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <label>
          Filter
          <input
            class="wide"
            type="text"
            spellcheck={false}
            placeholder="tcp port 443 and net 10.0.0.0/8"
            value={text}
            onInput={(e) => setParams({ q: e.currentTarget.value }, true)}
          />
        </label>
        <a href={hrefTo(["segment", own.from, own.to, own.label])}>The segment over time</a>
      </div>
      {filter.problem !== null && <p class="muted">Searched for as text ({filter.problem})</p>}
      {flow !== null && <FlowView segment={own} flow={flow} />}
      {group === "" ? (
        <FlowTable segment={own} title={`Flows of ${segmentText(own)}`} top={200} matches={filter.fits} />
      ) : (
        <FlowGroups segment={own} group={group} matches={filter.fits} />
      )}
    </>
  );
}
