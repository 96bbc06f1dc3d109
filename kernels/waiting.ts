// Packets of one side that wait for their partner, in order of arrival: a ring of entries, each linked to the one before it with the same
// hash slot (newest first). Chains are never unlinked: they end where the log's tail has passed. So inserting is one random access, a
// partner that follows soon is still in the cache, equal digests are found in order, and what is older than the window leaves at the tail.
//
// A link is a number and a filter: one bit per digest that lies in the chain from there on. A search that has found its packet thus
// stops without looking at the older entry behind it, which has long left the cache. Where the newest entry of a slot has left the log the
// filter begins anew; bits of entries that left before it only cost a look.
//
//   entry: digest u64 | time f64 | flow u32 | state u32 | link to the previous entry in the slot u64
//   link:  number u32 | filter u32, 0 at the end of a chain
//   state: bit 1 matched, bit 2 copy of a matched packet, bit 3 there is or was another one with this digest, bits 8-15 TTL
//
// Packets mostly arrive in the order in which they were sent: the entry after the last partner is looked at first (logNext), and where it
// has the digest and no equal the search is over, without a look at slots that have left the cache.

export const MATCHED: u32 = 2;
export const COPY: u32 = 4;
const EQUALS: u32 = 8;
export const ENTRY: u32 = 32;

const FIRST_BITS: u32 = 12;

/** Entry number n lies at (n & mask). Live are [tail, next). */
@unmanaged
export class Log {
  entries: u32;
  mask: u32;
  tail: u32;
  next: u32;
  heads: u32; // link to the newest entry of each hash slot
  bits: u32; //  log2 of the slots
  expected: u32; // number of the entry after the last partner
}

export function logNew(): u32 {
  const log = changetype<Log>(heap.alloc(offsetof<Log>()));
  log.mask = (1 << FIRST_BITS) - 1;
  log.entries = <u32>heap.alloc((log.mask + 1) * ENTRY);
  log.tail = 1;
  log.next = 1;
  log.expected = 1;
  log.bits = FIRST_BITS + 1;
  log.heads = <u32>heap.alloc(8 << log.bits);
  memory.fill(log.heads, 0, 8 << log.bits);
  return <u32>changetype<usize>(log);
}

export function logFree(p: u32): void {
  const log = changetype<Log>(p);
  heap.free(log.entries);
  heap.free(log.heads);
  heap.free(p);
}

export function logBytes(p: u32): f64 {
  const log = changetype<Log>(p);
  return <f64>(log.mask + 1) * ENTRY + <f64>(1 << log.bits) * 8;
}

// @ts-ignore: decorator
@inline
export function headOf(log: Log, digest: u64): u32 {
  return log.heads + (<u32>(digest >> (64 - log.bits)) << 3);
}

// @ts-ignore: decorator
@inline
function filterBit(digest: u64): u32 {
  return <u32>1 << (<u32>digest & 31);
}

/** The new entry n may have equals in its chain. */
function markEquals(log: Log, e: u32, n: u32, digest: u64, first: u64): void {
  const live = n - log.tail;
  const bit = <u64>filterBit(digest) << 32;
  let link = first;
  while ((link & bit) != 0 && <u32>link - log.tail < live) {
    const other = log.entries + (<u32>link & log.mask) * ENTRY;
    if (load<u64>(other) == digest) {
      store<u32>(other, load<u32>(other, 20) | EQUALS, 20);
      store<u32>(e, load<u32>(e, 20) | EQUALS, 20);
    }
    link = load<u64>(other, 24);
  }
}

/** Puts entry n, whose digest is there, in front of its chain. */
// @ts-ignore: decorator
@inline
function chain(log: Log, e: u32, n: u32, digest: u64): void {
  const head = headOf(log, digest);
  let link = load<u64>(head);
  if (<u32>link - log.tail >= n - log.tail) link = 0;
  else if ((<u32>(link >> 32) & filterBit(digest)) != 0) markEquals(log, e, n, digest, link);
  store<u64>(e, link, 24);
  store<u64>(head, <u64>n | (<u64>(<u32>(link >> 32) | filterBit(digest)) << 32));
}

/** Twice the room; the chains are made anew, oldest first. */
function logGrow(log: Log): void {
  const mask = (log.mask << 1) | 1;
  const fresh = <u32>heap.alloc((<usize>mask + 1) * ENTRY);
  for (let n = log.tail; n != log.next; n++) {
    memory.copy(fresh + (n & mask) * ENTRY, log.entries + (n & log.mask) * ENTRY, ENTRY);
  }
  heap.free(log.entries);
  log.entries = fresh;
  log.mask = mask;
  heap.free(log.heads);
  log.bits++;
  log.heads = <u32>heap.alloc(8 << log.bits);
  memory.fill(log.heads, 0, 8 << log.bits);
  for (let n = log.tail; n != log.next; n++) {
    const e = fresh + (n & mask) * ENTRY;
    chain(log, e, n, load<u64>(e));
  }
}

// @ts-ignore: decorator
@inline
export function logAdd(log: Log, digest: u64, time: f64, flow: u32, state: u32): void {
  const n = log.next;
  if (n - log.tail > log.mask) logGrow(log);
  const e = log.entries + (n & log.mask) * ENTRY;
  store<u64>(e, digest);
  store<f64>(e, time, 8);
  store<u32>(e, flow, 16);
  store<u32>(e, state, 20);
  chain(log, e, n, digest);
  log.next = n + 1;
}

/** Loads what adding or searching `n` digests will look at: loads that do not wait for each other overlap their cache misses. */
export function logTouch(log: Log, digests: u32, n: u32): u32 {
  let sum: u32 = 0;
  for (let i: u32 = 0; i < n; i++) sum += load<u32>(headOf(log, load<u64>(digests + (i << 3))));
  const entries = log.entries;
  const mask = log.mask;
  for (let i: u32 = 0; i < n; i++) {
    const digest = load<u64>(digests + (i << 3));
    const link = load<u64>(headOf(log, digest));
    // Few chains hold such a bit, at random: a branch would cost more than the load of an entry that is in the cache.
    const n = (<u32>(link >> 32) & filterBit(digest)) != 0 ? <u32>link : log.next;
    sum += load<u32>(entries + (n & mask) * ENTRY);
  }
  return sum;
}

// What the last search met besides the partner it was for.
export let searchMatched: bool = false; // a matched packet with the same digest
export let searchOthers: u32 = 0; //       further unmatched ones
export let searchNumber: u32 = 0; //       number of the partner

/** What logSearch would find, where it is one of the entries that are due next; otherwise 0, which says nothing. */
// @ts-ignore: decorator
@inline
export function logNext(log: Log, digest: u64, time: f64, window: f64): u32 {
  const end = log.next;
  let n = log.expected;
  // Some may have been lost.
  for (let k = 0; k < 3; k++) {
    if (n - log.tail >= end - log.tail) return 0;
    const e = log.entries + (n & log.mask) * ENTRY;
    if (load<u64>(e) == digest) {
      if ((load<u32>(e, 20) & (MATCHED | EQUALS)) != 0 || !(abs<f64>(load<f64>(e, 8) - time) <= window)) return 0;
      searchOthers = 0;
      searchNumber = n;
      log.expected = n + 1;
      return e;
    }
    n++;
  }
  return 0;
}

/** The oldest unmatched entry with this digest within the window, or 0. */
// @ts-ignore: decorator
@inline
export function logSearch(log: Log, digest: u64, time: f64, window: f64): u32 {
  let found: u32 = 0;
  searchMatched = false;
  searchOthers = 0;
  const tail = log.tail;
  const live = log.next - tail;
  const mask = log.mask;
  const entries = log.entries;
  const bit = <u64>filterBit(digest) << 32;
  let link = load<u64>(headOf(log, digest));
  // A number outside [tail, next) has left the log, and so has everything behind it in the chain.
  while ((link & bit) != 0 && <u32>link - tail < live) {
    const e = entries + (<u32>link & mask) * ENTRY;
    if (load<u64>(e) == digest && abs<f64>(load<f64>(e, 8) - time) <= window) {
      if ((load<u32>(e, 20) & MATCHED) != 0) searchMatched = true;
      else {
        if (found != 0) searchOthers++;
        found = e;
        searchNumber = <u32>link;
      }
    }
    link = load<u64>(e, 24);
  }
  if (found != 0) log.expected = searchNumber + 1;
  return found;
}
