/** The plan as a picture: the map with the chosen routers, and the two curves of the paper's figure 9. Output is one SVG file, or the parts of a report. */

import { entryAt } from "../../base/lists.ts";
import { countOf } from "../../base/quantity.ts";
import type { Plan } from "../../network/plan/plan.ts";
import type { Topology } from "../../network/topology/topology.ts";
import { layout } from "./layout.ts";
import {
  axes,
  type Box,
  escapeXml,
  linearScale,
  logScale,
  polyline,
  px,
  type Scale,
  SVG_STYLE,
} from "./svg.ts";

const MAP: Box = { left: 20, top: 40, width: 620, height: 620 };
const CURVE: Box = { left: 720, top: 40, width: 380, height: 250 };
const LENGTHS: Box = { left: 720, top: 370, width: 380, height: 250 };
/** With more routers, names would overlap; they show only on hover. */
const NAME_ALL_UP_TO = 40;

export function renderPlanSvg(topology: Topology, plan: Plan): string {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1120 680" width="1120" height="680" role="img" ` +
    `aria-label="${escapeXml(`Upgrade plan of ${plan.topology}`)}"><style>${SVG_STYLE}</style>` +
    `<rect width="1120" height="680" fill="#fff"/>` +
    `<text class="title" x="${MAP.left}" y="24">${escapeXml(plan.topology)}: ${countOf(plan.routers, "router")}, ${chosenRouters(plan).length} upgraded</text>` +
    `${mapParts(topology, plan, MAP)}${curveParts(plan, CURVE, "Probe hops")}${lengthParts(plan, LENGTHS, "Segment length in hops: mean and range")}</svg>\n`
  );
}

function part(width: number, height: number, label: string, content: string): string {
  return `<svg class="picture" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeXml(label)}">${content}</svg>`;
}

/** Draws the parts for a page that already has the style. */
export function drawMap(topology: Topology, plan: Plan): string {
  const box: Box = { left: 30, top: 20, width: 600, height: 560 };
  return part(680, 600, `Map of ${plan.topology}`, mapParts(topology, plan, box));
}

const PART: Box = { left: 46, top: 14, width: 380, height: 200 };

export function drawCurve(plan: Plan): string {
  return part(440, 250, "Probe hops by upgraded routers", curveParts(plan, PART, ""));
}

export function drawLengths(plan: Plan): string {
  return part(440, 250, "Segment length by upgraded routers", lengthParts(plan, PART, ""));
}

/** Returns the chosen routers in the order of the plan. */
export function chosenRouters(plan: Plan): string[] {
  const last = entryAt(plan.steps, -1);
  return last.routers ? [...last.routers] : plan.steps.flatMap((step) => step.router ?? []);
}

function mapParts(topology: Topology, plan: Plan, box: Box): string {
  const places = layout(topology).map(({ x, y }) => ({
    x: box.left + x * box.width,
    y: box.top + y * box.height,
  }));
  // The best sets found by a search have no order, so they get no numbers.
  const ordered = entryAt(plan.steps, -1).routers === undefined;
  const rank = new Map(chosenRouters(plan).map((name, i) => [name, i + 1]));
  const already = new Set(plan.already);
  const parts: string[] = [];
  const drawn = new Set<string>();
  for (const { from, to, up } of topology.links) {
    const key = `${Math.min(from, to)} ${Math.max(from, to)}`;
    if (drawn.has(key)) continue;
    drawn.add(key);
    const a = entryAt(places, from);
    const b = entryAt(places, to);
    const dash = up ? "" : ' stroke-dasharray="3 3"';
    parts.push(`<line class="link" x1="${px(a.x)}" y1="${px(a.y)}" x2="${px(b.x)}" y2="${px(b.y)}"${dash}/>`);
  }
  const radius = Math.max(2, Math.min(6, 90 / Math.sqrt(topology.routers.length)));
  // Draw chosen routers last, so that nothing hides them.
  const order = topology.routers
    .map((router, i) => ({ router, i }))
    .sort((a, b) => Number(rank.has(a.router.name)) - Number(rank.has(b.router.name)));
  for (const { router, i } of order) {
    const { x, y } = entryAt(places, i);
    const nth = rank.get(router.name);
    const kind = nth !== undefined ? "chosen" : already.has(router.name) ? "already" : "router";
    const r = nth !== undefined ? Math.max(6.5, radius * 1.4) : radius;
    parts.push(
      `<circle class="${kind}" cx="${px(x)}" cy="${px(y)}" r="${px(r)}"><title>${escapeXml(router.name)}${
        nth === undefined ? "" : ordered ? ` (upgrade ${nth})` : " (upgraded)"
      }</title></circle>`,
    );
    if (nth !== undefined && ordered)
      parts.push(`<text class="rank" x="${px(x)}" y="${px(y + 2.8)}">${nth}</text>`);
    if (plan.routers <= NAME_ALL_UP_TO)
      parts.push(`<text class="name" x="${px(x + r + 2)}" y="${px(y + 3)}">${escapeXml(router.name)}</text>`);
  }
  return parts.join("");
}

function upgradedScale({ steps }: Plan, box: Box): Scale {
  return linearScale(0, Math.max(1, entryAt(steps, -1).upgraded), box.left, box.left + box.width);
}

function curveParts(plan: Plan, box: Box, title: string): string {
  const { steps } = plan;
  const x = upgradedScale(plan, box);
  const hops = steps.map((s) => s.probeHops);
  const y = logScale(Math.min(...hops), Math.max(...hops), box.top + box.height, box.top);
  return (
    axes(box, x, y, { title, x: "upgraded routers" }) +
    polyline(
      steps.map((s) => [x.at(s.upgraded), y.at(s.probeHops)]),
      "line",
    )
  );
}

function lengthParts(plan: Plan, box: Box, title: string): string {
  const { steps } = plan;
  const x = upgradedScale(plan, box);
  const maximum = Math.max(1, entryAt(steps, 0).segments.maxHops ?? 0);
  const lengths = linearScale(0, maximum, box.top + box.height, box.top);
  const range = [
    ...steps.map((s) => `${px(x.at(s.upgraded))},${px(lengths.at(s.segments.maxHops ?? 0))}`),
    ...[...steps].reverse().map((s) => `${px(x.at(s.upgraded))},${px(lengths.at(s.segments.minHops ?? 0))}`),
  ].join(" ");
  return (
    axes(box, x, lengths, { title, x: "upgraded routers" }) +
    `<polygon class="range" points="${range}"/>` +
    polyline(
      steps.map((s) => [x.at(s.upgraded), lengths.at(s.segments.meanHops ?? 0)]),
      "line",
    )
  );
}

export function partNotes(plan: Plan): string[] {
  if (plan.parts.length <= 1) return [];
  return [`${plan.parts.length} unconnected parts of ${plan.parts.join(", ")} routers; each is planned`];
}
