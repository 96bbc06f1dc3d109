// Walks the records of a capture that lie in a chunk of memory and decodes them into a batch: pcap, pcapng, ERF.
// The TypeScript side (src/capture/reader.ts) fills the chunk, handles the rare blocks (sections, interfaces, statistics)
// and owns all messages. One u32 or u64 per field, in this order.

import { Batch, FLAG_SHORT } from "./batch";
import { decodeFrame } from "./decode";
import { NO_INTERFACE, NO_TIME, OK } from "./link";
import { MOST_STAMPS, originOf } from "./origin";

// What a walk ended with.
export const NEED_DATA: i32 = 0; // the rest of the chunk is not a whole record: `wanted` bytes from `pos` on
export const BATCH_FULL: i32 = 1;
export const SPECIAL: i32 = 2; //    pcapng: a block for the TypeScript side at `pos`
export const BAD_LENGTH: i32 = 3; // a length that cannot be: the stream is lost from `pos` on
export const BAD_TRAILER: i32 = 4; // pcapng: the block's second length differs from the first

/** ERF types that are not decoded have a link type of no registry. */
const NO_LINK: u32 = 0xffffffff;

/** No real frame is longer (libpcap's own limit). */
const MAX_CAPTURED: u32 = 262144;

@unmanaged
export class Cursor {
  pos: u32; //       next byte
  limit: u32; //     end of the bytes in the chunk
  wanted: u32; //    NEED_DATA: bytes needed from pos
  swapped: u32; //   pcap/pcapng: the file has the other byte order
  nano: u32; //      pcap: fraction is nanoseconds
  link: u32; //      pcap: link type
  recordHeader: u32; // pcap: 16, or 24 in the modified format
  fcs: u32; //       bytes of frame check sequence at the end of each frame (pcap header); informative
  cover: u32; //     digest coverage in bytes from the IP header on
  inner: u32;
  interfaces: u32; // pcapng: address of the interface table
  interfaceCount: u32;
  interfaceBase: u32; // pcapng: number of the section's first interface in the whole file
  started: u32; //   origin is set
  origin: i64; //    ns since 1970 of the first packet, or of the first whose stamp agrees with those after it (kernels/origin.ts)
  seed: u64;
  packets: u64;
  bytes: u64; //     on the wire
  drops: u64; //     reported in packet records (epb_dropcount, old packet block, ERF loss counter)
  dropsKnown: u32;
  pad: u32;
  unused0: f64;
  unused1: f64;
  maxTime: f64; //   the latest timestamp so far
}

/** Sixteen u64 counters by reason follow the fixed part. */
const FIXED: u32 = 128;

@unmanaged
class Interface {
  link: u32;
  kind: u32; //      0: ticks * scale; 1: ticks / scale; 2: ticks are 2^-scale s
  scale: u64;
  offset: i64; //    ns added
  maxTicks: u64; //  above it the time does not fit in 64 bits
}
const INTERFACE_BYTES: u32 = 40;

export function cursorNew(): usize {
  const p = heap.alloc(FIXED + 16 * 8);
  memory.fill(p, 0, FIXED + 16 * 8);
  return p;
}
export function cursorFixedBytes(): u32 {
  return FIXED;
}

// @ts-ignore: decorator
@inline
function count(c: usize, reason: i32): void {
  const p = c + FIXED + (<usize>reason << 3);
  store<u64>(p, load<u64>(p) + 1);
}

// @ts-ignore: decorator
@inline
function take(
  c: usize, cursor: Cursor, batch: Batch, link: u32, p: usize, captured: u32, wire: u32, at: i64, iface: u32,
): void {
  const time = <f64>(at - cursor.origin);
  if (time > cursor.maxTime) cursor.maxTime = time;
  cursor.packets++;
  cursor.bytes += <u64>wire;
  const reason = decodeFrame(batch, link, p, p + captured, wire, time, iface, cursor.cover, cursor.inner, cursor.seed);
  if (reason != OK) count(c, reason);
}

/** Before the first packet: `n` stamps from there on, in memory that is given back, make the origin. */
function begin(cursor: Cursor, stamps: usize, n: u32): void {
  if (n > 0) {
    cursor.started = 1;
    cursor.origin = originOf(stamps, n);
    cursor.maxTime = 0;
  }
  heap.free(stamps);
}

function beginPcap(cursor: Cursor): void {
  const stamps = heap.alloc(MOST_STAMPS << 3);
  const unit: i64 = cursor.nano != 0 ? 1 : 1000;
  const swapped = cursor.swapped != 0;
  let n: u32 = 0;
  let pos = cursor.pos;
  while (n < MOST_STAMPS && pos + cursor.recordHeader <= cursor.limit) {
    const captured = u32At(pos + 8, swapped);
    if (captured > MAX_CAPTURED || pos + cursor.recordHeader + captured > cursor.limit) break;
    store<i64>(stamps + (n++ << 3), <i64>u32At(pos, swapped) * 1000000000 + <i64>u32At(pos + 4, swapped) * unit);
    pos += cursor.recordHeader + captured;
  }
  begin(cursor, stamps, n);
}

/** Up to the next block that is no packet. */
function beginPcapng(cursor: Cursor): void {
  const stamps = heap.alloc(MOST_STAMPS << 3);
  const swapped = cursor.swapped != 0;
  let n: u32 = 0;
  let pos = cursor.pos;
  while (n < MOST_STAMPS && pos + 20 <= cursor.limit) {
    const type = u32At(pos, swapped);
    const total = u32At(pos + 4, swapped);
    if ((type != 6 && type != 3 && type != 2) || total < (type == 3 ? 16 : 32) || total > MAX_CAPTURED * 4) break;
    if (pos + total > cursor.limit || u32At(pos + total - 4, swapped) != total) break;
    const index = type == 6 ? u32At(pos + 8, swapped) : u16At(pos + 8, swapped);
    if (type != 3 && index < cursor.interfaceCount) {
      const iface = changetype<Interface>(cursor.interfaces + index * INTERFACE_BYTES);
      const ticks = (<u64>u32At(pos + 12, swapped) << 32) | <u64>u32At(pos + 16, swapped);
      if (ticks <= iface.maxTicks) store<i64>(stamps + (n++ << 3), ticksToNs(iface, ticks));
    }
    pos += total;
  }
  begin(cursor, stamps, n);
}

function beginErf(cursor: Cursor): void {
  const stamps = heap.alloc(MOST_STAMPS << 3);
  let n: u32 = 0;
  let pos = cursor.pos;
  while (n < MOST_STAMPS && pos + 16 <= cursor.limit) {
    const length: u32 = <u32>bswap<u16>(load<u16>(pos, 10));
    if (length < 16 || pos + length > cursor.limit) break;
    if (!isErfMessage(<u32>load<u8>(pos, 8) & 0x7f)) store<i64>(stamps + (n++ << 3), erfNs(load<u64>(pos)));
    pos += length;
  }
  begin(cursor, stamps, n);
}

/** Padding and the card's own messages (provenance) are no packets. */
// @ts-ignore: decorator
@inline
function isErfMessage(type: u32): bool {
  return type == 48 || type == 27;
}
// @ts-ignore: decorator
@inline
function erfNs(stamp: u64): i64 {
  return <i64>((stamp >> 32) * 1000000000 + (((stamp & 0xffffffff) * 1000000000 + 0x80000000) >> 32));
}

/** Classic pcap records. */
export function walkPcap(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const header = cursor.recordHeader;
  const limit = cursor.limit;
  const swapped = cursor.swapped != 0;
  const link = cursor.link;
  const unit: i64 = cursor.nano != 0 ? 1 : 1000;
  if (cursor.started == 0) beginPcap(cursor);
  let pos = cursor.pos;
  while (true) {
    if (batch.count == batch.capacity) {
      cursor.pos = pos;
      return BATCH_FULL;
    }
    if (pos + header > limit) {
      cursor.pos = pos;
      cursor.wanted = header;
      return NEED_DATA;
    }
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
    if (captured > MAX_CAPTURED) {
      cursor.pos = pos;
      return BAD_LENGTH;
    }
    if (pos + header + captured > limit) {
      cursor.pos = pos;
      cursor.wanted = header + captured;
      return NEED_DATA;
    }
    take(c, cursor, batch, link, pos + header, captured, wire, <i64>sec * 1000000000 + <i64>fraction * unit, 0);
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
    // fraction * 1e9 takes more than 64 bits: drop the lowest 32 of the product first, which floors the same
    const product = (fraction >> 32) * 1000000000 + (((fraction & 0xffffffff) * 1000000000) >> 32);
    ns = bits >= 96 ? 0 : product >> (bits - 32);
  }
  return <i64>(seconds * 1000000000 + ns) + iface.offset;
}

/** Options of an enhanced packet block: only the drop counter (code 4) is used. */
function walkOptions(cursor: Cursor, p: usize, end: usize, swapped: bool): void {
  while (p + 4 <= end) {
    const code = u16At(p, swapped);
    const length = u16At(p + 2, swapped);
    if (code == 0) return;
    if (code == 4 && length == 8 && p + 12 <= end) {
      const told = load<u64>(p + 4);
      const v = swapped ? bswap<u64>(told) : told;
      // A sum of counters stays exact below 2^53; no interface ever dropped 2^48 packets between two.
      if (v >> 48 == 0) {
        cursor.drops += v;
        cursor.dropsKnown = 1;
      }
    }
    p += 4 + ((length + 3) & ~3);
  }
}

/** pcapng blocks: enhanced, simple and old packet blocks are taken; all others end the walk with SPECIAL. */
export function walkPcapng(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const limit = cursor.limit;
  const swapped = cursor.swapped != 0;
  if (cursor.started == 0) beginPcapng(cursor);
  let pos = cursor.pos;
  while (true) {
    if (batch.count == batch.capacity) {
      cursor.pos = pos;
      return BATCH_FULL;
    }
    if (pos + 12 > limit) {
      cursor.pos = pos;
      cursor.wanted = 12;
      return NEED_DATA;
    }
    const type = u32At(pos, swapped);
    if (type != 6 && type != 3 && type != 2) {
      cursor.pos = pos;
      return SPECIAL;
    }
    const total = u32At(pos + 4, swapped);
    const fixed: u32 = type == 3 ? 16 : 32;
    if (total < fixed || (total & 3) != 0 || total > MAX_CAPTURED * 4) {
      cursor.pos = pos;
      return BAD_LENGTH;
    }
    if (pos + total > limit) {
      cursor.pos = pos;
      cursor.wanted = total;
      return NEED_DATA;
    }
    if (u32At(pos + total - 4, swapped) != total) {
      cursor.pos = pos;
      return BAD_TRAILER;
    }
    if (type == 3) {
      cursor.packets++;
      cursor.bytes += <u64>u32At(pos + 8, swapped);
      count(c, NO_TIME);
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
    if (captured > total - 32 || captured > MAX_CAPTURED) {
      cursor.pos = pos;
      return BAD_LENGTH;
    }
    const padded = (captured + 3) & ~3;
    if (type == 6 && total > 32 + padded) walkOptions(cursor, pos + 28 + padded, pos + total - 4, swapped);
    if (index >= cursor.interfaceCount) {
      cursor.packets++;
      cursor.bytes += <u64>wire;
      count(c, NO_INTERFACE);
      pos += total;
      continue;
    }
    const iface = changetype<Interface>(cursor.interfaces + index * INTERFACE_BYTES);
    const ticks = (<u64>high << 32) | <u64>low;
    if (ticks > iface.maxTicks) {
      cursor.packets++;
      cursor.bytes += <u64>wire;
      count(c, NO_TIME);
      pos += total;
      continue;
    }
    take(c, cursor, batch, iface.link, pos + 28, captured, wire, ticksToNs(iface, ticks), cursor.interfaceBase + index);
    pos += total;
  }
  return NEED_DATA;
}

/** ERF records (Endace): Ethernet, HDLC/PPP, ATM with LLC/SNAP, raw IP; the 32.32 time. */
export function walkErf(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const limit = cursor.limit;
  if (cursor.started == 0) beginErf(cursor);
  let pos = cursor.pos;
  while (true) {
    if (batch.count == batch.capacity) {
      cursor.pos = pos;
      return BATCH_FULL;
    }
    if (pos + 16 > limit) {
      cursor.pos = pos;
      cursor.wanted = 16;
      return NEED_DATA;
    }
    const stamp = load<u64>(pos);
    const kind: u32 = load<u8>(pos, 8);
    const iface: u32 = load<u8>(pos, 9) & 3;
    const length: u32 = <u32>bswap<u16>(load<u16>(pos, 10));
    const loss: u32 = <u32>bswap<u16>(load<u16>(pos, 12));
    const wire: u32 = <u32>bswap<u16>(load<u16>(pos, 14));
    if (length < 16) {
      cursor.pos = pos;
      return BAD_LENGTH;
    }
    if (pos + length > limit) {
      cursor.pos = pos;
      cursor.wanted = length;
      return NEED_DATA;
    }
    const end = pos + length;
    const type = kind & 0x7f;
    if (isErfMessage(type)) {
      pos = end;
      continue;
    }
    let p = pos + 16;
    let more = (kind & 0x80) != 0;
    while (more && p + 8 <= end) {
      more = (load<u8>(p) & 0x80) != 0;
      p += 8;
    }
    let link: u32 = NO_LINK;
    if (type == 2 || type == 11 || type == 16 || type == 20) {
      // Ethernet: offset and a padding byte
      link = 1;
      p += 2;
    } else if (type == 1 || type == 10 || type == 15 || type == 19) link = 104;
    else if (type == 5 || type == 17) {
      // multichannel HDLC: channel header
      link = 104;
      p += 4;
    } else if (type == 3 || type == 4) {
      // ATM cell or AAL5 frame: cell header without its checksum
      link = 100;
      p += 4;
    } else if (type == 9) {
      // multichannel AAL5: channel header and cell header
      link = 100;
      p += 8;
    } else if (type == 22 || type == 23) link = 101;
    // The loss counter is a colour in the colour types.
    if (type <= 4) {
      cursor.drops += <u64>loss;
      cursor.dropsKnown = 1;
    }
    const at = erfNs(stamp);
    // Captured bytes past the wire length are padding to 8 bytes. ATM counts its lengths in cells.
    let captured: u32 = p < end ? <u32>(end - p) : 0;
    if (link != 100 && captured > wire) captured = wire;
    take(c, cursor, batch, link, p, captured, wire, at, iface);
    pos = end;
  }
  return NEED_DATA;
}

/** Sizes told apart by countShorts; what is longer is counted with the longest. */
const SHORT_SIZES: u32 = 1536;

/**
 * Adds the rows that the snap length cut within the digest to `counts` (SHORT_SIZES u32), by the bytes visible from the IP header on.
 * Returns how many there were.
 */
export function countShorts(b: usize, counts: usize): u32 {
  const batch = changetype<Batch>(b);
  // Mostly there are none.
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
