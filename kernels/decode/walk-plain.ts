// Decodes plain packets (row-plain.ts) of a ring, neither tagged nor merged, with software timestamps. Rows and digests equal those of decode.ts, which takes
// all other packets. The loop contains no calls, so that its values stay in registers. Most packets are longer than the default coverage of the digest: their
// digests are computed right away, those of others later.

import { Batch } from "./batch";
import { Cursor } from "./cursor";
import { avalanche, mixWord } from "./digest";
import { digestLater, digestList, mayWait } from "./late-digest";
import { be16 } from "./link";
import { directionOf, HARDWARE, HEADER_BYTES, SEGMENTS, TAG_BYTES, TAG_VALID, timeOf } from "./ring-packet";
import { coveredOf, isUdp, isWhole, keyTo, shortTo, TYPE_IPV4 } from "./row-plain";

/** Default coverage of digests of interfaces, from the IP header on (OBSERVE_COVER in src/observe/observe-captures.ts): most packets are at least as long. */
const USUAL_COVER: u32 = 64;
const ETHERNET: u32 = 14;
const IP_HEADER: u32 = 20;

/** Returns whether the packet at `pos`, with its IP header at `ip`, is plain. `limit`: end of the block; `longest`: longest wire length of a single packet. */
// @ts-ignore: decorator
@inline
function startsPlain(pos: usize, ip: usize, limit: usize, longest: u32): bool {
  if ((load<u32>(pos, 20) & (TAG_VALID | SEGMENTS | HARDWARE)) != 0) return false;
  const captured = load<u32>(pos, 12);
  const wire = load<u32>(pos, 16);
  if (captured < ETHERNET + IP_HEADER) return false;
  if (wire < captured) return false;
  if (wire > longest) return false;
  if (ip - ETHERNET + captured > limit) return false;
  if ((load<u32>(ip - 2) & 0xffffff) != TYPE_IPV4) return false;
  return isWhole(ip - ETHERNET);
}

/** The same for any packet; its digest must be short enough to wait. */
export function isPlain(pos: usize, limit: usize, longest: u32, cover: u32): bool {
  if (pos + HEADER_BYTES > limit) return false;
  const start: u32 = load<u16>(pos, 24);
  const ip = pos + start + ETHERNET;
  return (
    start >= HEADER_BYTES + TAG_BYTES && startsPlain(pos, ip, limit, longest) &&
    mayWait(coveredOf(ip, load<u32>(pos, 12) - ETHERNET, cover))
  );
}

/** Decodes plain packets until one is not plain, or the block or the batch ends. */
export function walkPlain(cursor: Cursor, batch: Batch): void {
  if (cursor.cover == USUAL_COVER) walkLong(cursor, batch);
  let full: u32;
  while ((full = walkAny(cursor, batch)) != 0) digestList(batch.digest, cursor.seed, full);
}

/** Decodes packets that are as long as the default coverage. */
function walkLong(cursor: Cursor, batch: Batch): void {
  walkWhile(cursor, batch, false);
}

/** Also stops when a list of digests is full, and returns that list. */
function walkAny(cursor: Cursor, batch: Batch): u32 {
  return walkWhile(cursor, batch, true);
}

// @ts-ignore: decorator
@inline
function walkWhile(cursor: Cursor, batch: Batch, any: bool): u32 {
  const limit: usize = cursor.limit;
  const longest = cursor.longest;
  const cover = any ? cursor.cover : USUAL_COVER;
  let pos: usize = cursor.pos;
  if (cursor.left == 0 || !isPlain(pos, limit, longest, cover)) return 0;
  // Offset of the frame, the same for all packets.
  const start: u32 = load<u16>(pos, 24);
  const usual: u32 = !any || cover == USUAL_COVER ? USUAL_COVER - IP_HEADER : u32.MAX_VALUE;
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
  let full: u32 = 0;
  while (row < end) {
    const ip: usize = pos + start + ETHERNET;
    if (<u32>load<u16>(pos, 24) != start) break;
    if (!startsPlain(pos, ip, limit, longest)) break;
    const visible = load<u32>(pos, 12) - ETHERNET;
    const covered = coveredOf(ip, visible, cover);
    if (any ? !mayWait(covered) : covered != usual) break;
    const wire = load<u32>(pos, 16);
    const o = row << 3;
    const q = row << 2;
    const time = timeOf(pos) - origin;
    latest = max<i64>(latest, time);
    bytes += <u64>wire;
    store<f64>(times + o, <f64>time);
    store<u32>(lengths + q, wire);
    let flag = keyTo(metas + o, addresses + o, ip) | directionOf(pos);
    if (any) flag |= shortTo(batch, row, ip, visible, wire - ETHERNET, cover);
    store<u32>(flags + q, flag);
    if (keepsMore) more(cursor, batch, row, pos, ip, row - first);
    pos += load<u32>(pos);
    if (!any || covered == usual) store<u64>(digests + o, usualDigest(seed, ip));
    else full = digestLater(row, ip, covered);
    row++;
    if (any && full != 0) break;
  }
  batch.count = row;
  cursor.pos = <u32>pos;
  cursor.left -= row - first;
  cursor.packets += <u64>(row - first);
  cursor.bytes += bytes;
  cursor.maxTime = <f64>latest;
  return full;
}

/** Computes the digest of a packet over exactly USUAL_COVER bytes. */
// @ts-ignore: decorator
@inline
function usualDigest(seed: u64, ip: usize): u64 {
  // The checksum: UDP's is in the first word, TCP's in the third.
  const udp = isUdp(ip);
  const word1 = load<u64>(ip, 20) & select<u64>(0x0000ffffffffffff, -1, udp);
  const word3 = load<u64>(ip, 36) & select<u64>(-1, 0xffffffffffff0000, udp);
  let h = mixWord(mixWord(seed, load<u64>(ip, 12)), load<u64>(ip, 2) & 0xff00ffffffffffff);
  h = mixWord(mixWord(mixWord(h, word1), load<u64>(ip, 28)), word3);
  h = mixWord(mixWord(mixWord(h, load<u64>(ip, 44)), load<u64>(ip, 52)), <u64>load<u32>(ip, 60));
  return avalanche(h);
}

/** Fills the columns that not every batch has; `before`: packets since the cursor was updated. */
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
