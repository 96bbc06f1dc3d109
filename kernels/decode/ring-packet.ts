// A packet as Linux writes it into a packet ring (TPACKET_V3):
//
//   packet:  0 next u32   4 seconds u32   8 ns u32   12 captured u32   16 wire u32   20 status u32   24 frame u16   26 network u16
//           28 hash u32  32 tag u32      36 tag type u16                             48 address: 58 packet type u8
// Offsets of frame and network header count from the packet's own start. All numbers are in host order: little-endian, as in WebAssembly.

import { FLAG_INBOUND, FLAG_OUTBOUND } from "./batch";

export const TAG_VALID: u32 = 1 << 4;
export const TAG_TYPE_VALID: u32 = 1 << 6;
export const SEGMENTS: u32 = 1 << 8; // one of several TCP segments that were, or will be, merged
export const HARDWARE: u32 = 1 << 31;
const OUTGOING: u32 = 4;
export const HEADER_BYTES: u32 = 68;
/** Size of a VLAN tag, which is put back into the frame: there is room in front of it. */
export const TAG_BYTES: u32 = 4;

// @ts-ignore: decorator
@inline
export function timeOf(pos: usize): i64 {
  return <i64>load<u32>(pos, 4) * 1000000000 + <i64>load<u32>(pos, 8);
}

// @ts-ignore: decorator
@inline
export function directionOf(pos: usize): u32 {
  return load<u8>(pos, 58) == OUTGOING ? FLAG_OUTBOUND : FLAG_INBOUND;
}
