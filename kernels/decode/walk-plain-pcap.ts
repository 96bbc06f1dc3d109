// Decodes plain packets (row-plain.ts) in records of a classic pcap: Ethernet, this host's byte order, records of 16 bytes. Rows and digests equal those of
// decode.ts, which takes all other packets. The loop contains no calls, so that its values stay in registers.

import { Batch } from "./batch";
import { Cursor } from "./cursor";
import { digestLater, digestList, mayWait } from "./late-digest";
import { be16 } from "./link";
import { coveredOf, isWhole, keyTo, shortTo, TYPE_IPV4 } from "./row-plain";

/** Size of a record header. */
export const PLAIN_RECORD: u32 = 16;
const ETHERNET: u32 = 14;
const IP_HEADER: u32 = 20;

/**
 * `most`: longest captured length; `unit`: ns per unit of a timestamp's fraction. Leaves the cursor at the first packet that is not plain, or where the batch
 * or the chunk ends.
 */
export function walkPlainPcap(cursor: Cursor, batch: Batch, unit: i64, most: u32): void {
  let full: u32;
  while ((full = walkUntilFull(cursor, batch, unit, most)) != 0) digestList(batch.digest, cursor.seed, full);
}

/** Also stops when a list of digests is full, and returns that list. */
function walkUntilFull(cursor: Cursor, batch: Batch, unit: i64, most: u32): u32 {
  const limit: usize = cursor.limit;
  const cover = cursor.cover;
  const origin = cursor.origin;
  const times = batch.time;
  const metas = batch.meta;
  const addresses = batch.addrA;
  const lengths = batch.wireLength;
  const flags = batch.flags;
  const keepsAll = batch.lean == 0;
  const first = batch.count;
  const end = batch.capacity;
  let row = first;
  let pos: usize = cursor.pos;
  let bytes: u64 = 0;
  let latest = cursor.maxTime;
  let full: u32 = 0;
  while (row < end && full == 0) {
    const ip: usize = pos + (PLAIN_RECORD + ETHERNET);
    if (ip + IP_HEADER > limit) break;
    const captured = load<u32>(pos, 8);
    if (captured < ETHERNET + IP_HEADER || captured > most || ip - ETHERNET + captured > limit) break;
    if ((load<u32>(ip - 2) & 0xffffff) != TYPE_IPV4 || !isWhole(ip - ETHERNET)) break;
    const visible = captured - ETHERNET;
    const covered = coveredOf(ip, visible, cover);
    if (!mayWait(covered)) break;
    const wire = load<u32>(pos, 12);
    const o = row << 3;
    const q = row << 2;
    const time = <f64>(<i64>load<u32>(pos) * 1000000000 + <i64>load<u32>(pos, 4) * unit - origin);
    latest = max<f64>(latest, time);
    bytes += <u64>wire;
    store<f64>(times + o, time);
    store<u32>(lengths + q, wire);
    const key = keyTo(metas + o, addresses + o, ip);
    store<u32>(flags + q, key | shortTo(batch, row, ip, visible, max<u32>(wire, captured) - ETHERNET, cover));
    if (keepsAll) {
      store<u32>(batch.ipid + q, be16(ip + 4));
      store<u32>(batch.header + q, <u32>ip);
      store<u32>(batch.captured + q, visible);
      store<u32>(batch.iface + q, 0);
    }
    full = digestLater(row, ip, covered);
    pos = ip - ETHERNET + captured;
    row++;
  }
  batch.count = row;
  cursor.pos = <u32>pos;
  cursor.packets += <u64>(row - first);
  cursor.bytes += bytes;
  cursor.maxTime = latest;
  return full;
}
