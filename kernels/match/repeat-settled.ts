// Pairs of repeated packets: unambiguous ones are counted in the order of sending, which jitter follows, by the same loops as other pairs; ambiguous ones without
// their delays.

import { Batch } from "../decode/batch";
import { directionOf, faultsOf, Flow, flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { recordIn, Table, tableAdd } from "../flows/tables";
import { countPairs } from "./match-count";
import { delayBlocksAdd } from "./delay-blocks";
import { edgeSampleAdd } from "./edge-sample";
import { noteAmbiguous } from "./fates";
import { intervalAt } from "./intervals";
import { rename } from "./names";
import { Interval, INTERVAL_BYTES, Match, PAIR_DELAY, PAIR_FLOW, PAIR_RAW, PAIR_SEND } from "./match-state";
import { Repeat } from "./repeats";

/** Pairs of all groups: {row of BEFORE, row of AFTER}. */
let settled: u32 = 0;
let settledCount: u32 = 0;
let settledRoom: u32 = 0;
export function addPair(b: Repeat, a: Repeat): void {
  if (settledCount == settledRoom) {
    settledRoom = max<u32>(1024, settledRoom << 1);
    settled = settled == 0 ? <u32>heap.alloc(settledRoom << 3) : <u32>heap.realloc(settled, settledRoom << 3);
  }
  store<u32>(settled + (settledCount << 3), <u32>changetype<usize>(b));
  store<u32>(settled + (settledCount << 3), <u32>changetype<usize>(a), 4);
  settledCount++;
}

/** Counts a pair whose delay is uncertain: as matched, but without its delay. */
export function countAmbiguous(m: Match, flow: Flow, b: Repeat, a: Repeat): void {
  const apart = a.time - b.time;
  if (m.nat != 0) rename(m, <u32>changetype<usize>(a), b.flow);
  if (m.fates != 0) noteAmbiguous(m, b.time, b.time + apart, b.flow);
  if (directionOf(flow) == 0) flow.more |= (apart >= m.threshold ? <u32>1 : <u32>2) << 30;
  faultsOf(changetype<FlowStats>(m.stats), flow).ambiguous++;
  m.ambiguous++;
  if (directionOf(flow) == 2) return;
  changetype<Interval>(m.intervals + intervalAt(m, b.time) * INTERVAL_BYTES).ambiguous++;
}

/** Returns whether pair i is of a flow of the other direction. */
function isBack(m: Match, i: u32): bool {
  const b = changetype<Repeat>(<usize>load<u32>(settled + (i << 3)));
  const direction = directionOf(flowIn(flowSegments(changetype<FlowStats>(m.stats)), b.flow));
  // A flow without pairs so far gets its direction from the first of them.
  if (direction == 0) return changetype<Repeat>(<usize>load<u32>(settled + (i << 3), 4)).time - b.time < m.threshold;
  return direction == 2;
}
/** Returns the send time of pair i. */
function sentAt(m: Match, i: u32): f64 {
  const b = changetype<Repeat>(<usize>load<u32>(settled + (i << 3)));
  return isBack(m, i) ? changetype<Repeat>(<usize>load<u32>(settled + (i << 3), 4)).time : b.time;
}
/** Heap sort. */
function sortSettled(m: Match): void {
  for (let i = settledCount >> 1; i > 0; i--) sinkSettled(m, i - 1, settledCount);
  for (let end = settledCount; end > 1; ) {
    end--;
    exchange(0, end);
    sinkSettled(m, 0, end);
  }
}
function sinkSettled(m: Match, from: u32, n: u32): void {
  let i = from;
  const time = sentAt(m, i);
  while ((i << 1) + 1 < n) {
    let child = (i << 1) + 1;
    if (child + 1 < n && sentAt(m, child + 1) > sentAt(m, child)) child++;
    if (time >= sentAt(m, child)) return;
    exchange(i, child);
    i = child;
  }
}
function exchange(i: u32, k: u32): void {
  const held = load<u64>(settled + (i << 3));
  store<u64>(settled + (i << 3), load<u64>(settled + (k << 3)));
  store<u64>(settled + (k << 3), held);
}

let chunk: u32 = 0; // a Batch with the times and flags of the packets at AFTER

export function beginSettled(m: Match): void {
  const batch = changetype<Batch>(heap.alloc(offsetof<Batch>()));
  batch.time = <u32>heap.alloc(m.rows << 3);
  batch.flags = <u32>heap.alloc(m.rows << 2);
  chunk = <u32>changetype<usize>(batch);
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
}

export function endSettled(): void {
  const batch = changetype<Batch>(<usize>chunk);
  heap.free(batch.time);
  heap.free(batch.flags);
  heap.free(chunk);
  if (settled != 0) heap.free(settled);
  settled = 0;
  settledRoom = 0;
}

/** Counts some thousand at a time; `alone`: no other packet is identical to them. */
export function countSettled(m: Match, alone: bool): void {
  sortSettled(m);
  const batch = changetype<Batch>(<usize>chunk);
  for (let i: u32 = 0; i < settledCount; i++) {
    const a = changetype<Repeat>(<usize>load<u32>(settled + (i << 3), 4));
    if (m.nat != 0) rename(m, <u32>changetype<usize>(a), changetype<Repeat>(<usize>load<u32>(settled + (i << 3))).flow);
    const k = m.foundCount++;
    store<f64>(batch.time + (k << 3), a.time);
    store<u32>(batch.flags + (k << 2), (a.state >> 8) & 0xff);
    store<u32>(m.found + (k << 4), load<u32>(settled + (i << 3)));
    const place = isBack(m, i) ? a.order : changetype<Repeat>(<usize>load<u32>(settled + (i << 3))).order;
    store<u32>(m.found + (k << 4), place, 4);
    store<u32>(m.found + (k << 4), k, 8);
    store<u32>(m.found + (k << 4), place, 12);
    if (m.foundCount == m.rows) flushChunk(m, alone);
  }
  flushChunk(m, alone);
  settledCount = 0;
}
function flushChunk(m: Match, alone: bool): void {
  countPairs(m, changetype<Batch>(<usize>chunk), 1, 0);
  if (alone) {
    delayBlocksAdd(m.blocks, m.pairs, m.pairs + m.rows * PAIR_DELAY, m.pairCount);
    delayBlocksAdd(m.backBlocks, m.backPairs, m.backPairs + m.rows * PAIR_DELAY, m.backPairCount);
    edgeSampleAdd(m.sample, m.pairs, m.pairs + m.rows * PAIR_RAW, m.pairCount);
    edgeSampleAdd(m.backSample, m.backPairs, m.backPairs + m.rows * PAIR_RAW, m.backPairCount);
  }
  keepLate(m, m.pairs, m.pairCount, alone ? ALONE | 1 : 1);
  keepLate(m, m.backPairs, m.backPairCount, alone ? ALONE | 2 : 2);
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
}

/** A pair found after all packets were read. */
@unmanaged
class Late {
  send: f64;
  raw: f64;
  flow: u32;
  direction: u32; // plus ALONE if no other packet is identical
}
const ALONE: u32 = 4;
const LATE_BYTES: u32 = 24;
/** More pairs show nothing new about the clocks. */
const MOST_LATE: u32 = 1 << 20;

function keepLate(m: Match, pairs: u32, n: u32, direction: u32): void {
  for (let i: u32 = 0; i < n && changetype<Table>(m.late).count < MOST_LATE; i++) {
    const late = changetype<Late>(<usize>tableAdd(m.late, LATE_BYTES));
    late.send = load<f64>(pairs + m.rows * PAIR_SEND + (i << 3));
    late.raw = load<f64>(pairs + m.rows * PAIR_RAW + (i << 3));
    late.flow = load<u32>(pairs + m.rows * PAIR_FLOW + (i << 2));
    late.direction = direction;
  }
}

export function matchLateCount(p: usize): u32 {
  return changetype<Table>(changetype<Match>(p).late).count;
}

/**
 * Writes late pairs from index `from` on, all or those marked ALONE, to the columns of the last call's pairs; returns the index of the first one without room.
 */
export function matchTakeLate(p: usize, from: u32, all: u32): u32 {
  const m = changetype<Match>(p);
  const late = changetype<Table>(m.late);
  m.pairCount = 0;
  m.backPairCount = 0;
  const to = min<u32>(late.count, from + m.rows);
  for (let number = from; number < to; number++) {
    const one = changetype<Late>(<usize>recordIn(late.segments, number, LATE_BYTES));
    if (all == 0 && (one.direction & ALONE) == 0) continue;
    const back = (one.direction & ~ALONE) == 2;
    const i = back ? m.backPairCount++ : m.pairCount++;
    const pairs = back ? m.backPairs : m.pairs;
    store<f64>(pairs + m.rows * PAIR_SEND + (i << 3), one.send);
    store<f64>(pairs + m.rows * PAIR_RAW + (i << 3), one.raw);
    store<u32>(pairs + m.rows * PAIR_FLOW + (i << 2), one.flow);
  }
  return to;
}
