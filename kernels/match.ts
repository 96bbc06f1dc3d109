// Exact matching of two streams of packets by digest within a time window, first in, first out among equals, with
// everything that is known of each flow, each interval and each direction. The owner is src/estimators/exact/.
//
// Packets of either side wait in a log of their own, in order of arrival: a ring of entries, each linked to the one before it with the
// same hash slot (newest first). Chains are never unlinked: they end where the log's tail has passed. So inserting is one random
// access, a partner that follows soon is still in the cache, equal digests are found in order, and what is older than the window leaves
// at the tail, where it is judged: lost, appeared, or outside the other capture's time. Memory: rate x window entries of 32 bytes.
//
//   entry: digest u64 | time f64 | flow u32 | state u32 | next u32 (number of the previous entry in the slot, + 1) | unused u32
//   state: bit 1 matched, bit 2 copy of a matched packet, bits 8-15 TTL

import { Batch } from "./batch";
import { bucketOf, Cells, cellsAdd, cellsAddList } from "./cells";
import { flowRecord, Flows } from "./flows";

export const MATCHED: u32 = 2;
const COPY: u32 = 4;
export const ENTRY: u32 = 32;

/** Entries are numbered from 1 on; number n lies at (n & mask). Live are [tail, next). */
@unmanaged
export class Log {
  entries: u32;
  mask: u32;
  tail: u32;
  next: u32;
  heads: u32; // newest entry of each hash slot, 0 for none
  bits: u32; //  log2 of the slots
}

/** Delay statistics: sums are taken around the first delay, so they neither overflow nor cancel. */
@unmanaged
class Stat {
  first: f64;
  sum: f64; //     of (d - first)
  squares: f64; // of (d - first)^2
  least: f64;
  most: f64;
}

/** Owner's part of a flow record (after FLOW_HEAD). */
@unmanaged
class FlowStat {
  sent: u32; //        rows at BEFORE
  received: u32; //    rows at AFTER
  matched: u32;
  lost: u32; //        BEFORE rows without partner
  appeared: u32; //    AFTER rows without partner
  duplicates: u32; //  AFTER rows that are further copies of a matched packet
  headBefore: u32; //  unmatched while the other capture was not seen to run yet
  tailBefore: u32;
  headAfter: u32;
  tailAfter: u32;
  direction: u32; //   0 unknown, 1 before -> after, 2 after -> before
  nextOrder: u32;
  reordered: u32;
  negative: u32;
  // then a Stat at 56, the last delay, the sum of |differences|, the bytes
}

const F_STAT: u32 = 48 + 56;
const F_LAST: u32 = 48 + 96; //   delay of the flow's last matched packet
const F_JITTER: u32 = 48 + 104; // sum of |difference of consecutive delays|
const F_BYTES: u32 = 48 + 112; // bytes at BEFORE (or at AFTER where only it saw the flow)
export const FLOW_STAT_BYTES: u32 = 120;

/** One direction's totals, followed by its dense histogram (16,384 u32). */
@unmanaged
class Total {
  matched: u32;
  reordered: u32;
  extentMax: u32;
  pad: u32;
  extentSum: f64;
  first: f64;
  sum: f64;
  squares: f64;
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
  flows: u32;
  cells: u32; //      per flow
  intervalCells: u32;
  intervals: u32; //  address of the interval records
  intervalCount: u32; // records in use
  intervalRoom: u32;
  forward: u32; //    Total
  reverse: u32; //    Total
  pairs: u32; //      forward pairs of the last call: a column of times at BEFORE, one of differences (f64), `rows` each
  pairCount: u32;
  backPairs: u32; //  the same for the other direction
  backPairCount: u32;
  rows: u32;
  list: u32; //       {flow, bucket} to be counted
  listCount: u32;
  arrivals: u32; //   matched arrivals so far, for the reordering extent
  records: u32; //    ring of {order u32, arrival u32}: packets that were the newest so far on arrival
  recordCount: u32;
  nextOrder: u32;
  ambiguous: u32;
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
  firstSeen0: f64; // first and latest row of either side
  firstSeen1: f64;
  lastSeen0: f64;
  lastSeen1: f64;
}

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

export function logNew(): u32 {
  const p = heap.alloc(offsetof<Log>());
  const log = changetype<Log>(p);
  log.mask = 4095;
  log.entries = <u32>heap.alloc(4096 * ENTRY);
  log.tail = 1;
  log.next = 1;
  log.bits = 13;
  log.heads = <u32>heap.alloc(8192 * 4);
  memory.fill(log.heads, 0, 8192 * 4);
  return <u32>p;
}

export function logFree(p: u32): void {
  const log = changetype<Log>(p);
  heap.free(log.entries);
  heap.free(log.heads);
  heap.free(p);
}

/** Twice the room; the chains are made anew, oldest first. */
function logGrow(log: Log): void {
  const mask = (log.mask << 1) | 1;
  const fresh = heap.alloc((<usize>mask + 1) * ENTRY);
  for (let n = log.tail; n != log.next; n++) {
    memory.copy(fresh + (n & mask) * ENTRY, log.entries + (n & log.mask) * ENTRY, ENTRY);
  }
  heap.free(log.entries);
  log.entries = <u32>fresh;
  log.mask = mask;
  heap.free(log.heads);
  log.bits++;
  const slots: u32 = 1 << log.bits;
  log.heads = <u32>heap.alloc(slots << 2);
  memory.fill(log.heads, 0, slots << 2);
  for (let n = log.tail; n != log.next; n++) {
    const e = log.entries + (n & mask) * ENTRY;
    const head = log.heads + (<u32>(load<u64>(e) >> (64 - log.bits)) << 2);
    store<u32>(e, load<u32>(head), 24);
    store<u32>(head, n);
  }
}

// @ts-ignore: decorator
@inline
export function logAdd(log: Log, digest: u64, time: f64, flow: u32, state: u32): u32 {
  if (log.next - log.tail > log.mask) logGrow(log);
  const n = log.next;
  const e = log.entries + (n & log.mask) * ENTRY;
  const head = log.heads + (<u32>(digest >> (64 - log.bits)) << 2);
  store<u64>(e, digest);
  store<f64>(e, time, 8);
  store<u32>(e, flow, 16);
  store<u32>(e, state, 20);
  store<u32>(e, load<u32>(head), 24);
  store<u32>(head, n);
  // 0 is no entry.
  log.next = n + 1;
  return n;
}

// What the last search met besides the partner it was for.
let searchMatched: bool = false; // a matched packet with the same digest
let searchOthers: u32 = 0; //       further unmatched ones

/** The oldest unmatched entry with this digest within the window, or 0. */
// @ts-ignore: decorator
@inline
export function logSearch(log: Log, digest: u64, time: f64, window: f64): usize {
  let found: usize = 0;
  searchMatched = false;
  searchOthers = 0;
  const live = log.next - log.tail;
  let n = load<u32>(log.heads + (<u32>(digest >> (64 - log.bits)) << 2));
  // A number outside [tail, next) has left the log, and so has everything behind it in the chain.
  while (n != 0 && n - log.tail < live) {
    const e = log.entries + (n & log.mask) * ENTRY;
    if (load<u64>(e) == digest && abs<f64>(load<f64>(e, 8) - time) <= window) {
      if ((load<u32>(e, 20) & MATCHED) != 0) searchMatched = true;
      else {
        if (found != 0) searchOthers++;
        found = e;
      }
    }
    n = load<u32>(e, 24);
  }
  return found;
}

export function matchNew(flows: usize, cells: usize, intervalCells: usize, rows: u32): usize {
  const p = heap.alloc(offsetof<Match>());
  memory.fill(p, 0, offsetof<Match>());
  const m = changetype<Match>(p);
  m.flows = <u32>flows;
  m.cells = <u32>cells;
  m.intervalCells = <u32>intervalCells;
  m.before = logNew();
  m.after = logNew();
  m.intervalRoom = 256;
  m.intervals = <u32>heap.alloc(256 * INTERVAL_BYTES);
  memory.fill(m.intervals, 0, 256 * INTERVAL_BYTES);
  m.forward = totalNew();
  m.reverse = totalNew();
  m.rows = rows;
  m.pairs = <u32>heap.alloc(rows * 16);
  m.backPairs = <u32>heap.alloc(rows * 16);
  m.list = <u32>heap.alloc((rows + 4) * 4 * 8);
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
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  return <f64>(before.mask + after.mask + 2) * ENTRY + <f64>((1 << before.bits) + (1 << after.bits)) * 4;
}

// @ts-ignore: decorator
@inline
function statAdd(s: usize, d: f64, n: u32): void {
  const stat = changetype<Stat>(s);
  if (n == 0) {
    stat.first = d;
    stat.least = d;
    stat.most = d;
    return;
  }
  const x = d - stat.first;
  stat.sum += x;
  stat.squares += x * x;
  if (d < stat.least) stat.least = d;
  if (d > stat.most) stat.most = d;
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
// @ts-ignore: decorator
@inline
function intervalOf(m: Match, time: f64): u32 {
  const x = (time - m.epochStart) / m.epoch;
  const i: u32 = x > 0 ? <u32>min<f64>(x, MAX_INTERVALS - 1) : 0;
  if (i >= m.intervalCount) {
    if (i >= m.intervalRoom) intervalsGrow(m, i);
    m.intervalCount = i + 1;
  }
  return i;
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

function flushList(m: Match): void {
  cellsAddList(m.cells, m.list, m.listCount);
  m.listCount = 0;
}

// @ts-ignore: decorator
@inline
function listAdd(m: Match, flow: u32, d: f64): void {
  const q = m.list + (m.listCount << 3);
  store<u32>(q, flow);
  store<i32>(q, bucketOf(d), 4);
  m.listCount++;
}

/** A pair was found: all statistics of it. `arriving`: it was AFTER's packet that came second, as it should. */
function paired(m: Match, flowId: u32, send: f64, arrive: f64, ttlBefore: u32, ttlAfter: u32, order: u32, arriving: bool): void {
  const raw = arrive - send;
  const d = raw - m.offset - m.slope * (send - m.pivot);
  const r = flowRecord(changetype<Flows>(m.flows), flowId);
  const flow = changetype<FlowStat>(r + 48);
  if (flow.direction == 0) flow.direction = raw >= m.threshold ? 1 : 2;
  const forward = flow.direction == 1;
  const total = changetype<Total>(forward ? m.forward : m.reverse);
  // A reverse packet's delay is counted in its own direction.
  const delay = forward ? d : -d;
  const n = flow.matched;
  if (n > 0) {
    const step = abs<f64>(delay - load<f64>(r + F_LAST));
    store<f64>(r + F_JITTER, load<f64>(r + F_JITTER) + step);
    total.jitter += step;
    total.jitterCount += 1;
  }
  // Up to three delays are told by least, most and sum; from the fourth on they need buckets.
  if (n >= 3) {
    if (n == 3) {
      const stat = changetype<Stat>(r + F_STAT);
      listAdd(m, flowId, stat.least);
      listAdd(m, flowId, stat.most);
      listAdd(m, flowId, 3 * stat.first + stat.sum - stat.least - stat.most);
    }
    listAdd(m, flowId, delay);
  }
  statAdd(r + F_STAT, delay, n);
  store<f64>(r + F_LAST, delay);
  flow.matched = n + 1;
  if (delay < 0) {
    flow.negative++;
    total.negative++;
  }
  const k = total.matched;
  statAdd(changetype<usize>(total) + offsetof<Total>("first"), delay, k);
  total.matched = k + 1;
  if (ttlAfter < ttlBefore) total.ttlLower++;
  else if (ttlAfter == ttlBefore) total.ttlEqual++;
  else total.ttlHigher++;
  if (send < total.firstSend) total.firstSend = send;
  if (send > total.lastSend) total.lastSend = send;
  if (arrive < total.firstArrive) total.firstArrive = arrive;
  if (arrive > total.lastArrive) total.lastArrive = arrive;
  const bucket = bucketOf(delay);
  const h = changetype<usize>(total) + TOTAL_BYTES + (<usize>(bucket + 8192) << 2);
  store<u32>(h, load<u32>(h) + 1);
  if (forward) {
    const i = intervalOf(m, send);
    const interval = changetype<Interval>(m.intervals + i * INTERVAL_BYTES);
    statAdd(changetype<usize>(interval) + offsetof<Interval>("first"), delay, interval.matched);
    interval.matched++;
    cellsAdd(changetype<Cells>(m.intervalCells), i, bucket);
    const q = m.pairs + (m.pairCount << 3);
    store<f64>(q, send);
    store<f64>(q + (m.rows << 3), raw);
    m.pairCount++;
    if (arriving) {
      m.arrivals++;
      if (<i32>(order - m.nextOrder) >= 0) {
        m.nextOrder = order + 1;
        const slot = m.records + ((m.recordCount & (RECORDS - 1)) << 3);
        store<u32>(slot, order);
        store<u32>(slot, m.arrivals, 4);
        m.recordCount++;
      } else {
        total.reordered++;
        const extent = extentOf(m, order);
        total.extentSum += <f64>extent;
        if (extent > total.extentMax) total.extentMax = extent;
      }
      if (<i32>(order - flow.nextOrder) >= 0) flow.nextOrder = order + 1;
      else flow.reordered++;
    }
  } else {
    const q = m.backPairs + (m.backPairCount << 3);
    store<f64>(q, send);
    store<f64>(q + (m.rows << 3), raw);
    m.backPairCount++;
  }
}

/** Lets entries that are older than `until` leave the log of one side; the unmatched ones are judged. */
function retire(m: Match, log: Log, side: u32, until: f64): void {
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  const anyMatched = forward.matched + reverse.matched > 0;
  const least: f64 = forward.matched > 0 ? forward.least : 0;
  const most: f64 = forward.matched > 0 ? forward.most : 0;
  const firstSend = min<f64>(forward.firstSend, reverse.firstSend);
  const lastSend = max<f64>(forward.lastSend, reverse.lastSend);
  const firstArrive = min<f64>(forward.firstArrive, reverse.firstArrive);
  const lastArrive = max<f64>(forward.lastArrive, reverse.lastArrive);
  while (log.tail != log.next) {
    const e = log.entries + (log.tail & log.mask) * ENTRY;
    const time = load<f64>(e, 8);
    if (time >= until) break;
    log.tail++;
    const state = load<u32>(e, 20);
    if ((state & MATCHED) != 0) continue;
    const flow = changetype<FlowStat>(flowRecord(changetype<Flows>(m.flows), load<u32>(e, 16)) + 48);
    if (side == 0) {
      // Head and tail: the other capture was not seen to run when this packet should have arrived.
      if ((!anyMatched || time < firstSend) && m.firstSeen1 > time + least) flow.headBefore++;
      else if ((m.ended & 2) != 0 && time > lastSend && m.lastSeen1 < time + most) flow.tailBefore++;
      else {
        flow.lost++;
        // A packet of the other direction that was never seen before is not lost here: it appeared.
        if (flow.direction != 2) {
          const interval = intervalOf(m, time);
          const record = changetype<Interval>(m.intervals + interval * INTERVAL_BYTES);
          record.lost++;
        }
      }
    } else if ((state & COPY) != 0) flow.duplicates++;
    else if ((!anyMatched || time < firstArrive) && m.firstSeen0 > time - most) flow.headAfter++;
    else if ((m.ended & 1) != 0 && time > lastArrive && m.lastSeen0 < time - least) flow.tailAfter++;
    else flow.appeared++;
  }
}

/**
 * Takes rows [from, count) of a batch of one side as long as their time is not above `until`; returns the first row not
 * taken. `ids` are the rows' flows, `shift` is added to their times. Pairs found are left in `pairs`.
 */
export function matchRows(p: usize, b: usize, ids: usize, side: u32, from: u32, until: f64, shift: f64): u32 {
  const m = changetype<Match>(p);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  m.pairCount = 0;
  m.backPairCount = 0;
  m.listCount = 0;
  // How far this call goes: times may step backward, so up to the first row that is above.
  let to = from;
  while (to < n && load<f64>(batch.time + (to << 3)) + shift <= until) to++;
  if (to == from) return to;
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  if (before.bits > 15) {
    // Independent loads overlap their cache misses; those of the loop below would wait for each other.
    let sum: u32 = 0;
    const shiftBits: u64 = 64 - before.bits;
    for (let i = from; i < to; i++) sum += load<u32>(before.heads + (<u32>(load<u64>(batch.digest + (i << 3)) >> shiftBits) << 2));
    m.touched = sum;
  }
  let now = m.now;
  let back = false;
  for (let i = from; i < to; i++) {
    const time = load<f64>(batch.time + (i << 3)) + shift;
    if (time > now) now = time;
    else if (time < now - 4 * m.window) back = true;
    const digest = load<u64>(batch.digest + (i << 3));
    const flowId = load<u32>(ids + (i << 2));
    const ttl: u32 = load<u32>(batch.flags + (i << 2)) & 0xff;
    const flow = changetype<FlowStat>(flowRecord(changetype<Flows>(m.flows), flowId) + 48);
    if (side == 0) {
      flow.sent++;
      if (time < m.firstSeen0) m.firstSeen0 = time;
      if (time > m.lastSeen0) m.lastSeen0 = time;
      const bytes = changetype<usize>(flow) - 48 + F_BYTES;
      store<f64>(bytes, load<f64>(bytes) + <f64>load<u32>(batch.wireLength + (i << 2)));
      if (after.tail != after.next) {
        const found = logSearch(after, digest, time, m.window);
        if (found != 0) {
          m.ambiguous += searchOthers;
          const state = load<u32>(found, 20);
          store<u32>(found, state | MATCHED, 20);
          paired(m, flowId, time, load<f64>(found, 8), ttl, (state >> 8) & 0xff, 0, false);
          continue;
        }
      }
      logAdd(before, digest, time, flowId, ttl << 8);
    } else {
      flow.received++;
      if (time < m.firstSeen1) m.firstSeen1 = time;
      if (time > m.lastSeen1) m.lastSeen1 = time;
      const found = logSearch(before, digest, time, m.window);
      if (found != 0) {
        m.ambiguous += searchOthers;
        const state = load<u32>(found, 20);
        store<u32>(found, state | MATCHED, 20);
        // The ring position tells the order of sending: the entry's number.
        const at = (<u32>(found - before.entries)) / ENTRY;
        const order = before.next - 1 - ((before.next - 1 - at) & before.mask);
        paired(m, load<u32>(found, 16), load<f64>(found, 8), time, (state >> 8) & 0xff, ttl, order, true);
      } else logAdd(after, digest, time, flowId, (ttl << 8) | (searchMatched ? COPY : 0));
    }
  }
  flushList(m);
  // A clock was set back by far: waiting for it to come by again would keep packets for ever.
  if (back) now = load<f64>(batch.time + ((to - 1) << 3)) + shift;
  m.now = now;
  retire(m, before, 0, back ? Infinity : now - m.window - m.slack);
  retire(m, after, 1, back ? Infinity : now - m.window - m.slack);
  return to;
}

/** Both captures have ended: everything that still waits is judged. */
export function matchFinish(p: usize): void {
  const m = changetype<Match>(p);
  m.ended = 3;
  retire(m, changetype<Log>(m.before), 0, Infinity);
  retire(m, changetype<Log>(m.after), 1, Infinity);
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
  return direction == 1 ? m.forward : m.reverse;
}
export function matchIntervals(p: usize): usize {
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
  heap.free(m.list);
  heap.free(m.records);
  heap.free(p);
}
