// Adds points to the buckets of a lower envelope (src/clock/envelope.ts), as long as they are within the existing buckets or these can be extended. Wider
// buckets are made by the TypeScript side, which is rare.

export const MAX_BUCKETS: u32 = 4096;

/** Followed by times, values and counts of MAX_BUCKETS each (f64); bucket b is at b mod MAX_BUCKETS. */
@unmanaged
export class EnvelopeBuckets {
  low: f64; //   numbers of the first and the last bucket; the last is below the first if there are none
  high: f64;
  width: f64; // ns
  slope: f64; // along which the lowest point is judged
}
export const BUCKETS_BYTES: u32 = offsetof<EnvelopeBuckets>() + 3 * 8 * MAX_BUCKETS;

/** Adds points {time, value, count}; returns how many were added: the next one, if any, needs wider buckets. */
export function envelopeAdd(p: usize, points: usize, n: u32): u32 {
  const e = changetype<EnvelopeBuckets>(p);
  const times = p + offsetof<EnvelopeBuckets>();
  const width = e.width;
  const slope = e.slope;
  let low = e.low;
  let high = e.high;
  let i: u32 = 0;
  for (; i < n; i++) {
    const point = points + i * 24;
    const time = load<f64>(point);
    const value = load<f64>(point, 8);
    const bucket = Math.floor(time / width);
    if (!(bucket >= low && bucket <= high)) {
      if (high < low) {
        low = bucket;
        high = bucket;
      } else {
        if (max<f64>(bucket, high) - min<f64>(bucket, low) >= <f64>MAX_BUCKETS) break;
        low = min<f64>(low, bucket);
        high = max<f64>(high, bucket);
      }
    }
    const at = times + ((<u32>(<i64>bucket) & (MAX_BUCKETS - 1)) << 3);
    const had = load<f64>(at, 16 * MAX_BUCKETS);
    if (had == 0 || value - load<f64>(at, 8 * MAX_BUCKETS) < slope * (time - load<f64>(at))) {
      store<f64>(at, time);
      store<f64>(at, value, 8 * MAX_BUCKETS);
    }
    store<f64>(at, had + load<f64>(point, 16), 16 * MAX_BUCKETS);
  }
  e.low = low;
  e.high = high;
  return i;
}
