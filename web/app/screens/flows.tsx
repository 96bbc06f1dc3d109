/** The flows of a segment, filtered and sorted; or one flow over time with its segment. */
import { useMemo } from "preact/hooks";
import { flowFilter } from "../../../src/capture/filter/flow-filter.ts";
import { segmentText } from "../../../src/present/text/segment-name.ts";
import type { KnownSegment } from "../api/types.ts";
import { FlowGroups } from "../parts/flow-groups.tsx";
import { FlowTable } from "../parts/flow-table.tsx";
import { FlowView } from "../parts/flow-view.tsx";
import { SegmentSelect, WithSegment } from "../parts/segment-select.tsx";
import { hrefTo, param, setParams } from "../state/location.ts";

export function FlowsScreen() {
  return (
    <>
      <h1>Flows</h1>
      <WithSegment>{(own, all) => <SegmentFlows segments={all} own={own} />}</WithSegment>
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

function SegmentFlows({ segments, own }: { segments: readonly KnownSegment[]; own: KnownSegment }) {
  const text = param("q") ?? "";
  const group = param("group") ?? "";
  const flow = param("flow") || null;
  const filter = useMemo(() => flowFilter(text), [text]);
  return (
    <>
      <div class="form">
        <SegmentSelect own={own} all={segments} keep={{ q: text, group }} />
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
        <FlowTable segment={own} title={`Flows of ${segmentText(own)}`} top={200} filter={filter} />
      ) : (
        <FlowGroups segment={own} group={group} filter={filter} />
      )}
    </>
  );
}
