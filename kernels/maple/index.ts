// The flow index of an epoch: per flow its key, packet count and IPID ranges, so that a query about a flow needs no capture. Entries lie in buckets by flow
// hash; docs/formats/maple-payload.md draws them.

import { META_IPV6, META_PORTS } from "../decode/batch";
import { Flows, flowRecord } from "../flows/flows";
import { varint } from "../flows/varint";
import { Buffer, NO_FLOW } from "./buffer";

const FLAG_V6: u8 = 1;
const FLAG_EXTENDED: u8 = 2;
const FLAG_HAS_PORTS: u8 = 4;
const ENTRY_BYTES: u32 = 64; // a key and two counts, at most
const RANGE_BYTES: u32 = 6; //  a range, at most
const FEW: u32 = 48;

/** Sorts IPIDs and removes duplicates; returns how many are left. Few are sorted by insertion, many by marking them in 65,536 bits. */
function sortIpids(at: usize, n: u32, marks: usize): u32 {
  let kept: u32 = 0;
  if (n <= FEW) {
    for (let i: u32 = 0; i < n; i++) {
      const x = load<u16>(at + (i << 1));
      let j = kept;
      while (j > 0 && load<u16>(at + ((j - 1) << 1)) > x) j--;
      if (j > 0 && load<u16>(at + ((j - 1) << 1)) == x) continue;
      memory.copy(at + ((j + 1) << 1), at + (j << 1), (kept - j) << 1);
      store<u16>(at + (j << 1), x);
      kept++;
    }
    return kept;
  }
  memory.fill(marks, 0, 8192);
  for (let i: u32 = 0; i < n; i++) {
    const x: u32 = load<u16>(at + (i << 1));
    const word = marks + ((x >> 6) << 3);
    store<u64>(word, load<u64>(word) | (<u64>1 << <u64>(x & 63)));
  }
  for (let w: u32 = 0; w < 1024; w++) {
    let bits = load<u64>(marks + (w << 3));
    while (bits != 0) {
      store<u16>(at + (kept << 1), <u16>((w << 6) | <u32>ctz<u64>(bits)));
      kept++;
      bits &= bits - 1;
    }
  }
  return kept;
}

// @ts-ignore: decorator
@inline
function writeKey(q: usize, record: usize): usize {
  const meta = load<u64>(record, 8);
  const extended = (meta & ~(META_IPV6 | META_PORTS)) >> 40;
  const v6 = (meta & META_IPV6) != 0;
  store<u8>(q, (v6 ? FLAG_V6 : 0) | (extended != 0 ? FLAG_EXTENDED : 0) | ((meta & META_PORTS) != 0 ? FLAG_HAS_PORTS : 0));
  store<u32>(q, <u32>meta, 1);
  store<u8>(q, <u8>(meta >> 32), 5);
  q += 6;
  if (extended != 0) {
    store<u32>(q, <u32>extended);
    q += 4;
  }
  store<u64>(q, load<u64>(record, 16));
  if (!v6) return q + 8;
  store<u64>(q, load<u64>(record, 24), 8);
  store<u64>(q, load<u64>(record, 32), 16);
  store<u64>(q, load<u64>(record, 40), 24);
  return q + 32;
}

/** Returns the bucket of a flow, from the upper half of its hash. */
// @ts-ignore: decorator
@inline
export function bucketOfFlow(hash: u64, buckets: u32): u32 {
  return <u32>(((hash >> 32) * <u64>buckets) >> 32);
}

/** Writes flow numbers sorted by bucket to `order`; `ends` (buckets + 1) receives the end of each bucket in it. */
export function bucketFlows(flows: Flows, buckets: u32, ends: usize, order: usize): void {
  const count = flows.count;
  memory.fill(ends, 0, (buckets + 1) << 2);
  for (let f: u32 = 0; f < count; f++) {
    const at = ends + ((bucketOfFlow(load<u64>(flowRecord(flows, f)), buckets) + 1) << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  for (let b: u32 = 0; b < buckets; b++) {
    const at = ends + ((b + 1) << 2);
    store<u32>(at, load<u32>(at) + load<u32>(ends + (b << 2)));
  }
  for (let f: u32 = 0; f < count; f++) {
    const at = ends + (bucketOfFlow(load<u64>(flowRecord(flows, f)), buckets) << 2);
    const to = load<u32>(at);
    store<u32>(at, to + 1);
    store<u32>(order + (to << 2), f);
  }
}

/**
 * Writes the section: {flows u32, buckets u32, unlisted packets u32, 0 u32}, the buckets' ends relative to the first entry as (buckets + 1) u32, entries. `out`
 * receives {address, bytes}; the caller frees the address.
 */
export function mapleIndexBuild(p: usize, perBucket: u32, out: usize): void {
  const buffer = changetype<Buffer>(p);
  const flows = changetype<Flows>(buffer.flows);
  const count = flows.count;
  const n = buffer.count;
  const buckets = max<u32>(1, count / perBucket);

  // Sort IPIDs by flow.
  const starts = heap.alloc((count + 2) << 2);
  memory.fill(starts, 0, (count + 2) << 2);
  const without = heap.alloc((count + 1) << 2);
  memory.fill(without, 0, (count + 1) << 2);
  for (let i: u32 = 0; i < n; i++) {
    const id = load<u32>(buffer.flowId + (i << 2));
    if (id == NO_FLOW) continue;
    const at = load<u32>(buffer.ipid + (i << 2)) >> 16 != 0 ? starts + ((id + 2) << 2) : without + (id << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  for (let f: u32 = 1; f <= count; f++) {
    const at = starts + ((f + 1) << 2);
    store<u32>(at, load<u32>(at) + load<u32>(starts + (f << 2)));
  }
  const ipids = heap.alloc((n + 1) << 1);
  for (let i: u32 = 0; i < n; i++) {
    const id = load<u32>(buffer.flowId + (i << 2));
    const ipid = load<u32>(buffer.ipid + (i << 2));
    if (id == NO_FLOW || ipid >> 16 == 0) continue;
    const at = starts + ((id + 1) << 2);
    const to = load<u32>(at);
    store<u32>(at, to + 1);
    store<u16>(ipids + (to << 1), <u16>ipid);
  }
  // Now starts[f] .. starts[f + 1] are the IPIDs of flow f.

  const ends = heap.alloc((buckets + 1) << 2);
  const order = heap.alloc((count + 1) << 2);
  bucketFlows(flows, buckets, ends, order);

  const head = 16 + ((buckets + 1) << 2);
  const room = head + count * ENTRY_BYTES + n * RANGE_BYTES;
  const bytes = heap.alloc(room);
  store<u32>(bytes, count);
  store<u32>(bytes, buckets, 4);
  store<u32>(bytes, buffer.unlisted, 8);
  store<u32>(bytes, 0, 12);
  store<u32>(bytes, 0, 16);
  const marks = heap.alloc(8192);
  let q = bytes + head;
  let k: u32 = 0;
  for (let b: u32 = 0; b < buckets; b++) {
    const end = load<u32>(ends + (b << 2));
    for (; k < end; k++) {
      const f = load<u32>(order + (k << 2));
      q = writeKey(q, flowRecord(flows, f));
      const first = load<u32>(starts + (f << 2));
      const all = load<u32>(starts + ((f + 1) << 2)) - first;
      q = varint(q, all + load<u32>(without + (f << 2)));
      const list = ipids + (first << 1);
      const kept = sortIpids(list, all, marks);
      let ranges: u32 = 0;
      for (let i: u32 = 0; i < kept; i++) {
        if (i == 0 || load<u16>(list + (i << 1)) != load<u16>(list + ((i - 1) << 1)) + 1) ranges++;
      }
      q = varint(q, ranges);
      let previous: u32 = 0;
      for (let i: u32 = 0; i < kept; ) {
        const from: u32 = load<u16>(list + (i << 1));
        let length: u32 = 1;
        while (i + length < kept && <u32>load<u16>(list + ((i + length) << 1)) == from + length) length++;
        q = varint(q, from - previous);
        q = varint(q, length - 1);
        previous = from + length;
        i += length;
      }
    }
    store<u32>(bytes + 16 + ((b + 1) << 2), <u32>(q - bytes) - head);
  }
  heap.free(starts);
  heap.free(without);
  heap.free(ipids);
  heap.free(ends);
  heap.free(order);
  heap.free(marks);
  store<u32>(out, <u32>bytes);
  store<u32>(out, <u32>(q - bytes), 4);
}
