/** Charts over time: delay (quantiles and the range from min to max), and packets with loss. */

import uPlot from "uplot";
import { formatCount, formatShare } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import type { LatencyField } from "../../src/compare/report.ts";
import type { IntervalColumns } from "../../src/present/html/page-data.ts";
import { delayLabels, linearDelay, linearTicks, logDelay, padded } from "../design/scales.ts";
import { Chart, plainAxis, type Readout, RIGHT_PX, type Timeline, valueAxis } from "./chart.ts";
import { delayAxis } from "./delay-axis.ts";
import { el } from "./elements.ts";
import { legend } from "./legend.ts";

/** In this order, from top to bottom. */
const LINES: { field: LatencyField; label: string; colour: "p50" | "p90" | "p99"; dash?: number[] }[] = [
  { field: "p99Ns", label: "p99", colour: "p99", dash: [6, 4] },
  { field: "p90Ns", label: "p90", colour: "p90" },
  { field: "p50Ns", label: "p50", colour: "p50" },
];

/** Returns the middle of each interval in seconds. The last interval may be shorter; its point is where that of a full one would be. */
function middles(intervals: IntervalColumns): number[] {
  const width = intervals.endNs.length > 0 ? intervals.endNs[0]! - intervals.startNs[0]! : 0;
  return intervals.startNs.map((start) => (start + width / 2) / 1e9);
}

/** Points of the lines: positions in seconds, and the interval of each; null interrupts the line. */
interface Points {
  xs: number[];
  interval: (number | null)[];
}

/** A long report may leave out intervals without packets; no line is drawn across them. */
function linePoints(intervals: IntervalColumns, stepped: boolean): Points {
  const points: Points = { xs: [], interval: [] };
  const add = (x: number, interval: number | null) => {
    points.xs.push(x);
    points.interval.push(interval);
  };
  const centres = middles(intervals);
  for (const [i, startNs] of intervals.startNs.entries()) {
    const endedNs = i === 0 ? startNs : intervals.endNs[i - 1]!;
    if (startNs > endedNs) add((startNs + endedNs) / 2e9, null);
    if (stepped) add(startNs / 1e9, i);
    add(stepped ? intervals.endNs[i]! / 1e9 : centres[i]!, i);
  }
  return points;
}

/** Up to this many intervals are drawn as steps of their width, because a line through few points shows little. */
const MAX_STEPS = 24;

const widthNs = (intervals: IntervalColumns, i: number) => intervals.endNs[i]! - intervals.startNs[i]!;

function intervalTitle(timeline: Timeline, intervals: IntervalColumns, i: number): string {
  const width = widthNs(intervals, i);
  const decimals = width >= 1e9 ? 0 : 3;
  return `${timeline.instant(intervals.startNs[i]! / 1e9, decimals)} + ${formatNs(width, 3)}`;
}

/**
 * Returns whether a logarithmic axis is better: all values are positive, and the slow packets are far above the usual ones. A few very fast packets are no
 * reason, because they would dominate the axis.
 */
export function suitsLog(minimum: number, usual: number, greatest: number): boolean {
  return minimum > 0 && greatest / usual > 8;
}

export function delayOverTime(
  intervals: IntervalColumns,
  usualNs: number,
  timeline: Timeline,
): HTMLElement[] {
  const { latency } = intervals;
  const known = latency.minNs.flatMap((v) => v ?? []);
  const minimum = known.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const greatest = latency.maxNs.reduce<number>((a, b) => Math.max(a, b ?? a), Number.NEGATIVE_INFINITY);
  let log = suitsLog(minimum, usualNs, greatest);
  const stepped = intervals.startNs.length <= MAX_STEPS;
  const { xs, interval } = linePoints(intervals, stepped);
  const chart = new Chart({
    label: `Delay over time in ${intervals.startNs.length} intervals, from ${formatNs(minimum)} to ${formatNs(greatest)}. Arrow keys read values.`,
    heightPx: 300,
    timeline,
    draw(theme) {
      const scale = log ? logDelay : linearDelay;
      const column = (field: LatencyField) =>
        interval.map((i) => (i === null ? null : scale.toPos(latency[field][i] ?? null)));
      const points = {
        show: !stepped,
        size: 4,
        width: 1,
        // With many points, only those without a line: points between two gaps.
        ...(xs.length <= 80 ? {} : { filter: (plot: uPlot, of: number) => isolated(plot.data[of] ?? []) }),
      };
      const edge: uPlot.Series = { stroke: theme.band, width: 1, points: { show: false } };
      return {
        data: [xs, column("maxNs"), column("minNs"), ...LINES.map((l) => column(l.field))],
        series: [
          {},
          { ...edge, label: "min–max" },
          { ...edge, label: "min–max" },
          ...LINES.map((l) => ({
            label: l.label,
            stroke: theme[l.colour],
            width: l.field === "p50Ns" ? 2 : 1.5,
            points: { ...points, fill: theme[l.colour] },
            ...(l.dash && { dash: l.dash }),
          })),
        ],
        bands: [{ series: [1, 2], fill: theme.band }],
        hooks: stepped ? {} : { draw: [(plot) => drawIsolated(plot, theme.band)] },
        scales: {
          x: timeline.scale(),
          y: {
            range: (_plot, low, high) =>
              low === null || high === null ? [0, 1] : delayRange(log, low, high),
          },
        },
        axes: [
          timeline.axis(theme),
          valueAxis(theme, scale.ticks, (ticks) => delayLabels(ticks.map(scale.fromPos))),
        ],
      };
    },
    readout(plot, index): Readout | null {
      const i = interval[index] ?? null;
      if (i === null) return null;
      const value = (field: LatencyField) => latency[field][i] ?? null;
      const title = intervalTitle(timeline, intervals, i);
      if (value("meanNs") === null) return { title, rows: [["delay", "no packet was matched"]] };
      const row = (label: string, field: LatencyField): [string, string] => [
        label,
        value(field) === null ? "–" : formatNs(value(field)!),
      ];
      return {
        title,
        rows: [
          row("max", "maxNs"),
          ...LINES.map((l): [string, string, string] => [
            ...row(l.label, l.field),
            String(seriesColour(plot, l.label)),
          ]),
          row("mean", "meanNs"),
          row("min", "minNs"),
          ["matched", formatCount(intervals.matched[i]!)],
        ],
      };
    },
  });
  const switcher = delayAxis(log, minimum, (chosen) => {
    log = chosen;
    chart.rebuild();
  });
  return [
    el(
      "div",
      { class: "tools" },
      legend(chart, [
        { label: "p50", kind: "line", colour: "p50" },
        { label: "p90", kind: "line", colour: "p90" },
        { label: "p99", kind: "dash", colour: "p99" },
        { label: "min–max", kind: "area", colour: "band" },
      ]),
      switcher,
    ),
    chart.root,
  ];
}

/** Returns the indices of values between two gaps. */
function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const known = (i: number) => values[i] !== null && values[i] !== undefined;
  const found: number[] = [];
  for (let i = 0; i < values.length; i++) if (known(i) && !known(i - 1) && !known(i + 1)) found.push(i);
  return found;
}

/** Draws the range from min to max of intervals between two gaps; a band would have no width there. */
function drawIsolated(plot: uPlot, colour: string): void {
  const [xs, maximum, minimum] = plot.data;
  if (plot.series[1]?.show === false || !maximum || !minimum) return;
  const { ctx } = plot;
  ctx.save();
  ctx.fillStyle = colour;
  const width = 4 * devicePixelRatio;
  for (const i of isolated(maximum)) {
    const x = plot.valToPos(xs[i] ?? 0, "x", true);
    if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
    const [top, bottom] = [maximum[i], minimum[i]].map((v) => plot.valToPos(v ?? 0, "y", true)) as [
      number,
      number,
    ];
    ctx.fillRect(x - width / 2, top, width, Math.max(devicePixelRatio, bottom - top));
  }
  ctx.restore();
}

function delayRange(log: boolean, low: number, high: number): [number, number] {
  const [from, to] = log && high - low < 1e-9 ? [low - 0.1, high + 0.1] : padded(low, high);
  // The axis starts at zero if zero is close, so that heights are proportional to delays.
  return !log && low >= 0 && (from < 0 || low < (high - low) * 1.5) ? [0, to] : [from, to];
}

function seriesColour(plot: uPlot, label: string): unknown {
  const series = plot.series.find((s) => s.label === label);
  return typeof series?.stroke === "function" ? series.stroke(plot, 0) : series?.stroke;
}

export function lossOverTime(intervals: IntervalColumns, timeline: Timeline): HTMLElement[] {
  const xs = middles(intervals);
  const rate = intervals.lost.map((lost, i) => {
    const could = lost + intervals.matched[i]!;
    return could > 0 ? lost / could : null;
  });
  const lostInAll = intervals.lost.reduce((a, b) => a + b, 0);
  const worst = rate.reduce<number>((a, b) => Math.max(a, b ?? 0), 0);
  const bars = uPlot.paths.bars!({ size: [0.86, Number.POSITIVE_INFINITY], align: 0 });
  const chart = new Chart({
    label: `Packets over time: ${formatCount(lostInAll)} lost, at most ${formatShare(worst)} in one interval. Arrow keys read values.`,
    heightPx: 230,
    timeline,
    rightAxis: true,
    draw: (theme) => ({
      data: [xs, intervals.sent, intervals.lost, rate],
      series: [
        {},
        { label: "sent", scale: "packets", fill: theme.sent, width: 0, paths: bars, points: { show: false } },
        { label: "lost", scale: "packets", fill: theme.loss, width: 0, paths: bars, points: { show: false } },
        {
          label: "loss rate",
          scale: "rate",
          stroke: theme.loss,
          width: 1.5,
          points: { show: xs.length <= 80, size: 5, fill: theme.card, stroke: theme.loss },
        },
      ],
      scales: {
        x: timeline.scale(),
        packets: { range: (_plot, _low, high) => [0, (high || 1) * 1.05] },
        // Without loss the line stays inside the chart, and a tiny loss rate does not fill it.
        rate: { range: (_plot, _low, high) => [0, Math.max((high ?? 0) * 1.15, 0.001)] },
      },
      axes: [
        timeline.axis(theme),
        valueAxis(theme, linearTicks, (ticks) => ticks.map(compactCount), { scale: "packets" }),
        {
          ...plainAxis(theme),
          scale: "rate",
          side: 1,
          size: RIGHT_PX,
          grid: { show: false },
          stroke: theme.loss,
          splits: (plot, _axis, min, max) => linearTicks(min, max, Math.max(2, plot.height / 60)),
          values: (_plot, ticks) => ticks.map(formatShare),
        },
      ],
    }),
    readout: (_plot, i) => ({
      title: intervalTitle(timeline, intervals, i),
      rows: [
        ["sent", formatCount(intervals.sent[i]!)],
        ["matched", formatCount(intervals.matched[i]!)],
        ["lost", formatCount(intervals.lost[i]!)],
        ["loss rate", rate[i] === null ? "no packet to judge by" : formatShare(rate[i]!)],
      ],
    }),
  });
  return [
    el(
      "div",
      { class: "tools" },
      legend(chart, [
        { label: "sent", kind: "block", colour: "sent" },
        { label: "lost", kind: "block", colour: "loss" },
        { label: "loss rate", kind: "line", colour: "loss" },
      ]),
    ),
    chart.root,
  ];
}

function compactCount(n: number): string {
  if (n >= 1e9) return `${n / 1e9} G`;
  if (n >= 1e6) return `${n / 1e6} M`;
  if (n >= 1e4) return `${n / 1e3} k`;
  return Number.isInteger(n) ? formatCount(n) : "";
}
