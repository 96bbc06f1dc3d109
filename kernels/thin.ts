// Points for a lower envelope (src/clock/envelope.ts), thinned: of a block of consecutive ones only the lowest is given on, with the number it stands
// for. Blocks end after some points or some time, whichever is first, so that no clock drifts in one; the first points are all given on. What
// is asked of all points (sums, extremes) is counted here. Blocks do not depend on how the points are cut into calls.

@unmanaged
class Thin {
  packets: f64;
  sum: f64; //      of (value - base)
  base: f64;
  least: f64;
  most: f64;
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
  t.least = Infinity;
  t.most = -Infinity;
  t.first = Infinity;
  t.last = -Infinity;
  return p;
}

/** Takes n points (all finite); `whole`: so many of the first are given on one by one. Writes {time, value, count} and returns how many. */
export function thinTake(p: usize, times: usize, values: usize, n: u32, sign: f64, whole: f64, out: usize): u32 {
  const t = changetype<Thin>(p);
  if (n == 0) return 0;
  if (t.packets == 0) t.base = sign * load<f64>(values);
  const base = t.base;
  let packets = t.packets;
  let sum = t.sum;
  let least = t.least;
  let most = t.most;
  let first = t.first;
  let last = t.last;
  let negative: u32 = 0;
  let given: u32 = 0;
  for (let i: u32 = 0; i < n; i++) {
    const time = load<f64>(times + (i << 3));
    const value = sign * load<f64>(values + (i << 3));
    packets += 1;
    sum += value - base;
    least = min<f64>(least, value);
    most = max<f64>(most, value);
    first = min<f64>(first, time);
    last = max<f64>(last, time);
    negative += value < 0 ? 1 : 0;
    if (t.held == 0) {
      t.start = time;
      t.bestTime = time;
      t.bestValue = value;
    } else if (value < t.bestValue) {
      t.bestTime = time;
      t.bestValue = value;
    }
    t.held += 1;
    if (t.held >= BLOCK || packets <= whole || !(abs<f64>(time - t.start) < BLOCK_NS)) given += thinGive(p, out + given * 24);
  }
  t.packets = packets;
  t.sum = sum;
  t.least = least;
  t.most = most;
  t.first = first;
  t.last = last;
  t.negative += <f64>negative;
  return given;
}

/** Gives the block at hand; returns 1, or 0 where it is empty. */
export function thinGive(p: usize, out: usize): u32 {
  const t = changetype<Thin>(p);
  if (t.held == 0) return 0;
  store<f64>(out, t.bestTime);
  store<f64>(out, t.bestValue, 8);
  store<f64>(out, t.held, 16);
  t.held = 0;
  return 1;
}

/** The first of times [from, to) that is not `least` to `most` after the one before it; `previous` is before the first. */
export function timesBetween(times: usize, from: u32, to: u32, previous: f64, least: f64, most: f64): u32 {
  let i = from;
  for (; i < to; i++) {
    const time = load<f64>(times + (i << 3));
    const gap = time - previous;
    if (!(gap >= least && gap > 0 && gap <= most)) break;
    previous = time;
  }
  return i;
}
