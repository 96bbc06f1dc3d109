// RLI's answers: when a reference has arrived, all packets that waited for it get their delay on the line and are summed per flow (rli-ton, section III-C, equations 1-4).
// Packets of a flow within a gap err together, gaps err independently: errors = sum over gaps (n miss)^2, misses = sum over packets miss^2.
//
// What no neighbour tells is counted for estimate.ts: what the references' sender says of its clock; whether the drain rate is right (a reference that was in
// the queue for longer than the gap before it saw the link busy for the whole gap: the gap's bytes over its time are the rate); and which packets came beside
// references as fast as the fastest (`idle`): in a token bucket they may not have been held for their transmission.

import { bucketOf, Cells, cellsAdd } from "./cells";
import { FLOW_HEAD, flowRecord, Flows } from "./flows";
import { Line, lineLeft, lineStep, lineTo, onLine } from "./references";
import { Misses, missesLeft, missesStep, missesTo } from "./rli-misses";
import { BUFFERED, Rli } from "./rli-state";

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

/** A reference has arrived, with its delay as measured. */
export function arrived(r: Rli, arrival: f64, whole: f64, wire: u32, error: f64): void {
  const line = changetype<Line>(r.line);
  const missed = changetype<Misses>(r.missed);
  const own = <f64>wire * r.nsPerByte;
  const time = arrival - own;
  const delay = whole - own;
  lineTo(line, arrival, whole, wire, error);
  const miss = missesTo(missed, time, delay, line.level);
  if (line.have != 0) {
    if (missed.haveBefore != 0 && time > missed.beforeTime) r.checked++;
    if (line.busy != 0) {
      r.busy++;
      r.busyBytes += r.bytesSince;
      r.busyTime += arrival - line.arrival;
    }
    flush(r, miss, line.wire, max(error, line.error));
  } else if (r.held > 0) {
    r.oneSided += r.held;
    flush(r, miss, wire, error);
  }
  lineStep(line, arrival, whole, wire, error);
  missesStep(missed, time, delay);
  r.bytesSince = 0;
}

/** What waits is answered by the left reference alone, or not at all. */
export function spill(r: Rli): void {
  const n = r.held;
  const line = changetype<Line>(r.line);
  if (n == 0) return;
  if (line.have == 0) {
    r.unanswered += n;
    r.held = 0;
    return;
  }
  r.oneSided += n;
  const miss = missesLeft(changetype<Misses>(r.missed), load<f64>(r.buffer + (n - 1) * BUFFERED));
  lineLeft(line);
  flush(r, miss, line.wire, line.error);
}
