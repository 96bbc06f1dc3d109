// The delays of each flow of an epoch without the flow's key (docs/formats/maple-payload.md). A query about a flow knows the key, so 13 bits of its hash are
// enough to find it again. Queries do not need the order of packets, so group numbers are sorted and stored as differences. The cost is about 11 bits a flow
// and 1 to 6 a packet, against 110 bits and more for keys and IPIDs.

import { Flows, flowRecord } from "../flows/flows";
import { Buffer, NO_FLOW } from "./buffer";
import { bucketFlows } from "./index";

export const PRINT_BITS: u32 = 13;
const PRINT_SHIFT: u32 = 8; // of Rice codes of the differences of prints: about 32 flows share a bucket
const HEAD_BYTES: u32 = 16;
const FEW: u32 = 48;

let base: usize = 0;
let at: u32 = 0; // bits written

// @ts-ignore: decorator
@inline
function put(value: u64, bits: u32): void {
  const byte = base + (at >> 3);
  store<u64>(byte, load<u64>(byte) | (value << <u64>(at & 7)));
  at += bits;
}

/** Writes `quotient` ones, a zero, then the low bits. */
function rice(value: u32, shift: u32): void {
  let quotient = value >> shift;
  while (quotient >= 32) {
    put(0xffffffff, 32);
    quotient -= 32;
  }
  put((<u64>1 << <u64>quotient) - 1, quotient + 1);
  if (shift > 0) put(<u64>(value & ((1 << shift) - 1)), shift);
}

/** Elias gamma code: as many zeros as there are bits below the leading one, then all bits, leading one first. */
function gamma(value: u32): void {
  const low = 31 - clz<u32>(value);
  put(0, low);
  put(1, 1);
  if (low > 0) put(<u64>(value & ((1 << low) - 1)), low);
}

/** Returns the width of the low bits for the differences of m sorted numbers below `groups`. */
// @ts-ignore: decorator
@inline
function shiftFor(groups: u32, m: u32): u32 {
  const mean = groups / m;
  return mean <= 1 ? 0 : 31 - clz<u32>(mean);
}

/** Writes m group numbers (u16) as differences, after sorting them in place or by counting. */
function putCodes(list: usize, m: u32, groups: u32, counts: usize): void {
  const shift = shiftFor(groups, m);
  let before: u32 = 0;
  if (m <= FEW) {
    for (let i: u32 = 1; i < m; i++) {
      const x = load<u16>(list + (i << 1));
      let j = i;
      for (; j > 0 && load<u16>(list + ((j - 1) << 1)) > x; j--) store<u16>(list + (j << 1), load<u16>(list + ((j - 1) << 1)));
      store<u16>(list + (j << 1), x);
    }
    for (let i: u32 = 0; i < m; i++) {
      const code: u32 = load<u16>(list + (i << 1));
      rice(code - before, shift);
      before = code;
    }
    return;
  }
  memory.fill(counts, 0, groups << 2);
  for (let i: u32 = 0; i < m; i++) {
    const count = counts + (<u32>load<u16>(list + (i << 1)) << 2);
    store<u32>(count, load<u32>(count) + 1);
  }
  for (let code: u32 = 0; code < groups; code++) {
    for (let n = load<u32>(counts + (code << 2)); n > 0; n--) {
      rice(code - before, shift);
      before = code;
    }
  }
}

// @ts-ignore: decorator
@inline
function printOf(flows: Flows, flow: u32): u32 {
  return <u32>load<u64>(flowRecord(flows, flow)) & ((1 << PRINT_BITS) - 1);
}

/**
 * Writes the section from the rows of a buffer and their group numbers: {flows, buckets, unlisted packets, 1} u32, the first bit of each bucket as (buckets +
 * 1) u32, bits. `out` receives {address, bytes}; the caller frees the address.
 */
export function mapleFlowDelays(p: usize, codes: usize, groups: u32, perBucket: u32, out: usize): void {
  const buffer = changetype<Buffer>(p);
  const flows = changetype<Flows>(buffer.flows);
  const count = flows.count;
  const n = buffer.count;
  const buckets = max<u32>(1, count / perBucket);

  // Sort group numbers by flow.
  const starts = heap.alloc((count + 2) << 2);
  memory.fill(starts, 0, (count + 2) << 2);
  for (let i: u32 = 0; i < n; i++) {
    const id = load<u32>(buffer.flowId + (i << 2));
    if (id == NO_FLOW) continue;
    const to = starts + ((id + 2) << 2);
    store<u32>(to, load<u32>(to) + 1);
  }
  for (let f: u32 = 0; f < count; f++) {
    const to = starts + ((f + 2) << 2);
    store<u32>(to, load<u32>(to) + load<u32>(to - 4));
  }
  const grouped = heap.alloc((n + 1) << 1);
  for (let i: u32 = 0; i < n; i++) {
    const id = load<u32>(buffer.flowId + (i << 2));
    if (id == NO_FLOW) continue;
    const to = starts + ((id + 1) << 2);
    const k = load<u32>(to);
    store<u32>(to, k + 1);
    store<u16>(grouped + (k << 1), load<u16>(codes + (i << 1)));
  }

  // Sort flows by bucket, then by print.
  const ends = heap.alloc((buckets + 1) << 2);
  const order = heap.alloc((count + 1) << 2);
  bucketFlows(flows, buckets, ends, order);

  const head = HEAD_BYTES + ((buckets + 1) << 2);
  // A flow needs at most 41 bits of print and 41 of length; a packet at most 16 bits and its share of the quotients.
  const room = head + count * 16 + n * 4 + 64;
  const bytes = heap.alloc(room);
  memory.fill(bytes, 0, room);
  store<u32>(bytes, count);
  store<u32>(bytes, buckets, 4);
  store<u32>(bytes, buffer.unlisted, 8);
  store<u32>(bytes, 1, 12);
  base = bytes + head;
  at = 0;
  const counts = heap.alloc(groups << 2);
  let from: u32 = 0;
  for (let b: u32 = 0; b < buckets; b++) {
    store<u32>(bytes + HEAD_BYTES + (b << 2), at);
    const end = load<u32>(ends + (b << 2));
    for (let i = from + 1; i < end; i++) {
      const f = load<u32>(order + (i << 2));
      const print = printOf(flows, f);
      let j = i;
      for (; j > from && printOf(flows, load<u32>(order + ((j - 1) << 2))) > print; j--)
        store<u32>(order + (j << 2), load<u32>(order + ((j - 1) << 2)));
      store<u32>(order + (j << 2), f);
    }
    let print: u32 = 0;
    for (let i = from; i < end; i++) {
      const f = load<u32>(order + (i << 2));
      const mine = printOf(flows, f);
      rice(mine - print, PRINT_SHIFT);
      print = mine;
      const first = load<u32>(starts + (f << 2));
      const m = load<u32>(starts + ((f + 1) << 2)) - first;
      gamma(m);
      putCodes(grouped + (first << 1), m, groups, counts);
    }
    from = end;
  }
  store<u32>(bytes + HEAD_BYTES + (buckets << 2), at);
  heap.free(starts);
  heap.free(grouped);
  heap.free(ends);
  heap.free(order);
  heap.free(counts);
  store<u32>(out, <u32>bytes);
  store<u32>(out, head + ((at + 7) >> 3), 4);
}
