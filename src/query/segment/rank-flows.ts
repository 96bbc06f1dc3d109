/** Which groups have the most packets, from the lists of flows alone: one list per epoch, the sender's where it has one. */
import { FlowLists } from "../../collect/flow-lists.ts";
import type { RecordHandle } from "../../collect/record-handle.ts";
import type { Estimator } from "../../estimators/estimator.ts";
import { FlowGroups } from "./groups.ts";
import type { Question } from "./question.ts";
import { FlowRanking, NO_RANKING, type Wanted } from "./top-flows.ts";

/** Fewer than this are kept whole: ranking reads every list once more. */
const FEW_FLOWS = 20_000;

export function rankFlows(
  handles: readonly RecordHandle[],
  { top, flows, group, between }: Question,
  table: readonly Estimator[],
): Wanted {
  if (top === undefined || flows !== undefined || top >= Number.MAX_SAFE_INTEGER) return NO_RANKING;
  const listing = new Set(table.filter((e) => e.flowList).map((e) => e.name));
  const own = handles.filter((h) => listing.has(h.estimator));
  // So few packets cannot be many flows.
  if (own.reduce((n, h) => n + h.packets, 0) <= FEW_FLOWS) return NO_RANKING;
  const ranking = new FlowRanking();
  const groups = new Map<string, FlowGroups>();
  const done = new Set<string>();
  const lists = new FlowLists(table);
  for (const handle of own) lists.add(handle);
  for (const point of between) {
    for (const handle of own) {
      if (handle.point !== point) continue;
      const { mode, startNs, endNs, startId } = handle.epoch;
      const epoch = `${mode}/${startNs}/${endNs}/${startId}`;
      if (done.has(epoch)) continue;
      try {
        const listed = lists.of([handle], handle.read());
        if (!listed) continue;
        done.add(epoch);
        const by = groups.get(handle.key) ?? new FlowGroups(handle.key, group);
        groups.set(handle.key, by);
        for (let i = 0; i < listed.count; i++) {
          const packets = listed.packets[i] ?? 0;
          const name = by.find(listed, i, null);
          if (name) ranking.add(name.words, packets > 0 ? packets : 1);
        }
      } catch {
        // A list that cannot be read ranks nothing; the epoch is named when it is asked.
      }
    }
  }
  return ranking.size === 0 ? NO_RANKING : ranking.top(top);
}
