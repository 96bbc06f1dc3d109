/** Small pieces of inline SVG and HTML: escaped text, axes, lines. They fetch nothing and need no script. */
import { formatCount } from "../../base/quantity.ts";

export function escapeXml(text: string): string {
  return (
    text
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll(">", "&gt;")
      .replaceAll('"', "&quot;")
      .replaceAll("'", "&#39;")
      // biome-ignore lint/suspicious/noControlCharactersInRegex: XML 1.0 allows none of them, escaped or not
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd")
  );
}

/** Rounds to two decimals, so that pictures stay small and are equal on every machine. */
export function px(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Scale {
  readonly at: (value: number) => number;
  readonly ticks: readonly number[];
}

export function linearScale(low: number, high: number, start: number, end: number, about = 5): Scale {
  if (!(high > low)) high = low + 1;
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5].map((m) => m * power).find((s) => s >= raw) ?? 10 * power;
  const ticks: number[] = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step)
    ticks.push(Number(t.toPrecision(12)));
  return { at: (v) => start + ((v - low) / (high - low)) * (end - start), ticks };
}

export function logScale(low: number, high: number, start: number, end: number): Scale {
  const from = Math.floor(Math.log10(Math.max(low, 1)));
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(high, 1))));
  const ticks = Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
  return {
    at: (v) => start + ((Math.log10(Math.max(v, 10 ** from)) - from) / (to - from)) * (end - start),
    ticks,
  };
}

/** Draws frame, grid and labels of a chart. */
export function axes(
  box: Box,
  xScale: Scale,
  yScale: Scale,
  titles: { title: string; x?: string },
  format: { x?: (v: number) => string; y?: (v: number) => string } = {},
): string {
  const fx = format.x ?? shortNumber;
  const fy = format.y ?? shortNumber;
  const { left, top, width, height } = box;
  const parts = [`<text class="title" x="${px(left)}" y="${px(top - 8)}">${escapeXml(titles.title)}</text>`];
  for (const t of yScale.ticks) {
    const y = px(yScale.at(t));
    parts.push(
      `<line class="grid" x1="${px(left)}" x2="${px(left + width)}" y1="${y}" y2="${y}"/>`,
      `<text class="tick" text-anchor="end" x="${px(left - 5)}" y="${px(yScale.at(t) + 3.5)}">${escapeXml(fy(t))}</text>`,
    );
  }
  for (const t of xScale.ticks)
    parts.push(
      `<text class="tick" text-anchor="middle" x="${px(xScale.at(t))}" y="${px(top + height + 14)}">${escapeXml(fx(t))}</text>`,
    );
  if (titles.x)
    parts.push(
      `<text class="tick" text-anchor="middle" x="${px(left + width / 2)}" y="${px(top + height + 29)}">${escapeXml(titles.x)}</text>`,
    );
  return parts.join("");
}

export function polyline(
  points: readonly (readonly [number, number])[],
  className: string,
  style = "",
): string {
  const list = points.map(([x, y]) => `${px(x)},${px(y)}`).join(" ");
  return `<polyline class="${className}"${style ? ` style="${style}"` : ""} points="${list}"/>`;
}

function shortNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return size >= 1000 ? formatCount(value) : String(Number(value.toPrecision(4)));
}

export const SVG_STYLE = `
text{font-family:system-ui,sans-serif;fill:#1f2933}.title{font-size:13px;font-weight:600}.tick{font-size:10.5px;fill:#52606d}
.grid{stroke:#e4e7eb;stroke-width:1}.link{stroke:#b8c2cc;stroke-width:.8}.router{fill:#7b8794;stroke:#fff;stroke-width:.6}
.chosen{fill:#d64545;stroke:#fff;stroke-width:1}.already{fill:#2f6f4f;stroke:#fff;stroke-width:1}
.rank{font-size:8px;font-weight:600;fill:#fff;text-anchor:middle}.name{font-size:9.5px;fill:#1f2933}
.line{fill:none;stroke:#2563a8;stroke-width:1.8}.range{fill:#2563a8;opacity:.14;stroke:none}`;
