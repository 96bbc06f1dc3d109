// Holds rows back until it is their turn, in a binary heap sorted by a key. Key 0: arrival here (time + delay); lost rows have no arrival and use their sending
// time. Key 1: the sending order.

import { Batch } from "../decode/batch";
import { doubled, putRow, Row, ROW_BYTES, takeRow } from "./rows";

@unmanaged
class Hold {
  rows: u32;
  room: u32;
  used: u32;
  freeList: u32;
  heap: u32; //    16 bytes per entry: f64 key, u32 row, u32 sequence of insertion (ties: first in, first out)
  count: u32;
  inserted: u32;
  by: u32;
  next: f64; //    key 1: the number whose turn it is
}

export function simHoldNew(by: u32): usize {
  const p = heap.alloc(offsetof<Hold>());
  memory.fill(p, 0, offsetof<Hold>());
  const h = changetype<Hold>(p);
  h.by = by;
  h.room = 4096;
  h.rows = <u32>heap.alloc(h.room * ROW_BYTES);
  h.heap = <u32>heap.alloc(h.room * 16);
  h.used = 1;
  return p;
}

export function simHoldFree(p: usize): void {
  const h = changetype<Hold>(p);
  heap.free(h.rows);
  heap.free(h.heap);
  heap.free(p);
}

export function simHoldCount(p: usize): u32 {
  return changetype<Hold>(p).count;
}

function grow(h: Hold): void {
  h.rows = doubled(h.rows, h.room * ROW_BYTES);
  h.heap = doubled(h.heap, h.room * 16);
  h.room *= 2;
}

// @ts-ignore: decorator
@inline
function before(key: f64, order: u32, p: usize): bool {
  const other = load<f64>(p);
  return key < other || (key == other && <i32>(order - load<u32>(p, 12)) < 0);
}

export function simHoldPush(p: usize, b: usize): void {
  const h = changetype<Hold>(p);
  const batch = changetype<Batch>(b);
  for (let i: u32 = 0; i < batch.count; i++) {
    let slot = h.freeList;
    if (slot != 0) h.freeList = <u32>changetype<Row>(h.rows + slot * ROW_BYTES).order;
    else {
      if (h.used == h.room) grow(h);
      slot = h.used++;
    }
    const at = h.rows + slot * ROW_BYTES;
    takeRow(batch, i, at);
    const row = changetype<Row>(at);
    const key = h.by == 1 ? <f64>row.order : row.delay == row.delay ? row.time + row.delay : row.time;
    const order = h.inserted++;
    let k = h.count++;
    while (k > 0) {
      const parent = (k - 1) >> 1;
      const q = h.heap + (parent << 4);
      if (!before(key, order, q)) break;
      memory.copy(h.heap + (k << 4), q, 16);
      k = parent;
    }
    const e = h.heap + (k << 4);
    store<f64>(e, key);
    store<u32>(e, slot, 8);
    store<u32>(e, order, 12);
  }
}

/**
 * Moves the rows whose turn it is into an empty batch: by arrival, those not later than `until`; by order, those that follow without a gap. Returns 1 if there
 * may be more (the batch is full).
 */
export function simHoldPop(p: usize, out: usize, until: f64): i32 {
  const h = changetype<Hold>(p);
  const to = changetype<Batch>(out);
  to.count = 0;
  while (h.count > 0) {
    const key = load<f64>(h.heap);
    if (h.by == 1 ? key != h.next : key > until) return 0;
    if (to.count == to.capacity) return 1;
    if (h.by == 1) h.next += 1;
    const slot = load<u32>(h.heap, 8);
    const at = h.rows + slot * ROW_BYTES;
    putRow(to, at);
    changetype<Row>(at).order = h.freeList;
    h.freeList = slot;
    const n = --h.count;
    if (n == 0) return 0;
    const tail = h.heap + (n << 4);
    const tailKey = load<f64>(tail);
    const tailOrder = load<u32>(tail, 12);
    const tailSlot = load<u32>(tail, 8);
    let k: u32 = 0;
    while (true) {
      let child: u32 = 2 * k + 1;
      if (child >= n) break;
      const right: u32 = child + 1;
      const c = h.heap + (child << 4);
      if (right < n && before(load<f64>(h.heap + (right << 4)), load<u32>(h.heap + (right << 4), 12), c)) child = right;
      const q = h.heap + (child << 4);
      if (before(tailKey, tailOrder, q)) break;
      memory.copy(h.heap + (k << 4), q, 16);
      k = child;
    }
    const e = h.heap + (k << 4);
    store<f64>(e, tailKey);
    store<u32>(e, tailSlot, 8);
    store<u32>(e, tailOrder, 12);
  }
  return 0;
}
