// Exact matching of two streams of packets by digest within a time window; identical packets are deferred (kernels/match/repeats.ts). Keeps results per flow,
// interval and direction. The owner is src/match/matcher.ts.
//
// Packets wait in a log per side (kernels/match/waiting.ts); at its tail they are classified: lost, appeared, or outside the other capture's time. Memory: rate
// x window entries of 32 bytes, and the records per flow of kernels/flows/flow-records.ts.
//
// A call processes some thousand rows in three loops: find the partners, update the flows, add up totals and intervals (the last two in
// kernels/match/match-count.ts).

import { Batch } from "../decode/batch";
import { flowOfRow, flowOfRun, likelyFlowOfRun, TOUCHED_AT_ONCE, touchRuns } from "../flows/flow-index";
import { flowIn, flowSegments, FlowStats } from "../flows/flow-records";
import { KEY_PER_ROW, runAt } from "../flows/key-runs";
import { calmDown, expectNear, forgetRegretted, hasLevels, isCertain, isOdd, nearHigh, nearLow, noteRange, regret } from "./certain";
import { judge, judgeDeferred, SET_BACK } from "./judge";
import { settleRecent } from "./intervals";
import { countPairs } from "./match-count";
import { Match, Total } from "./match-state";
import { mapFlow, rename } from "./names";
import { openingMeet } from "./opening";
import { TWICE } from "./repeat-fit";
import { settleRepeats } from "./repeat-pairs";
import { addRow, Group, groupOf, MOST_ROWS, repeated, Repeats, rowCount, rowOf, startGroup } from "./repeats";
import { placeOf } from "./send-order";
import { ARRIVED, COPY, entryOf, EQUALS, Log, logAdapt, logPassed, logPlace, MATCHED, stateOf } from "./log";
import { logAdd, logHas, logMarkCopies, logNext, logSearch, logTouch, logTouchNear, searchMatched, searchNumber, searchOthers } from "./waiting";

/** Rows after which the logs check whether they have enough slots. */
const ADAPT_ROWS: u32 = 8192;
/** A clock that was set back may show the time before that again within a call of rows over more than this. */
const LONG_CALL: f64 = 100000000;
/** Rows after which a timestamp that is ahead is known to be an outlier: twice as many as are read before that is decided (src/capture/timestamp-trust.ts). */
const OUTLIER_ROWS: u32 = 2048;

/**
 * Removes entries older than `until` from the log of one side, and judges the unmatched ones. Entries further ahead than the window are removed, too: at once
 * if the clock was set back, otherwise when enough packets followed to show that they are outliers.
 */
function retire(m: Match, log: Log, side: u32, until: f64, back: bool): void {
  const ahead = m.now + m.window;
  const next = log.next;
  let n = log.tail;
  for (; n != next; n++) {
    const e = entryOf(log, n);
    const time = load<f64>(e, 8);
    if (time >= until && !(time > ahead && (back || next - n > OUTLIER_ROWS))) break;
    const state = load<u32>(e, 20);
    if ((state & MATCHED) == 0) {
      openingMeet(m, load<u64>(e), side, time);
      judge(m, side, time, load<u32>(e, 16), state, load<u64>(e));
    } else if ((state & ARRIVED) != 0 && logMarkCopies(log, e, n)) openingMeet(m, load<u64>(e), side, NaN);
  }
  log.tail = n;
  logPassed(log);
}

/** Records the partner found for a row. */
// @ts-ignore: decorator
@inline
function take(m: Match, entry: u32, row: u32, other: Log, own: Log): void {
  const k = m.foundCount++;
  const f = m.found + (k << 4);
  store<u32>(f, entry);
  store<u16>(entry, <u16>k, 22);
  // Positions among the rows of a side give the order of sending.
  store<u32>(f, logPlace(other, searchNumber), 4);
  store<u32>(f, row, 8);
  store<u32>(f, own.place + row, 12);
}

/** Counts a row of a repeated digest, unless all it shows is a copy right behind a packet. */
function meet(m: Match, repeats: Repeats, number: u32, side: u32, time: f64): void {
  const group = groupOf(repeats, number);
  const last = side == 0 ? group.last0 : group.last1;
  if (last != 0 ? abs<f64>(time - rowOf(repeats, last).time) > TWICE : isApart(repeats, group, 1 - side)) m.met++;
}

/** Returns whether the rows of a side are not one packet and its copies. */
function isApart(repeats: Repeats, group: Group, side: u32): bool {
  const first = side == 0 ? group.first0 : group.first1;
  const last = side == 0 ? group.last0 : group.last1;
  return first == last || abs<f64>(rowOf(repeats, last).time - rowOf(repeats, first).time) > TWICE;
}

/**
 * The first loop, for rows [from, to) of BEFORE: `runs` are their keys (kernels/flows/key-runs.ts), `shift` is added to their times. Writes partners to
 * `found`.
 */
function takeBefore(m: Match, batch: Batch, runs: usize, runCount: u32, from: u32, shift: f64): void {
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  const repeats = changetype<Repeats>(m.repeats);
  const stats = changetype<FlowStats>(m.stats);
  const times = batch.time;
  const digests = batch.digest;
  const flags = batch.flags;
  const window = m.window;
  const capacity = batch.capacity;
  const to = from + load<u32>(runAt(runs, runCount - 1));
  m.touched = logTouch(before, digests + (from << 3), to - from);
  let i = from;
  let touched: u32 = 0;
  let likely = false;
  for (let r: u32 = 0; r < runCount; r++) {
    if (r == touched) {
      touched = min<u32>(runCount, r + TOUCHED_AT_ONCE);
      likely = touchRuns(stats, runs, r, touched, m.scratch);
      if (likely) m.touched += logTouchNear(before, digests + (i << 3), from + load<u32>(runAt(runs, touched - 1)) - i);
    }
    const flowId = likely ? likelyFlowOfRun(stats, runs, capacity, r, load<u32>(m.scratch + (r << 2))) : flowOfRun(stats, runs, capacity, r);
    const flow = flowIn(flowSegments(stats), flowId);
    const end = from + load<u32>(runAt(runs, r));
    flow.sent += end - i;
    flow.bytes += <f64>load<u32>(runAt(runs, r), 4);
    for (; i < end; i++) {
      const time = load<f64>(times + (i << 3)) + shift;
      const digest = load<u64>(digests + (i << 3));
      let state = stateOf(load<u32>(flags + (i << 2)));
      let group = repeated(repeats, digest);
      if (group != 0) meet(m, repeats, group, 0, time);
      else if (after.tail != after.next) {
        const found = logSearch(after, digest, time, window);
        if (found != 0) {
          if (isCertain(m, before, found, digest, time)) {
            if (m.nat != 0) rename(m, found, flowId);
            take(m, found, i, after, before);
            continue;
          }
          store<u32>(found, load<u32>(found, 20) & ~MATCHED, 20);
          group = startGroup(repeats, before, after, digest);
        } else if (searchMatched) {
          openingMeet(m, digest, 0, time);
          group = regret(m, batch, 0, digest, time, shift);
          if (group == 0) state |= COPY;
        }
      }
      if (group != 0) addRow(repeats, group, 0, time, flowId, state, placeOf(before.place + i));
      else if ((load<u32>(logAdd(before, digest, time, flowId, state, i), 20) & EQUALS) != 0) {
        const equal = startGroup(repeats, before, after, digest);
        meet(m, repeats, equal, 0, time);
      }
    }
  }
}

/** Returns the number of rows of a call, with keys as runs or one per row. */
// @ts-ignore: decorator
@inline
function rowsOf(runs: usize, runCount: u32): u32 {
  return (runCount & KEY_PER_ROW) != 0 ? runCount & ~KEY_PER_ROW : load<u32>(runAt(runs, runCount - 1));
}

/** The same for AFTER. A packet with a partner is of the partner's flow: only the others are looked up. */
function takeAfter(m: Match, batch: Batch, runs: usize, runCount: u32, from: u32, shift: f64): void {
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  const repeats = changetype<Repeats>(m.repeats);
  const stats = changetype<FlowStats>(m.stats);
  const times = batch.time;
  const digests = batch.digest;
  const flags = batch.flags;
  const window = m.window;
  const capacity = batch.capacity;
  const to = from + rowsOf(runs, runCount);
  const perRow = (runCount & KEY_PER_ROW) != 0;
  // If packets come in order the slots are not needed.
  if (m.searches > (to - from) >> 4) m.touched = logTouch(before, digests + (from << 3), to - from);
  let searches: u32 = 0;
  let run: u32 = 0;
  for (let i = from; i < to; i++) {
    const time = load<f64>(times + (i << 3)) + shift;
    const digest = load<u64>(digests + (i << 3));
    // Repeated packets do not wait in the log: this search does not find them.
    let found = logNext(before, digest, time, window);
    let group: u32 = 0;
    if (found == 0) {
      group = repeated(repeats, digest);
      if (group != 0) meet(m, repeats, group, 1, time);
      else {
        found = logSearch(before, digest, time, window);
        searches++;
      }
    }
    if (found != 0) {
      const apart = time - load<f64>(found, 8);
      // A copy of an earlier packet is the partner only if no other one is.
      const isCopy = (load<u32>(found, 20) & COPY) != 0 && m.nat == 0;
      if (isCopy || ((apart < nearLow || apart > nearHigh || hasLevels) && isOdd(m, before, found, time))) {
        store<u32>(found, load<u32>(found, 20) & ~MATCHED, 20);
        group = startGroup(repeats, before, after, digest);
        found = 0;
      }
    }
    if (found != 0) {
      take(m, found, i, before, after);
      if (m.nat == 0) continue;
      while (from + load<u32>(runAt(runs, run)) <= i) run++;
      mapFlow(m, load<u32>(found, 16), flowOfRun(stats, runs, capacity, run));
      continue;
    }
    if (!perRow) while (from + load<u32>(runAt(runs, run)) <= i) run++;
    const flowId = perRow ? flowOfRow(stats, runs, i - from) : flowOfRun(stats, runs, capacity, run);
    flowIn(flowSegments(stats), flowId).received++;
    const state = stateOf(load<u32>(flags + (i << 2)));
    const again = group == 0 && searchMatched;
    if (again) {
      openingMeet(m, digest, 1, time);
      group = regret(m, batch, 1, digest, time, shift);
    }
    if (group != 0) addRow(repeats, group, 1, time, flowId, state, placeOf(after.place + i));
    else {
      const e = logAdd(after, digest, time, flowId, state | (again ? COPY : 0), i);
      if ((load<u32>(e, 20) & EQUALS) != 0) startGroup(repeats, before, after, digest);
    }
  }
  m.searches = searches;
}

/** Returns whether a row is earlier than others before it. */
function isSetBack(batch: Batch, from: u32, to: u32): bool {
  let latest: f64 = -Infinity;
  for (let i = from; i < to; i++) {
    const time = load<f64>(batch.time + (i << 3));
    if (latest - time > SET_BACK) return true;
    latest = max<f64>(latest, time);
  }
  return false;
}

/**
 * Processes the rows of a batch of one side from `from` on, with their keys in `runs`; `shift` is added to their times. AFTER's rows may have a key each,
 * unless keys differ at the two points.
 */
export function matchRows(p: usize, b: usize, runs: usize, runCount: u32, side: u32, from: u32, shift: f64): void {
  const m = changetype<Match>(p);
  const batch = changetype<Batch>(b);
  m.foundCount = 0;
  m.pairCount = 0;
  m.backPairCount = 0;
  if (runCount == 0) return;
  const to = from + rowsOf(runs, runCount);
  const minimum = load<f64>(runs) + shift;
  const maximum = load<f64>(runs, 8) + shift;
  const first = max<f64>(load<f64>(batch.time + (from << 3)) + shift, side == 0 ? m.lastSeen0 : m.lastSeen1);
  if (first - minimum > SET_BACK || (maximum - minimum > LONG_CALL && isSetBack(batch, from, to))) {
    if (side == 0) m.wentBack0 = 1;
    else m.wentBack1 = 1;
  }
  if (side == 0) {
    m.seen0 += <f64>(to - from);
    m.firstSeen0 = min<f64>(m.firstSeen0, minimum);
    m.lastSeen0 = max<f64>(m.lastSeen0, maximum);
    m.final0 = load<f64>(batch.time + ((to - 1) << 3)) + shift;
    if (isNaN(m.initial0)) m.initial0 = load<f64>(batch.time + (from << 3)) + shift;
  } else {
    m.firstSeen1 = min<f64>(m.firstSeen1, minimum);
    m.lastSeen1 = max<f64>(m.lastSeen1, maximum);
    m.final1 = load<f64>(batch.time + ((to - 1) << 3)) + shift;
    if (isNaN(m.initial1)) m.initial1 = load<f64>(batch.time + (from << 3)) + shift;
  }
  const own = changetype<Log>(side == 0 ? m.before : m.after);
  own.place = own.taken - from;
  own.taken += to - from;
  noteRange(m);
  if (side == 0) takeBefore(m, batch, runs, runCount, from, shift);
  else {
    expectNear(m, minimum, maximum);
    takeAfter(m, batch, runs, runCount, from, shift);
  }
  forgetRegretted(m);
  countPairs(m, batch, side, shift);
  calmDown(m);
  const before = changetype<Log>(m.before);
  const after = changetype<Log>(m.after);
  before.rows += to - from;
  after.rows += to - from;
  if (before.rows > ADAPT_ROWS) {
    logAdapt(before);
    logAdapt(after);
  }
  // The clock was set back by far: waiting until it shows that time again would keep packets too long.
  const back = maximum < m.now - 4 * m.window;
  m.now = back ? maximum : max<f64>(m.now, maximum);
  retire(m, before, 0, m.now - m.window - m.slack, back);
  retire(m, after, 1, m.now - m.window - m.slack, back);
  if (rowCount(changetype<Repeats>(m.repeats)) > MOST_ROWS) settleRepeats(m);
}

/** Both captures have ended: judges everything that still waits. */
export function matchFinish(p: usize): void {
  const m = changetype<Match>(p);
  m.ended = 3;
  settleRepeats(m);
  retire(m, changetype<Log>(m.before), 0, Infinity, false);
  retire(m, changetype<Log>(m.after), 1, Infinity, false);
  judgeDeferred(m);
  settleRecent(m);
}

/** `last`: the side's last time; -Infinity if it has none. */
export function matchEnd(p: usize, side: u32, last: f64): void {
  const m = changetype<Match>(p);
  m.ended |= side == 0 ? 1 : 2;
  if (side == 0) m.lastSeen0 = max<f64>(m.lastSeen0, last);
  else m.lastSeen1 = max<f64>(m.lastSeen1, last);
}

/** Call before the first rows: buckets count delays relative to `base` (its negative in the other direction). */
export function matchBase(p: usize, base: f64): void {
  const m = changetype<Match>(p);
  m.base = base;
  changetype<FlowStats>(m.stats).base = base;
}

// Addresses and counts for the TypeScript side.
export function matchPairs(p: usize, direction: u32): usize {
  return direction == 1 ? changetype<Match>(p).pairs : changetype<Match>(p).backPairs;
}
export function matchPairCount(p: usize, direction: u32): u32 {
  return direction == 1 ? changetype<Match>(p).pairCount : changetype<Match>(p).backPairCount;
}
/** direction 1: BEFORE to AFTER; 2: the other. */
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

