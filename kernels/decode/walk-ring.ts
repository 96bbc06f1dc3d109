// Walks a block of a packet ring (Linux, TPACKET_V3) in memory, copied or mapped, and decodes its packets into a batch. The TypeScript side
// (src/capture/source/interface/) sets `pos` to the block's first packet and `left` to the number of packets. ring-packet.ts has the layout of a packet.

import { Batch } from "./batch";
import { BAD_LENGTH, BATCH_FULL, count, Cursor, NEED_DATA } from "./cursor";
import { decodeFrame } from "./decode";
import { finishDigests } from "./late-digest";
import { NO_TIME, OK } from "./link";
import {
  directionOf, HARDWARE, HEADER_BYTES, SEGMENTS, TAG_BYTES, TAG_TYPE_VALID, TAG_VALID, timeOf,
} from "./ring-packet";
import { isPlain, walkPlain } from "./walk-plain";

/** Link types in use: a frame with its Ethernet header, or a packet from its network header on. */
export const RING_ETHERNET: u32 = 1;
export const RING_NETWORK: u32 = 101;

/** A plain packet comes next. */
const PLAIN_AHEAD: i32 = -1;

/** Inserts a tag that the card removed in front of the EtherType, as it was on the wire. There is room before the frame. Returns its new start. */
function putTagBack(pos: usize, frame: usize, status: u32): usize {
  const to = frame - TAG_BYTES;
  memory.copy(to, frame, 12);
  const type: u16 = (status & TAG_TYPE_VALID) != 0 ? load<u16>(pos, 36) : 0x8100;
  store<u16>(to, bswap<u16>(type), 12);
  store<u16>(to, bswap<u16>(<u16>load<u32>(pos, 32)), 14);
  return to;
}

export function walkRing(c: usize, b: usize): i32 {
  const cursor = changetype<Cursor>(c);
  const batch = changetype<Batch>(b);
  if (cursor.started == 0 && cursor.left > 0 && cursor.pos + HEADER_BYTES <= cursor.limit) {
    cursor.started = 1;
    cursor.origin = timeOf(cursor.pos);
    cursor.maxTime = 0;
  }
  const plainLink = cursor.link == RING_ETHERNET && cursor.special == 0 && cursor.hardwareOnly == 0;
  let outcome = PLAIN_AHEAD;
  while (outcome == PLAIN_AHEAD) {
    if (plainLink) walkPlain(cursor, batch);
    outcome = walkOthers(cursor, batch, plainLink);
  }
  finishDigests(batch, cursor.seed);
  return outcome;
}

/** The cursor's counters are kept in locals: a loop that stores into memory would otherwise write and read them for each packet. */
function walkOthers(cursor: Cursor, batch: Batch, plainLink: bool): i32 {
  const limit: usize = cursor.limit;
  const link = cursor.link;
  const longest = cursor.longest;
  const cover = cursor.cover;
  const hardwareOnly = cursor.hardwareOnly != 0;
  const capacity = batch.capacity;
  const times: usize = batch.time;
  const lengths: usize = batch.wireLength;
  const flags: usize = batch.flags;
  const keepAll = batch.lean == 0;
  let pos: usize = cursor.pos;
  let left = cursor.left;
  let packets = cursor.packets;
  let bytes = cursor.bytes;
  let outcome = NEED_DATA;
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
      // These columns do not depend on the packet's bytes; the row counts only if those can be decoded.
      store<f64>(times + (<usize>row << 3), <f64>time);
      store<u32>(lengths + (<usize>row << 2), wire);
      if (keepAll) store<u32>(batch.iface + (row << 2), 0);
      if (batch.frame != 0) store<u32>(batch.frame + (row << 2), <u32>packets);
      const reason = decodeFrame(cursor, batch, link, frame, frame + captured, wire, false);
      if (reason != OK) count(cursor, reason);
      else {
        const at = flags + (<usize>row << 2);
        store<u32>(at, load<u32>(at) | (directionOf(pos)));
      }
    }
    pos += load<u32>(pos);
    left--;
    if (plainLink && left > 0 && isPlain(pos, limit, longest, cover)) {
      outcome = PLAIN_AHEAD;
      break;
    }
  }
  cursor.pos = <u32>pos;
  cursor.left = left;
  cursor.maxTime = <f64>latest;
  cursor.packets = packets;
  cursor.bytes = bytes;
  return outcome;
}
