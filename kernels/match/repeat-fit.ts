// Decides which rows of a repeated digest are one packet: in order, and only if the difference of their times fits the delays around them
// (kernels/match/delay-blocks.ts). First within the usual range, then, among the remaining ones, within the range that occurs, then further out. Linear in the
// rows of a digest.

import { Flow, moreOf } from "../flows/flow-records";
import { aroundMaximum, aroundMinimum, DelayBlock, delayBlockAt, isOfNoKind } from "./delay-blocks";
import { Match, Total } from "./match-state";
import { pieceAtLeast, pieceAtMost, pieceEnd } from "./pieces";
import { at, n0, n1, rows0, rows1 } from "./repeat-rows";
import { Repeat } from "./repeats";

/** Fewer pairs do not show the usual delay. */
const ENOUGH: u32 = 8;
// How well a pair fits: within the usual range around it, within the range that occurs, or further out than anything else.
const FAR_OUT: u32 = 0;
const OCCURS: u32 = 1;
const USUAL: u32 = 2;
/** Expected excess of later packets beyond the range seen, as a share of its width divided by the number of packets. */
const BEYOND: f64 = 4;
/** Maximum distance of a packet's partner from the delays of the others, in widths and in ns. */
const FAR: f64 = 2;
const FAR_AT_LEAST: f64 = 1000000;
/** Most captures have microsecond timestamps. */
const RESOLUTION: f64 = 2000;
/** Partners whose delays differ by less than this share are equivalent. */
const ALIKE: f64 = 0.02;
/** This many possible neighbours make a pair ambiguous, however alike; at most LOOKED_AT are examined. */
const NEIGHBOURS: u32 = 8;
const LOOKED_AT: u32 = 32;
/** Maximum time between two rows of one point that are one packet seen twice there. */
export const TWICE: f64 = 1000000;

// Possible delays of a packet sent at a time, as differences of the timestamps (after - before).
let usualLow: f64 = 0;
let usualHigh: f64 = 0;
export let low: f64 = 0;
export let high: f64 = 0;
export let farLow: f64 = 0;
export let farHigh: f64 = 0;
/** Mean difference of packets around that time. */
export let meanApart: f64 = 0;

/** Sets the bounds for a packet of `flow` that was sent at `time`, in a direction with pairs. */
export function boundsAt(m: Match, flow: Flow, reverse: bool, time: f64): void {
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
  // Among this many packets, some are beyond the range seen.
  const beyond = (BEYOND * (most - least)) / count;
  const spread = 3 * Math.sqrt(max<f64>(0, squares)) + RESOLUTION;
  let usualLeast = max<f64>(least - beyond, mean - spread) - RESOLUTION;
  let usualMost = min<f64>(most + beyond, mean + spread) + RESOLUTION;
  if (flow.matched >= ENOUGH) {
    // The flow's own packets say more, as far as they agree with those around.
    const more = moreOf(flow);
    const width = (more.maximum - more.minimum) / 2 + RESOLUTION;
    const from = max<f64>(least, more.minimum - width);
    const to = min<f64>(most, more.maximum + width);
    if (from <= to) {
      least = from;
      most = to;
      usualLeast = max<f64>(usualLeast, more.minimum - width - RESOLUTION);
      usualMost = min<f64>(usualMost, more.maximum + width + RESOLUTION);
      if (usualLeast > usualMost) {
        usualLeast = from;
        usualMost = to;
      }
    }
  }
  const width = (most - least) / 2 + RESOLUTION;
  // The line is by time at AFTER, which depends on the difference itself.
  const scale = 1 / (1 - m.slope);
  const base = m.offset + m.slope * (time - m.pivot) - (reverse ? m.back : 0);
  const from = base + pieceAtLeast(m, time);
  const to = base + pieceAtMost(m, time);
  meanApart = scale * (reverse ? from - mean : from + mean);
  low = scale * (reverse ? from - most - width : from + least - width);
  high = scale * (reverse ? to - least + width : to + most + width);
  farLow = scale * (reverse ? from - furthestMost : from + furthestLeast);
  farHigh = scale * (reverse ? to - furthestLeast : to + furthestMost);
  usualLow = scale * (reverse ? from - usualMost : from + usualLeast);
  usualHigh = scale * (reverse ? to - usualLeast : to + usualMost);
}

/** Pairs unpaired rows of the digest, in order; returns the number of pairs. */
function pairInOrder(m: Match, flow: Flow, reverse: bool, fit: u32): u32 {
  let pairs: u32 = 0;
  // After a backward clock step rows of AFTER come before those they were sent after: the time between two steps has an order of its own.
  for (let from: u32 = 0; from < n0; ) {
    const until = pieceEnd(m, at(rows0, from).time);
    let to = from + 1;
    while (to < n0 && at(rows0, to).time < until) to++;
    pairs += pairBetween(m, flow, reverse, fit, from, to);
    from = to;
  }
  return pairs;
}

/** The same for rows [from, to) of BEFORE. */
function pairBetween(m: Match, flow: Flow, reverse: bool, fit: u32, from: u32, to: u32): u32 {
  let pairs: u32 = 0;
  let i = from;
  for (let j: u32 = 0; j < n1; j++) {
    const a = at(rows1, j);
    if (a.partner != 0) continue;
    for (; i < to; i++) {
      const b = at(rows0, i);
      if (b.partner != 0) continue;
      boundsAt(m, flow, reverse, b.time);
      if (a.time - b.time <= (fit == USUAL ? usualHigh : fit == OCCURS ? high : farHigh)) break;
    }
    if (i == to) break;
    const b = at(rows0, i);
    const least = fit == USUAL ? usualLow : fit == OCCURS ? low : farLow;
    if (a.time - b.time < least) continue;
    // Indices of rows of the digest, and how well they fit.
    b.partner = ((j + 1) << 2) | fit;
    a.partner = ((i + 1) << 2) | fit;
    i++;
    pairs++;
  }
  return pairs;
}

export function unpair(): void {
  for (let i: u32 = 0; i < n0; i++) at(rows0, i).partner = 0;
  for (let j: u32 = 0; j < n1; j++) at(rows1, j).partner = 0;
}

export function pairAll(m: Match, flow: Flow, reverse: bool): u32 {
  const usual = pairInOrder(m, flow, reverse, USUAL);
  const others = pairInOrder(m, flow, reverse, OCCURS);
  return usual + others + pairInOrder(m, flow, reverse, FAR_OUT);
}

/** Without other evidence of the delay: first in, first out, within the window. */
export function pairFirstIn(m: Match): void {
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

// Captures of nothing but identical packets: range of the delays if they are paired first in, first out, per direction.
const shownLeast = new StaticArray<f64>(2);
const shownMost = new StaticArray<f64>(2);

export function forgetShown(): void {
  shownLeast.fill(Infinity);
  shownMost.fill(-Infinity);
}

// @ts-ignore: decorator
@inline
function wayOf(m: Match, apart: f64): u32 {
  return apart >= m.threshold ? 0 : 1;
}

/** Adds the digest's packets, if as many arrived as were sent. */
export function showFirstIn(m: Match): void {
  if (n0 != n1) return;
  pairFirstIn(m);
  for (let i: u32 = 0; i < n0; i++) {
    const b = at(rows0, i);
    if (b.partner == 0) continue;
    const apart = at(rows1, (b.partner >> 2) - 1).time - b.time;
    const way = wayOf(m, apart);
    shownLeast[way] = min<f64>(shownLeast[way], apart);
    shownMost[way] = max<f64>(shownMost[way], apart);
  }
  unpair();
}

/** Returns whether, in such a capture, another row could be the partner: unless identical packets are further apart than their delays differ. */
export function rivalsFirstIn(m: Match, i: u32, j: u32): bool {
  if (n0 != n1) return true;
  const apart = at(rows1, j).time - at(rows0, i).time;
  const way = wayOf(m, apart);
  const width = (shownMost[way] - shownLeast[way]) / 2 + RESOLUTION;
  low = shownLeast[way] - width;
  high = shownMost[way] + width;
  usualLow = low;
  usualHigh = high;
  farLow = low;
  farHigh = high;
  const alike = ALIKE * min<f64>(abs<f64>(apart), high - low) + RESOLUTION / 2;
  return rivalOf(rows1, rows0, n1, j, i, 1, alike, -1) || rivalOf(rows0, rows1, n0, i, j, -1, alike, -1);
}

/**
 * Returns whether another row could equally be the partner: with a difference that fits as well, or with one that fits less well if it has no partner itself
 * and differs from the one that was taken.
 */
export function rivals(m: Match, flow: Flow, reverse: bool, i: u32, j: u32): bool {
  const b = at(rows0, i);
  const a = at(rows1, j);
  const fit = b.partner & 3;
  // Further out than all others: nothing shows that it is this one.
  if (fit == FAR_OUT) return true;
  const apart = a.time - b.time;
  if (m.pieceCount == 0) {
    const d = apart - m.offset - m.slope * (b.time + apart - m.pivot);
    if (isOfNoKind(reverse ? m.backBlocks : m.blocks, b.time, reverse ? -d - m.back : d, false)) return true;
  }
  boundsAt(m, flow, reverse, b.time);
  // Differences include the clock offset: delays vary by no more than their range.
  const alike = ALIKE * min<f64>(abs<f64>(apart), high - low) + RESOLUTION / 2;
  if (fit == OCCURS) {
    usualLow = low;
    usualHigh = high;
  }
    const copiesAfter: f64 = reverse ? -1 : n0 == 1 ? Infinity : TWICE;
  const copiesBefore: f64 = !reverse ? -1 : n1 == 1 ? Infinity : TWICE;
  return (
    rivalOf(rows1, rows0, n1, j, i, 1, alike, copiesAfter) || rivalOf(rows0, rows1, n0, i, j, -1, alike, copiesBefore)
  );
}
/**
 * Searches the neighbours of row `own`, whose partner is `mate` of the other point. At the destination, unpaired rows that follow within `copies` are copies:
 * the first is the packet.
 */
function rivalOf(rows: u32, others: u32, n: u32, own: u32, mate: u32, sign: f64, alike: f64, copies: f64): bool {
  const time = at(others, mate).time;
  const apart = sign * (at(rows, own).time - time);
  let steps: u32 = 0;
  let k = own + 1;
  for (; k < n && k - own <= LOOKED_AT; k++) {
    const other = sign * (at(rows, k).time - time);
    if (other < farLow || other > farHigh) break;
    if (!isRival(at(rows, k), other)) continue;
    if (at(rows, k).partner == 0 && at(rows, k).time - at(rows, own).time <= copies) continue;
    if (abs<f64>(other - apart) > alike || isUnlike(rows, others, k, own, sign, apart, alike) || ++steps == NEIGHBOURS) return true;
  }
  steps = 0;
  for (k = own; k > 0 && own - k < LOOKED_AT; k--) {
    const other = sign * (at(rows, k - 1).time - time);
    if (other < farLow || other > farHigh) break;
    if (!isRival(at(rows, k - 1), other)) continue;
    if (abs<f64>(other - apart) > alike || isUnlike(rows, others, k - 1, own, sign, apart, alike) || ++steps == NEIGHBOURS) return true;
  }
  return false;
}
// @ts-ignore: decorator
@inline
function isRival(row: Repeat, apart: f64): bool {
  // A row paired further out than usual may be swapped with this one.
  return row.partner == 0 || (row.partner & 3) != USUAL || (apart >= usualLow && apart <= usualHigh);
}

/** With the partners of `own` and row k swapped, `own` has another delay, which is as likely as that of k is now. */
function isUnlike(rows: u32, others: u32, k: u32, own: u32, sign: f64, apart: f64, alike: f64): bool {
  const partner = at(rows, k).partner;
  if (partner == 0) return false;
  const exchanged = sign * (at(rows, own).time - at(others, (partner >> 2) - 1).time);
  return abs<f64>(exchanged - apart) > alike && exchanged >= farLow && exchanged <= farHigh;
}
