// State of a walk over the records of a capture (walk.ts, walk-erf.ts), and the processing of each packet. The TypeScript side (src/capture/source/chunk.ts)
// reads and sets its fields.

import { Batch } from "./batch";
import { decodeFrame } from "./decode";
import { finishDigests } from "./late-digest";
import { OK } from "./link";
import { originOf } from "./origin";

// Results of a walk.
export const NEED_DATA: i32 = 0; // the rest of the chunk is not a whole record: `wanted` bytes from `pos` on
export const BATCH_FULL: i32 = 1;
export const SPECIAL: i32 = 2; //    pcapng: a block for the TypeScript side at `pos`
export const BAD_LENGTH: i32 = 3; // a length that cannot be: the stream is lost from `pos` on
export const BAD_TRAILER: i32 = 4; // pcapng: the block's second length differs from the first

/** Look inside tunnels. */
export const SPECIAL_INNER: u32 = 1;
/** Leave addresses and ports out of digests, because NAT changes them on the way. */
export const SPECIAL_NAT: u32 = 2;

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
  special: u32; //   SPECIAL_* bits: 0 in the fast lane
  interfaces: u32; // pcapng: address of the interface table
  interfaceCount: u32;
  interfaceBase: u32; // pcapng: number of the section's first interface in the whole file
  started: u32; //   origin is set
  origin: i64; //    ns since 1970 of the first packet, or of the first whose timestamp agrees with those after it (kernels/decode/origin.ts)
  seed: u64;
  packets: u64;
  bytes: u64; //     on the wire
  drops: u64; //     reported in packet records (epb_dropcount, old packet block, ERF loss counter)
  dropsKnown: u32;
  left: u32; //      ring: packets left in the block
  maxTime: f64; //   the latest timestamp so far
  merged: u64; //    ring: packets that are several on the wire (GRO, TSO)
  hardware: u64; //  ring: packets with a timestamp of the card's
  longest: u32; //   ring: longest frame that the interface sends or receives as one
  hardwareOnly: u32; // ring: packets without a timestamp of the card's have none
}

/** Ends a walk at `pos`, with all rows complete. */
// @ts-ignore: decorator
@inline
export function endAt(cursor: Cursor, batch: Batch, pos: u32, outcome: i32): i32 {
  finishDigests(batch, cursor.seed);
  cursor.pos = pos;
  return outcome;
}

/** Ends a walk because a record continues beyond the chunk. */
// @ts-ignore: decorator
@inline
export function needData(cursor: Cursor, batch: Batch, pos: u32, wanted: u32): i32 {
  cursor.wanted = wanted;
  return endAt(cursor, batch, pos, NEED_DATA);
}

/** u64 counters by reason follow the fixed part of the cursor. */
const COUNTERS: u32 = 16;

export function cursorNew(): usize {
  const bytes = offsetof<Cursor>() + COUNTERS * 8;
  const p = heap.alloc(bytes);
  memory.fill(p, 0, bytes);
  return p;
}

// @ts-ignore: decorator
@inline
export function count(cursor: Cursor, reason: i32): void {
  const p = changetype<usize>(cursor) + offsetof<Cursor>() + (<usize>reason << 3);
  store<u64>(p, load<u64>(p) + 1);
}

/**
 * Makes a packet a row of the batch, or counts it by reason. `captured` bytes at `p` must stay there until the walk ends; `wire`: length on the wire; `at`:
 * timestamp (ns since 1970).
 */
// @ts-ignore: decorator
@inline
export function take(cursor: Cursor, batch: Batch, link: u32, p: usize, captured: u32, wire: u32, at: i64, iface: u32): void {
  const time = <f64>(at - cursor.origin);
  if (time > cursor.maxTime) cursor.maxTime = time;
  cursor.packets++;
  cursor.bytes += <u64>wire;
  // These columns do not depend on the packet's bytes; the row counts only if those can be decoded.
  const row = batch.count;
  store<f64>(batch.time + (row << 3), time);
  store<u32>(batch.wireLength + (row << 2), wire);
  if (batch.lean == 0) store<u32>(batch.iface + (row << 2), iface);
  if (batch.frame != 0) store<u32>(batch.frame + (row << 2), <u32>cursor.packets);
  const reason = decodeFrame(cursor, batch, link, p, p + captured, wire, true);
  if (reason != OK) count(cursor, reason);
}

/** Sets the origin before the first packet, from the next `n` timestamps; frees their memory. */
export function begin(cursor: Cursor, timestamps: usize, n: u32): void {
  if (n > 0) {
    cursor.started = 1;
    cursor.origin = originOf(timestamps, n);
    cursor.maxTime = 0;
  }
  heap.free(timestamps);
}
