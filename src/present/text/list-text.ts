/** Formats the lists of a collector as tables: segments, paths, incidents, alerts, points, upgrades (`hoptime query URL --list …`). */

import { formatCount, formatPercent } from "../../base/quantity.ts";
import { formatInstant, formatLasting, formatNs } from "../../base/time.ts";
import { HEALTH_WORDS, type Health } from "../../results/health.ts";
import type { SegmentOverview } from "../../results/overview.ts";
import { type DescribedIncident, type IncidentWords, incidentSentence } from "./incident-sentence.ts";
import type { Palette } from "./palette.ts";
import { segmentText } from "./segment-name.ts";
import { type Column, formatTable } from "./table.ts";

const dash = "–";
const ns = (value: number | null | undefined) =>
  value === null || value === undefined ? dash : formatNs(value, 3);
const count = (n: number | null | undefined) => (n === null || n === undefined ? dash : formatCount(n));
const time = (text: string) => `${formatInstant(BigInt(text), 0).slice(0, 19)}Z`;
const msOf = (text: string) => Number(BigInt(text) / 1_000_000n);

export interface ListedSegment extends SegmentOverview {
  state: Health;
  /** Ratio to its normal value. */
  overNormal: number | null;
  /** Values of the time step that was asked for. */
  at?: ListedStep;
}

export interface ListedStep {
  startNs: string;
  meanNs: number | null;
  lossRate: number | null;
  incident: boolean;
}

const times = (value: number | null) => (value === null ? dash : `${value.toFixed(value < 10 ? 1 : 0)}×`);

const LEVELS = "▁▂▃▄▅▆▇█";
const LINE = 20;

/** Draws delay over time as one line of characters, scaled from its minimum to its maximum, with a gap where there is no answer. */
function textLine(values: readonly (number | null)[]): string {
  const per = Math.max(1, Math.ceil(values.length / LINE));
  const parts: (number | null)[] = [];
  for (let i = 0; i < values.length; i += per) {
    const known = values.slice(i, i + per).filter((v) => v !== null);
    parts.push(known.length === 0 ? null : Math.max(...known));
  }
  const all = parts.filter((v) => v !== null);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const level = (v: number) =>
    high > low ? Math.round(((v - low) / (high - low)) * (LEVELS.length - 1)) : 0;
  return parts.map((v) => (v === null ? " " : LEVELS[level(v)])).join("");
}

export function formatSegmentList(list: readonly ListedSegment[], c: Palette): string {
  const columns: Column<ListedSegment>[] = [
    { title: "segment", align: "left", value: segmentText },
    { title: "by", align: "left", value: (s) => s.estimator },
    { title: "over time", align: "left", value: (s) => textLine(s.meanNs) },
    { title: "now", value: (s) => ns(s.latest?.latency?.meanNs) },
    {
      title: "95 %",
      value: ({ latest }) =>
        latest?.latency ? `${ns(latest.latency.lowNs)} … ${ns(latest.latency.highNs)}` : dash,
    },
    { title: "normal", value: (s) => ns(s.normal?.valueNs) },
    { title: "of normal", value: (s) => times(s.overNormal) },
    { title: "loss", value: (s) => formatPercent(s.sent ? (s.lost ?? 0) / s.sent : null) },
    { title: "answered", value: (s) => formatPercent(s.latest?.answered ?? null) },
    { title: "state", align: "left", value: (s) => HEALTH_WORDS[s.state] },
  ];
  return table(columns, list, "no segment fits", c);
}

/** Formats the map's segments at an instant. */
export function formatSegmentsAt(list: readonly ListedSegment[], c: Palette): string {
  const over = ({ at, normal }: ListedSegment) =>
    at?.meanNs != null && normal && normal.valueNs > 0 ? at.meanNs / normal.valueNs : null;
  const columns: Column<ListedSegment>[] = [
    { title: "segment", align: "left", value: segmentText },
    { title: "by", align: "left", value: (s) => s.estimator },
    { title: "mean", value: (s) => ns(s.at?.meanNs) },
    { title: "normal", value: (s) => ns(s.normal?.valueNs) },
    { title: "of normal", value: (s) => times(over(s)) },
    { title: "loss", value: (s) => formatPercent(s.at?.lossRate ?? null) },
    { title: "", align: "left", value: (s) => (s.at?.incident ? "incident" : "") },
  ];
  const begins = list[0]?.at ? `from ${time(list[0].at.startNs)}\n` : "";
  return begins + table(columns, list, "no segment fits", c);
}

const WORDS: IncidentWords = {
  delay: (value) => formatNs(value, 3),
  share: (share) => formatPercent(share),
  count: formatCount,
  time,
  lasting: (startNs, endNs) => formatLasting(msOf(endNs) - msOf(startNs)),
};

export function formatIncidents(
  incidents: readonly (DescribedIncident & { confidence: number })[],
  c: Palette,
): string {
  if (incidents.length === 0) return "no incidents in this time\n";
  return incidents
    .map((i) => {
      const text = incidentSentence(i, WORDS);
      const sure = i.kind === "clock" ? "" : c.dim(` (confidence ${formatPercent(i.confidence, 1)})`);
      return `${i.state === "open" ? c.yellow(text) : text}${sure}\n`;
    })
    .join("");
}

export interface ListedPath {
  name: string;
  segments: {
    from: string;
    to: string;
    latency: { meanNs: number } | null;
    share: number | null;
    lossRate: number | null;
  }[];
  latency: { meanNs: number } | null;
  incidents: string[];
}

export function formatPaths(paths: readonly ListedPath[], c: Palette): string {
  if (paths.length === 0) return "no path is watched, or none matches\n";
  const columns: Column<ListedPath["segments"][number]>[] = [
    { title: "segment", align: "left", value: (s) => `${s.from} → ${s.to}` },
    { title: "mean", value: (s) => ns(s.latency?.meanNs) },
    { title: "share", value: (s) => formatPercent(s.share) },
    { title: "loss", value: (s) => formatPercent(s.lossRate) },
  ];
  return paths
    .map(({ name, latency, segments, incidents }) => {
      const open = incidents.length === 0 ? "" : c.yellow(`  ${incidents.length} open`);
      return `${c.bold(name)} ${ns(latency?.meanNs)}${open}\n${formatTable(columns, segments, { colours: c })}\n`;
    })
    .join("\n");
}

export interface ListedAlerts {
  rules: { name: string; when: string; segment: string | null; to: string[]; active: number }[];
  alerts: {
    name: string;
    target: string;
    state: string;
    beganNs: string;
    endedNs: string | null;
    summary: string;
  }[];
}

export function formatAlerts({ rules, alerts }: ListedAlerts, c: Palette): string {
  const alertColumns: Column<ListedAlerts["alerts"][number]>[] = [
    { title: "alert", align: "left", value: (a) => `${a.name}: ${a.target.replace(":", " → ")}` },
    { title: "state", align: "left", value: (a) => a.state },
    { title: "began", align: "left", value: (a) => time(a.beganNs) },
    {
      title: "lasted",
      value: (a) => (a.endedNs === null ? "goes on" : formatLasting(msOf(a.endedNs) - msOf(a.beganNs))),
    },
    { title: "what", align: "left", value: (a) => a.summary },
  ];
  const ruleColumns: Column<ListedAlerts["rules"][number]>[] = [
    { title: "rule", align: "left", value: (r) => r.name },
    { title: "when", align: "left", value: (r) => r.when },
    { title: "segment", align: "left", value: (r) => r.segment ?? "all" },
    { title: "to", align: "left", value: (r) => r.to.join(", ") || dash },
    { title: "active", value: (r) => formatCount(r.active) },
  ];
  return `${table(alertColumns, alerts, "no alerts, active or ended", c)}\n${table(ruleColumns, rules, "no rules: add them to the collector's settings (docs/config.md)", c)}`;
}

export interface ListedPoint {
  name: string;
  tap: {
    heardMs: number;
    program: string;
    packets: number;
    /** Undefined with older collectors. */
    packetsPerSecond?: number | null;
    dropped: number | null;
    clock: { synchronised: boolean; discipline: string | null; estimatedErrorNs: number } | null;
    cpuShare: number | null;
    spool: { waiting: number; dropped: number } | null;
  } | null;
  missing: number | null;
  packetsPerSecond: number | null;
  state: string;
}

export function formatPoints(points: readonly ListedPoint[], atMs: number, c: Palette): string {
  const clock = (tap: ListedPoint["tap"]) =>
    !tap?.clock
      ? dash
      : tap.clock.synchronised
        ? `${tap.clock.discipline ?? "synchronised"} ±${ns(tap.clock.estimatedErrorNs)}`
        : "not synchronised";
  const columns: Column<ListedPoint>[] = [
    { title: "point", align: "left", value: (p) => p.name },
    { title: "last heard", value: ({ tap }) => (tap ? `${formatLasting(atMs - tap.heardMs)} ago` : dash) },
    { title: "packets/s", value: (p) => (p.packetsPerSecond === null ? dash : count(p.packetsPerSecond)) },
    { title: "dropped", value: ({ tap }) => count(tap?.dropped) },
    { title: "in its spool", value: ({ tap }) => count(tap?.spool?.waiting) },
    { title: "missing", value: (p) => count(p.missing) },
    { title: "clock", align: "left", value: ({ tap }) => clock(tap) },
    { title: "CPU", value: ({ tap }) => formatPercent(tap?.cpuShare ?? null) },
    { title: "version", align: "left", value: ({ tap }) => tap?.program ?? dash },
    { title: "state", align: "left", value: (p) => p.state },
  ];
  return table(columns, points, "no tap has sent a record yet, or none matches", c);
}

interface PlanStep {
  upgraded: number;
  router: string | null;
  probeHops: number;
  segments: { meanHops: number | null; maxHops: number | null };
}

export interface ListedUpgrades {
  routers: string[];
  plan: { already: string[]; steps: PlanStep[] } | null;
  reason: string | null;
}

export function formatUpgrades({ routers, plan, reason }: ListedUpgrades, c: Palette): string {
  if (!plan) return `${reason}\n`;
  const columns: Column<PlanStep>[] = [
    { title: "upgrade", align: "left", value: (s) => s.router ?? "none" },
    { title: "mean hops", value: (s) => s.segments.meanHops?.toFixed(2) ?? dash },
    { title: "max", value: (s) => count(s.segments.maxHops) },
    { title: "probe hops", value: (s) => formatCount(s.probeHops) },
  ];
  return `${formatCount(plan.already.length)} of ${formatCount(routers.length)} routers measure\n${table(columns, plan.steps, "", c)}`;
}

function table<T>(columns: readonly Column<T>[], rows: readonly T[], none: string, c: Palette): string {
  return rows.length === 0 ? `${none}\n` : `${formatTable(columns, rows, { colours: c })}\n`;
}
