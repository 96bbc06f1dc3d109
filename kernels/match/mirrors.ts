// Mirror ports: a capture has packets twice, one beside the other, where they come from. Nobody has sent them twice, so a copy without a partner is no loss. Some
// mirrors give every packet twice (what comes in and what goes out), some only those of one port or VLAN.
//
// Test, whatever the share: packets that were sent twice arrive twice but for loss; of packets that a mirror has doubled one arrives, as of all others. Where what arrives took,
// from the second on, as long as others did, and longer from the first on, the first ones were lost and sent again: no mirror. A capture that has nearly every packet
// twice is mirrored, also where the other one is.

import { directionOf, Flow, flowIn, flowSegments, faultsOf, FlowStats } from "../flows/flow-records";
import { FATE_DUPLICATE, FATE_MIRRORED, noteAlone } from "./fates";
import { Match, Total } from "./match-state";
import { nameBefore } from "./names";
import { boundsAt, meanApart, TWICE } from "./repeat-fit";
import { at, loadGroup, n0, n1, rows0, rows1 } from "./repeat-rows";
import { groupOf, Repeats, rowOf } from "./repeats";

/** A mirror's copy is closer to its packet than the next packet is. */
const CLOSER: f64 = 0.5;
/** Packets that are twice, at least, of a mirrored capture. */
const LEAST_TWICE: f64 = 16;
/** A capture where this share of the packets is there twice is mirrored. */
export const MOST_OF: f64 = 0.8;
/** Of packets that are twice, the share that arrives once is above this, and above so many times what loss makes of packets that were sent twice. */
const LEAST_ONCE: f64 = 0.1;
const TIMES_LOSS: f64 = 3;
/** However high the loss. */
const SURELY_ONCE: f64 = 0.95;
/** Standard errors that the lateness of packets sent again is apart from none. */
const ERRORS: f64 = 4;
/** Fewer packets do not show how many are lost. */
const FEW: f64 = 64;
/** In place of a partner: a copy, which is none of the packets that are paired or judged. */
const MIRRORED: u32 = 0xffffffff;

/** Bit 0: of packets that come from BEFORE, BEFORE has copies; bit 1: the same of AFTER. */
let sides: u32 = 0;

/** Copies of packets where they come from are a mirror's. */
export function isMirrored(side: u32): bool {
  return ((sides >> side) & 1) != 0;
}

function flowOf(m: Match): Flow {
  return flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(n0 > 0 ? rows0 : rows1, 0).flow);
}

/** The side that the digest's packets come from; of flows of which every packet is there twice none was paired yet, and their first difference tells. */
function sourceOf(m: Match): u32 {
  const direction = directionOf(flowOf(m));
  if (direction != 0) return direction == 2 ? 1 : 0;
  if (n0 == 0 || n1 == 0) return n0 > 0 ? 0 : 1;
  return at(rows1, 0).time - at(rows0, 0).time >= m.threshold ? 0 : 1;
}

/** Packets of the digest are at one point twice, one beside the other, and further from the next ones. */
function isInTwos(side: u32): bool {
  const rows = side == 0 ? rows0 : rows1;
  const n = side == 0 ? n0 : n1;
  if ((n & 1) != 0) return false;
  let within: f64 = 0;
  for (let i: u32 = 0; i < n; i += 2) {
    const apart = at(rows, i + 1).time - at(rows, i).time;
    if (apart > TWICE) return false;
    within += apart;
  }
  if (n < 4) return true;
  const between = at(rows, n - 1).time - at(rows, 0).time - within;
  return within / <f64>(n >> 1) <= (CLOSER * between) / <f64>((n >> 1) - 1);
}

// Of digests that are twice where they come from and of which one has arrived, by that side: how many, by how much they took longer from the first on than others did, its square,
// and how far the two are apart.
const once = new StaticArray<f64>(2);
const late = new StaticArray<f64>(2);
const lateSquares = new StaticArray<f64>(2);
const gaps = new StaticArray<f64>(2);
// Those of which several have arrived, or none.
const more = new StaticArray<f64>(2);
const gone = new StaticArray<f64>(2);

function countOnce(m: Match, source: u32): void {
  const back = source == 1;
  const rows = back ? rows1 : rows0;
  once[source] += 1;
  if (changetype<Total>(back ? m.reverse : m.forward).matched == 0) return;
  boundsAt(m, flowOf(m), back, at(rows0, 0).time);
  const apart = at(rows1, 0).time - at(rows0, 0).time;
  const longer = back ? meanApart - apart : apart - meanApart;
  late[source] += longer;
  lateSquares[source] += longer * longer;
  gaps[source] += at(rows, 1).time - at(rows, 0).time;
}

/** It is the second that arrived, as far as their number shows it. */
function areSentAgain(source: u32): bool {
  const n = once[source];
  if (n == 0) return false;
  const mean = late[source] / n;
  const half = gaps[source] / n / 2;
  const error = Math.sqrt(max<f64>(0, lateSquares[source] / n - mean * mean) / n);
  return mean > half && half > ERRORS * error;
}

/** The share that arrives once of packets that were sent twice, by the loss of the others; of `all` that are twice, `gone` did not arrive. */
function onceByLoss(m: Match, source: u32, gone: f64, all: f64): f64 {
  const matched = <f64>changetype<Total>(source == 1 ? m.reverse : m.forward).matched;
  const alone = source == 1 ? m.onlyAfter : m.onlyBefore;
  // Of packets sent twice both are lost.
  const loss = matched + alone < FEW ? Math.sqrt(gone / all) : alone / (matched + alone);
  return (2 * loss) / (1 + loss);
}

/** Before anything is paired: which sides have copies of a mirror. */
export function findMirrors(m: Match, r: Repeats): void {
  for (let source: u32 = 0; source < 2; source++) {
    once[source] = 0;
    late[source] = 0;
    lateSquares[source] = 0;
    gaps[source] = 0;
    more[source] = 0;
    gone[source] = 0;
  }
  let inTwos: f64 = 0;
  let inTwosAfter: f64 = 0;
  let after: f64 = 0;
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    if (n0 > 1) m.repeated0 += n0;
    if (n1 > 1) m.repeated1 += n1;
    after += <f64>n1;
    if (isInTwos(1)) inTwosAfter += <f64>n1;
    if (isInTwos(0)) inTwos += <f64>n0;
    if (n0 + n1 == 0) continue;
    const source = sourceOf(m);
    if ((source == 0 ? n0 : n1) != 2 || !isInTwos(source)) continue;
    const arrived = source == 0 ? n1 : n0;
    if (arrived == 0) gone[source] += 1;
    else if (arrived > 1) more[source] += 1;
    else countOnce(m, source);
  }
  const nearlyAll = inTwos > LEAST_TWICE && inTwos > MOST_OF * m.seen0;
  sides = nearlyAll ? 1 : 0;
  if (nearlyAll && inTwosAfter > MOST_OF * after) sides |= 2;
  for (let source: u32 = 0; source < 2; source++) {
    if (areSentAgain(source)) continue;
    once[source] += source == 0 ? m.copied0 : m.copied1;
    const arrived = once[source] + more[source];
    if (once[source] < LEAST_TWICE) continue;
    const usual = onceByLoss(m, source, gone[source], arrived + gone[source]);
    const least = min<f64>(SURELY_ONCE, min<f64>(max<f64>(LEAST_ONCE, TIMES_LOSS * usual), (1 + usual) / 2));
    if (once[source] >= least * arrived) sides |= 1 << source;
  }
}

/** No more than a packet and its copy lie beside each other: else which of them are copies cannot be known. */
function isClear(rows: u32, n: u32): bool {
  for (let i: u32 = 2; i < n; i++) if (at(rows, i).time - at(rows, i - 2).time <= TWICE) return false;
  return true;
}

/** Takes a mirror's copies at one side out of what is paired and judged. */
function hideCopies(side: u32): void {
  const rows = side == 0 ? rows0 : rows1;
  const n = side == 0 ? n0 : n1;
  if (!isClear(rows, n)) return;
  for (let i: u32 = 1; i < n; i++) {
    const one = at(rows, i - 1);
    if (at(rows, i).time - one.time <= TWICE && one.partner != MIRRORED) at(rows, i).partner = MIRRORED;
  }
}

/** Where packets come from; where that is not known yet, at either side. */
export function hideMirrored(m: Match, r: Repeats): void {
  if (sides == 0) return;
  for (let number: u32 = 1; number <= r.count; number++) {
    loadGroup(r, groupOf(r, number));
    if (n0 + n1 == 0) continue;
    const direction = directionOf(flowOf(m));
    if (direction != 2 && isMirrored(0)) hideCopies(0);
    if (direction != 1 && isMirrored(1)) hideCopies(1);
  }
}

/** When the others are paired: copies where packets come from are the mirror's, copies where they arrive are duplicates. */
export function countMirrored(m: Match, r: Repeats): void {
  if (sides == 0) return;
  for (let number: u32 = 1; number <= r.count; number++) {
    countHidden(m, r, groupOf(r, number).first0, 0);
    countHidden(m, r, groupOf(r, number).first1, 1);
  }
}

function countHidden(m: Match, r: Repeats, first: u32, side: u32): void {
  const stats = changetype<FlowStats>(m.stats);
  for (let number = first; number != 0; ) {
    const row = rowOf(r, number);
    number = row.next;
    if (row.partner != MIRRORED) continue;
    if (m.nat != 0 && side == 1) row.flow = nameBefore(m, row.flow);
    const flow = flowIn(flowSegments(stats), row.flow);
    const atSource = (directionOf(flow) == 2) == (side == 1);
    if (atSource) faultsOf(stats, flow).mirrored++;
    else faultsOf(stats, flow).duplicates++;
    if (m.fates != 0) noteAlone(m, side, row.time, row.flow, atSource ? FATE_MIRRORED : FATE_DUPLICATE);
  }
}
