// Update loops of COLATE (src/estimators/colate/): counter vectors of {time sum, packet count, xor of digests}, shared by all flows. One multiplication of the
// digest selects which of its flow's m counters a packet goes to, and in which vector; one hash of the flow with that counter's seed gives its place. Both ends
// select the same counter, because only digest and flow are used.
//
//   cell (16 bytes): time sum i64, in units, modulo 2^64 | packets u32 | xor of the digests' lower halves u32
//   slot (16 bytes), vector-major, m per vector: seed u64 | first cell u32 | cells of the vector u32

import { Batch } from "../decode/batch";
import { rehash } from "../decode/digest";

/** Up to this many vectors are compared without branches; beyond it a loop finds the vector. */
const FAST_VECTORS: u32 = 4;

@unmanaged
class Colate {
  n: u32;
  m: u32;
  vectors: u32;
  maximum: u32; //       packets in the fullest cell
  cells: u32;
  slots: u32;
  edges: u32; //      u64 per vector: vector v takes remainders in [edges[v - 1], edges[v]) of 2^32
  literal: u32; //    1: the counter is drawn anew at each point (colate-literal)
  multiplier: u64; // of digests, odd
  perUnit: f64; //    1 / unit, a power of two
  total: u64; //      sum of all times (literal)
}

/** `literal`: counters are drawn by digest and the time at this point, so that the two ends differ. */
export function colateNew(n: u32, m: u32, vectors: u32, multiplier: u64, perUnit: f64, literal: bool): usize {
  const p = heap.alloc(offsetof<Colate>());
  const c = changetype<Colate>(p);
  c.n = n;
  c.m = m;
  c.vectors = vectors;
  c.multiplier = multiplier | 1;
  c.perUnit = perUnit;
  c.literal = literal ? 1 : 0;
  c.cells = <u32>heap.alloc(<usize>n << 4);
  c.slots = <u32>heap.alloc((vectors * m) << 4);
  const edges = max<u32>(vectors, FAST_VECTORS);
  c.edges = <u32>heap.alloc(edges << 3);
  for (let v: u32 = 0; v < edges; v++) store<u64>(c.edges + (v << 3), 0x100000000);
  colateClear(p);
  return p;
}

export function colateFree(p: usize): void {
  const c = changetype<Colate>(p);
  heap.free(c.cells);
  heap.free(c.slots);
  heap.free(c.edges);
  heap.free(p);
}

export function colateClear(p: usize): void {
  const c = changetype<Colate>(p);
  c.maximum = 0;
  c.total = 0;
  memory.fill(c.cells, 0, <usize>c.n << 4);
}

/** A vector's share of the packets ends at `edge`, out of 2^32. */
export function colateEdge(p: usize, vector: u32, edge: u64): void {
  store<u64>(changetype<Colate>(p).edges + (vector << 3), edge);
}

export function colateSlot(p: usize, slot: u32, seed: u64, first: u32, cells: u32): void {
  const at = changetype<Colate>(p).slots + (slot << 4);
  store<u64>(at, seed);
  store<u32>(at, first, 8);
  store<u32>(at, cells, 12);
}

export function colateCells(p: usize): usize {
  return changetype<Colate>(p).cells;
}
export function colateMax(p: usize): u32 {
  return changetype<Colate>(p).maximum;
}
export function colateTotal(p: usize): u64 {
  return changetype<Colate>(p).total;
}

// @ts-ignore: decorator
@inline
function placeOf(slot: usize, flow: u64): u32 {
  return load<u32>(slot, 8) + <u32>(((rehash(flow, load<u64>(slot)) >> 32) * <u64>load<u32>(slot, 12)) >> 32);
}

/** Adds rows [from, to); times count from `start`. */
export function colateUpdate(p: usize, b: usize, from: u32, to: u32, start: f64): void {
  const c = changetype<Colate>(p);
  const batch = changetype<Batch>(b);
  const time = batch.time;
  const digests = batch.digest;
  const flows = batch.flowHash;
  const cells = c.cells;
  const slots = c.slots;
  const multiplier = c.multiplier;
  const perUnit = c.perUnit;
  const m = <u64>c.m;
  let maximum = c.maximum;
  if (c.literal != 0 || c.vectors > FAST_VECTORS) {
    for (let i = from; i < to; i++) {
      const o = i << 3;
      const t = load<f64>(time + o) - start;
      const digest = load<u64>(digests + o);
      const drawn = c.literal != 0 ? rehash(digest ^ reinterpret<u64>(t), multiplier) : digest * multiplier;
      const x = (drawn >> 32) * m;
      let v: u64 = 0;
      while ((x & 0xffffffff) >= load<u64>(c.edges + (<u32>v << 3))) v++;
      const slot = slots + (<u32>(v * m + (x >> 32)) << 4);
      const units = <i64>floor<f64>(t * perUnit);
      c.total += <u64>units;
      maximum = max(maximum, add(cells + (placeOf(slot, load<u64>(flows + o)) << 4), digest, units));
    }
    c.maximum = maximum;
    return;
  }
  const e0 = load<u64>(c.edges);
  const e1 = load<u64>(c.edges, 8);
  const e2 = load<u64>(c.edges, 16);
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const digest = load<u64>(digests + o);
    // The upper half of the product times m: its integer part is the counter; its fraction is uniform again and selects the vector.
    const x = ((digest * multiplier) >> 32) * m;
    const r = x & 0xffffffff;
    const v = <u64>(r >= e0) + <u64>(r >= e1) + <u64>(r >= e2);
    const slot = slots + (<u32>(v * m + (x >> 32)) << 4);
    const t = <i64>floor<f64>((load<f64>(time + o) - start) * perUnit);
    maximum = max(maximum, add(cells + (placeOf(slot, load<u64>(flows + o)) << 4), digest, t));
  }
  c.maximum = maximum;
}

// @ts-ignore: decorator
@inline
function add(cell: usize, digest: u64, time: i64): u32 {
  store<i64>(cell, load<i64>(cell) + time);
  // Count and digest in one word: the count stays below 2^32, so the addition never carries into the digest.
  const word = (load<u64>(cell, 8) + 1) ^ (digest << 32);
  store<u64>(cell, word, 8);
  return <u32>word;
}

/** Writes the cells of flows: `out` receives vectors x m u32 per flow hash (u64 each at `hashes`). */
export function colatePlaces(p: usize, hashes: usize, count: u32, out: usize): void {
  const c = changetype<Colate>(p);
  const slots = c.vectors * c.m;
  for (let i: u32 = 0; i < count; i++) {
    const flow = load<u64>(hashes + (i << 3));
    for (let s: u32 = 0; s < slots; s++) {
      store<u32>(out, placeOf(c.slots + (s << 4), flow));
      out += 4;
    }
  }
}
