/** The plan as a picture (map with chosen routers, the two curves of the paper's figure 9) and as an HTML page. */
import { entryAt } from "../../base/lists.ts";
import type { Plan } from "../../network/plan/plan.ts";
import type { Topology } from "../../network/topology/topology.ts";
import { layout } from "./layout.ts";
import { axes, type Box, escapeXml, linearScale, logScale, polyline, px, SVG_STYLE } from "./svg.ts";

const MAP: Box = { left: 20, top: 40, width: 620, height: 620 };
const CURVE: Box = { left: 720, top: 40, width: 380, height: 250 };
const LENGTHS: Box = { left: 720, top: 370, width: 380, height: 250 };
/** Beyond this many routers names would cover each other; they show when pointed at. */
const NAME_ALL_UP_TO = 40;

export function renderPlanSvg(topology: Topology, plan: Plan): string {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1120 680" width="1120" height="680" role="img" ` +
    `aria-label="${escapeXml(`Upgrade plan of ${plan.topology}`)}"><style>${SVG_STYLE}</style>` +
    `<rect width="1120" height="680" fill="#fff"/>${drawMap(topology, plan)}${drawCurves(plan)}</svg>\n`
  );
}

/** Routers in the order of the plan. */
function chosenRouters(plan: Plan): string[] {
  const last = entryAt(plan.steps, -1);
  return last.routers ? [...last.routers] : plan.steps.flatMap((step) => step.router ?? []);
}

function drawMap(topology: Topology, plan: Plan): string {
  const places = layout(topology).map(({ x, y }) => ({
    x: MAP.left + x * MAP.width,
    y: MAP.top + y * MAP.height,
  }));
  // The best sets of a search have no order: they get no numbers.
  const ordered = entryAt(plan.steps, -1).routers === undefined;
  const rank = new Map(chosenRouters(plan).map((name, i) => [name, i + 1]));
  const already = new Set(plan.already);
  const parts = [
    `<text class="title" x="${MAP.left}" y="24">${escapeXml(plan.topology)}: ${plan.routers} routers, ${rank.size} upgraded</text>`,
  ];
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
  // Chosen routers last: nothing may hide them.
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

function drawCurves(plan: Plan): string {
  const { steps } = plan;
  const maximum = entryAt(steps, -1).upgraded;
  const x = linearScale(0, Math.max(1, maximum), CURVE.left, CURVE.left + CURVE.width);
  const bottom = (box: Box) => box.top + box.height;
  const hops = steps.map((s) => s.probeHops);
  const y = logScale(Math.min(...hops), Math.max(...hops), bottom(CURVE), CURVE.top);
  const lengths = linearScale(
    0,
    Math.max(1, entryAt(steps, 0).segments.maxHops ?? 0),
    bottom(LENGTHS),
    LENGTHS.top,
  );
  const range = [
    ...steps.map((s) => `${px(x.at(s.upgraded))},${px(lengths.at(s.segments.maxHops ?? 0))}`),
    ...[...steps].reverse().map((s) => `${px(x.at(s.upgraded))},${px(lengths.at(s.segments.minHops ?? 0))}`),
  ].join(" ");
  return (
    axes(CURVE, x, y, { title: "Probe hops", x: "upgraded routers" }) +
    polyline(
      steps.map((s) => [x.at(s.upgraded), y.at(s.probeHops)]),
      "line",
    ) +
    axes(LENGTHS, x, lengths, {
      title: "Segment length in hops: mean and range",
      x: "upgraded routers",
    }) +
    `<polygon class="range" points="${range}"/>` +
    polyline(
      steps.map((s) => [x.at(s.upgraded), lengths.at(s.segments.meanHops ?? 0)]),
      "line",
    )
  );
}

/** A page of its own: picture and table, nothing fetched. */
export function renderPlanHtml(topology: Topology, plan: Plan): string {
  const rows = plan.steps
    .map(
      (s) =>
        `<tr><td>${s.upgraded}</td><td class="t">${escapeXml(s.router ?? (s.routers?.join(", ") || "–"))}</td>` +
        `<td>${s.probeHops.toLocaleString("en-US")}</td><td>${s.segments.count.toLocaleString("en-US")}</td>` +
        `<td>${s.segments.minHops ?? "–"}</td><td>${s.segments.meanHops?.toFixed(2) ?? "–"}</td><td>${s.segments.maxHops ?? "–"}</td></tr>`,
    )
    .join("\n");
  const notes = [...plan.notes, ...partNotes(plan)].map((n) => `<li>${escapeXml(n)}</li>`).join("");
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Upgrade plan: ${escapeXml(plan.topology)}</title>
<style>body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1160px;padding:0 1rem;color:#1f2933;background:#fff}
table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #e4e7eb}.t{text-align:left}
svg{max-width:100%;height:auto}</style>
<h1>Which routers to upgrade first: ${escapeXml(plan.topology)}</h1>
<p>${plan.routers} routers, ${plan.links} directed links, strategy ${escapeXml(plan.strategy)}.</p>
${notes ? `<ul>${notes}</ul>` : ""}
${renderPlanSvg(topology, plan)}
<table><thead><tr><th>upgraded</th><th class="t">router</th><th>probe hops</th><th>segments</th><th>min</th><th>mean</th><th>max hops</th></tr></thead>
<tbody>
${rows}
</tbody></table>
</html>
`;
}

export function partNotes(plan: Plan): string[] {
  if (plan.parts.length <= 1) return [];
  return [`${plan.parts.length} unconnected parts of ${plan.parts.join(", ")} routers; each is planned`];
}
