// Identical packets of a log (kernels/match/waiting.ts) in a queue per digest: finds the oldest waiting one at once, not at the end of a chain of all of them.
// An entry's `flow`, which its owner does not use otherwise, is the number of the next entry with its digest, or 0.
//
//   slot: digest u64 | first u32: oldest entry that may wait, or 0 | last u32: newest entry

import { entryOf, EQUALS, filterBit, headOf, Log, MATCHED } from "./log";

@unmanaged
export class EqualQueues {
  slots: u32;
  bits: u32;
  count: u32;
}
const FIRST_BITS: u32 = 8;

export function queuesNew(): u32 {
  const p = heap.alloc(offsetof<EqualQueues>());
  const q = changetype<EqualQueues>(p);
  q.bits = FIRST_BITS;
  q.count = 0;
  q.slots = <u32>heap.alloc(16 << FIRST_BITS);
  memory.fill(q.slots, 0, 16 << FIRST_BITS);
  return <u32>p;
}

export function queuesFree(p: u32): void {
  heap.free(changetype<EqualQueues>(p).slots);
  heap.free(p);
}

/** Returns the digest's slot, or a free one, whose `last` is 0. */
function slotOf(q: EqualQueues, digest: u64): u32 {
  const mask: u32 = (1 << q.bits) - 1;
  let j = <u32>(digest >> 20) & mask;
  while (load<u32>(q.slots + (j << 4), 12) != 0 && load<u64>(q.slots + (j << 4)) != digest) j = (j + 1) & mask;
  return q.slots + (j << 4);
}

/** Drops queues whose packets have all left; doubles the room if most are in use. */
function rebuild(q: EqualQueues): void {
  const old = q.slots;
  const end = old + (16 << q.bits);
  let live: u32 = 0;
  for (let at = old; at < end; at += 16) live += load<u32>(at, 8) != 0 ? 1 : 0;
  if (live >> (q.bits - 2) != 0) q.bits++;
  q.slots = <u32>heap.alloc(16 << q.bits);
  memory.fill(q.slots, 0, 16 << q.bits);
  q.count = live;
  for (let at = old; at < end; at += 16) {
    if (load<u32>(at, 8) == 0) continue;
    const slot = slotOf(q, load<u64>(at));
    store<u64>(slot, load<u64>(at));
    store<u64>(slot, load<u64>(at, 8), 8);
  }
  heap.free(old);
}

// @ts-ignore: decorator
@inline
function isLive(log: Log, n: u32): bool {
  return n - log.tail < log.next - log.tail;
}

/** Returns the number of the newest entry with this digest in the chain from `link` on, or 0. */
function newestOf(log: Log, link: u64, digest: u64): u32 {
  const bit = filterBit(digest);
  let at = link;
  while ((at & bit) != 0 && isLive(log, <u32>at)) {
    const e = entryOf(log, <u32>at);
    if (load<u64>(e) == digest) return <u32>at;
    at = load<u64>(e, 24);
  }
  return 0;
}

/** Queues entry `e`, the newest of the log, which has equals. */
export function queueAdd(q: EqualQueues, log: Log, e: u32): void {
  const digest = load<u64>(e);
  const n = log.next - 1;
  const previous = newestOf(log, load<u64>(e, 24), digest);
  const slot = slotOf(q, digest);
  const last = load<u32>(slot, 12);
  if (last == 0) {
    store<u64>(slot, digest);
    q.count++;
  }
  if (previous != 0) {
    // An entry that was added when all before it had their partners is not in the queue yet.
    if (last != previous) {
      if (last != 0 && isLive(log, last)) store<u32>(entryOf(log, last), previous, 16);
      if (load<u32>(slot, 8) == 0) store<u32>(slot, previous, 8);
    }
    store<u32>(entryOf(log, previous), n, 16);
  }
  if (load<u32>(slot, 8) == 0) store<u32>(slot, n, 8);
  store<u32>(slot, n, 12);
  if (q.count >> (q.bits - 1) != 0) rebuild(q);
}

/** Entry `e`, number `n`, leaves the log. */
export function queueLeave(q: EqualQueues, e: u32, n: u32): void {
  const slot = slotOf(q, load<u64>(e));
  if (load<u32>(slot, 12) != 0 && load<u32>(slot, 8) == n) store<u32>(slot, load<u32>(e, 16), 8);
}

/** Returns whether the log's newest entry with this digest has, or had, equals: then the queue must be searched. */
export function isQueued(log: Log, digest: u64): bool {
  const n = newestOf(log, load<u64>(headOf(log, digest)), digest);
  return n != 0 && (load<u32>(entryOf(log, n), 20) & EQUALS) != 0;
}

/** Returns the number of the oldest unmatched entry with this digest within the window, or 0. */
export function queueSearch(q: EqualQueues, log: Log, digest: u64, time: f64, window: f64): u32 {
  const slot = slotOf(q, digest);
  let n = load<u32>(slot, 12) == 0 ? 0 : load<u32>(slot, 8);
  while (n != 0) {
    const e = entryOf(log, n);
    const ahead = load<f64>(e, 8) - time;
    const next = load<u32>(e, 16);
    if ((load<u32>(e, 20) & MATCHED) != 0) {
      if (load<u32>(slot, 8) == n) store<u32>(slot, next, 8);
    } else if (abs<f64>(ahead) <= window) return n;
    else if (ahead > 0) return 0;
    n = next;
  }
  return 0;
}

/** Returns the number of the oldest unmatched entry after entry `n` in its queue that is within the window, or 0. */
export function queueNext(log: Log, n: u32, time: f64, window: f64): u32 {
  let next = load<u32>(entryOf(log, n), 16);
  while (next != 0) {
    const e = entryOf(log, next);
    const ahead = load<f64>(e, 8) - time;
    if (ahead > window) return 0;
    if ((load<u32>(e, 20) & MATCHED) == 0 && -ahead <= window) return next;
    next = load<u32>(e, 16);
  }
  return 0;
}
