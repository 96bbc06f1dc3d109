/**
 * A chart over time (uPlot). It follows the width of the page, the colours and the time range; drag to zoom in, double-click to zoom out; all charts of a
 * screen share the cursor. With the keyboard, arrows move the read-out. Gaps in the data are hatched, and the read-out gives the reason.
 */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { linearTicks, timeLabels, timeTicks } from "../../design/scales.ts";
import { coloursChanged, utc } from "../state/settings.ts";
import { showSpan, zoom } from "../state/time-range.ts";
import { tickText, timeText } from "./text.ts";

export interface ChartLine {
  name: string;
  /** Name of a colour of the style sheet. */
  colour: string;
  values: (number | null)[];
  /** Limits of the interval, drawn as a band or as whiskers. */
  low?: (number | null)[];
  high?: (number | null)[];
  interval?: "band" | "whiskers";
  kind?: "line" | "bars";
  dash?: boolean;
  /** Returns the value at a point as text. */
  text(index: number): string;
}

export interface Gap {
  fromMs: number;
  toMs: number;
  reason: string;
}

export interface ChartProps {
  label: string;
  heightPx: number;
  fromMs: number;
  toMs: number;
  /** ms since 1970. */
  times: number[];
  lines: ChartLine[];
  gaps?: Gap[];
  /** "lowest": the axis of delays starts at the lowest value, with a tick there; "zero": for counts and shares. */
  base: "lowest" | "zero";
  /** Height of an axis from zero if all values are zero. */
  reach?: number;
  tick?(value: number): string;
  /** Only the lowest of several charts shows the time labels. */
  hideTimes?: boolean;
}

export const AXIS_PX = 70;
/** Space for the names at the ends of the lines. */
export const END_PX = 44;
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

function colourOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function Chart(props: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shape = `${props.lines.map((l) => [l.name, l.colour, l.kind, l.interval].join()).join("|")} ${props.heightPx} ${coloursChanged.value} ${utc.value}`;
  useEffect(() => {
    const root = frame.current;
    if (!root) return;
    const made = new uPlot(optionsOf(latest, root), dataOf(latest.current), root);
    plot.current = made;
    const fit = new ResizeObserver(() => {
      if (root.clientWidth > 0 && root.clientWidth !== made.width)
        made.setSize({ width: root.clientWidth, height: props.heightPx });
    });
    fit.observe(root);
    return () => {
      fit.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    plot.current?.setData(dataOf(props), true);
  }, [props.times, props.lines, props.fromMs, props.toMs, shape]);
  return (
    <div
      class="chart"
      ref={frame}
      role="img"
      aria-label={props.label}
      tabIndex={0}
      onKeyDown={(event) => moveCursor(plot.current, event)}
    />
  );
}

function moveCursor(plot: uPlot | null, event: KeyboardEvent): void {
  if (!plot || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
  event.preventDefault();
  const by = (event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? 10 : 1);
  const xs = plot.data[0];
  const index = Math.max(0, Math.min(xs.length - 1, (plot.cursor.idx ?? 0) + by));
  plot.setCursor({ left: plot.valToPos(xs[index] ?? 0, "x"), top: 10 });
}

function dataOf({ times, lines }: ChartProps): uPlot.AlignedData {
  const seconds = times.map((t) => t / 1000);
  const columns = lines.flatMap((l) => [l.values, ...(l.interval ? [l.low ?? [], l.high ?? []] : [])]);
  return [seconds, ...columns] as uPlot.AlignedData;
}

type Latest = { current: ChartProps };

function optionsOf(latest: Latest, root: HTMLElement): uPlot.Options {
  const { lines, heightPx, hideTimes } = latest.current;
  const [muted, grid] = [colourOf("muted"), colourOf("grid")];
  const axis: uPlot.Axis = {
    stroke: muted,
    font: FONT,
    grid: { stroke: grid, width: 1 },
    ticks: { show: false },
    gap: 6,
  };
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  return {
    width: root.clientWidth || 600,
    height: heightPx,
    legend: { show: false },
    padding: [8, END_PX, hideTimes ? 8 : 0, 0],
    cursor: {
      sync: { key: "time" },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      y: false,
    },
    scales: {
      x: { time: false, range: () => [latest.current.fromMs / 1000, latest.current.toMs / 1000] },
      y: { range: (_, low, high) => yRange(latest.current, low, high) },
    },
    axes: [
      {
        ...axis,
        show: true,
        size: hideTimes ? 0 : 34,
        splits: (u, _, min, max) => timeTicks(zoneNs(), min, max, Math.max(2, u.width / 110)),
        values: (_, ticks) => (hideTimes ? ticks.map(() => "") : timeLabels(zoneNs(), ticks)),
      },
      {
        ...axis,
        size: AXIS_PX,
        splits: (u, _, min, max) => delayTicks(latest.current.base, u, min, max),
        values: (_, ticks) => ticks.map((t) => (latest.current.tick ?? tickText)(t)),
      },
    ],
    series: [{}, ...lines.flatMap(seriesOf)],
    bands: bandsOf(lines),
    hooks: {
      init: [(u) => u.over.append(tip)],
      drawClear: [(u) => hatchGaps(u, latest.current.gaps ?? [])],
      draw: [(u) => whiskers(u, latest.current), (u) => endNames(u, latest.current)],
      setCursor: [(u) => readOut(u, tip, latest.current)],
      setSelect: [
        (u) => {
          if (u.select.width < 4) return;
          showSpan(
            u.posToVal(u.select.left, "x") * 1000,
            u.posToVal(u.select.left + u.select.width, "x") * 1000,
          );
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      ready: [(u) => u.over.addEventListener("dblclick", () => zoom(3))],
    },
  };
}

/** Ticks are on whole hours of the selected time zone. */
function zoneNs(): bigint {
  return utc.value ? 0n : BigInt(-new Date().getTimezoneOffset()) * 60_000_000_000n;
}

function yRange({ base, reach = 1 }: ChartProps, low: number | null, high: number | null): [number, number] {
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, reach];
  if (base === "zero") return [0, high > 0 ? high * 1.08 : reach];
  return [low, high + (high - low || Math.abs(high) || 1) * 0.08];
}

const TICK_PX = 44;
const LEAST_PX = 16;
/** The lowest value, where the axis begins, and the round values above it that have enough space. */
function delayTicks(base: ChartProps["base"], u: uPlot, min: number, max: number): number[] {
  const ticks = linearTicks(min, max, Math.max(2, u.height / TICK_PX));
  if (base === "zero") return ticks;
  const least = min + ((max - min) * LEAST_PX) / Math.max(LEAST_PX, u.over.clientHeight || u.height);
  return [min, ...ticks.filter((t) => t >= least)];
}

function seriesOf(line: ChartLine): uPlot.Series[] {
  const stroke = colourOf(line.colour);
  const bars = uPlot.paths.bars?.({ size: [0.9, 40], align: 1 });
  const main: uPlot.Series = {
    label: line.name,
    stroke,
    width: line.kind === "bars" ? 0 : 1.75,
    points: { show: false },
    ...(line.dash ? { dash: [5, 4] } : {}),
    ...(line.kind === "bars" ? { fill: stroke, ...(bars ? { paths: bars } : {}) } : {}),
  };
  const edge: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };
  return line.interval ? [main, edge, edge] : [main];
}

function bandsOf(lines: ChartLine[]): uPlot.Band[] {
  const bands: uPlot.Band[] = [];
  let at = 1;
  for (const line of lines) {
    if (line.interval === "band") bands.push({ series: [at + 2, at + 1], fill: colourOf("band") });
    at += line.interval ? 3 : 1;
  }
  return bands;
}

function whiskers(u: uPlot, { times, lines }: ChartProps): void {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  for (const { interval, low, high, colour, values } of lines) {
    const alone = (i: number) =>
      values[i] !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;
    ctx.strokeStyle = ctx.fillStyle = colourOf(colour);
    ctx.lineWidth = ratio;
    const every = Math.max(1, Math.ceil(times.length / 60));
    for (const [i, time] of times.entries()) {
      const [value, l, h] = [values[i], low?.[i], high?.[i]];
      if (value === null || value === undefined) continue;
      const x = u.valToPos(time / 1000, "x", true);
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      const y = (v: number) =>
        Math.max(u.bbox.top, Math.min(u.bbox.top + u.bbox.height, u.valToPos(v, "y", true)));
      // A value between two gaps has no line, so it is drawn as a point with its interval.
      if (alone(i) && interval) ctx.fillRect(x - 2 * ratio, y(value) - 2 * ratio, 4 * ratio, 4 * ratio);
      const drawn = alone(i) ? interval !== undefined : interval === "whiskers" && i % every === 0;
      if (!drawn || l === null || l === undefined || h === null || h === undefined) continue;
      ctx.beginPath();
      ctx.moveTo(x, y(l));
      ctx.lineTo(x, y(h));
      ctx.stroke();
    }
  }
}

/** Draws the name of each line at its last value, without overlap, so that several lines need no legend. */
function endNames(u: uPlot, { times, lines }: ChartProps): void {
  const named = lines.filter((l) => l.kind !== "bars");
  if (named.length < 2) return;
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  const ends = named.flatMap(({ name, colour, values }) => {
    const at = values.findLastIndex(
      (v, i) => v !== null && v !== undefined && (times[i] ?? 0) / 1000 <= (u.scales["x"]?.max ?? 0),
    );
    const [value, time] = [values[at], times[at]];
    if (value === null || value === undefined || time === undefined) return [];
    return [
      { name, colour, x: u.valToPos(time / 1000, "x", true) + 4 * ratio, y: u.valToPos(value, "y", true) },
    ];
  });
  ends.sort((a, b) => b.y - a.y);
  let below = bbox.top + bbox.height + NAME_PX * ratio;
  ctx.save();
  ctx.font = FONT.replace("12px", `${12 * ratio}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const { name, colour, x, y } of ends) {
    below = Math.min(y, below - NAME_PX * ratio);
    ctx.fillStyle = colourOf(colour);
    ctx.fillText(name.length > 6 ? `${name.slice(0, 5)}…` : name, x, below);
  }
  ctx.restore();
}
const NAME_PX = 13;

function hatchGaps(u: uPlot, gaps: readonly Gap[]): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  for (const { fromMs, toMs } of gaps) {
    const left = Math.max(bbox.left, u.valToPos(fromMs / 1000, "x", true));
    const right = Math.min(bbox.left + bbox.width, u.valToPos(toMs / 1000, "x", true));
    if (right > left) ctx.rect(left, bbox.top, right - left, bbox.height);
  }
  ctx.clip();
  ctx.strokeStyle = colourOf("line");
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  for (
    let x = bbox.left - bbox.height;
    gaps.length > 0 && x < bbox.left + bbox.width;
    x += 7 * devicePixelRatio
  ) {
    ctx.moveTo(x, bbox.top + bbox.height);
    ctx.lineTo(x + bbox.height, bbox.top);
  }
  ctx.stroke();
  ctx.restore();
}

function readOut(u: uPlot, tip: HTMLElement, { times, lines, gaps = [] }: ChartProps): void {
  const { left = -1, idx } = u.cursor;
  tip.hidden = left < 0;
  if (left < 0) return;
  const atMs = u.posToVal(left, "x") * 1000;
  const gap = gaps.find((g) => atMs >= g.fromMs && atMs < g.toMs);
  const index = idx ?? -1;
  const title = document.createElement("strong");
  const body: Node[] = [title];
  title.textContent = timeText(gap || index < 0 ? atMs : (times[index] ?? atMs));
  const row = (text: string, colour?: string) => {
    const line = document.createElement("div");
    if (colour) {
      const key = document.createElement("i");
      key.className = "key";
      key.style.background = `var(--${colour})`;
      line.append(key);
    }
    line.append(text);
    body.push(line);
  };
  if (gap) row(gap.reason);
  else if (index >= 0) for (const line of lines) row(`${line.name} ${line.text(index)}`, line.colour);
  tip.replaceChildren(...body);
  const width = tip.offsetWidth;
  const room = u.over.clientWidth - left - 14;
  tip.style.transform = `translate(${Math.round(room >= width ? left + 14 : Math.max(0, left - 14 - width))}px, 8px)`;
}
