/** Delay, loss and packets of one segment over time, by each estimator with answers. */
import { useMemo, useRef } from "preact/hooks";
import { segmentText } from "../../../src/present/text/segment-name.ts";
import { isDownUsual, orderSegments } from "../../../src/results/segment-list.ts";
import { get } from "../api/client.ts";
import type { KnownSegment, Normal, Overview, SegmentName, SeriesPoint } from "../api/types.ts";
import { useAnswer, useOwnSignal, useTicksUntil } from "../api/use-answer.ts";
import { Actions, csvOf } from "../parts/actions.tsx";
import { queryCommand, spanParts } from "../parts/command.ts";
import { DelayDistribution } from "../parts/delay-distribution.tsx";
import { FlowTable } from "../parts/flow-table.tsx";
import { Time } from "../parts/numbers.tsx";
import { savePng } from "../parts/picture.ts";
import { LINE_COLOURS, SegmentCharts } from "../parts/segment-charts.tsx";
import { SegmentSelect } from "../parts/segment-select.tsx";
import { SegmentTiles } from "../parts/segment-tiles.tsx";
import { SeriesTable, seriesCsv } from "../parts/series-table.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { mayBeNow } from "../state/clock.ts";
import { goInstead, hrefTo, param, place, setParams } from "../state/location.ts";
import { align, type EstimatorSeries, useSeries } from "../state/series.ts";
import { heardOf, msOf, newestMs, showSpan, timeRange } from "../state/time-range.ts";

export function SegmentScreen() {
  const [, from = "", to = "", label = ""] = place.value.path;
  const there = useOwnSignal(false);
  const ticks = useTicksUntil(there.value);
  const ask = async (signal: AbortSignal) => {
    const { segments } = await get<{ segments: KnownSegment[] }>("/v1/segments", {}, signal);
    for (const { lastNs } of segments) if (lastNs !== null) heardOf(msOf(lastNs));
    if (from === "") {
      // No segment was given: use the one in the worst state.
      const all = (await get<Overview>("/v1/overview", { steps: 0 }, signal)).segments;
      const [worst] = orderSegments(all, {
        sort: "state",
        down: isDownUsual("state"),
        nowMs: newestMs.value,
      });
      if (worst) goInstead(hrefTo(["segment", worst.from, worst.to, worst.label]));
      return { own: null, normal: null, back: null, all: segments };
    }
    const own = segments.find((s) => s.from === from && s.to === to && (label === "" || s.label === label));
    const { segments: overview } = await get<Overview>("/v1/overview", { from, to, steps: 1 }, signal);
    const normal = overview.find((s) => s.label === own?.label)?.normal ?? null;
    there.value = (own?.estimators.length ?? 0) > 0;
    const back = segments.find((s) => s.from === to && s.to === from) ?? null;
    return { own: own ?? null, normal, back, all: segments.filter((s) => s.estimators.length > 0) };
  };
  const asked = useAnswer(`segments ${from} ${to}`, ask, ticks);
  return (
    <Answered asked={asked} what="the segment">
      {({ own, back, normal, all }) =>
        own && own.estimators.length > 0 ? (
          <SegmentView segment={own} back={back} normal={normal} all={all} />
        ) : from === "" ? (
          <Empty title="No segment has results yet">
            <a href={hrefTo(["taps"])}>Look at the taps</a>
          </Empty>
        ) : (
          <Empty title={`No results of ${from} → ${to}`}>
            <p>
              {own
                ? "It is watched, but no epoch of both ends has arrived yet: see Taps."
                : "It is not watched: name it with --segment, or look for it in the overview."}
            </p>
            <a href={hrefTo(["overview"])}>Go to the overview</a>
          </Empty>
        )
      }
    </Answered>
  );
}

function SegmentView({
  segment,
  back,
  normal,
  all,
}: {
  segment: KnownSegment;
  back: SegmentName | null;
  normal: Normal | null;
  all: readonly KnownSegment[];
}) {
  const { estimators } = segment;
  const main = estimators.find((e) => e === param("estimator")) ?? estimators[0] ?? "";
  const beside = (param("with") ?? "").split(",").filter((e) => e !== main && estimators.includes(e));
  const shown = [main, ...beside];
  const asked = useSeries(segment, shown);
  const name = segmentText(segment);
  const charts = useRef<HTMLElement>(null);
  return (
    <>
      <div class="title-line">
        <h1>
          {segment.from} <span class="arrow">→</span> {segment.to}
        </h1>
        {all.length > 1 && (
          <div class="form">
            <SegmentSelect own={segment} all={all} keep={{}} />
          </div>
        )}
      </div>
      <p class="links">
        <a href={hrefTo(["flows", segment.from, segment.to, segment.label])}>Flows of this segment</a>
        <a href={hrefTo(["packets", segment.from, segment.to, segment.label])}>Packets</a>
        <a href={hrefTo(["map"])}>On the map</a>
        {back && <a href={hrefTo(["segment", back.from, back.to, back.label])}>The other direction</a>}
      </p>
      <Answered asked={asked} what={`the series of ${name}`}>
        {(list) => (
          <>
            <SegmentTiles points={list[0]?.points ?? []} estimator={main} normal={normal} />
            <section class="card" ref={charts} aria-label="Over time">
              <div class="card-head">
                <EstimatorChoice estimators={estimators} main={main} beside={beside} />
                <Actions
                  name={name}
                  command={commandOf(segment, shown)}
                  csv={() => csvOf(seriesCsv(list))}
                  png={() => void savePng(charts.current, `${name}, ${shown.join(", ")}`)}
                />
              </div>
              <Charts list={list} round={asked.round} names={shown} segment={segment} />
              <SeriesTable points={list[0]?.points ?? []} estimator={main} />
            </section>
          </>
        )}
      </Answered>
      <DelayDistribution segment={segment} />
      <FlowTable segment={segment} title="Largest flows in this time" top={10} />
    </>
  );
}

function Charts({
  list,
  round,
  names,
  segment,
}: {
  list: EstimatorSeries[];
  round: number;
  names: readonly string[];
  segment: KnownSegment;
}) {
  const range = timeRange.value;
  const aligned = useMemo(() => align(list, range), [list, round, range.fromMs, range.toMs]);
  const points: SeriesPoint[] = list[0]?.points ?? [];
  if (points.length === 0)
    return <NothingThen lastNs={segment.lastNs} lengthMs={range.toMs - range.fromMs} />;
  return <SegmentCharts aligned={aligned} names={names} range={range} label={segmentText(segment)} />;
}

function NothingThen({ lastNs, lengthMs }: { lastNs: string | null; lengthMs: number }) {
  const lastMs = lastNs === null ? null : msOf(lastNs);
  return (
    <Empty title="No results in this time">
      {lastMs === null ? (
        <p>Choose a longer range, or zoom out with s.</p>
      ) : (
        <>
          <p>
            Its newest are of <Time ms={lastMs} />
            {mayBeNow(lastMs) ? "." : ": the clocks of its taps are ahead. Synchronise them."}
          </p>
          <button type="button" class="plain-button" onClick={() => showSpan(lastMs - lengthMs, lastMs)}>
            Show that time
          </button>
        </>
      )}
    </Empty>
  );
}

/** One estimator is the basis of the charts; others are drawn over it. */
function EstimatorChoice({
  estimators,
  main,
  beside,
}: {
  estimators: readonly string[];
  main: string;
  beside: readonly string[];
}) {
  const shown = [main, ...beside];
  return (
    <div class="filters" role="group" aria-label="Estimators">
      {estimators.map((e) => {
        const at = shown.indexOf(e);
        const colour = at < 0 ? null : (LINE_COLOURS[at % LINE_COLOURS.length] ?? "p50");
        const without = beside.filter((b) => b !== e);
        return (
          <button
            key={e}
            type="button"
            class="chip"
            aria-pressed={at >= 0}
            disabled={e === main && estimators.length === 1}
            title={e === main ? "carries the charts" : at > 0 ? "overlaid: click to remove" : "lay over"}
            onClick={() =>
              e === main
                ? setParams({ estimator: beside[0] ?? null, with: beside.slice(1).join(",") })
                : setParams({ with: at > 0 ? without.join(",") : [...beside, e].join(",") })
            }
          >
            {colour && <i class="key" style={{ background: `var(--${colour})` }} />}
            {e}
          </button>
        );
      })}
    </div>
  );
}

const commandOf = ({ from, to, label }: SegmentName, estimators: readonly string[]): string =>
  queryCommand(
    ["--between", from, to],
    ["--segment", label],
    ["--estimator", estimators.join(",")],
    ...spanParts(timeRange.value),
  );
