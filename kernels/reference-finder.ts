// References found in a stream, and delays on RLI's line written into the delay column, for others than RLI (src/estimators/rli/reference-delays.ts, probes).

import { Batch } from "./batch";
import {
  FLAG_PROBE, FLAG_REFERENCE, Line, lineInit, lineLeft, lineStep, lineTo, onLine, referenceDelay, References, referencesInit, REGULAR,
} from "./references";

@unmanaged
class Finder {
  references: References;
  line: Line;
}

/** What a reference tells: its delay as measured, and the line of the gap that it ends; `sided`: there was no reference before it. */
@unmanaged
class Found {
  whole: f64;
  time: f64;
  delay: f64;
  slope: f64;
  share: f64;
  sided: f64;
}

export function referenceFinderNew(port: u32, session: i32, longest: f64, nsPerByte: f64): usize {
  const p = heap.alloc(offsetof<Finder>());
  const f = changetype<Finder>(p);
  f.references = changetype<References>(heap.alloc(offsetof<References>()));
  memory.fill(changetype<usize>(f.references), 0, offsetof<References>());
  referencesInit(f.references, port, session, longest);
  f.line = changetype<Line>(heap.alloc(offsetof<Line>()));
  memory.fill(changetype<usize>(f.line), 0, offsetof<Line>());
  lineInit(f.line, nsPerByte, 0, 0);
  return p;
}
export function referenceFinderFree(p: usize): void {
  heap.free(changetype<usize>(changetype<Finder>(p).references));
  heap.free(changetype<usize>(changetype<Finder>(p).line));
  heap.free(p);
}
export function referenceFinderOrigin(p: usize, origin: i64): void {
  changetype<Finder>(p).references.origin = origin;
}
export function referenceFinderCounters(p: usize): usize {
  return changetype<usize>(changetype<Finder>(p).references) + offsetof<References>("seen");
}

/**
 * The first usable reference in rows [from, to), and its row (`to` where there is none); `found` receives what it tells. `select` plane 1 of the batch marks packets of
 * ours. `mark`: in the batch, references get their measured delay and the flag of a reference, others of ours no delay.
 */
export function referenceFind(p: usize, b: usize, from: u32, to: u32, found: usize, mark: u32): u32 {
  const f = changetype<Finder>(p);
  const r = f.references;
  const batch = changetype<Batch>(b);
  const own = batch.select + batch.capacity;
  for (let i = from; i < to; i++) {
    const time = load<f64>(batch.time + (i << 3));
    const delay = referenceDelay(r, batch, i, time, load<u64>(batch.meta + (i << 3)));
    store<u8>(own + i, delay != REGULAR ? 1 : 0);
    if (delay == REGULAR) continue;
    const used = delay == delay;
    if (mark != 0) {
      const flags = batch.flags + (i << 2);
      store<u32>(flags, load<u32>(flags) | (used ? FLAG_REFERENCE : FLAG_PROBE));
      store<f64>(batch.delay + (i << 3), delay);
    }
    if (used) {
      const wire = load<u32>(batch.wireLength + (i << 2));
      const at = changetype<Found>(found);
      at.sided = f.line.have == 0 ? 1 : 0;
      lineTo(f.line, time, delay, wire, r.error);
      at.whole = delay;
      tell(f.line, at);
      lineStep(f.line, time, delay, wire, r.error);
      return i;
    }
  }
  return to;
}

/** Where no reference comes any more: the line of the last one; 0 where there was none. */
export function referenceLast(p: usize, found: usize): u32 {
  const line = changetype<Finder>(p).line;
  if (line.have == 0) return 0;
  lineLeft(line);
  const at = changetype<Found>(found);
  at.sided = 1;
  tell(line, at);
  return 1;
}

function tell(line: Line, at: Found): void {
  at.time = line.time;
  at.delay = line.delay;
  at.slope = line.slope;
  at.share = line.share;
}

/** Delays of rows [from, to) on a line that was found, but for packets of ours. Returns how many got one. */
export function referenceFill(b: usize, from: u32, to: u32, found: usize, nsPerByte: f64): u32 {
  const batch = changetype<Batch>(b);
  const own = batch.select + batch.capacity;
  const at = changetype<Found>(found);
  let filled: u32 = 0;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    if (load<u8>(own + i) != 0) continue;
    const transmission = <f64>load<u32>(batch.wireLength + (i << 2)) * at.share * nsPerByte;
    store<f64>(batch.delay + o, onLine(load<f64>(batch.time + o), transmission, at.slope == 0, at.time, at.delay, at.slope));
    filled++;
  }
  return filled;
}
