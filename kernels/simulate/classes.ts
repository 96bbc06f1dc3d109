// One link shared by classes, each with its own FIFO: strict priority (lowest class number first) or deficit round robin by quantum, not preemptive. A packet's
// departure depends on later arrivals, so rows are held until they are served; they leave in order of departure, lost ones at once.

import { Batch } from "../decode/batch";
import { doubled, putRow, Row, ROW_BYTES, takeRow } from "./rows";

@unmanaged
export class LinkClass {
  limit: f64; //     packets waiting
  quantum: f64; //   bytes per turn
  deficit: f64;
  head: u32; //      rows, linked by `order` of a side table
  tail: u32;
  count: u32;
  longest: u32;
  packets: f64;
  bytes: f64;
  drops: f64;
}
const CLASS_BYTES: u32 = 64;

@unmanaged
export class Link {
  nsPerByte: f64;
  propagation: f64;
  drr: f64;
  classes: f64;
  free: f64; //      when the packet in service has left
  busyNs: f64;
  table: u32; //     classes
  map: u32; //       u8 class per DSCP
  rows: u32;
  next: u32; //      u32 per row: the list it is in
  room: u32;
  used: u32;
  freeList: u32;
  waiting: u32;
  turn: u32; //      DRR: whose turn it is
  turnOpen: u32; //  DRR: its quantum has been granted
  doneHead: u32; //  served rows that wait for room in a batch
  doneTail: u32;
}

export function simLinkNew(classes: u32): usize {
  const p = heap.alloc(offsetof<Link>());
  memory.fill(p, 0, offsetof<Link>());
  const l = changetype<Link>(p);
  l.classes = <f64>classes;
  l.table = <u32>heap.alloc(classes * CLASS_BYTES);
  memory.fill(l.table, 0, classes * CLASS_BYTES);
  l.map = <u32>heap.alloc(64);
  memory.fill(l.map, <u8>(classes - 1), 64);
  l.room = 4096;
  l.rows = <u32>heap.alloc(l.room * ROW_BYTES);
  l.next = <u32>heap.alloc(l.room * 4);
  l.used = 1;
  return p;
}

export function simLinkFree(p: usize): void {
  const l = changetype<Link>(p);
  heap.free(l.table);
  heap.free(l.map);
  heap.free(l.rows);
  heap.free(l.next);
  heap.free(p);
}

export function simLinkClass(p: usize, i: u32): usize {
  return changetype<Link>(p).table + i * CLASS_BYTES;
}
export function simLinkMap(p: usize): usize {
  return changetype<Link>(p).map;
}

// @ts-ignore: decorator
@inline
function classAt(l: Link, i: u32): LinkClass {
  return changetype<LinkClass>(l.table + i * CLASS_BYTES);
}

function takeSlot(l: Link): u32 {
  const slot = l.freeList;
  if (slot != 0) {
    l.freeList = load<u32>(l.next + (slot << 2));
    return slot;
  }
  if (l.used == l.room) {
    l.rows = doubled(l.rows, l.room * ROW_BYTES);
    l.next = doubled(l.next, l.room * 4);
    l.room *= 2;
  }
  return l.used++;
}

// @ts-ignore: decorator
@inline
function returnSlot(l: Link, slot: u32): void {
  store<u32>(l.next + (slot << 2), l.freeList);
  l.freeList = slot;
}

/** Returns the class to serve next; some packet must be waiting. */
function choose(l: Link): u32 {
  const n = <u32>l.classes;
  if (l.drr == 0) {
    let i: u32 = 0;
    while (classAt(l, i).count == 0) i++;
    return i;
  }
  while (true) {
    const c = classAt(l, l.turn);
    if (c.count > 0) {
      if (l.turnOpen == 0) {
        c.deficit += c.quantum;
        l.turnOpen = 1;
      }
      const length = <f64>changetype<Row>(l.rows + c.head * ROW_BYTES).wireLength;
      if (length <= c.deficit) {
        c.deficit -= length;
        return l.turn;
      }
    } else c.deficit = 0;
    l.turn = l.turn + 1 == n ? 0 : l.turn + 1;
    l.turnOpen = 0;
  }
}

/** Serves all packets whose service starts before `until`; an arrival at exactly that time is still considered first. */
function serve(l: Link, until: f64): void {
  while (l.waiting > 0 && l.free < until) {
    const i = choose(l);
    const c = classAt(l, i);
    const slot = c.head;
    c.head = load<u32>(l.next + (slot << 2));
    c.count--;
    l.waiting--;
    // An empty class keeps no credit.
    if (c.count == 0) c.deficit = 0;
    const row = changetype<Row>(l.rows + slot * ROW_BYTES);
    const service = <f64>row.wireLength * l.nsPerByte;
    l.free += service;
    l.busyNs += service;
    if (row.iface == CROSS) {
      returnSlot(l, slot);
      continue;
    }
    row.delay = nearest<f64>(l.free) + l.propagation - row.time;
    done(l, slot);
  }
}
const CROSS: u32 = 0xffffffff;

// @ts-ignore: decorator
@inline
function done(l: Link, slot: u32): void {
  store<u32>(l.next + (slot << 2), 0);
  if (l.doneHead == 0) l.doneHead = slot;
  else store<u32>(l.next + (l.doneTail << 2), slot);
  l.doneTail = slot;
}

function arrive(l: Link, batch: Batch, i: u32, t: f64, cross: bool): void {
  serve(l, t);
  if (l.waiting == 0 && l.free < t) l.free = t;
  const dscp = <u32>(load<u64>(batch.meta + (i << 3)) >> 40) & 63;
  const c = classAt(l, <u32>load<u8>(l.map + dscp));
  c.packets += 1;
  c.bytes += <f64>load<u32>(batch.wireLength + (i << 2));
  const full = <f64>c.count >= c.limit;
  if (full) c.drops += 1;
  if (full && cross) return;
  const slot = takeSlot(l);
  const at = l.rows + slot * ROW_BYTES;
  takeRow(batch, i, at);
  const row = changetype<Row>(at);
  if (full) {
    row.delay = NaN;
    done(l, slot);
    return;
  }
  if (cross) row.iface = CROSS;
  store<u32>(l.next + (slot << 2), 0);
  if (c.count == 0) c.head = slot;
  else store<u32>(l.next + (c.tail << 2), slot);
  c.tail = slot;
  c.count++;
  if (c.count > c.longest) c.longest = c.count;
  l.waiting++;
}

/** Feeds a batch from row `from`, with cross traffic, as simFifoRun does; returns the next row to process. */
export function simLinkPush(p: usize, b: usize, from: u32, cross: usize, position: usize, crossEnded: u32): u32 {
  const l = changetype<Link>(p);
  const batch = changetype<Batch>(b);
  const other = changetype<Batch>(cross);
  let j: u32 = cross == 0 ? 0 : load<u32>(position);
  for (let i = from; i < batch.count; i++) {
    const o = i << 3;
    const delay = load<f64>(batch.delay + o);
    if (delay != delay) {
      const slot = takeSlot(l);
      takeRow(batch, i, l.rows + slot * ROW_BYTES);
      done(l, slot);
      continue;
    }
    const t = load<f64>(batch.time + o) + delay;
    if (cross != 0) {
      while (j < other.count && load<f64>(other.time + (j << 3)) < t) {
        arrive(l, other, j, load<f64>(other.time + (j << 3)), true);
        j++;
      }
      if (j == other.count && crossEnded == 0) {
        store<u32>(position, j);
        return i;
      }
    }
    arrive(l, batch, i, t, false);
  }
  if (cross != 0) store<u32>(position, j);
  return batch.count;
}

/** Serves all waiting packets after the last arrival. */
export function simLinkFlush(p: usize): void {
  serve(changetype<Link>(p), Infinity);
}

/** Moves finished rows into an empty batch. Returns 1 if there may be more. */
export function simLinkPop(p: usize, out: usize): i32 {
  const l = changetype<Link>(p);
  const to = changetype<Batch>(out);
  to.count = 0;
  while (l.doneHead != 0) {
    if (to.count == to.capacity) return 1;
    const slot = l.doneHead;
    l.doneHead = load<u32>(l.next + (slot << 2));
    putRow(to, l.rows + slot * ROW_BYTES);
    returnSlot(l, slot);
  }
  return 0;
}
