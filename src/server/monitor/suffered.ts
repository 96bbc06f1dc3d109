/** Which flows suffered from an incident: those whose delay (or loss) while it lasted is beyond what it was before, intervals included. Of the flows that are kept, the largest of each epoch. */

import { ESTIMATORS } from "../../estimators/table.ts";
import type { Incident } from "../../network/incidents/incident.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import { allFlows, type FlowSummary } from "../../results/series.ts";

export interface SufferedFlow {
  flow: string;
  packets: number | null;
  lost: number | null;
  /** While it lasted, and before; null where the flow was not there, or not among the largest. */
  latency: FlowSummary["latency"];
  before: FlowSummary["latency"];
}

/** Of the incident, the last so many ns; before it, as many. */
const LOOK_NS = 120_000_000_000n;
const MOST = 10;

export interface Suffered {
  /** Those that suffered most. */
  flows: SufferedFlow[];
  /** All of them. */
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

/** Delay added to all of its packets, ns; 0 where its intervals do not show any. */
function slower({ baseline, peak }: Incident, now: FlowSummary, before: FlowSummary | null): number {
  if (!now.latency) return 0;
  const packets = now.packets ?? 0;
  const was = before?.latency;
  if (was) return now.latency.lowNs > was.highNs ? packets * (now.latency.meanNs - was.meanNs) : 0;
  // Not seen before: beyond the middle of the segment's rise.
  const middle = (baseline + peak) / 2;
  return now.latency.lowNs > middle ? packets * (now.latency.meanNs - baseline) : 0;
}

/** What it has lost at least, where not all of it is known. */
function lostMore(now: FlowSummary, before: FlowSummary | null): number {
  if (!now.packets) return 0;
  const lost = now.lost ?? now.lostLow;
  const rate = before?.packets ? (before.lost ?? before.lostLow) / before.packets : 0;
  const expected = rate * now.packets;
  // Three standard deviations of a count.
  return lost > expected + 3 * Math.sqrt(expected + 1) ? lost - expected : 0;
}
