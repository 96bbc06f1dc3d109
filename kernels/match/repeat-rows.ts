// The rows of one repeated digest (kernels/match/repeats.ts), by side and in time order.

import { Group, Repeat, Repeats, rowOf } from "./repeats";

let room: u32 = 0;
// Addresses of the rows of the current digest.
export let rows0: u32 = 0;
export let rows1: u32 = 0;
export let n0: u32 = 0;
export let n1: u32 = 0;

// @ts-ignore: decorator
@inline
export function at(rows: u32, i: u32): Repeat {
  return changetype<Repeat>(<usize>load<u32>(rows + (i << 2)));
}

export function loadGroup(r: Repeats, group: Group): void {
  const most = max<u32>(group.count0, group.count1);
  if (most > room) {
    freeRows();
    const fresh = max<u32>(1024, most << 1);
    rows0 = <u32>heap.alloc(fresh << 2);
    rows1 = <u32>heap.alloc(fresh << 2);
    room = fresh;
  }
  n0 = list(r, group.first0, rows0);
  n1 = list(r, group.first1, rows1);
}

function list(r: Repeats, first: u32, out: u32): u32 {
  let n: u32 = 0;
  let sorted = true;
  for (let number = first; number != 0; ) {
    const row = rowOf(r, number);
    number = row.next;
    // A mirror's copy (kernels/match/mirrors.ts).
    if (row.partner == 0xffffffff) continue;
    store<u32>(out + (n << 2), <u32>changetype<usize>(row));
    if (n > 0 && at(out, n - 1).time > row.time) sorted = false;
    n++;
  }
  if (!sorted) sort(out, n);
  return n;
}

/** Heap sort by time. */
function sort(rows: u32, n: u32): void {
  for (let i = n >> 1; i > 0; i--) sink(rows, i - 1, n);
  for (let end = n; end > 1; ) {
    end--;
    const first = load<u32>(rows);
    store<u32>(rows, load<u32>(rows + (end << 2)));
    store<u32>(rows + (end << 2), first);
    sink(rows, 0, end);
  }
}
function sink(rows: u32, from: u32, n: u32): void {
  let i = from;
  while ((i << 1) + 1 < n) {
    let child = (i << 1) + 1;
    if (child + 1 < n && at(rows, child + 1).time > at(rows, child).time) child++;
    if (at(rows, i).time >= at(rows, child).time) return;
    const held = load<u32>(rows + (i << 2));
    store<u32>(rows + (i << 2), load<u32>(rows + (child << 2)));
    store<u32>(rows + (child << 2), held);
    i = child;
  }
}

/** Clears the addresses when freeing, before anything else is allocated: if that fails, nothing is freed twice. */
export function freeRows(): void {
  heap.free(rows0);
  heap.free(rows1);
  rows0 = 0;
  rows1 = 0;
  room = 0;
}
