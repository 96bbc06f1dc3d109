// RLI at the receiving point: delays of regular packets interpolated between reference packets, summed per flow (rli-ton, section III-B2 and C,
// equations 1-4). A bounded buffer holds the packets since the last reference {time f64, flow u32, wire u32}; when it is full they are answered
// by the left reference alone, and counted. Records: kernels/flows.ts with the owner's part below.
//
//   flow: packets u32 | intervals u32 | lastInterval u32 | pad u32 | sum i64 | squares f64 | least f64 | most f64

import { Batch } from "./batch";
import { bucketOf, Cells, cellsAdd } from "./cells";
import { FLOW_HEAD, flowRecord, Flows, flowsFind, flowsPeek } from "./flows";
import { rehash } from "./digest";

const BUFFERED: u32 = 16;
const REFERENCE_FLAG: u32 = 1 << 22;
const OWN_FLAGS: u32 = (1 << 22) | (1 << 23);
export const RLI_FLOW_BYTES: u32 = 48;

@unmanaged
class Rli {
  flows: u32;
  cells: u32; //      quantiles per flow; 0: none kept
  buffer: u32;
  room: u32; //       entries the buffer holds
  held: u32;
  leftOnly: u32; //   1: RLI-L
  port: u32; //       UDP port of reference packets
  session: u32;
  anySession: u32;
  maxFlows: u32;
  selection: u32; //  0 all, 1 sample and hold (by packet), 2 sampled flows
  sampleBelow: u32; // of 2^32
  haveLeft: u32;
  haveBefore: u32;
  sequenceKnown: u32;
  lastSequence: u32;
  // counters
  packets: u32; //    regular packets
  answered: u32;
  oneSided: u32; //   answered by one reference only
  spilled: u32; //    of those: because the buffer was full
  unanswered: u32; // no reference at all
  unselected: u32; // packets of flows that were not chosen
  shed: u32; //       packets of flows that found no place
  references: u32;
  lostReferences: u32;
  duplicateReferences: u32;
  reorderedReferences: u32;
  forgedReferences: u32;
  interval: u32; //   number of the gap between references
  checked: u32; //    references predicted from their neighbours
  referenceBytes: u32;
  pad: u32;
  nsPerByte: f64; //  8e9 / drain rate; 0: serialisation is not compensated
  leftTime: f64;
  leftDelay: f64;
  beforeTime: f64; // the reference before the left one
  beforeDelay: f64;
  origin: i64; //     ns since 1970 of time 0
  sum: i64; //        of all delays
  squares: f64;
  least: f64;
  most: f64;
  error: f64; //      sum of squared errors of references predicted from their neighbours, weighed by the packets around them
  weight: f64;
  around: f64; //     packets since the reference before the left one
  maxDelay: f64; //   a reference beyond this is not believed
}

export function rliNew(room: u32, quantiles: u32): usize {
  const p = heap.alloc(offsetof<Rli>());
  memory.fill(p, 0, offsetof<Rli>());
  const r = changetype<Rli>(p);
  r.room = room;
  r.buffer = <u32>heap.alloc(room * BUFFERED);
  r.cells = quantiles;
  return p;
}

export function rliConfigure(
  p: usize, flows: usize, leftOnly: u32, port: u32, session: i32, maxFlows: u32, selection: u32, sampleBelow: u32, referenceBytes: u32,
  nsPerByte: f64, maxDelay: f64,
): void {
  const r = changetype<Rli>(p);
  r.flows = <u32>flows;
  r.leftOnly = leftOnly;
  r.port = port;
  r.anySession = session < 0 ? 1 : 0;
  r.session = <u32>session;
  r.maxFlows = maxFlows;
  r.selection = selection;
  r.sampleBelow = sampleBelow;
  r.referenceBytes = referenceBytes;
  r.nsPerByte = nsPerByte;
  r.maxDelay = maxDelay;
}

/** Address of the counters: u32 from `packets` on; f64 from `nsPerByte` on. */
export function rliCounters(p: usize): usize {
  return p + offsetof<Rli>("packets");
}
export function rliSums(p: usize): usize {
  return p + offsetof<Rli>("sum");
}

/** A new epoch: counters and flows begin anew (the caller frees them); references stay known. */
export function rliBegin(p: usize, flows: usize, cells: usize, origin: i64): void {
  const r = changetype<Rli>(p);
  r.flows = <u32>flows;
  r.cells = <u32>cells;
  r.origin = origin;
  memory.fill(p + offsetof<Rli>("packets"), 0, offsetof<Rli>("checked") - offsetof<Rli>("packets"));
  r.checked = 0;
  r.sum = 0;
  r.squares = 0;
  r.least = Infinity;
  r.most = -Infinity;
  r.error = 0;
  r.weight = 0;
  r.around = 0;
}

export function rliFree(p: usize): void {
  heap.free(changetype<Rli>(p).buffer);
  heap.free(p);
}

/** Equation 1's result for one packet goes to its flow (equations 2-4). */
// @ts-ignore: decorator
@inline
function account(r: Rli, flow: u32, delay: f64): void {
  const d = nearest<f64>(delay);
  const q = flowRecord(changetype<Flows>(r.flows), flow) + FLOW_HEAD;
  const n = load<u32>(q);
  store<u32>(q, n + 1);
  if (n == 0 || load<u32>(q, 8) != r.interval) {
    store<u32>(q, load<u32>(q, 4) + 1, 4);
    store<u32>(q, r.interval, 8);
  }
  store<i64>(q, load<i64>(q, 16) + <i64>d, 16);
  store<f64>(q, load<f64>(q, 24) + d * d, 24);
  if (n == 0 || d < load<f64>(q, 32)) store<f64>(q, d, 32);
  if (n == 0 || d > load<f64>(q, 40)) store<f64>(q, d, 40);
  r.sum += <i64>d;
  r.squares += d * d;
  if (d < r.least) r.least = d;
  if (d > r.most) r.most = d;
  r.answered++;
  if (r.cells != 0) cellsAdd(changetype<Cells>(r.cells), flow, bucketOf(d));
}

/** Answers everything held: on the line through two points (a delay at a time), or level where there is one. */
function flush(r: Rli, time: f64, delay: f64, slope: f64): void {
  const n = r.held;
  for (let i: u32 = 0; i < n; i++) {
    const e = r.buffer + i * BUFFERED;
    const bytes = <f64>load<u32>(e, 12) - <f64>r.referenceBytes;
    account(r, load<u32>(e, 8), delay + slope * (load<f64>(e) - time) + bytes * r.nsPerByte);
  }
  r.held = 0;
}

/** A reference with its delay has arrived. */
function reference(r: Rli, time: f64, delay: f64): void {
  r.references++;
  if (r.haveLeft != 0) {
    // How well would its neighbours have told the left reference's delay? A test of the method on the wider gap.
    if (r.haveBefore != 0 && time > r.beforeTime) {
      const told = r.beforeDelay + ((delay - r.beforeDelay) * (r.leftTime - r.beforeTime)) / (time - r.beforeTime);
      const miss = told - r.leftDelay;
      const weight = 1 + <f64>r.held + r.around;
      r.error += weight * miss * miss;
      r.weight += weight;
      r.checked++;
    }
    r.around = <f64>r.held;
    if (r.leftOnly != 0) flush(r, r.leftTime, r.leftDelay, 0);
    else flush(r, r.leftTime, r.leftDelay, time > r.leftTime ? (delay - r.leftDelay) / (time - r.leftTime) : 0);
    r.beforeTime = r.leftTime;
    r.beforeDelay = r.leftDelay;
    r.haveBefore = 1;
  } else if (r.held > 0) {
    // Before the first reference only the right one is known.
    r.oneSided += r.held;
    flush(r, time, delay, 0);
  }
  r.leftTime = time;
  r.leftDelay = delay;
  r.haveLeft = 1;
  r.interval++;
}

/** A STAMP packet in the capture: its delay, or NaN where it is not to be used. */
function stampDelay(r: Rli, header: usize, captured: u32, time: f64): f64 {
  const v6 = load<u8>(header) >> 4 == 6;
  const at: u32 = (v6 ? 40 : (<u32>(load<u8>(header) & 15)) << 2) + 8;
  if (captured < at + 16) {
    r.forgedReferences++;
    return NaN;
  }
  const p = header + at;
  const sequence = bswap<u32>(load<u32>(p));
  const seconds = <i64>bswap<u32>(load<u32>(p, 4));
  const fraction = <i64>bswap<u32>(load<u32>(p, 8));
  const error = bswap<u16>(load<u16>(p, 12));
  const session = <u32>bswap<u16>(load<u16>(p, 14));
  let sent: i64;
  if ((error & 0x4000) != 0) sent = seconds * 1000000000 + fraction;
  else sent = (seconds - 2208988800) * 1000000000 + ((fraction * 1000000000) >> 32);
  const delay = <f64>(r.origin + <i64>time - sent);
  if ((r.anySession == 0 && session != r.session) || abs<f64>(delay) > r.maxDelay || ((error & 0x4000) != 0 && fraction >= 1000000000)) {
    r.forgedReferences++;
    return NaN;
  }
  if (r.sequenceKnown != 0) {
    const step = <i32>(sequence - r.lastSequence);
    if (step == 0) {
      r.duplicateReferences++;
      return NaN;
    }
    if (step < 0) {
      r.reorderedReferences++;
      return NaN;
    }
    r.lostReferences += <u32>step - 1;
  }
  r.sequenceKnown = 1;
  r.lastSequence = sequence;
  return delay;
}

/** Rows [from, to): references move the line, the others wait for the next one. */
export function rliUpdate(p: usize, b: usize, from: u32, to: u32, seed: u64): void {
  const r = changetype<Rli>(p);
  const batch = changetype<Batch>(b);
  const flows = changetype<Flows>(r.flows);
  const own: u64 = ((<u64>17) << 32) | <u64>r.port;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    const time = load<f64>(batch.time + o);
    const flags = load<u32>(batch.flags + (i << 2));
    if ((flags & OWN_FLAGS) != 0) {
      // Simulated references carry their true delay; probes are not regular packets.
      if ((flags & REFERENCE_FLAG) != 0) reference(r, time, load<f64>(batch.delay + o));
      continue;
    }
    const meta = load<u64>(batch.meta + o);
    if ((meta & 0xff0000ffff) == own) {
      const header = load<u32>(batch.header + (i << 2));
      if (header != 0) {
        const delay = stampDelay(r, header, load<u32>(batch.captured + (i << 2)), time);
        if (delay == delay) reference(r, time, delay);
        continue;
      }
    }
    r.packets++;
    const hash = load<u64>(batch.flowHash + o);
    let id: u32;
    if (r.selection == 0 && flows.count < r.maxFlows) {
      id = flowsFind(
        flows, hash, meta, load<u64>(batch.addrA + o), load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
      );
    } else {
      const known = flowsPeek(
        flows, hash, meta, load<u64>(batch.addrA + o), load<u64>(batch.addrB + o), load<u64>(batch.addrC + o), load<u64>(batch.addrD + o),
      );
      if (known < 0) {
        const draw = r.selection == 1 ? load<u64>(batch.digest + o) : hash;
        if (r.selection != 0 && <u32>(rehash(draw, seed) >> 32) >= r.sampleBelow) {
          r.unselected++;
          continue;
        }
        if (flows.count >= r.maxFlows) {
          r.shed++;
          continue;
        }
        id = flowsFind(
          flows, hash, meta, load<u64>(batch.addrA + o), load<u64>(batch.addrB + o), load<u64>(batch.addrC + o),
          load<u64>(batch.addrD + o),
        );
      } else id = <u32>known;
    }
    if (r.held == r.room) {
      // Bounded: what waited longest is answered by the left reference alone, or not at all.
      if (r.haveLeft != 0) {
        r.spilled += r.held;
        r.oneSided += r.held;
        flush(r, r.leftTime, r.leftDelay, 0);
      } else {
        r.unanswered += r.held;
        r.held = 0;
      }
    }
    const e = r.buffer + r.held * BUFFERED;
    store<f64>(e, time);
    store<u32>(e, id, 8);
    store<u32>(e, load<u32>(batch.wireLength + (i << 2)), 12);
    r.held++;
  }
}

/** The epoch ends: what still waits is answered by the left reference, or counted as unanswered. */
export function rliFinish(p: usize): void {
  const r = changetype<Rli>(p);
  if (r.held == 0) return;
  if (r.haveLeft != 0) {
    r.oneSided += r.held;
    flush(r, r.leftTime, r.leftDelay, 0);
  } else {
    r.unanswered += r.held;
    r.held = 0;
  }
}
