/** Formats the plan as a table for the terminal: one line per step, with the curve as bars on a logarithmic scale. */

import { entryAt } from "../../base/lists.ts";
import { countOf } from "../../base/quantity.ts";
import type { Plan, PlanStep } from "../../network/plan/plan.ts";
import { partNotes } from "../svg/plan-picture.ts";
import { type Column, formatTable } from "./table.ts";

const BAR = 30;

export function formatPlan(plan: Plan): string {
  const last = entryAt(plan.steps, -1);
  const lines = [
    `${plan.topology}: ${countOf(plan.routers, "router")}, ${countOf(plan.links, "directed link")}; strategy ${plan.strategy}`,
    ...plan.notes.map((note) => `note: ${note}`),
    ...partNotes(plan).map((note) => `note: ${note}`),
    ...(plan.already.length > 0 ? [`upgraded already: ${plan.already.join(", ")}`] : []),
    ...(plan.exact ? [] : ["note: path counts beyond 2^53 are rounded"]),
    "",
  ];
  const first = entryAt(plan.steps, 0);
  const rows = plan.steps.map((step) => [
    String(step.upgraded),
    step.router ?? (step.upgraded === 0 ? "(none)" : step.routers ? `{${step.routers.join(", ")}}` : ""),
    grouped(step.probeHops),
    grouped(step.segments.count),
    String(step.segments.minHops ?? "–"),
    hopsText(step.segments.meanHops),
    String(step.segments.maxHops ?? "–"),
    ...extras(step),
    bar(step.probeHops, first.probeHops, last.probeHops),
  ]);
  const heading = [
    "n",
    "router",
    "probe hops",
    "segments",
    "min",
    "mean",
    "max",
    ...extraHeadings(first),
    "probe hops, log",
  ];
  const columns = heading.map((title, i): Column<string[]> => {
    const left = i === 1 || i === heading.length - 1;
    return { title, align: left ? "left" : "right", value: (row) => row[i] ?? "", maxWidth: 48 };
  });
  lines.push(formatTable(columns, rows, { indent: "" }));
  const saved = first.probeHops > 0 ? 1 - last.probeHops / first.probeHops : 0;
  lines.push(
    "",
    `${countOf(last.upgraded, "upgrade")}: ${(100 * saved).toFixed(1)} % fewer probe hops, mean segment ` +
      `${hopsText(first.segments.meanHops)} → ${hopsText(last.segments.meanHops)} hops`,
  );
  if (plan.links === 0) lines.push("There is no link, so no path to measure.");
  else if ((last.segments.maxHops ?? 0) <= 1)
    lines.push("Every segment is a single hop: more upgrades would change nothing.");
  return `${lines.join("\n")}\n`;
}

function hopsText(hops: number | null): string {
  return hops === null ? "–" : hops.toFixed(2);
}

function extras(step: PlanStep): string[] {
  return [
    ...(step.trafficMeanHops === undefined ? [] : [hopsText(step.trafficMeanHops)]),
    ...(step.totalCost === undefined ? [] : [String(step.totalCost)]),
    ...(step.repeated === undefined ? [] : [grouped(Math.round(step.repeated.meanProbeHops))]),
    ...(step.greedyProbeHops === undefined ? [] : [grouped(step.greedyProbeHops)]),
  ];
}

function extraHeadings(step: PlanStep): string[] {
  return [
    ...(step.trafficMeanHops === undefined ? [] : ["traffic mean"]),
    ...(step.totalCost === undefined ? [] : ["cost"]),
    ...(step.repeated === undefined ? [] : [`mean of ${step.repeated.runs} runs`]),
    ...(step.greedyProbeHops === undefined ? [] : ["greedy"]),
  ];
}

function bar(value: number, maximum: number, minimum: number): string {
  const low = Math.log(Math.max(1, minimum)) * 0.9;
  const high = Math.log(Math.max(2, maximum));
  const share = (Math.log(Math.max(1, value)) - low) / Math.max(1e-9, high - low);
  return "█".repeat(Math.max(1, Math.round(BAR * share)));
}

function grouped(value: number): string {
  return Number.isSafeInteger(value)
    ? value.toLocaleString("en-US")
    : Number(value.toPrecision(6)).toLocaleString("en-US");
}
