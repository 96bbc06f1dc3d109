// FIFO queues: one server of fixed rate, a limit in packets, DropTail or RED (Floyd and Jacobson 1993, not gentle, counting packets, the average decaying over
// idle time). A packet's departure is known when it arrives, so no packet is held back. Times are whole ns outside; the server itself keeps fractions.

import { Batch } from "../decode/batch";
import { avalanche, mixWord, P5 } from "../decode/digest";
import { RNG_BYTES, Rng, rngInit, uniform } from "./random";

@unmanaged
export class Fifo {
  nsPerByte: f64;
  limit: f64; //      packets, the one in service included
  red: f64; //        0: DropTail
  minTh: f64;
  maxTh: f64;
  weight: f64; //     w_q
  maxP: f64;
  idleNs: f64; //     transmission time of a typical packet: what the average decays by while idle
  propagation: f64; //ns after the queue
  // State.
  free: f64; //       when the server has served all that waits
  average: f64;
  sinceDrop: f64; //  packets since the last RED drop, -1: below the threshold
  head: u32;
  count: u32;
  mask: u32;
  ring: u32; //       departure times of the packets in the system
  // Counters.
  packets: f64;
  bytes: f64;
  tailDrops: f64;
  redDrops: f64;
  droppedBytes: f64;
  longest: f64; //    most packets in the system
  busyNs: f64;
  rng: Rng; //        placeholder; the generator follows
}
const RNG_AT: usize = offsetof<Fifo>("rng");
export const FIFO_BYTES: usize = RNG_AT + RNG_BYTES;

export function simFifoNew(): usize {
  const p = heap.alloc(FIFO_BYTES);
  memory.fill(p, 0, FIFO_BYTES);
  return p;
}

export function simFifoStart(p: usize, seed: u64, stream: u64): void {
  const q = changetype<Fifo>(p);
  let room: u32 = 16;
  while (<f64>room < q.limit + 1) room <<= 1;
  q.ring = <u32>heap.alloc(room * 8);
  q.mask = room - 1;
  q.sinceDrop = -1;
  rngInit(p + RNG_AT, seed, stream);
}

export function simFifoFree(p: usize): void {
  heap.free(changetype<Fifo>(p).ring);
  heap.free(p);
}

/** RED's decision for a packet that arrives at `t` and finds `q.count` packets; true: drop it. */
function redDrops(p: usize, q: Fifo, t: f64): bool {
  if (q.count > 0) q.average += q.weight * (<f64>q.count - q.average);
  // (1 - w)^m, with m typical transmissions since the queue became empty.
  else if (q.average > 0) q.average *= Math.exp(Math.log(1 - q.weight) * ((t - q.free) / q.idleNs));
  if (q.average < q.minTh) {
    q.sinceDrop = -1;
    return false;
  }
  if (q.average >= q.maxTh) {
    q.sinceDrop = 0;
    return true;
  }
  q.sinceDrop++;
  const pb = (q.maxP * (q.average - q.minTh)) / (q.maxTh - q.minTh);
  const left = 1 - q.sinceDrop * pb;
  if (left > 0 && uniform(changetype<Rng>(p + RNG_AT)) >= pb / left) return false;
  q.sinceDrop = 0;
  return true;
}

/** Returns when a packet that arrives at `t` leaves; NaN if it is dropped. Arrivals must come in order. */
// @ts-ignore: decorator
@inline
export function fifoArrive(p: usize, q: Fifo, t: f64, length: u32): f64 {
  let count = q.count;
  let head = q.head;
  const mask = q.mask;
  while (count > 0 && load<f64>(q.ring + (head << 3)) <= t) {
    head = (head + 1) & mask;
    count--;
  }
  q.head = head;
  q.count = count;
  q.packets += 1;
  q.bytes += <f64>length;
  if (q.red != 0 && redDrops(p, q, t)) {
    q.redDrops += 1;
    q.droppedBytes += <f64>length;
    return NaN;
  }
  if (<f64>count >= q.limit) {
    q.tailDrops += 1;
    q.droppedBytes += <f64>length;
    return NaN;
  }
  const service = <f64>length * q.nsPerByte;
  const leaves = max(q.free, t) + service;
  q.free = leaves;
  q.busyNs += service;
  store<f64>(q.ring + (((head + count) & mask) << 3), leaves);
  q.count = count + 1;
  if (<f64>(count + 1) > q.longest) q.longest = <f64>(count + 1);
  return nearest<f64>(leaves) + q.propagation;
}

/**
 * Runs a batch through one queue, from row `from`. `cross` (0: none) is a batch of packets that share the queue but leave elsewhere; `position` points to its
 * next row. Returns the next row to process, which is less than the batch's count if the cross traffic must be refilled first (`crossEnded` 0). Lost packets
 * bypass the queue.
 */
export function simFifoRun(p: usize, b: usize, from: u32, cross: usize, position: usize, crossEnded: u32): u32 {
  const q = changetype<Fifo>(p);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  if (cross == 0) {
    for (let i = from; i < n; i++) {
      const o = i << 3;
      const time = load<f64>(batch.time + o);
      const delay = load<f64>(batch.delay + o);
      if (delay != delay) continue;
      store<f64>(batch.delay + o, fifoArrive(p, q, time + delay, load<u32>(batch.wireLength + (i << 2))) - time);
    }
    return n;
  }
  const other = changetype<Batch>(cross);
  let j = load<u32>(position);
  for (let i = from; i < n; i++) {
    const o = i << 3;
    const time = load<f64>(batch.time + o);
    const delay = load<f64>(batch.delay + o);
    if (delay != delay) continue;
    const t = time + delay;
    while (j < other.count && load<f64>(other.time + (j << 3)) < t) {
      fifoArrive(p, q, load<f64>(other.time + (j << 3)), load<u32>(other.wireLength + (j << 2)));
      j++;
    }
    if (j == other.count && crossEnded == 0) {
      store<u32>(position, j);
      return i;
    }
    store<f64>(batch.delay + o, fifoArrive(p, q, t, load<u32>(batch.wireLength + (i << 2))) - time);
  }
  store<u32>(position, j);
  return n;
}

/** Returns a hash of a row's whole key, as a switch would compute it (not of the consumer's flow key). */
// @ts-ignore: decorator
@inline
export function rowFlowHash(batch: Batch, i: u32, seed: u64): u64 {
  const o = i << 3;
  const h = mixWord(mixWord(seed + P5, load<u64>(batch.meta + o)), load<u64>(batch.addrA + o));
  const c = load<u64>(batch.addrC + o);
  return avalanche(c == 0 ? h : mixWord(mixWord(mixWord(h, load<u64>(batch.addrB + o)), c), load<u64>(batch.addrD + o)));
}

/**
 * Runs a batch over parallel queues (`paths` points to `count` u32 addresses of queues), selected by a hash of the flow (ECMP) or for each packet separately
 * (`spray` 1, a switch fabric).
 */
export function simPathsRun(paths: usize, count: u32, spray: u32, seed: u64, b: usize): void {
  const batch = changetype<Batch>(b);
  const n = batch.count;
  for (let i: u32 = 0; i < n; i++) {
    const o = i << 3;
    const time = load<f64>(batch.time + o);
    const delay = load<f64>(batch.delay + o);
    if (delay != delay) continue;
    const h = spray != 0 ? avalanche(load<u64>(batch.digest + o) ^ seed) : rowFlowHash(batch, i, seed);
    const p = <usize>load<u32>(paths + ((<u32>(((h >> 32) * <u64>count) >> 32)) << 2));
    const leaves = fifoArrive(p, changetype<Fifo>(p), time + delay, load<u32>(batch.wireLength + (i << 2)));
    store<f64>(batch.delay + o, leaves - time);
  }
}
