/** The distribution of delays: the share of packets with at most a given delay or, for the tail, more. */

import uPlot from "uplot";
import { formatShare } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import type { Latency } from "../../src/compare/report.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import { delayLabels, linearDelay, linearTicks, logDelay, padded } from "../design/scales.ts";
import { Chart, plainAxis, valueAxis } from "./chart.ts";
import { delayAxis } from "./delay-axis.ts";
import { choice, el } from "./elements.ts";
import { suitsLog } from "./over-time.ts";

const MARKS: { field: "p50Ns" | "p90Ns" | "p99Ns" | "p999Ns"; label: string }[] = [
  { field: "p50Ns", label: "p50" },
  { field: "p90Ns", label: "p90" },
  { field: "p99Ns", label: "p99" },
  { field: "p999Ns", label: "p99.9" },
];

export function distribution(cdf: PageData["cdf"], latency: Latency | null): HTMLElement[] {
  const { delayNs, share } = cdf;
  // The curve starts with a step from 0 at the minimum delay; otherwise a constant delay would draw nothing.
  const xsNs = [delayNs[0]!, ...delayNs];
  const shares = [0, ...share];
  let log = suitsLog(delayNs[0]!, latency?.p50Ns ?? delayNs[0]!, delayNs[delayNs.length - 1]!);
  let tail = false;
  const lowest = share.reduce((minimum, s) => (s < 1 ? Math.min(minimum, 1 - s) : minimum), 1);
  const steps = uPlot.paths.stepped!({ align: 1 });
  const chart = new Chart({
    label: `Distribution of delays from ${formatNs(xsNs[0]!)} to ${formatNs(xsNs[xsNs.length - 1]!)}. Arrow keys read values.`,
    heightPx: 320,
    draw(theme) {
      const scale = log ? logDelay : linearDelay;
      const across = xsNs.map((ns) => scale.toPos(ns) ?? 0);
      const up = shares.map((s) => (tail ? (s < 1 ? Math.log10(1 - s) : null) : s));
      return {
        data: [across, up],
        series: [
          {},
          {
            label: tail ? "share above" : "share at or below",
            stroke: theme.p50,
            fill: tail ? undefined : theme.band,
            width: 2,
            paths: steps,
            points: { show: false },
          } as uPlot.Series,
        ],
        scales: {
          x: { time: false, range: (_plot, low, high) => padded(low, high, 0.03) },
          y: { range: () => (tail ? [Math.log10(lowest) - 0.15, 0] : [0, 1]) },
        },
        axes: [
          {
            ...plainAxis(theme),
            splits: (plot, _axis, low, high) => scale.ticks(low, high, Math.max(2, plot.width / 85)),
            values: (_plot, ticks) => delayLabels(ticks.map(scale.fromPos)),
          },
          tail
            ? valueAxis(
                theme,
                (low) => wholeNumbers(low),
                (ticks) => ticks.map((pos) => formatShare(10 ** pos)),
              )
            : valueAxis(theme, linearTicks, (ticks) => ticks.map(formatShare)),
        ],
        hooks: {
          draw: [
            (plot) => {
              if (latency) drawMarks(plot, latency, (ns) => scale.toPos(ns), theme.muted, theme.grid);
            },
          ],
        },
      };
    },
    readout: (_plot, i) => ({
      title: formatNs(xsNs[i]!),
      rows: [
        ["at or below", formatShare(shares[i]!)],
        ["above", formatShare(1 - shares[i]!)],
      ],
    }),
  });
  const minimum = xsNs[0]!;
  return [
    el(
      "div",
      { class: "tools" },
      choice(
        "Curve",
        [
          { value: "cdf", label: "CDF" },
          { value: "ccdf", label: "Tail (CCDF)" },
        ],
        "cdf",
        (kind) => {
          tail = kind === "ccdf";
          chart.rebuild();
        },
      ),
      delayAxis(log, minimum, (chosen) => {
        log = chosen;
        chart.rebuild();
      }),
    ),
    chart.root,
  ];
}

function wholeNumbers(low: number): number[] {
  return Array.from({ length: Math.floor(-low) + 1 }, (_, i) => -i);
}

function drawMarks(
  plot: uPlot,
  latency: Latency,
  toPos: (ns: number) => number | null,
  ink: string,
  line: string,
): void {
  const { ctx, bbox } = plot;
  const dpr = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * dpr}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.lineWidth = dpr;
  ctx.setLineDash([3 * dpr, 3 * dpr]);
  let free = Number.NEGATIVE_INFINITY;
  for (const { field, label } of MARKS) {
    const pos = toPos(latency[field]);
    if (pos === null) continue;
    const x = Math.round(plot.valToPos(pos, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ink;
    ctx.globalAlpha = 0.55;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.fillStyle = ink;
    // A label that would overlap the previous one is left out; the numbers are in the table beside the chart.
    if (x < free) continue;
    const wide = ctx.measureText(label).width + 8 * dpr;
    const fits = x + wide < bbox.left + bbox.width;
    ctx.fillText(label, fits ? x + 4 * dpr : x - wide + 4 * dpr, bbox.top + bbox.height - 6 * dpr);
    free = x + wide;
  }
  ctx.strokeStyle = line;
  ctx.restore();
}
