// Synthetic traffic. Flows arrive as a Poisson process; their sizes are Pareto (rounded down: P(size >= k) = k^-alpha, limited to `sizeMax`, so that alpha =
// 1.1 gives 53 % flows of one packet). They send in rounds: a window of packets spaced by the flow's access rate, then nothing until a round-trip time after
// the round began; the window doubles up to a limit. Flows arrive on several links, each of which carries one packet at a time at line rate.
//
// Active flows wait in a timing wheel (one list per slot, the open slot sorted), so memory is bounded by the number of flows active at once, and the cost of a
// packet does not grow with it. At time 0 the flows of a process that has run for ever are already active.

import { Batch } from "../decode/batch";
import { drawKey, drawLength } from "./keys";
import { exponential, next64, normal, positive, RNG_BYTES, Rng, rngInit, uniform } from "./random";
import { digestOf, doubled, writeRow } from "./rows";

@unmanaged
class Flow {
  next: u32; //      in the list of its slot, or of free flows
  left: u32; //      packets to send
  time: f64; //      of the next packet
  round: f64; //     when the present round began
  nsPerByte: f32; // of its access link
  rtt: f32;
  burst: u16; //     packets left in this round
  window: u16;
  windowMax: u16;
  profile: u8; //    typical packet size
  input: u8;
  addr: u64;
  meta: u64;
  ipid: u32;
  begun: u32;
}
const FLOW_BYTES: u32 = 64;

// TCP flags at their position in the flags column.
const TCP_FIN: u32 = 0x0100;
const TCP_SYN: u32 = 0x0200;
const TCP_ACK: u32 = 0x1000;

@unmanaged
class Traffic {
  // Parameters, written by TypeScript (src/simulate/synthetic.ts: the same order).
  flowRate: f64; //   flows per ns
  alpha: f64;
  sizeMax: f64;
  endNs: f64;
  inputs: f64;
  lineNsPerByte: f64;
  rttMedian: f64; //  ns
  rttSigma: f64;
  rttMin: f64;
  rttMax: f64;
  accessMin: f64; //  ns per byte, fastest
  accessSpan: f64; // ln(slowest / fastest)
  windowFirst: f64;
  windowLow: f64; //  caps are log-uniform between these two
  windowHigh: f64;
  share1500: f64;
  share576: f64;
  mixing: f64; //     share of packets whose size ignores the flow's profile
  packetMax: f64; //  stop after so many packets
  width: f64; //      of a slot, ns
  slots: f64; //      a power of two
  keys: f64; //       address of the Keys
  kind: f64; //       upper bits of packet numbers
  fixedFlags: f64;
  // State.
  wheel: u32;
  pool: u32;
  poolSize: u32;
  poolUsed: u32;
  freeList: u32;
  open: u32; //       indices of the flows in the open slot, latest first
  openCount: u32;
  openRoom: u32;
  slot: u64;
  slotEnd: f64;
  nextFlow: f64;
  number: u64;
  seed: u64;
  flows: u64;
  active: u32;
  done: u32;
  input: u32; //      f64 per input: free from
  pad: u32;
  rng: Rng; //        placeholder for alignment; the generator follows the fixed part
}
const RNG_AT: usize = offsetof<Traffic>("rng");

export function simTrafficNew(): usize {
  const p = heap.alloc(RNG_AT + RNG_BYTES);
  memory.fill(p, 0, RNG_AT + RNG_BYTES);
  return p;
}

export function simTrafficFree(p: usize): void {
  const t = changetype<Traffic>(p);
  heap.free(t.wheel);
  heap.free(t.pool);
  heap.free(t.open);
  heap.free(t.input);
  heap.free(p);
}

/** Called after the parameters are written: allocates, seeds and adds the flows that are active at time 0. */
export function simTrafficStart(p: usize, seed: u64, stream: u64): void {
  const t = changetype<Traffic>(p);
  const slots = <u32>t.slots;
  t.wheel = <u32>heap.alloc(slots * 4);
  memory.fill(t.wheel, 0, slots * 4);
  t.poolSize = 4096;
  t.pool = <u32>heap.alloc(t.poolSize * FLOW_BYTES);
  t.poolUsed = 1;
  t.openRoom = 256;
  t.open = <u32>heap.alloc(t.openRoom * 4);
  t.input = <u32>heap.alloc(<u32>t.inputs * 8);
  memory.fill(t.input, 0, <u32>t.inputs * 8);
  t.slot = 0;
  t.slotEnd = t.width;
  t.seed = seed;
  rngInit(p + RNG_AT, seed, stream);
  bringActive(p);
  t.nextFlow = exponential(changetype<Rng>(p + RNG_AT)) / t.flowRate;
}

export function simTrafficFlows(p: usize): f64 {
  return <f64>changetype<Traffic>(p).flows;
}
export function simTrafficActive(p: usize): u32 {
  return changetype<Traffic>(p).active;
}

// @ts-ignore: decorator
@inline
function flowAt(t: Traffic, index: u32): Flow {
  return changetype<Flow>(t.pool + index * FLOW_BYTES);
}

function takeFlow(t: Traffic): u32 {
  t.active++;
  const index = t.freeList;
  if (index != 0) {
    t.freeList = flowAt(t, index).next;
    return index;
  }
  if (t.poolUsed == t.poolSize) {
    t.pool = doubled(t.pool, t.poolSize * FLOW_BYTES);
    t.poolSize *= 2;
  }
  return t.poolUsed++;
}

// @ts-ignore: decorator
@inline
function returnFlow(t: Traffic, index: u32): void {
  t.active--;
  flowAt(t, index).next = t.freeList;
  t.freeList = index;
}

/** Inserts a flow into the open slot, which is sorted by time, latest first. */
function openInsert(t: Traffic, index: u32, time: f64): void {
  if (t.openCount == t.openRoom) {
    t.open = doubled(t.open, t.openRoom * 4);
    t.openRoom *= 2;
  }
  let i = t.openCount;
  while (i > 0) {
    const other = load<u32>(t.open + ((i - 1) << 2));
    // Behind those of equal time: first in, first out.
    if (flowAt(t, other).time > time) break;
    store<u32>(t.open + (i << 2), other);
    i--;
  }
  store<u32>(t.open + (i << 2), index);
  t.openCount++;
}

// @ts-ignore: decorator
@inline
function schedule(t: Traffic, index: u32, time: f64): void {
  const flow = flowAt(t, index);
  flow.time = time;
  if (time < t.slotEnd) {
    openInsert(t, index, time);
    return;
  }
  const p = t.wheel + ((<u32>(<u64>(time / t.width)) & (<u32>t.slots - 1)) << 2);
  flow.next = load<u32>(p);
  store<u32>(p, index);
}

function openNextSlot(t: Traffic): void {
  t.slot++;
  t.slotEnd = <f64>(t.slot + 1) * t.width;
  const p = t.wheel + ((<u32>t.slot & (<u32>t.slots - 1)) << 2);
  let index = load<u32>(p);
  if (index == 0) return;
  let keep: u32 = 0;
  while (index != 0) {
    const flow = flowAt(t, index);
    const next = flow.next;
    if (flow.time < t.slotEnd) openInsert(t, index, flow.time);
    else {
      // Due in a later turn of the wheel.
      flow.next = keep;
      keep = index;
    }
    index = next;
  }
  store<u32>(p, keep);
}

/** Returns the floor of a Pareto variate >= minimum, limited to the largest size: P(size >= k) = (k / minimum)^-alpha. */
// @ts-ignore: decorator
@inline
function drawSize(t: Traffic, rng: Rng, minimum: f64): f64 {
  const x = minimum * Math.exp(-Math.log(positive(rng)) / t.alpha);
  return x >= t.sizeMax ? t.sizeMax : Math.floor(x);
}

/** Sets all of a flow's properties but its times. */
function describe(t: Traffic, rng: Rng, flow: Flow, size: f64): void {
  drawKey(<usize>t.keys, rng, changetype<usize>(flow) + offsetof<Flow>("addr"));
  flow.left = <u32>size;
  flow.begun = 0;
  const more = next64(rng);
  flow.input = <u8>(((more & 0xffff) * <u64>t.inputs) >> 16);
  const u = <f64>((more >> 16) & 0xffffffff) * 2.3283064365386963e-10;
  flow.ipid = <u32>(more >> 48);
  flow.profile = u < t.share1500 ? 2 : u < t.share1500 + t.share576 ? 1 : 0;
  t.flows++;
}

/** Sets the pace of a flow of more than one packet. */
function pace(t: Traffic, rng: Rng, flow: Flow): void {
  let rtt = t.rttMedian * Math.exp(t.rttSigma * normal(rng));
  if (rtt < t.rttMin) rtt = t.rttMin;
  if (rtt > t.rttMax) rtt = t.rttMax;
  flow.rtt = <f32>rtt;
  flow.nsPerByte = <f32>(t.accessMin * Math.exp(uniform(rng) * t.accessSpan));
  flow.windowMax = <u16>(t.windowLow * Math.exp(uniform(rng) * Math.log(t.windowHigh / t.windowLow)));
  flow.window = <u16>min(t.windowFirst, <f64>flow.windowMax);
  flow.burst = flow.window;
}

/** Adds the flows of a process that has run for ever: flows of every age that still have packets to send at time 0. */
function bringActive(p: usize): void {
  const t = changetype<Traffic>(p);
  const rng = changetype<Rng>(p + RNG_AT);
  let from: f64 = 0;
  let to = t.rttMax;
  while (true) {
    // A flow older than `from` has had at least this many rounds, hence sent at least this many packets.
    const rounds = Math.floor(from / (1.1 * t.rttMax));
    let minimum: f64 = 1;
    let window = min(t.windowFirst, t.windowLow);
    for (let k: f64 = 0; k < rounds && minimum <= t.sizeMax; k++) {
      minimum += window;
      window = min(window * 2, t.windowLow);
    }
    if (minimum > t.sizeMax) return;
    const expected = (to - from) * t.flowRate * Math.exp(-t.alpha * Math.log(minimum));
    let age: f64 = 0;
    const step = (to - from) / expected;
    while (true) {
      age += step * exponential(rng);
      if (age >= to - from) break;
      ageFlow(t, rng, from + age, drawSize(t, rng, minimum));
    }
    from = to;
    to = 2 * to;
  }
}

function ageFlow(t: Traffic, rng: Rng, age: f64, size: f64): void {
  if (size < 2) return;
  const index = takeFlow(t);
  const flow = flowAt(t, index);
  describe(t, rng, flow, size);
  pace(t, rng, flow);
  flow.begun = 1;
  let time = -age;
  while (time < 0) {
    if (flow.left <= <u32>flow.window) {
      returnFlow(t, index);
      t.flows--;
      return;
    }
    flow.left -= flow.window;
    flow.window = <u16>min<u32>(2 * <u32>flow.window, flow.windowMax);
    time += <f64>flow.rtt * (0.9 + 0.2 * uniform(rng));
  }
  flow.burst = flow.window;
  flow.round = time;
  schedule(t, index, time);
}

/** Sends the next packet of a flow at its time, or waits for its link. */
// @ts-ignore: decorator
@inline
function send(p: usize, t: Traffic, rng: Rng, batch: Batch, index: u32): void {
  const flow = flowAt(t, index);
  const time = flow.time;
  const link = t.input + ((<u32>flow.input) << 3);
  const free = load<f64>(link);
  if (free > time) {
    schedule(t, index, free);
    return;
  }
  const length = drawLength(rng, flow.profile, t.share1500, t.share576, t.mixing);
  store<f64>(link, time + <f64>length * t.lineNsPerByte);
  const left = flow.left - 1;
  const meta = flow.meta;
  let tcp: u32 = 0;
  if ((<u32>(meta >> 32) & 0xff) == 6) {
    tcp = flow.begun == 0 ? TCP_SYN : TCP_ACK;
    if (left == 0 && flow.begun != 0) tcp |= TCP_FIN;
  }
  const row = batch.count;
  writeRow(batch, Math.floor(time), digestOf(t.number++, t.seed), meta, flow.addr, length, flow.ipid, tcp | <u32>t.fixedFlags);
  store<u32>(batch.iface + (row << 2), flow.input);
  if (left == 0) {
    returnFlow(t, index);
    return;
  }
  flow.left = left;
  flow.begun = 1;
  flow.ipid = (flow.ipid + 1) & 0xffff;
  const burst = flow.burst - 1;
  let next: f64;
  if (burst > 0) {
    flow.burst = burst;
    next = time + <f64>length * <f64>flow.nsPerByte * (0.75 + 0.5 * uniform(rng));
  } else {
    flow.window = <u16>min<u32>(2 * <u32>flow.window, flow.windowMax);
    flow.burst = flow.window;
    next = max(flow.round + <f64>flow.rtt * (0.9 + 0.2 * uniform(rng)), time + 1);
    flow.round = next;
  }
  schedule(t, index, next);
}

/** Fills the batch with the next packets in order of time. Returns 0 once the traffic has ended (the batch may still hold rows). */
export function simTrafficFill(p: usize, b: usize): i32 {
  const t = changetype<Traffic>(p);
  const rng = changetype<Rng>(p + RNG_AT);
  const batch = changetype<Batch>(b);
  batch.count = 0;
  if (t.number == 0) t.number = <u64>t.kind << 56;
  const last = (<u64>t.kind << 56) + <u64>t.packetMax;
  while (batch.count < batch.capacity) {
    if (t.done != 0 || t.number >= last) return 0;
    let due = Infinity;
    let index: u32 = 0;
    if (t.openCount > 0) {
      index = load<u32>(t.open + ((t.openCount - 1) << 2));
      due = flowAt(t, index).time;
    }
    if (t.nextFlow < t.slotEnd && t.nextFlow <= due) {
      const time = t.nextFlow;
      if (time >= t.endNs) {
        t.done = 1;
        return 0;
      }
      t.nextFlow = time + exponential(rng) / t.flowRate;
      const size = drawSize(t, rng, 1);
      const fresh = takeFlow(t);
      const flow = flowAt(t, fresh);
      describe(t, rng, flow, size);
      flow.time = time;
      flow.round = time;
      if (size > 1) pace(t, rng, flow);
      else flow.burst = 1;
      send(p, t, rng, batch, fresh);
      continue;
    }
    if (index == 0) {
      openNextSlot(t);
      continue;
    }
    if (due >= t.endNs) {
      t.done = 1;
      return 0;
    }
    t.openCount--;
    send(p, t, rng, batch, index);
  }
  return 1;
}
