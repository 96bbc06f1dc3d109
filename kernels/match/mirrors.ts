// Mirror ports: a capture contains packets twice, right behind each other, at their source. They were sent only once, so a copy without a partner is not lost.
// Some mirrors copy every packet (what comes in and what goes out), some only those of one port or VLAN.
//
// Test, whatever the share of copies: a packet that was sent twice arrives twice unless lost; of a packet that a mirror copied one arrives, as of all others.
// If the delay of the arriving one is usual counted from the second copy, and longer from the first, then the first was lost and retransmitted: no mirror. A
// capture with nearly every packet twice is mirrored, even if the other one is, too.

import { directionOf, Flow, flowIn, flowSegments, faultsOf, FlowStats } from "../flows/flow-records";
import { FATE_DUPLICATE, FATE_MIRRORED, noteAlone } from "./fates";
import { Match, Total } from "./match-state";
import { nameBefore } from "./names";
import { boundsAt, meanApart, TWICE } from "./repeat-fit";
import { at, loadGroup, n0, n1, rows0, rows1 } from "./repeat-rows";
import { groupOf, Repeats, rowOf } from "./repeats";

/** The distance of a mirror's copy from its packet is at most this share of the distance to the next packet. */
const CLOSER: f64 = 0.5;
/** Minimum number of doubled packets in a mirrored capture. */
const LEAST_TWICE: f64 = 16;
/** A capture with this share of packets twice is mirrored. */
export const MOST_OF: f64 = 0.8;
/** For a mirror, the share of doubled packets that arrive once must exceed this, and TIMES_LOSS times what loss explains for packets that were sent twice. */
const LEAST_ONCE: f64 = 0.1;
const TIMES_LOSS: f64 = 3;
/** Sufficient share, however high the loss. */
const SURELY_ONCE: f64 = 0.95;
/** Minimum lateness of retransmitted packets, in standard errors. */
const ERRORS: f64 = 4;
/** Number of packets from which their lateness is known. */
const FEWEST_LATE: f64 = 8;
/** Fewer packets do not show the loss. */
const FEW: f64 = 64;
/** Stored as partner: a mirror's copy, which is neither paired nor judged. */
const MIRRORED: u32 = 0xffffffff;

/** Bit 0: BEFORE has copies of packets sent from its side; bit 1: the same for AFTER. */
let sides: u32 = 0;

/** Returns whether copies at the source are a mirror's. */
export function isMirrored(side: u32): bool {
  return ((sides >> side) & 1) != 0;
}

function flowOf(m: Match): Flow {
  return flowIn(flowSegments(changetype<FlowStats>(m.stats)), at(n0 > 0 ? rows0 : rows1, 0).flow);
}

/** Returns the side where the digest's packets are sent; if every packet of a flow occurs twice none was paired yet, and the first difference decides. */
function sourceOf(m: Match): u32 {
  const direction = directionOf(flowOf(m));
  if (direction != 0) return direction == 2 ? 1 : 0;
  if (n0 == 0 || n1 == 0) return n0 > 0 ? 0 : 1;
  return at(rows1, 0).time - at(rows0, 0).time >= m.threshold ? 0 : 1;
}

/** Returns whether the digest's packets at one point come in twos, right behind each other and further from the next ones. */
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

// Digests that occur twice at the source and arrived once, by source side: their number, the excess delay counted from the first copy, its square, and the
// distance of the two copies.
const once = new StaticArray<f64>(2);
const late = new StaticArray<f64>(2);
const lateSquares = new StaticArray<f64>(2);
const gaps = new StaticArray<f64>(2);
// Those that arrived several times, or not at all.
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

/** Returns whether the second copy is the one that arrived, as far as their number shows it. */
function areSentAgain(source: u32): bool {
  const n = once[source];
  if (n < FEWEST_LATE) return false;
  const mean = late[source] / n;
  const half = gaps[source] / n / 2;
  const error = Math.sqrt(max<f64>(0, lateSquares[source] / n - mean * mean) / n);
  return mean > half && half > ERRORS * error;
}

/** Returns the share that arrives once of packets sent twice, from the loss of the others; of `all` doubled packets, `gone` did not arrive. */
function onceByLoss(m: Match, source: u32, gone: f64, all: f64): f64 {
  const matched = <f64>changetype<Total>(source == 1 ? m.reverse : m.forward).matched;
  const alone = source == 1 ? m.onlyAfter : m.onlyBefore;
  // Of packets sent twice, both are lost.
  const loss = matched + alone < FEW ? Math.sqrt(gone / all) : alone / (matched + alone);
  return (2 * loss) / (1 + loss);
}

/** Finds which sides have copies of a mirror, before anything is paired. */
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

/** Returns whether at most a packet and its copy are right behind each other: otherwise which of them are copies is unknown. */
function isClear(rows: u32, n: u32): bool {
  for (let i: u32 = 2; i < n; i++) if (at(rows, i).time - at(rows, i - 2).time <= TWICE) return false;
  return true;
}

/** Hides a mirror's copies at one side from pairing and judging. */
function hideCopies(side: u32): void {
  const rows = side == 0 ? rows0 : rows1;
  const n = side == 0 ? n0 : n1;
  if (!isClear(rows, n)) return;
  for (let i: u32 = 1; i < n; i++) {
    const one = at(rows, i - 1);
    if (at(rows, i).time - one.time <= TWICE && one.partner != MIRRORED) at(rows, i).partner = MIRRORED;
  }
}

/** Hides copies at the source; if the source is not known yet, at both sides. */
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

/** Counts copies after the others were paired: at the source they are the mirror's, at the destination duplicates. */
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
