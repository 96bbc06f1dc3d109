/** An upgrade plan as an HTML report: what it saves, the map and the curves, then every step. */
import { entryAt } from "../../base/lists.ts";
import { countOf, formatCount, formatShare } from "../../base/quantity.ts";
import type { Plan, PlanStep } from "../../network/plan/plan.ts";
import type { Topology } from "../../network/topology/topology.ts";
import { chosenRouters, drawCurve, drawLengths, drawMap, partNotes } from "../svg/plan-picture.ts";
import { escapeXml } from "../svg/svg.ts";
import { card, key, notesCard, picture, renderStaticPage, type Tile, table, tiles } from "./static-page.ts";

export function renderPlanHtml(topology: Topology, plan: Plan): string {
  // The best sets found by a search have no order.
  const order = entryAt(plan.steps, -1).routers === undefined ? ", in this order" : "";
  const keyed: [string, string][] = [["chosen", `to be upgraded${order}`]];
  if (plan.already.length > 0) keyed.push(["already", "upgraded already"]);
  return renderStaticPage({
    title: `${plan.topology} · hoptime plan`,
    command: "hoptime plan",
    heading: `Upgrade plan: ${plan.topology}`,
    span: `${countOf(plan.routers, "router")} · ${countOf(plan.links, "directed link")} · strategy ${plan.strategy}`,
    parts: [
      tiles(headline(plan)),
      `<div class="beside-map">${card("map", "Map", key(keyed), picture(drawMap(topology, plan)))}<div>${card(
        "curve",
        "Probe hops (log scale)",
        picture(drawCurve(plan)),
      )}${card("lengths", "Segment length in hops: mean and range", picture(drawLengths(plan)))}</div></div>`,
      card("steps", "Steps", stepTable(plan.steps)),
      notesCard([...plan.notes, ...partNotes(plan)]),
    ],
    remark: `plan of ${countOf(chosenRouters(plan).length, "upgrade")}`,
  });
}

function headline({ steps }: Plan): Tile[] {
  const [first, last] = [entryAt(steps, 0), entryAt(steps, -1)];
  const saved = first.probeHops > 0 ? 1 - last.probeHops / first.probeHops : 0;
  const hops = (step: PlanStep) => step.segments.meanHops?.toFixed(2) ?? "–";
  return [
    { name: "Routers to upgrade", value: formatCount(last.upgraded), detail: firstOf(steps) },
    {
      name: "Probe hops",
      value: formatCount(last.probeHops),
      detail: `${formatCount(first.probeHops)} before: ${formatShare(saved)} saved`,
    },
    {
      name: "Mean segment length",
      value: `${hops(last)} hops`,
      detail: `${hops(first)} hops before`,
    },
    {
      name: "Longest segment",
      value: last.segments.maxHops === null ? "–" : countOf(last.segments.maxHops, "hop"),
      detail: first.segments.maxHops === null ? "" : `${countOf(first.segments.maxHops, "hop")} before`,
    },
  ];
}

function firstOf(steps: readonly PlanStep[]): string {
  const router = steps.find((step) => step.router)?.router;
  return router ? `first ${router}` : "";
}

function stepTable(steps: readonly PlanStep[]): string {
  const columns = [
    { title: "upgraded", text: true },
    { title: "router", text: true },
    { title: "probe hops" },
    { title: "segments", extra: true },
    { title: "min hops", extra: true },
    { title: "mean hops" },
    { title: "max hops", extra: true },
  ];
  const rows = steps.map((s) => [
    formatCount(s.upgraded),
    escapeXml(s.router ?? (s.routers?.join(", ") || "–")),
    formatCount(s.probeHops),
    formatCount(s.segments.count),
    String(s.segments.minHops ?? "–"),
    s.segments.meanHops?.toFixed(2) ?? "–",
    String(s.segments.maxHops ?? "–"),
  ]);
  return table(columns, rows);
}
