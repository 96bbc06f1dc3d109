// RLI at the receiving point: delays of regular packets interpolated between reference packets, summed per flow (rli-ton, section III-B2 and C,
// equations 1-4). A bounded buffer holds the packets since the last reference {time f64, flow u32, wire u32}; when it is full they are answered
// by the left reference alone, and counted. Interpolated is what is left of a reference's delay without its own time of transmission; each
// packet's own is added, which is equation 1 for references of any size; where a packet's place on the line is, kernels/references.ts says.
//
// How far the line is off is told by the references themselves: each is predicted from its two neighbours. The squared miss, scaled from their distance to a gap's
// (`nearer`), stands for every packet of the gap behind it; packets of a flow within a gap err together, gaps err independently: errors = sum over gaps (n miss)^2, misses = sum over packets miss^2.
//
// What no neighbour tells is counted for estimate.ts: what the references' sender says of its clock; whether the drain rate is right (a reference that was in
// the queue for longer than the gap before it saw the link busy for the whole gap: the gap's bytes over its time are the rate); and whether a queue
// without backlog lets packets through at once (a token bucket): then packets follow each other nearer than they can be transmitted (`hurried`), and
// those beside references as fast as the fastest (`idle`) may not have been held for their transmission.
//
//   flow: packets u32 | in the last gap u32 | last gap u32 | gaps u32 | serial u32 | pad u32 | sum i64 | squares f64 | errors f64 | last seen f64 | misses f64
//         | excess i64 | idle i64       bytes beyond those of references, of all packets and of those in an idle queue

import { Batch } from "./batch";
import { bucketOf, Cells, cellsAdd } from "./cells";
import { rehash } from "./digest";
import { FLOW_HEAD, flowRecord, Flows, flowsFind, flowsFree, flowsNew, flowsPeek } from "./flows";
import {
  FLAG_PROBE, FLAG_REFERENCE, Line, lineForget, lineInit, lineLeft, lineStep, lineTo, onLine, referenceDelay, References, referencesClear, referencesInit,
  REGULAR,
} from "./references";

const BUFFERED: u32 = 16;
const OWN_BYTES: u32 = 80;
const RECORD: u32 = FLOW_HEAD + OWN_BYTES;
const LEVEL_WEIGHT: f64 = 0.0625;
const LEVEL_SHARE: f64 = 0.125;
/** ns: what the stamps of a capture may differ by without meaning anything. */
const STAMP_JITTER: f64 = 1000;

@unmanaged
class Rli {
  flows: u32;
  cells: u32; //      quantiles per flow; 0: none kept
  references: u32;
  buffer: u32;
  room: u32; //       entries the buffer holds
  held: u32;
  line: u32;
  maxFlows: u32;
  selection: u32; //  0 all, 1 sample and hold (by packet), 2 sampled flows
  sampleBelow: u32; // of 2^32; all are taken by selection 0
  haveBefore: u32;
  serial: u32; //     of the next new flow
  expired: u32; //    records put out of the table, `expiredCount` of them
  expiredCount: u32;
  expiredRoom: u32;
  gap: u32; //        number of the gap between references
  haveLast: u32; //   a packet of any kind has been seen, at lastTime
  // counters
  packets: u32; //    regular packets
  answered: u32;
  oneSided: u32; //   answered by one reference only
  spilled: u32; //    of those: because the buffer was full
  unanswered: u32; // no reference at all
  unselected: u32; // packets of flows that were not chosen
  shed: u32; //       packets of flows that found no place
  checked: u32; //    references predicted from their neighbours
  hurried: u32; //    packets that came sooner behind the one before than they can be transmitted
  busy: u32; //       gaps that the link was busy for
  nsPerByte: f64; //  8e9 / drain rate; 0: serialisation is not compensated
  leftTime: f64; //   when the left reference's transmission began
  leftDelay: f64; //  without transmission
  beforeTime: f64; // the reference before the left one
  beforeDelay: f64;
  miss: f64; //       squared, of the last reference predicted
  level: f64; //      its moving average
  steps: f64; //      the same of squared differences of neighbours
  strides: f64; //    and of those two apart
  idle: f64; //       flows not seen for so long may make room; 0: never
  lastExpiry: f64;
  lastTime: f64;
  bytesSince: f64; // of all packets behind the left reference
  spreadCount: f64; // delays of references so far: number, mean, sum of squares about it
  spreadMean: f64;
  spreadSquares: f64;
  // sums
  sum: i64; //        of all delays
  squares: f64;
  least: f64;
  most: f64;
  error: f64; //      squared misses, each weighed by the packets of its gap, squared
  misses: f64; //     the same, weighed by the packets
  stamps: f64; //     squared errors of the references' times, weighed by the packets
  busyBytes: f64; //  in gaps that the link was busy for
  busyTime: f64;
  drag: f64; //       transmissions of references that packets came behind
  excess: i64; //     as of a flow, of all
  idleExcess: i64;
}

export function rliNew(
  room: u32, leftOnly: u32, literal: u32, maxFlows: u32, selection: u32, sampleBelow: u32, nsPerByte: f64, idle: f64, port: u32, session: i32, longest: f64,
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
  const l = heap.alloc(offsetof<Line>());
  memory.fill(l, 0, offsetof<Line>());
  lineInit(changetype<Line>(l), nsPerByte, literal, leftOnly);
  r.line = <u32>l;
  r.maxFlows = maxFlows;
  r.selection = selection;
  r.sampleBelow = sampleBelow;
  r.nsPerByte = nsPerByte;
  r.idle = idle;
  r.flows = <u32>flowsNew(OWN_BYTES);
  rliForget(p);
  rliClear(p, 0);
  return p;
}

/** Where `packets` (10 u32), `sum` (i64, 9 f64, 2 i64) and the references' counters (`seen`, 6 u32) lie. */
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
  memory.fill(p + offsetof<Rli>("packets"), 0, 40);
  referencesClear(changetype<References>(r.references));
  r.sum = 0;
  r.squares = 0;
  r.least = Infinity;
  r.most = -Infinity;
  r.error = 0;
  r.misses = 0;
  r.stamps = 0;
  r.busyBytes = 0;
  r.busyTime = 0;
  r.drag = 0;
  r.excess = 0;
  r.idleExcess = 0;
}

/** The stream does not go on from where it was. */
export function rliForget(p: usize): void {
  const r = changetype<Rli>(p);
  lineForget(changetype<Line>(r.line));
  r.haveBefore = 0;
  r.haveLast = 0;
  r.miss = 0;
  r.level = 0;
  r.steps = 0;
  r.strides = 0;
  r.bytesSince = 0;
  r.spreadCount = 0;
  r.spreadMean = 0;
  r.spreadSquares = 0;
  changetype<References>(r.references).known = 0;
}

export function rliFree(p: usize): void {
  const r = changetype<Rli>(p);
  flowsFree(r.flows);
  if (r.expired != 0) heap.free(r.expired);
  heap.free(r.references);
  heap.free(r.line);
  heap.free(r.buffer);
  heap.free(p);
}

/** Answers everything held on the line, with its squared error and that of the references' times; beside references of `wire` bytes. */
function flush(r: Rli, told: f64, wire: u32, error: f64): void {
  const n = r.held;
  const line = changetype<Line>(r.line);
  // Whoever is next behind a reference waits for it too, which the line does not show.
  const drag = <f64>wire * r.nsPerByte;
  const miss = told + (drag * drag) / <f64>max<u32>(n, 1);
  const flows = changetype<Flows>(r.flows);
  const gap = ++r.gap;
  const time = line.time;
  const delay = line.delay;
  const slope = line.slope;
  const literal = line.literal != 0 || slope == 0;
  const nsPerByte = line.share * r.nsPerByte;
  const half: i64 = line.share < 1 ? 1 : 0;
  const idleMask: i64 = line.idle != 0 ? -1 : 0;
  let squares: f64 = 0;
  let excess: i64 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const e = r.buffer + i * BUFFERED;
    const bytes = load<u32>(e, 12);
    const d = onLine(load<f64>(e), <f64>bytes * nsPerByte, literal, time, delay, slope);
    const more = (<i64>bytes - <i64>wire) >> half;
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
    store<i64>(q, load<i64>(q, 64) + more, 64);
    store<i64>(q, load<i64>(q, 72) + (more & idleMask), 72);
    excess += more;
    r.sum += <i64>d;
    squares += d * d;
    if (d < r.least) r.least = d;
    if (d > r.most) r.most = d;
    if (r.cells != 0) cellsAdd(changetype<Cells>(r.cells), load<u32>(q, 16), bucketOf(d));
  }
  r.squares += squares;
  r.error += <f64>n * <f64>n * miss;
  r.misses += <f64>n * miss;
  r.stamps += <f64>n * error * error;
  if (n > 0) r.drag += drag;
  r.excess += excess;
  r.idleExcess += excess & idleMask;
  r.answered += n;
  r.held = 0;
}

/**
 * The mean squared error of a line over a gap, over the squared miss of a point told by its neighbours on both sides, at the distance of a gap each. It follows from
 * how fast squared differences of delays grow with distance, as d^2H: with D = 2^2H, differences two apart over those of neighbours,
 *   (2 / ((2H + 1)(2H + 2)) - 1/6) / (1 - D/4),  which is 0.5 / (D - 0.55) within 4 % for 0 <= H <= 1:
 * 1.11 where neighbours have nothing in common, 1/3 on a random walk, 0.14 where delays rise and fall smoothly.
 */
function nearer(r: Rli): f64 {
  const ratio = r.steps > 0 ? r.strides / r.steps : 1;
  return 0.5 / (min(4.0, max(1.0, ratio)) - 0.55);
}

/** A reference has arrived, with its delay as measured. */
function arrived(r: Rli, arrival: f64, whole: f64, wire: u32, error: f64): void {
  const line = changetype<Line>(r.line);
  const own = <f64>wire * r.nsPerByte;
  const time = arrival - own;
  const delay = whole - own;
  lineTo(line, arrival, whole, wire, error);
  if (line.have != 0) {
    const step = (delay - r.leftDelay) * (delay - r.leftDelay);
    let now = step;
    if (r.haveBefore != 0 && time > r.beforeTime) {
      // How well would its neighbours have told the left reference's delay? A test of the method, on the wider gap.
      const told = r.beforeDelay + ((delay - r.beforeDelay) * (r.leftTime - r.beforeTime)) / (time - r.beforeTime);
      if (line.level == 0) now = (told - r.leftDelay) * (told - r.leftDelay);
      r.checked++;
    }
    // One miss says little: it is averaged with the one before, and a share of the level of late keeps luck from looking like certainty.
    const before = r.haveBefore != 0 ? r.miss : now;
    r.level = r.haveBefore != 0 ? r.level + LEVEL_WEIGHT * (now - r.level) : now;
    r.miss = now;
    const stride = r.haveBefore != 0 ? (delay - r.beforeDelay) * (delay - r.beforeDelay) : step;
    r.steps = r.haveBefore != 0 ? r.steps + LEVEL_WEIGHT * (step - r.steps) : step;
    r.strides = r.haveBefore != 0 ? r.strides + LEVEL_WEIGHT * (stride - r.strides) : stride;
    let miss = 0.5 * (now + before) + LEVEL_SHARE * r.level;
    if (line.level == 0) miss *= nearer(r);
    if (line.busy != 0) {
      r.busy++;
      r.busyBytes += r.bytesSince;
      r.busyTime += arrival - line.arrival;
    }
    flush(r, miss, line.wire, max(error, line.error));
    r.beforeTime = r.leftTime;
    r.beforeDelay = r.leftDelay;
    r.haveBefore = 1;
  } else if (r.held > 0) {
    // Before the first reference only the right one is known, and nothing of how delays change.
    r.oneSided += r.held;
    flush(r, delay * delay, wire, error);
  }
  lineStep(line, arrival, whole, wire, error);
  const off = delay - r.spreadMean;
  r.spreadCount += 1;
  r.spreadMean += off / r.spreadCount;
  r.spreadSquares += off * (delay - r.spreadMean);
  r.leftTime = time;
  r.leftDelay = delay;
  r.bytesSince = 0;
}

/** What waits is answered by the left reference alone, or not at all. */
function spill(r: Rli): void {
  const n = r.held;
  const line = changetype<Line>(r.line);
  if (n == 0) return;
  if (line.have == 0) {
    r.unanswered += n;
    r.held = 0;
    return;
  }
  r.oneSided += n;
  // As far off as the last step between references; after a longer time than that took, as far as any two delays are; with one reference nothing is known.
  let miss = r.leftDelay * r.leftDelay;
  if (r.haveBefore != 0) {
    miss = (r.leftDelay - r.beforeDelay) * (r.leftDelay - r.beforeDelay);
    const waited = load<f64>(r.buffer + (n - 1) * BUFFERED) - r.leftTime;
    if (waited > 2 * (r.leftTime - r.beforeTime)) miss = max(miss, (2 * r.spreadSquares) / r.spreadCount);
  }
  lineLeft(line);
  flush(r, miss, line.wire, line.error);
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
    if (r.haveLast != 0 && time - r.lastTime + STAMP_JITTER < 0.5 * <f64>wire * r.nsPerByte) r.hurried++;
    r.haveLast = 1;
    r.lastTime = time;
    r.bytesSince += <f64>wire;
    const delay = referenceDelay(references, batch, i, time, meta);
    if (delay != REGULAR) {
      if (delay == delay) arrived(r, time, delay, wire, references.error);
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
      if (changetype<Line>(r.line).have != 0) r.spilled += r.held;
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
class Finder {
  references: References;
  line: Line;
}

/** What a reference tells: its delay as measured, and the line of the gap that it ends; `sided`: there was no reference before it. */
@unmanaged
class Found {
  whole: f64;
  time: f64;
  delay: f64;
  slope: f64;
  share: f64;
  sided: f64;
}

export function referenceFinderNew(port: u32, session: i32, longest: f64, nsPerByte: f64): usize {
  const p = heap.alloc(offsetof<Finder>());
  const f = changetype<Finder>(p);
  f.references = changetype<References>(heap.alloc(offsetof<References>()));
  memory.fill(changetype<usize>(f.references), 0, offsetof<References>());
  referencesInit(f.references, port, session, longest);
  f.line = changetype<Line>(heap.alloc(offsetof<Line>()));
  memory.fill(changetype<usize>(f.line), 0, offsetof<Line>());
  lineInit(f.line, nsPerByte, 0, 0);
  return p;
}
export function referenceFinderFree(p: usize): void {
  heap.free(changetype<usize>(changetype<Finder>(p).references));
  heap.free(changetype<usize>(changetype<Finder>(p).line));
  heap.free(p);
}
export function referenceFinderOrigin(p: usize, origin: i64): void {
  changetype<Finder>(p).references.origin = origin;
}
export function referenceFinderCounters(p: usize): usize {
  return changetype<usize>(changetype<Finder>(p).references) + offsetof<References>("seen");
}

/**
 * The first usable reference in rows [from, to), and its row (`to` where there is none); `found` receives what it tells. `select` plane 1 of the batch marks packets of
 * ours. `mark`: in the batch, references get their measured delay and the flag of a reference, others of ours no delay.
 */
export function referenceFind(p: usize, b: usize, from: u32, to: u32, found: usize, mark: u32): u32 {
  const f = changetype<Finder>(p);
  const r = f.references;
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
      const wire = load<u32>(batch.wireLength + (i << 2));
      const at = changetype<Found>(found);
      at.sided = f.line.have == 0 ? 1 : 0;
      lineTo(f.line, time, delay, wire, r.error);
      at.whole = delay;
      tell(f.line, at);
      lineStep(f.line, time, delay, wire, r.error);
      return i;
    }
  }
  return to;
}

/** Where no reference comes any more: the line of the last one; 0 where there was none. */
export function referenceLast(p: usize, found: usize): u32 {
  const line = changetype<Finder>(p).line;
  if (line.have == 0) return 0;
  lineLeft(line);
  const at = changetype<Found>(found);
  at.sided = 1;
  tell(line, at);
  return 1;
}

function tell(line: Line, at: Found): void {
  at.time = line.time;
  at.delay = line.delay;
  at.slope = line.slope;
  at.share = line.share;
}

/** Delays of rows [from, to) on a line that was found, but for packets of ours. Returns how many got one. */
export function referenceFill(b: usize, from: u32, to: u32, found: usize, nsPerByte: f64): u32 {
  const batch = changetype<Batch>(b);
  const own = batch.select + batch.capacity;
  const at = changetype<Found>(found);
  let filled: u32 = 0;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    if (load<u8>(own + i) != 0) continue;
    const transmission = <f64>load<u32>(batch.wireLength + (i << 2)) * at.share * nsPerByte;
    store<f64>(batch.delay + o, onLine(load<f64>(batch.time + o), transmission, at.slope == 0, at.time, at.delay, at.slope));
    filled++;
  }
  return filled;
}
