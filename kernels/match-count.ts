// What the pairs of one call add up to: flows, totals of either direction, intervals, order of arrival. Each loop has few values to keep in
// registers and few places in memory to miss.

import { Batch } from "./batch";
import { bucketOf, Cells, cellsAddMany } from "./cells";
import { listAdd, touchMore } from "./flow-lists";
import { directionOf, faultsOf, flowIn, flowSegments, FlowStats, moreOf } from "./flow-records";
import {
  HISTOGRAM, Interval, INTERVAL_BYTES, Match, MAX_INTERVALS, PAIR_BUCKET, PAIR_DELAY, PAIR_INFO, PAIR_ORDER, PAIR_RAW, RECORDS, Total, TOTAL_BYTES,
} from "./match-state";

function intervalsGrow(m: Match, need: u32): void {
  let room = m.intervalRoom;
  while (room <= need) room <<= 1;
  const fresh = heap.alloc(room * INTERVAL_BYTES);
  memory.copy(fresh, m.intervals, m.intervalRoom * INTERVAL_BYTES);
  memory.fill(fresh + m.intervalRoom * INTERVAL_BYTES, 0, (room - m.intervalRoom) * INTERVAL_BYTES);
  heap.free(m.intervals);
  m.intervals = <u32>fresh;
  m.intervalRoom = room;
}

/** The interval record of a send time; times before the first one count there. */
export function intervalAt(m: Match, time: f64): u32 {
  const x = (time - m.epochStart) / m.epoch;
  const i: u32 = x > 0 ? <u32>min<f64>(x, MAX_INTERVALS - 1) : 0;
  if (i >= m.intervalCount) {
    if (i >= m.intervalRoom) intervalsGrow(m, i);
    m.intervalCount = i + 1;
  }
  return i;
}

function intervalFind(m: Match, time: f64): u32 {
  settleRecent(m);
  const i = intervalAt(m, time);
  m.interval = i;
  m.intervalFrom = m.epochStart + <f64>i * m.epoch;
  m.intervalTo = m.intervalFrom + m.epoch;
  return i;
}

/** The same for forward pairs: the current interval, if it is that, or else it becomes that. */
// @ts-ignore: decorator
@inline
function intervalOf(m: Match, time: f64): u32 {
  return time >= m.intervalFrom && time < m.intervalTo ? m.interval : intervalFind(m, time);
}

function extentOf(m: Match, order: u32): u32 {
  // RFC 4737: from the earliest arrival that had overtaken it. Newest-so-far packets have growing orders: bisect among the last ones.
  const n = m.recordCount;
  let low: u32 = n > RECORDS ? n - RECORDS : 0;
  let high: u32 = n;
  while (low < high) {
    const mid = low + ((high - low) >> 1);
    if (<i32>(load<u32>(m.records + ((mid & (RECORDS - 1)) << 3)) - order) > 0) high = mid;
    else low = mid + 1;
  }
  if (low == n) return 1;
  return m.arrivals - load<u32>(m.records + ((low & (RECORDS - 1)) << 3), 4);
}

/** The second loop: the flows of the partners found. Leaves their pairs in columns, by direction. */
function countFlows(m: Match, batch: Batch, side: u32, shift: f64): void {
  const stats = changetype<FlowStats>(m.stats);
  const segments = flowSegments(stats);
  const times = batch.time;
  const flags = batch.flags;
  const rows = m.rows;
  const offset = m.offset;
  const slope = m.slope;
  const pivot = m.pivot;
  const threshold = m.threshold;
  const n = m.foundCount;
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  let jitter = forward.jitter;
  let jitterCount = forward.jitterCount;
  let pairs: u32 = 0;
  let backPairs: u32 = 0;
  touchMore(stats, m.found, n);
  for (let k: u32 = 0; k < n; k++) {
    const f = m.found + (k << 4);
    const e = load<u32>(f);
    const row = load<u32>(f, 8);
    const rowTime = load<f64>(times + (row << 3)) + shift;
    const rowTtl: u32 = load<u8>(flags + (row << 2));
    const entryTtl = (load<u32>(e, 20) >> 8) & 0xff;
    const send = side == 1 ? load<f64>(e, 8) : rowTime;
    const raw = side == 1 ? rowTime - send : load<f64>(e, 8) - send;
    const d = raw - offset - slope * (send - pivot);
    const id = load<u32>(e, 16);
    const flow = flowIn(segments, id);
    if (flow.more < 1 << 30) flow.more |= (raw >= threshold ? <u32>1 : <u32>2) << 30;
    const isForward = directionOf(flow) == 1;
    // A reverse packet's delay is counted in its own direction.
    const delay = isForward ? d : -d;
    const bucket = bucketOf(delay);
    // AFTER's rows count as received when they are taken (those without a partner) or here.
    flow.received += side;
    const matched = flow.matched;
    flow.matched = matched + 1;
    if (matched == 0) flow.first = delay;
    else {
      const step = abs<f64>(delay - flow.last);
      const more = moreOf(stats, flow);
      more.jitter += step;
      if (isForward) {
        jitter += step;
        jitterCount += 1;
      } else {
        reverse.jitter += step;
        reverse.jitterCount += 1;
      }
      const x = delay - flow.first;
      // Up to three delays are told by least, most and sum; from the fourth on they need buckets.
      if (matched >= 3) {
        if (matched == 3) {
          listAdd(stats, more, id, bucketOf(more.least));
          listAdd(stats, more, id, bucketOf(more.most));
          listAdd(stats, more, id, bucketOf(3 * flow.first + more.sum - more.least - more.most));
        }
        listAdd(stats, more, id, bucket);
      }
      more.sum += x;
      more.squares += x * x;
      if (matched == 1) {
        more.least = min<f64>(flow.first, delay);
        more.most = max<f64>(flow.first, delay);
      } else {
        if (delay < more.least) more.least = delay;
        if (delay > more.most) more.most = delay;
      }
      if (delay < 0) more.negative++;
    }
    flow.last = delay;
    const order = load<u32>(f, 4);
    if (isForward && side == 1) {
      if (<i32>(order - flow.nextOrder) >= 0) flow.nextOrder = order + 1;
      else faultsOf(stats, flow).reordered++;
    }
    const q = isForward ? m.pairs : m.backPairs;
    const i = isForward ? pairs++ : backPairs++;
    store<f64>(q + (i << 3), send);
    store<f64>(q + rows * PAIR_RAW + (i << 3), raw);
    store<f64>(q + rows * PAIR_DELAY + (i << 3), delay);
    store<i32>(q + rows * PAIR_BUCKET + (i << 2), bucket);
    store<u32>(q + rows * PAIR_ORDER + (i << 2), order);
    const ttls = side == 1 ? (entryTtl << 8) | (rowTtl << 16) : (rowTtl << 8) | (entryTtl << 16);
    store<u32>(q + rows * PAIR_INFO + (i << 2), ttls | side);
  }
  forward.jitter = jitter;
  forward.jitterCount = jitterCount;
  m.pairCount = pairs;
  m.backPairCount = backPairs;
}

/** The third loop: totals of one direction. */
function countTotal(m: Match, total: Total, pairs: u32, n: u32): void {
  if (n == 0) return;
  const rows = m.rows;
  const delays = pairs + rows * PAIR_DELAY;
  const infos = pairs + rows * PAIR_INFO;
  let first = total.first;
  let sum = total.sum;
  let squares = total.squares;
  let least = total.least;
  let most = total.most;
  let firstSend = total.firstSend;
  let lastSend = total.lastSend;
  let firstArrive = total.firstArrive;
  let lastArrive = total.lastArrive;
  let lower: u32 = 0;
  let higher: u32 = 0;
  let negative: u32 = 0;
  if (total.matched == 0) {
    first = load<f64>(delays);
    least = first;
    most = first;
  }
  for (let i: u32 = 0; i < n; i++) {
    const delay = load<f64>(delays + (i << 3));
    const send = load<f64>(pairs + (i << 3));
    const arrive = send + load<f64>(pairs + rows * PAIR_RAW + (i << 3));
    const info = load<u32>(infos + (i << 2));
    // The first one adds 0.
    const x = delay - first;
    sum += x;
    squares += x * x;
    least = min<f64>(least, delay);
    most = max<f64>(most, delay);
    negative += delay < 0 ? 1 : 0;
    firstSend = min<f64>(firstSend, send);
    lastSend = max<f64>(lastSend, send);
    firstArrive = min<f64>(firstArrive, arrive);
    lastArrive = max<f64>(lastArrive, arrive);
    const before = (info >> 8) & 0xff;
    const after = info >> 16;
    lower += after < before ? 1 : 0;
    higher += after > before ? 1 : 0;
  }
  total.first = first;
  total.sum = sum;
  total.squares = squares;
  total.least = least;
  total.most = most;
  total.firstSend = firstSend;
  total.lastSend = lastSend;
  total.firstArrive = firstArrive;
  total.lastArrive = lastArrive;
  total.matched += n;
  total.negative += negative;
  total.ttlLower += lower;
  total.ttlHigher += higher;
  total.ttlEqual += n - lower - higher;
}

/** Intervals and the histogram of forward pairs. */
function countIntervals(m: Match): void {
  const n = m.pairCount;
  const pairs = m.pairs;
  const rows = m.rows;
  const recent = m.recent + (8192 << 2);
  let i: u32 = 0;
  while (i < n) {
    const at = intervalOf(m, load<f64>(pairs + (i << 3)));
    const interval = changetype<Interval>(m.intervals + at * INTERVAL_BYTES);
    const from = m.intervalFrom;
    const to = m.intervalTo;
    let low = m.recentLow;
    let high = m.recentHigh;
    let first = interval.first;
    let sum = interval.sum;
    let squares = interval.squares;
    let least = interval.least;
    let most = interval.most;
    if (interval.matched == 0) {
      first = load<f64>(pairs + rows * PAIR_DELAY + (i << 3));
      least = first;
      most = first;
    }
    const start = i;
    do {
      const delay = load<f64>(pairs + rows * PAIR_DELAY + (i << 3));
      const bucket = load<i32>(pairs + rows * PAIR_BUCKET + (i << 2));
      const x = delay - first;
      sum += x;
      squares += x * x;
      least = min<f64>(least, delay);
      most = max<f64>(most, delay);
      const h = recent + (bucket << 2);
      store<u32>(h, load<u32>(h) + 1);
      low = min<i32>(low, bucket);
      high = max<i32>(high, bucket);
      i++;
      if (i == n) break;
      const send = load<f64>(pairs + (i << 3));
      if (!(send >= from && send < to)) break;
    } while (true);
    interval.first = first;
    interval.sum = sum;
    interval.squares = squares;
    interval.least = least;
    interval.most = most;
    interval.matched += i - start;
    m.recentLow = low;
    m.recentHigh = high;
  }
}

/** Puts what is counted of the current interval where it belongs. */
export function settleRecent(m: Match): void {
  const total = m.forward + TOTAL_BYTES + (8192 << 2);
  const recent = m.recent + (8192 << 2);
  const cells = changetype<Cells>(m.intervalCells);
  for (let bucket = m.recentLow; bucket <= m.recentHigh; bucket++) {
    const n = load<u32>(recent + (bucket << 2));
    if (n == 0) continue;
    store<u32>(recent + (bucket << 2), 0);
    store<u32>(total + (bucket << 2), load<u32>(total + (bucket << 2)) + n);
    cellsAddMany(cells, m.interval, bucket, n);
  }
  m.recentLow = HISTOGRAM;
  m.recentHigh = -HISTOGRAM;
}

/** The order of arrival of forward pairs that AFTER's packets completed. */
function countOrder(m: Match): void {
  const orders = m.pairs + m.rows * PAIR_ORDER;
  const total = changetype<Total>(m.forward);
  const records = m.records;
  let nextOrder = m.nextOrder;
  let recordCount = m.recordCount;
  for (let i: u32 = 0; i < m.pairCount; i++) {
    const order = load<u32>(orders + (i << 2));
    m.arrivals++;
    if (<i32>(order - nextOrder) >= 0) {
      nextOrder = order + 1;
      const slot = records + ((recordCount & (RECORDS - 1)) << 3);
      store<u32>(slot, order);
      store<u32>(slot, m.arrivals, 4);
      recordCount++;
    } else {
      m.recordCount = recordCount;
      total.reordered++;
      const extent = extentOf(m, order);
      total.extentSum += <f64>extent;
      if (extent > total.extentMax) total.extentMax = extent;
    }
  }
  m.nextOrder = nextOrder;
  m.recordCount = recordCount;
}

/** Everything about the partners that the first loop found. */
export function countPairs(m: Match, batch: Batch, side: u32, shift: f64): void {
  if (m.foundCount == 0) return;
  countFlows(m, batch, side, shift);
  countTotal(m, changetype<Total>(m.forward), m.pairs, m.pairCount);
  countTotal(m, changetype<Total>(m.reverse), m.backPairs, m.backPairCount);
  countIntervals(m);
  countBack(m);
  if (side == 1) countOrder(m);
}

/** The histogram of reverse pairs. */
function countBack(m: Match): void {
  const buckets = m.backPairs + m.rows * PAIR_BUCKET;
  const histogram = m.reverse + TOTAL_BYTES + (8192 << 2);
  for (let i: u32 = 0; i < m.backPairCount; i++) {
    const h = histogram + (load<i32>(buckets + (i << 2)) << 2);
    store<u32>(h, load<u32>(h) + 1);
  }
}

