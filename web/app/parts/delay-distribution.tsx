/** Delays of packets over time: quantiles as bands, and their distribution as a heat map, if the receiver keeps records of packets. */
import { scaleLog } from "d3-scale";
import { useRef } from "preact/hooks";
import { segmentText } from "../../../src/present/text/segment-name.ts";
import { currentTheme, heatColour } from "../../design/theme.ts";
import type { KnownSegment } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { askDistribution, type Distribution, type DistributionStep } from "../state/distribution.ts";
import { param, setParams } from "../state/location.ts";
import { useCalmRange } from "../state/series.ts";
import { coloursChanged } from "../state/settings.ts";
import { nsText, timeRange } from "../state/time-range.ts";
import { Actions, csvOf } from "./actions.tsx";
import { AXIS_PX, Chart, type ChartLine, END_PX, type Gap } from "./chart.tsx";
import type { PacketLatency } from "./packet-groups.tsx";
import { savePng } from "./picture.ts";
import { Answered, Empty } from "./states.tsx";
import { countText, delayText, tickText, timeText } from "./text.ts";

/** For longer ranges this is loaded only on request, because it reads the records of every epoch. */
const SHORT_MS = 15 * 60_000;

export function DelayDistribution({ segment }: { segment: KnownSegment }) {
  const { from, to, label } = segment;
  const range = useCalmRange();
  const shown = (param("bands") ?? (range.toMs - range.fromMs <= SHORT_MS ? "1" : "0")) === "1";
  const asked = useAnswer(
    segment.packets && shown ? `bands ${from} ${to} ${label} ${range.key}` : null,
    (signal) => askDistribution(segment, range, signal),
    range.refresh,
  );
  const card = useRef<HTMLElement>(null);
  if (!segment.packets) return null;
  const name = `${segmentText(segment)}, distribution of delays`;
  return (
    <section class="card" ref={card} aria-label="Distribution of delays">
      <div class="card-head">
        <h2>Distribution of delays</h2>
        <div class="actions">
          {shown && asked.data?.steps.some((s) => s.latency) && (
            <Actions
              name={name}
              csv={() => csvOf(quantileRows(asked.data?.steps ?? [], asked.data?.stepMs ?? 0))}
              png={() => void savePng(card.current, name)}
            />
          )}
          <button
            type="button"
            class="plain-button"
            aria-expanded={shown}
            onClick={() => setParams({ bands: shown ? "0" : "1" })}
          >
            {shown ? "Hide" : "Show (read from the records of packets)"}
          </button>
        </div>
      </div>
      {shown && (
        <Answered asked={asked} what="the delays of packets (read from the records)">
          {(data) =>
            data.steps.some((s) => s.latency) ? (
              <Bands data={data} label={segmentText(segment)} />
            ) : (
              <Empty title="No packets in the records of this time">
                <p>{data.steps[0]?.reason}</p>
              </Empty>
            )
          }
        </Answered>
      )}
    </section>
  );
}

function quantileRows(steps: readonly DistributionStep[], stepMs: number): (string | number | null)[][] {
  return [
    ["start_ns", "end_ns", ...QUANTILES.map(([, name]) => `${name}_ns`), "packets", "reason"],
    ...steps.map((s) => [
      ...[nsText(s.startMs), nsText(s.startMs + stepMs)],
      ...QUANTILES.map(([field]) => s.latency?.[field] ?? null),
      ...[s.packets, s.latency ? null : s.reason],
    ]),
  ];
}

const QUANTILES = [
  ["minNs", "min"],
  ["p50Ns", "p50"],
  ["p90Ns", "p90"],
  ["p99Ns", "p99"],
  ["maxNs", "max"],
] as const;
/** Shares of packets between two quantiles. */
const SHARES = [0.5, 0.4, 0.09, 0.01];

function Bands({ data, label }: { data: Distribution; label: string }) {
  const { fromMs, toMs } = timeRange.value;
  const { steps, stepMs } = data;
  const times = steps.map((s) => s.startMs);
  const column = (name: keyof PacketLatency) => steps.map((s) => s.latency?.[name] ?? null);
  const text = (name: keyof PacketLatency) => (i: number) => {
    const value = steps[i]?.latency?.[name];
    return value === undefined ? (steps[i]?.reason ?? "no answer") : delayText(value);
  };
  const lines: ChartLine[] = [
    { name: "p99", colour: "p99", values: column("p99Ns"), text: text("p99Ns") },
    { name: "p90", colour: "p90", values: column("p90Ns"), text: text("p90Ns") },
    {
      ...{ name: "p50", colour: "p50", values: column("p50Ns"), text: text("p50Ns") },
      ...{ low: column("minNs"), high: column("p90Ns"), interval: "band" },
    },
    { name: "min", colour: "whisker", values: column("minNs"), text: text("minNs") },
  ];
  const gaps: Gap[] = steps.flatMap((s) =>
    s.latency ? [] : [{ fromMs: s.startMs, toMs: s.startMs + stepMs, reason: s.reason }],
  );
  const known = steps.flatMap((s) => s.latency?.minNs ?? []);
  const lowNs = known.length === 0 ? null : Math.min(...known);
  return (
    <div class="charts">
      <h3>
        Delay of packets: p50, p90 and p99, shaded from the minimum to p90
        {lowNs === null ? "" : `; the axis begins at the minimum, ${delayText(lowNs)}`}
      </h3>
      <Chart
        {...{ fromMs, toMs, times, lines, gaps }}
        label={`${label}: quantiles of delay over time`}
        heightPx={240}
        base="lowest"
      />
      <h3>
        Heat map: the stronger the colour, the more packets (between the quantiles of each step; logarithmic)
      </h3>
      <HeatMap data={data} gaps={gaps} label={label} />
      <details>
        <summary>As a table</summary>
        <QuantileTable steps={steps} />
      </details>
    </div>
  );
}

const WIDTH = 1000;
const HEIGHT = 200;
const LABEL_PX = 16;

function HeatMap({ data, gaps, label }: { data: Distribution; gaps: readonly Gap[]; label: string }) {
  void coloursChanged.value;
  const { fromMs, toMs } = timeRange.value;
  const known = data.steps.flatMap((s) => s.latency ?? []);
  const low = Math.max(1, Math.min(...known.map((l) => l.minNs)));
  const high = Math.max(low * 1.01, ...known.map((l) => l.maxNs));
  const y = scaleLog([low, high], [HEIGHT - 2, 2]).clamp(true);
  const theme = currentTheme();
  const x = (ms: number) => (WIDTH * (ms - fromMs)) / (toMs - fromMs);
  const slices = data.steps.flatMap((step) => slicesOf(step, y));
  const densest = Math.max(...slices.map((s) => s.density));
  const sparsest = Math.min(...slices.map((s) => s.density));
  const shade = scaleLog([sparsest, Math.max(densest, sparsest * 1.01)], [0.05, 1]).clamp(true);
  // On a logarithmic axis, the ticks of a decade get closer towards its end; ticks without enough space are left out.
  const ticks: number[] = [];
  for (const t of y.ticks(4)) {
    const below = ticks.at(-1);
    if (below === undefined || Math.abs(y(below) - y(t)) >= LABEL_PX) ticks.push(t);
  }
  return (
    <div
      class="heat"
      style={{ paddingRight: `${END_PX}px` }}
      role="img"
      aria-label={`${label}: heat map of delay and time`}
    >
      <div class="heat-axis" style={{ width: `${AXIS_PX}px`, height: `${HEIGHT}px` }}>
        {ticks.map((t) => (
          <span key={t} style={{ top: `${y(t)}px` }}>
            {tickText(t)}
          </span>
        ))}
      </div>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} height={HEIGHT} preserveAspectRatio="none" aria-hidden="true">
        <pattern id="no-packets" width="7" height="7" patternUnits="userSpaceOnUse">
          <path class="hatch" d="M0 7L7 0" />
        </pattern>
        {gaps.map((g) => (
          <rect
            key={g.fromMs}
            x={x(g.fromMs)}
            width={Math.max(0, x(g.toMs) - x(g.fromMs))}
            height={HEIGHT}
            class="no-packets"
            fill="url(#no-packets)"
          >
            <title>{g.reason}</title>
          </rect>
        ))}
        {slices.map((s) => (
          <rect
            key={`${s.startMs} ${s.name}`}
            x={x(s.startMs)}
            width={Math.max(1, x(s.startMs + data.stepMs) - x(s.startMs))}
            y={s.top}
            height={Math.max(1, s.bottom - s.top)}
            style={{ fill: heatColour(theme, shade(s.density)) }}
          >
            <title>{s.text}</title>
          </rect>
        ))}
      </svg>
    </div>
  );
}

function slicesOf({ startMs, latency, packets }: DistributionStep, y: (ns: number) => number) {
  if (!latency) return [];
  return SHARES.map((share, i) => {
    const [lower, upper] = [QUANTILES[i] ?? QUANTILES[0], QUANTILES[i + 1] ?? QUANTILES[4]];
    const [lowNs, highNs] = [Math.max(1, latency[lower[0]]), Math.max(1, latency[upper[0]])];
    const [top, bottom] = [y(highNs), y(lowNs)];
    const text = `${timeText(startMs)}: ${(100 * share).toFixed(0)} % of ${countText(packets)} packets from ${delayText(lowNs)} (${lower[1]}) to ${delayText(highNs)} (${upper[1]})`;
    return {
      startMs,
      name: upper[1],
      top,
      bottom,
      density: (packets * share) / Math.max(1, bottom - top),
      text,
    };
  });
}

function QuantileTable({ steps }: { steps: readonly DistributionStep[] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Quantiles over time">
      <table class="small">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {QUANTILES.map(([, name]) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
            <th scope="col" class="number">
              Packets
            </th>
          </tr>
        </thead>
        <tbody>
          {steps.map((s) => (
            <tr key={s.startMs}>
              <th scope="row">{timeText(s.startMs)}</th>
              {QUANTILES.map(([field, name]) => (
                <td key={name} class="number">
                  {s.latency ? delayText(s.latency[field]) : "–"}
                </td>
              ))}
              <td class="number">{countText(s.packets)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
