// Flows that the two points name otherwise, where addresses are translated between them: packets are counted by the name that BEFORE has for their flow.

import { flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { Match } from "./match-state";

/** `flow` + 1 of a table of numbers by number of a flow, which grows with it; the first one stays. Returns where the table is. */
function note(table: u32, room: u32, at: u32, flow: u32): u32 {
  if (at >= room) {
    const fresh = heap.alloc((at + 1) << 3);
    memory.fill(fresh, 0, (at + 1) << 3);
    if (table != 0) {
      memory.copy(fresh, table, room << 2);
      heap.free(table);
    }
    table = <u32>fresh;
  }
  if (load<u32>(table + (at << 2)) == 0) store<u32>(table + (at << 2), flow + 1);
  return table;
}

/** Flow `before`, as BEFORE names it, is flow `after` at the other point. */
export function mapFlow(m: Match, before: u32, after: u32): void {
  m.mapped = note(m.mapped, m.mappedRoom, before, after);
  if (before >= m.mappedRoom) m.mappedRoom = (before + 1) << 1;
  m.named = note(m.named, m.namedRoom, after, before);
  if (after >= m.namedRoom) m.namedRoom = (after + 1) << 1;
}

/** A packet of AFTER without a partner counts for its flow as BEFORE names it, where that is known. */
export function nameBefore(m: Match, after: u32): u32 {
  const before = after < m.namedRoom ? load<u32>(m.named + (after << 2)) : 0;
  if (before == 0 || before - 1 == after) return after;
  const segments = flowSegments(changetype<FlowStats>(m.stats));
  flowIn(segments, after).received--;
  flowIn(segments, before - 1).received++;
  return before - 1;
}

/** A packet of AFTER that waited (an entry of a log, or a row of a repeated digest) is one of flow `before`, as BEFORE names it. */
export function rename(m: Match, entry: u32, before: u32): void {
  const after = load<u32>(entry, 16);
  mapFlow(m, before, after);
  if (after == before) return;
  const segments = flowSegments(changetype<FlowStats>(m.stats));
  flowIn(segments, after).received--;
  flowIn(segments, before).received++;
  store<u32>(entry, before, 16);
}

/** What AFTER names a flow: its number, or -1. */
export function matchMapped(p: usize, flow: u32): i32 {
  const m = changetype<Match>(p);
  return flow < m.mappedRoom ? <i32>load<u32>(m.mapped + (flow << 2)) - 1 : -1;
}
