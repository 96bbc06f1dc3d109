// RLI's answers: when a reference arrives, all packets that waited for it get their delay on the line and are summed per flow (rli-ton, section III-C,
// equations 1-4). Errors of a flow's packets within a gap are fully correlated, those of different gaps independent: errors = sum over gaps (n miss)^2, misses
// = sum over packets miss^2.
//
// Errors that no neighbouring reference shows are counted for estimate.ts: the clock error stated by the references' sender; whether the drain rate is right (a
// reference that was in the queue for longer than the gap before it saw the link busy for the whole gap, so the gap's bytes over its time are the rate); and
// packets next to references with the minimum delay (`idle`), which a token bucket may not have held for their transmission.

import { bucketOf, Cells, cellsAdd } from "../sketches/cells";
import { FLOW_HEAD, flowRecord, Flows } from "../flows/flows";
import { Gap, gapDelay, gapLeft, gapStep, gapTo } from "./gap";
import { BUFFERED, NO_FLOW, Rli } from "./state";

/** Adds the error of the packet answered last to its flow. `counted`: all packets of the gap have the same error, so counting them is enough. */
// @ts-ignore: decorator
@inline
function addError(q: usize, g: Gap, counted: bool): void {
  const alike = g.place + (counted ? 0 : g.alike);
  if (alike != 0) store<f32>(q, load<f32>(q, 20) + <f32>alike, 20);
  if (counted) {
    const miss = g.missSquared;
    const before = load<u32>(q, 4);
    store<u32>(q, before + 1, 4);
    store<f64>(q, load<f64>(q, 40) + <f64>(2 * before + 1) * miss, 40);
    store<f64>(q, load<f64>(q, 56) + miss, 56);
    return;
  }
  const off = g.off;
  const before = <f64>load<f32>(q, 4);
  store<f32>(q, <f32>(before + off), 4);
  store<f64>(q, load<f64>(q, 40) + (2 * before + off) * off, 40);
  store<f64>(q, load<f64>(q, 56) + off * off, 56);
}

/** Answers all held packets, next to references of `wire` bytes. `error`: error of the references' times. */
function flush(r: Rli, wire: u32, error: f64): void {
  const n = r.held;
  const g = changetype<Gap>(r.between);
  const flows = changetype<Flows>(r.flows);
  const gap = ++r.gap;
  const half: i64 = g.line.share < 1 ? 1 : 0;
  const idleMask: i64 = g.line.idle != 0 ? -1 : 0;
  const counted = g.trains == 0;
  const miss = g.missSquared;
  let errors: f64 = 0;
  let misses: f64 = 0;
  let doubts: f64 = 0;
  let squares: f64 = 0;
  let excess: i64 = 0;
  let sum: i64 = 0;
  let minimum = r.minimum;
  let maximum = r.maximum;
  const cells = r.cells;
  const end = r.buffer + n * BUFFERED;
  for (let e: usize = r.buffer; e < end; e += BUFFERED) {
    const bytes = load<u32>(e, 12);
    const d = gapDelay(g, load<f64>(e), bytes, load<f64>(e, 16));
    const more = (<i64>bytes - <i64>wire) >> half;
    const id = load<u32>(e, 8);
    if (id != NO_FLOW) {
      const q = flowRecord(flows, id) + FLOW_HEAD;
      store<u32>(q, load<u32>(q) + 1);
      if (load<u32>(q, 8) != gap) {
        store<u32>(q, 0, 4);
        store<u32>(q, gap, 8);
        store<u32>(q, load<u32>(q, 12) + 1, 12);
      }
      store<i64>(q, load<i64>(q, 24) + <i64>d, 24);
      store<f64>(q, load<f64>(q, 32) + d * d, 32);
      addError(q, g, counted);
      store<i64>(q, load<i64>(q, 64) + more, 64);
      store<i64>(q, load<i64>(q, 72) + (more & idleMask), 72);
      if (cells != 0) cellsAdd(changetype<Cells>(cells), load<u32>(q, 16), bucketOf(d));
    }
    if (!counted) {
      errors += g.off;
      misses += g.off * g.off;
      doubts += g.alike;
    }
    excess += more;
    sum += <i64>d;
    squares += d * d;
    minimum = select(d, minimum, d < minimum);
    maximum = select(d, maximum, d > maximum);
  }
  r.sum += sum;
  r.minimum = minimum;
  r.maximum = maximum;
  r.squares += squares;
  r.doubt += doubts;
  r.error += counted ? <f64>n * <f64>n * miss : errors * errors;
  r.misses += counted ? <f64>n * miss : misses;
  r.timestamps += <f64>n * error * error;
  if (n > 0) r.drag += g.drag;
  r.excess += excess;
  r.idleExcess += excess & idleMask;
  r.answered += n;
  r.held = 0;
}

/** Handles the arrival of a reference with its measured delay and its backlog. */
export function arrived(r: Rli, arrival: f64, whole: f64, wire: u32, error: f64, backlog: f64): void {
  const g = changetype<Gap>(r.between);
  gapTo(g, arrival, whole, wire, error, backlog, r.held);
  const line = g.line;
  if (line.have != 0) {
    if (g.missed.haveBefore != 0 && arrival - <f64>wire * r.nsPerByte > g.missed.beforeTime) r.checked++;
    if (line.busy != 0) {
      r.busy++;
      r.busyBytes += r.bytesSince;
      r.busyTime += arrival - line.arrival;
    }
    flush(r, line.wire, max(error, line.error));
  } else if (r.held > 0) {
    r.oneSided += r.held;
    flush(r, wire, error);
  }
  gapStep(g, arrival, whole, wire, error, backlog);
  r.bytesSince = 0;
}

/** Answers the waiting packets by the left reference alone, or counts them as unanswered if there is none. */
export function spill(r: Rli): void {
  const n = r.held;
  const g = changetype<Gap>(r.between);
  if (n == 0) return;
  if (g.line.have == 0) {
    r.unanswered += n;
    r.held = 0;
    return;
  }
  r.oneSided += n;
  gapLeft(g, load<f64>(r.buffer + (n - 1) * BUFFERED), n);
  flush(r, g.line.wire, g.line.error);
}
