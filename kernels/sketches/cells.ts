// Sparse histograms of delays in log buckets: counts keyed by (owner, bucket) in one open-addressing table, so that a hundred thousand flows can have
// quantiles. Buckets as in src/base/math/log-histogram.ts: exact below 256, then 128 per power of two (relative error <= 1/256).
//
//   slot u64: owner u32 << 32 | biased bucket (14 bit) << 18 | count (18 bit); after a full count a further slot of the same key begins

const BIAS: i32 = 8192;
const COUNT_BITS: u32 = 18;
const COUNT_MASK: u64 = (1 << 18) - 1;

@unmanaged
export class Cells {
  used: u32;
  mask: u32;
  slots: u32;
}

/** Returns the bucket of a delay; |v| is limited to 2^53. */
// @ts-ignore: decorator
@inline
export function bucketOf(v: f64): i32 {
  // A fraction of a nanosecond below zero (corrected clocks) belongs to bucket 0: there is no bucket -1.
  const negative = v <= -1;
  const m: u64 = <u64>min<f64>(negative ? -v : v, 9007199254740992.0);
  let index: i32;
  if (m < 256) index = <i32>m;
  else {
    const e: u64 = 63 - clz<u64>(m);
    index = 256 + (<i32>e - 8) * 128 + (<i32>(m >> (e - 7)) - 128);
  }
  return negative ? -1 - index : index;
}

export function bucketOfNs(v: f64): i32 {
  return bucketOf(v);
}

export function cellsNew(): usize {
  const p = heap.alloc(offsetof<Cells>());
  const cells = changetype<Cells>(p);
  cells.used = 0;
  cells.mask = 8191;
  cells.slots = <u32>heap.alloc(8192 * 8);
  memory.fill(cells.slots, 0, 8192 * 8);
  return p;
}

export function cellsFree(p: usize): void {
  heap.free(changetype<Cells>(p).slots);
  heap.free(p);
}

// @ts-ignore: decorator
@inline
function place(key: u64, mask: u32): u32 {
  return <u32>((key * 0x9e3779b97f4a7c15) >> 32) & mask;
}

// @ts-ignore: decorator
@inline
function keyOf(owner: u32, bucket: i32): u64 {
  return (<u64>owner << 32) | ((<u64>(bucket + BIAS)) << COUNT_BITS);
}

function grow(cells: Cells): void {
  const size = (cells.mask + 1) << 1;
  const mask = size - 1;
  const fresh = heap.alloc(size << 3);
  memory.fill(fresh, 0, size << 3);
  for (let i: u32 = 0; i <= cells.mask; i++) {
    const slot = load<u64>(cells.slots + (i << 3));
    if (slot == 0) continue;
    let j = place(slot & ~COUNT_MASK, mask);
    while (load<u64>(fresh + (j << 3)) != 0) j = (j + 1) & mask;
    store<u64>(fresh + (j << 3), slot);
  }
  heap.free(cells.slots);
  cells.slots = <u32>fresh;
  cells.mask = mask;
}

// @ts-ignore: decorator
@inline
export function cellsAdd(cells: Cells, owner: u32, bucket: i32): void {
  const key = keyOf(owner, bucket);
  let j = place(key, cells.mask);
  while (true) {
    const slot = load<u64>(cells.slots + (j << 3));
    if ((slot & ~COUNT_MASK) == key && (slot & COUNT_MASK) != COUNT_MASK && slot != 0) {
      store<u64>(cells.slots + (j << 3), slot + 1);
      return;
    }
    if (slot == 0) {
      store<u64>(cells.slots + (j << 3), key | 1);
      cells.used++;
      if (cells.used > cells.mask - (cells.mask >> 2)) grow(cells);
      return;
    }
    j = (j + 1) & cells.mask;
  }
}

/** Adds n to the count of a bucket. */
export function cellsAddMany(cells: Cells, owner: u32, bucket: i32, n: u32): void {
  const key = keyOf(owner, bucket);
  let j = place(key, cells.mask);
  let left: u64 = n;
  while (left > 0) {
    const at = cells.slots + (j << 3);
    const slot = load<u64>(at);
    if (slot == 0 || (slot & ~COUNT_MASK) == key) {
      const room = COUNT_MASK - (slot & COUNT_MASK);
      const more = min<u64>(room, left);
      if (more > 0) {
        store<u64>(at, (slot == 0 ? key : slot) + more);
        left -= more;
      }
      if (slot == 0) {
        cells.used++;
        if (cells.used > cells.mask - (cells.mask >> 2)) {
          grow(cells);
          j = place(key, cells.mask);
          continue;
        }
      }
    }
    j = (j + 1) & cells.mask;
  }
}

/** Returns the count of an owner's bucket. */
export function cellsCount(p: usize, owner: u32, bucket: i32): f64 {
  const cells = changetype<Cells>(p);
  const key = keyOf(owner, bucket);
  let j = place(key, cells.mask);
  let n: f64 = 0;
  while (true) {
    const slot = load<u64>(cells.slots + (j << 3));
    if (slot == 0) return n;
    if ((slot & ~COUNT_MASK) == key) n += <f64>(slot & COUNT_MASK);
    j = (j + 1) & cells.mask;
  }
  return n;
}

/**
 * Writes all cells as {owner u32, bucket i32, count u32} triples to `out`, in table order; returns how many. `out` has room for `used`.
 */
export function cellsExport(p: usize, out: usize): u32 {
  const cells = changetype<Cells>(p);
  let n: u32 = 0;
  for (let i: u32 = 0; i <= cells.mask; i++) {
    const slot = load<u64>(cells.slots + (i << 3));
    if (slot == 0) continue;
    const q = out + n * 12;
    store<u32>(q, <u32>(slot >> 32));
    store<i32>(q, <i32>((slot >> COUNT_BITS) & 0x3fff) - BIAS, 4);
    store<u32>(q, <u32>(slot & COUNT_MASK), 8);
    n++;
  }
  return n;
}

export function cellsUsed(p: usize): u32 {
  return changetype<Cells>(p).used;
}

/**
 * Groups the cells by owner: `offsets` (owners + 1 u32, zeroed) receives the start of each owner's run in `out`, which receives {bucket i32, count u32} pairs.
 */
export function cellsGroup(p: usize, owners: u32, offsets: usize, out: usize): void {
  const cells = changetype<Cells>(p);
  for (let i: u32 = 0; i <= cells.mask; i++) {
    const slot = load<u64>(cells.slots + (i << 3));
    if (slot == 0) continue;
    const at = offsets + ((<u32>(slot >> 32) + 1) << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  for (let i: u32 = 0; i < owners; i++) {
    const at = offsets + ((i + 1) << 2);
    store<u32>(at, load<u32>(at) + load<u32>(offsets + (i << 2)));
  }
  // Filling moves each start to its end; the shift back below restores the starts.
  for (let i: u32 = 0; i <= cells.mask; i++) {
    const slot = load<u64>(cells.slots + (i << 3));
    if (slot == 0) continue;
    const at = offsets + (<u32>(slot >> 32) << 2);
    const n = load<u32>(at);
    store<i32>(out + (n << 3), <i32>((slot >> COUNT_BITS) & 0x3fff) - BIAS);
    store<u32>(out + (n << 3), <u32>(slot & COUNT_MASK), 4);
    store<u32>(at, n + 1);
  }
  for (let i = owners; i > 0; i--) store<u32>(offsets + (i << 2), load<u32>(offsets + ((i - 1) << 2)));
  store<u32>(offsets, 0);
}
