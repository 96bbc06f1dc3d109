// Walks a block of a packet ring (Linux, TPACKET_V3) that was copied into memory, and decodes its packets into a batch. The TypeScript side
// (src/capture/source/interface/) copies blocks and sets `pos` to the block's first packet and `left` to their number.
//
//   packet:  0 next u32   4 seconds u32   8 ns u32   12 captured u32   16 wire u32   20 status u32   24 frame u16   26 network u16
//           28 hash u32  32 tag u32      36 tag type u16                             48 address: 58 packet type u8
// Offsets of frame and network header count from the packet's own start. All numbers are the host's: little-endian, as WebAssembly is.

import { Batch, FLAG_INBOUND, FLAG_OUTBOUND } from "./batch";
import { BAD_LENGTH, BATCH_FULL, count, Cursor, NEED_DATA } from "./cursor";
import { decodeFrame } from "./decode";
import { NO_TIME, OK } from "./link";
import { isPlain, PLAIN_COVER, rowPlain } from "./row-plain";

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

// @ts-ignore: decorator
@inline
function timeOf(pos: usize): i64 {
  return <i64>load<u32>(pos, 4) * 1000000000 + <i64>load<u32>(pos, 8);
}

/** Counters of the cursor are kept in locals, which a loop that stores into memory would otherwise write and read for each packet. */
export function walkRing(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  const limit: usize = cursor.limit;
  const link = cursor.link;
  const longest = cursor.longest;
  const hardwareOnly = cursor.hardwareOnly != 0;
  const capacity = batch.capacity;
  const times: usize = batch.time;
  const lengths: usize = batch.wireLength;
  const flags: usize = batch.flags;
  const keepAll = batch.lean == 0;
  const plainLink = link == RING_ETHERNET && cursor.special == 0 && cursor.cover == PLAIN_COVER && !hardwareOnly;
  const seed = cursor.seed;
  let pos: usize = cursor.pos;
  let left = cursor.left;
  let packets = cursor.packets;
  let bytes = cursor.bytes;
  let outcome = NEED_DATA;
  if (cursor.started == 0 && left > 0 && pos + HEADER_BYTES <= limit) {
    cursor.started = 1;
    cursor.origin = timeOf(pos);
    cursor.maxTime = 0;
  }
  let latest = <i64>cursor.maxTime;
  const origin = cursor.origin;
  while (left > 0) {
    const row = batch.count;
    if (row == capacity) {
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
    if (plainLink && (status & (TAG_VALID | SEGMENTS | HARDWARE)) == 0 && wire <= longest && isPlain(frame, captured, wire)) {
      packets++;
      bytes += <u64>wire;
      const time = timeOf(pos) - origin;
      latest = max<i64>(latest, time);
      store<f64>(times + (<usize>row << 3), <f64>time);
      store<u32>(lengths + (<usize>row << 2), wire);
      if (batch.frame != 0) store<u32>(batch.frame + (row << 2), <u32>packets);
      rowPlain(batch, seed, frame + 14, captured - 14, load<u8>(pos, 58) == OUTGOING ? FLAG_OUTBOUND : FLAG_INBOUND);
      pos += load<u32>(pos);
      left--;
      continue;
    }
    if ((status & SEGMENTS) != 0 || wire > longest) cursor.merged++;
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
    const hardware = (status & HARDWARE) != 0;
    if (hardware) cursor.hardware++;
    packets++;
    bytes += <u64>wire;
    if (!hardware && hardwareOnly) count(cursor, NO_TIME);
    else {
      const time = timeOf(pos) - origin;
      latest = max<i64>(latest, time);
      // What does not depend on the packet's bytes: it is a row only where these can be decoded.
      store<f64>(times + (<usize>row << 3), <f64>time);
      store<u32>(lengths + (<usize>row << 2), wire);
      if (keepAll) store<u32>(batch.iface + (row << 2), 0);
      if (batch.frame != 0) store<u32>(batch.frame + (row << 2), <u32>packets);
      const reason = decodeFrame(cursor, batch, link, frame, frame + captured, wire, false);
      if (reason != OK) count(cursor, reason);
      else {
        const at = flags + (<usize>row << 2);
        store<u32>(at, load<u32>(at) | (load<u8>(pos, 58) == OUTGOING ? FLAG_OUTBOUND : FLAG_INBOUND));
      }
    }
    pos += load<u32>(pos);
    left--;
  }
  cursor.pos = <u32>pos;
  cursor.left = left;
  cursor.maxTime = <f64>latest;
  cursor.packets = packets;
  cursor.bytes = bytes;
  return outcome;
}
