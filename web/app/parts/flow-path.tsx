/** Which segment of its path delayed a flow: the flow in each segment that has it, in the selected time range. */

import { segmentText } from "../../../src/present/text/segment-name.ts";
import { get } from "../api/client.ts";
import { useRoute } from "../api/network.ts";
import type { FlowSummary, SegmentName } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { hrefTo } from "../state/location.ts";
import { useCalmRange } from "../state/series.ts";
import { nsText } from "../state/time-range.ts";
import { Heads } from "./heads.tsx";
import { Delay } from "./numbers.tsx";
import { usePaths } from "./paths.tsx";
import { shareText } from "./text.ts";

interface Part extends SegmentName {
  estimator: string;
  total: FlowSummary;
}

export function FlowPath({ segment, flow }: { segment: SegmentName; flow: string }) {
  const range = useCalmRange();
  const path = usePaths().find((p) => p.segments.some((s) => s.from === segment.from && s.to === segment.to));
  const has = useRoute("/v1/flow/segments");
  const asked = useAnswer(
    has ? `${flow} ${range.key}` : null,
    async (signal) => {
      const span = { since: nsText(range.fromMs), until: nsText(range.toMs) };
      return (await get<{ segments: Part[] }>("/v1/flow/segments", { flow, ...span }, signal)).segments;
    },
    range.refresh,
  );
  const parts = path ? alongPath(path.segments, asked.data ?? []) : (asked.data ?? []);
  if (parts.length < 2) return null;
  const sumNs = parts.reduce((sum, p) => sum + Math.max(0, p.total.latency?.meanNs ?? 0), 0);
  const most = parts.reduce((a, b) =>
    (a.total.latency?.meanNs ?? 0) >= (b.total.latency?.meanNs ?? 0) ? a : b,
  );
  return (
    <>
      <h3 class="spaced">
        Where its delay comes from: most from {segmentText(most)}
        {sumNs > 0 && ` (${shareText((most.total.latency?.meanNs ?? 0) / sumNs)})`}
      </h3>
      <table class="small flow-path">
        <caption class="unseen">The flow's mean delay in each segment</caption>
        <Heads of={[["Segment"], ["Mean delay", "number"], ["Share"]]} />
        <tbody>
          {parts.map((s) => {
            const share = sumNs > 0 ? Math.max(0, s.total.latency?.meanNs ?? 0) / sumNs : 0;
            return (
              <tr key={segmentText(s)}>
                <th scope="row">
                  <a href={hrefTo(["segment", s.from, s.to, s.label])}>{segmentText(s)}</a>
                </th>
                <td class="number">
                  <Delay latency={s.total.latency} reason={s.total.reason} estimator={s.estimator} />
                </td>
                <td>
                  <span class="share-bar" style={{ width: `${Math.round(160 * share)}px` }} />{" "}
                  {shareText(share)}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

/** Returns the segments in path order; others that have the flow are left out, because they are not known to be on its path. */
function alongPath(segments: readonly { from: string; to: string }[], known: readonly Part[]): Part[] {
  return segments.flatMap(({ from, to }) => known.find((k) => k.from === from && k.to === to) ?? []);
}
