// Classifies packets without a partner: lost, appeared, a copy, or one that the other capture cannot have seen. If its partner would be within the other
// capture with any possible delay, or outside of it, that is known at once. Packets near the ends are deferred until all pairs are known, and then judged by
// the delays of their flow and of packets around them (kernels/match/edge-sample.ts): a packet is attributed to the ends of the other capture if that is
// likelier than loss. If both are possible it also counts as undecided.

import { directionOf, faultsOf, Flow, FlowFaults, flowIn, flowSegments, FlowStats, moreOf } from "../flows/flow-records";
import { recordIn, Table, tableAdd } from "../flows/tables";
import { edgeSampleNear, ENOUGH, NEAR, RESOLUTION } from "./edge-sample";
import {
  FATE_DUPLICATE, FATE_HEAD_AFTER, FATE_HEAD_BEFORE, FATE_LINK_LOCAL, FATE_MIRRORED, FATE_ONLY_AFTER, FATE_ONLY_BEFORE, FATE_TAIL_AFTER, FATE_TAIL_BEFORE,
  noteAlone,
} from "./fates";
import { intervalAt } from "./intervals";
import { Interval, INTERVAL_BYTES, Match, Total } from "./match-state";
import { isMirrored, MOST_OF } from "./mirrors";
import { nameBefore } from "./names";
import { pieceAt } from "./pieces";
import { DOUBTED, EARLY, keepAlone } from "./residue";
import { COPY, LINK_LOCAL } from "./log";

/** A packet near the end of the other capture. */
@unmanaged
class Deferred {
  time: f64;
  flow: u32;
  state: u32; // as in the log, and the side in the highest bit
  mark: u32; //  the low half of its digest
  pad: u32;
}
export const DEFERRED_BYTES: u32 = 24;
const AFTER_SIDE: u32 = 0x80000000;
/** Maximum distance of a packet from the others, in widths of their delays. */
const FURTHEST: f64 = 2;
/** A packet whose classification is wrong with at least this probability is undecided. */
const DOUBTFUL: f64 = 0.01;
/** In addition the most doubtful others are undecided, up to MAX_DOUBTED, so that further wrong ones have at most this probability. */
const ANY_WRONG: f64 = 0.001;
const MAX_DOUBTED: u32 = 16;
/** More than this many copies, and more than MOST_OF of the packets: the capture is mirrored. */
const LEAST_MIRRORED: f64 = 8;
/** ns: timestamps of several CPUs go back by less. */
export const SET_BACK: f64 = 1000000;
/** Times this close to a clock's last one, as a share of its backward step, are from after the step. */
const NEAR_FINAL: f64 = 0.05;
/** Not a fate: to be judged when all pairs are known. */
const FATE_LATER: u32 = 0xffffffff;

// Probability that the difference of a packet's two timestamps (after - before) is below x, and above it.
let below: f64 = 0;
let above: f64 = 0;

// Differences of pairs at the ends of the captures, by direction, side and end: NEAR f64 each, ascending, and their number.
const VIEWS: u32 = 8;
let views: usize = 0;
const viewCounts = new StaticArray<u32>(8);

/** Returns when a capture began, by its clock. If that was set back later, earlier times may follow. */
function headOf(first: f64, initial: f64, last: f64): f64 {
  return initial - first > SET_BACK && initial <= last ? initial : first;
}
function headBefore(m: Match): f64 {
  return headOf(m.firstSeen0, m.initial0, m.lastSeen0);
}
function headAfter(m: Match): f64 {
  return headOf(m.firstSeen1, m.initial1, m.lastSeen1);
}

/**
 * Collects the pairs by which packets without a partner at one side are judged at an end: those around that end of the other capture. Pairs at an end have all
 * kinds of delays; around the packet itself there are only pairs that were seen.
 */
function makeViews(m: Match): void {
  if (views == 0) views = heap.alloc((VIEWS * NEAR) << 3);
  for (let v: u32 = 0; v < VIEWS; v++) {
    const sample = (v & 4) != 0 ? m.backSample : m.sample;
    const arrival = (v & 2) == 0;
    const time = arrival ? ((v & 1) == 0 ? headAfter(m) : m.lastSeen1) : (v & 1) == 0 ? headBefore(m) : m.lastSeen0;
    viewCounts[v] = edgeSampleNear(sample, time, arrival, (v & 1) != 0, views + ((v * NEAR) << 3));
  }
}

/** Returns the number of values below x, of n ascending values. */
function rank(values: usize, n: u32, x: f64): u32 {
  let low: u32 = 0;
  let high = n;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (load<f64>(values + (mid << 3)) < x) low = mid + 1;
    else high = mid;
  }
  return low;
}

/**
 * Estimates the probabilities from n differences between `low` and `high`, `count` of them below x. About one in n is beyond this range, fewer and fewer
 * further out: queueing delays fall off roughly exponentially, so the width is about ln n times their decay constant.
 */
function chances(n: f64, count: f64, low: f64, high: f64, x: f64): void {
  const width = high - low + RESOLUTION;
  const out = x < low ? (low - x) / width : x > high ? (x - high) / width : 0;
  const rest = out >= FURTHEST ? 0 : (0.5 / (n + 1)) * Math.pow(n + 1, -out);
  below = x < low ? rest : x > high ? 1 - rest : (count + 0.5) / (n + 1);
  above = x < low ? 1 - rest : x > high ? rest : (n - count + 0.5) / (n + 1);
}

/** What the clock correction subtracts from the difference x of a packet that passed BEFORE at `send`. */
// @ts-ignore: decorator
@inline
function correctionAt(m: Match, send: f64, x: f64, reverse: bool): f64 {
  return m.offset + m.slope * (send + x - m.pivot) + pieceAt(m, send, x, !reverse);
}

/** Estimates from the delays of a whole direction, or of a flow. */
function chancesWithin(m: Match, send: f64, reverse: bool, matched: u32, minimum: f64, maximum: f64, x: f64): void {
  const shift = correctionAt(m, send, x, reverse);
  const low = reverse ? shift - m.back - maximum : shift + minimum;
  const high = reverse ? shift - m.back - minimum : shift + maximum;
  const n = <f64>matched;
  chances(n, x <= low ? 0 : x > high ? n : n / 2, low, high, x);
}

/** Estimates from the pairs at that end. Without any, the delay is assumed to be 0. */
function chancesAt(m: Match, view: u32, send: f64, x: f64): void {
  const reverse = (view & 4) != 0;
  const total = changetype<Total>(reverse ? m.reverse : m.forward);
  const n = viewCounts[view];
  if (total.matched == 0) {
    below = x > 0 ? 1 : 0;
    above = 1 - below;
  } else if (n >= ENOUGH) {
    const values = views + ((view * NEAR) << 3);
    chances(<f64>n, <f64>rank(values, n, x), load<f64>(values), load<f64>(values + ((n - 1) << 3)), x);
  } else {
    // Few pairs, or pairs settled at the end (kernels/match/repeat-pairs.ts).
    chancesWithin(m, send, reverse, total.matched, total.minimum, total.maximum, x);
  }
}

/**
 * Estimates from both the pairs at that end and the packets of its flow: what either excludes is excluded. If they contradict each other, the flow has a path
 * of its own. (Its range alone would not suffice: a clock step makes it wide.)
 */
function chancesOf(m: Match, flow: Flow, view: u32, send: f64, x: f64): void {
  chancesAt(m, view, send, x);
  if (flow.matched < ENOUGH) return;
  const belowHere = below;
  const aboveHere = above;
  const more = moreOf(flow);
  chancesWithin(m, send, (view & 4) != 0, flow.matched, more.minimum, more.maximum, x);
  const least = min<f64>(below, belowHere);
  const most = min<f64>(above, aboveHere);
  if (least == 0 && most == 0) return;
  below = least;
  above = most;
}

// Probability that the partner of a packet is before the start of the other capture, and after its end; and that it is not.
let atHead: f64 = 0;
let notAtHead: f64 = 0;
let atTail: f64 = 0;
let notAtTail: f64 = 0;

function placePartner(m: Match, flow: Flow, side: u32, time: f64, reverse: bool): void {
  const first = side == 0 ? headAfter(m) - time : time - headBefore(m);
  const last = side == 0 ? m.lastSeen1 - time : time - m.lastSeen0;
  const view = (reverse ? 4 : 0) | (side << 1);
  chancesOf(m, flow, view, side == 0 ? time : time - first, first);
  atHead = side == 0 ? below : above;
  notAtHead = side == 0 ? above : below;
  chancesOf(m, flow, view | 1, side == 0 ? time : time - last, last);
  atTail = side == 0 ? above : below;
  notAtTail = side == 0 ? below : above;
}

/** For a flow that never matched, in captures with both directions: it may go either way, with equal probability. */
function placeEither(m: Match, flow: Flow, side: u32, time: f64): void {
  placePartner(m, flow, side, time, false);
  if (changetype<Total>(m.reverse).matched == 0) return;
  const forward = changetype<Total>(m.forward).matched > 0;
  const head = atHead;
  const notHead = notAtHead;
  const tail = atTail;
  const notTail = notAtTail;
  placePartner(m, flow, side, time, true);
  if (!forward) return;
  atHead = (atHead + head) / 2;
  notAtHead = (notAtHead + notHead) / 2;
  atTail = (atTail + tail) / 2;
  notAtTail = (notAtTail + notTail) / 2;
}

function place(m: Match, flow: Flow, side: u32, time: f64): void {
  const direction = directionOf(flow);
  if (direction == 0) placeEither(m, flow, side, time);
  else placePartner(m, flow, side, time, direction == 2);
}

/** 1: a packet near an end may be lost or outside the other capture. */
let undecided: u32 = 0;

/** Relative probability of the less likely of two explanations. */
function doubtOf(a: f64, b: f64): f64 {
  return min<f64>(a, b) / max<f64>(a + b, f64.MIN_VALUE);
}

// Per side: the doubt from which on packets are undecided.
let doubtedFrom0: f64 = DOUBTFUL;
let doubtedFrom1: f64 = DOUBTFUL;

/** Doubts of decided packets, the largest first, and their sum: the expected number of wrong classifications. */
const doubts = new StaticArray<f64>(16);
let doubtSum: f64 = 0;

function noteDoubt(doubt: f64): void {
  if (doubt >= DOUBTFUL) return;
  doubtSum += doubt;
  let i = MAX_DOUBTED - 1;
  if (doubt <= doubts[i]) return;
  for (; i > 0 && doubts[i - 1] < doubt; i--) doubts[i] = doubts[i - 1];
  doubts[i] = doubt;
}

/** Computes for packets of one side near the ends how doubtful they are individually, and together. */
function findDoubted(m: Match, side: u32, odds: f64): f64 {
  doubts.fill(0);
  doubtSum = 0;
  const table = changetype<Table>(m.deferred);
  for (let i: u32 = 0; i < table.count; i++) {
    const deferred = changetype<Deferred>(<usize>recordIn(table.segments, i, DEFERRED_BYTES));
    if (((deferred.state & AFTER_SIDE) != 0 ? 1 : 0) != side) continue;
    const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), deferred.flow);
    if (fateOf(m, flow, side, deferred.time, deferred.state & ~AFTER_SIDE) != FATE_LATER) continue;
    place(m, flow, side, deferred.time);
    noteDoubt(max<f64>(doubtOf(atHead, odds * notAtHead), doubtOf(atTail, odds * notAtTail)));
  }
  // Few of many improbable events: Poisson.
  let term = Math.exp(-doubtSum);
  let rest = 1 - term;
  let k: u32 = 0;
  for (; k < MAX_DOUBTED && rest > ANY_WRONG; rest -= term) term *= doubtSum / <f64>++k;
  return k > 0 && doubts[k - 1] > 0 ? doubts[k - 1] : DOUBTFUL;
}

/**
 * The clock of the other capture was set back and shows later times before that than at its end: such a time is not the end of the capture if packets seen
 * later arrived there, too.
 */
function wentOn(m: Match, flow: Flow, side: u32, time: f64): bool {
  const back = side == 0 ? m.lastSeen1 - m.final1 : m.lastSeen0 - m.final0;
  if (back < SET_BACK) return false;
  const total = changetype<Total>(directionOf(flow) == 2 ? m.reverse : m.forward);
  return total.matched > 0 && time < (side == 0 ? total.lastSend : total.lastArrive);
}

/** The same at the other end: the capture began with later times than it shows after the step, and packets seen earlier arrived there, too. */
function hadBegun(m: Match, flow: Flow, side: u32, time: f64): bool {
  const back = side == 0 ? m.initial1 - m.firstSeen1 : m.initial0 - m.firstSeen0;
  if (back < SET_BACK) return false;
  const total = changetype<Total>(directionOf(flow) == 2 ? m.reverse : m.forward);
  return total.matched > 0 && time > (side == 0 ? total.firstSend : total.firstArrive);
}

/**
 * Its own clock was set back and shows its time only before that, while the last pairs of the other capture are from after the step: the packet is not one of
 * the last.
 */
function wasBefore(m: Match, flow: Flow, side: u32, time: f64): bool {
  const final = side == 0 ? m.final0 : m.final1;
  const back = (side == 0 ? m.lastSeen0 : m.lastSeen1) - final;
  if (back < SET_BACK || time <= final + RESOLUTION) return false;
  const view: u32 = (directionOf(flow) == 2 ? 4 : 0) | (side << 1) | 1;
  const n = viewCounts[view];
  if (n < ENOUGH) return false;
  const least = load<f64>(views + ((view * NEAR) << 3));
  const most = load<f64>(views + ((view * NEAR + n - 1) << 3));
  // What this point's clock showed when the other point saw its last packets.
  const end = side == 0 ? m.lastSeen1 - least : m.lastSeen0 + most;
  return end <= final + (most - least) + NEAR_FINAL * back;
}

/**
 * The same at the other end: its own clock was set back and shows its time only after that, while the first pairs of the other capture are from before the
 * step: the packet is not one of the first.
 */
function isBehind(m: Match, flow: Flow, side: u32, time: f64): bool {
  const initial = side == 0 ? m.initial0 : m.initial1;
  const back = initial - (side == 0 ? m.firstSeen0 : m.firstSeen1);
  if (back < SET_BACK || time >= initial - RESOLUTION) return false;
  const view: u32 = (directionOf(flow) == 2 ? 4 : 0) | (side << 1);
  const n = viewCounts[view];
  if (n < ENOUGH) return false;
  const least = load<f64>(views + ((view * NEAR) << 3));
  const most = load<f64>(views + ((view * NEAR + n - 1) << 3));
  // What this point's clock showed when the other point saw its first packets.
  const start = side == 0 ? headAfter(m) - most : headBefore(m) + least;
  return start >= initial - (most - least) - NEAR_FINAL * back;
}

/** FATE_* of a packet near an end of the other capture, when all pairs are known. `odds`: odds of loss. */
function fateNearEnds(m: Match, flow: Flow, side: u32, time: f64, odds: f64): u32 {
  place(m, flow, side, time);
  const doubt = max<f64>(doubtOf(atHead, odds * notAtHead), doubtOf(atTail, odds * notAtTail));
  undecided = doubt >= (side == 0 ? doubtedFrom0 : doubtedFrom1) ? 1 : 0;
  if (atHead > 0 && atHead >= odds * notAtHead) {
    if (!hadBegun(m, flow, side, time) && !isBehind(m, flow, side, time)) return side == 0 ? FATE_HEAD_BEFORE : FATE_HEAD_AFTER;
    undecided = 1;
  }
  if (atTail > 0 && atTail >= odds * notAtTail) {
    if (!wentOn(m, flow, side, time) && !wasBefore(m, flow, side, time)) return side == 0 ? FATE_TAIL_BEFORE : FATE_TAIL_AFTER;
    undecided = 1;
  }
  return side == 0 ? FATE_ONLY_BEFORE : FATE_ONLY_AFTER;
}

/** FATE_* of a packet of one side, seen at `time`, without a partner; FATE_LATER if later pairs are needed. */
function fateOf(m: Match, flow: Flow, side: u32, time: f64, state: u32): u32 {
  if ((state & LINK_LOCAL) != 0) return FATE_LINK_LOCAL;
  // Copies at the destination are duplicates: at AFTER, in the reverse direction at BEFORE.
  if ((state & COPY) != 0 && (side == 1) != (directionOf(flow) == 2)) return FATE_DUPLICATE;
  const alone = side == 0 ? FATE_ONLY_BEFORE : FATE_ONLY_AFTER;
  // Timestamps outside the credible range of their own capture are outliers, and not at its ends.
  if (side == 0 ? time < m.firstSeen0 || time > m.lastSeen0 : time < m.firstSeen1 || time > m.lastSeen1) return alone;
  // A partner is never further away than the window.
  const first = side == 0 ? m.firstSeen1 : m.firstSeen0;
  const last = side == 0 ? m.lastSeen1 : m.lastSeen0;
  const ended = (m.ended & (side == 0 ? 2 : 1)) != 0;
  if (time + m.window < first) return side == 0 ? FATE_HEAD_BEFORE : FATE_HEAD_AFTER;
  if (ended && time - m.window > last) return side == 0 ? FATE_TAIL_BEFORE : FATE_TAIL_AFTER;
  if (time - m.window > first && (!ended || time + m.window < last)) return alone;
  return FATE_LATER;
}

/** Returns whether it is another copy, at its source, of a packet with a partner: retransmitted, or mirrored. */
function isSourceCopy(flow: Flow, side: u32, state: u32): bool {
  return (state & COPY) != 0 && (side == 1) == (directionOf(flow) == 2);
}

/** Adds a classified packet to the counts of its flow. */
function countAlone(faults: FlowFaults, fate: u32): void {
  if (fate == FATE_ONLY_BEFORE) faults.lost++;
  else if (fate == FATE_ONLY_AFTER) faults.appeared++;
  else if (fate == FATE_DUPLICATE) faults.duplicates++;
  else if (fate == FATE_HEAD_BEFORE) faults.headBefore++;
  else if (fate == FATE_TAIL_BEFORE) faults.tailBefore++;
  else if (fate == FATE_HEAD_AFTER) faults.headAfter++;
  else if (fate == FATE_TAIL_AFTER) faults.tailAfter++;
  else if (fate == FATE_MIRRORED) faults.mirrored++;
  else faults.linkLocal++;
}

/** Returns EARLY if no packet of its flow had a partner so far: the flow may turn out to go the other way. */
function earlyIn(flow: Flow): u32 {
  return directionOf(flow) == 0 ? EARLY : 0;
}

/** Judges a packet of one side, seen at `time`, without a partner. */
export function judge(m: Match, side: u32, time: f64, flowId: u32, state: u32, digest: u64): void {
  if (m.nat != 0 && side == 1) flowId = nameBefore(m, flowId);
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), flowId);
  const fate = fateOf(m, flow, side, time, state);
  // Whether most packets occur twice is known only at the end.
  if (fate != FATE_LATER && !isSourceCopy(flow, side, state)) {
    if (fate == FATE_ONLY_AFTER || fate == FATE_ONLY_BEFORE) keepAlone(m, side, time, flowId, fate | earlyIn(flow), <u32>digest);
    settle(m, side, time, flowId, fate);
    return;
  }
  const deferred = changetype<Deferred>(<usize>tableAdd(m.deferred, DEFERRED_BYTES));
  deferred.time = time;
  deferred.flow = flowId;
  deferred.mark = <u32>digest;
  deferred.state = state | (side == 1 ? AFTER_SIDE : 0);
}

/** Counts packets near the ends that are certainly lost or appeared, per side: they show the loss in captures that consist only of ends. */
function countCertain(m: Match): void {
  const table = changetype<Table>(m.deferred);
  certainBefore = m.onlyBefore;
  certainAfter = m.onlyAfter;
  for (let i: u32 = 0; i < table.count; i++) {
    const deferred = changetype<Deferred>(<usize>recordIn(table.segments, i, DEFERRED_BYTES));
    const side: u32 = (deferred.state & AFTER_SIDE) != 0 ? 1 : 0;
    const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), deferred.flow);
    if (fateOf(m, flow, side, deferred.time, deferred.state & ~AFTER_SIDE) != FATE_LATER) continue;
    place(m, flow, side, deferred.time);
    if (atHead > 0 || atTail > 0) continue;
    if (side == 0) certainBefore += 1;
    else certainAfter += 1;
  }
}
let certainBefore: f64 = 0;
let certainAfter: f64 = 0;

let mirrored: bool = false;
let mirroredBack: bool = false;

/** Copies at the source are not lost if the repeated packets have shown a mirror, or if nearly every packet has one. */
function judgeMirrors(m: Match): void {
  const table = changetype<Table>(m.deferred);
  let forward: f64 = 0;
  let back: f64 = 0;
  for (let i: u32 = 0; i < table.count; i++) {
    const deferred = changetype<Deferred>(<usize>recordIn(table.segments, i, DEFERRED_BYTES));
    const side: u32 = (deferred.state & AFTER_SIDE) != 0 ? 1 : 0;
    const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), deferred.flow);
    if (!isSourceCopy(flow, side, deferred.state)) continue;
    if (side == 0) forward += 1;
    else back += 1;
  }
  mirrored = isMirrored(0) || (forward > LEAST_MIRRORED && forward > MOST_OF * <f64>changetype<Total>(m.forward).matched);
  mirroredBack = isMirrored(1) || (back > LEAST_MIRRORED && back > MOST_OF * <f64>changetype<Total>(m.reverse).matched);
}

/** Judges packets near the ends, when all pairs are known. */
export function judgeDeferred(m: Match): void {
  const stats = changetype<FlowStats>(m.stats);
  const table = changetype<Table>(m.deferred);
  if (table.count == 0) return;
  makeViews(m);
  judgeMirrors(m);
  countCertain(m);
  const matched = <f64>(changetype<Total>(m.forward).matched + changetype<Total>(m.reverse).matched) + 1;
  // Odds of loss, at most 1.
  const oddsBefore = min<f64>(1, (certainBefore + 1) / matched);
  const oddsAfter = min<f64>(1, (certainAfter + 1) / matched);
  doubtedFrom0 = findDoubted(m, 0, oddsBefore);
  doubtedFrom1 = findDoubted(m, 1, oddsAfter);
  for (let i: u32 = 0; i < table.count; i++) {
    const deferred = changetype<Deferred>(<usize>recordIn(table.segments, i, DEFERRED_BYTES));
    const side: u32 = (deferred.state & AFTER_SIDE) != 0 ? 1 : 0;
    const flow = flowIn(flowSegments(stats), deferred.flow);
    let fate = fateOf(m, flow, side, deferred.time, deferred.state & ~AFTER_SIDE);
    undecided = 0;
    if ((side == 0 ? mirrored : mirroredBack) && isSourceCopy(flow, side, deferred.state)) fate = FATE_MIRRORED;
    else if (fate == FATE_LATER) {
      fate = fateNearEnds(m, flow, side, deferred.time, side == 0 ? oddsBefore : oddsAfter);
      if (undecided != 0) faultsOf(stats, flow).undecided++;
    }
    // Also keep those at the ends: part of a packet that was merged or split on the way may be beyond the end before the whole is.
    if (fate != FATE_DUPLICATE && fate != FATE_LINK_LOCAL && fate != FATE_MIRRORED) keepAlone(m, side, deferred.time, deferred.flow, fate | earlyIn(flow) | (undecided != 0 ? DOUBTED : 0), deferred.mark);
    settle(m, side, deferred.time, deferred.flow, fate);
  }
  table.count = 0;
}

/** Counts a classified packet. */
function settle(m: Match, side: u32, time: f64, flowId: u32, fate: u32): void {
  const stats = changetype<FlowStats>(m.stats);
  const flow = flowIn(flowSegments(stats), flowId);
  countAlone(faultsOf(stats, flow), fate);
  if (m.fates != 0) noteAlone(m, side, time, flowId, fate);
  if (fate == FATE_ONLY_AFTER) m.onlyAfter++;
  if (fate != FATE_ONLY_BEFORE) return;
  m.onlyBefore++;
  // A packet of the other direction seen only here is not lost: it appeared.
  if (directionOf(flow) == 2) return;
  const latest = max<f64>(m.now, max<f64>(m.lastSeen0, m.lastSeen1));
  const interval = intervalAt(m, min<f64>(time, latest));
  changetype<Interval>(m.intervals + interval * INTERVAL_BYTES).lost++;
}
