// Writes the heaviest flows as bytes, sorted by hash and key (src/estimators/lds/heavy-keys.ts has the layout, and the same code in TypeScript for merging
// lists).

import { META_IPV6 } from "../decode/batch";
import { BYTES, HeavyFlows, MISSED, PACKETS, RECORD } from "./heavy-flows";
import { varint } from "./varint";

/** Maximum size of a flow: six words and three counters. */
const LONGEST: usize = 80;

/** Returns whether a record comes before another: by hash, then by the key's 32-bit words in memory order. */
function before(a: usize, b: usize): bool {
  const ha = load<u64>(a);
  const hb = load<u64>(b);
  if (ha != hb) return ha < hb;
  for (let w: usize = 8; w < PACKETS; w += 4) {
    const wa = load<u32>(a + w);
    const wb = load<u32>(b + w);
    if (wa != wb) return wa < wb;
  }
  return false;
}

/** Moves the entry at `root` of a heap of `n` record addresses down to its place; the last in order is on top. */
function sink(list: usize, root: u32, n: u32): void {
  const moved = load<u32>(list + (<usize>root << 2));
  for (let child: u32 = (root << 1) + 1; child < n; child = (root << 1) + 1) {
    if (child + 1 < n && before(load<u32>(list + (<usize>child << 2)), load<u32>(list + (<usize>child << 2), 4))) child++;
    const larger = load<u32>(list + (<usize>child << 2));
    if (!before(moved, larger)) break;
    store<u32>(list + (<usize>root << 2), larger);
    root = child;
  }
  store<u32>(list + (<usize>root << 2), moved);
}

/** Returns the addresses of all records in order; the caller frees the memory. */
export function heavyFlowsOrder(p: usize): usize {
  const heavy = changetype<HeavyFlows>(p);
  const n = heavy.count;
  const list = heap.alloc(max<u32>(1, n) << 2);
  for (let i: u32 = 0; i < n; i++) store<u32>(list + (<usize>i << 2), heavy.records + i * RECORD);
  for (let i = n >> 1; i > 0; i--) sink(list, i - 1, n);
  for (let i = n; i > 1; i--) {
    const last = list + (<usize>(i - 1) << 2);
    const top = load<u32>(list);
    store<u32>(list, load<u32>(last));
    store<u32>(last, top);
    sink(list, 0, i - 1);
  }
  return list;
}

/** Writes `n` flows of an ordered list from `to` on, which has room for them (80 bytes each). Returns the length. */
export function heavyFlowsPack(list: usize, n: u32, to: usize): u32 {
  let out = to;
  for (let i: u32 = 0; i < n; i++) {
    const r: usize = load<u32>(list + (<usize>i << 2));
    const words: usize = (load<u64>(r, 8) & META_IPV6) == 0 ? 24 : 48;
    memory.copy(out, r, words);
    out = varint(out + words, load<u64>(r + PACKETS));
    out = varint(out, load<u64>(r + BYTES));
    out = varint(out, load<u64>(r + MISSED));
  }
  return <u32>(out - to);
}
