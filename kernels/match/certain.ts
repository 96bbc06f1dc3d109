// Decides whether a partner found at once is the right one: an identical packet, sent earlier or later, may be the true partner. A pair whose difference of
// timestamps is far from the others is deferred until all are known (kernels/match/repeats.ts).

import { Batch } from "../decode/batch";
import { directionOf, flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { aroundMaximum, aroundMinimum, hadLevels, isOfNoKind, lastRange } from "./delay-blocks";
import { Match, Total } from "./match-state";
import { pieceAt } from "./pieces";
import { addRow, Repeats, startGroup } from "./repeats";
import { placeOf } from "./send-order";
import { AGAIN, COPY, entryOf, EQUALS, filterBit, headOf, Log, logPlace, MATCHED, stateOf } from "./log";
import { logHas, logHasOther, searchOthers } from "./waiting";

/** Differences further than this from all seen so far, in widths of their range, are odd. */
const FAR: f64 = 2;
const FAR_AT_LEAST: f64 = 1000000;
/** The same for packets that are early, which packets are not, if some packets look alike. */
const EARLY: f64 = 0.25;
/** Before this many pairs nothing is odd; and after MOST_ODD odd pairs nothing is odd any more: a clock was set, or packets go the other way, too. */
const FEW_PAIRS: u32 = 16;
const MOST_ODD: u32 = 8;
/** This many other pairs cancel one odd pair: after a clock was set all pairs are odd, with repeated packets a few are. */
const CALM_PAIRS: u32 = 4;
/** This many packets that look like others may leave one odd pair: if nearly all do, few others are found. */
const MET_PER_ODD: u32 = 4;
/** One late pair is put off per this many packets that look like others. */
const MET_PER_SLOW: u32 = 4;
/** Rows of one point further apart than this are not a packet and its copy. */
const TWICE: f64 = 1000000;

/** Returns whether there were too many odd pairs for the number of repeated packets and of other pairs in the call so far. */
function areOdd(m: Match): bool {
  return m.odd >= MOST_ODD + max<u32>(m.met / MET_PER_ODD, min<u32>(m.met << 2, m.foundCount / CALM_PAIRS));
}

// Range of the delays of either direction: the last ones if some packets look like others (a clock may have been set, or a queue drained), else of all.
let least0: f64 = 0;
let most0: f64 = 0;
let least1: f64 = 0;
let most1: f64 = 0;

/** Call before the rows of a call. */
export function noteRange(m: Match): void {
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  const last = m.met != 0 && lastRange(m.blocks);
  least0 = last ? aroundMinimum : forward.minimum;
  most0 = last ? aroundMaximum : forward.maximum;
  const lastBack = m.met != 0 && lastRange(m.backBlocks);
  least1 = lastBack ? aroundMinimum : reverse.minimum;
  most1 = lastBack ? aroundMaximum : reverse.maximum;
}

function isNear(m: Match, back: bool, send: f64, apart: f64): bool {
  if (changetype<Total>(back ? m.reverse : m.forward).matched == 0) return false;
  const d = apart - m.offset - m.slope * (send + apart - m.pivot) - pieceAt(m, send, apart, !back);
  const delay = back ? -d - m.back : d;
  return delay >= (back ? least1 : least0) - earlyOf(m, back) && delay <= (back ? most1 : most0) + widthOf(back);
}

/** Returns whether the difference lies between the two levels that a clock step made, where no packet's difference is. */
export function isBetweenLevels(m: Match, back: bool, send: f64, apart: f64): bool {
  if (m.met == 0 || m.pieceCount != 0) return false;
  const d = apart - m.offset - m.slope * (send + apart - m.pivot);
  return isOfNoKind(back ? m.backBlocks : m.blocks, send, back ? -d - m.back : d, true);
}

/**
 * A packet of BEFORE has its partner among those that arrived before it by their timestamps. That partner may belong to an earlier identical packet: it is
 * certain only if there is no other one, and the difference is a usual one.
 */
export function isCertain(m: Match, before: Log, found: u32, digest: u64, time: f64): bool {
  if (searchOthers != 0 || (load<u32>(found, 20) & (COPY | EQUALS)) != 0) return false;
  if (before.tail != before.next && logHas(before, digest)) return false;
  const apart = load<f64>(found, 8) - time;
  if (time <= m.expectUntil) return isExpected(m, found, apart);
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  if (forward.matched + reverse.matched < FEW_PAIRS) return true;
  // Without repeated packets, reading the flow would only cost time.
  const direction = m.met == 0 ? 0 : directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), load<u32>(found, 16)));
  if (direction != 2 && isNear(m, false, time, apart) && !isBetweenLevels(m, false, time, apart)) return true;
  if (direction != 1 && isNear(m, true, time, apart) && !isBetweenLevels(m, true, time, apart)) return true;
  if (m.met != 0 && isPastEnds(m, direction == 2, time, apart)) return false;
  if (areOdd(m)) return true;
  m.odd++;
  return false;
}

/** Returns whether an earlier pass expects this difference for the first pairs, from an entry of this flow. */
function isExpected(m: Match, found: u32, apart: f64): bool {
  if (!(apart >= m.expectLow && apart <= m.expectHigh) || (apart > m.gapLow && apart < m.gapHigh)) return false;
  const direction = directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), load<u32>(found, 16)));
  if (direction == 0) return true;
  return direction == 1 ? apart >= m.thereLow && apart <= m.thereHigh : apart >= m.backLow && apart <= m.backHigh;
}

/** Difference of the timestamps of the fastest packet of a direction so far; NaN without pairs. */
function leastApart(m: Match, back: bool, after: f64): f64 {
  const total = changetype<Total>(back ? m.reverse : m.forward);
  if (total.matched == 0) return NaN;
  const line = m.offset + m.slope * (after - m.pivot);
  return back ? line - m.back - total.minimum : line + total.minimum;
}

/** Returns whether the packet's own partner may be after the end of AFTER, or that of the packet it found before the start of BEFORE: then no clock was set. */
function isPastEnds(m: Match, back: bool, time: f64, apart: f64): bool {
  const least = leastApart(m, back, time + apart);
  const most = back ? least : least + (changetype<Total>(m.forward).maximum - changetype<Total>(m.forward).minimum);
  return ((m.ended & 2) != 0 && m.wentBack1 == 0 && time + least > m.lastSeen1) || (m.wentBack0 == 0 && time + apart - most < m.firstSeen0);
}

// Expected differences for a call's rows of AFTER; unbounded if there are few pairs or the clocks were set.
export let nearLow: f64 = -Infinity;
export let nearHigh: f64 = Infinity;
/** Identical packets and a clock step were seen: differences between its two levels are not expected, either. */
export let hasLevels: bool = false;
let opening: bool = false;
/** Minimum and maximum delay, by timestamps, of a call's packets from BEFORE; NaN and Infinity if unknown. */
let usualLeast: f64 = NaN;
let usualMost: f64 = Infinity;

/** Derived from all pairs so far; for the first pairs from the expectation of an earlier pass (kernels/match/opening.ts). */
export function expectNear(m: Match, from: f64, to: f64): void {
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  nearLow = -Infinity;
  nearHigh = Infinity;
  hasLevels = m.met != 0 && m.pieceCount == 0 && (hadLevels(m.blocks) || hadLevels(m.backBlocks));
  opening = from <= m.expectUntil;
  if (opening) {
    // No differences are expected between two levels of a clock, or of the other direction: each one is checked.
    nearLow = m.gapHigh > m.gapLow || m.thereLow > -Infinity ? Infinity : m.expectLow;
    nearHigh = m.expectHigh;
  }
  usualLeast = NaN;
  usualMost = Infinity;
  if (opening || forward.matched + reverse.matched < FEW_PAIRS || m.pieceCount != 0) return;
  const a = m.offset + m.slope * (from - m.pivot);
  const b = m.offset + m.slope * (to - m.pivot);
  if (forward.matched >= FEW_PAIRS) {
    usualLeast = min<f64>(a, b) + least0;
    usualMost = max<f64>(a, b) + most0 + widthOf(false);
  }
  // A first limit: isOdd decides.
  if (reverse.matched >= FEW_PAIRS) {
    nearLow = min<f64>(a, b) - most1 - m.back - earlyOf(m, true);
    nearHigh = max<f64>(a, b) - least1 - m.back + earlyOf(m, true);
    if (forward.matched == 0) return;
    nearLow = min<f64>(nearLow, min<f64>(a, b) + least0 - earlyOf(m, false));
    nearHigh = max<f64>(nearHigh, max<f64>(a, b) + most0 + earlyOf(m, false));
  } else {
    nearLow = usualLeast - earlyOf(m, false);
    nearHigh = usualMost;
  }
}

function rangeOf(back: bool): f64 {
  return back ? most1 - least1 : most0 - least0;
}
/** A packet at least this far from the delays of the others is odd. */
function widthOf(back: bool): f64 {
  return FAR * rangeOf(back) + FAR_AT_LEAST;
}
/** The same for early packets. */
function earlyOf(m: Match, back: bool): f64 {
  return (m.met == 0 ? FAR : EARLY) * rangeOf(back) + FAR_AT_LEAST;
}

/**
 * The partner of an AFTER packet is far from where all others are: it may belong to an earlier identical packet, if packets go the other way, if an identical one
 * was sent since, or if its own partner would be after the end of BEFORE, or that of the packet it found before the start of AFTER.
 */
export function isOdd(m: Match, before: Log, found: u32, time: f64): bool {
  if (m.nat != 0) return false;
  const sent = load<f64>(found, 8);
  const back = directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), load<u32>(found, 16))) == 2;
  const apart = time - sent;
  const near = !opening && isNear(m, back, sent, apart);
  if (near && !isBetweenLevels(m, back, sent, apart)) return false;
  if (opening && isExpected(m, found, apart)) return false;
  const again = logHasOther(before, found);
  if (again) store<u32>(found, load<u32>(found, 20) | AGAIN, 20);
  if (opening) return true;
  // Without identical packets so far, there is no other partner.
  if (m.met == 0) return false;
  // The row's own partner may be after the end of BEFORE, or that of the packet it found before the start of AFTER.
  const least = leastApart(m, back, time);
  if (((m.ended & 1) != 0 && m.wentBack0 == 0 && time - least > m.lastSeen0) || (m.wentBack1 == 0 && sent + least < m.firstSeen1)) return true;
  if (areOdd(m)) return false;
  if (!back && !again && !(apart < usualLeast)) {
    // Packets may be late; with few repeated packets, this one is.
    if (m.slow >= m.met / MET_PER_SLOW) return false;
    m.slow++;
    return true;
  }
  m.odd++;
  return true;
}

/** The other pairs of a call cancel odd ones. */
export function calmDown(m: Match): void {
  m.calm += m.foundCount;
  for (; m.odd > 0 && m.calm >= CALM_PAIRS; m.calm -= CALM_PAIRS) m.odd--;
  if (m.odd == 0) m.calm = 0;
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
