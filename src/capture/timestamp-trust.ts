/**
 * Which timestamps of a capture can be trusted. A few that lie far from all around them (a corrupted second, a clock that blinked) must not be taken for
 * the time it is: whoever reads two captures side by side would wait for the other one to come there. Each row is given a time that can be
 * believed, its own or, where it is an outlier, that of the rows before it.
 *
 * A row that jumps by more than the tolerance is an outlier, with those that jump with it, if more of the next rows (LOOK) are back where the time was; if not, the
 * clock was set, or it was quiet. Where too few rows follow, it is left open until they are there.
 *
 * Batches without a jump back and without a gap at their end are not looked at row by row. Limits: more than LOOK / 2 outliers in a row are a step; outliers within the
 * tolerance are believed; at the very start and end of a capture silence and an outlier are the same thing: it is silence up to a day, or up to SILENCE times what the
 * packets beside it take.
 */
import { formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";

/** Rows that decide whether one is an outlier. */
export const LOOK = 1024;
const DAY_NS = 86_400e9;
const SILENCE = 16;
/** Packets beside a silence that it is compared with. */
const BESIDE = 8;

/** Outlier timestamps. */
export interface OutlierReport {
  count: number;
  /** By how much at most, from the rows before; 0: none. */
  aheadNs: number;
  behindNs: number;
  /** The clock was set back by so much at most; 0: it was not. */
  setBackNs: number;
  /** The latest time that can be believed, on the axis of the timestamps; null without rows. */
  lastNs: number | null;
}

/** The last time of a capture whose largest timestamp of any packet, with or without a row, is `largestNs`; both from its first time on. */
export function lastBelieved({ count, aheadNs, lastNs }: OutlierReport, largestNs: number): number {
  if (lastNs === null) return largestNs;
  return (count > 0 && aheadNs > 0) || isNoSilence(largestNs - lastNs, lastNs) ? lastNs : largestNs;
}

/** "1 outlier timestamp, up to 1 h ahead of those around it" */
export function outlierText({ count, aheadNs, behindNs }: OutlierReport): string {
  const by = [];
  if (aheadNs > 0) by.push(`up to ${formatDuration(aheadNs)} ahead of`);
  if (behindNs > 0) by.push(`up to ${formatDuration(behindNs)} behind`);
  const what = count === 1 ? "1 outlier timestamp" : `${formatCount(count)} outlier timestamps`;
  return `${what}, ${by.join(" and ")} those around ${count === 1 ? "it" : "them"}`;
}

export class TimestampTrust {
  readonly #toleranceNs: number;
  /** The latest believed timestamp. */
  #latest = Number.NEGATIVE_INFINITY;
  #first = Number.NaN;
  #rows = 0;
  /** The last rows of the batch before were left open. */
  #open = false;
  #outliers = { count: 0, aheadNs: 0, behindNs: 0, setBackNs: 0 };
  #room = new Float64Array(0);
  /** The minimum timestamp from each row on. */
  #minimum = new Float64Array(0);
  /** Of the last batch: a believed time for each row that is decided; null where all are as timestamped. */
  believed: Float64Array | null = null;

  /** Timestamps that go back by up to so much are taken as they are. */
  constructor(toleranceNs: number) {
    this.#toleranceNs = toleranceNs;
  }

  /**
   * The next n rows of the file, beginning with those that were left open. `backNs`: by how much any of the new timestamps is behind the one before it at
   * most. `last`: no more will come. Returns how many are decided: the others are to be given again, with more behind them.
   */
  observe(timeNs: Float64Array, n: number, backNs: number, last: boolean): number {
    this.believed = null;
    if (n === 0) return 0;
    // Nothing is known before the first rows: they wait for as many as are asked.
    if (this.#rows === 0 && n <= LOOK && !last) {
      this.#open = true;
      return 0;
    }
    const plain = !this.#open && backNs <= this.#toleranceNs;
    if (!plain || this.#endsWithGap(timeNs, n) || this.#startsLate(timeNs, n)) {
      return this.#judge(timeNs, n, last);
    }
    if (this.#rows === 0) this.#first = timeNs[0]!;
    this.#latest = Math.max(this.#latest, timeNs[n - 1]!);
    this.#rows += n;
    return n;
  }

  report(): OutlierReport {
    return { ...this.#outliers, lastNs: Number.isFinite(this.#latest) ? this.#latest : null };
  }

  /** The last rows hold a jump ahead that too few rows follow. */
  #endsWithGap(timeNs: Float64Array, n: number): boolean {
    const from = Math.max(1, n - LOOK);
    let previous = n <= LOOK && Number.isFinite(this.#latest) ? this.#latest : timeNs[from - 1]!;
    if (timeNs[n - 1]! - previous <= this.#toleranceNs) return false;
    for (let i = n <= LOOK ? 0 : from; i < n; i++) {
      const time = timeNs[i]!;
      if (time - previous > this.#toleranceNs) return true;
      previous = time;
    }
    return false;
  }

  /** The first rows of all are days before what follows. */
  #startsLate(timeNs: Float64Array, n: number): boolean {
    return !Number.isFinite(this.#latest) && timeNs[Math.min(n, LOOK) - 1]! - timeNs[0]! > DAY_NS;
  }

  #judge(timeNs: Float64Array, n: number, last: boolean): number {
    if (this.#room.length < n) {
      this.#room = new Float64Array(n);
      this.#minimum = new Float64Array(n);
    }
    const believed = this.#room;
    let minimum = Number.POSITIVE_INFINITY;
    for (let k = n - 1; k >= 0; k--) {
      minimum = Math.min(minimum, timeNs[k]!);
      this.#minimum[k] = minimum;
    }
    this.believed = believed;
    this.#open = false;
    let i = this.#begin(timeNs, n);
    for (; i < n; i++) {
      const time = timeNs[i]!;
      const apart = time - this.#latest;
      if (Math.abs(apart) <= this.#toleranceNs) {
        this.#latest = Math.max(time, this.#latest);
        this.#rows++;
        believed[i] = time;
        continue;
      }
      const known = last || n - 1 - i >= LOOK;
      if (this.#isAlone(timeNs, i, n) || (last && this.#outliersAtEnd(apart))) this.#outlier(apart);
      else if (known) {
        this.#outliers.setBackNs = Math.max(this.#outliers.setBackNs, -apart);
        this.#latest = time;
        this.#rows++;
      } else {
        this.#open = true;
        break;
      }
      believed[i] = this.#latest;
    }
    return i;
  }

  /** The first rows of all, before which there are none to believe, are outliers where they are later than most of what follows, or days earlier. */
  #begin(timeNs: Float64Array, n: number): number {
    if (Number.isFinite(this.#latest)) return 0;
    let first = 0;
    const outliers = (i: number) =>
      outvoted(timeNs, i, n, Number.NEGATIVE_INFINITY, timeNs[i]! - this.#toleranceNs) ||
      daysBefore(timeNs, i, n);
    while (outliers(first)) first++;
    this.#latest = timeNs[first]!;
    this.#first = this.#latest;
    this.believed?.fill(this.#latest, 0, first);
    for (let k = 0; k < first; k++) this.#outlier(timeNs[k]! - this.#latest);
    return first;
  }

  /** Near the end, where nothing comes back to the time before. A clock that was set back there is none to wait for. */
  #outliersAtEnd(apartNs: number): boolean {
    if (apartNs < 0) return true;
    return this.#rows >= BESIDE && isNoSilence(apartNs, this.#latest - this.#first);
  }

  /** Row i has jumped, and more rows go on where the time was than went with it. */
  #isAlone(timeNs: Float64Array, i: number, n: number): boolean {
    const tolerance = this.#toleranceNs;
    const from = this.#latest - tolerance;
    const time = timeNs[i]!;
    if (time < from) return outvoted(timeNs, i, n, from, Number.POSITIVE_INFINITY);
    // Mostly there was silence, and nothing comes back.
    return this.#minimum[i]! < time - tolerance && outvoted(timeNs, i, n, from, time - tolerance);
  }

  #outlier(apartNs: number): void {
    const outliers = this.#outliers;
    outliers.count++;
    outliers.aheadNs = Math.max(outliers.aheadNs, apartNs);
    outliers.behindNs = Math.max(outliers.behindNs, -apartNs);
  }
}

/** Row i is days before most of those after it. */
function daysBefore(timeNs: Float64Array, i: number, n: number): boolean {
  const time = timeNs[i]!;
  const end = Math.min(n, i + 1 + LOOK);
  let next = 0;
  let later = 0;
  for (let k = i + 1; k < end; k++) if (timeNs[k]! > time + DAY_NS && later++ === 0) next = k;
  if (2 * later <= end - i - 1 || next + BESIDE >= n) return false;
  return isNoSilence(timeNs[next]! - time, Math.abs(timeNs[next + BESIDE]! - timeNs[next]!));
}

/** `besideNs`: what packets beside it take. */
function isNoSilence(gapNs: number, besideNs: number): boolean {
  return gapNs > DAY_NS && gapNs > SILENCE * besideNs;
}

/** Among row i and those after it, more have timestamps from `fromNs` to below `toNs` than come before the first of them. */
function outvoted(timeNs: Float64Array, i: number, n: number, fromNs: number, toNs: number): boolean {
  const end = Math.min(n, i + 1 + LOOK);
  let first = 0;
  let within = 0;
  for (let k = i + 1; k < end; k++) {
    const time = timeNs[k]!;
    if (!(time >= fromNs && time < toNs)) continue;
    if (within++ === 0) first = k - i;
    if (within > first) return true;
  }
  return false;
}

/** Counts outliers where no caller waits for the rows: keeps the timestamps that are left open itself. */
export class OutlierCounter {
  readonly #trust: TimestampTrust;
  #open = new Float64Array(0);

  constructor(toleranceNs: number) {
    this.#trust = new TimestampTrust(toleranceNs);
  }

  /** As StampTrust's. */
  observe(timeNs: Float64Array, n: number, backNs: number): void {
    let timestamps = timeNs.subarray(0, n);
    if (this.#open.length > 0) {
      timestamps = new Float64Array(this.#open.length + n);
      timestamps.set(this.#open);
      timestamps.set(timeNs.subarray(0, n), this.#open.length);
    }
    this.#open = timestamps.slice(this.#trust.observe(timestamps, timestamps.length, backNs, false));
  }

  /** After the last rows. */
  report(): OutlierReport {
    this.#trust.observe(this.#open, this.#open.length, 0, true);
    this.#open = new Float64Array(0);
    return this.#trust.report();
  }
}
