/**
 * Draws a figure as SVG. Text and axes take the colour of the surrounding text, so that one picture serves light and dark pages. Series differ by colour (the
 * Okabe-Ito palette, which colour-blind readers can tell apart, with yellow and sky blue darkened for white pages), by mark and by dashes, and are named at
 * their ends beside a sample of their line. No script, no style sheet.
 */
import { entryAt } from "../../base/lists.ts";
import { escapeXml, px } from "../svg/svg.ts";
import { type AxisScale, axisScale, writeQuantity } from "./axis-scale.ts";
import type { Figure, Point, Series } from "./figure.ts";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#3897d3", "#8c6bb1"];
const CLAIMED = "#808080";
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 3"];
const TOP = 30;
const BOTTOM = 46;
/** Width of a letter at 11 px in the widest of the usual fonts. */
const LETTER = 7;
const LINE = 13;
/** Room for the name of the vertical axis, and the gaps between it, the numbers and the frame. */
const AXIS_NAME = 28;
/** A sample of the line, in the colour of the series, in front of its name. The name has the colour of text, which is readable on any page. */
const KEY = 11;
const KEY_LENGTH = 22;
/** Margin for marks and lines at the frame's edge. */
const EDGE = 5;

export interface DrawOptions {
  readonly width?: number;
  readonly height?: number;
  /** The SVG is a file of its own and contains the colours of light and dark pages. */
  readonly standalone?: boolean;
}

interface Frame {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

interface Look {
  readonly colour: string;
  readonly dash: string;
  readonly mark: number;
}

export function drawFigure(figure: Figure, options: DrawOptions = {}): string {
  const { width = 640, height = 300, standalone = false } = options;
  const longest = figure.series.reduce((n, s) => Math.max(n, s.name.length), 0);
  const labels = Math.min(width / 2, KEY + KEY_LENGTH + 8 + longest * LETTER);
  const y = axisScale(figure.y, yValues(figure), height - BOTTOM, TOP);
  const numbers = y.ticks.reduce((n, { text }) => Math.max(n, text.length), 0);
  const frame = {
    ...{ left: AXIS_NAME + numbers * LETTER, right: width - labels },
    ...{ top: TOP, bottom: height - BOTTOM },
  };
  const x = withRoom(axisScale(figure.x, xValues(figure), frame.left, frame.right), figure.x);
  const looks = looksOf(figure.series);
  const drawn = figure.series.map((series, i) => drawSeries(series, x, y, entryAt(looks, i)));
  const style = standalone
    ? "<style>svg{color:#1f2933}@media(prefers-color-scheme:dark){svg{color:#e4e7eb}}</style>"
    : "";
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeXml(figure.title)}" ` +
    `font-family="system-ui,sans-serif" font-size="11" fill="currentColor">${style}` +
    `<text x="4" y="16" font-size="13" font-weight="600">${escapeXml(figure.title)}</text>` +
    drawAxes(figure, frame, x, y) +
    inside(frame, drawn.join("")) +
    drawNames(figure.series, looks, frame, x, y) +
    "</svg>"
  );
}

/** Leaves out numbers along the axis that would overlap: every second one, every third …; of 1, 2, 5, 10 the decades stay. Names are all shown. */
function withRoom(scale: AxisScale, { names, scale: kind }: Figure["x"]): AxisScale {
  const { ticks } = scale;
  const width = (text: string) => text.length * LETTER;
  const fits = (every: number) =>
    ticks
      .filter((_, i) => i % every === 0)
      .every(({ at, text }, i, shown) => {
        const before = shown[i - 1];
        return !before || at - before.at >= (width(text) + width(before.text)) / 2 + 3;
      });
  const first = ticks[0];
  if (names || !first || fits(1)) return scale;
  const gaps = ticks.slice(1).map(({ at }, i) => at - entryAt(ticks, i).at);
  const step = kind === "log" && Math.max(...gaps) > 1.1 * Math.min(...gaps) ? 3 : 1;
  let every = Math.max(2, step);
  while (every < ticks.length && !fits(every)) every += step;
  return { ...scale, ticks: ticks.filter((_, i) => i % every === 0) };
}

/** Clips what lies beyond the frame, for axes with a fixed range, by nesting an SVG. */
function inside({ left, right, top, bottom }: Frame, drawn: string): string {
  const [x, y, width, height] = [
    left - EDGE,
    top - EDGE,
    right - left + 2 * EDGE,
    bottom - top + 2 * EDGE,
  ].map(px);
  return `<svg x="${x}" y="${y}" width="${width}" height="${height}" viewBox="${x} ${y} ${width} ${height}" aria-hidden="true">${drawn}</svg>`;
}

/** Returns the figure's data as a table: one row per point. */
export function figureTable(figure: Figure): { columns: string[]; rows: string[][] } {
  const write = (value: number, axis: Figure["x"]) =>
    axis.names?.[value] ?? writeQuantity(value, axis.quantity);
  const rows = figure.series.flatMap(({ name, points }) =>
    points.map((p) => [name, write(p.x, figure.x), write(p.y, figure.y)]),
  );
  return { columns: ["series", figure.x.label, figure.y.label], rows };
}

function xValues({ series }: Figure): number[] {
  return series.flatMap((s) => s.points.map((p) => p.x));
}

function yValues({ series }: Figure): number[] {
  const bars = (p: Point) => [
    p.y,
    ...(p.low === undefined ? [] : [p.low]),
    ...(p.high === undefined ? [] : [p.high]),
  ];
  return series.flatMap((s) => s.points.flatMap(bars));
}

function looksOf(series: readonly Series[]): Look[] {
  let next = 0;
  return series.map(({ claimed }) => {
    if (claimed) return { colour: CLAIMED, dash: "3 3", mark: -1 };
    const i = next++;
    return {
      colour: entryAt(COLOURS, i % COLOURS.length),
      dash: entryAt(DASHES, i % DASHES.length),
      mark: i % 5,
    };
  });
}

function drawAxes({ x: xAxis, y: yAxis }: Figure, frame: Frame, x: AxisScale, y: AxisScale): string {
  const { left, right, top, bottom } = frame;
  const across = y.ticks.map(
    ({ at, text }) =>
      `<path d="M${px(left)} ${px(at)}H${px(right)}" stroke="currentColor" stroke-opacity=".14"/>` +
      `<text x="${px(left - 6)}" y="${px(at + 3.5)}" text-anchor="end" fill-opacity=".75">${escapeXml(text)}</text>`,
  );
  const along = x.ticks.map(
    ({ at, text }) =>
      `<path d="M${px(at)} ${px(bottom)}v4" stroke="currentColor" stroke-opacity=".5"/>` +
      `<text x="${px(at)}" y="${px(bottom + 16)}" text-anchor="middle" fill-opacity=".75">${escapeXml(text)}</text>`,
  );
  const frameLine = `<path d="M${px(left)} ${px(bottom)}H${px(right)}" stroke="currentColor" stroke-opacity=".5"/>`;
  const middle = (left + right) / 2;
  return (
    across.join("") +
    along.join("") +
    frameLine +
    `<text x="${px(middle)}" y="${px(bottom + 34)}" text-anchor="middle">${escapeXml(xAxis.label)}</text>` +
    `<text x="13" y="${px((top + bottom) / 2)}" text-anchor="middle" transform="rotate(-90 13 ${px((top + bottom) / 2)})">${escapeXml(yAxis.label)}</text>`
  );
}

function drawSeries(series: Series, x: AxisScale, y: AxisScale, look: Look): string {
  const shown = series.points.filter((p) => x.has(p.x) && y.has(p.y));
  const kind = series.kind ?? "line";
  const bars = shown
    .filter((p) => p.low !== undefined && p.high !== undefined)
    .map((p) => drawBar(p, x, y, look));
  const marks =
    kind === "steps" || series.claimed
      ? []
      : shown.map((p) => mark(look.mark, x.at(p.x), y.at(p.y), look.colour));
  return (
    (kind === "marks" ? "" : drawLine(shown, x, y, look, kind === "steps")) + bars.join("") + marks.join("")
  );
}

function drawLine(shown: readonly Point[], x: AxisScale, y: AxisScale, look: Look, steps: boolean): string {
  if (shown.length < 2) return "";
  const path = shown.map((p, i) => {
    const [cx, cy] = [px(x.at(p.x)), px(y.at(p.y))];
    if (i === 0) return `M${cx} ${cy}`;
    return steps ? `H${cx}V${cy}` : `L${cx} ${cy}`;
  });
  const dash = look.dash ? ` stroke-dasharray="${look.dash}"` : "";
  return `<path d="${path.join("")}" fill="none" stroke="${look.colour}" stroke-width="1.8"${dash}/>`;
}

function drawBar({ x: at, low = 0, high = 0 }: Point, x: AxisScale, y: AxisScale, look: Look): string {
  if (!y.has(high)) return "";
  const bottom = y.has(low) ? y.at(low) : (entryAt(y.ticks, 0).at ?? y.at(high));
  const [cx, top] = [x.at(at), y.at(high)];
  const caps = `M${px(cx - 3)} ${px(top)}h6M${px(cx - 3)} ${px(bottom)}h6`;
  return `<path d="M${px(cx)} ${px(top)}V${px(bottom)}${caps}" stroke="${look.colour}" stroke-opacity=".7"/>`;
}

/** Draws a circle, square, triangle, diamond or cross. */
function mark(kind: number, x: number, y: number, colour: string): string {
  const at = `M${px(x)} ${px(y)}`;
  if (kind === 0) return `<circle cx="${px(x)}" cy="${px(y)}" r="3" fill="${colour}"/>`;
  if (kind === 1) return `<path d="${at}m-2.8 -2.8h5.6v5.6h-5.6z" fill="${colour}"/>`;
  if (kind === 2) return `<path d="${at}m0 -3.8l3.6 6.4h-7.2z" fill="${colour}"/>`;
  if (kind === 3) return `<path d="${at}m0 -3.9l3.9 3.9l-3.9 3.9l-3.9 -3.9z" fill="${colour}"/>`;
  return `<path d="${at}m-3 -3l6 6m0 -6l-6 6" stroke="${colour}" stroke-width="1.7" fill="none"/>`;
}

/** Draws the series' names at the ends of their lines, moved apart if they would overlap. */
function drawNames(
  series: readonly Series[],
  looks: readonly Look[],
  frame: Frame,
  x: AxisScale,
  y: AxisScale,
): string {
  const named = series.flatMap(({ name, points, kind }, i) => {
    const last = points.findLast((p) => x.has(p.x) && y.has(p.y) && x.at(p.x) <= frame.right + 1);
    const lined = (kind ?? "line") !== "marks" && points.length > 1;
    const marked = kind !== "steps";
    return last ? [{ name, lined, marked, look: entryAt(looks, i), y: y.at(last.y) }] : [];
  });
  named.sort((a, b) => a.y - b.y);
  for (const [i, label] of named.entries()) {
    const above = named[i - 1];
    if (above && label.y < above.y + LINE) label.y = above.y + LINE;
  }
  // Names pushed below the frame: move the last ones up again.
  for (let i = named.length - 1, limit = frame.bottom; i >= 0; i--, limit -= LINE) {
    const label = entryAt(named, i);
    if (label.y > limit) label.y = limit;
  }
  return named
    .map(({ name, lined, marked, look, y: at }) => {
      const dash = look.dash ? ` stroke-dasharray="${look.dash}"` : "";
      const sample = `<path d="M${px(frame.right + KEY)} ${px(at)}h${KEY_LENGTH}" stroke="${look.colour}" stroke-width="1.8"${dash}/>`;
      const point =
        look.mark < 0 || !marked ? "" : mark(look.mark, frame.right + KEY + KEY_LENGTH / 2, at, look.colour);
      const text = `<text x="${px(frame.right + KEY + KEY_LENGTH + 5)}" y="${px(at + 3.5)}">${escapeXml(name)}</text>`;
      return (lined ? sample : "") + point + text;
    })
    .join("");
}
