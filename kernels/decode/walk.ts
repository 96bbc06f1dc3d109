// Walks the records of a capture in a chunk of memory and decodes them into a batch: pcap and pcapng (ERF: walk-erf.ts). The TypeScript side
// (src/capture/reader.ts) fills the chunk, handles the rare blocks (sections, interfaces, statistics) and all messages.

import { Batch, FLAG_INBOUND, FLAG_OUTBOUND, FLAG_SHORT } from "./batch";
import { BAD_LENGTH, BAD_TRAILER, BATCH_FULL, begin, count, Cursor, endAt, NEED_DATA, needData, SPECIAL, take } from "./cursor";
import { NO_INTERFACE, NO_TIME } from "./link";
import { MAX_TIMESTAMPS } from "./origin";
import { PLAIN_RECORD, walkPlainPcap } from "./walk-plain-pcap";

/** Longest plausible frame (libpcap's own limit). */
const MAX_CAPTURED: u32 = 262144;

@unmanaged
export class Interface {
  link: u32;
  kind: u32; //      0: ticks * scale; 1: ticks / scale; 2: ticks are 2^-scale s
  scale: u64;
  offset: i64; //    ns added
  maxTicks: u64; //  above it the time does not fit in 64 bits
}
function beginPcap(cursor: Cursor): void {
  const timestamps = heap.alloc(MAX_TIMESTAMPS << 3);
  const unit: i64 = cursor.nano != 0 ? 1 : 1000;
  const swapped = cursor.swapped != 0;
  let n: u32 = 0;
  let pos = cursor.pos;
  while (n < MAX_TIMESTAMPS && pos + cursor.recordHeader <= cursor.limit) {
    const captured = u32At(pos + 8, swapped);
    if (captured > MAX_CAPTURED || pos + cursor.recordHeader + captured > cursor.limit) break;
    store<i64>(timestamps + (n++ << 3), <i64>u32At(pos, swapped) * 1000000000 + <i64>u32At(pos + 4, swapped) * unit);
    pos += cursor.recordHeader + captured;
  }
  begin(cursor, timestamps, n);
}

/** Sets the origin from the packets up to the next block that is not a packet. */
function beginPcapng(cursor: Cursor): void {
  const timestamps = heap.alloc(MAX_TIMESTAMPS << 3);
  const swapped = cursor.swapped != 0;
  let n: u32 = 0;
  let pos = cursor.pos;
  while (n < MAX_TIMESTAMPS && pos + 20 <= cursor.limit) {
    const type = u32At(pos, swapped);
    const total = u32At(pos + 4, swapped);
    if ((type != 6 && type != 3 && type != 2) || total < (type == 3 ? 16 : 32) || total > MAX_CAPTURED * 4) break;
    if (pos + total > cursor.limit || u32At(pos + total - 4, swapped) != total) break;
    const index = type == 6 ? u32At(pos + 8, swapped) : u16At(pos + 8, swapped);
    if (type != 3 && index < cursor.interfaceCount) {
      const iface = changetype<Interface>(cursor.interfaces + index * offsetof<Interface>());
      const ticks = (<u64>u32At(pos + 12, swapped) << 32) | <u64>u32At(pos + 16, swapped);
      if (ticks <= iface.maxTicks) store<i64>(timestamps + (n++ << 3), ticksToNs(iface, ticks));
    }
    pos += total;
  }
  begin(cursor, timestamps, n);
}

const LINK_SLL: u32 = 113;
const LINK_SLL2: u32 = 276;

// @ts-ignore: decorator
@inline
function isCooked(link: u32): bool {
  return link == LINK_SLL || link == LINK_SLL2;
}

/** Returns the direction from a Linux cooked header: type 4 is sent by this host, 3 is between other hosts. */
function cookedDirection(link: u32, frame: usize, captured: u32): u32 {
  if (captured < 16) return 0;
  const type: u32 = link == LINK_SLL ? <u32>bswap<u16>(load<u16>(frame)) : <u32>load<u8>(frame, 10);
  return type == 4 ? FLAG_OUTBOUND : type < 3 ? FLAG_INBOUND : 0;
}

/** Sets the direction of the last row, if the frame became a row. */
function markLast(batch: Batch, before: u32, direction: u32): void {
  if (batch.count == before) return;
  const at = batch.flags + (before << 2);
  store<u32>(at, load<u32>(at) | direction);
}

/** Sets the interface of the last row from its Linux cooked v2 header. */
function placeLast(batch: Batch, before: u32, frame: usize): void {
  if (batch.count != before && batch.lean == 0) store<u32>(batch.iface + (before << 2), bswap<u32>(load<u32>(frame, 4)));
}

/** Walks classic pcap records. */
export function walkPcap(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const header = cursor.recordHeader;
  const limit = cursor.limit;
  const swapped = cursor.swapped != 0;
  const link = cursor.link;
  const cooked = isCooked(link);
  const unit: i64 = cursor.nano != 0 ? 1 : 1000;
  if (cursor.started == 0) beginPcap(cursor);
  const plain =
    link == 1 && !swapped && header == PLAIN_RECORD && cursor.special == 0 && batch.frame == 0 && cursor.started != 0;
  let pos = cursor.pos;
  while (true) {
    if (plain) {
      cursor.pos = pos;
      walkPlainPcap(cursor, batch, unit, MAX_CAPTURED);
      pos = cursor.pos;
    }
    if (batch.count == batch.capacity) return endAt(cursor, batch, pos, BATCH_FULL);
    if (pos + header > limit) return needData(cursor, batch, pos, header);
    let sec = load<u32>(pos);
    let fraction = load<u32>(pos, 4);
    let captured = load<u32>(pos, 8);
    let wire = load<u32>(pos, 12);
    if (swapped) {
      sec = bswap<u32>(sec);
      fraction = bswap<u32>(fraction);
      captured = bswap<u32>(captured);
      wire = bswap<u32>(wire);
    }
    if (captured > MAX_CAPTURED) return endAt(cursor, batch, pos, BAD_LENGTH);
    if (pos + header + captured > limit) return needData(cursor, batch, pos, header + captured);
    const before = batch.count;
    take(cursor, batch, link, pos + header, captured, wire, <i64>sec * 1000000000 + <i64>fraction * unit, 0);
    if (cooked) {
      markLast(batch, before, cookedDirection(link, pos + header, captured));
      if (link == LINK_SLL2) placeLast(batch, before, pos + header);
    }
    pos += header + captured;
  }
  return NEED_DATA;
}

// @ts-ignore: decorator
@inline
function u32At(p: usize, swapped: bool): u32 {
  const v = load<u32>(p);
  return swapped ? bswap<u32>(v) : v;
}
// @ts-ignore: decorator
@inline
function u16At(p: usize, swapped: bool): u32 {
  const v = load<u16>(p);
  return <u32>(swapped ? bswap<u16>(v) : v);
}

function ticksToNs(iface: Interface, ticks: u64): i64 {
  if (iface.kind == 0) return <i64>(ticks * iface.scale) + iface.offset;
  if (iface.kind == 1) return <i64>(ticks / iface.scale) + iface.offset;
  const bits = iface.scale;
  const seconds: u64 = bits >= 64 ? 0 : ticks >> bits;
  const fraction: u64 = bits >= 64 ? ticks : ticks & (((<u64>1) << bits) - 1);
  let ns: u64;
  if (bits <= 34) ns = (fraction * 1000000000) >> bits;
  else {
    // fraction * 1e9 exceeds 64 bits: drop the lowest 32 bits of the product first, which floors the same.
    const product = (fraction >> 32) * 1000000000 + (((fraction & 0xffffffff) * 1000000000) >> 32);
    ns = bits >= 96 ? 0 : product >> (bits - 32);
  }
  return <i64>(seconds * 1000000000 + ns) + iface.offset;
}

/** Reads options of an enhanced packet block: adds the drop counter (code 4), returns the direction (code 2, its two lowest bits). */
function walkOptions(cursor: Cursor, p: usize, end: usize, swapped: bool): u32 {
  let direction: u32 = 0;
  while (p + 4 <= end) {
    const code = u16At(p, swapped);
    const length = u16At(p + 2, swapped);
    if (code == 0) return direction;
    if (code == 2 && length == 4 && p + 8 <= end) {
      const way = u32At(p + 4, swapped) & 3;
      direction = way == 1 ? FLAG_INBOUND : way == 2 ? FLAG_OUTBOUND : 0;
    }
    if (code == 4 && length == 8 && p + 12 <= end) {
      const raw = load<u64>(p + 4);
      const v = swapped ? bswap<u64>(raw) : raw;
      // The sum of drop counters stays exact below 2^53; no interface drops 2^48 packets between two packets.
      if (v >> 48 == 0) {
        cursor.drops += v;
        cursor.dropsKnown = 1;
      }
    }
    p += 4 + ((length + 3) & ~3);
  }
  return direction;
}

/** Walks pcapng blocks: enhanced, simple and old packet blocks are decoded; all others end the walk with SPECIAL. */
export function walkPcapng(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const limit = cursor.limit;
  const swapped = cursor.swapped != 0;
  if (cursor.started == 0) beginPcapng(cursor);
  let pos = cursor.pos;
  while (true) {
    if (batch.count == batch.capacity) return endAt(cursor, batch, pos, BATCH_FULL);
    if (pos + 12 > limit) return needData(cursor, batch, pos, 12);
    const type = u32At(pos, swapped);
    if (type != 6 && type != 3 && type != 2) return endAt(cursor, batch, pos, SPECIAL);
    const total = u32At(pos + 4, swapped);
    const fixed: u32 = type == 3 ? 16 : 32;
    if (total < fixed || (total & 3) != 0 || total > MAX_CAPTURED * 4) return endAt(cursor, batch, pos, BAD_LENGTH);
    if (pos + total > limit) return needData(cursor, batch, pos, total);
    if (u32At(pos + total - 4, swapped) != total) return endAt(cursor, batch, pos, BAD_TRAILER);
    if (type == 3) {
      cursor.packets++;
      cursor.bytes += <u64>u32At(pos + 8, swapped);
      count(cursor, NO_TIME);
      pos += total;
      continue;
    }
    let index: u32;
    if (type == 6) index = u32At(pos + 8, swapped);
    else {
      index = u16At(pos + 8, swapped);
      const drops = u16At(pos + 10, swapped);
      if (drops != 0xffff) {
        cursor.drops += <u64>drops;
        cursor.dropsKnown = 1;
      }
    }
    const high = u32At(pos + 12, swapped);
    const low = u32At(pos + 16, swapped);
    const captured = u32At(pos + 20, swapped);
    const wire = u32At(pos + 24, swapped);
    if (captured > total - 32 || captured > MAX_CAPTURED) return endAt(cursor, batch, pos, BAD_LENGTH);
    const padded = (captured + 3) & ~3;
    let direction: u32 = 0;
    if (type == 6 && total > 32 + padded) direction = walkOptions(cursor, pos + 28 + padded, pos + total - 4, swapped);
    if (index >= cursor.interfaceCount) {
      cursor.packets++;
      cursor.bytes += <u64>wire;
      count(cursor, NO_INTERFACE);
      pos += total;
      continue;
    }
    const iface = changetype<Interface>(cursor.interfaces + index * offsetof<Interface>());
    const ticks = (<u64>high << 32) | <u64>low;
    if (ticks > iface.maxTicks) {
      cursor.packets++;
      cursor.bytes += <u64>wire;
      count(cursor, NO_TIME);
      pos += total;
      continue;
    }
    const before = batch.count;
    const link = iface.link;
    take(cursor, batch, link, pos + 28, captured, wire, ticksToNs(iface, ticks), cursor.interfaceBase + index);
    if (direction == 0 && isCooked(link)) direction = cookedDirection(link, pos + 28, captured);
    if (direction != 0) markLast(batch, before, direction);
    // The only interface of the file stands for all interfaces of a host.
    if (link == LINK_SLL2 && captured >= 8 && cursor.interfaceCount == 1 && cursor.interfaceBase == 0) placeLast(batch, before, pos + 28);
    pos += total;
  }
  return NEED_DATA;
}

/** Number of sizes that countShorts distinguishes; longer ones count as the largest. */
export const SHORT_SIZES: u32 = 1536;

/**
 * Adds the rows that the snap length cut within the digest to `counts` (SHORT_SIZES u32), by the bytes visible from the IP header on. Returns their number.
 */
export function countShorts(b: usize, counts: usize): u32 {
  const batch = changetype<Batch>(b);
  // Usually there are none.
  if (batch.shorts == 0) return 0;
  batch.shorts = 0;
  let shorts: u32 = 0;
  for (let i: u32 = 0; i < batch.count; i++) {
    if ((load<u32>(batch.flags + (i << 2)) & FLAG_SHORT) == 0) continue;
    const at = counts + (min<u32>(load<u32>(batch.captured + (i << 2)), SHORT_SIZES - 1) << 2);
    store<u32>(at, load<u32>(at) + 1);
    shorts++;
  }
  return shorts;
}
