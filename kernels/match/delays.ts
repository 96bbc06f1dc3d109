// Fills the delay column of a point's rows from the capture of the sender: the same packets by digest within a window, first in, first out among equals
// (the log of match.ts). The owner is src/delays/sender-delays.ts.

import { Batch } from "../decode/batch";
import { entryOf, Log, logAdapt, logAdd, logFree, logNew, logNext, logPassed, logSearch, MATCHED } from "./waiting";

@unmanaged
class Delays {
  log: u32;
  matched: u32;
  unmatched: u32;
  reversed: u32; //  rows whose partner at the sender is later than they are
  window: f64;
  now: f64;
}

export function delaysNew(window: f64): usize {
  const p = heap.alloc(offsetof<Delays>());
  memory.fill(p, 0, offsetof<Delays>());
  const d = changetype<Delays>(p);
  d.log = logNew();
  d.window = window;
  d.now = -Infinity;
  return p;
}

export function delaysFree(p: usize): void {
  logFree(changetype<Delays>(p).log);
  heap.free(p);
}

/** Rows of the sender from `from` on, as long as their time + shift is not above `until`; returns the first row not taken. */
export function delaysSent(p: usize, b: usize, from: u32, until: f64, shift: f64): u32 {
  const d = changetype<Delays>(p);
  const log = changetype<Log>(d.log);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  let i = from;
  for (; i < n; i++) {
    const time = load<f64>(batch.time + (i << 3)) + shift;
    if (time > until) break;
    logAdd(log, load<u64>(batch.digest + (i << 3)), time, 0, 0);
  }
  return i;
}

/** The delay of every row of the receiver, NaN where no packet was sent. Differences below `least` belong to the other direction. */
export function delaysFill(p: usize, b: usize, shift: f64, least: f64): void {
  const d = changetype<Delays>(p);
  const log = changetype<Log>(d.log);
  const batch = changetype<Batch>(b);
  const n = batch.count;
  let now = d.now;
  for (let i: u32 = 0; i < n; i++) {
    const time = load<f64>(batch.time + (i << 3)) + shift;
    if (time > now) now = time;
    const digest = load<u64>(batch.digest + (i << 3));
    let found = logNext(log, digest, time, d.window);
    if (found == 0) found = logSearch(log, digest, time, d.window);
    let delay: f64 = NaN;
    if (found == 0) d.unmatched++;
    else if (time - load<f64>(found, 8) < least) {
      // It waits on for a packet of its own direction.
      store<u32>(found, load<u32>(found, 20) & ~MATCHED, 20);
      d.reversed++;
    } else {
      delay = time - load<f64>(found, 8);
      d.matched++;
    }
    store<f64>(batch.delay + (i << 3), delay);
  }
  d.now = now;
  while (log.tail != log.next && load<f64>(entryOf(log, log.tail), 8) < now - d.window) log.tail++;
  logPassed(log);
  log.rows += n;
  logAdapt(log);
}

/** 0 matched, 1 unmatched, 2 reversed, 3 packets of the sender that wait. */
export function delaysCount(p: usize, what: u32): u32 {
  const d = changetype<Delays>(p);
  if (what == 0) return d.matched;
  if (what == 1) return d.unmatched;
  if (what == 2) return d.reversed;
  const log = changetype<Log>(d.log);
  return log.next - log.tail;
}
