// What became of a packet without a partner: lost, appeared, a copy, or one that the other capture cannot have seen. The last is judged by what
// packets of its flow, or of its direction, take: a packet is put down to the ends of the other capture where that is likelier than loss.

import { directionOf, faultsOf, Flow, flowIn, flowSegments, FlowStats, moreOf } from "../flows/flow-records";
import { intervalAt } from "./match-count";
import { Interval, INTERVAL_BYTES, Match, Total } from "./match-state";
import { COPY, LINK_LOCAL } from "./waiting";

/** So many delays of a flow tell how long its packets take. */
const ENOUGH_OF_FLOW: u32 = 8;

/**
 * Share of the delays of a direction that are below x, as far as their mean and deviation tell (half of Cantelli's bound): whatever the clocks are apart,
 * which a histogram of logarithmic buckets is not. Without any, packets are taken to take no time.
 */
function shareBelow(m: Match, reverse: bool, x: f64): f64 {
  const total = changetype<Total>(reverse ? m.reverse : m.forward);
  if (total.matched == 0) return x > 0 ? 1 : 0;
  if (x <= total.minimum) return 0;
  if (x > total.maximum) return 1;
  const mean = total.sum / <f64>total.matched;
  const variance = max<f64>(0, total.squares / <f64>total.matched - mean * mean);
  const apart = x - total.first - mean;
  const tail = 0.5 * (variance / (variance + apart * apart));
  return apart < 0 ? tail : 1 - tail;
}

/** The same of a flow, by its own delays where it has enough. */
function shareOfFlow(m: Match, flow: Flow, reverse: bool, x: f64): f64 {
  if (flow.matched >= ENOUGH_OF_FLOW) {
    const more = moreOf(changetype<FlowStats>(m.stats), flow);
    if (x <= more.minimum) return 0;
    if (x > more.maximum) return 1;
  }
  return shareBelow(m, reverse, x);
}

/** Where the partner of a row is: base + g * delay. Chances that it lies before the first and after the last time seen there. */
let before: f64 = 0;
let behind: f64 = 0;
function chances(m: Match, flow: Flow, side: u32, time: f64, reverse: bool): void {
  const matched = changetype<Total>(m.forward).matched + changetype<Total>(m.reverse).matched > 0;
  const corrected = matched ? m.offset + m.slope * (time - m.pivot) : 0;
  const base = side == 0 ? time + corrected : time - corrected;
  const first = side == 0 ? m.firstSeen1 : m.firstSeen0;
  const last = side == 0 ? m.lastSeen1 : m.lastSeen0;
  const ended = (m.ended & (side == 0 ? 2 : 1)) != 0;
  const forth = (side == 0) != reverse;
  before = forth ? shareOfFlow(m, flow, reverse, first - base) : 1 - shareOfFlow(m, flow, reverse, base - first);
  behind = !ended ? 0 : forth ? 1 - shareOfFlow(m, flow, reverse, last - base) : shareOfFlow(m, flow, reverse, base - last);
}

/** Judges a packet of one side, seen at `time`, that has no partner. */
export function judge(m: Match, side: u32, time: f64, flowId: u32, state: u32): void {
  const stats = changetype<FlowStats>(m.stats);
  const flow = flowIn(flowSegments(stats), flowId);
  const faults = faultsOf(stats, flow);
  const direction = directionOf(flow);
  const answers = direction == 2;
  if ((state & LINK_LOCAL) != 0) {
    faults.linkLocal++;
    return;
  }
  // Copies are where packets arrive: at AFTER, the other way at BEFORE.
  if ((state & COPY) != 0 && (side == 1) != answers) {
    faults.duplicates++;
    return;
  }
  // Timestamps outside what can be believed of their own capture are outliers: they are not at its ends.
  const outlier = side == 0 ? time < m.firstSeen0 || time > m.lastSeen0 : time < m.firstSeen1 || time > m.lastSeen1;
  if (!outlier) {
    chances(m, flow, side, time, answers);
    let atHead = before;
    let atTail = behind;
    if (direction == 0 && changetype<Total>(m.reverse).matched > 0) {
      chances(m, flow, side, time, true);
      atHead = changetype<Total>(m.forward).matched == 0 ? before : min<f64>(atHead, before);
      atTail = changetype<Total>(m.forward).matched == 0 ? behind : min<f64>(atTail, behind);
    }
    const alone = side == 0 ? m.onlyBefore : m.onlyAfter;
    const matched = changetype<Total>(m.forward).matched + changetype<Total>(m.reverse).matched;
    // Odds of loss, at most even ones: nothing is known at the beginning.
    const odds = min<f64>(1, (alone + 1) / (<f64>matched + 1));
    if (atHead >= odds) {
      if (side == 0) faults.headBefore++;
      else faults.headAfter++;
      return;
    }
    if (atTail >= odds) {
      if (side == 0) faults.tailBefore++;
      else faults.tailAfter++;
      return;
    }
  }
  if (side == 1) {
    m.onlyAfter++;
    faults.appeared++;
    return;
  }
  m.onlyBefore++;
  faults.lost++;
  // A packet of the other direction that was never seen before is not lost here: it appeared.
  if (answers) return;
  const latest = max<f64>(m.now, max<f64>(m.lastSeen0, m.lastSeen1));
  const interval = intervalAt(m, min<f64>(time, latest));
  changetype<Interval>(m.intervals + interval * INTERVAL_BYTES).lost++;
}
