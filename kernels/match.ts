// Exact matching of two streams of packets by digest within a time window, first in, first out among equals, with
// everything that is known of each flow, each interval and each direction. The owner is src/estimators/exact/.
//
// Packets wait in a log per side (kernels/waiting.ts); at its tail they are judged: lost, appeared, or outside the other capture's time.
// Memory: rate x window entries of 40 bytes, and what kernels/flow-stats.ts keeps of each flow.
//
// A call takes some thousand rows through three loops: find the partners, bring the flows up to date, add up totals and intervals. Each
// has few values to keep in registers and few places in memory to miss.

import { Batch } from "./batch";
import { bucketOf, Cells, cellsAddMany } from "./cells";
import { directionOf, flowIn, flowSegments, FlowStats, listAdd, moreOf, touchMore } from "./flow-stats";
import { COPY, ENTRY, Log, logAdd, logBytes, logFree, logNew, logNext, logSearch, logTouch, MATCHED, searchMatched, searchNumber, searchOthers } from "./waiting";

/** One direction's totals, followed by its dense histogram (16,384 u32). */
@unmanaged
class Total {
  matched: u32;
  reordered: u32;
  extentMax: u32;
  pad: u32;
  extentSum: f64;
  first: f64; //      sums are taken around the first delay, so they neither overflow nor cancel
  sum: f64; //        of (d - first)
  squares: f64; //    of (d - first)^2
  least: f64;
  most: f64;
  jitter: f64;
  jitterCount: f64;
  ttlLower: u32; //   TTL at AFTER below / equal to / above the one at BEFORE
  ttlEqual: u32;
  ttlHigher: u32;
  negative: u32;
  firstSend: f64; //  least and largest send time of matched packets
  lastSend: f64;
  firstArrive: f64;
  lastArrive: f64;
}
const TOTAL_BYTES: u32 = 128;
const HISTOGRAM: u32 = 16384;

/** One interval of send time. */
@unmanaged
class Interval {
  matched: u32;
  lost: u32;
  first: f64;
  sum: f64;
  squares: f64;
  least: f64;
  most: f64;
}
const INTERVAL_BYTES: u32 = 48;

@unmanaged
class Match {
  before: u32; //     Log of packets seen at BEFORE
  after: u32; //      Log of packets seen at AFTER that found no partner
  stats: u32; //      FlowStats
  intervalCells: u32;
  intervals: u32; //  address of the interval records
  intervalCount: u32; // records in use
  intervalRoom: u32;
  interval: u32; //   the last one asked for, and its time
  forward: u32; //    Total
  reverse: u32; //    Total
  found: u32; //      partners found in this call: {entry u32, its number u32, row u32, unused u32}
  foundCount: u32;
  pairs: u32; //      forward pairs of the last call, in columns of `rows`: see PAIR_*
  pairCount: u32;
  backPairs: u32; //  the same for the other direction
  backPairCount: u32;
  rows: u32;
  arrivals: u32; //   matched arrivals so far, for the reordering extent
  records: u32; //    ring of {order u32, arrival u32}: packets that were the newest so far on arrival
  recordCount: u32;
  nextOrder: u32;
  ambiguous: u32;
  recent: u32; //     dense histogram of the current interval's forward delays, not yet in the cells and the total
  recentLow: i32; //  buckets in use, from and to
  recentHigh: i32;
  intervalFrom: f64;
  intervalTo: f64;
  threshold: f64; //  a flow whose first difference is at least this goes from BEFORE to AFTER
  window: f64;
  slack: f64; //      how far one side may be read ahead of the other
  now: f64;
  epoch: f64; //      interval length, ns
  epochStart: f64; // time of the first interval's start
  slope: f64; //      clock correction: d - offset - slope * (send - pivot)
  offset: f64;
  pivot: f64;
  ended: u32; //      bit 0: BEFORE has ended, bit 1: AFTER has
  touched: u32;
  searches: u32; //   of the last call for AFTER
  pad: u32;
  firstSeen0: f64; // first and latest row of either side
  firstSeen1: f64;
  lastSeen0: f64;
  lastSeen1: f64;
}

// Columns of pairs, as multiples of `rows`.
const PAIR_SEND: u32 = 0; //    f64, time at BEFORE
const PAIR_RAW: u32 = 8; //     f64, difference of the stamps
const PAIR_DELAY: u32 = 16; //  f64, corrected, in its own direction
const PAIR_BUCKET: u32 = 24; // i32
const PAIR_ORDER: u32 = 28; //  u32, number of the entry at BEFORE
const PAIR_INFO: u32 = 32; //   u32: bit 0 AFTER's packet came second, as it should; bits 8-15 TTL at BEFORE, 16-23 at AFTER
const PAIR_BYTES: u32 = 36;

const RECORDS: u32 = 65536;
/** Damaged timestamps must not make a million million intervals: later ones all count in the last. */
const MAX_INTERVALS: f64 = 1048576;

function totalNew(): u32 {
  const p = heap.alloc(TOTAL_BYTES + HISTOGRAM * 4);
  memory.fill(p, 0, TOTAL_BYTES + HISTOGRAM * 4);
  const t = changetype<Total>(p);
  t.firstSend = Infinity;
  t.firstArrive = Infinity;
  t.lastSend = -Infinity;
  t.lastArrive = -Infinity;
  return <u32>p;
}

export function matchNew(stats: usize, intervalCells: usize, rows: u32): usize {
  const p = heap.alloc(offsetof<Match>());
  memory.fill(p, 0, offsetof<Match>());
  const m = changetype<Match>(p);
  m.stats = <u32>stats;
  m.intervalCells = <u32>intervalCells;
  m.before = logNew();
  m.after = logNew();
  m.intervalRoom = 256;
  m.intervals = <u32>heap.alloc(256 * INTERVAL_BYTES);
  memory.fill(m.intervals, 0, 256 * INTERVAL_BYTES);
  m.forward = totalNew();
  m.reverse = totalNew();
  m.rows = rows;
  m.found = <u32>heap.alloc(rows * 16);
  m.pairs = <u32>heap.alloc(rows * PAIR_BYTES);
  m.backPairs = <u32>heap.alloc(rows * PAIR_BYTES);
  m.recent = <u32>heap.alloc(HISTOGRAM * 4);
  memory.fill(m.recent, 0, HISTOGRAM * 4);
  m.recentLow = HISTOGRAM;
  m.recentHigh = -1;
  m.records = <u32>heap.alloc(RECORDS * 8);
  m.firstSeen0 = Infinity;
  m.firstSeen1 = Infinity;
  m.lastSeen0 = -Infinity;
  m.lastSeen1 = -Infinity;
  return p;
}

/** Bytes of kernel memory the waiting packets take. */
export function matchTableBytes(p: usize): f64 {
  const m = changetype<Match>(p);
  return logBytes(m.before) + logBytes(m.after);
}

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
function intervalAt(m: Match, time: f64): u32 {
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
  m.touched = touchMore(stats, m.found, n);
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
    const matched = flow.matched;
    flow.matched = matched + 1;
    if (matched == 0) flow.first = delay;
    else {
      const step = abs<f64>(delay - flow.last);
      flow.jitter += step;
      if (isForward) {
        jitter += step;
        jitterCount += 1;
      } else {
        reverse.jitter += step;
        reverse.jitterCount += 1;
      }
      const x = delay - flow.first;
      const more = moreOf(stats, flow);
      // Up to three delays are told by least, most and sum; from the fourth on they need buckets.
      if (matched >= 3) {
        if (matched == 3) {
          listAdd(stats, more, id, bucketOf(more.least));
          listAdd(stats, more, id, bucketOf(more.most));
          listAdd(stats, more, id, bucketOf(3 * flow.first + flow.sum - more.least - more.most));
        }
        listAdd(stats, more, id, bucket);
      }
      flow.sum += x;
      more.squares += x * x;
      if (matched == 1) {
        more.least = min<f64>(flow.first, delay);
        more.most = max<f64>(flow.first, delay);
      } else {
        if (delay < more.least) more.least = delay;
        if (delay > more.most) more.most = delay;
      }
    }
    flow.last = delay;
    if (delay < 0) flow.negative++;
    const order = load<u32>(f, 4);
    if (isForward && side == 1) {
      if (<i32>(order - flow.nextOrder) >= 0) flow.nextOrder = order + 1;
      else moreOf(stats, flow).reordered++;
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
function settleRecent(m: Match): void {
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
function countPairs(m: Match, batch: Batch, side: u32, shift: f64): void {
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

/** Lets entries that are older than `until` leave the log of one side; the unmatched ones are judged. */
function retire(m: Match, log: Log, side: u32, until: f64): void {
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  const stats = changetype<FlowStats>(m.stats);
  const segments = flowSegments(stats);
  const anyMatched = forward.matched + reverse.matched > 0;
  const least: f64 = forward.matched > 0 ? forward.least : 0;
  const most: f64 = forward.matched > 0 ? forward.most : 0;
  const firstSend = min<f64>(forward.firstSend, reverse.firstSend);
  const lastSend = max<f64>(forward.lastSend, reverse.lastSend);
  const firstArrive = min<f64>(forward.firstArrive, reverse.firstArrive);
  const lastArrive = max<f64>(forward.lastArrive, reverse.lastArrive);
  const entries = log.entries;
  const mask = log.mask;
  const next = log.next;
  let n = log.tail;
  for (; n != next; n++) {
    const e = entries + (n & mask) * ENTRY;
    const time = load<f64>(e, 8);
    if (time >= until) break;
    const state = load<u32>(e, 20);
    if ((state & MATCHED) != 0) continue;
    const flow = flowIn(segments, load<u32>(e, 16));
    const more = moreOf(stats, flow);
    if (side == 0) {
      // Head and tail: the other capture was not seen to run when this packet should have arrived.
      if ((!anyMatched || time < firstSend) && m.firstSeen1 > time + least) more.headBefore++;
      else if ((m.ended & 2) != 0 && time > lastSend && m.lastSeen1 < time + most) more.tailBefore++;
      else {
        more.lost++;
        // A packet of the other direction that was never seen before is not lost here: it appeared.
        if (directionOf(flow) != 2) {
          const interval = intervalAt(m, time);
          const record = changetype<Interval>(m.intervals + interval * INTERVAL_BYTES);
          record.lost++;
        }
      }
    } else if ((state & COPY) != 0) more.duplicates++;
    else if ((!anyMatched || time < firstArrive) && m.firstSeen0 > time - most) more.headAfter++;
    else if ((m.ended & 1) != 0 && time > lastArrive && m.lastSeen0 < time - least) more.tailAfter++;
    else more.appeared++;
  }
  log.tail = n;
}

/** Loads what the first loop will look at: loads that do not wait for each other overlap their cache misses. */
function touch(m: Match, log: Log, digests: u32, ids: usize, from: u32, to: u32): void {
  const segments = flowSegments(changetype<FlowStats>(m.stats));
  let sum = logTouch(log, digests + (from << 3), to - from);
  for (let i = from; i < to; i++) sum += flowIn(segments, load<u32>(ids + (i << 2))).sent;
  m.touched = sum;
}

/** A partner was found for a row. */
// @ts-ignore: decorator
@inline
function take(m: Match, entry: u32, row: u32): void {
  m.ambiguous += searchOthers;
  store<u32>(entry, load<u32>(entry, 20) | MATCHED, 20);
  const f = m.found + (m.foundCount++ << 4);
  store<u32>(f, entry);
  // An entry's number tells the order of sending.
  store<u32>(f, searchNumber, 4);
  store<u32>(f, row, 8);
}

/** The first loop, for rows [from, to) of BEFORE: `ids` are their flows, `shift` is added to their times. Partners are left in `found`. */
function takeBefore(m: Match, batch: Batch, ids: usize, from: u32, to: u32, shift: f64): void {
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  const stats = changetype<FlowStats>(m.stats);
  const segments = flowSegments(stats);
  const times = batch.time;
  const digests = batch.digest;
  const flags = batch.flags;
  const lengths = batch.wireLength;
  const window = m.window;
  if (before.bits > 13) touch(m, before, digests, ids, from, to);
  let first = m.firstSeen0;
  let last = m.lastSeen0;
  for (let i = from; i < to; i++) {
    const time = load<f64>(times + (i << 3)) + shift;
    const digest = load<u64>(digests + (i << 3));
    const flowId = load<u32>(ids + (i << 2));
    const flow = flowIn(segments, flowId);
    if (time < first) first = time;
    if (time > last) last = time;
    flow.sent++;
    flow.bytes += <f64>load<u32>(lengths + (i << 2));
    if (after.tail != after.next) {
      const found = logSearch(after, digest, time, window);
      if (found != 0) {
        take(m, found, i);
        continue;
      }
    }
    logAdd(before, digest, time, flowId, <u32>load<u8>(flags + (i << 2)) << 8);
  }
  m.firstSeen0 = first;
  m.lastSeen0 = last;
}

/** The same for AFTER. */
function takeAfter(m: Match, batch: Batch, ids: usize, from: u32, to: u32, shift: f64): void {
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  const stats = changetype<FlowStats>(m.stats);
  const segments = flowSegments(stats);
  const times = batch.time;
  const digests = batch.digest;
  const flags = batch.flags;
  const window = m.window;
  // Where packets come in order the slots are not needed.
  if (m.searches > (to - from) >> 4) touch(m, before, digests, ids, from, to);
  let searches: u32 = 0;
  let first = m.firstSeen1;
  let last = m.lastSeen1;
  for (let i = from; i < to; i++) {
    const time = load<f64>(times + (i << 3)) + shift;
    const digest = load<u64>(digests + (i << 3));
    const flowId = load<u32>(ids + (i << 2));
    if (time < first) first = time;
    if (time > last) last = time;
    flowIn(segments, flowId).received++;
    let found = logNext(before, digest, time, window);
    if (found == 0) {
      found = logSearch(before, digest, time, window);
      searches++;
    }
    if (found != 0) take(m, found, i);
    else logAdd(after, digest, time, flowId, (<u32>load<u8>(flags + (i << 2)) << 8) | (searchMatched ? COPY : 0));
  }
  m.searches = searches;
  m.firstSeen1 = first;
  m.lastSeen1 = last;
}

/** Takes rows [from, to) of a batch of one side. `ids` are the rows' flows, `shift` is added to their times. */
export function matchRows(p: usize, b: usize, ids: usize, side: u32, from: u32, to: u32, shift: f64): void {
  const m = changetype<Match>(p);
  const batch = changetype<Batch>(b);
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
  if (to <= from) return;
  const times = batch.time;
  let now = m.now;
  let back = false;
  const far = 4 * m.window;
  for (let i = from; i < to; i++) {
    const time = load<f64>(times + (i << 3)) + shift;
    if (time > now) now = time;
    else if (time < now - far) back = true;
  }
  if (side == 0) takeBefore(m, batch, ids, from, to, shift);
  else takeAfter(m, batch, ids, from, to, shift);
  countPairs(m, batch, side, shift);
  // A clock was set back by far: waiting for it to come by again would keep packets for ever.
  if (back) now = load<f64>(times + ((to - 1) << 3)) + shift;
  m.now = now;
  retire(m, changetype<Log>(m.before), 0, back ? Infinity : now - m.window - m.slack);
  retire(m, changetype<Log>(m.after), 1, back ? Infinity : now - m.window - m.slack);
}

/** Both captures have ended: everything that still waits is judged. */
export function matchFinish(p: usize): void {
  const m = changetype<Match>(p);
  m.ended = 3;
  retire(m, changetype<Log>(m.before), 0, Infinity);
  retire(m, changetype<Log>(m.after), 1, Infinity);
  settleRecent(m);
}

export function matchEnd(p: usize, side: u32): void {
  const m = changetype<Match>(p);
  m.ended |= side == 0 ? 1 : 2;
}

export function matchConfigure(
  p: usize, window: f64, epoch: f64, epochStart: f64, threshold: f64, offset: f64, slope: f64, pivot: f64, start: f64, slack: f64,
): void {
  const m = changetype<Match>(p);
  m.window = window;
  m.epoch = epoch;
  m.epochStart = epochStart;
  m.threshold = threshold;
  m.offset = offset;
  m.slope = slope;
  m.pivot = pivot;
  m.slack = slack;
  m.now = start;
}

// What the TypeScript side reads: addresses and counts.
export function matchPairs(p: usize, direction: u32): usize {
  return direction == 1 ? changetype<Match>(p).pairs : changetype<Match>(p).backPairs;
}
export function matchPairCount(p: usize, direction: u32): u32 {
  return direction == 1 ? changetype<Match>(p).pairCount : changetype<Match>(p).backPairCount;
}
/** direction 1: before -> after; 2: the other. */
export function matchTotal(p: usize, direction: u32): usize {
  const m = changetype<Match>(p);
  settleRecent(m);
  return direction == 1 ? m.forward : m.reverse;
}
export function matchIntervals(p: usize): usize {
  settleRecent(changetype<Match>(p));
  return changetype<Match>(p).intervals;
}
export function matchIntervalCount(p: usize): u32 {
  return changetype<Match>(p).intervalCount;
}
export function matchAmbiguous(p: usize): u32 {
  return changetype<Match>(p).ambiguous;
}

export function matchFree(p: usize): void {
  const m = changetype<Match>(p);
  logFree(m.before);
  logFree(m.after);
  heap.free(m.intervals);
  heap.free(m.forward);
  heap.free(m.reverse);
  heap.free(m.pairs);
  heap.free(m.backPairs);
  heap.free(m.found);
  heap.free(m.recent);
  heap.free(m.records);
  heap.free(p);
}
