// Traffic of a fixed population of flows: every packet belongs to one of them, drawn by the flow's weight (alias method). Packets arrive as a Poisson process
// or evenly spaced. There are no bursts: for delay models that do not come from a queue.

import { Batch } from "../decode/batch";
import { drawKey, drawLength } from "./keys";
import { below, exponential, positive, RNG_BYTES, Rng, rngInit, uniform } from "./random";
import { digestOf, writeRow } from "./rows";

@unmanaged
class Member {
  addr: u64;
  meta: u64;
  ipid: u32;
  alias: u32;
  keep: f64;
}
const MEMBER_BYTES: u32 = 32;

@unmanaged
class Population {
  // Written by TypeScript (src/simulate/population.ts).
  flows: f64;
  alpha: f64;
  minimum: f64; //     weights are Pareto between these two
  maximum: f64;
  gap: f64; //       ns between packets, mean
  poisson: f64;
  endNs: f64;
  packetMax: f64;
  share1500: f64;
  share576: f64;
  keys: f64;
  kind: f64;
  fixedFlags: f64;
  // State.
  time: f64;
  number: u64;
  seed: u64;
  members: u32;
  done: u32;
  rng: Rng; //       placeholder; the generator follows
}
const RNG_AT: usize = offsetof<Population>("rng");

export function simPopulationNew(): usize {
  const p = heap.alloc(RNG_AT + RNG_BYTES);
  memory.fill(p, 0, RNG_AT + RNG_BYTES);
  return p;
}

export function simPopulationFree(p: usize): void {
  heap.free(changetype<Population>(p).members);
  heap.free(p);
}

export function simPopulationStart(p: usize, seed: u64, stream: u64): void {
  const t = changetype<Population>(p);
  const rng = changetype<Rng>(p + RNG_AT);
  rngInit(p + RNG_AT, seed, stream);
  t.seed = seed;
  t.number = <u64>t.kind << 56;
  t.time = 0;
  const n = <u32>t.flows;
  const members = heap.alloc(n * MEMBER_BYTES);
  t.members = <u32>members;
  let sum: f64 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const m = members + i * MEMBER_BYTES;
    drawKey(<usize>t.keys, rng, m);
    const weight = min(t.maximum, t.minimum * Math.exp(-Math.log(positive(rng)) / t.alpha));
    const member = changetype<Member>(m);
    member.keep = weight;
    member.ipid = below(rng, 65536);
    sum += weight;
  }
  // Vose's alias table, in place: `keep` becomes the probability to stay.
  const work = heap.alloc(n * 4);
  let small: u32 = 0;
  let large: u32 = n;
  for (let i: u32 = 0; i < n; i++) {
    const member = changetype<Member>(members + i * MEMBER_BYTES);
    member.keep *= <f64>n / sum;
    member.alias = i;
    if (member.keep < 1) store<u32>(work + (small++ << 2), i);
    else store<u32>(work + (--large << 2), i);
  }
  while (small > 0 && large < n) {
    const s = load<u32>(work + (--small << 2));
    const l = load<u32>(work + (large << 2));
    const lesser = changetype<Member>(members + s * MEMBER_BYTES);
    const greater = changetype<Member>(members + l * MEMBER_BYTES);
    lesser.alias = l;
    greater.keep -= 1 - lesser.keep;
    if (greater.keep < 1) {
      large++;
      store<u32>(work + (small++ << 2), l);
    }
  }
  while (large < n) changetype<Member>(members + load<u32>(work + (large++ << 2)) * MEMBER_BYTES).keep = 1;
  while (small > 0) changetype<Member>(members + load<u32>(work + (--small << 2)) * MEMBER_BYTES).keep = 1;
  heap.free(work);
}

/** Fills the batch; returns 0 once the traffic has ended (the batch may still hold rows). */
export function simPopulationFill(p: usize, b: usize): i32 {
  const t = changetype<Population>(p);
  const rng = changetype<Rng>(p + RNG_AT);
  const batch = changetype<Batch>(b);
  batch.count = 0;
  const last = (<u64>t.kind << 56) + <u64>t.packetMax;
  const n = <u32>t.flows;
  while (batch.count < batch.capacity) {
    if (t.done != 0 || t.number >= last) return 0;
    t.time += t.poisson != 0 ? t.gap * exponential(rng) : t.gap;
    if (t.time >= t.endNs) {
      t.done = 1;
      return 0;
    }
    let m = t.members + below(rng, n) * MEMBER_BYTES;
    if (uniform(rng) >= changetype<Member>(m).keep) m = t.members + changetype<Member>(m).alias * MEMBER_BYTES;
    const member = changetype<Member>(m);
    const ipid = member.ipid;
    member.ipid = (ipid + 1) & 0xffff;
    const length = drawLength(rng, 0, t.share1500, t.share576, 1);
    const tcp: u32 = (<u32>(member.meta >> 32) & 0xff) == 6 ? 0x1000 : 0;
    const digest = digestOf(t.number++, t.seed);
    writeRow(batch, Math.floor(t.time), digest, member.meta, member.addr, length, ipid, tcp | <u32>t.fixedFlags);
  }
  return 1;
}
