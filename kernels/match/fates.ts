// Outcome of each packet, one after the other, for users that want every packet and not only sums (src/match/packet-log.ts). Written only on request: otherwise
// Match.fates is 0. The owner takes the records after each call.

import { Match, PAIR_DELAY, PAIR_RAW } from "./match-state";

/** One packet, or both sightings of it. */
@unmanaged
export class Fate {
  send: f64; //    time at BEFORE on the matcher's axis; NaN if it was not seen there
  arrive: f64; //  the same at AFTER
  delay: f64; //   corrected, in its own direction; NaN without a partner
  flow: u32;
  kind: u32; //    FATE_*
}
export const FATE_BYTES: u32 = offsetof<Fate>();

@unmanaged
export class Fates {
  records: u32;
  count: u32;
  room: u32;
}

export const FATE_FORWARD: u32 = 1; //     seen at both points, from BEFORE to AFTER
export const FATE_REVERSE: u32 = 2; //     the other way
export const FATE_ONLY_BEFORE: u32 = 3; // the other capture was running: lost, or appeared in the reverse direction
export const FATE_ONLY_AFTER: u32 = 4;
export const FATE_DUPLICATE: u32 = 5;
export const FATE_HEAD_BEFORE: u32 = 6; // the other capture had not started, or had ended
export const FATE_TAIL_BEFORE: u32 = 7;
export const FATE_HEAD_AFTER: u32 = 8;
export const FATE_TAIL_AFTER: u32 = 9;
export const FATE_LINK_LOCAL: u32 = 10; // without a partner, but it never leaves its link
export const FATE_MIRRORED: u32 = 11; //  the same packet again at its source
export const FATE_AMBIGUOUS: u32 = 12; // seen at both points, but it may be one of several: no delay

const FIRST_ROOM: u32 = 4096;

function nextFate(m: Match): Fate {
  const fates = changetype<Fates>(m.fates);
  if (fates.count == fates.room) {
    fates.room <<= 1;
    fates.records = <u32>heap.realloc(fates.records, fates.room * FATE_BYTES);
  }
  return changetype<Fate>(<usize>fates.records + fates.count++ * FATE_BYTES);
}

/** Records the last n pairs of a direction, all of one flow. */
export function notePairs(m: Match, flow: u32, forward: bool, n: u32): void {
  const pairs = forward ? m.pairs : m.backPairs;
  let q = pairs + (((forward ? m.pairCount : m.backPairCount) - n) << 3);
  for (const end = q + (n << 3); q < end; q += 8) {
    const fate = nextFate(m);
    fate.send = load<f64>(q);
    fate.arrive = load<f64>(q) + load<f64>(q + m.rows * PAIR_RAW);
    fate.delay = load<f64>(q + m.rows * PAIR_DELAY);
    fate.flow = flow;
    fate.kind = forward ? FATE_FORWARD : FATE_REVERSE;
  }
}

/** Records a packet of one side without a partner. */
export function noteAlone(m: Match, side: u32, time: f64, flow: u32, kind: u32): void {
  const fate = nextFate(m);
  fate.send = side == 0 ? time : NaN;
  fate.arrive = side == 0 ? NaN : time;
  fate.delay = NaN;
  fate.flow = flow;
  fate.kind = kind;
}

/** Records two packets that may be the same. */
export function noteAmbiguous(m: Match, send: f64, arrive: f64, flow: u32): void {
  const fate = nextFate(m);
  fate.send = send;
  fate.arrive = arrive;
  fate.delay = NaN;
  fate.flow = flow;
  fate.kind = FATE_AMBIGUOUS;
}

/** Starts recording every packet. */
export function matchNoteFates(p: usize): void {
  const m = changetype<Match>(p);
  const at = heap.alloc(offsetof<Fates>());
  const fates = changetype<Fates>(at);
  fates.room = FIRST_ROOM;
  fates.count = 0;
  fates.records = <u32>heap.alloc(FIRST_ROOM * FATE_BYTES);
  m.fates = <u32>at;
}

/** Returns the address of the records so far. */
export function matchFates(p: usize): usize {
  return changetype<Fates>(changetype<Match>(p).fates).records;
}

/** Returns the number of records and resets it; later records overwrite them. */
export function matchTakeFates(p: usize): u32 {
  const fates = changetype<Fates>(changetype<Match>(p).fates);
  const count = fates.count;
  fates.count = 0;
  return count;
}

export function fatesFree(at: u32): void {
  if (at == 0) return;
  heap.free(changetype<Fates>(at).records);
  heap.free(at);
}
