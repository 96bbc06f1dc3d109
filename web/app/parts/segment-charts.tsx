/** Delay, loss and packets of a segment, one below the other with one time axis. */

import { surelyLost } from "../../../src/results/health.ts";
import type { SeriesPoint } from "../api/types.ts";
import type { Aligned } from "../state/series.ts";
import type { TimeRange } from "../state/time-range.ts";
import { Chart, type ChartLine } from "./chart.tsx";
import { countText, delayText, intervalText, reasonText, shareText, shortCount } from "./text.ts";

/** Colours of estimators, distinguishable with colour blindness; the first one has the band. */
export const LINE_COLOURS = ["p50", "other-1", "other-2", "other-3"] as const;

export interface NamedColumn {
  name: string;
  column: (SeriesPoint | null | undefined)[];
}

type Field = (p: SeriesPoint) => number | null | undefined;
/** Null: a gap. Undefined (as in uPlot): the line has no point here and continues. */
const pick = (column: NamedColumn["column"], field: Field) =>
  column.map((p) => (p === undefined ? undefined : p === null ? null : (field(p) ?? null))) as (
    | number
    | null
  )[];

function delayLine({ name, column }: NamedColumn, i: number): ChartLine {
  return {
    name,
    colour: LINE_COLOURS[i % LINE_COLOURS.length] ?? "p50",
    values: pick(column, (p) => p.latency?.meanNs),
    low: pick(column, (p) => p.latency?.lowNs),
    high: pick(column, (p) => p.latency?.highNs),
    interval: i === 0 ? "band" : "whiskers",
    dash: i > 0,
    text: (at) => {
      const p = column[at];
      return p?.latency ? intervalText(p.latency) : reasonText(p?.reason ?? "no answer");
    },
  };
}

export function SegmentCharts({
  aligned,
  names,
  range,
  label,
}: {
  aligned: Aligned;
  names: readonly string[];
  range: TimeRange;
  label: string;
}) {
  const { times, columns, gaps, stepMs } = aligned;
  const named = columns.map((column, i) => ({ name: names[i] ?? "", column }));
  const main = columns[0] ?? [];
  const shared = { fromMs: range.fromMs, toMs: range.toMs, times, gaps };
  const sure = (p: SeriesPoint) => surelyLost(p, stepMs);
  const flight: ChartLine = {
    name: "missing, perhaps in flight",
    colour: "sent",
    kind: "bars",
    values: pick(main, (p) => (sure(p) ? 0 : p.lossRate)),
    text: (i) => {
      const p = main[i];
      return p && !sure(p) ? countText(p.lost) : "0";
    },
  };
  const loss: ChartLine = {
    name: "loss",
    colour: "loss",
    kind: "bars",
    values: pick(main, (p) => (sure(p) ? p.lossRate : 0)),
    text: (i) => lossText(main[i], sure),
  };
  const packets: ChartLine = {
    name: "sent",
    colour: "whisker",
    kind: "bars",
    values: pick(main, (p) => (p.sent === null ? null : (p.sent / stepMs) * 1000)),
    text: (i) =>
      `${countText(main[i]?.sent ?? null)} packets, received ${countText(main[i]?.received ?? null)}`,
  };
  const clocks: ChartLine | null = main.some((p) => typeof p?.clockNs === "number")
    ? {
        name: "clocks",
        colour: "whisker",
        values: pick(main, (p) => p.clockNs),
        text: (i) => {
          const ns = main[i]?.clockNs ?? null;
          return ns === null ? "not known" : `off by at most ${delayText(ns)}`;
        },
      }
    : null;
  return (
    <div class="charts">
      <h3>Delay: mean with its 95 % interval{beginsAt(named)}</h3>
      <Chart
        {...shared}
        label={`${label}: delay over time`}
        heightPx={260}
        base="lowest"
        lines={named.map(delayLine)}
        hideTimes
      />
      <h3>
        Loss{flight.values.some((v) => (v ?? 0) > 0) && "; grey: perhaps only in flight when the epoch ended"}
      </h3>
      <Chart
        {...shared}
        label={`${label}: loss over time`}
        heightPx={70}
        base="zero"
        reach={0.01}
        tick={(v) => shareText(Math.max(0, v))}
        lines={[flight, loss]}
        hideTimes
      />
      <h3>Packets per second</h3>
      <Chart
        {...shared}
        label={`${label}: packets per second over time`}
        heightPx={104}
        base="zero"
        tick={shortCount}
        lines={[packets]}
        hideTimes={clocks !== null}
      />
      {clocks && (
        <>
          <h3>Clocks: what both ends may be off by</h3>
          <Chart
            {...shared}
            label={`${label}: error of the clocks over time`}
            heightPx={104}
            base="zero"
            lines={[clocks]}
          />
        </>
      )}
    </div>
  );
}

/** Says where the axis of delays begins. */
function beginsAt(named: readonly NamedColumn[]): string {
  let low = Number.POSITIVE_INFINITY;
  for (const { column } of named)
    for (const p of column) if (p?.latency) low = Math.min(low, p.latency.lowNs);
  return Number.isFinite(low) ? `; the axis begins at the lowest, ${delayText(low)}` : "";
}

function lossText(p: SeriesPoint | null | undefined, sure: (p: SeriesPoint) => boolean): string {
  if (!p || p.lossRate === null) return "not known";
  return sure(p) ? `${shareText(p.lossRate)} (${countText(p.lost)} of ${countText(p.sent)})` : "none";
}
