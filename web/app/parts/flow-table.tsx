/** Who suffers: the largest flows of a segment in the time shown, by whatever column. */
import { get } from "../api/client.ts";
import type { FlowSummary, SegmentName } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { hrefTo, param } from "../state/location.ts";
import { useCalmRange } from "../state/series.ts";
import { nsText } from "../state/time-range.ts";
import { Actions, collectorUrl, csvOf, shellWord } from "./actions.tsx";
import { Delay } from "./numbers.tsx";
import { SortHead } from "./sort-head.tsx";
import { Answered, Empty } from "./states.tsx";
import { countText, segmentText, shareText } from "./text.ts";

const COLUMNS: readonly (readonly [string, string, string])[] = [
  ["flow", "Flow", ""],
  ["delay", "Mean delay", "number"],
  ["packets", "Packets", "number"],
  ["loss", "Loss", "number wide-only"],
  ["answered", "Answered", "number wide-only"],
];

const VALUES: Readonly<Record<string, (f: FlowSummary) => number | string>> = {
  flow: (f) => f.flow,
  delay: (f) => f.latency?.meanNs ?? -1,
  packets: (f) => f.packets ?? -1,
  loss: (f) => (f.packets ? (f.lost ?? -1) / f.packets : -1),
  answered: (f) => f.answered ?? -1,
};

interface Flows {
  estimator: string;
  flows: FlowSummary[];
}

export function FlowTable({
  segment,
  title,
  top,
  matches,
}: {
  segment: SegmentName;
  title: string;
  top: number;
  matches?: (flow: string) => boolean;
}) {
  const range = useCalmRange();
  const { from, to, label } = segment;
  const asked = useAnswer(`${from} ${to} ${label} ${top} ${range.key}`, (signal) =>
    get<Flows>(
      "/v1/flows",
      { from, to, label, top, since: nsText(range.fromMs), until: nsText(range.toMs) },
      signal,
    ),
  );
  // No estimator that answers by flow is no fault.
  if (asked.error?.code === "no-records")
    return <Empty title={`No flows of ${segmentText(segment)}`}>{<p>{asked.error.message}</p>}</Empty>;
  return (
    <section class="card table-card" aria-label={title}>
      <h2>{title}</h2>
      <Answered asked={asked} what="the flows">
        {(data) => <FlowRows data={data} segment={segment} top={top} matches={matches} span={range} />}
      </Answered>
    </section>
  );
}

function FlowRows({
  data,
  segment,
  top,
  matches,
  span,
}: {
  data: Flows;
  segment: SegmentName;
  top: number;
  matches: ((flow: string) => boolean) | undefined;
  span: { fromMs: number; toMs: number };
}) {
  const sort = param("sort") ?? "packets";
  const down = (param("order") ?? (sort === "flow" ? "up" : "down")) === "down";
  const value = VALUES[sort] ?? VALUES["packets"];
  const flows = data.flows.filter((f) => matches?.(f.flow) ?? true);
  flows.sort((a, b) => {
    const [x, y] = [value?.(a) ?? 0, value?.(b) ?? 0];
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  });
  if (data.flows.length === 0)
    return (
      <Empty title="No flows in this time">
        {<p>Flows need an estimator that answers by flow (lds, colate, flows), and a listed flow.</p>}
      </Empty>
    );
  if (flows.length === 0) return <Empty title="No flow matches the filter" />;
  const words = [
    "hoptime",
    "query",
    collectorUrl(),
    "--between",
    segment.from,
    segment.to,
    "--top",
    String(top),
  ];
  words.push("--from", new Date(span.fromMs).toISOString(), "--to", new Date(span.toMs).toISOString());
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Flows">
        <table class="rows">
          <thead>
            <tr>
              {COLUMNS.map(([name, head, kind]) => (
                <SortHead key={name} name={name} title={head} kind={kind} sort={sort} down={down} />
              ))}
            </tr>
          </thead>
          <tbody>
            {flows.map((f) => (
              <tr key={f.flow} class="row">
                <th scope="row">
                  <a
                    class="row-link"
                    href={hrefTo(["flows", segment.from, segment.to, segment.label], { flow: f.flow })}
                  >
                    {f.flow}
                  </a>
                </th>
                <td class="number">
                  <Delay latency={f.latency} reason={f.reason} estimator={data.estimator} />
                </td>
                <td class="number">{countText(f.packets)}</td>
                <td class="number wide-only">
                  {f.packets && f.lost !== null ? shareText(f.lost / f.packets) : "–"}
                </td>
                <td class="number wide-only">{shareText(f.answered)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Actions
        name={`flows ${segmentText(segment)}`}
        command={words.map(shellWord).join(" ")}
        csv={() =>
          csvOf([
            ["flow", "packets", "bytes", "lost", "mean_ns", "low_ns", "high_ns", "answered", "reason"],
            ...flows.map((f) => [
              f.flow,
              f.packets,
              f.bytes,
              f.lost,
              f.latency?.meanNs ?? null,
              f.latency?.lowNs ?? null,
              f.latency?.highNs ?? null,
              f.answered,
              f.reason,
            ]),
          ])
        }
      />
    </>
  );
}
