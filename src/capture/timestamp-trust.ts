/**
 * Decides which timestamps of a capture can be trusted. A few outliers far from all others (a corrupted second, a clock that jumped for a moment) must not be
 * taken for the current time: a reader of two captures side by side would wait for the other one to get there. Each row gets a believed time: its own or, for
 * an outlier, that of the rows before it.
 *
 * A row that jumps by more than the tolerance is an outlier, with those that jump with it, if more of the next LOOK rows are back at the old time. If not, the
 * clock was set, or the link was quiet. If too few rows follow, the decision is left open until they are there.
 *
 * Batches without a jump back and without a gap at their end are not examined row by row. Limits: more than LOOK / 2 outliers in a row are a step; outliers
 * within the tolerance are believed. At the very start and end of a capture silence cannot be told from an outlier: it counts as silence up to a day, or up to
 * SILENCE times the duration of the neighbouring packets.
 */
import { formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";

/** Number of following rows that decide whether a row is an outlier. */
export const LOOK = 1024;
const DAY_NS = 86_400e9;
const SILENCE = 16;
/** Number of packets next to a silence whose duration it is compared with. */
const BESIDE = 8;

/** Counts and sizes of outlier timestamps. */
export interface OutlierReport {
  count: number;
  /** Largest distance from the rows before; 0: none. */
  aheadNs: number;
  behindNs: number;
  /** Largest step by which the clock was set back; 0: none. */
  setBackNs: number;
  /** The latest believed time, on the axis of the timestamps; null without rows. */
  lastNs: number | null;
}

/**
 * Returns the last time of a capture whose largest timestamp of any packet, with or without a row, is `largestNs`; both count from the capture's first time.
 */
export function lastBelieved({ count, aheadNs, lastNs }: OutlierReport, largestNs: number): number {
  if (lastNs === null) return largestNs;
  return (count > 0 && aheadNs > 0) || isNoSilence(largestNs - lastNs, lastNs) ? lastNs : largestNs;
}

/** Returns "1 outlier timestamp, up to 1 h ahead of those around it". */
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
  /** The last rows of the previous batch were left undecided. */
  #open = false;
  #outliers = { count: 0, aheadNs: 0, behindNs: 0, setBackNs: 0 };
  #room = new Float64Array(0);
  /** The minimum timestamp from each row to the end of the batch. */
  #minimum = new Float64Array(0);
  /** For the last batch: a believed time for each decided row; null if all timestamps are believed. */
  believed: Float64Array | null = null;

  /** Timestamps that go back by up to `toleranceNs` are believed. */
  constructor(toleranceNs: number) {
    this.#toleranceNs = toleranceNs;
  }

  /**
   * Takes the next n rows of the file, beginning with those that were left undecided. `backNs`: the largest step back from one new timestamp to the next.
   * `last`: no more rows will come. Returns how many rows are decided; pass the others again, followed by more.
   */
  observe(timeNs: Float64Array, n: number, backNs: number, last: boolean): number {
    this.believed = null;
    if (n === 0) return 0;
    // Nothing is known before the first rows, so wait for enough of them.
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

  /** Returns whether the last rows hold a jump ahead that too few rows follow. */
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

  /** Returns whether the first rows of the capture are days before those that follow. */
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

  /**
   * Handles the first rows of the capture, which have no rows before them. They are outliers if they are later than most of what follows, or days earlier.
   * Returns the number of outliers.
   */
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

  /**
   * Decides about rows near the end, after which nothing returns to the earlier time. A step back there always counts as an outlier; it is too late to see
   * whether the clock was set.
   */
  #outliersAtEnd(apartNs: number): boolean {
    if (apartNs < 0) return true;
    return this.#rows >= BESIDE && isNoSilence(apartNs, this.#latest - this.#first);
  }

  /** Returns whether row i is an outlier: more rows continue at the old time than jumped with it. */
  #isAlone(timeNs: Float64Array, i: number, n: number): boolean {
    const tolerance = this.#toleranceNs;
    const from = this.#latest - tolerance;
    const time = timeNs[i]!;
    if (time < from) return outvoted(timeNs, i, n, from, Number.POSITIVE_INFINITY);
    // Usually there was silence, and no row returns to the old time.
    return this.#minimum[i]! < time - tolerance && outvoted(timeNs, i, n, from, time - tolerance);
  }

  #outlier(apartNs: number): void {
    const outliers = this.#outliers;
    outliers.count++;
    outliers.aheadNs = Math.max(outliers.aheadNs, apartNs);
    outliers.behindNs = Math.max(outliers.behindNs, -apartNs);
  }
}

/** Returns whether row i is days before most of the rows after it. */
function daysBefore(timeNs: Float64Array, i: number, n: number): boolean {
  const time = timeNs[i]!;
  const end = Math.min(n, i + 1 + LOOK);
  let next = 0;
  let later = 0;
  for (let k = i + 1; k < end; k++) if (timeNs[k]! > time + DAY_NS && later++ === 0) next = k;
  if (2 * later <= end - i - 1 || next + BESIDE >= n) return false;
  return isNoSilence(timeNs[next]! - time, Math.abs(timeNs[next + BESIDE]! - timeNs[next]!));
}

/** `besideNs`: duration of the neighbouring packets. */
function isNoSilence(gapNs: number, besideNs: number): boolean {
  return gapNs > DAY_NS && gapNs > SILENCE * besideNs;
}

/** Returns whether, among the LOOK rows after row i, more have timestamps in [fromNs, toNs) than there are rows from row i to the first of them. */
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

/** Counts outliers for a caller that does not wait for undecided rows: it keeps their timestamps itself. */
export class OutlierCounter {
  readonly #trust: TimestampTrust;
  #open = new Float64Array(0);

  constructor(toleranceNs: number) {
    this.#trust = new TimestampTrust(toleranceNs);
  }

  /** Same parameters as TimestampTrust.observe. */
  observe(timeNs: Float64Array, n: number, backNs: number): void {
    let timestamps = timeNs.subarray(0, n);
    if (this.#open.length > 0) {
      timestamps = new Float64Array(this.#open.length + n);
      timestamps.set(this.#open);
      timestamps.set(timeNs.subarray(0, n), this.#open.length);
    }
    this.#open = timestamps.slice(this.#trust.observe(timestamps, timestamps.length, backNs, false));
  }

  /** Returns the report after the last rows. */
  report(): OutlierReport {
    this.#trust.observe(this.#open, this.#open.length, 0, true);
    this.#open = new Float64Array(0);
    return this.#trust.report();
  }
}
