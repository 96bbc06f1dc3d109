// Counts neighbouring timestamps of a capture that are equal, or closer than frames can follow each other on the wire (src/clock/timestamp-quality.ts). At a
// step back or a large gap it returns to the TypeScript side, which records its position.

@unmanaged
export class Neighbours {
  previous: f64; // the timestamp before
  close: f64; //    gaps below this are too small
  large: f64; //    gaps above this are not passed over
  equals: f64; //   packets with an equal neighbour
  closes: f64; //   packets with one too near
  run: f64; //      equal ones in a row, up to the one before
  longest: f64;
  wasEqual: f64; // 1: the one before is equal to the one before it; otherwise 0
  wasClose: f64;
}

/** Counts timestamps from number `from` on. Returns the first that is before the previous one or too far from it, or `to`. */
export function neighboursTake(p: usize, times: usize, from: u32, to: u32): u32 {
  const n = changetype<Neighbours>(p);
  const close = n.close;
  const large = n.large;
  // The smallest gap that is not too small; always above 0.
  const least = max<f64>(close, f64.MIN_VALUE);
  let previous = n.previous;
  let apart = false;
  let i = from;
  for (; i < to; i++) {
    const time = load<f64>(times + (i << 3));
    const gap = time - previous;
    if (gap >= least && gap <= large) {
      previous = time;
      if (apart) continue;
      apart = true;
      n.wasEqual = 0;
      n.wasClose = 0;
      n.run = 1;
      continue;
    }
    if (!(gap >= 0 && gap <= large)) break;
    previous = time;
    apart = false;
    // A packet counts once, whether the previous or the next packet is too close.
    const isEqual: f64 = gap == 0 ? 1 : 0;
    const isClose: f64 = gap < close ? 1 : 0;
    n.equals += isEqual * (2 - n.wasEqual);
    n.closes += isClose * (2 - n.wasClose);
    n.wasEqual = isEqual;
    n.wasClose = isClose;
    n.run = isEqual != 0 ? n.run + 1 : 1;
    if (n.run > n.longest) n.longest = n.run;
  }
  n.previous = previous;
  return i;
}
