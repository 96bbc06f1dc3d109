/** One flow over time, with its segment for comparison. */
import { useRef } from "preact/hooks";
import { segmentText } from "../../../src/present/text/segment-name.ts";
import { get } from "../api/client.ts";
import type { FlowPoint, FlowSummary, SegmentName } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { hrefTo, setParams } from "../state/location.ts";
import { askSeries, useCalmRange } from "../state/series.ts";
import { msOf, nsText, stepFor, timeRange } from "../state/time-range.ts";
import { Actions, csvOf } from "./actions.tsx";
import { Chart, type ChartLine } from "./chart.tsx";
import { queryCommand, spanParts } from "./command.ts";
import { FlowPath } from "./flow-path.tsx";
import { Delay } from "./numbers.tsx";
import { savePng } from "./picture.ts";
import { Answered } from "./states.tsx";
import { countText, intervalText, reasonText } from "./text.ts";

interface OneFlow {
  estimator: string;
  total: FlowSummary;
  points: FlowPoint[];
}

export function FlowView({ segment, flow }: { segment: SegmentName; flow: string }) {
  const range = useCalmRange();
  const { from, to, label } = segment;
  const asked = useAnswer(
    `${from} ${to} ${label} ${flow} ${range.key}`,
    async (signal) => {
      const step = stepFor(range);
      const own = await get<OneFlow>(
        "/v1/flow",
        {
          ...{ from, to, label, flow, limit: 10_000, since: nsText(range.fromMs), until: nsText(range.toMs) },
          step: step === null ? null : `${step}s`,
        },
        signal,
      );
      return { own, segment: await askSeries(segment, own.estimator, range, signal) };
    },
    range.refresh,
  );
  const card = useRef<HTMLElement>(null);
  const command = queryCommand(
    ["--between", from, to],
    ["--segment", label],
    ["--estimator", asked.data?.own.estimator ?? null],
    ["--flow", flow],
    ...spanParts(range),
  );
  return (
    <section class="card" ref={card} aria-label="One flow">
      <div class="card-head">
        <h2>{flow}</h2>
        <Actions
          name={flow}
          command={command}
          csv={() =>
            csvOf([
              ["start_ns", "packets", "lost", "mean_ns", "low_ns", "high_ns"],
              ...(asked.data?.own.points ?? []).map((p) => [
                p.startNs,
                p.packets,
                p.lost,
                p.latency?.meanNs ?? null,
                p.latency?.lowNs ?? null,
                p.latency?.highNs ?? null,
              ]),
            ])
          }
          png={() => void savePng(card.current, `${flow}, ${segmentText(segment)}`)}
        />
      </div>
      <p class="links">
        <a href={hrefTo(["packets", from, to, label], { flow })}>Its packets</a>
        <button type="button" class="chip" onClick={() => setParams({ flow: null })}>
          Close
        </button>
      </p>
      <Answered asked={asked} what="the flow">
        {({ own, segment: whole }) => {
          const times = [...new Set([...own.points, ...whole.points].map((p) => msOf(p.startNs)))].sort(
            (a, b) => a - b,
          );
          const byTime = new Map(own.points.map((p) => [msOf(p.startNs), p]));
          const wholeByTime = new Map(whole.points.map((p) => [msOf(p.startNs), p]));
          const mine: ChartLine = {
            name: "this flow",
            colour: "other-2",
            values: times.map((t) => byTime.get(t)?.latency?.meanNs ?? null),
            low: times.map((t) => byTime.get(t)?.latency?.lowNs ?? null),
            high: times.map((t) => byTime.get(t)?.latency?.highNs ?? null),
            interval: "whiskers",
            text: (i) => {
              const p = byTime.get(times[i] ?? 0);
              return p?.latency
                ? intervalText(p.latency)
                : p
                  ? reasonText(p.reason ?? "no answer")
                  : "no packets among the largest flows";
            },
          };
          const all: ChartLine = {
            name: segmentText(segment),
            colour: "p50",
            values: times.map((t) => wholeByTime.get(t)?.latency?.meanNs ?? null),
            low: times.map((t) => wholeByTime.get(t)?.latency?.lowNs ?? null),
            high: times.map((t) => wholeByTime.get(t)?.latency?.highNs ?? null),
            interval: "band",
            text: (i) => {
              const p = wholeByTime.get(times[i] ?? 0);
              return p?.latency ? intervalText(p.latency) : "no answer";
            },
          };
          return (
            <>
              <p>
                Mean <Delay latency={own.total.latency} reason={own.total.reason} estimator={own.estimator} />{" "}
                over {countText(own.total.packets)} packets ({own.estimator})
              </p>
              <p class="legend">
                <i class="key this-flow" /> this flow <i class="key p50" /> all of {segmentText(segment)}
              </p>
              <Chart
                label={`${flow}: delay over time beside its segment`}
                heightPx={220}
                fromMs={timeRange.value.fromMs}
                toMs={timeRange.value.toMs}
                times={times}
                lines={[all, mine]}
                base="lowest"
              />
              <FlowPath segment={segment} flow={flow} />
            </>
          );
        }}
      </Answered>
    </section>
  );
}
