// Finds references in a stream and writes delays on RLI's line into the delay column, for users other than RLI (src/delays/reference-delays.ts, probes).

import { backlogOf } from "./backlog";
import { Batch, FLAG_PROBE, FLAG_REFERENCE } from "../decode/batch";
import { referenceDelay, References, referencesFree, referencesNew, referencesTrust, referencesTurned, REGULAR } from "./references";
import { Gap, gapDelay, gapForget, gapFree, gapLeft, gapNew, gapStep, gapTo, LINE_BACKLOG } from "./gap";

@unmanaged
class Finder {
  references: References;
  gap: Gap;
  waiting: u32; //   packets behind the last reference
  pad: u32;
  last: f64; //      when the last of them came
  // Sums over the packets filled so far: of squared errors, of errors, and of the common part of errors.
  misses: f64;
  errors: f64;
  alike: f64;
}

/** A reference's measured delay. `sided`: there was no reference before it. */
@unmanaged
class Found {
  whole: f64;
  sided: f64;
}

export function referenceFinderNew(port: u32, session: i32, longest: f64, nsPerByte: f64): usize {
  const p = heap.alloc(offsetof<Finder>());
  memory.fill(p, 0, offsetof<Finder>());
  const f = changetype<Finder>(p);
  f.references = referencesNew(port, session, longest);
  f.gap = gapNew(nsPerByte, LINE_BACKLOG, 0);
  return p;
}
export function referenceFinderFree(p: usize): void {
  referencesFree(changetype<Finder>(p).references);
  gapFree(changetype<Finder>(p).gap);
  heap.free(p);
}
/** `header`: an IP header whose source is the only trusted one, or 0; `authenticated`: trust only verified references. */
export function referenceFinderTrust(p: usize, header: usize, authenticated: u32): void {
  referencesTrust(changetype<Finder>(p).references, header, authenticated);
}
export function referenceFinderOrigin(p: usize, origin: i64): void {
  changetype<Finder>(p).references.origin = origin;
}
export function referenceFinderCounters(p: usize): usize {
  return changetype<usize>(changetype<Finder>(p).references) + offsetof<References>("seen");
}
/** Returns the address of `misses`, `errors` and `alike`. */
export function referenceFinderSums(p: usize): usize {
  return p + offsetof<Finder>("misses");
}

/**
 * Finds the first usable reference in rows [from, to) and returns its row (`to` if there is none); `found` receives its delay. `select` plane 1 of the batch
 * marks packets of ours. With `mark`, references get their measured delay and the reference flag, other packets of ours get no delay, and all other packets get
 * their backlog in the delay column, for `referenceFill`.
 */
export function referenceFind(p: usize, b: usize, from: u32, to: u32, found: usize, mark: u32): u32 {
  const f = changetype<Finder>(p);
  const r = f.references;
  const g = f.gap;
  const batch = changetype<Batch>(b);
  const own = batch.select + batch.capacity;
  for (let i = from; i < to; i++) {
    const time = load<f64>(batch.time + (i << 3));
    const wire = load<u32>(batch.wireLength + (i << 2));
    const backlog = backlogOf(g.queue, time, <f64>wire * g.nsPerByte);
    const delay = referenceDelay(r, batch, i, time, load<u64>(batch.meta + (i << 3)));
    store<u8>(own + i, delay != REGULAR ? 1 : 0);
    if (delay == REGULAR) {
      if (mark != 0) store<f64>(batch.delay + (i << 3), backlog);
      f.waiting++;
      f.last = time;
      continue;
    }
    const used = delay == delay;
    if (mark != 0) {
      const flags = batch.flags + (i << 2);
      store<u32>(flags, load<u32>(flags) | (used ? FLAG_REFERENCE : FLAG_PROBE));
      store<f64>(batch.delay + (i << 3), delay);
    }
    if (used) {
      if (referencesTurned(r)) gapForget(g);
      const at = changetype<Found>(found);
      at.sided = g.line.have == 0 ? 1 : 0;
      at.whole = delay;
      gapTo(g, time, delay, wire, r.error, backlog, f.waiting);
      gapStep(g, time, delay, wire, r.error, backlog);
      f.waiting = 0;
      return i;
    }
  }
  return to;
}

/** Called when no more reference comes: applies the last one. Returns 0 if there was none. */
export function referenceLast(p: usize, found: usize): u32 {
  const f = changetype<Finder>(p);
  if (f.gap.line.have == 0) return 0;
  gapLeft(f.gap, f.last, f.waiting);
  changetype<Found>(found).sided = 1;
  return 1;
}

/** Fills the delays of rows [from, to) in the current gap, except for packets of ours. Returns how many rows got a delay. */
export function referenceFill(p: usize, b: usize, from: u32, to: u32): u32 {
  const f = changetype<Finder>(p);
  const g = f.gap;
  const batch = changetype<Batch>(b);
  const own = batch.select + batch.capacity;
  let filled: u32 = 0;
  for (let i = from; i < to; i++) {
    const o = i << 3;
    if (load<u8>(own + i) != 0) continue;
    const delay = gapDelay(g, load<f64>(batch.time + o), load<u32>(batch.wireLength + (i << 2)), load<f64>(batch.delay + o));
    store<f64>(batch.delay + o, delay);
    f.misses += g.off * g.off + g.alike * g.alike;
    f.errors += g.off;
    f.alike += g.alike;
    filled++;
  }
  return filled;
}
