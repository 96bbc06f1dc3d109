// Records of one size in segments, numbered in order of creation. They never move.

const SEGMENT_BITS: u32 = 14;
export const SEGMENT: u32 = 1 << SEGMENT_BITS;
const MAX_SEGMENTS: u32 = 1 << 14;

/** End of the highest record, list or index: memory allocated next lies there. */
let top: u32 = 0;
export function statsTop(): u32 {
  return top;
}
export function allocate(bytes: u32): u32 {
  const p = <u32>heap.alloc(bytes);
  top = max<u32>(top, p + bytes);
  return p;
}

@unmanaged
export class Table {
  count: u32;
  room: u32;
  bytes: u32; //    of a record, and of what lies beside it
  segments: u32; // addresses, aligned to cache lines
  blocks: u32; //   the same as they were allocated
}

export function tableNew(bytes: u32): u32 {
  const t = changetype<Table>(heap.alloc(offsetof<Table>()));
  t.count = 0;
  t.room = 0;
  t.bytes = bytes;
  t.segments = <u32>heap.alloc(MAX_SEGMENTS * 4);
  t.blocks = <u32>heap.alloc(MAX_SEGMENTS * 4);
  return <u32>changetype<usize>(t);
}

export function tableFree(p: u32): void {
  const t = changetype<Table>(p);
  for (let i: u32 = 0; i < t.room >> SEGMENT_BITS; i++) heap.free(load<u32>(t.blocks + (i << 2)));
  heap.free(t.segments);
  heap.free(t.blocks);
  heap.free(p);
}

// @ts-ignore: decorator
@inline
export function recordIn(segments: u32, id: u32, bytes: u32): u32 {
  return load<u32>(segments + ((id >> SEGMENT_BITS) << 2)) + (id & (SEGMENT - 1)) * bytes;
}

function tableGrow(t: Table): void {
  const block = allocate(SEGMENT * t.bytes + 64);
  const i = t.room >> SEGMENT_BITS;
  store<u32>(t.blocks + (i << 2), block);
  store<u32>(t.segments + (i << 2), (block + 63) & ~63);
  t.room += SEGMENT;
}

/** Adds a record and zeroes it. Zeroing here instead of by segment leaves it in the cache for its first use. */
// @ts-ignore: decorator
@inline
export function tableAdd(p: u32, bytes: u32): u32 {
  const t = changetype<Table>(p);
  if (t.count == t.room) tableGrow(t);
  const r = recordIn(t.segments, t.count++, bytes);
  for (let o: u32 = 0; o < bytes; o += 8) store<u64>(r + o, 0);
  return r;
}
