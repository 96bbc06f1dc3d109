/** `hoptime query URL --list WHAT`: what a collector knows about its network, as on the screens of the web page. */
import { invalidValue, oneOf, UsageError } from "../base/errors.ts";
import { newestProgram, tapTrouble } from "../present/tap-trouble.ts";
import type { DescribedIncident } from "../present/text/incident-sentence.ts";
import {
  formatAlerts,
  formatIncidents,
  formatPaths,
  formatPoints,
  formatSegmentList,
  formatSegmentsAt,
  formatUpgrades,
  type ListedAlerts,
  type ListedPath,
  type ListedPoint,
  type ListedSegment,
  type ListedUpgrades,
} from "../present/text/list-text.ts";
import { HEALTHS, healthOf, overNormal } from "../results/health.ts";
import type { Overview } from "../results/overview.ts";
import {
  isDownUsual,
  isLookedFor,
  MAP_STEPS,
  OVERVIEW_STEPS,
  orderSegments,
  SEGMENT_ORDERS,
  type SegmentOrder,
} from "../results/segment-list.ts";
import { isCollectorUrl } from "../transport/http/collector-url.ts";
import { type CollectorFlags, endpointOf } from "./collector-options.ts";
import { printJson, printText } from "./output.ts";
import { colours } from "./terminal.ts";

export interface ListFlags extends CollectorFlags {
  list?: ListName;
  search?: string;
  state?: string;
  sort?: string;
  order?: "up" | "down";
  at?: bigint;
  from?: bigint;
  to?: bigint;
  top?: number;
  json?: boolean;
}

interface Listing {
  json: object;
  text: () => string;
}

type Ask = <T>(path: string, query?: Record<string, string | number | undefined>) => Promise<T>;

const LISTS = { segments, paths, incidents, alerts, points, upgrades };
export type ListName = keyof typeof LISTS;
export const LIST_NAMES = Object.keys(LISTS) as ListName[];

export async function runList(place: string, what: ListName, flags: ListFlags): Promise<void> {
  if (!isCollectorUrl(place))
    throw new UsageError(
      "bad-option",
      `${place}: --list needs a collector`,
      "give its address, http://HOST:PORT; of a directory, --between A B",
    );
  const { askCollector } = await import("../server/client.ts");
  const endpoint = endpointOf(place, flags);
  const ask: Ask = (path, query = {}) => {
    const given = Object.entries(query).flatMap(([k, v]) =>
      v === undefined ? [] : [[k, String(v)] as [string, string]],
    );
    const text = new URLSearchParams(given).toString();
    return askCollector(endpoint, { method: "GET", path: text === "" ? path : `${path}?${text}` });
  };
  const { json, text } = await LISTS[what](ask, flags);
  await (flags.json ? printJson({ format: "hoptime.list/1", list: what, ...json }) : printText(text()));
}

const span = ({ from, to }: ListFlags) => ({ since: from?.toString(), until: to?.toString() });
const isIn = (text: string, { search = "" }: ListFlags) => text.toLowerCase().includes(search.toLowerCase());

async function segments(ask: Ask, flags: ListFlags): Promise<Listing> {
  const state = choice("state", flags.state, HEALTHS);
  const sort: SegmentOrder = choice("sort", flags.sort, SEGMENT_ORDERS) ?? "state";
  const { at, to, search = "", top } = flags;
  const steps = at === undefined ? OVERVIEW_STEPS : MAP_STEPS;
  const overview = await ask<Overview>("/v1/overview", { ...span(flags), steps });
  const ends = overview.segments.flatMap((s) => (s.latest ? [Number(BigInt(s.latest.endNs)) / 1e6] : []));
  const nowMs = to === undefined ? Math.max(0, ...ends) : Number(to) / 1e6;
  const down = (flags.order ?? (isDownUsual(sort) ? "down" : "up")) === "down";
  const stepOf = at === undefined ? null : await stepAt(ask, overview, at, flags);
  const list = orderSegments(overview.segments, { sort, down, nowMs })
    .filter((s) => isLookedFor(s, { search, state, nowMs }))
    .slice(0, top)
    .map(
      (s): ListedSegment => ({
        ...{ ...s, state: healthOf(s, nowMs), overNormal: overNormal(s) },
        ...(stepOf ? { at: stepOf(s) } : {}),
      }),
    );
  return {
    json: { ...overview, segments: list },
    text: () => (stepOf ? formatSegmentsAt(list, colours) : formatSegmentList(list, colours)),
  };
}

/** Returns the step of the overview that contains a point in time, and the segments with an incident at that time. */
async function stepAt(ask: Ask, overview: Overview, at: bigint, flags: ListFlags) {
  const stepNs = BigInt(overview.stepNs);
  const fromNs = BigInt(overview.fromNs);
  const firstNs = fromNs - (fromNs % stepNs);
  const step = Number((at - firstNs) / stepNs);
  const length = overview.segments[0]?.meanNs.length ?? 0;
  if (at < firstNs || step >= length)
    throw invalidValue("at", at, "a time between ‘from’ and ‘to’", { code: "bad-question" });
  const startNs = firstNs + BigInt(step) * stepNs;
  const middleNs = startNs + stepNs / 2n;
  const then = (await allIncidents(ask, flags)).filter(
    (i) => BigInt(i.startNs) <= middleNs && (i.state === "open" || BigInt(i.endNs) >= middleNs),
  );
  return ({ from, to, meanNs, lossRate }: Overview["segments"][number]) => ({
    ...{ startNs: `${startNs}`, meanNs: meanNs[step] ?? null, lossRate: lossRate[step] ?? null },
    incident: then.some((i) => i.segment?.from === from && i.segment.to === to),
  });
}

type Incident = DescribedIncident & { confidence: number };

/** Returns all open incidents, and those that ended within the requested time. */
async function allIncidents(ask: Ask, flags: ListFlags): Promise<Incident[]> {
  const open = await ask<{ incidents: Incident[] }>("/v1/incidents", { state: "open" });
  const closed = await ask<{ incidents: Incident[] }>("/v1/incidents", { state: "closed", ...span(flags) });
  return [...open.incidents, ...closed.incidents];
}

async function incidents(ask: Ask, flags: ListFlags): Promise<Listing> {
  const state = choice("state", flags.state, ["open", "closed"] as const);
  const list = (await allIncidents(ask, flags)).filter(
    (i) =>
      (state === null || i.state === state) &&
      isIn(`${i.segment?.from} → ${i.segment?.to} ${i.paths.join(" ")}`, flags),
  );
  const shown = list.slice(0, flags.top);
  return { json: { incidents: shown }, text: () => formatIncidents(shown, colours) };
}

async function paths(ask: Ask, flags: ListFlags): Promise<Listing> {
  const { paths: all } = await ask<{ paths: (ListedPath & { points: string[] })[] }>("/v1/paths");
  const list = all.filter((p) => isIn(`${p.name} ${p.points.join(" ")}`, flags)).slice(0, flags.top);
  return { json: { paths: list }, text: () => formatPaths(list, colours) };
}

async function alerts(ask: Ask, flags: ListFlags): Promise<Listing> {
  const state = choice("state", flags.state, ["active", "ended"] as const);
  const answer = await ask<ListedAlerts & { next: string | null }>("/v1/alerts", span(flags));
  const list = answer.alerts
    .filter((a) => (state === null || a.state === state) && isIn(`${a.name} ${a.target}`, flags))
    .slice(0, flags.top);
  const chosen = { ...answer, alerts: list };
  return { json: chosen, text: () => formatAlerts(chosen, colours) };
}

type Points = { points: Pick<ListedPoint, "name" | "tap">[] };

async function points(ask: Ask, flags: ListFlags): Promise<Listing> {
  const { points: now } = await ask<Points>("/v1/points");
  const { points: coverage } = await ask<{ points: { point: string; missing: number }[] }>("/v1/coverage");
  const atMs = Date.now();
  const newest = newestProgram(now.flatMap((p) => p.tap?.program ?? []));
  const list = now
    .filter((p) => isIn(p.name, flags))
    .slice(0, flags.top)
    .map(({ name, tap }): ListedPoint => {
      const own = coverage.filter((c) => c.point === name);
      const missing = own.reduce((sum, c) => sum + c.missing, 0);
      return {
        ...{ name, tap, missing: own.length === 0 ? null : missing },
        packetsPerSecond: tap?.packetsPerSecond ?? null,
        state: tapTrouble(tap, { missing, atMs, newest })?.text ?? "well",
      };
    });
  return { json: { points: list }, text: () => formatPoints(list, atMs, colours) };
}

async function upgrades(ask: Ask): Promise<Listing> {
  // Fails with a clear message if the collector is not a station.
  await ask("/v1/station");
  const answer = await ask<ListedUpgrades>("/v1/station/plan");
  return { json: answer, text: () => formatUpgrades(answer, colours) };
}

function choice<T extends string>(
  parameter: string,
  value: string | undefined,
  allowed: readonly T[],
): T | null {
  if (value === undefined) return null;
  const found = allowed.find((a) => a === value);
  if (found === undefined) throw invalidValue(parameter, value, oneOf(allowed));
  return found;
}
