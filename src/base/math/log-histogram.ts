/**
 * A mergeable histogram of integer nanoseconds in log buckets: 128 buckets per octave, exact below 256.
 *
 * Bucket of a non-negative integer v <= 2^53: v itself if v < 256; otherwise 256 + (e - 8) * 128 + sub, with e = floor(log2 v) and sub = the seven bits below
 * the leading one. A negative v has bucket -1 - bucket(-v). The kernels use the same rule: changing it here breaks them and every stored record.
 *
 * Guarantee: a bucket's midpoint is within 1/256 = 0.39 % of every integer in it, so a quantile is within 0.39 % of the true nearest-rank sample for any data.
 * Merging is exact (integer counts, fixed buckets).
 * Throws a RangeError for values that are not finite or beyond 2^53 ns (104 days), such as a timestamp passed as a delay.
 */
import { FormatError } from "../errors.ts";

const EXACT = 256;
const PER_OCTAVE = 128;
const TWO_32 = 4294967296;
const MAX_VALUE = 2 ** 53;
const MAX_BUCKET = EXACT + (53 - 8) * PER_OCTAVE;

/** Returns the bucket of a value; a fraction of a nanosecond is rounded first, half away from zero. */
export function bucketOf(valueNs: number): number {
  const v = Math.round(Math.abs(valueNs));
  if (!(v <= MAX_VALUE)) throw new RangeError(`${valueNs} ns is outside of the histogram's +-2^53 ns`);
  let index: number;
  if (v < EXACT) index = v;
  else if (v < TWO_32) {
    const e = 31 - Math.clz32(v);
    index = EXACT + (e - 8) * PER_OCTAVE + (v >>> (e - 7)) - PER_OCTAVE;
  } else {
    const high = Math.floor(v / TWO_32);
    const e = 63 - Math.clz32(high);
    index = EXACT + (e - 8) * PER_OCTAVE + Math.floor(v / 2 ** (e - 7)) - PER_OCTAVE;
  }
  return valueNs < 0 && v > 0 ? -1 - index : index;
}

/** Returns the smallest integer of a bucket. */
export function bucketLow(index: number): number {
  checkBucket(index);
  return index < 0 ? -magnitudeHigh(-1 - index) : magnitudeLow(index);
}

/** Returns the largest integer of a bucket. */
export function bucketHigh(index: number): number {
  checkBucket(index);
  return index < 0 ? -magnitudeLow(-1 - index) : magnitudeHigh(index);
}

/** Returns the value that represents a bucket: the middle of its integers (half a nanosecond is possible). */
export function bucketMid(index: number): number {
  const low = bucketLow(index);
  return low + (bucketHigh(index) - low) / 2;
}

/**
 * Returns the nearest rank ceil(q n), from 1 to n. q n is reduced by 2^-50 of itself first: 0.55 * 100 is 55.00000000000001 in doubles and would otherwise
 * select the 56th sample.
 */
export function nearestRank(q: number, n: number): number {
  if (!(q >= 0 && q <= 1)) throw new RangeError(`a quantile lies in [0, 1], not at ${q}`);
  return Math.max(1, Math.min(n, Math.ceil(q * n * (1 - 2 ** -50))));
}

/** Ascending buckets with their counts. Each bucket but the first is stored as its distance from the previous one. */
export interface LogHistogramJson {
  buckets: number[];
  counts: number[];
}

export class LogHistogram {
  /** Number of samples in all buckets; exact up to 2^53. */
  count = 0;
  readonly #counts = new Map<number, number>();
  // Buckets in ascending order; null after a new bucket has appeared.
  #order: Int32Array | null = null;
  /** Buckets hold the values minus this base: the closer a value is to the base, the narrower its bucket. */
  readonly baseNs: number;

  constructor(baseNs = 0) {
    this.baseNs = baseNs;
  }

  add(valueNs: number, n = 1): void {
    this.#put(bucketOf(valueNs - this.baseNs), n);
  }

  addBucket(index: number, n: number): void {
    checkBucket(index);
    this.#put(index, n);
  }

  merge(other: LogHistogram): void {
    if (other.baseNs !== this.baseNs) throw new Error("histograms about different values cannot be merged");
    // Copy the entries when merging with itself: a Map must not be iterated while it is written.
    const entries = other === this ? [...other.#counts] : other.#counts;
    for (const [index, n] of entries) this.#put(index, n);
  }

  /**
   * Returns the smallest value such that at least ceil(q n) samples are not above it, as the midpoint of its bucket, limited to [minNs, maxNs] if those are
   * known. Null if there are no samples.
   */
  quantile(q: number, minNs = -Infinity, maxNs = Infinity): number | null {
    if (this.count === 0) return null;
    const rank = nearestRank(q, this.count);
    let seen = 0;
    for (const index of this.#sorted()) {
      seen += this.#countOf(index);
      if (seen >= rank) return Math.min(maxNs, Math.max(minNs, this.baseNs + bucketMid(index)));
    }
    throw new Error("a histogram's count is above the sum of its buckets");
  }

  /** Returns the midpoint of each bucket in ascending order, with the share of samples in that bucket or below. */
  cdf(): { valueNs: number; share: number }[] {
    const points: { valueNs: number; share: number }[] = [];
    let seen = 0;
    for (const index of this.#sorted()) {
      seen += this.#countOf(index);
      points.push({ valueNs: this.baseNs + bucketMid(index), share: seen / this.count });
    }
    return points;
  }

  /** Yields the buckets in ascending order with their counts. */
  *entries(): IterableIterator<[bucket: number, count: number]> {
    for (const index of this.#sorted()) yield [index, this.#countOf(index)];
  }

  toJSON(): LogHistogramJson {
    const buckets: number[] = [];
    const counts: number[] = [];
    let previous = 0;
    for (const index of this.#sorted()) {
      buckets.push(index - previous);
      counts.push(this.#countOf(index));
      previous = index;
    }
    return { buckets, counts };
  }

  static fromJSON(json: unknown, file = "histogram"): LogHistogram {
    const bad = (what: string) => new FormatError("bad-record", file, 0, `not a histogram: ${what}`);
    const { buckets, counts } = (json ?? {}) as Partial<LogHistogramJson>;
    if (!Array.isArray(buckets) || !Array.isArray(counts)) throw bad("buckets and counts are not both lists");
    if (buckets.length !== counts.length) {
      throw bad(`${buckets.length} buckets, but ${counts.length} counts`);
    }
    const histogram = new LogHistogram();
    let index = 0;
    for (let i = 0; i < buckets.length; i++) {
      const step: unknown = buckets[i];
      const n: unknown = counts[i];
      if (!Number.isInteger(step) || (i > 0 && (step as number) <= 0))
        throw bad(`bucket ${i} does not ascend`);
      index += step as number;
      if (!isBucket(index)) throw bad(`there is no bucket ${index}`);
      if (!Number.isSafeInteger(n) || (n as number) <= 0) throw bad(`count ${i} is not a positive integer`);
      histogram.#put(index, n as number);
    }
    return histogram;
  }

  #put(index: number, n: number): void {
    if (!Number.isSafeInteger(n) || n < 0) throw new RangeError(`cannot count ${n} samples`);
    if (n === 0) return;
    const before = this.#counts.get(index);
    if (before === undefined) this.#order = null;
    this.#counts.set(index, (before ?? 0) + n);
    this.count += n;
  }

  #countOf(index: number): number {
    return this.#counts.get(index) ?? 0;
  }

  #sorted(): Int32Array {
    // Typed arrays sort numerically without a comparator.
    this.#order ??= Int32Array.from(this.#counts.keys()).sort();
    return this.#order;
  }
}

function magnitudeLow(index: number): number {
  if (index < EXACT) return index;
  const octave = Math.floor((index - EXACT) / PER_OCTAVE);
  return (PER_OCTAVE + ((index - EXACT) % PER_OCTAVE)) * 2 ** (octave + 1);
}

function magnitudeHigh(index: number): number {
  const low = magnitudeLow(index);
  if (index < EXACT) return low;
  const width = 2 ** (Math.floor((index - EXACT) / PER_OCTAVE) + 1);
  return Math.min(MAX_VALUE, low + width - 1);
}

// Bucket -1 would be "minus zero", which no integer has.
function isBucket(index: number): boolean {
  return Number.isInteger(index) && index !== -1 && index <= MAX_BUCKET && index >= -1 - MAX_BUCKET;
}

function checkBucket(index: number): void {
  if (!isBucket(index)) throw new RangeError(`there is no bucket ${index}`);
}
