// Exact matching of two streams of packets by digest within a time window, first in, first out among equals, with
// everything that is known of each flow, each interval and each direction. The owner is src/match/matcher.ts.
//
// Packets wait in a log per side (kernels/match/waiting.ts); at its tail they are judged: lost, appeared, or outside the other capture's time.
// Memory: rate x window entries of 40 bytes, and what kernels/flows/flow-records.ts keeps of each flow.
//
// A call takes some thousand rows through three loops: find the partners, bring the flows up to date, add up totals and intervals
// (the last two in kernels/match/match-count.ts).

import { Batch } from "../decode/batch";
import { flowOfRun, touchRuns } from "../flows/flow-index";
import { directionOf, faultsOf, FlowFaults, flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { runAt } from "../flows/key-runs";
import {
  FATE_DUPLICATE, FATE_HEAD_AFTER, FATE_HEAD_BEFORE, FATE_ONLY_AFTER, FATE_ONLY_BEFORE, FATE_TAIL_AFTER, FATE_TAIL_BEFORE, noteAlone,
} from "./fates";
import { countPairs, intervalAt, settleRecent } from "./match-count";
import { Interval, INTERVAL_BYTES, Match, Total } from "./match-state";
import { ARRIVED, COPY, entryOf, Log, logAdapt, logAdd, logMarkCopies, logNext, logPassed, logSearch, logTouch, MATCHED, searchMatched, searchNumber, searchOthers } from "./waiting";

/** Rows after which the logs see whether they have enough slots. */
const ADAPT_ROWS: u32 = 8192;
/** Rows after which a stamp that is ahead is known to stray: twice as many as are read before it is decided (src/capture/timestamp-trust.ts). */
const OUTLIER_ROWS: u32 = 2048;

/**
 * Lets entries that are older than `until` leave the log of one side; the unmatched ones are judged. With them go those that are further ahead than the
 * window, at once where the clock was set back, else when so many have come after them that it is them who stray.
 */
function retire(m: Match, log: Log, side: u32, until: f64, back: bool): void {
  const forward = changetype<Total>(m.forward);
  const reverse = changetype<Total>(m.reverse);
  const stats = changetype<FlowStats>(m.stats);
  const segments = flowSegments(stats);
  const anyMatched = forward.matched + reverse.matched > 0;
  // What lies between the stamps of a packet at least and at most, by direction: its delay with the correction that it was counted without.
  const forwardMin: f64 = forward.matched > 0 ? forward.minimum : 0;
  const forwardMax: f64 = forward.matched > 0 ? forward.maximum : 0;
  const reverseMin: f64 = reverse.matched > 0 ? -reverse.maximum - m.back : 0;
  const reverseMax: f64 = reverse.matched > 0 ? -reverse.minimum - m.back : 0;
  const ahead = m.now + m.window;
  // Stamps outside what can be believed of their own capture stray: they are not at its ends.
  const from = side == 0 ? m.firstSeen0 : m.firstSeen1;
  const to = side == 0 ? m.lastSeen0 : m.lastSeen1;
  const latest = max<f64>(m.now, max<f64>(m.lastSeen0, m.lastSeen1));
  const next = log.next;
  let n = log.tail;
  for (; n != next; n++) {
    const e = entryOf(log, n);
    const time = load<f64>(e, 8);
    if (time >= until && !(time > ahead && (back || next - n > OUTLIER_ROWS))) break;
    const state = load<u32>(e, 20);
    if ((state & MATCHED) != 0) {
      if ((state & ARRIVED) != 0) logMarkCopies(log, e, n);
      continue;
    }
    const flow = flowIn(segments, load<u32>(e, 16));
    const faults = faultsOf(stats, flow);
    const direction = directionOf(flow);
    const answers = direction == 2;
    // The first and the last pair of its own direction, or of any where that is not known.
    const one = answers ? reverse : forward;
    const other = direction == 0 ? reverse : one;
    const corrected = anyMatched ? m.offset + m.slope * (time - m.pivot) : 0;
    const minimum = corrected + (answers ? reverseMin : forwardMin);
    const maximum = corrected + (answers ? reverseMax : forwardMax);
    const outliers = time < from || time > to;
    let fate: u32 = side == 0 ? FATE_ONLY_BEFORE : FATE_ONLY_AFTER;
    if (side == 0) {
      // The other way, copies arrive here.
      if (answers && (state & COPY) != 0) fate = FATE_DUPLICATE;
      // Head and tail: the other capture was not seen to run when this packet should have arrived.
      else if (!outliers && (!anyMatched || time < min<f64>(one.firstSend, other.firstSend)) && m.firstSeen1 > time + minimum) fate = FATE_HEAD_BEFORE;
      else if (!outliers && (m.ended & 2) != 0 && time > max<f64>(one.lastSend, other.lastSend) && m.lastSeen1 < time + maximum) fate = FATE_TAIL_BEFORE;
    } else if (!answers && (state & COPY) != 0) fate = FATE_DUPLICATE;
    else if (!outliers && (!anyMatched || time < min<f64>(one.firstArrive, other.firstArrive)) && m.firstSeen0 > time - maximum) fate = FATE_HEAD_AFTER;
    else if (!outliers && (m.ended & 1) != 0 && time > max<f64>(one.lastArrive, other.lastArrive) && m.lastSeen0 < time - minimum) fate = FATE_TAIL_AFTER;
    countAlone(faults, fate);
    if (m.fates != 0) noteAlone(m, side, time, load<u32>(e, 16), fate);
    // A packet of the other direction that was never seen before is not lost here: it appeared.
    if (fate == FATE_ONLY_BEFORE && !answers) {
      const interval = intervalAt(m, min<f64>(time, latest));
      changetype<Interval>(m.intervals + interval * INTERVAL_BYTES).lost++;
    }
  }
  log.tail = n;
  logPassed(log);
}

/** Adds a packet without a partner to what is known of its flow. */
function countAlone(faults: FlowFaults, fate: u32): void {
  if (fate == FATE_ONLY_BEFORE) faults.lost++;
  else if (fate == FATE_ONLY_AFTER) faults.appeared++;
  else if (fate == FATE_DUPLICATE) faults.duplicates++;
  else if (fate == FATE_HEAD_BEFORE) faults.headBefore++;
  else if (fate == FATE_TAIL_BEFORE) faults.tailBefore++;
  else if (fate == FATE_HEAD_AFTER) faults.headAfter++;
  else faults.tailAfter++;
}

/** A partner was found for a row. */
// @ts-ignore: decorator
@inline
function take(m: Match, entry: u32, row: u32): void {
  m.ambiguous += searchOthers != 0 ? 1 : 0;
  const f = m.found + (m.foundCount++ << 4);
  store<u32>(f, entry);
  // An entry's number tells the order of sending.
  store<u32>(f, searchNumber, 4);
  store<u32>(f, row, 8);
}

/**
 * The first loop, for rows [from, to) of BEFORE: `runs` are their keys (kernels/flows/key-runs.ts), `shift` is added to their times. Partners are left
 * in `found`.
 */
function takeBefore(m: Match, batch: Batch, runs: usize, runCount: u32, from: u32, shift: f64): void {
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  const stats = changetype<FlowStats>(m.stats);
  const times = batch.time;
  const digests = batch.digest;
  const flags = batch.flags;
  const window = m.window;
  const capacity = batch.capacity;
  const to = from + load<u32>(runAt(runs, runCount - 1));
  touchRuns(stats, runs, runCount, m.scratch);
  m.touched = logTouch(before, digests + (from << 3), to - from);
  let i = from;
  for (let r: u32 = 0; r < runCount; r++) {
    const flowId = flowOfRun(stats, runs, capacity, r);
    const flow = flowIn(flowSegments(stats), flowId);
    const end = from + load<u32>(runAt(runs, r));
    flow.sent += end - i;
    flow.bytes += <f64>load<u32>(runAt(runs, r), 4);
    for (; i < end; i++) {
      const time = load<f64>(times + (i << 3)) + shift;
      const digest = load<u64>(digests + (i << 3));
      let copy: u32 = 0;
      if (after.tail != after.next) {
        const found = logSearch(after, digest, time, window);
        if (found != 0) {
          take(m, found, i);
          continue;
        }
        copy = searchMatched ? COPY : 0;
      }
      logAdd(before, digest, time, flowId, (<u32>load<u8>(flags + (i << 2)) << 8) | copy);
    }
  }
}

/** The same for AFTER. A packet that finds its partner is of the partner's flow: only the others are looked up. */
function takeAfter(m: Match, batch: Batch, runs: usize, runCount: u32, from: u32, shift: f64): void {
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  const stats = changetype<FlowStats>(m.stats);
  const times = batch.time;
  const digests = batch.digest;
  const flags = batch.flags;
  const window = m.window;
  const capacity = batch.capacity;
  const to = from + load<u32>(runAt(runs, runCount - 1));
  // Where packets come in order the slots are not needed.
  if (m.searches > (to - from) >> 4) m.touched = logTouch(before, digests + (from << 3), to - from);
  let searches: u32 = 0;
  let run: u32 = 0;
  for (let i = from; i < to; i++) {
    const time = load<f64>(times + (i << 3)) + shift;
    const digest = load<u64>(digests + (i << 3));
    let found = logNext(before, digest, time, window);
    if (found == 0) {
      found = logSearch(before, digest, time, window);
      searches++;
    }
    if (found != 0) take(m, found, i);
    else {
      while (from + load<u32>(runAt(runs, run)) <= i) run++;
      const flowId = flowOfRun(stats, runs, capacity, run);
      flowIn(flowSegments(stats), flowId).received++;
      logAdd(after, digest, time, flowId, (<u32>load<u8>(flags + (i << 2)) << 8) | (searchMatched ? COPY : 0));
    }
  }
  m.searches = searches;
}

/** Takes the rows of a batch of one side from `from` on, with their keys in `runs`; `shift` is added to their times. */
export function matchRows(p: usize, b: usize, runs: usize, runCount: u32, side: u32, from: u32, shift: f64): void {
  const m = changetype<Match>(p);
  const batch = changetype<Batch>(b);
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
  if (runCount == 0) return;
  const to = from + load<u32>(runAt(runs, runCount - 1));
  const minimum = load<f64>(runs) + shift;
  const maximum = load<f64>(runs, 8) + shift;
  if (side == 0) {
    m.firstSeen0 = min<f64>(m.firstSeen0, minimum);
    m.lastSeen0 = max<f64>(m.lastSeen0, maximum);
  } else {
    m.firstSeen1 = min<f64>(m.firstSeen1, minimum);
    m.lastSeen1 = max<f64>(m.lastSeen1, maximum);
  }
  if (side == 0) takeBefore(m, batch, runs, runCount, from, shift);
  else takeAfter(m, batch, runs, runCount, from, shift);
  countPairs(m, batch, side, shift);
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  before.rows += to - from;
  after.rows += to - from;
  if (before.rows > ADAPT_ROWS) {
    logAdapt(before);
    logAdapt(after);
  }
  // The clock was set back by far: waiting for it to come by again would keep packets for ever.
  const back = maximum < m.now - 4 * m.window;
  m.now = back ? maximum : max<f64>(m.now, maximum);
  retire(m, before, 0, m.now - m.window - m.slack, back);
  retire(m, after, 1, m.now - m.window - m.slack, back);
}

/** Both captures have ended: everything that still waits is judged. */
export function matchFinish(p: usize): void {
  const m = changetype<Match>(p);
  m.ended = 3;
  retire(m, changetype<Log>(m.before), 0, Infinity, false);
  retire(m, changetype<Log>(m.after), 1, Infinity, false);
  settleRecent(m);
}

/** `last`: the side's last time; -Infinity where it had none. */
export function matchEnd(p: usize, side: u32, last: f64): void {
  const m = changetype<Match>(p);
  m.ended |= side == 0 ? 1 : 2;
  if (side == 0) m.lastSeen0 = max<f64>(m.lastSeen0, last);
  else m.lastSeen1 = max<f64>(m.lastSeen1, last);
}

// What the TypeScript side reads: addresses and counts.
export function matchPairs(p: usize, direction: u32): usize {
  return direction == 1 ? changetype<Match>(p).pairs : changetype<Match>(p).backPairs;
}
export function matchPairCount(p: usize, direction: u32): u32 {
  return direction == 1 ? changetype<Match>(p).pairCount : changetype<Match>(p).backPairCount;
}
/** direction 1: before -> after; 2: the other. */
export function matchTotal(p: usize, direction: u32): usize {
  const m = changetype<Match>(p);
  settleRecent(m);
  return direction == 1 ? m.forward : m.reverse;
}
export function matchIntervals(p: usize): usize {
  settleRecent(changetype<Match>(p));
  return changetype<Match>(p).intervals;
}
export function matchIntervalCount(p: usize): u32 {
  return changetype<Match>(p).intervalCount;
}
export function matchAmbiguous(p: usize): u32 {
  return changetype<Match>(p).ambiguous;
}

