// Points for a lower envelope (src/clock/envelope.ts), thinned: of a block of consecutive points only the lowest is passed on, with the number it stands for. A
// block ends after some points or some time, whichever is first, so that no clock drifts within it; the first points are all passed on. Sums and extremes over
// all points are computed here. Blocks do not depend on how the points are divided into calls.

@unmanaged
class Thin {
  packets: f64;
  sum: f64; //      of (value - base)
  base: f64;
  minimum: f64;
  maximum: f64;
  first: f64; //    times
  last: f64;
  negative: f64;
  held: f64; //     points in the block
  start: f64; //    its first time
  bestTime: f64;
  bestValue: f64;
}

const BLOCK: f64 = 64;
const BLOCK_NS: f64 = 200000;

export function thinNew(): usize {
  const p = heap.alloc(offsetof<Thin>());
  memory.fill(p, 0, offsetof<Thin>());
  const t = changetype<Thin>(p);
  t.minimum = Infinity;
  t.maximum = -Infinity;
  t.first = Infinity;
  t.last = -Infinity;
  return p;
}

/** Adds n points (all finite); `whole`: this many of the first are passed on one by one. Writes {time, value, count} and returns how many. */
export function thinTake(p: usize, times: usize, values: usize, n: u32, sign: f64, whole: f64, out: usize): u32 {
  const t = changetype<Thin>(p);
  if (n == 0) return 0;
  if (t.packets == 0) t.base = sign * load<f64>(values);
  const base = t.base;
  let packets = t.packets;
  let sum = t.sum;
  let minimum = t.minimum;
  let maximum = t.maximum;
  let first = t.first;
  let last = t.last;
  let held = t.held;
  let start = t.start;
  let bestTime = t.bestTime;
  let bestValue = t.bestValue;
  let negative: u32 = 0;
  let given: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const time = load<f64>(times + (i << 3));
    const value = sign * load<f64>(values + (i << 3));
    packets += 1;
    sum += value - base;
    if (value < minimum) minimum = value;
    if (value > maximum) maximum = value;
    if (time < first) first = time;
    if (time > last) last = time;
    negative += value < 0 ? 1 : 0;
    if (held == 0) start = time;
    const lower = held == 0 || value < bestValue;
    bestTime = lower ? time : bestTime;
    bestValue = lower ? value : bestValue;
    held += 1;
    if (held >= BLOCK || packets <= whole || !(abs<f64>(time - start) < BLOCK_NS)) {
      give(out + given * 24, bestTime, bestValue, held);
      given++;
      held = 0;
    }
  }
  t.held = held;
  t.start = start;
  t.bestTime = bestTime;
  t.bestValue = bestValue;
  t.packets = packets;
  t.sum = sum;
  t.minimum = minimum;
  t.maximum = maximum;
  t.first = first;
  t.last = last;
  t.negative += <f64>negative;
  return given;
}

// @ts-ignore: decorator
@inline
function give(out: usize, time: f64, value: f64, held: f64): void {
  store<f64>(out, time);
  store<f64>(out, value, 8);
  store<f64>(out, held, 16);
}

/** Writes the current block; returns 1, or 0 if it is empty. */
export function thinGive(p: usize, out: usize): u32 {
  const t = changetype<Thin>(p);
  if (t.held == 0) return 0;
  give(out, t.bestTime, t.bestValue, t.held);
  t.held = 0;
  return 1;
}
