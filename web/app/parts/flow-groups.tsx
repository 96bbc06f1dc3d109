/** Flows grouped by host, network or port, from the records; the same question as `hoptime query --group`. */
import type { FlowFilter } from "../../../src/capture/filter/flow-filter.ts";
import { segmentText } from "../../../src/present/text/segment-name.ts";
import { post } from "../api/client.ts";
import type { MeanLatency, SegmentName } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { useCalmRange } from "../state/series.ts";
import { nsText } from "../state/time-range.ts";
import { Actions, csvOf } from "./actions.tsx";
import { queryCommand, spanParts } from "./command.ts";
import { FlowLoss } from "./flow-table.tsx";
import { Heads } from "./heads.tsx";
import { Delay } from "./numbers.tsx";
import { Answered, Empty } from "./states.tsx";
import { countText, shareText } from "./text.ts";

interface Group {
  estimator: string;
  text: string;
  flows: number;
  packets: number | null;
  lost: number | null;
  lostLow: number;
  latency: MeanLatency | null;
  reason?: string | null;
  coverage: number | null;
  quantiles?: { share: number; valueNs: number }[];
}

const TOP = 100;

export function FlowGroups({
  segment,
  group,
  filter,
}: {
  segment: SegmentName;
  group: string;
  filter: FlowFilter;
}) {
  const range = useCalmRange();
  const { from, to, label } = segment;
  const asked = useAnswer(
    `${from} ${to} ${label} ${group} ${range.key}`,
    (signal) =>
      post<{ groups: Group[] }>(
        "/v1/query",
        {
          ...{ between: [from, to], group, top: TOP, from: nsText(range.fromMs), to: nsText(range.toMs) },
          ...(label === "" ? {} : { segment: label }),
        },
        signal,
      ),
    range.refresh,
  );
  return (
    <section class="card table-card" aria-label="Groups of flows">
      <h2>
        {segmentText(segment)} by {group}
      </h2>
      <Answered asked={asked} what="the groups (read from the records)">
        {({ groups }) => {
          const [first] = groups;
          const rows = groups.filter((g) => g.estimator === first?.estimator && filter.fits(g.text));
          if (rows.length === 0)
            return (
              <Empty title={groups.length === 0 ? "No group in this time" : "No group matches the filter"} />
            );
          return (
            <>
              <div class="scroll-x" tabIndex={0} role="region" aria-label="Groups">
                <table class="rows">
                  <Heads
                    of={[
                      ["Group"],
                      ["Mean delay", "number"],
                      ["Packets", "number"],
                      ["Flows", "number wide-only"],
                      ["Loss", "number wide-only"],
                      ["Answered", "number wide-only"],
                    ]}
                  />
                  <tbody>
                    {rows.map((g) => (
                      <tr key={g.text} class="row">
                        <th scope="row">{g.text}</th>
                        <td class="number">
                          <Delay latency={g.latency} reason={g.reason ?? null} estimator={g.estimator} />
                        </td>
                        <td class="number">{countText(g.packets)}</td>
                        <td class="number wide-only">{countText(g.flows)}</td>
                        <td class="number wide-only">
                          <FlowLoss flow={g} />
                        </td>
                        <td class="number wide-only">{shareText(g.coverage)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <Actions
                name={`${segmentText(segment)} by ${group}`}
                command={queryCommand(
                  ["--between", from, to],
                  ["--segment", label],
                  ["--estimator", first?.estimator ?? null],
                  ["--group", group],
                  ["--top", String(TOP)],
                  [filter.problem === null ? "--filter" : "--search", filter.text],
                  ...spanParts(range),
                )}
                csv={() =>
                  csvOf([
                    ["group", "estimator", "flows", "packets", "lost", "mean_ns", "low_ns", "high_ns"],
                    ...rows.map((g) => [
                      g.text,
                      g.estimator,
                      g.flows,
                      g.packets,
                      g.lost,
                      g.latency?.meanNs ?? null,
                      g.latency?.lowNs ?? null,
                      g.latency?.highNs ?? null,
                    ]),
                  ])
                }
              />
            </>
          );
        }}
      </Answered>
    </section>
  );
}
