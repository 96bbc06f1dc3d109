/** The map of points and segments. Each segment is a link, labelled with its delay and with the ratio to its normal delay. */
import { scaleLinear, scaleLog } from "d3-scale";
import { useEffect, useRef, useState } from "preact/hooks";
import { currentTheme, heatColour } from "../../design/theme.ts";
import { keepPlaces, type Node } from "../state/layout.ts";
import { hrefTo } from "../state/location.ts";
import { type LabelledLink, nameOffset, placeLabels } from "../state/map-labels.ts";
import type { Segment } from "../state/segments.ts";
import { coloursChanged } from "../state/settings.ts";
import { delayText, shareText } from "./text.ts";

export interface Link {
  from: string;
  to: string;
  /** Null: no measurement. */
  segment: Segment | null;
  /** The step that is shown, and its length. */
  step: number;
  stepMs: number;
  incident: boolean;
  faded: boolean;
  /** A link of the network's map that is not a segment. */
  plain?: boolean;
}

/** The role of a point in the plan: it measures, or is one of the next upgrades. */
export interface NodeMark {
  kind: "measures" | "next";
  text?: string;
}

/** Ratio to the normal delay, from 1 to 16. */
const heat = scaleLog([1, 16], [0.12, 1]).clamp(true);
/** Legend of the link colours. */
export function MapLegend() {
  void coloursChanged.value;
  const theme = currentTheme();
  return (
    <span class="map-legend">
      {HEAT_STEPS.map((times, i) => (
        <span key={times}>
          <i style={{ background: heatColour(theme, heat(times)) }} />
          {times}×{i === HEAT_STEPS.length - 1 ? " and more" : ""}
        </span>
      ))}
    </span>
  );
}
const HEAT_STEPS = [1, 2, 4, 8, 16];

const widthOf = scaleLog([10, 1e6], [2.5, 10]).clamp(true);

interface Shown {
  meanNs: number | null;
  times: number | null;
  lossRate: number | null;
  perSecond: number;
}

function shown({ segment, step }: Link): Shown {
  if (!segment) return { meanNs: null, times: null, lossRate: null, perSecond: 0 };
  const last = step >= segment.meanNs.length - 1;
  // The last step may have just begun, so the newest epoch is shown instead.
  const meanNs = segment.meanNs[step] ?? (last ? (segment.latest?.latency?.meanNs ?? null) : null);
  const normal = segment.normal?.valueNs ?? null;
  const { latest } = segment;
  const lengthS = latest ? Number(BigInt(latest.endNs) - BigInt(latest.startNs)) / 1e9 : 1;
  return {
    meanNs,
    times: meanNs !== null && normal !== null && normal > 0 ? meanNs / normal : null,
    lossRate: segment.lossRate[step] ?? null,
    perSecond: (latest?.sent ?? 0) / Math.max(1e-3, lengthS),
  };
}

export function NetworkMap({
  nodes,
  links,
  marks,
}: {
  nodes: ReadonlyMap<string, Node>;
  links: readonly Link[];
  marks?: ReadonlyMap<string, NodeMark>;
}) {
  const svg = useRef<SVGSVGElement>(null);
  const [, setMoved] = useState(0);
  const { widthPx, heightPx } = useSize(svg);
  void coloursChanged.value;
  const xs = [...nodes.values()].map((n) => n.x);
  // Minimum width: a map of two points is not enlarged to the full width.
  const width = Math.max(Math.min(640, widthPx || 640), Math.max(...xs) - Math.min(...xs) + 180);
  const shrunk = Math.max(1, width / Math.max(1, widthPx));
  // A narrow screen is tall, so points are moved apart vertically.
  const stretch = stretchOf(nodes.values(), shrunk, heightPx);
  const all = [...nodes.values()].map((n) => ({ ...n, y: n.y * stretch, own: n }));
  const ys = all.map((n) => n.y);
  const height = Math.max(400, Math.max(...ys) - Math.min(...ys) + 140);
  const left = (Math.max(...xs) + Math.min(...xs) - width) / 2;
  const top = (Math.max(...ys) + Math.min(...ys) - height) / 2;
  const drag = (node: Node, event: PointerEvent) => {
    const target = event.currentTarget as SVGGElement;
    target.setPointerCapture(event.pointerId);
    const matrix = svg.current?.getScreenCTM();
    if (!matrix) return;
    const scale = 1 / matrix.a;
    const begin = { x: node.x - event.clientX * scale, y: node.y - (event.clientY * scale) / stretch };
    const move = (e: PointerEvent) => {
      node.x = begin.x + e.clientX * scale;
      node.y = begin.y + (e.clientY * scale) / stretch;
      setMoved((n) => n + 1);
    };
    target.addEventListener("pointermove", move);
    target.addEventListener(
      "pointerup",
      () => {
        target.removeEventListener("pointermove", move);
        keepPlaces([node]);
      },
      { once: true },
    );
  };
  const placed = new Map(all.map((n) => [n.name, n]));
  const drawn = links.flatMap((link) => drawnLink(link, placed, { links, brief: shrunk > BRIEF }) ?? []);
  const labels = placeLabels(drawn, all, shrunk);
  return (
    <svg
      ref={svg}
      class="map"
      viewBox={`${left} ${top} ${width} ${height}`}
      // Keeps texts and points at their size on the screen when the map is scaled down.
      style={{ "--shrunk": shrunk.toFixed(2) }}
      role="group"
      aria-label="Points and segments"
    >
      {drawn.map((own, i) => (
        <MapLink key={`${own.link.from}\n${own.link.to}`} own={own} label={labels[i] ?? own} />
      ))}
      {all.map((node) => (
        <g
          key={node.name}
          class={`node ${marks?.get(node.name)?.kind ?? ""}`}
          transform={`translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`}
          onPointerDown={(e) => drag(node.own, e)}
        >
          <circle r={(marks?.get(node.name)?.kind === "next" ? 13 : 9) * Math.min(2, shrunk)} />
          {marks?.get(node.name)?.text && (
            <text class="mark" y="4" text-anchor="middle">
              {marks.get(node.name)?.text}
            </text>
          )}
          <text y={nameOffset(shrunk)} text-anchor="middle">
            {shortened(node.name)}
          </text>
          <title>{node.name}</title>
        </g>
      ))}
    </svg>
  );
}

const NAME_LENGTH = 18;
function shortened(name: string): string {
  const letters = [...name];
  return letters.length <= NAME_LENGTH ? name : `${letters.slice(0, NAME_LENGTH - 1).join("")}…`;
}

const MOST_STRETCH = 3;
/** Scale from which texts are shortened. */
const BRIEF = 1.2;

function stretchOf(nodes: Iterable<Node>, shrunk: number, heightPx: number): number {
  const ys = [...nodes].map((n) => n.y);
  const own = Math.max(...ys) - Math.min(...ys);
  if (shrunk <= BRIEF || !(own > 0)) return 1;
  return Math.max(1, Math.min(MOST_STRETCH, (heightPx * shrunk - 140) / own));
}

function useSize(svg: { current: SVGSVGElement | null }): { widthPx: number; heightPx: number } {
  const [size, setSize] = useState({ widthPx: 1000, heightPx: 500 });
  useEffect(() => {
    const { current } = svg;
    if (!current) return;
    const fit = new ResizeObserver(() =>
      setSize({ widthPx: current.clientWidth || 1000, heightPx: current.clientHeight || 500 }),
    );
    fit.observe(current);
    return () => fit.disconnect();
  }, []);
  return size;
}

interface DrawnLink extends LabelledLink {
  link: Link;
  shown: Shown;
  path: string;
}

function drawnLink(
  link: Link,
  nodes: ReadonlyMap<string, Node>,
  { links, brief }: { links: readonly Link[]; brief: boolean },
): DrawnLink | null {
  const [a, b] = [nodes.get(link.from), nodes.get(link.to)];
  if (!a || !b) return null;
  const both = links.some((l) => l.from === link.to && l.to === link.from);
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = Math.hypot(dx, dy) || 1;
  // Bends to the right of its direction, so that the two directions lie side by side.
  const bend = both ? scaleLinear([0, 400], [10, 34])(length) : 0;
  const [x, y] = [(a.x + b.x) / 2 - (dy / length) * bend, (a.y + b.y) / 2 + (dx / length) * bend];
  const path = `M${a.x} ${a.y}Q${2 * x - (a.x + b.x) / 2} ${2 * y - (a.y + b.y) / 2} ${b.x} ${b.y}`;
  const values = shown(link);
  const { lossRate } = values;
  const text = `${valueText(values, brief)}${lossRate !== null && lossRate > 0 ? ` loss ${shareText(lossRate)}` : ""}`;
  return {
    link,
    shown: values,
    path,
    ...{ x, y, dx, dy },
    text: link.plain ? "" : text,
    first: link.incident,
  };
}

/** Ratio to normal below which it is omitted in shortened texts. */
const UNUSUAL = 1.5;

function valueText({ meanNs, times }: Shown, brief = false): string {
  if (meanNs === null) return "";
  return `${delayText(meanNs)}${times === null || (brief && times < UNUSUAL) ? "" : ` (${times.toFixed(times < 10 ? 1 : 0)}×)`}`;
}

function MapLink({ own, label }: { own: DrawnLink; label: { x: number; y: number } }) {
  const { link, path, text } = own;
  const { meanNs, times, lossRate, perSecond } = own.shown;
  if (link.plain) return <path d={path} class="link plain" />;
  const measured = meanNs !== null;
  const words = measured
    ? `${valueText(own.shown)} ${times === null ? "" : "of its normal"}${lossRate ? `, loss ${shareText(lossRate)}` : ""}`
    : link.segment
      ? "no answer at this time"
      : "not measured";
  const colour = measured ? heatColour(currentTheme(), heat(Math.max(1, times ?? 1))) : null;
  const title = `${link.from} → ${link.to}: ${words}`;
  return (
    <a
      href={hrefTo(["segment", link.from, link.to, link.segment?.label ?? ""])}
      aria-label={title}
      class={link.faded ? "faded" : link.incident ? "in-incident" : ""}
    >
      <title>{title}</title>
      <path d={path} class="link-room" />
      {link.incident && (
        <path d={path} class="link-incident" style={{ strokeWidth: widthOf(Math.max(10, perSecond)) + 8 }} />
      )}
      <path
        d={path}
        class={measured ? "link" : "link unmeasured"}
        style={{
          ...(colour ? { stroke: colour } : {}),
          strokeWidth: measured ? widthOf(Math.max(10, perSecond)) : 2,
        }}
      />
      <Arrow x={own.x} y={own.y} angle={(Math.atan2(own.dy, own.dx) * 180) / Math.PI} />
      <text class="link-text" x={label.x} y={label.y} text-anchor="middle">
        {text}
      </text>
    </a>
  );
}

function Arrow({ x, y, angle }: { x: number; y: number; angle: number }) {
  return (
    <path
      class="arrow-head"
      d="M-5 -5L5 0L-5 5Z"
      transform={`translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${angle.toFixed(1)})`}
    />
  );
}
