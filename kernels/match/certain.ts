// Decides whether a partner found at once is the right one: an identical packet, sent earlier or later, may be the true partner. A pair whose difference of
// timestamps is far from the others is deferred until all are known (kernels/match/repeats.ts).

import { Batch } from "../decode/batch";
import { directionOf, flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { Match, Total } from "./match-state";
import { pieceAt } from "./pieces";
import { addRow, Repeats, startGroup } from "./repeats";
import { placeOf } from "./send-order";
import { COPY, entryOf, EQUALS, filterBit, headOf, Log, logPlace, MATCHED, stateOf } from "./log";
import { logHas, searchOthers } from "./waiting";

/** Differences further than this from all seen so far, in widths of their range, are odd. */
const FAR: f64 = 2;
const FAR_AT_LEAST: f64 = 1000000;
/** Before this many pairs nothing is odd; and after MOST_ODD odd pairs nothing is odd any more: a clock was set, or packets go the other way, too. */
const FEW_PAIRS: u32 = 16;
const MOST_ODD: u32 = 8;
/** This many pairs in calls without an odd one cancel one odd pair. */
const CALM_PAIRS: u32 = 64;
/** Rows of one point further apart than this are not a packet and its copy. */
const TWICE: f64 = 1000000;

function isNear(m: Match, total: Total, sign: f64, send: f64, apart: f64): bool {
  if (total.matched == 0) return false;
  const d = apart - m.offset - m.slope * (send + apart - m.pivot) - pieceAt(m, send, apart, sign > 0);
  const delay = sign > 0 ? d : -d - m.back;
  return delay >= total.minimum - widthOf(total) && delay <= total.maximum + widthOf(total);
}

/**
 * A packet of BEFORE has its partner among those that arrived before it by their timestamps. That partner may belong to an earlier identical packet: it is
 * certain only if there is no other one, and the difference is a usual one.
 */
export function isCertain(m: Match, before: Log, found: u32, digest: u64, time: f64): bool {
  if (searchOthers != 0 || (load<u32>(found, 20) & (COPY | EQUALS)) != 0) return false;
  if (before.tail != before.next && logHas(before, digest)) return false;
  const apart = load<f64>(found, 8) - time;
  if (time <= m.expectUntil) return apart >= m.expectLow && apart <= m.expectHigh;
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  if (forward.matched + reverse.matched < FEW_PAIRS || m.odd >= MOST_ODD) return true;
  if (isNear(m, forward, 1, time, apart) || isNear(m, reverse, -1, time, apart)) return true;
  m.odd++;
  return false;
}

// Expected differences for a call's rows of AFTER; unbounded if there are few pairs or the clocks were set.
export let nearLow: f64 = -Infinity;
export let nearHigh: f64 = Infinity;
let opening: bool = false;
/** Maximum delay, by timestamps, of a call's packets from BEFORE. */
let usualMost: f64 = Infinity;

/** Derived from all pairs so far; for the first pairs from the expectation of an earlier pass (kernels/match/opening.ts). */
export function expectNear(m: Match, from: f64, to: f64): void {
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  nearLow = -Infinity;
  nearHigh = Infinity;
  opening = from <= m.expectUntil;
  if (opening) {
    nearLow = m.expectLow;
    nearHigh = m.expectHigh;
  }
  usualMost = Infinity;
  if (opening || forward.matched + reverse.matched < FEW_PAIRS || m.odd >= MOST_ODD || m.pieceCount != 0) return;
  const a = m.offset + m.slope * (from - m.pivot);
  const b = m.offset + m.slope * (to - m.pivot);
  if (forward.matched >= FEW_PAIRS) usualMost = max<f64>(a, b) + forward.maximum + widthOf(forward);
  if (reverse.matched >= FEW_PAIRS) {
    nearLow = min<f64>(a, b) - reverse.maximum - m.back - widthOf(reverse);
    nearHigh = max<f64>(a, b) - reverse.minimum - m.back + widthOf(reverse);
    if (forward.matched == 0) return;
    nearLow = min<f64>(nearLow, min<f64>(a, b) + forward.minimum - widthOf(forward));
    nearHigh = max<f64>(nearHigh, max<f64>(a, b) + forward.maximum + widthOf(forward));
  } else if (to - usualMost > m.lastSeen0) nearHigh = usualMost;
}

/** A packet at least this far from the delays of the others is odd. */
function widthOf(total: Total): f64 {
  return FAR * (total.maximum - total.minimum) + FAR_AT_LEAST;
}

/**
 * The partner of an AFTER packet is far from where all others are: it may belong to an earlier identical packet, if packets go the other way, or if its own
 * partner would be after the end of BEFORE.
 */
export function isOdd(m: Match, found: u32, time: f64): bool {
  if (m.nat != 0) return false;
  if (opening) return true;
  if (m.odd >= MOST_ODD) return false;
  if (directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), load<u32>(found, 16))) != 2 && !isBehindEnd(m, time)) return false;
  m.odd++;
  return true;
}

/** Returns whether a packet from BEFORE with a usual delay would have been sent after the end of that capture. */
function isBehindEnd(m: Match, time: f64): bool {
  return time - usualMost > m.lastSeen0;
}

/** Pairs of calls without an odd pair cancel earlier odd ones. */
export function calmDown(m: Match, odd: u32): void {
  if (m.odd != odd) m.calm = 0;
  else if (m.odd > 0) {
    m.calm += m.foundCount;
    for (; m.odd > 0 && m.calm >= CALM_PAIRS; m.calm -= CALM_PAIRS) m.odd--;
  }
}

/**
 * A row finds only partners that were taken in this call, by rows further away than copies are: any of these rows may be the true one. All that were taken in
 * this call are deferred; returns their group, or 0 if there is nothing to defer.
 */
export function regret(m: Match, batch: Batch, side: u32, digest: u64, time: f64, shift: f64): u32 {
  const other = changetype<Log>(side == 0 ? m.after : m.before);
  if (!isUnlikeCopy(m, batch, other, side, digest, time, shift) || m.nat != 0) return 0;
  const repeats = changetype<Repeats>(m.repeats);
  const own = changetype<Log>(side == 0 ? m.before : m.after);
  const group = startGroup(repeats, changetype<Log>(m.before), changetype<Log>(m.after), digest);
  const live = other.next - other.tail;
  const bit = filterBit(digest);
  let link = load<u64>(headOf(other, digest));
  while ((link & bit) != 0 && <u32>link - other.tail < live) {
    const e = entryOf(other, <u32>link);
    const taken = takenAt(m, batch, e, digest, shift);
    if (!isNaN(taken)) {
      const f = m.found + (<u32>load<u16>(e, 22) << 4);
      const row = load<u32>(f, 8);
      const flowId = load<u32>(e, 16);
      store<u32>(f, 0);
      m.regretted++;
      if (side == 1) flowIn(flowSegments(changetype<FlowStats>(m.stats)), flowId).received++;
      addRow(repeats, group, side, taken, flowId, stateOf(load<u32>(batch.flags + (row << 2))), placeOf(own.place + row));
      // For the log, the entry stays matched.
      addRow(repeats, group, 1 - side, load<f64>(e, 8), flowId, load<u32>(e, 20) & 0xffff & ~MATCHED, placeOf(logPlace(other, <u32>link)));
    }
    link = load<u64>(e, 24);
  }
  return group;
}

/**
 * Returns whether entries with this digest were taken in this call, by rows further away than a packet and its copy. Copies of packets at their source are
 * counted.
 */
function isUnlikeCopy(m: Match, batch: Batch, other: Log, side: u32, digest: u64, time: f64, shift: f64): bool {
  const live = other.next - other.tail;
  const bit = filterBit(digest);
  let link = load<u64>(headOf(other, digest));
  let any = false;
  while ((link & bit) != 0 && <u32>link - other.tail < live) {
    const e = entryOf(other, <u32>link);
    const taken = takenAt(m, batch, e, digest, shift);
    if (abs<f64>(taken - time) <= TWICE) {
      let direction = directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), load<u32>(e, 16)));
      // The direction of a flow is set at the end of the call that has its first pairs.
      if (direction == 0) direction = (side == 1 ? taken - load<f64>(e, 8) : load<f64>(e, 8) - taken) >= m.threshold ? 1 : 2;
      if (side == 0 && direction == 1) m.copied0++;
      else if (side == 1 && direction == 2) m.copied1++;
      return false;
    }
    if (!isNaN(taken)) any = true;
    link = load<u64>(e, 24);
  }
  return any;
}

/** Returns the time of the row that took an entry with this digest in this call; NaN if none did. */
function takenAt(m: Match, batch: Batch, e: u32, digest: u64, shift: f64): f64 {
  if (load<u64>(e) != digest) return NaN;
  const k = <u32>load<u16>(e, 22);
  const f = m.found + (k << 4);
  if ((load<u32>(e, 20) & MATCHED) == 0 || k >= m.foundCount || load<u32>(f) != e) return NaN;
  return load<f64>(batch.time + (load<u32>(f, 8) << 3)) + shift;
}

/** Removes partners that were deferred afterwards from the list. */
export function forgetRegretted(m: Match): void {
  if (m.regretted == 0) return;
  let n: u32 = 0;
  for (let k: u32 = 0; k < m.foundCount; k++) {
    const f = m.found + (k << 4);
    if (load<u32>(f) == 0) continue;
    if (n != k) memory.copy(m.found + (n << 4), f, 16);
    n++;
  }
  m.foundCount = n;
  m.regretted = 0;
}
