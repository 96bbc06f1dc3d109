// Pairs among equal packets (kernels/match/repeats.ts), when the others have shown how long packets take: in order, and only where the
// difference of their times fits what packets of that flow or interval took. First within what is usual there, then, among those that are left, within
// what occurs. A pair that has a rival is ambiguous: it is counted, but its delay is not.
//
// Linear in the packets of a digest, but for putting them in order.

import { Batch } from "../decode/batch";
import { directionOf, faultsOf, Flow, flowIn, flowSegments, FlowStats, moreOf } from "../flows/flow-records";
import { aroundMaximum, aroundMinimum, DelayBlock, delayBlockAt } from "./delay-blocks";
import { FATE_MIRRORED, noteAlone, noteAmbiguous } from "./fates";
import { judge } from "./judge";
import { countPairs, intervalAt, settleRecent } from "./match-count";
import { Interval, INTERVAL_BYTES, Match, SETTLED, Total } from "./match-state";
import { pieceAt } from "./pieces";
import { clearRows, Group, groupOf, Repeats, Repeat, rowOf } from "./repeats";
import { COPY } from "./waiting";

const ENOUGH: u32 = 8;
// How well a pair fits: within what is usual around it, within what occurs, or further out than anything else.
const FAR_OUT: u32 = 0;
const OCCURS: u32 = 1;
const USUAL: u32 = 2;
/** How far the next packets lie beyond those that were seen, as a share of their width by their number. */
const BEYOND: f64 = 4;
/** A packet's partner is no further from what others took than so many widths of it, and so many ns. */
const FAR: f64 = 2;
const FAR_AT_LEAST: f64 = 1000000;
/** Most captures have microsecond timestamps. */
const RESOLUTION: f64 = 2000;
/** Partners whose delays differ by less than this part of them are as good as one. */
const ALIKE: f64 = 0.02;
/** So many neighbours that would do make a pair ambiguous, however alike; and so many are looked at. */
const NEIGHBOURS: u32 = 8;
const LOOKED_AT: u32 = 32;
/** Two rows of one point that are one packet seen twice there. */
const TWICE: f64 = 1000000;
/** A capture where this share of the packets is there twice, and so many, comes from a mirror. */
const MOST_OF: f64 = 0.8;
const LEAST_TWICE: f64 = 64;

// Rows of the digest at hand, by side: addresses in order of time.
let room: u32 = 0;
let rows0: u32 = 0;
let rows1: u32 = 0;
let n0: u32 = 0;
let n1: u32 = 0;

// What a packet sent at a time may take, as differences of the timestamps (after - before).
let usualLow: f64 = 0;
let usualHigh: f64 = 0;
let low: f64 = 0;
let high: f64 = 0;
let farLow: f64 = 0;
let farHigh: f64 = 0;

// @ts-ignore: decorator
@inline
function at(rows: u32, i: u32): Repeat {
  return changetype<Repeat>(<usize>load<u32>(rows + (i << 2)));
}

function loadGroup(r: Repeats, group: Group): void {
  const most = max<u32>(group.count0, group.count1);
  if (most > room) {
    if (room != 0) {
      heap.free(rows0);
      heap.free(rows1);
    }
    room = max<u32>(1024, most << 1);
    rows0 = <u32>heap.alloc(room << 2);
    rows1 = <u32>heap.alloc(room << 2);
  }
  n0 = list(r, group.first0, rows0);
  n1 = list(r, group.first1, rows1);
}

function list(r: Repeats, first: u32, out: u32): u32 {
  let n: u32 = 0;
  let sorted = true;
  for (let number = first; number != 0; ) {
    const row = rowOf(r, number);
    store<u32>(out + (n << 2), <u32>changetype<usize>(row));
    if (n > 0 && at(out, n - 1).time > row.time) sorted = false;
    n++;
    number = row.next;
  }
  if (!sorted) sort(out, n);
  return n;
}

/** Heap sort by time. */
function sort(rows: u32, n: u32): void {
  for (let i = n >> 1; i > 0; i--) sink(rows, i - 1, n);
  for (let end = n; end > 1; ) {
    end--;
    const first = load<u32>(rows);
    store<u32>(rows, load<u32>(rows + (end << 2)));
    store<u32>(rows + (end << 2), first);
    sink(rows, 0, end);
  }
}
function sink(rows: u32, from: u32, n: u32): void {
  let i = from;
  while ((i << 1) + 1 < n) {
    let child = (i << 1) + 1;
    if (child + 1 < n && at(rows, child + 1).time > at(rows, child).time) child++;
    if (at(rows, i).time >= at(rows, child).time) return;
    const held = load<u32>(rows + (i << 2));
    store<u32>(rows + (i << 2), load<u32>(rows + (child << 2)));
    store<u32>(rows + (child << 2), held);
    i = child;
  }
}

/** Sets the bounds for a packet of `flow` that was sent at `time`, in a direction that has pairs. */
function boundsAt(m: Match, flow: Flow, reverse: bool, time: f64): void {
  const total = changetype<Total>(reverse ? m.reverse : m.forward);
  let count: f64 = <f64>total.matched;
  let least = total.minimum;
  let most = total.maximum;
  let mean = total.first + total.sum / count;
  let squares = total.squares / count - (total.sum / count) * (total.sum / count);
  const near = delayBlockAt(reverse ? m.backBlocks : m.blocks, time);
  const block = changetype<DelayBlock>(near);
  if (near != 0 && block.matched >= ENOUGH) {
    count = <f64>block.matched;
    least = aroundMinimum;
    most = aroundMaximum;
    mean = block.first + block.sum / count;
    squares = block.squares / count - (block.sum / count) * (block.sum / count);
  }
  const far = FAR * (most - least) + FAR_AT_LEAST;
  const furthestLeast = least - far;
  const furthestMost = most + far;
  // Of so many, some lie beyond what was seen.
  const beyond = (BEYOND * (most - least)) / count;
  const spread = 3 * Math.sqrt(max<f64>(0, squares)) + RESOLUTION;
  let usualLeast = max<f64>(least - beyond, mean - spread) - RESOLUTION;
  let usualMost = min<f64>(most + beyond, mean + spread) + RESOLUTION;
  if (flow.matched >= ENOUGH) {
    // Its own packets say more, as far as they agree with those around.
    const more = moreOf(changetype<FlowStats>(m.stats), flow);
    const width = (more.maximum - more.minimum) / 2 + RESOLUTION;
    const from = max<f64>(least, more.minimum - width);
    const to = min<f64>(most, more.maximum + width);
    if (from <= to) {
      least = from;
      most = to;
      usualLeast = max<f64>(usualLeast, from - RESOLUTION);
      usualMost = min<f64>(usualMost, to + RESOLUTION);
      if (usualLeast > usualMost) {
        usualLeast = from;
        usualMost = to;
      }
    }
  }
  const width = (most - least) / 2 + RESOLUTION;
  const line = m.offset + m.slope * (time - m.pivot);
  const corrected = line + pieceAt(m, time, line + (reverse ? m.backUsual : m.usual), !reverse) - (reverse ? m.back : 0);
  low = reverse ? corrected - most - width : corrected + least - width;
  high = reverse ? corrected - least + width : corrected + most + width;
  farLow = reverse ? corrected - furthestMost : corrected + furthestLeast;
  farHigh = reverse ? corrected - furthestLeast : corrected + furthestMost;
  usualLow = reverse ? corrected - usualMost : corrected + usualLeast;
  usualHigh = reverse ? corrected - usualLeast : corrected + usualMost;
}

/** Pairs rows of the digest that have no partner, in order; returns how many pairs that makes. */
function pairInOrder(m: Match, flow: Flow, reverse: bool, fit: u32): u32 {
  let pairs: u32 = 0;
  let i: u32 = 0;
  for (let j: u32 = 0; j < n1; j++) {
    const a = at(rows1, j);
    if (a.partner != 0) continue;
    for (; i < n0; i++) {
      const b = at(rows0, i);
      if (b.partner != 0) continue;
      boundsAt(m, flow, reverse, b.time);
      if (a.time - b.time <= (fit == USUAL ? usualHigh : fit == OCCURS ? high : farHigh)) break;
    }
    if (i == n0) break;
    const b = at(rows0, i);
    const least = fit == USUAL ? usualLow : fit == OCCURS ? low : farLow;
    if (a.time - b.time < least) continue;
    // Numbers of rows of the digest, and how well they fit.
    b.partner = ((j + 1) << 2) | fit;
    a.partner = ((i + 1) << 2) | fit;
    i++;
    pairs++;
  }
  return pairs;
}

function unpair(): void {
  for (let i: u32 = 0; i < n0; i++) at(rows0, i).partner = 0;
  for (let j: u32 = 0; j < n1; j++) at(rows1, j).partner = 0;
}

function pairAll(m: Match, flow: Flow, reverse: bool): u32 {
  const usual = pairInOrder(m, flow, reverse, USUAL);
  const others = pairInOrder(m, flow, reverse, OCCURS);
  return usual + others + pairInOrder(m, flow, reverse, FAR_OUT);
}

/** Where nothing else shows how long packets take: first in, first out, within the window. */
function pairFirstIn(m: Match): void {
  let i: u32 = 0;
  for (let j: u32 = 0; j < n1; j++) {
    const a = at(rows1, j);
    while (i < n0 && a.time - at(rows0, i).time > m.window) i++;
    if (i == n0) return;
    if (at(rows0, i).time - a.time > m.window) continue;
    a.partner = (i + 1) << 2;
    at(rows0, i).partner = (j + 1) << 2;
    i++;
  }
}

/**
 * Another row could as well be the partner: at a difference that fits as well, or at one that fits less well where it has no partner itself, and unlike the
 * one that was taken.
 */
function rivals(m: Match, flow: Flow, reverse: bool, i: u32, j: u32): bool {
  const b = at(rows0, i);
  const a = at(rows1, j);
  const fit = b.partner & 3;
  // Further out than all others: nothing shows that it is this one.
  if (fit == FAR_OUT) return true;
  const apart = a.time - b.time;
  boundsAt(m, flow, reverse, b.time);
  // Differences include what the clocks are apart: what packets take differs by no more than it does.
  const alike = ALIKE * min<f64>(abs<f64>(apart), high - low) + RESOLUTION / 2;
  if (fit == OCCURS) {
    usualLow = low;
    usualHigh = high;
  }
    const copiesAfter: f64 = reverse ? -1 : n0 == 1 ? Infinity : TWICE;
  const copiesBefore: f64 = !reverse ? -1 : n1 == 1 ? Infinity : TWICE;
  return (
    rivalOf(rows1, n1, j, b.time, 1, apart, alike, copiesAfter) || rivalOf(rows0, n0, i, a.time, -1, apart, alike, copiesBefore)
  );
}
/**
 * Among the neighbours of row `own`, seen from `time`. Where packets arrive, those without a partner that come behind it by no more than `copies` are
 * copies of it: the first is the packet.
 */
function rivalOf(rows: u32, n: u32, own: u32, time: f64, sign: f64, apart: f64, alike: f64, copies: f64): bool {
  let steps: u32 = 0;
  let k = own + 1;
  for (; k < n && k - own <= LOOKED_AT; k++) {
    const other = sign * (at(rows, k).time - time);
    if (other < farLow || other > farHigh) break;
    if (!isRival(at(rows, k), other)) continue;
    if (at(rows, k).partner == 0 && at(rows, k).time - at(rows, own).time <= copies) continue;
    if (abs<f64>(other - apart) > alike || ++steps == NEIGHBOURS) return true;
  }
  steps = 0;
  for (k = own; k > 0 && own - k < LOOKED_AT; k--) {
    const other = sign * (at(rows, k - 1).time - time);
    if (other < farLow || other > farHigh) break;
    if (!isRival(at(rows, k - 1), other)) continue;
    if (abs<f64>(other - apart) > alike || ++steps == NEIGHBOURS) return true;
  }
  return false;
}
// @ts-ignore: decorator
@inline
function isRival(row: Repeat, apart: f64): bool {
  return row.partner == 0 || (apart >= usualLow && apart <= usualHigh);
}

/** A pair whose delay is not known for certain: matched, but no more. */
function countAmbiguous(m: Match, flow: Flow, b: Repeat, apart: f64): void {
  if (m.fates != 0) noteAmbiguous(m, b.time, b.time + apart, b.flow);
  if (directionOf(flow) == 0) flow.more |= (apart >= m.threshold ? <u32>1 : <u32>2) << 30;
  faultsOf(changetype<FlowStats>(m.stats), flow).ambiguous++;
  m.ambiguous++;
  if (directionOf(flow) == 2) return;
  changetype<Interval>(m.intervals + intervalAt(m, b.time) * INTERVAL_BYTES).ambiguous++;
}

/** Pairs of all groups, {row of BEFORE, row of AFTER}: they are counted in the order of sending, which jitter follows. */
let settled: u32 = 0;
let settledCount: u32 = 0;
let settledRoom: u32 = 0;
function addPair(b: Repeat, a: Repeat): void {
  if (settledCount == settledRoom) {
    settledRoom = max<u32>(1024, settledRoom << 1);
    settled = settled == 0 ? <u32>heap.alloc(settledRoom << 3) : <u32>heap.realloc(settled, settledRoom << 3);
  }
  store<u32>(settled + (settledCount << 3), <u32>changetype<usize>(b));
  store<u32>(settled + (settledCount << 3), <u32>changetype<usize>(a), 4);
  settledCount++;
}

/** Whether pair i is of a flow of the other direction. */
function isBack(m: Match, i: u32): bool {
  const b = changetype<Repeat>(<usize>load<u32>(settled + (i << 3)));
  const direction = directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), b.flow));
  // A flow without pairs so far gets its direction by the first of them.
  if (direction == 0) return changetype<Repeat>(<usize>load<u32>(settled + (i << 3), 4)).time - b.time < m.threshold;
  return direction == 2;
}
/** When it was sent. */
function sentAt(m: Match, i: u32): f64 {
  const b = changetype<Repeat>(<usize>load<u32>(settled + (i << 3)));
  return isBack(m, i) ? changetype<Repeat>(<usize>load<u32>(settled + (i << 3), 4)).time : b.time;
}
/** Heap sort. */
function sortSettled(m: Match): void {
  for (let i = settledCount >> 1; i > 0; i--) sinkSettled(m, i - 1, settledCount);
  for (let end = settledCount; end > 1; ) {
    end--;
    exchange(0, end);
    sinkSettled(m, 0, end);
  }
}
function sinkSettled(m: Match, from: u32, n: u32): void {
  let i = from;
  const time = sentAt(m, i);
  while ((i << 1) + 1 < n) {
    let child = (i << 1) + 1;
    if (child + 1 < n && sentAt(m, child + 1) > sentAt(m, child)) child++;
    if (time >= sentAt(m, child)) return;
    exchange(i, child);
    i = child;
  }
}
function exchange(i: u32, k: u32): void {
  const held = load<u64>(settled + (i << 3));
  store<u64>(settled + (i << 3), load<u64>(settled + (k << 3)));
  store<u64>(settled + (k << 3), held);
}

/** Through the loops that others go through, some thousand at a time. */
let chunk: u32 = 0; // a Batch with the times and flags of the packets at AFTER
function flush(m: Match): void {
  sortSettled(m);
  const batch = changetype<Batch>(<usize>chunk);
  for (let i: u32 = 0; i < settledCount; i++) {
    const a = changetype<Repeat>(<usize>load<u32>(settled + (i << 3), 4));
    const k = m.foundCount++;
    store<f64>(batch.time + (k << 3), a.time);
    store<u32>(batch.flags + (k << 2), (a.state >> 8) & 0xff);
    store<u32>(m.found + (k << 4), load<u32>(settled + (i << 3)));
    const place = isBack(m, i) ? a.order : changetype<Repeat>(<usize>load<u32>(settled + (i << 3))).order;
    store<u32>(m.found + (k << 4), place, 4);
    store<u32>(m.found + (k << 4), k, 8);
    store<u32>(m.found + (k << 4), place, 12);
    if (m.foundCount == m.rows) flushChunk(m);
  }
  flushChunk(m);
  settledCount = 0;
}
function flushChunk(m: Match): void {
  countPairs(m, changetype<Batch>(<usize>chunk), 1, 0);
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
}

/** One at either point: no other can be meant. */
function isAlone(m: Match): bool {
  return n0 == 1 && n1 == 1 && abs<f64>(at(rows1, 0).time - at(rows0, 0).time) <= m.window;
}

/** At most two at either point, one beside the other: which of them it is matters little. */
function isTwin(m: Match): bool {
  if (n0 == 0 || n1 == 0 || n0 > 2 || n1 > 2) return false;
  if (n0 == 2 && at(rows0, 1).time - at(rows0, 0).time > TWICE) return false;
  if (n1 == 2 && at(rows1, 1).time - at(rows1, 0).time > TWICE) return false;
  return abs<f64>(at(rows1, 0).time - at(rows0, 0).time) <= m.window;
}

/** The first with the first, the second with the second. */
function pairTwins(): void {
  for (let i: u32 = 0; i < min<u32>(n0, n1); i++) {
    at(rows0, i).partner = (i + 1) << 2;
    at(rows1, i).partner = (i + 1) << 2;
    addPair(at(rows0, i), at(rows1, i));
  }
}

/** First the unambiguous ones, then, where nothing else shows how long packets take, the nearly unambiguous ones, then the others. */
function settleGroups(m: Match, r: Repeats, phase: u32): void {
  const unknown = changetype<Total>(m.forward).matched + changetype<Total>(m.reverse).matched == 0;
  if (phase == 1 && !unknown) return;
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    if (n0 + n1 == 0 || at(n0 > 0 ? rows0 : rows1, 0).partner != 0) continue;
    if (phase == 2) settleGroup(m);
    else if (phase == 0 ? isAlone(m) : isTwin(m)) pairTwins();
  }
  flush(m);
}

function settleGroup(m: Match): void {
  const known = at(n0 > 0 ? rows0 : rows1, 0);
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), known.flow);
  const forward = changetype<Total>(m.forward).matched > 0;
  const reverse = changetype<Total>(m.reverse).matched > 0;
  let back = directionOf(flow) == 2;
  if (!forward && !reverse) pairFirstIn(m);
  else if (directionOf(flow) == 0 && forward && reverse) {
    const there = pairAll(m, flow, false);
    unpair();
    back = pairAll(m, flow, true) > there;
    if (!back) {
      unpair();
      pairAll(m, flow, false);
    }
  } else {
    back = directionOf(flow) == 0 ? !forward : back && reverse;
    pairAll(m, flow, back);
  }
  const sure = forward || reverse;
  for (let i: u32 = 0; i < n0; i++) {
    const b = at(rows0, i);
    if (b.partner == 0) continue;
    const a = at(rows1, (b.partner >> 2) - 1);
    if (sure ? rivals(m, flow, back, i, (b.partner >> 2) - 1) : n0 != n1) countAmbiguous(m, flow, b, a.time - b.time);
    else addPair(b, a);
  }
}

/** Packets of the digest are at one point twice, one beside the other, and at the other once. */
function isTwice(side: u32): bool {
  const rows = side == 0 ? rows0 : rows1;
  const n = side == 0 ? n0 : n1;
  if ((n & 1) != 0 || (side == 0 ? n1 : n0) > n >> 1) return false;
  for (let i: u32 = 0; i < n; i += 2) if (at(rows, i + 1).time - at(rows, i).time > TWICE) return false;
  return true;
}

/** The digest's packets come from AFTER. */
function comesBack(m: Match): bool {
  return directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(n0 > 0 ? rows0 : rows1, 0).flow)) == 2;
}

/** An arrival without a partner is a copy where a packet that has one can have made it. */
function markCopies(m: Match): void {
  const flow = flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(n0 > 0 ? rows0 : rows1, 0).flow);
  const back = directionOf(flow) == 2;
  const arrivals = back ? rows0 : rows1;
  const sends = back ? rows1 : rows0;
  const n = back ? n0 : n1;
  const sent = back ? n1 : n0;
  const known = changetype<Total>(back ? m.reverse : m.forward).matched > 0;
  let i: u32 = 0;
  // The last one that has a partner and was sent before it, by what a packet takes at least.
  let latest: f64 = NaN;
  for (let j: u32 = 0; j < n; j++) {
    const a = at(arrivals, j);
    if (a.partner != 0) continue;
    for (; i < sent; i++) {
      const b = at(sends, i);
      if (known) boundsAt(m, flow, back, b.time);
      if (b.time + (known ? (back ? -high : low) : 0) > a.time) break;
      if (b.partner != 0) latest = b.time;
    }
    if (isNaN(latest)) continue;
    const most = known ? (back ? -low : high) : m.window;
    const width = known ? 4 * (high - low) + 1000000 : 0;
    if (sent == 1 || a.time - latest <= most + width) a.state |= COPY;
  }
}

function judgeRows(m: Match, rows: u32, n: u32, side: u32): void {
  for (let i: u32 = 0; i < n; i++) {
    const row = at(rows, i);
    if (row.partner == 0) judge(m, side, row.time, row.flow, row.state);
  }
}

/** Of each two packets that come from AFTER one may be a mirror's copy: whether it is will show (kernels/match/judge.ts). */
function markSourceCopies(): void {
  for (let i: u32 = 0; i < n1; i += 2) {
    const row = at(rows1, at(rows1, i + 1).partner != 0 ? i : i + 1);
    if (row.partner == 0) row.state |= COPY;
  }
}

/** Where most packets are at BEFORE twice, one of each two is no loss. */
function countMirrored(m: Match): void {
  const stats = changetype<FlowStats>(m.stats);
  for (let i: u32 = 0; i < n0; i += 2) {
    // The one without a partner, or the second.
    const row = at(rows0, at(rows0, i + 1).partner != 0 ? i : i + 1);
    if (row.partner != 0) continue;
    faultsOf(stats, flowIn(flowSegments(stats), row.flow)).mirrored++;
    if (m.fates != 0) noteAlone(m, 0, row.time, row.flow, FATE_MIRRORED);
    row.partner = 0xffffffff;
  }
}

/** Pairs what can be paired, and judges the rest. */
export function settleRepeats(m: Match): void {
  const r = changetype<Repeats>(m.repeats);
  if (r.count == 0) return;
  settleRecent(m);
  const batch = changetype<Batch>(heap.alloc(offsetof<Batch>()));
  batch.time = <u32>heap.alloc(m.rows << 3);
  batch.flags = <u32>heap.alloc(m.rows << 2);
  chunk = <u32>changetype<usize>(batch);
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
  m.settling = SETTLED;
  for (let phase: u32 = 0; phase < 3; phase++) settleGroups(m, r, phase);
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    m.repeated0 += n0;
    m.repeated1 += n1;
    if (isTwice(0)) m.twiceBefore += <f64>n0;
  }
  const mirrored = m.twiceBefore > LEAST_TWICE && m.twiceBefore > MOST_OF * m.seen0;
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    if (n0 + n1 == 0) continue;
    markCopies(m);
    const back = comesBack(m);
    if (mirrored && !back && isTwice(0)) countMirrored(m);
    if (back && n1 > 0 && isTwice(1)) markSourceCopies();
    judgeRows(m, rows0, n0, 0);
    judgeRows(m, rows1, n1, 1);
  }
  m.settling = 0;
  clearRows(r);
  heap.free(batch.time);
  heap.free(batch.flags);
  heap.free(chunk);
  heap.free(rows0);
  heap.free(rows1);
  room = 0;
  if (settled != 0) heap.free(settled);
  settled = 0;
  settledRoom = 0;
}
