/**
 * The lower envelope of (send time, difference) in bounded memory: one real point per time bucket, its lowest.
 *
 * At most MAX_BUCKETS buckets of equal width, a power of two of ns, aligned to multiples of the width. When the capture needs more, the width doubles and
 * neighbours merge. A bucket keeps its lowest point *with its exact send time* and the number of its points, so every retained point is one that was really
 * seen.
 *
 * "Lowest" is judged along a provisional slope, re-estimated at each doubling: with a skew of 50 ppm and buckets of one second, the smallest difference of a
 * bucket would merely be its earliest or latest, 50 us away from the packet that met no queue.
 *
 * Guarantee: memory is constant; the smallest and the earliest of all points are exact. Times may come in any order. How it fails: one absurd time (years off)
 * widens all buckets until everything else is in one of them; then there are too few points, and the skew is reported as unknown, not guessed.
 */
import {
  EnvelopeBucketsBytes,
  EnvelopeBucketsLayout,
  envelopeBucketsConstants,
} from "../base/kernel-layout.ts";
import { rankSlope } from "./rank-slope.ts";

export const { MAX_BUCKETS } = envelopeBucketsConstants;
const FIRST_WIDTH_NS = 1024;
// Offsets of the fields of a kernel's buckets, and of the columns behind them, in f64.
const [LOW, HIGH, WIDTH, SLOPE] = [
  EnvelopeBucketsLayout.low / 8,
  EnvelopeBucketsLayout.high / 8,
  EnvelopeBucketsLayout.width / 8,
  EnvelopeBucketsLayout.slope / 8,
];
const COLUMNS = EnvelopeBucketsBytes / 8;
const NARROW_NS = 1 << 15;
/** No clock drifts faster (NTP gives up at 500 ppm): a steeper provisional slope is queueing and is not followed. */
const MAX_PROVISIONAL_SLOPE = 1e-3;

/** Points in time order; `count` is how many packets each stands for. */
export interface EnvelopePoints {
  readonly timeNs: Float64Array;
  readonly valueNs: Float64Array;
  readonly count: Float64Array;
  readonly length: number;
}

/** Sums over a number of points. */
export interface PointSums {
  packets: number;
  /** Sum of (value - base). */
  sumNs: number;
  baseNs: number;
  minNs: number;
  maxNs: number;
  firstNs: number;
  lastNs: number;
  negative: number;
}

export class Envelope {
  /** Points accepted; points whose time or value is not a number are in `ignored`. */
  packets = 0;
  ignored = 0;
  minNs = Number.POSITIVE_INFINITY;
  maxNs = Number.NEGATIVE_INFINITY;
  firstNs = Number.POSITIVE_INFINITY;
  lastNs = Number.NEGATIVE_INFINITY;
  negative = 0;
  widthNs = FIRST_WIDTH_NS;
  /** Sum of (value - first value): keeps its precision with a large offset. */
  #valueSum = 0;
  #valueBase = 0;
  #slope = 0;
  #low = 0;
  #high = -1;
  // A ring: bucket b is in slot b mod MAX_BUCKETS; slots outside [low, high] are empty (count 0).
  readonly #time = new Float64Array(MAX_BUCKETS);
  readonly #value = new Float64Array(MAX_BUCKETS);
  readonly #count = new Float64Array(MAX_BUCKETS);

  get meanNs(): number {
    return this.packets === 0 ? 0 : this.#valueBase + this.#valueSum / this.packets;
  }

  /** Adds n points; `sign` -1 builds the upper envelope of the values, as the lower one of their negatives. */
  observe(timeNs: Float64Array, valueNs: Float64Array, n: number, sign: 1 | -1 = 1): void {
    let i = 0;
    while (i < n) {
      const time = timeNs[i]!;
      const value = sign * valueNs[i]!;
      // A sum is finite only if both parts are.
      if (!Number.isFinite(time + value)) {
        this.ignored++;
        i++;
        continue;
      }
      if (this.packets === 0) this.#valueBase = value;
      i = this.#observeBucket(this.#bucketOf(time), timeNs, valueNs, i, n, sign);
    }
  }

  /** Takes over buckets as a kernel stores them (kernels/match/envelope-buckets.ts), at f64 index `at`. `account` adds the counts over all points. */
  takeBuckets(from: Float64Array, at: number): void {
    this.#low = from[at + LOW]!;
    this.#high = from[at + HIGH]!;
    for (const [i, column] of this.#columns.entries()) {
      const start = at + COLUMNS + i * MAX_BUCKETS;
      column.set(from.subarray(start, start + MAX_BUCKETS));
    }
  }

  giveBuckets(to: Float64Array, at: number): void {
    to[at + LOW] = this.#low;
    to[at + HIGH] = this.#high;
    to[at + WIDTH] = this.widthNs;
    to[at + SLOPE] = this.#slope;
    for (const [i, column] of this.#columns.entries()) to.set(column, at + COLUMNS + i * MAX_BUCKETS);
  }

  /** Creates the bucket of a time. */
  makeBucket(timeNs: number): void {
    this.#bucketOf(timeNs);
  }

  get #columns(): readonly Float64Array[] {
    return [this.#time, this.#value, this.#count];
  }

  /** Adds the sums over the points that were added through buckets, which do not contain them; call once. */
  account(all: PointSums): void {
    if (all.packets === 0) return;
    if (this.packets === 0) this.#valueBase = all.baseNs;
    this.#valueSum += all.sumNs + all.packets * (all.baseNs - this.#valueBase);
    this.packets += all.packets;
    this.negative += all.negative;
    this.minNs = Math.min(this.minNs, all.minNs);
    this.maxNs = Math.max(this.maxNs, all.maxNs);
    this.firstNs = Math.min(this.firstNs, all.firstNs);
    this.lastNs = Math.max(this.lastNs, all.lastNs);
  }

  /** Adds the point at `from`, which is in this bucket, and the points after it while they are, too; returns the first that is not. */
  #observeBucket(
    bucket: number,
    timeNs: Float64Array,
    valueNs: Float64Array,
    from: number,
    n: number,
    sign: number,
  ): number {
    const start = bucket * this.widthNs;
    const end = start + this.widthNs;
    const slot = modulo(bucket);
    const base = this.#valueBase;
    const slope = this.#slope;
    let { minNs, maxNs, firstNs, lastNs } = this;
    let sum = this.#valueSum;
    let negative = 0;
    let bestTime = this.#time[slot]!;
    let bestValue = this.#value[slot]!;
    let empty = this.#count[slot] === 0;
    let i = from;
    for (; i < n; i++) {
      const time = timeNs[i]!;
      const value = sign * valueNs[i]!;
      if (i > from && !(time >= start && time < end && Number.isFinite(value))) break;
      sum += value - base;
      if (value < 0) negative++;
      if (value < minNs) minNs = value;
      if (value > maxNs) maxNs = value;
      if (time < firstNs) firstNs = time;
      if (time > lastNs) lastNs = time;
      if (empty || value - bestValue < slope * (time - bestTime)) {
        bestTime = time;
        bestValue = value;
        empty = false;
      }
    }
    this.minNs = minNs;
    this.maxNs = maxNs;
    this.firstNs = firstNs;
    this.lastNs = lastNs;
    this.negative += negative;
    this.packets += i - from;
    this.#valueSum = sum;
    this.#time[slot] = bestTime;
    this.#value[slot] = bestValue;
    this.#count[slot]! += i - from;
    return i;
  }

  points(): EnvelopePoints {
    const room = Math.max(0, this.#high - this.#low + 1);
    const timeNs = new Float64Array(room);
    const valueNs = new Float64Array(room);
    const count = new Float64Array(room);
    let length = 0;
    for (let bucket = this.#low; bucket <= this.#high; bucket++) {
      const slot = modulo(bucket);
      if (this.#count[slot] === 0) continue;
      timeNs[length] = this.#time[slot]!;
      valueNs[length] = this.#value[slot]!;
      count[length++] = this.#count[slot]!;
    }
    const used = (column: Float64Array) => column.subarray(0, length);
    return { timeNs: used(timeNs), valueNs: used(valueNs), count: used(count), length };
  }

  /** Returns the bucket of a time, widening or extending the range as needed. */
  #bucketOf(time: number): number {
    let bucket = Math.floor(time / this.widthNs);
    if (this.#high < this.#low) {
      this.#low = this.#high = bucket;
      return bucket;
    }
    while (Math.max(bucket, this.#high) - Math.min(bucket, this.#low) >= MAX_BUCKETS) {
      this.#double();
      bucket = Math.floor(time / this.widthNs);
    }
    if (bucket < this.#low) this.#low = bucket;
    if (bucket > this.#high) this.#high = bucket;
    return bucket;
  }

  #put(slot: number, time: number, value: number, count: number): void {
    const had = this.#count[slot]!;
    if (had === 0 || value - this.#value[slot]! < this.#slope * (time - this.#time[slot]!)) {
      this.#time[slot] = time;
      this.#value[slot] = value;
    }
    this.#count[slot] = had + count;
  }

  #double(): void {
    const old = this.points();
    this.#slope = provisionalSlope(old, this.widthNs);
    this.widthNs *= 2;
    this.#count.fill(0);
    this.#low = Math.floor(this.#low / 2);
    this.#high = Math.floor(this.#high / 2);
    for (let i = 0; i < old.length; i++) {
      const slot = modulo(Math.floor(old.timeNs[i]! / this.widthNs));
      this.#put(slot, old.timeNs[i]!, old.valueNs[i]!, old.count[i]!);
    }
  }
}

/** Returns the lowest point of each of `blocks` runs of points with about the same number of packets each. */
export function blockMinima(points: EnvelopePoints, blocks: number, slope: number): EnvelopePoints {
  let packets = 0;
  for (let i = 0; i < points.length; i++) packets += points.count[i]!;
  const time: number[] = [];
  const value: number[] = [];
  const count: number[] = [];
  let best = 0;
  let held = 0;
  let seen = 0;
  for (let i = 0; i < points.length; i++) {
    if (
      held === 0 ||
      points.valueNs[i]! - points.valueNs[best]! < slope * (points.timeNs[i]! - points.timeNs[best]!)
    ) {
      best = i;
    }
    held += points.count[i]!;
    seen += points.count[i]!;
    // The k-th block ends where the k-th share of all packets is reached, so that rounding errors do not add up.
    if (seen * blocks >= (time.length + 1) * packets || i === points.length - 1) {
      time.push(points.timeNs[best]!);
      value.push(points.valueNs[best]!);
      count.push(held);
      held = 0;
    }
  }
  return {
    timeNs: Float64Array.from(time),
    valueNs: Float64Array.from(value),
    count: Float64Array.from(count),
    length: time.length,
  };
}

function provisionalSlope(points: EnvelopePoints, widthNs: number): number {
  // In a bucket this narrow no clock drifts by a timestamp's resolution.
  if (widthNs < NARROW_NS) return 0;
  const minima = blockMinima(points, 32, 0);
  if (minima.length < 8) return 0;
  const slope = rankSlope([{ x: minima.timeNs, y: minima.valueNs }], 0).slope;
  return Math.abs(slope) <= MAX_PROVISIONAL_SLOPE ? slope : 0;
}

function modulo(bucket: number): number {
  return bucket - Math.floor(bucket / MAX_BUCKETS) * MAX_BUCKETS;
}
