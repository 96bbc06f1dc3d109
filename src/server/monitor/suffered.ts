/**
 * Finds the flows affected by an incident: those whose delay (or loss) during it exceeds that before it, intervals included. Only stored flows are considered,
 * the largest of each epoch.
 */

import { ESTIMATORS } from "../../estimators/table.ts";
import type { Incident } from "../../network/incidents/incident.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import { allFlows, type FlowSummary } from "../../results/series.ts";

export interface SufferedFlow {
  flow: string;
  packets: number | null;
  lost: number | null;
  /** During the incident, and before it; null if the flow was not there, or not among the largest. */
  latency: FlowSummary["latency"];
  before: FlowSummary["latency"];
}

/** Maximum time span evaluated: the last part of the incident, and as much before it. */
const LOOK_NS = 120_000_000_000n;
const MOST = 10;

export interface Suffered {
  /** The most affected flows. */
  flows: SufferedFlow[];
  /** Number of all affected flows. */
  flowCount: number;
}

const NOBODY: Suffered = { flows: [], flowCount: 0 };

export async function sufferedFlows(results: ResultsStore, incident: Incident): Promise<Suffered> {
  const { segment, startNs, endNs } = incident;
  if (!segment) return NOBODY;
  const known = (await results.segments()).filter((s) => s.from === segment.from && s.to === segment.to);
  const able = ESTIMATORS.filter((e) => e.answers.includes("flow")).map((e) => e.name);
  for (const { from, to, label, estimators } of known) {
    const estimator = able.find((name) => estimators.includes(name));
    if (estimator === undefined) continue;
    const which = { from, to, label, estimator };
    const since = endNs - startNs > LOOK_NS ? endNs - LOOK_NS : startNs;
    const during = await allFlows(results, { ...which, fromNs: since, toNs: endNs });
    if (during.length === 0) continue;
    const earlier = await allFlows(results, { ...which, fromNs: startNs - LOOK_NS, toNs: startNs });
    return worst(incident, during, new Map(earlier.map((f) => [f.flow, f])));
  }
  return NOBODY;
}

function worst(
  incident: Incident,
  during: readonly FlowSummary[],
  earlier: ReadonlyMap<string, FlowSummary>,
): Suffered {
  const found = during.flatMap((now) => {
    const before = earlier.get(now.flow) ?? null;
    const weight = incident.kind === "delay" ? slower(incident, now, before) : lostMore(now, before);
    if (!(weight > 0)) return [];
    const { flow, packets, lost, latency } = now;
    return [{ weight, summary: { flow, packets, lost, latency, before: before?.latency ?? null } }];
  });
  found.sort((a, b) => b.weight - a.weight);
  return { flows: found.slice(0, MOST).map((f) => f.summary), flowCount: found.length };
}

/** Returns the delay added to all packets of the flow, in ns; 0 if the intervals show none. */
function slower({ baseline, peak }: Incident, now: FlowSummary, before: FlowSummary | null): number {
  if (!now.latency) return 0;
  const packets = now.packets ?? 0;
  const was = before?.latency;
  if (was) return now.latency.lowNs > was.highNs ? packets * (now.latency.meanNs - was.meanNs) : 0;
  // Not seen before: it counts if its delay is above the middle of the segment's rise.
  const middle = (baseline + peak) / 2;
  return now.latency.lowNs > middle ? packets * (now.latency.meanNs - baseline) : 0;
}

/** Returns the packets lost in addition to the usual loss; a lower bound if not all losses are known. */
function lostMore(now: FlowSummary, before: FlowSummary | null): number {
  if (!now.packets) return 0;
  const lost = now.lost ?? now.lostLow;
  const rate = before?.packets ? (before.lost ?? before.lostLow) / before.packets : 0;
  const expected = rate * now.packets;
  // Three standard deviations of a count.
  return lost > expected + 3 * Math.sqrt(expected + 1) ? lost - expected : 0;
}
