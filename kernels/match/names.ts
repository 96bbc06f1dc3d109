// Flows with different keys at the two points because of address translation: packets are counted under the key at BEFORE.

import { flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { Match } from "./match-state";

/** Stores `flow` + 1 in a table indexed by flow id, which grows with it; the first entry stays. Returns the address of the table. */
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

/** Records that flow `before`, named by its key at BEFORE, is flow `after` at the other point. */
export function mapFlow(m: Match, before: u32, after: u32): void {
  m.mapped = note(m.mapped, m.mappedRoom, before, after);
  if (before >= m.mappedRoom) m.mappedRoom = (before + 1) << 1;
  m.named = note(m.named, m.namedRoom, after, before);
  if (after >= m.namedRoom) m.namedRoom = (after + 1) << 1;
}

/** A packet of AFTER without a partner counts for its flow under the key at BEFORE, if known. */
export function nameBefore(m: Match, after: u32): u32 {
  const before = after < m.namedRoom ? load<u32>(m.named + (after << 2)) : 0;
  if (before == 0 || before - 1 == after) return after;
  const segments = flowSegments(changetype<FlowStats>(m.stats));
  flowIn(segments, after).received--;
  flowIn(segments, before - 1).received++;
  return before - 1;
}

/** Moves a waiting packet of AFTER (an entry of a log, or a row of a repeated digest) to flow `before`, named by its key at BEFORE. */
export function rename(m: Match, entry: u32, before: u32): void {
  const after = load<u32>(entry, 16);
  mapFlow(m, before, after);
  if (after == before) return;
  const segments = flowSegments(changetype<FlowStats>(m.stats));
  flowIn(segments, after).received--;
  flowIn(segments, before).received++;
  store<u32>(entry, before, 16);
}

/** Returns the id of a flow under AFTER's key, or -1. */
export function matchMapped(p: usize, flow: u32): i32 {
  const m = changetype<Match>(p);
  return flow < m.mappedRoom ? <i32>load<u32>(m.mapped + (flow << 2)) - 1 : -1;
}
