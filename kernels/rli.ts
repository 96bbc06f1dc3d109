// RLI at the receiving point: delays of regular packets interpolated between reference packets, summed per flow (rli-ton, section III-B2 and C,
// equations 1-4). A bounded buffer holds the packets since the last reference {time f64, flow u32, wire u32}; when it is full they are answered
// by the left reference alone, and counted. Interpolated is what is left of a reference's delay without its own time of transmission; each
// packet's own is added, which is equation 1 for references of any size.
//
// How far the line is off is told by the references themselves: each is predicted from its two neighbours. The squared miss stands for every
// packet of the gap behind it; packets of a flow within a gap err together, gaps err independently: errors = sum over gaps (n miss)^2, misses = sum over packets miss^2.
//
//   flow: packets u32 | in the last gap u32 | last gap u32 | gaps u32 | serial u32 | pad u32 | sum i64 | squares f64 | errors f64 | last seen f64 | misses f64

import { Batch } from "./batch";
import { bucketOf, Cells, cellsAdd } from "./cells";
import { rehash } from "./digest";
import { FLOW_HEAD, flowRecord, Flows, flowsFind, flowsFree, flowsNew, flowsPeek } from "./flows";
import { FLAG_PROBE, FLAG_REFERENCE, referenceDelay, References, referencesClear, referencesInit, REGULAR } from "./references";

const BUFFERED: u32 = 16;
const OWN_BYTES: u32 = 64;
const RECORD: u32 = FLOW_HEAD + OWN_BYTES;
const LEVEL_WEIGHT: f64 = 0.0625;
const LEVEL_SHARE: f64 = 0.0625;

@unmanaged
class Rli {
  flows: u32;
  cells: u32; //      quantiles per flow; 0: none kept
  references: u32;
  buffer: u32;
  room: u32; //       entries the buffer holds
  held: u32;
  leftOnly: u32; //   1: RLI-L
  maxFlows: u32;
  selection: u32; //  0 all, 1 sample and hold (by packet), 2 sampled flows
  sampleBelow: u32; // of 2^32; all are taken by selection 0
  haveLeft: u32;
  haveBefore: u32;
  serial: u32; //     of the next new flow
  expired: u32; //    records put out of the table, `expiredCount` of them
  expiredCount: u32;
  expiredRoom: u32;
  gap: u32; //        number of the gap between references
  gapPad: u32;
  // counters
  packets: u32; //    regular packets
  answered: u32;
  oneSided: u32; //   answered by one reference only
  spilled: u32; //    of those: because the buffer was full
  unanswered: u32; // no reference at all
  unselected: u32; // packets of flows that were not chosen
  shed: u32; //       packets of flows that found no place
  checked: u32; //    references predicted from their neighbours
  nsPerByte: f64; //  8e9 / drain rate; 0: serialisation is not compensated
  leftTime: f64;
  leftDelay: f64; //  without transmission, as all delays of references here
  beforeTime: f64; // the reference before the left one
  beforeDelay: f64;
  miss: f64; //       squared, of the last reference predicted
  level: f64; //      its moving average
  idle: f64; //       flows not seen for so long may make room; 0: never
  lastExpiry: f64;
  // sums
  sum: i64; //        of all delays
  squares: f64;
  least: f64;
  most: f64;
  error: f64; //      squared misses, each weighed by the packets of its gap, squared
  misses: f64; //     the same, weighed by the packets
}

export function rliNew(
  room: u32, leftOnly: u32, maxFlows: u32, selection: u32, sampleBelow: u32, nsPerByte: f64, idle: f64, port: u32, session: i32, longest: f64,
): usize {
  const p = heap.alloc(offsetof<Rli>());
  memory.fill(p, 0, offsetof<Rli>());
  const r = changetype<Rli>(p);
  const q = heap.alloc(offsetof<References>());
  memory.fill(q, 0, offsetof<References>());
  referencesInit(changetype<References>(q), port, session, longest);
  r.references = <u32>q;
  r.room = room;
  r.buffer = <u32>heap.alloc(room * BUFFERED);
  r.leftOnly = leftOnly;
  r.maxFlows = maxFlows;
  r.selection = selection;
  r.sampleBelow = sampleBelow;
  r.nsPerByte = nsPerByte;
  r.idle = idle;
  r.flows = <u32>flowsNew(OWN_BYTES);
  rliClear(p, 0);
  return p;
}

/** Where `packets` (8 u32), `sum` (i64, then 5 f64) and the references' counters (`seen`, 6 u32) lie. */
export function rliCounters(p: usize): usize {
  return p + offsetof<Rli>("packets");
}
export function rliSums(p: usize): usize {
  return p + offsetof<Rli>("sum");
}
export function rliReferences(p: usize): usize {
  return changetype<Rli>(p).references + offsetof<References>("seen");
}
export function rliFlows(p: usize): usize {
  return changetype<Rli>(p).flows;
}
export function rliExpired(p: usize): usize {
  return changetype<Rli>(p).expired;
}
export function rliExpiredCount(p: usize): u32 {
  return changetype<Rli>(p).expiredCount;
}

export function rliOrigin(p: usize, origin: i64): void {
  changetype<References>(changetype<Rli>(p).references).origin = origin;
}

/** Counters and flows begin anew, with `cells` for quantiles (0: none). The last references stay known. */
export function rliClear(p: usize, cells: usize): void {
  const r = changetype<Rli>(p);
  flowsFree(r.flows);
  r.flows = <u32>flowsNew(OWN_BYTES);
  r.cells = <u32>cells;
  if (r.expired != 0) heap.free(r.expired);
  r.expired = 0;
  r.expiredCount = 0;
  r.expiredRoom = 0;
  r.serial = 0;
  r.held = 0;
  r.gap = 0;
  r.lastExpiry = -Infinity;
  memory.fill(p + offsetof<Rli>("packets"), 0, 32);
  referencesClear(changetype<References>(r.references));
  r.sum = 0;
  r.squares = 0;
  r.least = Infinity;
  r.most = -Infinity;
  r.error = 0;
  r.misses = 0;
}

/** The stream does not go on from where it was. */
export function rliForget(p: usize): void {
  const r = changetype<Rli>(p);
  r.haveLeft = 0;
  r.haveBefore = 0;
  r.miss = 0;
  r.level = 0;
  changetype<References>(r.references).known = 0;
}

export function rliFree(p: usize): void {
  const r = changetype<Rli>(p);
  flowsFree(r.flows);
  if (r.expired != 0) heap.free(r.expired);
  heap.free(r.references);
  heap.free(r.buffer);
  heap.free(p);
}

/** Answers everything held: on the line through a delay at a time (level where there is one reference), with its squared error. */
function flush(r: Rli, time: f64, delay: f64, slope: f64, miss: f64): void {
  const n = r.held;
  const flows = changetype<Flows>(r.flows);
  const gap = ++r.gap;
  let squares: f64 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const e = r.buffer + i * BUFFERED;
    const d = nearest<f64>(delay + slope * (load<f64>(e) - time) + <f64>load<u32>(e, 12) * r.nsPerByte);
    const q = flowRecord(flows, load<u32>(e, 8)) + FLOW_HEAD;
    store<u32>(q, load<u32>(q) + 1);
    let before = load<u32>(q, 4);
    if (load<u32>(q, 8) != gap) {
      before = 0;
      store<u32>(q, gap, 8);
      store<u32>(q, load<u32>(q, 12) + 1, 12);
    }
    store<u32>(q, before + 1, 4);
    store<i64>(q, load<i64>(q, 24) + <i64>d, 24);
    store<f64>(q, load<f64>(q, 32) + d * d, 32);
    store<f64>(q, load<f64>(q, 40) + <f64>(2 * before + 1) * miss, 40);
    store<f64>(q, load<f64>(q, 56) + miss, 56);
    r.sum += <i64>d;
    squares += d * d;
    if (d < r.least) r.least = d;
    if (d > r.most) r.most = d;
    if (r.cells != 0) cellsAdd(changetype<Cells>(r.cells), load<u32>(q, 16), bucketOf(d));
  }
  r.squares += squares;
  r.error += <f64>n * <f64>n * miss;
  r.misses += <f64>n * miss;
  r.answered += n;
  r.held = 0;
}

/** A reference has arrived; `delay` without its transmission. */
function arrived(r: Rli, time: f64, delay: f64): void {
  if (r.haveLeft != 0) {
    const step = (delay - r.leftDelay) * (delay - r.leftDelay);
    let now = step;
    if (r.haveBefore != 0 && time > r.beforeTime) {
      // How well would its neighbours have told the left reference's delay? A test of the method, on the wider gap.
      const told = r.beforeDelay + ((delay - r.beforeDelay) * (r.leftTime - r.beforeTime)) / (time - r.beforeTime);
      if (r.leftOnly == 0) now = (told - r.leftDelay) * (told - r.leftDelay);
      r.checked++;
    }
    // One miss says little: it is averaged with the one before, and a share of the level of late keeps luck from looking like certainty.
    const before = r.haveBefore != 0 ? r.miss : now;
    r.level = r.haveBefore != 0 ? r.level + LEVEL_WEIGHT * (now - r.level) : now;
    r.miss = now;
    const miss = 0.5 * (now + before) + LEVEL_SHARE * r.level;
    const slope = r.leftOnly == 0 && time > r.leftTime ? (delay - r.leftDelay) / (time - r.leftTime) : 0;
    flush(r, r.leftTime, r.leftDelay, slope, miss);
    r.beforeTime = r.leftTime;
    r.beforeDelay = r.leftDelay;
    r.haveBefore = 1;
  } else if (r.held > 0) {
    // Before the first reference only the right one is known.
    r.oneSided += r.held;
    flush(r, time, delay, 0, delay * delay);
  }
  r.leftTime = time;
  r.leftDelay = delay;
  r.haveLeft = 1;
}

/** What waits is answered by the left reference alone, or not at all. */
function spill(r: Rli): void {
  const n = r.held;
  if (n == 0) return;
  if (r.haveLeft == 0) {
    r.unanswered += n;
    r.held = 0;
    return;
  }
  r.oneSided += n;
  // As far off as the last step between references; with one reference nothing is known of it.
  const step = r.haveBefore != 0 ? r.leftDelay - r.beforeDelay : r.leftDelay;
  flush(r, r.leftTime, r.leftDelay, 0, step * step);
}

/** Flows not seen for a while leave the table; their records are kept aside for the payload. */
function expire(r: Rli, now: f64): void {
  const flows = changetype<Flows>(r.flows);
  let before = now - r.idle;
  if (r.held > 0) before = min(before, load<f64>(r.buffer));
  r.lastExpiry = now;
  const n = flows.count;
  const fresh = changetype<Flows>(flowsNew(OWN_BYTES));
  const map = heap.alloc(<usize>n * 4);
  for (let id: u32 = 0; id < n; id++) {
    const q = flowRecord(flows, id);
    if (load<f64>(q, FLOW_HEAD + 48) < before) {
      if (r.expiredCount == r.expiredRoom) {
        r.expiredRoom = max<u32>(1024, 2 * r.expiredRoom);
        const more = heap.alloc(r.expiredRoom * RECORD);
        if (r.expired != 0) {
          memory.copy(more, r.expired, r.expiredCount * RECORD);
          heap.free(r.expired);
        }
        r.expired = <u32>more;
      }
      memory.copy(r.expired + r.expiredCount * RECORD, q, RECORD);
      r.expiredCount++;
      continue;
    }
    const to = flowsFind(fresh, load<u64>(q), load<u64>(q, 8), load<u64>(q, 16), load<u64>(q, 24), load<u64>(q, 32), load<u64>(q, 40));
    memory.copy(flowRecord(fresh, to) + FLOW_HEAD, q + FLOW_HEAD, OWN_BYTES);
    store<u32>(map + (id << 2), to);
  }
  for (let i: u32 = 0; i < r.held; i++) {
    const e = r.buffer + i * BUFFERED;
    store<u32>(e, load<u32>(map + (load<u32>(e, 8) << 2)), 8);
  }
  heap.free(map);
  flowsFree(r.flows);
  r.flows = changetype<u32>(fresh);
}

/** The flow of a new key where it is chosen and finds a place, else -1. */
function admit(r: Rli, batch: Batch, i: u32, time: f64, hash: u64, meta: u64, seed: u64): i32 {
  const o = i << 3;
  if (r.selection != 0) {
    const draw = r.selection == 1 ? load<u64>(batch.digest + o) : hash;
    if (<u32>(rehash(draw, seed) >> 32) > r.sampleBelow) {
      r.unselected++;
      return -1;
    }
  }
  if (changetype<Flows>(r.flows).count >= r.maxFlows) {
    if (r.idle > 0 && time - r.lastExpiry >= 0.25 * r.idle) expire(r, time);
    if (changetype<Flows>(r.flows).count >= r.maxFlows) {
      r.shed++;
      return -1;
    }
  }
  const flows = changetype<Flows>(r.flows);
  const id = flowsFind(
    flows, hash, meta, load<u64>(batch.addrA + o), load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
  );
  store<u32>(flowRecord(flows, id) + FLOW_HEAD, r.serial++, 16);
  return <i32>id;
}

/** Rows [from, to): references move the line, the others wait for the next one. */
export function rliUpdate(p: usize, b: usize, from: u32, to: u32, seed: u64): void {
  const r = changetype<Rli>(p);
  const batch = changetype<Batch>(b);
  const references = changetype<References>(r.references);
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const time = load<f64>(batch.time + o);
    const meta = load<u64>(batch.meta + o);
    const wire = load<u32>(batch.wireLength + (i << 2));
    const delay = referenceDelay(references, batch, i, time, meta);
    if (delay != REGULAR) {
      if (delay == delay) arrived(r, time, delay - <f64>wire * r.nsPerByte);
      continue;
    }
    r.packets++;
    const hash = load<u64>(batch.flowHash + o);
    let id = flowsPeek(
      changetype<Flows>(r.flows), hash, meta, load<u64>(batch.addrA + o), load<u64>(batch.addrB + o), load<u64>(batch.addrC + o),
      load<u64>(batch.addrD + o),
    );
    if (id < 0) {
      id = admit(r, batch, i, time, hash, meta, seed);
      if (id < 0) continue;
    }
    if (r.held == r.room) {
      if (r.haveLeft != 0) r.spilled += r.held;
      spill(r);
    }
    store<f64>(flowRecord(changetype<Flows>(r.flows), <u32>id) + FLOW_HEAD, time, 48);
    const e = r.buffer + r.held * BUFFERED;
    store<f64>(e, time);
    store<u32>(e, <u32>id, 8);
    store<u32>(e, wire, 12);
    r.held++;
  }
}

/** The epoch ends: what still waits is answered by the left reference, or counted as unanswered. */
export function rliFinish(p: usize): void {
  spill(changetype<Rli>(p));
}

// Delays for others (src/estimators/rli/reference-delays.ts): the same line, written into the delay column.

@unmanaged
class Found {
  time: f64;
  delay: f64;
}

export function referenceFinderNew(port: u32, session: i32, longest: f64): usize {
  const p = heap.alloc(offsetof<References>());
  memory.fill(p, 0, offsetof<References>());
  referencesInit(changetype<References>(p), port, session, longest);
  return p;
}
export function referenceFinderFree(p: usize): void {
  heap.free(p);
}
export function referenceFinderOrigin(p: usize, origin: i64): void {
  changetype<References>(p).origin = origin;
}
export function referenceFinderCounters(p: usize): usize {
  return p + offsetof<References>("seen");
}

/**
 * The first usable reference in rows [from, to), and its row (`to` where there is none); `found` receives {time, delay without transmission}. `select`
 * plane 1 of the batch marks packets of ours. `mark`: in the batch, references get
 * their measured delay and the flag of a reference, others of ours no delay.
 */
export function referenceFind(p: usize, b: usize, from: u32, to: u32, nsPerByte: f64, found: usize, mark: u32): u32 {
  const r = changetype<References>(p);
  const batch = changetype<Batch>(b);
  const own = batch.select + batch.capacity;
  for (let i = from; i < to; i++) {
    const time = load<f64>(batch.time + (i << 3));
    const delay = referenceDelay(r, batch, i, time, load<u64>(batch.meta + (i << 3)));
    store<u8>(own + i, delay != REGULAR ? 1 : 0);
    if (delay == REGULAR) continue;
    const used = delay == delay;
    if (mark != 0) {
      const flags = batch.flags + (i << 2);
      store<u32>(flags, load<u32>(flags) | (used ? FLAG_REFERENCE : FLAG_PROBE));
      store<f64>(batch.delay + (i << 3), delay);
    }
    if (used) {
      const at = changetype<Found>(found);
      at.time = time;
      at.delay = delay - <f64>load<u32>(batch.wireLength + (i << 2)) * nsPerByte;
      return i;
    }
  }
  return to;
}

/** Delays of rows [from, to) on the line through `delay` at `time`, but for packets of ours. Returns how many got one. */
export function referenceFill(b: usize, from: u32, to: u32, time: f64, delay: f64, slope: f64, nsPerByte: f64): u32 {
  const batch = changetype<Batch>(b);
  const own = batch.select + batch.capacity;
  let filled: u32 = 0;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    if (load<u8>(own + i) != 0) continue;
    const d = nearest<f64>(delay + slope * (load<f64>(batch.time + o) - time) + <f64>load<u32>(batch.wireLength + (i << 2)) * nsPerByte);
    store<f64>(batch.delay + o, d);
    filled++;
  }
  return filled;
}
