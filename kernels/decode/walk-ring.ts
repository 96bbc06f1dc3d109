// Walks a block of a packet ring (Linux, TPACKET_V3) that was copied into memory, and decodes its packets into a batch. The TypeScript side
// (src/capture/source/interface/) copies blocks and sets `pos` to the block's first packet and `left` to their number.
//
//   packet:  0 next u32   4 seconds u32   8 ns u32   12 captured u32   16 wire u32   20 status u32   24 frame u16   26 network u16
//           28 hash u32  32 tag u32      36 tag type u16                             48 address: 58 packet type u8
// Offsets of frame and network header count from the packet's own start. All numbers are the host's: little-endian, as WebAssembly is.

import { Batch, FLAG_INBOUND, FLAG_OUTBOUND } from "./batch";
import { BAD_LENGTH, BATCH_FULL, count, Cursor, NEED_DATA, take } from "./cursor";
import { NO_TIME } from "./link";

/** Link types in use: a frame with its Ethernet header; else the packet from its network header on. */
export const RING_ETHERNET: u32 = 1;
export const RING_NETWORK: u32 = 101;

const TAG_VALID: u32 = 1 << 4;
const TAG_TYPE_VALID: u32 = 1 << 6;
const SEGMENTS: u32 = 1 << 8; // one of several TCP segments that were, or will be, merged
const HARDWARE: u32 = 1 << 31;
const OUTGOING: u32 = 4;
const HEADER_BYTES: u32 = 68;
const TAG_BYTES: u32 = 4;

/** A tag that the card took off is put back in front of the type, as it was on the wire. There is room before the frame. Returns its new start. */
function putTagBack(pos: usize, frame: usize, status: u32): usize {
  const to = frame - TAG_BYTES;
  memory.copy(to, frame, 12);
  const type: u16 = (status & TAG_TYPE_VALID) != 0 ? load<u16>(pos, 36) : 0x8100;
  store<u16>(to, bswap<u16>(type), 12);
  store<u16>(to, bswap<u16>(<u16>load<u32>(pos, 32)), 14);
  return to;
}

/** What the interface did with the last row. */
// @ts-ignore: decorator
@inline
function markDirection(batch: Batch, row: u32, kind: u32): void {
  if (batch.count == row) return;
  const at = batch.flags + (row << 2);
  store<u32>(at, load<u32>(at) | (kind == OUTGOING ? FLAG_OUTBOUND : FLAG_INBOUND));
}

export function walkRing(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const limit = cursor.limit;
  const link = cursor.link;
  let pos = cursor.pos;
  let left = cursor.left;
  let outcome = NEED_DATA;
  while (left > 0) {
    if (batch.count == batch.capacity) {
      outcome = BATCH_FULL;
      break;
    }
    if (pos + HEADER_BYTES > limit) {
      outcome = BAD_LENGTH;
      break;
    }
    const status = load<u32>(pos, 20);
    let captured = load<u32>(pos, 12);
    let wire = load<u32>(pos, 16);
    const start: u32 = load<u16>(pos, 24);
    let frame: usize = pos + start;
    if (start < HEADER_BYTES + TAG_BYTES || frame + captured > limit) {
      outcome = BAD_LENGTH;
      break;
    }
    if ((status & SEGMENTS) != 0 || wire > cursor.longest) cursor.merged++;
    if ((status & TAG_VALID) != 0 && link == RING_ETHERNET && captured >= 12) {
      frame = putTagBack(pos, frame, status);
      captured += TAG_BYTES;
      wire += TAG_BYTES;
    } else if (link == RING_NETWORK) {
      const linkBytes = min<u32>(<u32>load<u16>(pos, 26) - start, captured);
      frame += linkBytes;
      captured -= linkBytes;
      wire -= linkBytes;
    }
    const at = <i64>load<u32>(pos, 4) * 1000000000 + <i64>load<u32>(pos, 8);
    if (cursor.started == 0) {
      cursor.started = 1;
      cursor.origin = at;
      cursor.maxTime = 0;
    }
    if ((status & HARDWARE) != 0) cursor.hardware++;
    if ((status & HARDWARE) == 0 && cursor.hardwareOnly != 0) {
      cursor.packets++;
      cursor.bytes += <u64>wire;
      count(cursor, NO_TIME);
    } else {
      const row = batch.count;
      take(cursor, batch, link, frame, captured, wire, at, 0);
      markDirection(batch, row, load<u8>(pos, 58));
    }
    pos += load<u32>(pos);
    left--;
  }
  cursor.pos = <u32>pos;
  cursor.left = left;
  return outcome;
}
