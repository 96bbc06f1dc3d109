// Packets of a ring that are plain (row-plain.ts), at least PLAIN_COVER bytes long and captured that far, neither tagged nor merged, and timestamped by the system, become rows.
// Row and digest are those of decode.ts; what is not plain is left to it. A loop of their own: among all the others its values would not stay in registers.

import { Batch } from "./batch";
import { Cursor } from "./cursor";
import { avalanche, mixWord } from "./digest";
import { be16 } from "./link";
import { directionOf, HARDWARE, HEADER_BYTES, SEGMENTS, TAG_BYTES, TAG_VALID, timeOf } from "./ring-packet";
import { isUdp, isWhole, keyTo } from "./row-plain";

/** What the digest covers here, from the IP header on. */
export const PLAIN_COVER: u32 = 64;
const ETHERNET: u32 = 14;
/** Little-endian: type and first byte of IPv4. */
const TYPE_IPV4: u32 = 0x450008;
/** Bits of the total length, as it lies in the packet, of which one is set from PLAIN_COVER on. */
const LONG_ENOUGH: u32 = 0xc0ff;

/** The packet at `pos` is plain; `limit`: the end of the block, `longest`: on the wire. `ip`: its IP header. */
// @ts-ignore: decorator
@inline
function startsPlain(pos: usize, ip: usize, limit: usize, longest: u32): bool {
  if ((load<u32>(pos, 20) & (TAG_VALID | SEGMENTS | HARDWARE)) != 0) return false;
  const captured = load<u32>(pos, 12);
  const wire = load<u32>(pos, 16);
  if (captured < ETHERNET + PLAIN_COVER) return false;
  if (wire < captured) return false;
  if (wire > longest) return false;
  if (ip - ETHERNET + captured > limit) return false;
  if ((load<u32>(ip - 2) & 0xffffff) != TYPE_IPV4) return false;
  if (!isWhole(ip - ETHERNET)) return false;
  return (<u32>load<u16>(ip, 2) & LONG_ENOUGH) != 0;
}

/** The same of any packet. */
export function isPlain(pos: usize, limit: usize, longest: u32): bool {
  if (pos + HEADER_BYTES > limit) return false;
  const start: u32 = load<u16>(pos, 24);
  return start >= HEADER_BYTES + TAG_BYTES && startsPlain(pos, pos + start + ETHERNET, limit, longest);
}

/** Plain packets become rows, until one comes that is not, or the block or the batch ends. */
export function walkPlain(cursor: Cursor, batch: Batch): void {
  const limit: usize = cursor.limit;
  const longest = cursor.longest;
  let pos: usize = cursor.pos;
  if (cursor.left == 0 || !isPlain(pos, limit, longest)) return;
  // Where frames begin: as far from the start of each packet.
  const start: u32 = load<u16>(pos, 24);
  const seed = cursor.seed;
  const origin = cursor.origin;
  const times = batch.time;
  const digests = batch.digest;
  const metas = batch.meta;
  const addresses = batch.addrA;
  const lengths = batch.wireLength;
  const flags = batch.flags;
  const keepsMore = batch.lean == 0 || batch.frame != 0;
  const first = batch.count;
  const end = first + min<u32>(cursor.left, batch.capacity - first);
  let row = first;
  let bytes: u64 = 0;
  let latest = <i64>cursor.maxTime;
  while (row < end) {
    const ip: usize = pos + start + ETHERNET;
    if (<u32>load<u16>(pos, 24) != start) break;
    if (!startsPlain(pos, ip, limit, longest)) break;
    const wire = load<u32>(pos, 16);
    const o = row << 3;
    const q = row << 2;
    const time = timeOf(pos) - origin;
    latest = max<i64>(latest, time);
    bytes += <u64>wire;
    store<f64>(times + o, <f64>time);
    store<u32>(lengths + q, wire);
    // The checksum: of UDP in the first word, of TCP in the third.
    const udp = isUdp(ip);
    const word1 = load<u64>(ip, 20) & select<u64>(0x0000ffffffffffff, -1, udp);
    const word3 = load<u64>(ip, 36) & select<u64>(-1, 0xffffffffffff0000, udp);
    let h = mixWord(mixWord(seed, load<u64>(ip, 12)), load<u64>(ip, 2) & 0xff00ffffffffffff);
    h = mixWord(mixWord(mixWord(h, word1), load<u64>(ip, 28)), word3);
    h = mixWord(mixWord(mixWord(h, load<u64>(ip, 44)), load<u64>(ip, 52)), <u64>load<u32>(ip, 60));
    store<u64>(digests + o, avalanche(h));
    store<u32>(flags + q, keyTo(metas + o, addresses + o, ip) | directionOf(pos));
    if (keepsMore) more(cursor, batch, row, pos, ip, row - first);
    pos += load<u32>(pos);
    row++;
  }
  batch.count = row;
  cursor.pos = <u32>pos;
  cursor.left -= row - first;
  cursor.packets += <u64>(row - first);
  cursor.bytes += bytes;
  cursor.maxTime = <f64>latest;
}

/** Columns that not every batch has; `before`: packets since the cursor was looked at. */
function more(cursor: Cursor, batch: Batch, row: u32, pos: usize, ip: usize, before: u32): void {
  const q = row << 2;
  if (batch.lean == 0) {
    store<u32>(batch.ipid + q, be16(ip + 4));
    store<u32>(batch.header + q, <u32>ip);
    store<u32>(batch.captured + q, load<u32>(pos, 12) - ETHERNET);
    store<u32>(batch.iface + q, 0);
  }
  if (batch.frame != 0) store<u32>(batch.frame + q, <u32>cursor.packets + before + 1);
}
