/** A small chart of one flow over time: median and maximum delay, lost packets as bars below, and the median of all packets for comparison. */
import { formatCount } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import { el } from "./elements.ts";

type Series = NonNullable<PageData["flowSeries"]["forward"]>;

const WIDTH = 640;
const HEIGHT = 120;
const LOSS_PX = 22;

function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number>,
  ...children: (SVGElement | string)[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** Returns null if the flow has no series. */
export function flowPicture(
  series: Series | null,
  row: number,
  wholeP50Ns: number | null,
): HTMLElement | null {
  const at = series?.rows.indexOf(row) ?? -1;
  const [p50, maximum, lost, sent] = [
    series?.p50Ns[at],
    series?.maxNs[at],
    series?.lost[at],
    series?.sent[at],
  ];
  if (!series || !p50 || !maximum || !lost || !sent) return null;
  const known = [...p50, ...maximum].filter((v) => v !== null);
  if (known.length === 0) return null;
  const low = Math.min(...known, wholeP50Ns ?? Number.POSITIVE_INFINITY);
  const high = Math.max(...known, low + 1);
  const bottom = HEIGHT - LOSS_PX - 6;
  const x = (step: number) => (WIDTH * (step + 0.5)) / sent.length;
  const y = (ns: number) => 4 + (bottom - 4) * (1 - (ns - low) / (high - low));
  const worst = Math.max(1, ...lost);
  const bars = lost.flatMap((n, step) => {
    if (n === 0) return [];
    const height = Math.max(2, (LOSS_PX * n) / worst);
    const place = { x: x(step) - 4, y: HEIGHT - height, width: 8, height, class: "series-loss" };
    return [
      svg("rect", place, svg("title", {}, `${formatCount(n)} of ${formatCount(sent[step] ?? 0)} lost`)),
    ];
  });
  const label = `Delay over time: from ${formatNs(low)} to ${formatNs(high)}, ${formatCount(lost.reduce((a, b) => a + b, 0))} packets lost`;
  return el(
    "figure",
    { class: "flow-series" },
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      ...(wholeP50Ns === null
        ? []
        : [svg("line", { class: "series-all", x1: 0, x2: WIDTH, y1: y(wholeP50Ns), y2: y(wholeP50Ns) })]),
      ...pieces(maximum, x, y, "series-max"),
      ...pieces(p50, x, y, "series-p50"),
      ...bars,
    ),
    el(
      "figcaption",
      { class: "muted" },
      `p50 (thick) and maximum of ${formatNs(series.stepNs, 3)} each, from ${formatNs(low, 3)} to ${formatNs(high, 3)}; dashed: p50 of all packets; bars: lost packets`,
    ),
  );
}

/** Draws no line across steps without packets; a step between two such steps is a dot. */
function pieces(
  values: readonly (number | null)[],
  x: (step: number) => number,
  y: (ns: number) => number,
  kind: string,
): SVGElement[] {
  const runs: [number, number][][] = [];
  for (const [step, ns] of values.entries()) {
    if (ns === null) continue;
    if (step === 0 || values[step - 1] === null) runs.push([]);
    runs.at(-1)?.push([x(step), y(ns)]);
  }
  return runs.map((run) => {
    const [first] = run;
    if (run.length === 1 && first) return svg("circle", { class: kind, cx: first[0], cy: first[1], r: 2 });
    return svg("polyline", {
      class: kind,
      points: run.map((p) => p.map((v) => v.toFixed(1)).join()).join(" "),
    });
  });
}
