// Delays near the ends of the captures: pairs that show whether a packet without a partner could have been seen at the other point (kernels/match/judge.ts).
// Kept per direction: those of the first window, thinned evenly, and the last ones. The selection depends on the captures only, not on how they are divided
// into calls, nor on the length of intervals.
//
//   pair: time at BEFORE f64 | difference of the timestamps (after - before) f64

/** Maximum number of pairs at either end. */
const ROOM: u32 = 4096;
const PAIR: u32 = 16;
/** Up to this many pairs every one of the last is kept, then one in LAST_STEP: in arrival order these have all kinds of delays. */
const FEW: u32 = 32768;
const LAST_STEP: u32 = 16;
/** Number of pairs by which an end is judged. */
export const NEAR: u32 = 64;
/** Fewer pairs do not show the usual delay. */
export const ENOUGH: u32 = 8;
/** ns: most captures have microsecond timestamps, and there are two. */
export const RESOLUTION: f64 = 2000;

@unmanaged
export class EdgeSample {
  first: u32; //      address of pairs
  firstCount: u32;
  firstStep: u32; //  one in this many is kept
  firstSkip: u32; //  pairs to skip until the next one is kept
  firstUntil: f64; // pairs sent later are not in the first window; NaN before the first pair
  last: u32; //       address of a ring of pairs
  lastCount: u32; //  number written so far
  lastSkip: u32;
  seen: u32; //       pairs so far
  pad: u32;
}

export function edgeSampleNew(): u32 {
  const p = heap.alloc(offsetof<EdgeSample>());
  memory.fill(p, 0, offsetof<EdgeSample>());
  const s = changetype<EdgeSample>(p);
  s.first = <u32>heap.alloc(ROOM * PAIR);
  s.last = <u32>heap.alloc(ROOM * PAIR);
  s.firstStep = 1;
  s.firstUntil = NaN;
  return <u32>p;
}

export function edgeSampleFree(p: u32): void {
  const s = changetype<EdgeSample>(p);
  heap.free(s.first);
  heap.free(s.last);
  heap.free(p);
}

// @ts-ignore: decorator
@inline
function put(at: u32, send: f64, difference: f64): void {
  store<f64>(at, send);
  store<f64>(at, difference, 8);
}

/** Adds n pairs, in the order in which they were found; `window`: length of the first window. */
export function edgeSampleTake(p: u32, sends: usize, differences: usize, n: u32, window: f64): void {
  if (n == 0) return;
  const s = changetype<EdgeSample>(p);
  if (isNaN(s.firstUntil)) s.firstUntil = load<f64>(sends) + window;
  if (s.firstUntil < Infinity) takeFirst(s, sends, differences, n);
  let i = s.lastSkip;
  let count = s.lastCount;
  for (; i < n; i += s.seen + i < FEW ? 1 : LAST_STEP) {
    put(s.last + (count & (ROOM - 1)) * PAIR, load<f64>(sends + (i << 3)), load<f64>(differences + (i << 3)));
    count++;
  }
  s.lastCount = count;
  s.lastSkip = i - n;
  s.seen += n;
}

/** Takes n pairs that were put off, of packets that are not repeated: those that belong to the last ones. */
export function edgeSampleAdd(p: u32, sends: usize, differences: usize, n: u32): void {
  const s = changetype<EdgeSample>(p);
  for (let i: u32 = 0; i < n; i += s.seen < FEW ? 1 : LAST_STEP) {
    const send = load<f64>(sends + (i << 3));
    s.seen++;
    if (s.lastCount >= ROOM && send < load<f64>(s.last + (s.lastCount & (ROOM - 1)) * PAIR)) continue;
    put(s.last + (s.lastCount++ & (ROOM - 1)) * PAIR, send, load<f64>(differences + (i << 3)));
  }
}

function takeFirst(s: EdgeSample, sends: usize, differences: usize, n: u32): void {
  let i = s.firstSkip;
  while (i < n) {
    const send = load<f64>(sends + (i << 3));
    if (send > s.firstUntil) {
      s.firstUntil = Infinity;
      return;
    }
    if (s.firstCount == ROOM) {
      for (let k: u32 = 1; k < ROOM >> 1; k++) memory.copy(s.first + k * PAIR, s.first + 2 * k * PAIR, PAIR);
      s.firstCount = ROOM >> 1;
      s.firstStep <<= 1;
    }
    put(s.first + s.firstCount++ * PAIR, send, load<f64>(differences + (i << 3)));
    i += s.firstStep;
  }
  s.firstSkip = i - n;
}

/**
 * Writes the differences of the pairs closest to `time` at BEFORE, or at AFTER (`arrival`), ascending, to `out` (room for NEAR); returns how many. `tail`:
 * judge the end of the captures, else the start: if a clock was set close to it, pairs beyond that step are left out.
 */
export function edgeSampleNear(p: u32, time: f64, arrival: bool, tail: bool, out: usize): u32 {
  const s = changetype<EdgeSample>(p);
  const apart = heap.alloc(NEAR << 3);
  sends = heap.alloc(NEAR << 3);
  places = heap.alloc(NEAR << 2);
  place = 0;
  let n: u32 = 0;
  for (let i: u32 = 0; i < s.firstCount; i++) n = keepNear(s.first + i * PAIR, time, arrival, out, apart, n);
  // With few pairs the last ones are among the first.
  const last = min<u32>(ROOM, s.lastCount);
  const others = s.firstStep == 1 ? min<u32>(last, s.seen - s.firstCount) : last;
  for (let i = s.lastCount - others; i != s.lastCount; i++) n = keepNear(s.last + (i & (ROOM - 1)) * PAIR, time, arrival, out, apart, n);
  heap.free(apart);
  n = cutAtStep(out, n, tail);
  heap.free(sends);
  heap.free(places);
  sort(out, n);
  return n;
}

/** Times at BEFORE of the kept pairs, and their positions in the order in which pairs were found. */
let sends: usize = 0;
let places: usize = 0;
/** Position of the current pair. */
let place: u32 = 0;
/** Differences on the two sides of a clock step are further apart than this many widths, and this many ns. */
const APART: f64 = 4;
const APART_AT_LEAST: f64 = 1000000;

/** Sorts the pairs by time from this end, and finds a place where all later differences are far from all earlier ones; returns how many are before it. */
function cutAtStep(out: usize, n: u32, tail: bool): u32 {
  for (let i: u32 = 1; i < n; i++) {
    const send = load<f64>(sends + (i << 3));
    const value = load<f64>(out + (i << 3));
    const found = load<u32>(places + (i << 2));
    let k = i;
    for (; k > 0 && (tail ? load<f64>(sends + ((k - 1) << 3)) < send : load<f64>(sends + ((k - 1) << 3)) > send); k--) {
      store<f64>(sends + (k << 3), load<f64>(sends + ((k - 1) << 3)));
      store<f64>(out + (k << 3), load<f64>(out + ((k - 1) << 3)));
      store<u32>(places + (k << 2), load<u32>(places + ((k - 1) << 2)));
    }
    store<f64>(sends + (k << 3), send);
    store<f64>(out + (k << 3), value);
    store<u32>(places + (k << 2), found);
  }
  let low: f64 = Infinity;
  let high: f64 = -Infinity;
  for (let i: u32 = 0; i + ENOUGH <= n; i++) {
    if (i >= ENOUGH) {
      let least: f64 = Infinity;
      let most: f64 = -Infinity;
      for (let k = i; k < n; k++) {
        least = min<f64>(least, load<f64>(out + (k << 3)));
        most = max<f64>(most, load<f64>(out + (k << 3)));
      }
      const gap = max<f64>(least - high, low - most);
      if (gap > APART * max<f64>(high - low, most - least) + APART_AT_LEAST) return alternate(n, i) ? n : i;
    }
    low = min<f64>(low, load<f64>(out + (i << 3)));
    high = max<f64>(high, load<f64>(out + (i << 3)));
  }
  return n;
}

/**
 * Returns whether the first i pairs and the others were found alternately: packets of two classes, one with a much longer delay and therefore sent earlier.
 * Pairs before a clock step, in contrast, were all found before those after it, except for a few.
 */
function alternate(n: u32, i: u32): bool {
  let turns: u32 = 0;
  let last: u32 = 0;
  let at: i64 = -1;
  for (let seen: u32 = 0; seen < n; seen++) {
    // The next one in the order in which they were found; there are few.
    let next: u32 = 0;
    let nextAt: i64 = i64.MAX_VALUE;
    for (let k: u32 = 0; k < n; k++) {
      const found = <i64>load<u32>(places + (k << 2));
      if (found > at && found < nextAt) {
        nextAt = found;
        next = k;
      }
    }
    const kind: u32 = next < i ? 1 : 2;
    if (last != 0 && kind != last) turns++;
    last = kind;
    at = nextAt;
  }
  return turns >= ENOUGH;
}

/** Keeps the NEAR closest pairs in a heap; the furthest is on top and is replaced. */
function keepNear(pair: u32, time: f64, arrival: bool, out: usize, apart: usize, n: u32): u32 {
  const difference = load<f64>(pair, 8);
  const distance = abs<f64>(load<f64>(pair) + (arrival ? difference : 0) - time);
  place++;
  if (n == NEAR) {
    if (distance >= load<f64>(apart)) return n;
    keepAt(sink(apart, out, n, distance), apart, out, distance, pair);
    return n;
  }
  let i = n;
  while (i > 0) {
    const parent = (i - 1) >> 1;
    if (load<f64>(apart + (parent << 3)) >= distance) break;
    moveKept(apart, out, parent, i);
    i = parent;
  }
  keepAt(i, apart, out, distance, pair);
  return n + 1;
}
function keepAt(i: u32, apart: usize, out: usize, distance: f64, pair: u32): void {
  store<f64>(apart + (i << 3), distance);
  store<f64>(out + (i << 3), load<f64>(pair, 8));
  store<f64>(sends + (i << 3), load<f64>(pair));
  store<u32>(places + (i << 2), place);
}
function moveKept(apart: usize, out: usize, from: u32, to: u32): void {
  store<f64>(apart + (to << 3), load<f64>(apart + (from << 3)));
  store<f64>(out + (to << 3), load<f64>(out + (from << 3)));
  store<f64>(sends + (to << 3), load<f64>(sends + (from << 3)));
  store<u32>(places + (to << 2), load<u32>(places + (from << 2)));
}
/** Makes room for a pair at `distance` in place of the furthest; returns its position. */
function sink(apart: usize, out: usize, n: u32, distance: f64): u32 {
  let i: u32 = 0;
  while ((i << 1) + 1 < n) {
    let child = (i << 1) + 1;
    if (child + 1 < n && load<f64>(apart + ((child + 1) << 3)) > load<f64>(apart + (child << 3))) child++;
    if (distance >= load<f64>(apart + (child << 3))) break;
    moveKept(apart, out, child, i);
    i = child;
  }
  return i;
}

/** Insertion sort: there are few values. */
function sort(values: usize, n: u32): void {
  for (let i: u32 = 1; i < n; i++) {
    const value = load<f64>(values + (i << 3));
    let k = i;
    for (; k > 0 && load<f64>(values + ((k - 1) << 3)) > value; k--) store<f64>(values + (k << 3), load<f64>(values + ((k - 1) << 3)));
    store<f64>(values + (k << 3), value);
  }
}
