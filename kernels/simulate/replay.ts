// Replays packets of a capture: times scaled and shifted, with new keys in every loop after the first.

import { Batch, META_IPV6 } from "../decode/batch";
import { digestOf, doubled, putRow, Row, ROW_BYTES, takeRow } from "./rows";

@unmanaged
class Replay {
  scale: f64;
  endNs: f64;
  shift: f64; //    when this loop began
  kind: f64;
  fixedFlags: f64;
  first: f64; //    time of the capture's first packet
  last: f64; //     latest time handed out
  loop: f64;
  number: u64;
  seed: u64;
  rows: u32;
  room: u32;
  count: u32;
  position: u32;
  started: u32;
  done: u32;
}

export function simReplayNew(seed: u64): usize {
  const p = heap.alloc(offsetof<Replay>());
  memory.fill(p, 0, offsetof<Replay>());
  const r = changetype<Replay>(p);
  r.seed = seed;
  r.room = 2048;
  r.rows = <u32>heap.alloc(r.room * ROW_BYTES);
  return p;
}

export function simReplayFree(p: usize): void {
  heap.free(changetype<Replay>(p).rows);
  heap.free(p);
}

/** Stores the rows of a batch of the capture; `fresh` 1 removes earlier ones first. Returns how many rows are stored. */
export function simReplayTake(p: usize, b: usize, fresh: u32): u32 {
  const r = changetype<Replay>(p);
  const batch = changetype<Batch>(b);
  if (fresh != 0) {
    r.count = 0;
    r.position = 0;
  }
  while (r.count + batch.count > r.room) {
    r.rows = doubled(r.rows, r.room * ROW_BYTES);
    r.room *= 2;
  }
  for (let i: u32 = 0; i < batch.count; i++) takeRow(batch, i, r.rows + r.count++ * ROW_BYTES);
  return r.count;
}

/** Restarts from the first row, `shift` ns after the start. */
export function simReplayRewind(p: usize, loop: f64, shift: f64, empty: u32): void {
  const r = changetype<Replay>(p);
  r.loop = loop;
  r.shift = shift;
  r.position = 0;
  if (empty != 0) r.count = 0;
}

/** Appends rows to the batch. Returns 0: no stored rows are left; 1: the batch is full; 2: the end is reached. */
export function simReplayFill(p: usize, b: usize): i32 {
  const r = changetype<Replay>(p);
  const batch = changetype<Batch>(b);
  // An injective function of the loop, applied to both ends of a flow alike: opposite directions stay opposite.
  const fresh: u32 = <u32>r.loop * 0x9e3779b1;
  const both = (<u64>fresh << 32) | <u64>fresh;
  while (batch.count < batch.capacity) {
    if (r.position == r.count) return 0;
    const at = r.rows + r.position * ROW_BYTES;
    const row = changetype<Row>(at);
    if (r.started == 0) {
      r.started = 1;
      r.first = row.time;
      r.number = <u64>r.kind << 56;
    }
    // Timestamps of a capture may step back; sending times do not.
    const time = max(r.last, Math.floor((row.time - r.first) * r.scale + r.shift));
    if (time >= r.endNs) return 2;
    r.last = time;
    r.position++;
    const i = batch.count;
    const o = i << 3;
    putRow(batch, at);
    store<f64>(batch.time + o, time);
    store<u64>(batch.digest + o, digestOf(r.number++, r.seed));
    store<u64>(batch.flowHash + o, 0);
    store<f64>(batch.delay + o, 0);
    store<u32>(batch.flags + (i << 2), row.flags | <u32>r.fixedFlags);
    if ((row.meta & META_IPV6) == 0) {
      store<u64>(batch.addrA + o, row.addrA ^ both);
      store<u64>(batch.addrB + o, 0);
      store<u64>(batch.addrC + o, 0);
      store<u64>(batch.addrD + o, 0);
    } else {
      store<u64>(batch.addrB + o, row.addrB ^ both);
      store<u64>(batch.addrD + o, row.addrD ^ both);
    }
  }
  return 1;
}

export function simReplayLast(p: usize): f64 {
  return changetype<Replay>(p).last;
}
