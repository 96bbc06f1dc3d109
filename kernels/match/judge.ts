// What became of a packet without a partner: lost, appeared, a copy, or one that the other capture cannot have seen. The last is judged by what
// packets of its flow, or of its direction, take: a packet is put down to the ends of the other capture where that is likelier than loss.

import { directionOf, faultsOf, Flow, FlowFaults, flowIn, flowSegments, FlowStats, moreOf } from "../flows/flow-records";
import {
  FATE_DUPLICATE, FATE_HEAD_AFTER, FATE_HEAD_BEFORE, FATE_LINK_LOCAL, FATE_ONLY_AFTER, FATE_ONLY_BEFORE, FATE_TAIL_AFTER, FATE_TAIL_BEFORE,
  noteAlone,
} from "./fates";
import { intervalAt, intervalKnown, NO_INTERVAL } from "./match-count";
import { Interval, INTERVAL_BYTES, Match, Total } from "./match-state";
import { keepAlone } from "./residue";
import { COPY, LINK_LOCAL } from "./waiting";

/** So many delays of a flow, or of an interval, tell how long packets take. */
const ENOUGH: u32 = 8;

/**
 * Share of the delays that are below x, as far as their mean and deviation tell (half of Cantelli's bound): whatever the clocks are apart, which a
 * histogram of logarithmic buckets is not. `sums`: address of {first, sum, squares, minimum, maximum} of so many.
 */
function shareBelow(sums: usize, matched: u32, x: f64): f64 {
  if (x <= load<f64>(sums, 24)) return 0;
  if (x > load<f64>(sums, 32)) return 1;
  const mean = load<f64>(sums, 8) / <f64>matched;
  const variance = max<f64>(0, load<f64>(sums, 16) / <f64>matched - mean * mean);
  const apart = x - load<f64>(sums) - mean;
  const tail = 0.5 * (variance / (variance + apart * apart));
  return apart < 0 ? tail : 1 - tail;
}

/**
 * The same for a packet that was sent about `time`: by its flow's delays where those decide, else by those of the interval, else by all of its
 * direction. Without any, packets are taken to take no time.
 */
function shareOfFlow(m: Match, flow: Flow, reverse: bool, time: f64, x: f64): f64 {
  if (flow.matched >= ENOUGH) {
    const more = moreOf(changetype<FlowStats>(m.stats), flow);
    if (x <= more.minimum) return 0;
    if (x > more.maximum) return 1;
  }
  const total = changetype<Total>(reverse ? m.reverse : m.forward);
  if (total.matched == 0) return x > 0 ? 1 : 0;
  const near = reverse ? NO_INTERVAL : intervalKnown(m, time);
  if (near != NO_INTERVAL) {
    const interval = changetype<Interval>(m.intervals + near * INTERVAL_BYTES);
    if (interval.matched >= ENOUGH) return shareBelow(changetype<usize>(interval) + offsetof<Interval>("first"), interval.matched, x);
  }
  return shareBelow(changetype<usize>(total) + offsetof<Total>("first"), total.matched, x);
}

/** Where the partner of a row is: base + g * delay. Chances that it lies before the first and after the last time seen there. */
let before: f64 = 0;
let behind: f64 = 0;
function chances(m: Match, flow: Flow, side: u32, time: f64, reverse: bool): void {
  const matched = changetype<Total>(m.forward).matched + changetype<Total>(m.reverse).matched > 0;
  // What lies between the timestamps of a packet is its delay with the corrections that it was counted without.
  const corrected = matched ? m.offset + m.slope * (time - m.pivot) - (reverse ? m.back : 0) : 0;
  const base = side == 0 ? time + corrected : time - corrected;
  const first = side == 0 ? m.firstSeen1 : m.firstSeen0;
  const last = side == 0 ? m.lastSeen1 : m.lastSeen0;
  const ended = (m.ended & (side == 0 ? 2 : 1)) != 0;
  const forth = (side == 0) != reverse;
  const sent = side == 0 ? time : base;
  before = forth ? shareOfFlow(m, flow, reverse, sent, first - base) : 1 - shareOfFlow(m, flow, reverse, sent, base - first);
  behind = !ended ? 0 : forth ? 1 - shareOfFlow(m, flow, reverse, sent, last - base) : shareOfFlow(m, flow, reverse, sent, base - last);
  if (!reverse) return;
  // Of the other direction no intervals are kept: a clock that was set shows as delays of all lengths. Only what lies beyond all pairs is at an end.
  const total = changetype<Total>(m.reverse);
  if (before < 1 && total.matched > 0 && time >= (side == 0 ? total.firstSend : total.firstArrive)) before = 0;
  if (behind < 1 && total.matched > 0 && time <= (side == 0 ? total.lastSend : total.lastArrive)) behind = 0;
}

/** FATE_* of a packet of one side, seen at `time`, that has no partner. */
function fateOf(m: Match, flow: Flow, side: u32, time: f64, state: u32): u32 {
  const direction = directionOf(flow);
  const answers = direction == 2;
  if ((state & LINK_LOCAL) != 0) return FATE_LINK_LOCAL;
  // Copies are where packets arrive: at AFTER, the other way at BEFORE.
  if ((state & COPY) != 0 && (side == 1) != answers) return FATE_DUPLICATE;
  const alone = side == 0 ? FATE_ONLY_BEFORE : FATE_ONLY_AFTER;
  // Timestamps outside what can be believed of their own capture are outliers: they are not at its ends.
  if (side == 0 ? time < m.firstSeen0 || time > m.lastSeen0 : time < m.firstSeen1 || time > m.lastSeen1) return alone;
  chances(m, flow, side, time, answers);
  let atHead = before;
  let atTail = behind;
  const forward = changetype<Total>(m.forward).matched;
  const reverse = changetype<Total>(m.reverse).matched;
  if (direction == 0 && reverse > 0) {
    chances(m, flow, side, time, true);
    atHead = forward == 0 ? before : min<f64>(atHead, before);
    atTail = forward == 0 ? behind : min<f64>(atTail, behind);
  }
  // Odds of loss, at most even ones: nothing is known at the beginning.
  const odds = min<f64>(1, ((side == 0 ? m.onlyBefore : m.onlyAfter) + 1) / (<f64>(forward + reverse) + 1));
  if (atHead >= odds) return side == 0 ? FATE_HEAD_BEFORE : FATE_HEAD_AFTER;
  if (atTail >= odds) return side == 0 ? FATE_TAIL_BEFORE : FATE_TAIL_AFTER;
  return alone;
}

/** Adds it to what is known of its flow. */
function countAlone(faults: FlowFaults, fate: u32): void {
  if (fate == FATE_ONLY_BEFORE) faults.lost++;
  else if (fate == FATE_ONLY_AFTER) faults.appeared++;
  else if (fate == FATE_DUPLICATE) faults.duplicates++;
  else if (fate == FATE_HEAD_BEFORE) faults.headBefore++;
  else if (fate == FATE_TAIL_BEFORE) faults.tailBefore++;
  else if (fate == FATE_HEAD_AFTER) faults.headAfter++;
  else if (fate == FATE_TAIL_AFTER) faults.tailAfter++;
  else faults.linkLocal++;
}

/** Judges a packet of one side, seen at `time`, that has no partner. */
export function judge(m: Match, side: u32, time: f64, flowId: u32, state: u32): void {
  const stats = changetype<FlowStats>(m.stats);
  const flow = flowIn(flowSegments(stats), flowId);
  const fate = fateOf(m, flow, side, time, state);
  countAlone(faultsOf(stats, flow), fate);
  if (m.fates != 0) noteAlone(m, side, time, flowId, fate);
  if (fate == FATE_ONLY_AFTER || fate == FATE_ONLY_BEFORE) keepAlone(m, side, time, flowId);
  if (fate == FATE_ONLY_AFTER) m.onlyAfter++;
  if (fate != FATE_ONLY_BEFORE) return;
  m.onlyBefore++;
  // A packet of the other direction that was never seen before is not lost here: it appeared.
  if (directionOf(flow) == 2) return;
  const latest = max<f64>(m.now, max<f64>(m.lastSeen0, m.lastSeen1));
  const interval = intervalAt(m, min<f64>(time, latest));
  changetype<Interval>(m.intervals + interval * INTERVAL_BYTES).lost++;
}
