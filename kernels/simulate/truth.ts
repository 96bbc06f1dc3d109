// The truth per flow: a table of entries in order of first appearance, and an open-addressed index by the flow hash that keyFlows computed. The whole key is
// compared: two flows are never merged because their hashes collide.

import { Batch, FLAG_PROBE, FLAG_REFERENCE, META_IPV6 } from "../decode/batch";
import { doubled } from "./rows";

@unmanaged
export class FlowTruth {
  hash: u64;
  meta: u64;
  addrA: u64;
  addrB: u64;
  addrC: u64;
  addrD: u64;
  sent: f64;
  lost: f64;
  sum: f64; //     of delays, ns: whole numbers, exact below 2^53
  squares: f64;
  minimum: f64;
  maximum: f64;
  bytes: f64; //   sent
  first: f64; //   time of sending of the first and the last packet
  last: f64;
}
const ENTRY_BYTES: u32 = 120;

@unmanaged
class Truth {
  entries: u32;
  room: u32;
  count: u32;
  index: u32;
  mask: u32;
}

export function simTruthNew(): usize {
  const p = heap.alloc(offsetof<Truth>());
  const t = changetype<Truth>(p);
  t.room = 4096;
  t.count = 0;
  t.entries = <u32>heap.alloc(t.room * ENTRY_BYTES);
  t.mask = 2 * t.room - 1;
  t.index = <u32>heap.alloc((t.mask + 1) * 4);
  memory.fill(t.index, 0, (t.mask + 1) * 4);
  return p;
}

export function simTruthFree(p: usize): void {
  const t = changetype<Truth>(p);
  heap.free(t.entries);
  heap.free(t.index);
  heap.free(p);
}

export function simTruthCount(p: usize): u32 {
  return changetype<Truth>(p).count;
}
export function simTruthEntries(p: usize): usize {
  return changetype<Truth>(p).entries;
}

function grow(t: Truth): void {
  t.entries = doubled(t.entries, t.room * ENTRY_BYTES);
  t.room *= 2;
  heap.free(t.index);
  t.index = 0;
  t.mask = 2 * t.room - 1;
  t.index = <u32>heap.alloc((t.mask + 1) * 4);
  memory.fill(t.index, 0, (t.mask + 1) * 4);
  for (let i: u32 = 0; i < t.count; i++) {
    let k = <u32>changetype<FlowTruth>(t.entries + i * ENTRY_BYTES).hash & t.mask;
    while (load<u32>(t.index + (k << 2)) != 0) k = (k + 1) & t.mask;
    store<u32>(t.index + (k << 2), i + 1);
  }
}

/** Adds the rows of a keyed batch: `delay` is the true delay, NaN for a lost packet. Probes and references of ours are left out. */
export function simTruthUpdate(p: usize, b: usize): void {
  const t = changetype<Truth>(p);
  const batch = changetype<Batch>(b);
  for (let i: u32 = 0; i < batch.count; i++) {
    if ((load<u32>(batch.flags + (i << 2)) & (FLAG_REFERENCE | FLAG_PROBE)) != 0) continue;
    const o = i << 3;
    const hash = load<u64>(batch.flowHash + o);
    const meta = load<u64>(batch.meta + o);
    const a = load<u64>(batch.addrA + o);
    const six = (meta & META_IPV6) != 0;
    const bb = six ? load<u64>(batch.addrB + o) : 0;
    const c = six ? load<u64>(batch.addrC + o) : 0;
    const d = six ? load<u64>(batch.addrD + o) : 0;
    let k = <u32>hash & t.mask;
    let e: FlowTruth;
    while (true) {
      const at = load<u32>(t.index + (k << 2));
      if (at == 0) {
        if (t.count == t.room) {
          grow(t);
          k = <u32>hash & t.mask;
          continue;
        }
        store<u32>(t.index + (k << 2), t.count + 1);
        e = changetype<FlowTruth>(t.entries + t.count++ * ENTRY_BYTES);
        e.hash = hash;
        e.meta = meta;
        e.addrA = a;
        e.addrB = bb;
        e.addrC = c;
        e.addrD = d;
        e.sent = 0;
        e.lost = 0;
        e.sum = 0;
        e.squares = 0;
        e.minimum = Infinity;
        e.maximum = -Infinity;
        e.bytes = 0;
        e.first = load<f64>(batch.time + o);
        break;
      }
      e = changetype<FlowTruth>(t.entries + (at - 1) * ENTRY_BYTES);
      if (e.hash == hash && e.meta == meta && e.addrA == a && e.addrB == bb && e.addrC == c && e.addrD == d) break;
      k = (k + 1) & t.mask;
    }
    e.sent += 1;
    e.bytes += <f64>load<u32>(batch.wireLength + (i << 2));
    e.last = load<f64>(batch.time + o);
    const delay = load<f64>(batch.delay + o);
    if (delay != delay) {
      e.lost += 1;
      continue;
    }
    e.sum += delay;
    e.squares += delay * delay;
    if (delay < e.minimum) e.minimum = delay;
    if (delay > e.maximum) e.maximum = delay;
  }
}
