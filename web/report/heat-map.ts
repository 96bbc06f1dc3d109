/** A heat map of time and delay: the number of packets per time step and delay. The colour is the logarithm of the count. */
import type uPlot from "uplot";
import { formatCount } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import type { HeatColumns } from "../../src/present/html/page-data.ts";
import { delayLabels, rowScale } from "../design/scales.ts";
import { currentTheme, heatColour, onThemeChange, type Theme } from "../design/theme.ts";
import { Chart, type Timeline, valueAxis } from "./chart.ts";
import { el } from "./elements.ts";

/** Minimum number of rows: a nearly constant delay should look like a line instead of filling the picture. */
const MIN_ROWS = 12;

export function heatMap(heat: HeatColumns, timeline: Timeline): HTMLElement[] {
  const rows = heat.delayEdgesNs.length - 1;
  const scale = rowScale(heat.delayEdgesNs);
  let maximum = 0;
  let low = rows;
  let high = 0;
  for (const [first, ...counts] of heat.counts) {
    if (counts.length === 0) continue;
    low = Math.min(low, first!);
    high = Math.max(high, first! + counts.length);
    for (const n of counts) if (n > maximum) maximum = n;
  }
  const spare = Math.max(1, Math.ceil((MIN_ROWS - (high - low)) / 2));
  low = Math.max(0, low - spare);
  high = Math.min(rows, high + spare);
  const width = heat.columnWidthNs / 1e9;
  const starts = heat.columnStartNs.map((ns) => ns / 1e9);
  const shade = (n: number) => (maximum <= 1 ? 1 : Math.log(n) / Math.log(maximum));
  const countAt = (column: number, row: number) => {
    const cells = heat.counts[column]!;
    return cells[row - cells[0]! + 1] ?? 0;
  };
  const rowAt = (plot: uPlot) =>
    Math.max(low, Math.min(high - 1, Math.floor(plot.posToVal(plot.cursor.top ?? 0, "y"))));

  const chart = new Chart({
    label: `Heat map of delay over time: ${starts.length} columns, from ${formatNs(heat.delayEdgesNs[low]!)} to ${formatNs(heat.delayEdgesNs[high]!)}, up to ${formatCount(maximum)} packets in a cell. Arrow keys read cells.`,
    heightPx: 300,
    timeline,
    points: false,
    stepPx: (plot) => plot.over.clientHeight / (high - low),
    draw: (theme) => ({
      data: [starts.map((s) => s + width / 2), starts.map(() => null)],
      series: [{}, { label: "packets", paths: () => null, points: { show: false } }],
      scales: { x: timeline.scale(), y: { range: () => [low, high] } },
      axes: [
        { ...timeline.axis(theme), grid: { show: false } },
        valueAxis(theme, scale.ticks, (ticks) => delayLabels(ticks.map(scale.fromPos)), {
          grid: { show: false },
        }),
      ],
      hooks: { drawClear: [(plot) => paint(plot, theme)] },
    }),
    readout(plot, column) {
      const row = rowAt(plot);
      const count = countAt(column, row);
      const [from, to] = [heat.delayEdgesNs[row]!, heat.delayEdgesNs[row + 1]!];
      return {
        title: `${timeline.instant(starts[column]!, width >= 1 ? 0 : 3)} + ${formatNs(heat.columnWidthNs, 3)}`,
        rows: [
          ["delay", `${formatNs(from, 3)} – ${formatNs(to, 3)}`],
          ["packets", formatCount(count), count > 0 ? heatColour(currentTheme(), shade(count)) : undefined],
        ].map(
          ([name, value, colour]) =>
            [name!, value!, ...(colour ? [colour] : [])] as [string, string, string?],
        ),
      };
    },
  });

  const paint = (plot: uPlot, theme: Theme) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const yOf = (row: number) => Math.round(plot.valToPos(row, "y", true));
    for (let column = 0; column < starts.length; column++) {
      const left = Math.round(plot.valToPos(starts[column]!, "x", true));
      const right = Math.max(left + 1, Math.round(plot.valToPos(starts[column]! + width, "x", true)));
      if (right < bbox.left || left > bbox.left + bbox.width) continue;
      const [first, ...counts] = heat.counts[column]!;
      for (let i = 0; i < counts.length; i++) {
        if (counts[i] === 0) continue;
        const bottom = yOf(first! + i);
        const top = Math.min(bottom - 1, yOf(first! + i + 1));
        ctx.fillStyle = heatColour(theme, shade(counts[i]!));
        ctx.fillRect(left, top, right - left, bottom - top);
      }
    }
    ctx.restore();
  };

  return [el("div", { class: "tools" }, colourScale(maximum)), chart.root];
}

function colourScale(maximum: number): HTMLElement {
  const bar = el("span", { class: "ramp" });
  const colour = () => {
    const theme = currentTheme();
    const stops = Array.from({ length: 9 }, (_, i) => heatColour(theme, i / 8));
    bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
  };
  colour();
  onThemeChange(colour);
  const ticks = el("span", { class: "ramp-ticks" });
  const powers =
    maximum > 1 ? Array.from({ length: Math.floor(Math.log10(maximum)) + 1 }, (_, i) => 10 ** i) : [];
  // Leaves out a power of ten that would overlap the maximum.
  const shown = powers.filter((p) => Math.log(p) / Math.log(maximum) < 0.8);
  for (const value of maximum > 1 ? [...shown, maximum] : [maximum]) {
    const tick = el("span", {}, formatCount(value));
    tick.style.left = `${maximum > 1 ? (Math.log(value) / Math.log(maximum)) * 100 : 100}%`;
    ticks.append(tick);
  }
  return el(
    "div",
    {
      class: "ramp-box",
      role: "img",
      aria: { label: `Colour scale: from 1 to ${formatCount(maximum)} packets` },
    },
    el("span", {}, "packets per cell"),
    el("span", { class: "ramp-scale" }, bar, ticks),
  );
}
