// Pairs of identical packets far from the usual delay: a clock was set if two of them agree; a single one may be of two packets that were each seen at one point
// only.

import { directionOf, flowIn, flowSegments, FlowStats, statsCount } from "../flows/flow-records";
import { isBetweenLevels } from "./certain";
import { Match, Total } from "./match-state";
import { boundsAt, farHigh, farLow, high, low } from "./repeat-fit";
import { at, rows0, rows1 } from "./repeat-rows";
import { addPair, countAmbiguous } from "./repeat-settled";
import { COPY } from "./log";
import { Repeat } from "./repeats";

/** Fewer pairs do not show that one is too early. */
const FEW: u32 = 16;

/**
 * Returns whether the pair is much earlier than the others, which packets are not, or between the levels of a clock step; or much later, if with a usual delay the
 * packet that arrived may have been sent after the end of the other capture, or the one that was sent may have arrived before the other capture began: then it may
 * be a different packet than the one sent.
 */
export function isUnlikely(m: Match): bool {
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(rows0, 0).flow);
  const direction = directionOf(flow);
  if (direction == 0 || changetype<Total>(direction == 2 ? m.reverse : m.forward).matched < FEW) return false;
  const sent = at(rows0, 0).time;
  boundsAt(m, flow, direction == 2, sent);
  const arrived = at(rows1, 0).time;
  const apart = arrived - sent;
  if (isBetweenLevels(m, direction == 2, sent, apart)) return true;
  if (direction == 2) return apart > farHigh || (apart < farLow && sent + low > m.lastSeen1);
  return apart < farLow || (apart > farHigh && (arrived - low > m.lastSeen0 || sent + low < m.firstSeen1));
}

// Unlikely pairs: {row of BEFORE, row of AFTER, maximum distance of the differences of two packets f64}.
let unlikely: u32 = 0;
let unlikelyCount: u32 = 0;
let unlikelyRoom: u32 = 64;
/** Number of unlikely pairs on either side that are compared. */
const ASKED: u32 = 1024;

export function beginUnlikely(m: Match): void {
  unlikely = <u32>heap.alloc(unlikelyRoom << 4);
  unlikelyCount = 0;
  const bytes = (statsCount(m.stats) >> 3) + 1;
  again = <u32>heap.alloc(bytes);
  memory.fill(again, 0, bytes);
}

/** Rows i of both points. */
export function addUnlikely(i: u32): void {
  if (unlikelyCount == unlikelyRoom) {
    unlikelyRoom <<= 1;
    unlikely = <u32>heap.realloc(unlikely, unlikelyRoom << 4);
  }
  store<u32>(unlikely + (unlikelyCount << 4), <u32>changetype<usize>(at(rows0, i)));
  store<u32>(unlikely + (unlikelyCount << 4), <u32>changetype<usize>(at(rows1, i)), 4);
  store<f64>(unlikely + (unlikelyCount << 4), high - low, 8);
  unlikelyCount++;
}
// @ts-ignore: decorator
@inline
function unlikelyRow(i: u32, side: u32): Repeat {
  return changetype<Repeat>(<usize>load<u32>(unlikely + (i << 4) + (side << 2)));
}

/** Returns whether the pair is after all others at both points, or before them; a point whose clock was set back does not show it. */
export function isOutside(m: Match, b: Repeat, a: Repeat): bool {
  const total = changetype<Total>(directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), b.flow)) == 2 ? m.reverse : m.forward);
  const last = (m.wentBack0 != 0 || b.time > total.lastSend) && (m.wentBack1 != 0 || a.time > total.lastArrive);
  const first = (m.wentBack0 != 0 || b.time < total.firstSend) && (m.wentBack1 != 0 || a.time < total.firstArrive);
  return last || first;
}

/**
 * Returns whether the pair is earlier than packets are, though not outside the others, while the partner of one of them may be outside the other capture: then they
 * are two packets.
 */
function areTwo(m: Match, b: Repeat, a: Repeat): bool {
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), b.flow);
  const back = directionOf(flow) == 2;
  if (changetype<Total>(back ? m.reverse : m.forward).matched < FEW || isOutside(m, b, a)) return false;
  boundsAt(m, flow, back, b.time);
  const apart = a.time - b.time;
  if (back ? apart <= farHigh : apart >= farLow) return false;
  return b.time + low < m.firstSeen1 || b.time + high > m.lastSeen1 || a.time - high < m.firstSeen0 || a.time - low > m.lastSeen0;
}

// One bit per flow: it has repeated packets.
let again: u32 = 0;

// @ts-ignore: decorator
@inline
function comesAgainIn(flow: u32): bool {
  return (<u32>load<u8>(again + (flow >> 3)) & (<u32>1 << (flow & 7))) != 0;
}
export function noteAgain(flow: u32): void {
  store<u8>(again + (flow >> 3), <u8>(<u32>load<u8>(again + (flow >> 3)) | (<u32>1 << (flow & 7))));
}

/** Returns whether its flow has no repeated packets, or the pair is outside the others. */
function isNotAmong(m: Match, i: u32): bool {
  return !comesAgainIn(unlikelyRow(i, 0).flow) || isOutside(m, unlikelyRow(i, 0), unlikelyRow(i, 1));
}

/** Returns whether the differences of pairs i and k are those of one clock. */
function isLike(i: u32, k: u32): bool {
  const apart = unlikelyRow(i, 1).time - unlikelyRow(i, 0).time;
  return i != k && abs<f64>(unlikelyRow(k, 1).time - unlikelyRow(k, 0).time - apart) <= load<f64>(unlikely + (i << 4), 8);
}

/**
 * If two of them agree a clock was set, and they are pairs. Pairs of repeated packets at a steady pace agree, too, but lie among other pairs. A single one, if
 * packets occur again, may be of two identical packets that were each seen at one point only.
 */
function settleOne(m: Match, i: u32, repeats: bool): void {
  const b = unlikelyRow(i, 0);
  const a = unlikelyRow(i, 1);
  const copy = ((b.state | a.state) & COPY) != 0;
  let agreed = !repeats && !copy;
  let single = true;
  const to = min<u32>(unlikelyCount, i + ASKED);
  for (let k = i > ASKED ? i - ASKED : 0; k < to && !agreed; k++) {
    if (!isLike(i, k)) continue;
    single = false;
    agreed = isNotAmong(m, i) && isNotAmong(m, k);
  }
  if (!agreed && copy) return;
  if (!agreed && single && areTwo(m, b, a)) {
    b.single = 1;
    a.single = 1;
    return;
  }
  b.partner = 1 << 2;
  a.partner = 1 << 2;
  if (agreed) addPair(b, a);
  else countAmbiguous(m, flowIn(flowSegments(changetype<FlowStats>(m.stats)), b.flow), b, a);
}

export function settleUnlikely(m: Match, repeats: bool): void {
  for (let i: u32 = 0; i < unlikelyCount; i++) settleOne(m, i, repeats);
  heap.free(unlikely);
  heap.free(again);
}
