/** What a monitor reads from the results when it begins: the stored incidents, and the rows that their evaluation depends on. */
import { earlier, later } from "../../base/time.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { SegmentRow } from "../../results/rows.ts";
import { type IncidentJson, type ReportedIncident, readIncident } from "./incident-json.ts";

/** Number of closed incidents that are read at the start. */
const REMEMBERED = 200;
const MAX_SEEDED_NS = 86_400_000_000_000n;
/** Later than any row. */
export const FAR_NS = 9_000_000_000_000_000_000n;

type Wanted = (from: string, to: string, label: string, estimator: string) => boolean;

/** Returns the rows since a time, and up to `before` earlier ones per segment and estimator. */
export async function rowsSince(
  results: ResultsStore,
  sinceNs: bigint,
  before: number,
  isWanted: Wanted,
): Promise<SegmentRow[]> {
  const rows: SegmentRow[] = [];
  for (const { from, to, label, estimators, lastNs } of await results.segments())
    for (const estimator of estimators) {
      if (!isWanted(from, to, label, estimator)) continue;
      const which = { from, to, label, estimator };
      const oldestNs = lastNs - MAX_SEEDED_NS;
      const atNs = later(oldestNs, earlier(sinceNs, lastNs));
      rows.push(...(await results.lastRows({ ...which, fromNs: oldestNs, toNs: atNs }, before)));
      if (atNs < lastNs)
        rows.push(...(await results.segmentRows({ ...which, fromNs: atNs, toNs: lastNs }, 0)));
    }
  return rows;
}

export async function storedIncidents(results: ResultsStore): Promise<ReportedIncident[]> {
  const list = await results.incidents.list({ limit: REMEMBERED });
  const open = await results.incidents.list({ limit: REMEMBERED, open: true });
  const bodies = new Map([...open, ...list].map((h) => [h.id, h.body]));
  return [...bodies.values()].map((body) => readIncident(JSON.parse(body) as IncidentJson));
}
