// Time 0 of a capture: the timestamp of its first packet, but where that is an outlier (a corrupted second, a clock that was not set yet) the first one that agrees with
// those after it. Times are kept as f64 from there: 54 years off, they would be exact to 256 ns only, and intervals would begin there.

/** Of the first packets, as far as they are at hand. */
export const MAX_TIMESTAMPS: u32 = 1024;
const DAY: i64 = 86400000000000;
/** Packets that were written a little out of order are not outliers. */
const LATER: i64 = 1000000;
/** Silence of more than a day is no silence where so many packets after it take less than this part of it. */
const BESIDE: u32 = 8;
const SILENCE: i64 = 16;

/** Of n timestamps (i64), the first that is neither later (by a millisecond) than most of those after it nor days before most of them (silence: src/capture/timestamp-trust.ts). */
export function originOf(timestamps: usize, n: u32): i64 {
  for (let i: u32 = 0; i < n; i++) {
    const timestamp = load<i64>(timestamps + (i << 3));
    let earlier: u32 = 0;
    let days: u32 = 0;
    let first: u32 = 0;
    for (let k = i + 1; k < n; k++) {
      const other = load<i64>(timestamps + (k << 3));
      earlier += other < timestamp - LATER ? 1 : 0;
      if (other - timestamp <= DAY) continue;
      if (days++ == 0) first = k;
    }
    let far = days << 1 > n - i - 1 && first + BESIDE < n;
    if (far) {
      const next = load<i64>(timestamps + (first << 3));
      far = (next - timestamp) / SILENCE > abs<i64>(load<i64>(timestamps + ((first + BESIDE) << 3)) - next);
    }
    if (earlier << 1 <= n - i - 1 && !far) return timestamp;
  }
  return load<i64>(timestamps);
}
