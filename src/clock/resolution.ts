/**
 * The resolution of a set of timestamps: the largest unit that divides nearly all of them.
 *
 * Units: 1, 2, 4, 5, 8 and 2.5 times powers of ten ns up to 1 s, and 2^-k s (as in ERF or NTP fractions, rounded to whole ns, so a timestamp may be 0.5 ns off
 * its tick) down to 2^-26 s; finer binary ticks look like 1 ns. Traffic at one even interval has round timestamps whatever its clock: then no resolution
 * coarser than a microsecond is reported. How it fails: timestamps that are round for another reason look coarser than their clock.
 */
const SECOND_NS = 1e9;
/** Fewer timestamps may be round by chance. */
const MIN_TIMESTAMPS = 16;
/** Share of timestamps that may miss the unit: a capture may contain a few packets of another source. */
const TOLERATED = 0.005;

const BEAT_SHARE = 0.9;
/** The usual resolution of capture files. */
const COARSEST_IN_BEAT_NS = 1000;

const UNITS: readonly { ns: number; slackNs: number }[] = makeUnits();

/** Returns null if there are too few different timestamps; 1 means 1 ns or finer. */
export function resolutionNs(timestampsNs: ArrayLike<number>): number | null {
  const different = new Set(Array.from(timestampsNs));
  if (different.size < MIN_TIMESTAMPS) return null;
  const coarsest = hasEvenBeat(timestampsNs) ? COARSEST_IN_BEAT_NS : SECOND_NS;
  for (const { ns, slackNs } of UNITS) {
    if (ns > coarsest) continue;
    let missed = 0;
    for (const timestamp of different) {
      if (
        Math.abs(timestamp - Math.round(timestamp / ns) * ns) > slackNs &&
        ++missed > TOLERATED * different.size
      )
        break;
    }
    if (missed <= TOLERATED * different.size) return ns;
  }
  return 1;
}

/** Returns whether nearly all timestamps are at the same distance: only varying distances would show a clock's resolution. */
function hasEvenBeat(timestampsNs: ArrayLike<number>): boolean {
  const distances = new Map<number, number>();
  for (let i = 1; i < timestampsNs.length; i++) {
    const distance = timestampsNs[i]! - timestampsNs[i - 1]!;
    distances.set(distance, (distances.get(distance) ?? 0) + 1);
  }
  distances.delete(0);
  let maximum = 0;
  for (const n of distances.values()) maximum = Math.max(maximum, n);
  return maximum >= BEAT_SHARE * (timestampsNs.length - 1);
}

function makeUnits(): { ns: number; slackNs: number }[] {
  const units: { ns: number; slackNs: number }[] = [];
  for (let decade = 1; decade <= SECOND_NS; decade *= 10) {
    for (const factor of [1, 2, 2.5, 4, 5, 8]) {
      const ns = factor * decade;
      if (Number.isInteger(ns) && SECOND_NS % ns === 0) units.push({ ns, slackNs: 0 });
    }
  }
  for (let k = 6; k <= 26; k++) units.push({ ns: SECOND_NS / 2 ** k, slackNs: 0.51 });
  return units.sort((a, b) => b.ns - a.ns);
}
