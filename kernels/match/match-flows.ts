// The second loop over the partners of one call (kernels/match/match.ts): updates their flows, and leaves their pairs in columns, by direction.

import { Batch } from "../decode/batch";
import { TOUCHED_AT_ONCE } from "../flows/flow-index";
import { journalAdd, listAdd, touchFlows } from "../flows/flow-lists";
import { directionOf, faultsOf, Flow, flowIn, FlowMore, flowSegments, FlowStats, moreOf } from "../flows/flow-records";
import { bucketOf } from "../sketches/cells";
import { notePairs } from "./fates";
import { Match, PAIR_BUCKET, PAIR_DELAY, PAIR_FLOW, PAIR_ORDER, PAIR_RAW, PLACES_UNKNOWN, Total } from "./match-state";
import { correctPieces } from "./pieces";
import { LATE, lateStep, placeOf, ringPut, UNPLACED } from "./send-order";
import { ARRIVED } from "./log";

/** The second loop: the flows of the partners found. Leaves their pairs in columns, by direction. */
export function countFlows(m: Match, batch: Batch, side: u32, shift: f64): void {
  const stats = changetype<FlowStats>(m.stats);
  const segments = flowSegments(stats);
  const plain = side == 1 && m.settling == 0 && m.pieceCount == 0 && m.fates == 0;
  let k: u32 = 0;
  let touched: u32 = 0;
  while (k < m.foundCount) {
    if (k >= touched) {
      touched = min<u32>(m.foundCount, k + TOUCHED_AT_ONCE);
      touchFlows(stats, m.found + (k << 4), touched - k);
    }
    const e = load<u32>(m.found + (k << 4));
    const id = load<u32>(e, 16);
    const flow = flowIn(segments, id);
    if (plain && isUsual(m, flow, k) && countOne(m, stats, flow, batch, shift, k)) {
      k++;
      continue;
    }
    if (flow.more < 1 << 30) {
      const row = load<u32>(m.found + (k << 4), 8);
      const apart = load<f64>(batch.time + (row << 3)) + shift - load<f64>(e, 8);
      flow.more |= ((side == 1 ? apart : -apart) >= m.threshold ? <u32>1 : <u32>2) << 30;
    }
    const from = k;
    const forward = directionOf(flow) == 1;
    k = writePairs(m, batch, side, shift, k, forward);
    const n = k - from;
    if (m.pieceCount != 0) correctPieces(m, forward, n);
    // A packet's position in the order of sending is that of the entry that waited at the sending side, or of the row itself.
    const waited = forward == (side == 1);
    countDelays(m, stats, flow, forward, from, n, waited);
    if (m.fates != 0) notePairs(m, id, forward, n);
    // AFTER's rows count as received when they are taken (those without a partner) or here.
    if (side == 1 && m.settling == 0) {
      flow.received += n;
      if (forward) keepOrders(m, from, k);
    }
    if (forward == (side == 0)) markArrived(m, from, k);
  }
}

/** Returns whether it is a forward flow with a list of its delays, and partner k is not followed by another one of the same flow. */
// @ts-ignore: decorator
@inline
function isUsual(m: Match, flow: Flow, k: u32): bool {
  if (flow.matched <= 3 || directionOf(flow) != 1) return false;
  const f = m.found + (k << 4);
  return k + 1 == m.foundCount || load<u32>(load<u32>(f), 16) != load<u32>(load<u32>(f, 16), 16);
}

/**
 * Does what writePairs and countDelays do, in one step, for one such partner found by AFTER's packet: nearly all are on links with many flows. Returns false,
 * and does nothing, if it came late.
 */
// @ts-ignore: decorator
@inline
function countOne(m: Match, stats: FlowStats, flow: Flow, batch: Batch, shift: f64, k: u32): bool {
  const f = m.found + (k << 4);
  const place = load<u32>(f, 4);
  const order = placeOf(place);
  const more = moreOf(flow);
  if (<i32>(order - flow.nextOrder) < 0) return false;
  const e = load<u32>(f);
  const row = load<u32>(f, 8);
  const rows = m.rows;
  const send = load<f64>(e, 8);
  const raw = load<f64>(batch.time + (row << 3)) + shift - send;
  const delay = raw - m.offset - m.slope * (send + raw - m.pivot);
  const bucket = bucketOf(delay - m.base);
  const i = m.pairCount++;
  const q = m.pairs + (i << 3);
  store<f64>(q, send);
  store<f64>(q + rows * PAIR_RAW, raw);
  store<f64>(q + rows * PAIR_DELAY, delay);
  const h = m.pairs + rows * PAIR_BUCKET + (i << 2);
  store<i32>(h, bucket);
  store<u32>(h + rows * (PAIR_ORDER - PAIR_BUCKET), place);
  const rowTtl: u32 = load<u8>(batch.flags + (row << 2));
  const entryTtl: u32 = load<u8>(e, 21);
  const isLower: u32 = rowTtl < entryTtl ? 1 : 0;
  const isHigher: u32 = rowTtl > entryTtl ? 1 : 0;
  const id = load<u32>(e, 16);
  store<u32>(h + rows * (PAIR_FLOW - PAIR_BUCKET), id | (isLower << 30) | (isHigher << 31));
  const total = changetype<Total>(m.forward);
  total.ttlLower += isLower;
  total.ttlHigher += isHigher;
  total.ttlEqual += 1 - isLower - isHigher;
  const number = m.ringNext++;
  ringPut(m.ring, number, id, flow.matched, more.lastPair, order, delay);
  more.lastPair = number;
  journalAdd(stats, id, bucket);
  const x = delay - flow.first;
  more.sum += x;
  more.squares += x * x;
  if (delay < more.minimum) more.minimum = delay;
  if (delay > more.maximum) more.maximum = delay;
  more.negative += delay < 0 ? 1 : 0;
  const step = abs<f64>(delay - flow.last);
  more.jitter += step;
  total.jitter += step;
  total.jitterCount += 1;
  flow.last = delay;
  flow.nextOrder = order;
  flow.matched++;
  flow.received++;
  return true;
}

/** Writes consecutive partners of one flow, from k on, as pairs of their direction; returns the first that is not. */
// @ts-ignore: decorator
@inline
function writePairs(m: Match, batch: Batch, side: u32, shift: f64, k: u32, forward: bool): u32 {
  const times = batch.time;
  const flags = batch.flags;
  const rows = m.rows;
  const offset = m.offset;
  const slope = m.slope;
  const pivot = m.pivot;
  const n = m.foundCount;
  const from = k;
  const total = changetype<Total>(forward ? m.forward : m.reverse);
  let q = forward ? m.pairs + (m.pairCount << 3) : m.backPairs + (m.backPairCount << 3);
  let h = forward ? m.pairs + rows * PAIR_BUCKET + (m.pairCount << 2) : m.backPairs + rows * PAIR_BUCKET + (m.backPairCount << 2);
  let f = m.found + (k << 4);
  let e = load<u32>(f);
  const id = load<u32>(e, 16);
  // The row's TTL is AFTER's if the row is of AFTER, else BEFORE's.
  const lowerBit: u32 = side == 1 ? 30 : 31;
  const back = m.back;
  const base = forward ? m.base : -m.base;
  let lower: u32 = 0;
  let higher: u32 = 0;
  do {
    const row = load<u32>(f, 8);
    const rowTime = load<f64>(times + (row << 3)) + shift;
    const entryTime = load<f64>(e, 8);
    const send = side == 1 ? entryTime : rowTime;
    const raw = side == 1 ? rowTime - entryTime : entryTime - rowTime;
    // The corrected clock is AFTER's: the correction is a function of its time.
    const d = raw - offset - slope * (send + raw - pivot);
    // A reverse packet's delay is counted in its own direction.
    const delay = forward ? d : -d - back;
    store<f64>(q, send);
    store<f64>(q + rows * PAIR_RAW, raw);
    store<f64>(q + rows * PAIR_DELAY, delay);
    store<i32>(h, bucketOf(delay - base));
    const rowTtl: u32 = load<u8>(flags + (row << 2));
    const entryTtl: u32 = load<u8>(e, 21);
    const isLower: u32 = rowTtl < entryTtl ? 1 : 0;
    const isHigher: u32 = rowTtl > entryTtl ? 1 : 0;
    lower += isLower;
    higher += isHigher;
    store<u32>(h + rows * (PAIR_FLOW - PAIR_BUCKET), id | (isLower << lowerBit) | (isHigher << (61 - lowerBit)));
    q += 8;
    h += 4;
    k++;
    if (k == n) break;
    f += 16;
    e = load<u32>(f);
  } while (load<u32>(e, 16) == id);
  if (forward) m.pairCount += k - from;
  else m.backPairCount += k - from;
  total.ttlLower += side == 1 ? lower : higher;
  total.ttlHigher += side == 1 ? higher : lower;
  total.ttlEqual += k - from - lower - higher;
  return k;
}

/** Adds the last n pairs of a direction, all of one flow, partners `from` on, to the flow. `waited`: their entries waited at the sending side. */
// @ts-ignore: decorator
@inline
function countDelays(m: Match, stats: FlowStats, flow: Flow, forward: bool, from: u32, n: u32, waited: bool): void {
  const total = changetype<Total>(forward ? m.forward : m.reverse);
  const pairs = forward ? m.pairs : m.backPairs;
  const begin = (forward ? m.pairCount : m.backPairCount) - n;
  const id = load<u32>(load<u32>(m.found + (from << 4)), 16);
  let q = pairs + m.rows * PAIR_DELAY + (begin << 3);
  let h = pairs + m.rows * PAIR_BUCKET + (begin << 2);
  const end = q + (n << 3);
  let f = m.found + (from << 4) + (waited ? 4 : 12);
  const base = forward ? m.base : -m.base;
  const settling = m.settling != 0;
  const unplaced = m.settling == PLACES_UNKNOWN;
  let ringNext = m.ringNext;
  let matched = flow.matched;
  let more = changetype<FlowMore>(0);
  let first = flow.first;
  let last = flow.last;
  let next = flow.nextOrder;
  let minimum: f64 = min<f64>(first, last);
  let maximum: f64 = max<f64>(first, last);
  let sum: f64 = 0;
  let squares: f64 = 0;
  let jitter: f64 = 0;
  let negative: u32 = 0;
  let apart: u32 = 0;
  let lastPair: u32 = 0;
  if (matched > 2) {
    more = moreOf(flow);
    minimum = more.minimum;
    maximum = more.maximum;
    sum = more.sum;
    squares = more.squares;
    lastPair = more.lastPair;
  }
  for (; q < end; q += 8, h += 4, f += 16) {
    const delay = load<f64>(q);
    // Without positions they are ordered only among themselves: that suffices if the flow has no other pairs.
    const order = unplaced ? UNPLACED : settling ? load<u32>(f) : placeOf(load<u32>(f));
    const placed = !unplaced || matched == 0 || next == UNPLACED;
    const late = matched > 0 && <i32>(order - next) < 0;
    ringPut(m.ring, ringNext, id, matched, lastPair, late ? order | LATE : order, delay);
    lastPair = ringNext++;
    if (matched == 0) {
      first = delay;
      last = delay;
      minimum = delay;
      maximum = delay;
      next = order;
    } else {
      if (matched == 2) {
        // Up to two delays are stored as the first and the last; from the third on there is a second record.
        more = moreOf(flow);
        sum = last - first;
        squares = sum * sum;
        // The second delay's step is added below if it is of this call.
        more.jitter = flow.matched < 2 || more.apart > 0 ? 0 : abs<f64>(sum);
        more.negative = (first < 0 ? 1 : 0) + (last < 0 ? 1 : 0);
      } else if (matched >= 3) {
        // Up to three delays follow from minimum, maximum and sum; from the fourth on they need buckets.
        if (matched == 3) {
          listAdd(stats, more, id, bucketOf(minimum - base));
          listAdd(stats, more, id, bucketOf(maximum - base));
          listAdd(stats, more, id, bucketOf(3 * first + sum - minimum - maximum - base));
        }
        listAdd(stats, more, id, load<i32>(h));
      }
      const x = delay - first;
      sum += x;
      squares += x * x;
      if (delay < minimum) minimum = delay;
      if (delay > maximum) maximum = delay;
      if (matched >= 2) negative += delay < 0 ? 1 : 0;
      if (!late && placed) {
        jitter += abs<f64>(delay - last);
        last = delay;
        next = order;
      } else if (matched == 1) {
        // `last` is the newest in send order; without a position it is only the other of the two.
        if (placed) {
          jitter += abs<f64>(delay - last);
          first = delay;
        } else {
          last = delay;
          apart++;
        }
      } else {
        const step: f64 = placed ? lateStep(m.ring, lastPair) : NaN;
        if (isNaN(step)) apart++;
        else jitter += step;
      }
      if (late && forward && waited && !settling) faultsOf(stats, flow).reordered++;
    }
    matched++;
  }
  m.ringNext = ringNext;
  if (changetype<usize>(more) != 0) {
    more.minimum = minimum;
    more.maximum = maximum;
    more.sum = sum;
    more.squares = squares;
    more.jitter += jitter;
    more.negative += negative;
    more.lastPair = lastPair;
  }
  if (apart > 0) moreOf(flow).apart += apart;
  total.jitter += jitter;
  total.jitterCount += <f64>(n - apart - (flow.matched == 0 ? 1 : 0));
  flow.first = first;
  flow.last = last;
  flow.nextOrder = next;
  flow.matched = matched;
}

/** Marks partners [from, to) that waited at their destination: copies of them may follow. */
function markArrived(m: Match, from: u32, to: u32): void {
  for (let k = from; k < to; k++) {
    const e = load<u32>(m.found + (k << 4));
    store<u32>(e, load<u32>(e, 20) | ARRIVED, 20);
  }
}

/** Writes the positions of the partners [from, to), all of one flow, next to the pairs. */
// @ts-ignore: decorator
@inline
function keepOrders(m: Match, from: u32, to: u32): void {
  let order = m.pairs + m.rows * PAIR_ORDER + ((m.pairCount - (to - from)) << 2);
  for (let k = from; k < to; k++) {
    store<u32>(order, load<u32>(m.found + (k << 4), 4));
    order += 4;
  }
}
