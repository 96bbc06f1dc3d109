// Packets without a partner although the other capture was running, or near its ends: kept for a second look at what happens to packets on the way (merging,
// splitting, rewriting: src/match/residue/), and the pairs found by it.

import { Batch } from "../decode/batch";
import { directionOf, flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { recordIn, Table, tableAdd } from "../flows/tables";
import { FATE_ONLY_AFTER, FATE_ONLY_BEFORE } from "./fates";
import { intervalAt, intervalKnown, NO_INTERVAL, settleRecent } from "./intervals";
import { countPairs } from "./match-count";
import { Interval, INTERVAL_BYTES, Match, PLACES_UNKNOWN } from "./match-state";

@unmanaged
export class Alone {
  time: f64; // on the matcher's time axis
  flow: u32;
  side: u32;
  fate: u32; // FATE_*, with DOUBTED if it could be another, EARLY if its flow had no direction yet
  mark: u32; // low half of its digest: other packets of its flow may have the same time
}
export const ALONE_BYTES: u32 = 24;
export const DOUBTED: u32 = 0x100;
export const EARLY: u32 = 0x200;
export const FATE: u32 = 0xff;
/** Maximum number kept: 96 MB. */
export const MAX_ALONE: u32 = 1 << 22;

export function keepAlone(m: Match, side: u32, time: f64, flow: u32, fate: u32, mark: u32): void {
  if (changetype<Table>(m.alone).count >= MAX_ALONE) return;
  const alone = changetype<Alone>(<usize>tableAdd(m.alone, ALONE_BYTES));
  alone.time = time;
  alone.flow = flow;
  alone.side = side;
  alone.fate = fate;
  alone.mark = mark;
}

/** Returns the number of packets without a partner that no end of a capture explains. */
export function matchOnlyCount(p: usize): f64 {
  return changetype<Match>(p).onlyBefore + changetype<Match>(p).onlyAfter;
}
export function matchAloneCount(p: usize): u32 {
  return changetype<Table>(changetype<Match>(p).alone).count;
}
/** Returns whether both sides have such packets that no end of a capture explains for certain. */
export function matchAloneBoth(p: usize): u32 {
  const alone = changetype<Table>(changetype<Match>(p).alone);
  let sides: u32 = 0;
  for (let i: u32 = 0; i < alone.count && sides != 3; i++) {
    const one = changetype<Alone>(<usize>recordIn(alone.segments, i, ALONE_BYTES));
    const fate = one.fate & FATE;
    if (fate == FATE_ONLY_BEFORE || fate == FATE_ONLY_AFTER || (one.fate & DOUBTED) != 0) sides |= one.side == 0 ? 1 : 2;
  }
  return sides == 3 ? 1 : 0;
}
/** Returns the address of one of them. */
export function matchAlone(p: usize, number: u32): usize {
  return <usize>recordIn(changetype<Table>(changetype<Match>(p).alone).segments, number, ALONE_BYTES);
}

/** Adds a pair that was found after the matching. */
export function matchAdd(p: usize, flow: u32, before: f64, after: f64): void {
  const m = changetype<Match>(p);
  const entry = heap.alloc(32);
  memory.fill(entry, 0, 32);
  store<f64>(entry, before, 8);
  store<u32>(entry, flow, 16);
  const columns = heap.alloc(16);
  store<f64>(columns, after);
  store<u32>(columns, 0, 8);
  const batch = changetype<Batch>(heap.alloc(offsetof<Batch>()));
  batch.time = <u32>columns;
  batch.flags = <u32>columns + 8;
  store<u32>(m.found, <u32>entry);
  store<u32>(m.found, 0, 4);
  store<u32>(m.found, 0, 8);
  m.foundCount = 1;
  m.pairCount = 0;
  m.backPairCount = 0;
  m.settling = PLACES_UNKNOWN;
  countPairs(m, batch, 1, 0);
  m.settling = 0;
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
  settleRecent(m);
  heap.free(changetype<usize>(batch));
  heap.free(columns);
  heap.free(entry);
}

/** Packets counted as lost before their flow turned out to come from AFTER were not sent at BEFORE; intervals count packets sent there. */
export function matchCorrectEarly(p: usize): void {
  const m = changetype<Match>(p);
  const table = changetype<Table>(m.alone);
  const flows = flowSegments(changetype<FlowStats>(m.stats));
  for (let i: u32 = 0; i < table.count; i++) {
    const alone = changetype<Alone>(<usize>recordIn(table.segments, i, ALONE_BYTES));
    if ((alone.fate & EARLY) == 0 || (alone.fate & FATE) != FATE_ONLY_BEFORE || directionOf(flowIn(flows, alone.flow)) != 2) continue;
    alone.fate &= ~EARLY;
    matchLost(p, alone.time, -1);
  }
}

/** Counts packets sent at `time` as seen at both points, without a delay of their own. */
export function matchWithout(p: usize, time: f64, packets: i32): void {
  const m = changetype<Match>(p);
  settleRecent(m);
  const interval = changetype<Interval>(m.intervals + intervalAt(m, time) * INTERVAL_BYTES);
  interval.ambiguous = max<i32>(0, <i32>interval.ambiguous + packets);
}

/** Changes the number of lost packets among those sent at `time`. */
export function matchLost(p: usize, time: f64, change: i32): void {
  const m = changetype<Match>(p);
  const at = intervalKnown(m, time);
  if (at == NO_INTERVAL) return;
  const interval = changetype<Interval>(m.intervals + at * INTERVAL_BYTES);
  interval.lost = max<i32>(0, <i32>interval.lost + change);
}
