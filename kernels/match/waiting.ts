// Packets of one side that wait for their partner, in order of arrival: entries in segments that are reused when all their entries have left, each linked to
// the previous one with the same hash slot (newest first). Chains are never unlinked: they end where the log's tail has passed. So inserting is one random
// access, equal digests are found in order, and entries older than the window leave at the tail.
//
// Packets mostly arrive in the order in which they were sent: the entry after the last partner is tried first (logNext), and if it has the digest and no equal
// the search is done without reading a slot. So initially there are few slots, which stay in the cache, and chains are long; if searches walk them often, slots
// are added (logAdapt).
//
// Equals are detected without a search: a new entry is compared with those that no partner has passed yet (`passed`), which are few; older ones without a
// partner have set a bit in a filter (`orphans`), and only if it is set the whole chain is walked.

import {
  COPY, EQUALS, Log, MATCHED, ORPHAN_BYTES, ORPHAN_WORDS, SEGMENT, SMALL_BITS, entryOf, filterBit, headOf, logGrow, placeAt,
} from "./log";

/** Positions of the two bits of a digest, one in each word. */
// @ts-ignore: decorator
@inline
function orphanFirst(log: Log, digest: u64): u32 {
  return log.orphans + ((<u32>(digest >> 5) & (ORPHAN_WORDS - 1)) << 3);
}
// @ts-ignore: decorator
@inline
function orphanSecond(log: Log, digest: u64): u32 {
  return log.orphans + ((<u32>(digest >> 23) & (ORPHAN_WORDS - 1)) << 3);
}
// @ts-ignore: decorator
@inline
function mayBeOrphan(log: Log, digest: u64): bool {
  const first = load<u64>(orphanFirst(log, digest)) >> (digest & 31);
  const second = load<u64>(orphanSecond(log, digest)) >> ((digest >> 18) & 31);
  return (first & second & 0x0000000100000001) != 0;
}

/** Compares the new entry n with those of its chain from number `until` on. */
function markEquals(log: Log, e: u32, n: u32, digest: u64, first: u64, until: u32): void {
  const live = n - until;
  const bit = filterBit(digest);
  let link = first;
  let steps: u32 = 0;
  while ((link & bit) != 0 && <u32>link - until < live) {
    const other = entryOf(log, <u32>link);
    steps++;
    if (load<u64>(other) == digest) {
      store<u32>(other, load<u32>(other, 20) | EQUALS, 20);
      store<u32>(e, load<u32>(e, 20) | EQUALS, 20);
      // Those after it were marked when it was added.
      break;
    }
    link = load<u64>(other, 24);
  }
  log.steps += steps;
}

/** Inserts entry n, whose digest is stored, at the front of its chain. */
// @ts-ignore: decorator
@inline
function chain(log: Log, e: u32, n: u32, digest: u64): void {
  const head = headOf(log, digest);
  const bit = filterBit(digest);
  let link = load<u64>(head);
  if (<u32>link - log.tail >= n - log.tail) link = 0;
  // Bits of entries passed since then only cost a comparison.
  const near: u64 = <u32>link - log.passed < n - log.passed ? link & 0xffff000000000000 : 0;
  store<u64>(e, link, 24);
  store<u64>(head, <u64>n | (link & 0x0000ffff00000000) | near | bit | (bit << 16));
  if (mayBeOrphan(log, digest)) markEquals(log, e, n, digest, link, log.tail);
  else if ((near & (bit << 16)) != 0) markEquals(log, e, n, digest, link, log.passed);
}

// @ts-ignore: decorator
@inline
export function logAdd(log: Log, digest: u64, time: f64, flow: u32, state: u32, row: u32): u32 {
  const n = log.next;
  if ((n & (SEGMENT - 1)) == 0) logGrow(log);
  const e = entryOf(log, n);
  store<u64>(e, digest);
  store<f64>(e, time, 8);
  store<u32>(e, flow, 16);
  store<u32>(e, state, 20);
  store<u32>(placeAt(log, n), log.place + row);
  chain(log, e, n, digest);
  log.next = n + 1;
  return e;
}

/** Returns whether an entry with this digest is in the log, matched or not. */
export function logHas(log: Log, digest: u64): bool {
  const live = log.next - log.tail;
  const bit = filterBit(digest);
  let link = load<u64>(headOf(log, digest));
  let steps: u32 = 0;
  while ((link & bit) != 0 && <u32>link - log.tail < live) {
    const e = entryOf(log, <u32>link);
    steps++;
    if (load<u64>(e) == digest) break;
    link = load<u64>(e, 24);
  }
  log.steps += steps;
  return (link & bit) != 0 && <u32>link - log.tail < live;
}

/** Returns whether another entry, matched or not, has the digest of entry e. */
export function logHasOther(log: Log, e: u32): bool {
  const digest = load<u64>(e);
  const live = log.next - log.tail;
  const bit = filterBit(digest);
  let link = load<u64>(headOf(log, digest));
  let steps: u32 = 0;
  let any = false;
  while ((link & bit) != 0 && <u32>link - log.tail < live && !any) {
    const other = entryOf(log, <u32>link);
    steps++;
    any = other != e && load<u64>(other) == digest;
    link = load<u64>(other, 24);
  }
  log.steps += steps;
  return any;
}

/** Loads what adding or searching `n` digests will read: independent loads overlap their cache misses. */
export function logTouch(log: Log, digests: u32, n: u32): u32 {
  // Few slots are in the cache anyway.
  if (log.bits <= SMALL_BITS) return 0;
  let sum: u32 = 0;
  for (let i: u32 = 0; i < n; i++) sum += load<u32>(headOf(log, load<u64>(digests + (i << 3))));
  for (let i: u32 = 0; i < n; i++) {
    const digest = load<u64>(digests + (i << 3));
    const link = load<u64>(headOf(log, digest));
    // Few chains have such a bit, at random: a branch would cost more than loading an entry that is in the cache.
    const live = <u32>link - log.tail < log.next - log.tail && (link & filterBit(digest)) != 0;
    sum += load<u32>(entryOf(log, live ? <u32>link : log.tail));
  }
  return sum;
}

/** The same for a few digests that are added next, if so much else is read that not even few slots stay in the cache. */
export function logTouchNear(log: Log, digests: u32, n: u32): u32 {
  if (log.bits > SMALL_BITS) return 0;
  let sum: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const digest = load<u64>(digests + (i << 3));
    sum += load<u32>(headOf(log, digest)) + load<u32>(orphanFirst(log, digest)) + load<u32>(orphanSecond(log, digest));
  }
  return sum;
}

/** Turns unmatched entries before `number`, the one after a partner, into orphans. */
function pass(log: Log, number: u32): void {
  // Starts a new period when all orphans of the previous one have left the log.
  if (<i32>(log.tail - log.pastEnd) >= 0) {
    for (let at = log.orphans; at < log.orphans + ORPHAN_BYTES; at += 8) store<u64>(at, load<u64>(at) << 32);
    log.pastEnd = log.next;
  }
  let n = log.passed;
  if (<i32>(n - log.tail) < 0) n = log.tail;
  for (; n != number; n++) {
    const e = entryOf(log, n);
    if ((load<u32>(e, 20) & MATCHED) != 0) continue;
    const digest = load<u64>(e);
    const first = orphanFirst(log, digest);
    const second = orphanSecond(log, digest);
    store<u32>(first, load<u32>(first) | (<u32>1 << (<u32>digest & 31)));
    store<u32>(second, load<u32>(second) | (<u32>1 << (<u32>(digest >> 18) & 31)));
  }
  log.passed = number;
}

/** Entry n, which is matched, leaves the log: later ones with its digest and without a partner are copies of it. Returns whether there are any. */
export function logMarkCopies(log: Log, e: u32, n: u32): bool {
  const digest = load<u64>(e);
  const bit = filterBit(digest);
  const younger = log.next - n;
  let link = load<u64>(headOf(log, digest));
  let steps: u32 = 0;
  let any = false;
  while ((link & bit) != 0 && <u32>link - n < younger && <u32>link != n) {
    const other = entryOf(log, <u32>link);
    steps++;
    const state = load<u32>(other, 20);
    if (load<u64>(other) == digest && (state & MATCHED) == 0) {
      store<u32>(other, state | COPY, 20);
      any = true;
    }
    link = load<u64>(other, 24);
  }
  log.steps += steps;
  return any;
}

// What the last search found in addition to the partner.
export let searchMatched: bool = false; // a matched packet with the same digest
export let searchOthers: u32 = 0; //       further unmatched ones
export let searchNumber: u32 = 0; //       number of the partner

/** Marks entry n as matched. */
// @ts-ignore: decorator
@inline
export function logTake(log: Log, e: u32, n: u32): void {
  searchNumber = n;
  log.expected = n + 1;
  store<u32>(e, load<u32>(e, 20) | MATCHED, 20);
  if (n == log.passed) log.passed = n + 1;
  else if (<i32>(n - log.passed) > 0) pass(log, n + 1);
}

/** Returns the result of logSearch if it is one of the next expected entries, and marks it as matched; otherwise 0, which means nothing. */
// @ts-ignore: decorator
@inline
export function logNext(log: Log, digest: u64, time: f64, window: f64): u32 {
  const end = log.next;
  let n = log.expected;
  // Some may have been lost.
  for (let k = 0; k < 3; k++) {
    if (n - log.tail >= end - log.tail) return 0;
    const e = entryOf(log, n);
    if (load<u64>(e) == digest) {
      if ((load<u32>(e, 20) & (MATCHED | EQUALS)) != 0 || !(abs<f64>(load<f64>(e, 8) - time) <= window)) return 0;
      searchOthers = 0;
      logTake(log, e, n);
      return e;
    }
    n++;
  }
  return 0;
}

/** Returns the oldest unmatched entry with this digest within the window, or 0, and marks it as matched. */
// @ts-ignore: decorator
@inline
export function logSearch(log: Log, digest: u64, time: f64, window: f64): u32 {
  let found: u32 = 0;
  let number: u32 = 0;
  let steps: u32 = 0;
  searchMatched = false;
  searchOthers = 0;
  const tail = log.tail;
  const live = log.next - tail;
  const bit = filterBit(digest);
  let link = load<u64>(headOf(log, digest));
  // A number outside [tail, next) has left the log, and so has the rest of the chain.
  while ((link & bit) != 0 && <u32>link - tail < live) {
    const e = entryOf(log, <u32>link);
    steps++;
    if (load<u64>(e) == digest && abs<f64>(load<f64>(e, 8) - time) <= window) {
      if ((load<u32>(e, 20) & MATCHED) != 0) searchMatched = true;
      else {
        if (found != 0) searchOthers++;
        found = e;
        number = <u32>link;
      }
    }
    link = load<u64>(e, 24);
  }
  log.steps += steps;
  if (found != 0) logTake(log, found, number);
  return found;
}
