// The log of waiting packets (kernels/match/waiting.ts): its entries in segments, its hash slots, and how both grow.
//
//   entry: digest u64 | time f64 | flow u32 | state u32 | link to the previous entry in the slot u64
//   link:  number u32 | bits of the digests in the chain from there on u16 | of those not passed when it was made u16; 0 at the end of a chain
//   state: bit 1 matched, bit 2 copy of a matched packet, bit 3 there is or was another one with this digest, bit 4 matched,
//          and this is where the packet arrived, bit 5 it does not leave its link, bit 6 another one with this digest was matched, bits 8-15 TTL, bits 16-31 of a matched one: its number among the
//          partners found in that call (kernels/match/match.ts)

import { FLAG_LINK_LOCAL } from "../decode/batch";

export const MATCHED: u32 = 2;
export const COPY: u32 = 4;
export const EQUALS: u32 = 8;
export const ARRIVED: u32 = 16;
export const LINK_LOCAL: u32 = 32;
export const AGAIN: u32 = 64;
export const ENTRY: u32 = 32;
/** After the entries of a segment: the position of each among all rows of its side, waiting or not, u32. */
const PLACE: u32 = 4;

/** The part of a row's flags that the log keeps. */
// @ts-ignore: decorator
@inline
export function stateOf(flags: u32): u32 {
  return ((flags & 0xff) << 8) | ((flags / FLAG_LINK_LOCAL) & 1) * LINK_LOCAL;
}

/** log2 of the entries of a segment. */
const SEGMENT_BITS: u32 = 12;
export const SEGMENT: u32 = 1 << SEGMENT_BITS;
const FIRST_SEGMENTS: u32 = 16;
/** This number of slots stays in the cache at any rate. */
export const SMALL_BITS: u32 = 14;
/** Words of the orphans' filter: 32 bits for the current period, 32 for the previous one. */
export const ORPHAN_WORDS: u32 = 1 << 13;
export const ORPHAN_BYTES: u32 = ORPHAN_WORDS << 3;
/** More steps along chains per row than this mean too few slots. */
const MANY_STEPS: u32 = 2;

/** Entries [tail, next) are live. Segment s contains the entries from s * SEGMENT on; entry (s & mask) of the table points to it. */
@unmanaged
export class Log {
  table: u32;
  mask: u32;
  oldest: u32; // segments [oldest, newest] are in the table
  newest: u32;
  spare: u32; //  segments to be reused: each begins with the address of the next
  made: u32; //   number of all segments
  tail: u32;
  next: u32;
  heads: u32; // link to the newest entry of each hash slot
  bits: u32; //  log2 of the slots
  expected: u32; // number of the entry after the last partner
  passed: u32; // number after the latest partner so far: unmatched entries before it are orphans
  orphans: u32; // filter of the orphans' digests, two bits each
  pastEnd: u32; // the orphans of the previous period are all below this number
  steps: u32; // steps along chains since the last logAdapt
  rows: u32; //  rows taken since then
  place: u32; // rows of the side before those of this call, minus the index of the call's first one
  taken: u32; // rows of the side
}

export function logNew(): u32 {
  const log = changetype<Log>(heap.alloc(offsetof<Log>()));
  log.mask = FIRST_SEGMENTS - 1;
  log.table = <u32>heap.alloc(FIRST_SEGMENTS * 4);
  log.spare = 0;
  log.made = 1;
  log.oldest = 0;
  log.newest = 0;
  store<u32>(log.table, <u32>heap.alloc(SEGMENT * (ENTRY + PLACE)));
  log.tail = 1;
  log.next = 1;
  log.expected = 1;
  log.passed = 1;
  log.bits = SMALL_BITS;
  log.heads = <u32>heap.alloc(8 << log.bits);
  memory.fill(log.heads, 0, 8 << log.bits);
  log.orphans = <u32>heap.alloc(ORPHAN_BYTES);
  memory.fill(log.orphans, 0, ORPHAN_BYTES);
  log.pastEnd = 1;
  log.steps = 0;
  log.rows = 0;
  log.place = 0;
  log.taken = 0;
  return <u32>changetype<usize>(log);
}

export function logFree(p: u32): void {
  const log = changetype<Log>(p);
  for (let s = log.oldest; s != log.newest + 1; s++) heap.free(load<u32>(log.table + ((s & log.mask) << 2)));
  while (log.spare != 0) {
    const next = load<u32>(log.spare);
    heap.free(log.spare);
    log.spare = next;
  }
  heap.free(log.table);
  heap.free(log.heads);
  heap.free(log.orphans);
  heap.free(p);
}

export function logBytes(p: u32): f64 {
  const log = changetype<Log>(p);
  return <f64>log.made * (SEGMENT * (ENTRY + PLACE)) + <f64>(1 << log.bits) * 8 + <f64>ORPHAN_BYTES;
}

// @ts-ignore: decorator
@inline
export function headOf(log: Log, digest: u64): u32 {
  return log.heads + (<u32>(digest >> (64 - log.bits)) << 3);
}

// @ts-ignore: decorator
@inline
export function entryOf(log: Log, n: u32): u32 {
  return load<u32>(log.table + (((n >> SEGMENT_BITS) & log.mask) << 2)) + (n & (SEGMENT - 1)) * ENTRY;
}

/** Returns the address of the position of entry n. */
// @ts-ignore: decorator
@inline
export function placeAt(log: Log, n: u32): u32 {
  return load<u32>(log.table + (((n >> SEGMENT_BITS) & log.mask) << 2)) + SEGMENT * ENTRY + (n & (SEGMENT - 1)) * PLACE;
}
// @ts-ignore: decorator
@inline
export function logPlace(log: Log, n: u32): u32 {
  return load<u32>(placeAt(log, n));
}

/** The digest's bit among those of all entries of a chain; 16 bits higher, the one among those not passed. */
// @ts-ignore: decorator
@inline
export function filterBit(digest: u64): u64 {
  return <u64>1 << (32 + (digest & 15));
}

/** Adds a segment for the entries from the next one on. */
export function logGrow(log: Log): void {
  const s = log.next >> SEGMENT_BITS;
  if (s - log.oldest > log.mask) {
    const mask = (log.mask << 1) | 1;
    const table = <u32>heap.alloc((mask + 1) << 2);
    for (let k = log.oldest; k != s; k++) store<u32>(table + ((k & mask) << 2), load<u32>(log.table + ((k & log.mask) << 2)));
    heap.free(log.table);
    log.table = table;
    log.mask = mask;
  }
  let segment = log.spare;
  if (segment != 0) log.spare = load<u32>(segment);
  else {
    segment = <u32>heap.alloc(SEGMENT * (ENTRY + PLACE));
    log.made++;
  }
  store<u32>(log.table + ((s & log.mask) << 2), segment);
  log.newest = s;
}

/** Call after the tail has advanced: frees the segments before it. */
export function logPassed(log: Log): void {
  // Entries that left the log count as passed: links are followed only down to that number, and the segments before the tail are reused.
  if (<i32>(log.passed - log.tail) < 0) log.passed = log.tail;
  const s = log.tail >> SEGMENT_BITS;
  for (; log.oldest != s && log.oldest != log.newest; log.oldest++) {
    const segment = load<u32>(log.table + ((log.oldest & log.mask) << 2));
    store<u32>(segment, log.spare);
    log.spare = segment;
  }
}

/** Adds slots if searches walked far along the chains since the last call, up to two per entry. */
export function logAdapt(log: Log): void {
  const live = log.next - log.tail;
  if (log.steps > MANY_STEPS * log.rows && (<u32>1 << log.bits) < live << 1) {
    log.bits = min<u32>(log.bits + 2, 33 - <u32>clz<u32>(live));
    heap.free(log.heads);
    log.heads = 0;
    log.heads = <u32>heap.alloc(8 << log.bits);
    memory.fill(log.heads, 0, 8 << log.bits);
    // The chains are rebuilt, oldest first; which entries have equals is known already.
    for (let n = log.tail; n != log.next; n++) {
      const e = entryOf(log, n);
      const digest = load<u64>(e);
      const head = headOf(log, digest);
      const link = load<u64>(head);
      const bit = filterBit(digest);
      store<u64>(e, link, 24);
      store<u64>(head, <u64>n | (link & 0xffffffff00000000) | bit | (bit << 16));
    }
  }
  log.steps = 0;
  log.rows = 0;
}
