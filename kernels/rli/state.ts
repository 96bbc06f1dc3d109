// State of RLI's tap at the receiving point: creation, clearing at the end of an epoch, freeing. src/estimators/rli/tap.ts reads the counters and sums.
//
//   flow: packets u32 | in the last gap u32 (packets; f32 sum of their errors if backlogs count) | last gap u32 | gaps u32 | serial u32 | doubt f32 | sum i64 | squares f64 | errors f64 | last seen f64 | misses f64
//         | excess i64 | idle i64       bytes in excess of those of references, of all packets and of those in an idle queue
//   doubt: sum of the amounts added for backlogs, times the standard error of their share over the share: this error is common to all packets

import { FLOW_HEAD, flowsFree, flowsNew } from "../flows/flows";
import { References, referencesClear, referencesForget, referencesFree, referencesNew, referencesTrust } from "./references";
import { gapForget, gapFree, gapNew, Gap } from "./gap";

/** Size of a packet that waits for the next reference: time f64, flow u32, wire u32, backlog f64. */
export const BUFFERED: u32 = 24;
/** Number of a flow that is not kept: its packets count for the segment only. */
export const NO_FLOW: u32 = 0xffffffff;
export const OWN_BYTES: u32 = 80;
export const RECORD: u32 = FLOW_HEAD + OWN_BYTES;

@unmanaged
export class Rli {
  flows: u32;
  cells: u32; //      quantiles per flow; 0: none kept
  references: u32;
  buffer: u32;
  room: u32; //       entries the buffer holds
  held: u32;
  between: u32; //    what the references beside tell (kernels/rli/gap.ts)
  maxFlows: u32;
  selection: u32; //  0 all, 1 sample and hold (by packet), 2 sampled flows
  sampleBelow: u32; // of 2^32; all are taken by selection 0
  serial: u32; //     of the next new flow
  expired: u32; //    records put out of the table, `expiredCount` of them
  expiredCount: u32;
  expiredRoom: u32;
  gap: u32; //        number of the gap between references
  every: u32; //      every so-manyth regular packet whose delay is known is a reference (rli-ton, section IV-A); 0: none
  since: u32; //      regular packets with a delay since the last such
  // Counters.
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
  idle: f64; //       flows not seen for so long may make room; 0: never
  lastExpiry: f64;
  bytesSince: f64; // of all packets behind the left reference
  // Sums.
  sum: i64; //        of all delays
  squares: f64;
  minimum: f64;
  maximum: f64;
  error: f64; //      squared misses, each weighed by the packets of its gap, squared
  misses: f64; //     the same, weighed by the packets
  timestamps: f64; // squared errors of the references' times, weighed by the packets
  busyBytes: f64; //  in gaps that the link was busy for
  busyTime: f64;
  drag: f64; //       transmissions of references that packets came behind
  excess: i64; //     as of a flow, of all
  idleExcess: i64;
  doubt: f64; //      as of a flow
}

export function rliNew(room: u32, leftOnly: u32, line: u32, nsPerByte: f64, port: u32, session: i32, longest: f64): usize {
  const p = heap.alloc(offsetof<Rli>());
  memory.fill(p, 0, offsetof<Rli>());
  const r = changetype<Rli>(p);
  r.references = changetype<u32>(referencesNew(port, session, longest));
  r.room = room;
  r.buffer = <u32>heap.alloc(room * BUFFERED);
  r.between = changetype<u32>(gapNew(nsPerByte, line, leftOnly));
  r.maxFlows = 0xffffffff;
  r.nsPerByte = nsPerByte;
  r.flows = <u32>flowsNew(OWN_BYTES);
  rliForget(p);
  rliClear(p, 0);
  return p;
}

/** Sets which flows are kept, and which regular packets serve as references. */
export function rliSelect(p: usize, maxFlows: u32, selection: u32, sampleBelow: u32, idle: f64, every: u32): void {
  const r = changetype<Rli>(p);
  r.maxFlows = maxFlows;
  r.selection = selection;
  r.sampleBelow = sampleBelow;
  r.idle = idle;
  r.every = every;
}

/** See referencesTrust. */
export function rliTrust(p: usize, header: usize, authenticated: u32): void {
  referencesTrust(changetype<References>(changetype<Rli>(p).references), header, authenticated);
}

/** Returns the address of `packets` (10 u32), `sum` (i64, 9 f64, 2 i64, f64) and the references' counters (`seen`, 6 u32). */
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

/** Resets counters and flows, with `cells` for quantiles (0: none). The last references are kept. */
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
  r.minimum = Infinity;
  r.maximum = -Infinity;
  r.error = 0;
  r.misses = 0;
  r.timestamps = 0;
  r.busyBytes = 0;
  r.busyTime = 0;
  r.drag = 0;
  r.excess = 0;
  r.idleExcess = 0;
  r.doubt = 0;
}

/** Resets the references: the stream does not continue from where it was. */
export function rliForget(p: usize): void {
  const r = changetype<Rli>(p);
  gapForget(changetype<Gap>(r.between));
  r.bytesSince = 0;
  r.since = 0;
  referencesForget(changetype<References>(r.references));
}

export function rliFree(p: usize): void {
  const r = changetype<Rli>(p);
  flowsFree(r.flows);
  if (r.expired != 0) heap.free(r.expired);
  referencesFree(changetype<References>(r.references));
  gapFree(changetype<Gap>(r.between));
  heap.free(r.buffer);
  heap.free(p);
}
