// Walks ERF records (Endace) and decodes them into a batch, as walk.ts does with pcap and pcapng.

import { Batch } from "./batch";
import { BAD_LENGTH, BATCH_FULL, begin, Cursor, endAt, NEED_DATA, needData, take } from "./cursor";
import { MAX_TIMESTAMPS } from "./origin";

/** Link type of ERF types that are not decoded; it is in no registry. */
const NO_LINK: u32 = 0xffffffff;

function beginErf(cursor: Cursor): void {
  const timestamps = heap.alloc(MAX_TIMESTAMPS << 3);
  let n: u32 = 0;
  let pos = cursor.pos;
  while (n < MAX_TIMESTAMPS && pos + 16 <= cursor.limit) {
    const length: u32 = <u32>bswap<u16>(load<u16>(pos, 10));
    if (length < 16 || pos + length > cursor.limit) break;
    if (!isErfMessage(<u32>load<u8>(pos, 8) & 0x7f)) store<i64>(timestamps + (n++ << 3), erfNs(load<u64>(pos)));
    pos += length;
  }
  begin(cursor, timestamps, n);
}

/** Padding and the card's own messages (provenance) are not packets. */
// @ts-ignore: decorator
@inline
function isErfMessage(type: u32): bool {
  return type == 48 || type == 27;
}
// @ts-ignore: decorator
@inline
function erfNs(timestamp: u64): i64 {
  return <i64>((timestamp >> 32) * 1000000000 + (((timestamp & 0xffffffff) * 1000000000 + 0x80000000) >> 32));
}

/** ERF records (Endace): Ethernet, HDLC/PPP, ATM with LLC/SNAP, raw IP; the 32.32 time. */
export function walkErf(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const limit = cursor.limit;
  if (cursor.started == 0) beginErf(cursor);
  let pos = cursor.pos;
  while (true) {
    if (batch.count == batch.capacity) return endAt(cursor, batch, pos, BATCH_FULL);
    if (pos + 16 > limit) return needData(cursor, batch, pos, 16);
    const timestamp = load<u64>(pos);
    const kind: u32 = load<u8>(pos, 8);
    const iface: u32 = load<u8>(pos, 9) & 3;
    const length: u32 = <u32>bswap<u16>(load<u16>(pos, 10));
    const loss: u32 = <u32>bswap<u16>(load<u16>(pos, 12));
    const wire: u32 = <u32>bswap<u16>(load<u16>(pos, 14));
    if (length < 16) return endAt(cursor, batch, pos, BAD_LENGTH);
    if (pos + length > limit) return needData(cursor, batch, pos, length);
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
    // In the colour types the loss counter holds a colour.
    if (type <= 4) {
      cursor.drops += <u64>loss;
      cursor.dropsKnown = 1;
    }
    const at = erfNs(timestamp);
    // Captured bytes beyond the wire length are padding to 8 bytes. ATM counts its lengths in cells.
    let captured: u32 = p < end ? <u32>(end - p) : 0;
    if (link != 100 && captured > wire) captured = wire;
    take(cursor, batch, link, p, captured, wire, at, iface);
    pos = end;
  }
  return NEED_DATA;
}
