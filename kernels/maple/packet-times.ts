// Reads times that capture switches write into packets (MAPLE, section 2.3: a timestamp carried in the packet) as the time at the sender, so that one capture
// at the receiver gives every packet's delay. All numbers are big-endian. The layouts:
//
//   Metamako, Arista 7130 (a trailer)         original FCS u32 | extensions | seconds u32 | nanoseconds u32 | flags u8 | device u16 | port u8 | [new FCS u32]
//   Exablaze, Cisco Nexus 3550 (a trailer)    original FCS u32 | device u8 | port u8 | seconds u32 | 2^-40 s u40 | reserved u8 | [new FCS u32]
//   Arista (a header, EtherType D28B)         D28B u16 | subtype 1 u16 | time scale u8 (0 TAI, 1 UTC) | format u4, hardware u4 | format 1: seconds u32, format 2: their
//                                             lower 16 bits u16 | nanoseconds u32 | the EtherType of what follows u16
//
// A trailer is at the end of the frame, whatever padding precedes it. Whether the new FCS was captured is decided by the position at which a time is found. A
// frame cut by the snap length has no trailer.

import { Batch } from "../decode/batch";

export const METAMAKO: u32 = 1;
export const EXABLAZE: u32 = 2;
export const ARISTA: u32 = 3;

const METAMAKO_BYTES: u32 = 12;
const EXABLAZE_BYTES: u32 = 16;
const FCS_BYTES: u32 = 4;
/** Maximum bytes of link header and tags in front of IP; if more is missing, the frame was cut. */
const MAX_LINK_BYTES: u32 = 64;
const SECOND: i64 = 1000000000;
/** s: TAI - UTC since 2017. */
const TAI_AHEAD: i64 = 37;
/** No time was found. */
const NONE: i64 = i64.MIN_VALUE;

// @ts-ignore: decorator
@inline
function be32(p: usize): i64 {
  return <i64>bswap<u32>(load<u32>(p));
}
// @ts-ignore: decorator
@inline
function be16(p: usize): u32 {
  return <u32>bswap<u16>(load<u16>(p));
}

function metamako(end: usize): i64 {
  const nanoseconds = be32(end - 8);
  return nanoseconds < SECOND ? be32(end - METAMAKO_BYTES) * SECOND + nanoseconds : NONE;
}

function exablaze(end: usize): i64 {
  const p = end - EXABLAZE_BYTES;
  const fraction = (<u64>be32(p + 10) << 8) | <u64>load<u8>(p, 14);
  // 40 bits times 10^9 fit 64 bits only without the lowest 6 bits; rounded to the nearest ns.
  return be32(p + 6) * SECOND + <i64>(((fraction >> 6) * <u64>SECOND + (<u64>1 << 33)) >> 34);
}

/** Reads the header in front of the EtherType at `type`, of a packet that arrived at `arrival`. */
function arista(type: usize, arrival: i64): i64 {
  for (let short: u32 = 0; short < 2; short++) {
    const p = type - (short != 0 ? 12 : 14);
    const format: u32 = load<u8>(p, 5) >> 4;
    if (be16(p) != 0xd28b || be16(p + 2) != 1 || format != short + 1) continue;
    const ahead: i64 = load<u8>(p, 4) == 0 ? TAI_AHEAD : 0;
    const nanoseconds = be32(type - 4);
    if (nanoseconds >= SECOND) return NONE;
    let seconds = be32(p + 6);
    if (short != 0) {
      // The second nearest to the arrival with these lower bits.
      const now = arrival / SECOND + ahead;
      seconds = now + <i64><i16>(<u16>(be16(p + 6) - <u32>now));
    }
    return (seconds - ahead) * SECOND + nanoseconds;
  }
  return NONE;
}

/** Returns the time in row i that is nearest to its arrival, among the positions this layout may use. */
function timeIn(batch: Batch, i: u32, layout: u32, arrival: i64): i64 {
  const header: usize = load<u32>(batch.header + (i << 2));
  if (header == 0) return NONE;
  if (layout == ARISTA) {
    // Tags may be between the header and the packet.
    for (let tags: u32 = 0; tags < 3; tags++) {
      const sent = arista(header - 2 - (tags << 2), arrival);
      if (sent != NONE) return sent;
    }
    return NONE;
  }
  const captured = load<u32>(batch.captured + (i << 2));
  const total: u32 = load<u8>(header) >> 4 == 6 ? 40 + be16(header + 4) : be16(header + 2);
  const bytes: u32 = layout == METAMAKO ? METAMAKO_BYTES + FCS_BYTES : EXABLAZE_BYTES;
  if (captured < total + bytes || load<u32>(batch.wireLength + (i << 2)) - captured > MAX_LINK_BYTES) return NONE;
  let best: i64 = NONE;
  let apart: i64 = i64.MAX_VALUE;
  for (let fcs: u32 = 0; fcs <= FCS_BYTES; fcs += FCS_BYTES) {
    if (captured < total + bytes + fcs) break;
    const end = header + captured - fcs;
    const sent = layout == METAMAKO ? metamako(end) : exablaze(end);
    if (sent == NONE) continue;
    const off = sent > arrival ? sent - arrival : arrival - sent;
    if (off < apart) {
      apart = off;
      best = sent;
    }
  }
  return best;
}

/**
 * Fills the delay column with arrival minus the time in the packet, or NaN if there is none or it is further than `window` from the arrival. `counts` (u32 x
 * 3): found, without, too far.
 */
export function packetTimesFill(b: usize, layout: u32, origin: i64, window: f64, counts: usize): void {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  for (let i: u32 = 0; i < n; i++) {
    const time = load<f64>(batch.time + (i << 3));
    const arrival = origin + <i64>time;
    const sent = timeIn(batch, i, layout, arrival);
    let delay: f64 = NaN;
    let what: u32 = 1;
    if (sent != NONE) {
      delay = <f64>(arrival - sent) + (time - floor<f64>(time));
      what = 0;
      if (!(abs<f64>(delay) <= window)) {
        delay = NaN;
        what = 2;
      }
    }
    store<f64>(batch.delay + (i << 3), delay);
    const count = counts + (what << 2);
    store<u32>(count, load<u32>(count) + 1);
  }
}

/** Returns the number of rows with a time of this layout within `window` of their arrival. */
export function packetTimesSeen(b: usize, layout: u32, origin: i64, window: f64): u32 {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  let seen: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const arrival = origin + <i64>load<f64>(batch.time + (i << 3));
    const sent = timeIn(batch, i, layout, arrival);
    if (sent != NONE && abs<f64>(<f64>(arrival - sent)) <= window) seen++;
  }
  return seen;
}
