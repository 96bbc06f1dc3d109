// Pairs identical packets (kernels/match/repeats.ts) after the others have shown the usual delay: in order, and only if the difference of their times fits the
// packets of that flow or interval. First within the usual range, then, among the remaining ones, within the range that occurs. A pair with a rival is
// ambiguous: it is counted, but without its delay.
//
// Linear in the packets of a digest, except for sorting them.

import { directionOf, Flow, flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { judge } from "./judge";
import { settleRecent } from "./intervals";
import { Match, SETTLED, Total } from "./match-state";
import { countMirrored, findMirrors, hideMirrored } from "./mirrors";
import { openingMeet } from "./opening";
import { boundsAt, forgetShown, high, low, pairAll, pairFirstIn, rivals, rivalsFirstIn, showFirstIn, TWICE, unpair } from "./repeat-fit";
import { at, freeRows, loadGroup, n0, n1, rows0, rows1 } from "./repeat-rows";
import { addPair, beginSettled, countAmbiguous, countSettled, endSettled } from "./repeat-settled";
import { addUnlikely, beginUnlikely, isOutside, isUnlikely, noteAgain, settleUnlikely } from "./repeat-unlikely";
import { clearRows, groupOf, Repeats, Repeat } from "./repeats";
import { AGAIN, COPY } from "./log";

/** Returns whether the first row of either point has one of these flags. */
function isMarked(flags: u32): bool {
  return (n0 > 0 && (at(rows0, 0).state & flags) != 0) || (n1 > 0 && (at(rows1, 0).state & flags) != 0);
}

/** Returns whether other packets with the digest were matched immediately, or one of them looked like a copy of such a packet. */
function wasMet(): bool {
  return isMarked(AGAIN | COPY);
}

/** Returns whether there is one at each point, possibly with copies at the destination: then no other partner is possible. */
function isAlone(m: Match): bool {
  if (wasMet()) return false;
  if (n0 == 0 || n1 == 0 || abs<f64>(at(rows1, 0).time - at(rows0, 0).time) > m.window) return false;
  const back = comesBack(m);
  if ((back ? n1 : n0) != 1) return false;
  return back ? at(rows0, n0 - 1).time - at(rows0, 0).time <= TWICE : at(rows1, n1 - 1).time - at(rows1, 0).time <= TWICE;
}

/** Returns whether the digest really occurs again: not only deferred because of an odd difference, and not only copies. */
function comesAgain(): bool {
  return isMarked(AGAIN) || (n0 > 1 && at(rows0, n0 - 1).time - at(rows0, 0).time > TWICE) || (n1 > 1 && at(rows1, n1 - 1).time - at(rows1, 0).time > TWICE);
}

/** At most two at either point, right behind each other: which of them it is matters little. */
function isTwin(m: Match): bool {
  if (n0 == 0 || n1 == 0 || n0 > 2 || n1 > 2) return false;
  if (n0 == 2 && at(rows0, 1).time - at(rows0, 0).time > TWICE) return false;
  if (n1 == 2 && at(rows1, 1).time - at(rows1, 0).time > TWICE) return false;
  return abs<f64>(at(rows1, 0).time - at(rows0, 0).time) <= m.window;
}

/** Pairs the first with the first, the second with the second. */
function pairTwins(): void {
  for (let i: u32 = 0; i < min<u32>(n0, n1); i++) {
    at(rows0, i).partner = (i + 1) << 2;
    at(rows1, i).partner = (i + 1) << 2;
    addPair(at(rows0, i), at(rows1, i));
  }
}

/** Without distinct packets: delays of identical packets paired first in, first out. */
function showAll(m: Match, r: Repeats): void {
  forgetShown();
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    if (n0 > 0 && n1 > 0 && at(rows0, 0).partner == 0) showFirstIn(m);
  }
}

/** First the unambiguous ones; then, without other evidence of the delay, the nearly unambiguous ones; then the others. */
function settleGroups(m: Match, r: Repeats, phase: u32): void {
  const unknown = changetype<Total>(m.forward).matched + changetype<Total>(m.reverse).matched == 0;
  if (phase == 1 && !unknown) return;
  if (phase == 2 && unknown) showAll(m, r);
  beginUnlikely(m);
  let repeats = false;
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    if (n0 + n1 > 0 && comesAgain()) {
      repeats = true;
      noteAgain(at(n0 > 0 ? rows0 : rows1, 0).flow);
    }
    if (n0 + n1 == 0 || at(n0 > 0 ? rows0 : rows1, 0).partner != 0) continue;
    if (phase == 2) settleGroup(m);
    else if (phase == 0 ? isAlone(m) : isTwin(m)) {
      if (phase == 0 && isUnlikely(m)) addUnlikely(0);
      else pairTwins();
    }
  }
  settleUnlikely(m, repeats);
  countSettled(m, phase == 0);
}

/** Returns how well the digest's pairs fit together: a usual one counts as much as two that occur, or four further out than all others. */
function fitOfAll(): u32 {
  let sum: u32 = 0;
  for (let i: u32 = 0; i < n0; i++) {
    const partner = at(rows0, i).partner;
    if (partner != 0) sum += 1 << (partner & 3);
  }
  return sum;
}

/** If routers decrement the TTL, it is lower where packets arrive: 1 from BEFORE to AFTER, 2 back, 0 if it does not show. */
function wayByTtl(m: Match): u32 {
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  if (n0 == 0 || n1 == 0 || <u32>forward.ttlLower <= forward.matched / 2 || <u32>reverse.ttlHigher <= reverse.matched / 2) return 0;
  const before = (at(rows0, 0).state >> 8) & 0xff;
  const after = (at(rows1, 0).state >> 8) & 0xff;
  return after < before ? 1 : after > before ? 2 : 0;
}

/** Returns whether a row only looks like a copy of an earlier packet because its clock was set back, and is of the time behind that. */
function isBehindSetBack(m: Match): bool {
  if ((m.wentBack0 == 0 && m.wentBack1 == 0) || isMarked(AGAIN) || n0 == 0 || n1 == 0) return false;
  return isOutside(m, at(rows0, 0), at(rows1, 0));
}

function settleGroup(m: Match): void {
  const known = at(n0 > 0 ? rows0 : rows1, 0);
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), known.flow);
  const forward = changetype<Total>(m.forward).matched > 0;
  const reverse = changetype<Total>(m.reverse).matched > 0;
  const sure = forward || reverse;
  let back = directionOf(flow) == 2;
  if (!forward && !reverse) pairFirstIn(m);
  else if (directionOf(flow) == 0 && forward && reverse) {
    const shown = wayByTtl(m);
    if (shown == 0) {
      pairAll(m, flow, false);
      const there = fitOfAll();
      unpair();
      pairAll(m, flow, true);
      back = fitOfAll() > there;
      unpair();
    } else back = shown == 2;
    if (pairAll(m, flow, back) > 0) flow.more |= (back ? <u32>2 : <u32>1) << 30;
  } else {
    back = directionOf(flow) == 0 ? !forward : back && reverse;
    pairAll(m, flow, back);
  }
  // A packet and its copies that fit nowhere.
  if (sure && (!wasMet() || isBehindSetBack(m)) && isTwin(m) && at(rows0, 0).partner == 0 && at(rows0, n0 - 1).partner == 0) {
    boundsAt(m, flow, back, at(rows0, 0).time);
    for (let i: u32 = 0; i < min<u32>(n0, n1); i++) addUnlikely(i);
    return;
  }
  for (let i: u32 = 0; i < n0; i++) {
    const b = at(rows0, i);
    if (b.partner == 0) continue;
    const j = (b.partner >> 2) - 1;
    const a = at(rows1, j);
    if (sure ? rivals(m, flow, back, i, j) : rivalsFirstIn(m, i, j)) countAmbiguous(m, flow, b, a);
    else addPair(b, a);
  }
}

/** Returns whether the digest's packets come from AFTER. */
function comesBack(m: Match): bool {
  return directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(n0 > 0 ? rows0 : rows1, 0).flow)) == 2;
}

/** Marks an arrival without a partner as a copy if it can be a copy of a packet with one. */
function markCopies(m: Match): void {
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(n0 > 0 ? rows0 : rows1, 0).flow);
  const back = directionOf(flow) == 2;
  const arrivals = back ? rows0 : rows1;
  const sends = back ? rows1 : rows0;
  const n = back ? n0 : n1;
  const sent = back ? n1 : n0;
  const known = changetype<Total>(back ? m.reverse : m.forward).matched > 0;
  let i: u32 = 0;
  // The last packet with a partner that was sent before it, given the minimum delay.
  let latest: f64 = NaN;
  // The last arrival with a partner: a row right behind it is a copy, whatever a clock step did to the bounds.
  let arrived: f64 = -Infinity;
  for (let j: u32 = 0; j < n; j++) {
    const a = at(arrivals, j);
    if (a.partner != 0) {
      arrived = a.time;
      continue;
    }
    if (a.time - arrived <= TWICE) {
      a.state |= COPY;
      continue;
    }
    // Bounds are by time at BEFORE, where reverse packets arrive.
    if (known && back) boundsAt(m, flow, true, a.time);
    for (; i < sent; i++) {
      const b = at(sends, i);
      if (known && !back) boundsAt(m, flow, false, b.time);
      if (b.time + (known ? (back ? -high : low) : 0) > a.time) break;
      if (b.partner != 0) latest = b.time;
    }
    if (isNaN(latest)) continue;
    const most = known ? (back ? -low : high) : m.window;
    const width = known ? 4 * (high - low) + 1000000 : 0;
    if (sent == 1 || a.time - latest <= most + width) a.state |= COPY;
  }
}

/**
 * Pairs rows of both points that fit nothing, between two pairs or at an end, if there are equally many on both sides: rather than lost and new they are
 * packets of a time in which a clock showed something that no other packet has shown. They count as matched, and ambiguous.
 */
function pairLeft(m: Match): void {
  if (n0 == 0 || n1 == 0) return;
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(rows0, 0).flow);
  let j: u32 = 0;
  for (let i: u32 = 0; i < n0; ) {
    // The next gap: rows of BEFORE without a partner from i on, and those of AFTER up to the partner of the row after them.
    let end = i;
    while (end < n0 && at(rows0, end).partner == 0) end++;
    const to = end < n0 ? (at(rows0, end).partner >> 2) - 1 : n1;
    if (to < j || to > n1) return;
    if (end > i) pairGap(m, flow, i, end, j, to);
    i = end + 1;
    j = to + 1;
  }
}

function pairGap(m: Match, flow: Flow, i: u32, end: u32, j: u32, to: u32): void {
  let left: u32 = 0;
  for (let k = j; k < to; k++) left += isLeft(at(rows1, k)) ? 1 : 0;
  if (left != end - i) return;
  for (let k = j; k < to; k++) if (isLeft(at(rows1, k))) pairAmbiguous(m, flow, i++, k);
}

/** A clock that was set back shows packets of the time before that after those of the time behind it: the order of the others does not hold for them. */
function pairSetBack(m: Match): void {
  if (n0 == 0 || n1 == 0 || (m.wentBack0 == 0 && m.wentBack1 == 0)) return;
  let left: u32 = 0;
  for (let i: u32 = 0; i < n0; i++) left += isLeft(at(rows0, i)) ? 1 : 0;
  for (let k: u32 = 0; k < n1; k++) left -= isLeft(at(rows1, k)) ? 1 : 0;
  if (left != 0) return;
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(rows0, 0).flow);
  let i: u32 = 0;
  for (let k: u32 = 0; k < n1; k++) {
    if (!isLeft(at(rows1, k))) continue;
    while (!isLeft(at(rows0, i))) i++;
    pairAmbiguous(m, flow, i++, k);
  }
}

// @ts-ignore: decorator
@inline
function isLeft(row: Repeat): bool {
  return row.partner == 0 && row.single == 0 && (row.state & COPY) == 0;
}

/** Pairs these rows of both points if they are within the window. */
function pairAmbiguous(m: Match, flow: Flow, i: u32, k: u32): void {
  const b = at(rows0, i);
  const a = at(rows1, k);
  if (abs<f64>(a.time - b.time) > m.window) return;
  b.partner = (k + 1) << 2;
  a.partner = (i + 1) << 2;
  countAmbiguous(m, flow, b, a);
}

function judgeRows(m: Match, digest: u64, rows: u32, n: u32, side: u32): void {
  for (let i: u32 = 0; i < n; i++) {
    const row = at(rows, i);
    if (row.partner == 0) judge(m, side, row.time, row.flow, row.state, digest);
  }
}

/** Marks the first pairs of the digest. Rows of one point only are packets identical to one that was matched immediately. */
function meetAgain(m: Match, digest: u64): void {
  if (n0 == 0 && n1 != 0) openingMeet(m, digest, 1, at(rows1, 0).time);
  else if (n1 == 0 && n0 != 0) openingMeet(m, digest, 0, at(rows0, 0).time);
  else if (comesAgain()) openingMeet(m, digest, 0, NaN);
}

/** Pairs what can be paired, and judges the rest. */
export function settleRepeats(m: Match): void {
  const r = changetype<Repeats>(m.repeats);
  findMirrors(m, r);
  if (r.count == 0) return;
  settleRecent(m);
  hideMirrored(m, r);
  beginSettled(m);
  m.settling = SETTLED;
  for (let phase: u32 = 0; phase < 3; phase++) settleGroups(m, r, phase);
  countMirrored(m, r);
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    meetAgain(m, groupOf(r, number).digest);
    if (n0 + n1 == 0) continue;
    markCopies(m);
    pairLeft(m);
    pairSetBack(m);
    const digest = groupOf(r, number).digest;
    judgeRows(m, digest, rows0, n0, 0);
    judgeRows(m, digest, rows1, n1, 1);
  }
  m.settling = 0;
  clearRows(r);
  endSettled();
  freeRows();
}
