// Time 0 of a capture: the timestamp of its first packet or, if that is an outlier (a corrupted second, a clock that was not set yet), the first one that
// agrees with those after it. Times are stored as f64 relative to it: with an origin that is 54 years off they would be exact to 256 ns only, and the first
// interval would start there.

/** Number of first packets examined, as far as they are in memory. */
export const MAX_TIMESTAMPS: u32 = 1024;
const DAY: i64 = 86400000000000;
/** Packets written slightly out of order are not outliers. */
const LATER: i64 = 1000000;
/** A gap of more than a day is an outlier, not silence, if the BESIDE packets after it take less than 1/SILENCE of it. */
const BESIDE: u32 = 8;
const SILENCE: i64 = 16;

/**
 * Returns the first of n timestamps (i64) that is neither later (by a millisecond) than most of those after it, nor days before most of them
 * (src/capture/timestamp-trust.ts defines silence).
 */
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
