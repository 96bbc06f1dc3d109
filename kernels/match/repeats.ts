// Packets identical to another one within the window (heartbeats, keep-alives, retried queries, an identification that wrapped, mirrored captures). First in,
// first out would go wrong after the first lost or doubled one, so from the moment when a second one waits its digest is repeated: its packets no longer go
// through the logs but are kept here, by digest, side and time, until the others have shown the usual delay (kernels/match/repeat-pairs.ts). Memory: 32 bytes
// per packet.
//
//   row:   next u32 | partner u32 | time f64 | flow u32 | state u32   (time, flow and state as in an entry of a log: kernels/match/waiting.ts) |
// position in the order of its side u32 (kernels/match/send-order.ts) | single u32
//   group: digest u64 | first, last and number of rows at BEFORE u32 each | the same at AFTER
// next, partner, first, last: index of a row + 1, or 0

import { recordIn, Table, tableAdd, tableNew, tableFree } from "../flows/tables";
import { placeOf } from "./send-order";
import { entryOf, headOf, filterBit, Log, logPlace, MATCHED } from "./log";

@unmanaged
export class Repeats {
  count: u32; //  number of groups; 0 in ordinary traffic: then nothing else is read
  rows: u32; //   Table
  groups: u32; // Table
  slots: u32; //  hash table: index of a group + 1
  bits: u32; //   log2 of the slots
  filter: u32; // a bit per digest, selected by some of its bits
}

@unmanaged
export class Repeat {
  next: u32;
  partner: u32;
  time: f64;
  flow: u32;
  state: u32;
  order: u32;
  single: u32; // 1: without a partner, for certain
}

@unmanaged
export class Group {
  digest: u64;
  first0: u32;
  last0: u32;
  count0: u32;
  first1: u32;
  last1: u32;
  count1: u32;
}

export const ROW: u32 = 32;
const GROUP: u32 = 32;
const FILTER_BITS: u32 = 18;
const FIRST_BITS: u32 = 10;
/** Maximum number of rows: then they are settled, and others can follow. */
export const MOST_ROWS: u32 = 1 << 25;

export function repeatsNew(): u32 {
  const p = heap.alloc(offsetof<Repeats>());
  const r = changetype<Repeats>(p);
  r.count = 0;
  r.rows = tableNew(ROW);
  r.groups = tableNew(GROUP);
  r.bits = FIRST_BITS;
  r.slots = <u32>heap.alloc(4 << FIRST_BITS);
  memory.fill(r.slots, 0, 4 << FIRST_BITS);
  r.filter = <u32>heap.alloc(1 << (FILTER_BITS - 3));
  memory.fill(r.filter, 0, 1 << (FILTER_BITS - 3));
  return <u32>p;
}

export function repeatsFree(p: u32): void {
  const r = changetype<Repeats>(p);
  tableFree(r.rows);
  tableFree(r.groups);
  heap.free(r.slots);
  heap.free(r.filter);
  heap.free(p);
}

// @ts-ignore: decorator
@inline
export function rowOf(r: Repeats, number: u32): Repeat {
  return changetype<Repeat>(<usize>recordIn(changetype<Table>(r.rows).segments, number - 1, ROW));
}
// @ts-ignore: decorator
@inline
export function groupOf(r: Repeats, number: u32): Group {
  return changetype<Group>(<usize>recordIn(changetype<Table>(r.groups).segments, number - 1, GROUP));
}
export function rowCount(r: Repeats): u32 {
  return changetype<Table>(r.rows).count;
}

function slotOf(r: Repeats, digest: u64): u32 {
  const mask: u32 = (1 << r.bits) - 1;
  let j = <u32>(digest >> 20) & mask;
  while (true) {
    const number = load<u32>(r.slots + (j << 2));
    if (number == 0 || groupOf(r, number).digest == digest) break;
    j = (j + 1) & mask;
  }
  return r.slots + (j << 2);
}

/** Returns the number of the digest's group, or 0. */
// @ts-ignore: decorator
@inline
export function repeated(r: Repeats, digest: u64): u32 {
  if (r.count == 0) return 0;
  const bit = <u32>(digest >> 3) & ((1 << FILTER_BITS) - 1);
  if ((<u32>load<u8>(r.filter + (bit >> 3)) & (<u32>1 << (bit & 7))) == 0) return 0;
  return load<u32>(slotOf(r, digest));
}

function grow(r: Repeats): void {
  heap.free(r.slots);
  r.slots = 0;
  r.bits++;
  r.slots = <u32>heap.alloc(4 << r.bits);
  memory.fill(r.slots, 0, 4 << r.bits);
  for (let number: u32 = 1; number <= r.count; number++) store<u32>(slotOf(r, groupOf(r, number).digest), number);
}

function addGroup(r: Repeats, digest: u64): u32 {
  const group = changetype<Group>(<usize>tableAdd(r.groups, GROUP));
  group.digest = digest;
  const number = ++r.count;
  store<u32>(slotOf(r, digest), number);
  if (number >> (r.bits - 1) != 0) grow(r);
  const bit = <u32>(digest >> 3) & ((1 << FILTER_BITS) - 1);
  const at = r.filter + (bit >> 3);
  store<u8>(at, <u8>(<u32>load<u8>(at) | (<u32>1 << (bit & 7))));
  return number;
}

export function addRow(r: Repeats, number: u32, side: u32, time: f64, flow: u32, state: u32, order: u32): void {
  const row = changetype<Repeat>(<usize>tableAdd(r.rows, ROW));
  row.time = time;
  row.flow = flow;
  row.state = state;
  row.order = order;
  row.single = 0;
  const n = rowCount(r);
  const group = groupOf(r, number);
  if (side == 0) {
    if (group.last0 == 0) group.first0 = n;
    else rowOf(r, group.last0).next = n;
    group.last0 = n;
    group.count0++;
  } else {
    if (group.last1 == 0) group.first1 = n;
    else rowOf(r, group.last1).next = n;
    group.last1 = n;
    group.count1++;
  }
}

/** Declares a digest repeated; its packets waiting in the logs move to its group. Returns the group's number. */
export function startGroup(r: Repeats, before: Log, after: Log, digest: u64): u32 {
  const number = addGroup(r, digest);
  moveWaiting(r, number, before, 0, digest);
  moveWaiting(r, number, after, 1, digest);
  return number;
}

/** Newest first, as they are chained: groups are sorted by time before use. */
function moveWaiting(r: Repeats, number: u32, log: Log, side: u32, digest: u64): void {
  const live = log.next - log.tail;
  const bit = filterBit(digest);
  let link = load<u64>(headOf(log, digest));
  while ((link & bit) != 0 && <u32>link - log.tail < live) {
    const e = entryOf(log, <u32>link);
    const state = load<u32>(e, 20);
    if (load<u64>(e) == digest && (state & MATCHED) == 0) {
      addRow(r, number, side, load<f64>(e, 8), load<u32>(e, 16), state, placeOf(logPlace(log, <u32>link)));
      // For the log, it has left.
      store<u32>(e, state | MATCHED, 20);
    }
    link = load<u64>(e, 24);
  }
}

/** Clears the rows, but not the set of repeated digests. */
export function clearRows(r: Repeats): void {
  changetype<Table>(r.rows).count = 0;
  for (let number: u32 = 1; number <= r.count; number++) {
    const group = groupOf(r, number);
    group.first0 = 0;
    group.last0 = 0;
    group.count0 = 0;
    group.first1 = 0;
    group.last1 = 0;
    group.count1 = 0;
  }
}
