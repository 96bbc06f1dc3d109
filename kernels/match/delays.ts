// Fills the delay column of a point's rows from the capture of the sender: the same packets by digest within a window on either side (a clock may be behind),
// equal ones first in, first out (the log of waiting.ts), except those that did not arrive: TCP retransmits a lost segment, possibly identical, and the one
// that arrives is the one whose delay is close to those around it. The owner is src/delays/sender-delays.ts.
//
// A capture may also contain packets of the other direction: they passed this point first. The sign of a difference depends on the clocks, so it is not used.
// Instead:
//
//   1. The TTL: a packet that crossed a router on its way here has a lower TTL than at the sender, one that goes there has a higher TTL here.
//   2. If it is the same at both (no router in between): hosts that answer each other. At the same time their packets differ by a round trip, whatever the clocks do: the
//      larger difference is the way here. Each pair of hosts is decided separately; others by the middle between recent differences of both ways, which follows a drift.
//   3. If nothing goes both ways: all packets come from the sender, and a negative difference comes from the clocks.

import { Batch, META_IPV6 } from "../decode/batch";
import { avalanche, mixWord } from "../decode/digest";
import { EqualQueues, isQueued, queueAdd, queueLeave, queueNext, queueSearch, queuesFree, queuesNew } from "./equal-queue";
import { entryOf, EQUALS, Log, logAdapt, logFree, logNew, logPassed, MATCHED } from "./log";
import { logAdd, logNext, logSearch, logTake } from "./waiting";

/** log2 of the number of host pairs tracked at once; a newer pair replaces an older one. */
const PAIR_BITS: u32 = 13;
/** key u64 | per way: difference f64, time seen f64. Way 0 is from the smaller address to the larger. */
const PAIR_BYTES: u32 = 40;
/** Minimum number of answers that agree on the directions before other packets are judged by them, and the share that may disagree. */
const AGREED: f64 = 8;
const DISAGREED: f64 = 0.05;
/** ns: answers further apart are not compared (a clock may have moved), and the middle is that of the last two periods of this length. */
const NEAR: f64 = 0.25e9;
/** Past answers count less with each new one. */
const FADE: f64 = 1 - 1.0 / 1024;

// What the TTL shows about a row, in plane 0 of `select`.
const UNKNOWN: u8 = 0;
const HERE: u8 = 1;
const THERE: u8 = 2;
const NO_PARTNER: u8 = 3;

@unmanaged
class Delays {
  log: u32;
  queues: u32; //    EqualQueues of the log
  matched: u32;
  unmatched: u32;
  reversed: u32; //  packets of the other direction
  window: f64;
  now: f64; //       latest time that two consecutive rows have reached: a single outlier does not move it
  last: f64; //      time of the previous row
  minimum: f64; //     smaller differences belong to the other direction, if the owner knows; NaN: to be determined
  pairs: u32;
  lost: u32; //      sent, but not found at the receiver within the window
  agreed: f64; //    answers whose pair had the same way before, with decay, and those whose pair had the opposite
  disagreed: f64;
  // smallest difference of the way here and largest of the other way, of answers since `turn` and in the period before
  turn: f64;
  here: f64;
  there: f64;
  hereBefore: f64;
  thereBefore: f64;
  floor: f64; //     smallest difference of packets without an equal since `floorTurn`, and in the period before
  floorBefore: f64;
  floorTurn: f64;
  recent: f64; //    difference of the last packet without an equal, and its time; NaN: none yet
  recentAt: f64;
  jitter: f64; //    change of this difference from one packet to the next, smoothed as in RFC 3550
}

/** ns, and multiples of the jitter: within this distance from the previous packet's, a difference may be its own. */
const LEAST_APART: f64 = 1e5;
const JITTERS: f64 = 8;
/** Maximum number of equal packets tried for one packet. */
const MOST_TRIES: u32 = 64;

export function delaysNew(window: f64, minimum: f64): usize {
  const p = heap.alloc(offsetof<Delays>());
  memory.fill(p, 0, offsetof<Delays>());
  const d = changetype<Delays>(p);
  d.log = logNew();
  d.queues = queuesNew();
  d.window = window;
  d.minimum = minimum;
  d.now = -Infinity;
  d.last = -Infinity;
  d.pairs = <u32>heap.alloc(PAIR_BYTES << PAIR_BITS);
  memory.fill(d.pairs, 0, PAIR_BYTES << PAIR_BITS);
  d.turn = -Infinity;
  d.here = Infinity;
  d.there = -Infinity;
  d.hereBefore = Infinity;
  d.thereBefore = -Infinity;
  d.floor = Infinity;
  d.floorBefore = Infinity;
  d.floorTurn = -Infinity;
  d.recent = NaN;
  d.recentAt = -Infinity;
  return p;
}

export function delaysFree(p: usize): void {
  logFree(changetype<Delays>(p).log);
  queuesFree(changetype<Delays>(p).queues);
  heap.free(changetype<Delays>(p).pairs);
  heap.free(p);
}

/** Number of rows examined after one that is far ahead: if one of them is not ahead, it is an outlier. */
const LOOK_BEHIND: u32 = 8;
/** ns: the last row of a batch alone does not end a longer pause. */
const MAX_PAUSE: f64 = 3600e9;

/** Returns whether row i is more than a window above `until` and no packet around it is: waiting for its time would keep all others from their partners. */
function isOutlier(batch: Batch, i: u32, until: f64, window: f64): bool {
  const time = load<f64>(batch.time + (i << 3));
  if (!(time > until + window)) return false;
  const n = batch.count;
  if (i + 1 == n) return i > 0 && time - load<f64>(batch.time + ((i - 1) << 3)) > MAX_PAUSE;
  const end = min<u32>(n, i + 1 + LOOK_BEHIND);
  for (let k = i + 1; k < end; k++) if (load<f64>(batch.time + (k << 3)) <= until) return true;
  return false;
}

/** Adds rows of the sender from `from` on, while their time + shift is not above `until`, without outliers; returns the first row not taken. */
export function delaysSent(p: usize, b: usize, from: u32, until: f64, shift: f64): u32 {
  const d = changetype<Delays>(p);
  const log = changetype<Log>(d.log);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  let i = from;
  for (; i < n; i++) {
    const time = load<f64>(batch.time + (i << 3)) + shift;
    if (time > until) {
      if (isOutlier(batch, i, until - shift, d.window)) continue;
      break;
    }
    const ttl = load<u32>(batch.flags + (i << 2)) & 0xff;
    const e = logAdd(log, load<u64>(batch.digest + (i << 3)), time, 0, ttl << 8, i);
    if ((load<u32>(e, 20) & EQUALS) != 0) queueAdd(changetype<EqualQueues>(d.queues), log, e);
  }
  return i;
}

/** Removes packets sent before `until`; those that were not found at the receiver are lost. */
function expire(d: Delays, until: f64): void {
  const log = changetype<Log>(d.log);
  while (log.tail != log.next) {
    const entry = entryOf(log, log.tail);
    if (load<f64>(entry, 8) >= until) break;
    const state = load<u32>(entry, 20);
    if ((state & MATCHED) == 0) d.lost++;
    if ((state & EQUALS) != 0) queueLeave(changetype<EqualQueues>(d.queues), entry, log.tail);
    log.tail++;
  }
  logPassed(log);
}

/** The same for a silent receiver: time passes there, too. */
export function delaysExpire(p: usize, until: f64): void {
  expire(changetype<Delays>(p), until);
}

/** Sets the delay of every row of the receiver, NaN if the packet was not sent or goes the other way. */
export function delaysFill(p: usize, b: usize, shift: f64): void {
  const d = changetype<Delays>(p);
  const log = changetype<Log>(d.log);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  const known = d.minimum == d.minimum;
  let now = d.now;
  let last = d.last;
  for (let i: u32 = 0; i < n; i++) {
    const time = load<f64>(batch.time + (i << 3)) + shift;
    const reached = min<f64>(time, last);
    if (reached > now) now = reached;
    last = time;
    const digest = load<u64>(batch.digest + (i << 3));
    let found = logNext(log, digest, time, d.window);
    if (found == 0) found = search(d, log, digest, time);
    let delay: f64 = NaN;
    let way = NO_PARTNER;
    if (found != 0 && !believed(d, found, time)) found = 0;
    if (found == 0) d.unmatched++;
    else {
      delay = time - load<f64>(found, 8);
      if (known) {
        way = delay < d.minimum ? THERE : HERE;
        // The entry keeps waiting for a packet of its own direction.
        if (way == THERE) store<u32>(found, load<u32>(found, 20) & ~MATCHED, 20);
      } else {
        const sent = (load<u32>(found, 20) >> 8) & 0xff;
        const left = load<u32>(batch.flags + (i << 2)) & 0xff;
        way = left < sent ? HERE : left > sent ? THERE : UNKNOWN;
        if (way == UNKNOWN) answered(d, batch, i, time, delay);
      }
    }
    store<f64>(batch.delay + (i << 3), delay);
    store<u8>(batch.select + i, way);
  }
  d.now = now;
  d.last = last;
  settle(d, batch, shift);
  expire(d, now - d.window);
  log.rows += n;
  logAdapt(log);
}

/** Returns the oldest unmatched packet with this digest within the window that may be the right one, or 0, and marks it as matched. */
// @ts-ignore: decorator
@inline
function search(d: Delays, log: Log, digest: u64, time: f64): u32 {
  const queues = changetype<EqualQueues>(d.queues);
  if (queues.count == 0 || !isQueued(log, digest)) return logSearch(log, digest, time, d.window);
  let n = queueSearch(queues, log, digest, time, d.window);
  if (n == 0) return 0;
  if (time - d.recentAt <= NEAR) n = arrived(d, log, n, time);
  const e = entryOf(log, n);
  logTake(log, e, n);
  return e;
}

/**
 * Chooses among packet `n` and its later equals: the first with a difference close to those around; otherwise the closest, if it is clearly closer than `n`.
 */
function arrived(d: Delays, log: Log, n: u32, time: f64): u32 {
  const near = max<f64>(LEAST_APART, JITTERS * d.jitter);
  const first = abs<f64>(time - load<f64>(entryOf(log, n), 8) - d.recent);
  let best = n;
  let least = first;
  let next = n;
  for (let k: u32 = 0; k < MOST_TRIES && least > near; k++) {
    next = queueNext(log, next, time, d.window);
    if (next == 0) break;
    const apart = abs<f64>(time - load<f64>(entryOf(log, next), 8) - d.recent);
    if (apart < least) {
      best = next;
      least = apart;
    }
  }
  return least <= near || least < first / 2 ? best : n;
}

/**
 * Repeated packets (heartbeats) have equals before and after them: if the difference is below that of packets without an equal, the row belongs to a later one,
 * and its own partner is missing.
 */
// @ts-ignore: decorator
@inline
function believed(d: Delays, found: u32, time: f64): bool {
  const state = load<u32>(found, 20);
  const difference = time - load<f64>(found, 8);
  if ((state & EQUALS) == 0) {
    if (time >= d.floorTurn) {
      d.floorBefore = d.floor;
      d.floor = Infinity;
      d.floorTurn = time + NEAR;
    }
    d.floor = min<f64>(d.floor, difference);
    if (time - d.recentAt <= NEAR) d.jitter += (abs<f64>(difference - d.recent) - d.jitter) / 16;
    d.recent = difference;
    d.recentAt = time;
    return true;
  }
  const floor = min<f64>(d.floor, d.floorBefore);
  if (difference >= min<f64>(floor, 0)) return true;
  store<u32>(found, state & ~MATCHED, 20);
  return false;
}

/** Decides which rows keep their difference as a delay, after the batch's own answers are known. */
function settle(d: Delays, batch: Batch, shift: f64): void {
  const n = batch.count;
  const middle = middleOf(d);
  for (let i: u32 = 0; i < n; i++) {
    let way = load<u8>(batch.select + i);
    if (way == NO_PARTNER) continue;
    if (way == UNKNOWN) {
      const time = load<f64>(batch.time + (i << 3)) + shift;
      way = wayOf(d, batch, i, time, load<f64>(batch.delay + (i << 3)), middle);
    }
    if (way == THERE) {
      store<f64>(batch.delay + (i << 3), NaN);
      d.reversed++;
    } else d.matched++;
  }
}

/** Returns the way of a row within its host pair, by addresses alone: 0 from the smaller to the larger. */
// @ts-ignore: decorator
@inline
function wayIn(batch: Batch, i: u32): u32 {
  const o = i << 3;
  const a = load<u64>(batch.addrA + o);
  if ((load<u64>(batch.meta + o) & META_IPV6) == 0) return <u32>(a >> 32) > <u32>a ? 1 : 0;
  const c = load<u64>(batch.addrC + o);
  if (a != c) return a > c ? 1 : 0;
  return load<u64>(batch.addrB + o) > load<u64>(batch.addrD + o) ? 1 : 0;
}

// @ts-ignore: decorator
@inline
function pairKey(batch: Batch, i: u32): u64 {
  const o = i << 3;
  const a = load<u64>(batch.addrA + o);
  // Sums, which do not depend on the order of the addresses. Never 0, which marks an empty place.
  if ((load<u64>(batch.meta + o) & META_IPV6) == 0) return avalanche(avalanche(a >> 32) + avalanche(a & 0xffffffff)) | 1;
  const source = mixWord(a, load<u64>(batch.addrB + o));
  const destination = mixWord(load<u64>(batch.addrC + o), load<u64>(batch.addrD + o));
  return avalanche(avalanche(source) + avalanche(destination)) | 1;
}

/** Records a packet between two hosts: if the other way was seen at nearly the same time, compares the two. */
function answered(d: Delays, batch: Batch, i: u32, time: f64, difference: f64): void {
  const key = pairKey(batch, i);
  const pair = d.pairs + <u32>(key >> (64 - PAIR_BITS)) * PAIR_BYTES;
  const way = wayIn(batch, i);
  const own = pair + 8 + (way << 4);
  const other = pair + 8 + ((way ^ 1) << 4);
  if (load<u64>(pair) != key) {
    store<u64>(pair, key);
    store<f64>(other, -Infinity, 8);
    store<f64>(own, -Infinity, 8);
  }
  const before = load<f64>(own);
  const was = load<f64>(own, 8);
  store<f64>(own, difference);
  store<f64>(own, time, 8);
  const back = load<f64>(other);
  if (time - load<f64>(other, 8) > NEAR) return;
  const here = max<f64>(difference, back);
  const there = min<f64>(difference, back);
  d.agreed *= FADE;
  d.disagreed *= FADE;
  // The result must agree with that of the previous packet.
  if (time - was <= NEAR) {
    if ((before > back) == (difference > back)) d.agreed += 1;
    else d.disagreed += 1;
  }
  if (time >= d.turn) {
    d.hereBefore = d.here;
    d.thereBefore = d.there;
    d.here = Infinity;
    d.there = -Infinity;
    d.turn = time + NEAR;
  }
  d.here = min<f64>(d.here, here);
  d.there = max<f64>(d.there, there);
}

/** Returns the middle between the two ways; NaN if nothing goes both ways, or the two cannot be distinguished. */
function middleOf(d: Delays): f64 {
  if (d.agreed < AGREED || d.disagreed > DISAGREED * d.agreed) return NaN;
  const here = min<f64>(d.here, d.hereBefore);
  const there = max<f64>(d.there, d.thereBefore);
  return (here + there) / 2;
}

function wayOf(d: Delays, batch: Batch, i: u32, time: f64, difference: f64, middle: f64): u8 {
  if (middle != middle) return HERE;
  const key = pairKey(batch, i);
  const pair = d.pairs + <u32>(key >> (64 - PAIR_BITS)) * PAIR_BYTES;
  if (load<u64>(pair) == key) {
    const other = pair + 8 + ((wayIn(batch, i) ^ 1) << 4);
    if (abs<f64>(time - load<f64>(other, 8)) <= NEAR) return difference > load<f64>(other) ? HERE : THERE;
  }
  return difference >= middle ? HERE : THERE;
}

/** 0 matched, 1 unmatched, 2 reversed, 3 lost, else waiting packets of the sender. */
export function delaysCount(p: usize, what: u32): u32 {
  const d = changetype<Delays>(p);
  if (what == 0) return d.matched;
  if (what == 1) return d.unmatched;
  if (what == 2) return d.reversed;
  if (what == 3) return d.lost;
  const log = changetype<Log>(d.log);
  return log.next - log.tail;
}
