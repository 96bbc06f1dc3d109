/**
 * Steps in the lower envelope: the minimum delay changes at once and stays, because a clock was set or because the path became longer or shorter. One direction
 * alone cannot show which; two can (a clock step moves the differences of both directions alike), and so can a capture whose own timestamps jump by the same
 * amount.
 *
 * Test: after removing the median slope (bursts far apart would turn a skew into stairs), the minima of REACH blocks on either side of a place must be
 * separated by GAP times the larger range of the two sides, and the middle halves of the two sides must be alike. A queue that fills or drains also shifts the
 * minima, but it makes them wander: the sides differ, or their ranges grow with the shift. Smaller shifts are not found; skew.ts then sees that a step fits
 * better than a line and claims no skew.
 */
import { blockMinima, type EnvelopePoints } from "./envelope.ts";
import { quantile } from "./quantile.ts";
import { rankSlope } from "./rank-slope.ts";
import { MAX_CLOCK_SLOPE } from "./skew.ts";

export interface LevelShift {
  /** Send time of the first packet after the shift, to the accuracy of the buckets. */
  atNs: number;
  sizeNs: number;
}

const BLOCKS = 64;
const REACH = 6;
const GAP = 3;
const ALIKE = 6;
/** With a separation this large the sides need not be alike. */
const PLAIN = 30;
/** Minimum number of points for the test at the ends: in total, and beyond the step. */
const MIN_POINTS = 64;
const MIN_OUTSIDE = 3;
/** As few as these suffice if they agree, although they were not held together. */
const FEW_OUTSIDE = 2;
/** Minimum distance of an end from the rest, in spreads of the block minima. */
const END_GAP = 3;

export function findShifts(points: EnvelopePoints, quantumNs: number): LevelShift[] {
  const inner = innerShifts(points, quantumNs);
  const [first, last] = [
    inner[0]?.atNs ?? Number.POSITIVE_INFINITY,
    inner.at(-1)?.atNs ?? Number.NEGATIVE_INFINITY,
  ];
  const atStart = endShift(cut(points, Number.NEGATIVE_INFINITY, first), quantumNs, "start");
  const atEnd = endShift(cut(points, last, Number.POSITIVE_INFINITY), quantumNs, "end");
  return [...(atStart ? [atStart] : []), ...inner, ...(atEnd ? [atEnd] : [])];
}

/**
 * Finds a step with too few blocks on its outer side for the test above: closer to an end than REACH blocks. The whole outer side must be above everything
 * else, or below the floor of everything else, by more than the block minima of the rest vary.
 */
function endShift(points: EnvelopePoints, quantumNs: number, end: "start" | "end"): LevelShift | null {
  const zone = Math.ceil((points.length * REACH) / BLOCKS) + 1;
  if (points.length < MIN_POINTS) return null;
  const { slope } = detrended(points);
  const values = points.valueNs.map((v, i) => v - slope * points.timeNs[i]!);
  if (end === "start") values.reverse();
  const inside = values.subarray(0, values.length - zone);
  const highest = extremes(inside).high;
  // A lower bound of the lowest run, whatever the size of runs.
  const floor = extremes(inside.subarray(0, Math.max(0, inside.length - zone))).low;
  const candidates: { at: number; gap: number; sizeNs: number }[] = [];
  // Try outer sides that grow by a quarter: the exact position of the step is determined afterwards.
  for (let size = FEW_OUTSIDE; size <= zone; size = Math.ceil(1.25 * size)) {
    const at = values.length - size;
    const outside = values.subarray(at);
    const lowest = extremes(outside).low;
    const upper = quantile(outside, 0.9);
    // Neither above nor below, whatever the runs are: most captures end here, without computing runs.
    if (lowest <= highest && floor <= upper) continue;
    // Compare with runs of as many points: the minimum of few is higher than that of many.
    const minima = minimaOf(inside, outside.length);
    const { low, high } = extremes(minima);
    // Below: nearly every point is below the floor. Above: every point is above the largest of the others, queueing included.
    const below = low - upper;
    const above = lowest - highest;
    const gap = Math.max(below, above);
    const spread = high - low + quantumNs;
    if (size < MIN_OUTSIDE && !(range(outside) <= spread && pauseAt(points, end) > END_GAP * spread))
      continue;
    if (gap > END_GAP * spread)
      candidates.push({ at, gap, sizeNs: lowest - (above > below ? quantile(minima, 0.5) : low) });
  }
  // High points just before the step make it look smaller.
  const largest = candidates.reduce((max, c) => Math.max(max, c.gap), 0);
  const best = candidates.findLast((c) => c.gap >= largest / 2);
  if (!best) return null;
  // The exact moment: where the values cross the middle of the step for good or, for a downward step, for the first time.
  const middle = (best.sizeNs > 0 ? highest : extremes(inside).low) + best.sizeNs / 2;
  let at = inside.length;
  if (best.sizeNs < 0) while (at < values.length && values[at]! >= middle) at++;
  else at = values.findLastIndex((v) => v < middle) + 1;
  // Others are nearly as high: a queue that drains, not a step.
  if (at === values.length) return null;
  const place = end === "end" ? at : values.length - at;
  const sizeNs = end === "end" ? best.sizeNs : -best.sizeNs;
  return { atNs: points.timeNs[place]!, sizeNs };
}

/** Time between the two points at an end: the delays of packets that were held and sent on together differ by it. */
function pauseAt({ timeNs, length }: EnvelopePoints, end: "start" | "end"): number {
  return end === "start" ? timeNs[1]! - timeNs[0]! : timeNs[length - 1]! - timeNs[length - 2]!;
}

/** Returns the minimum of each run of `size` values. */
function minimaOf(values: Float64Array, size: number): Float64Array {
  const out = new Float64Array(Math.floor(values.length / size));
  let at = 0;
  for (let i = 0; i < out.length; i++) {
    let low = Number.POSITIVE_INFINITY;
    for (const end = at + size; at < end; at++) if (values[at]! < low) low = values[at]!;
    out[i] = low;
  }
  return out;
}

function innerShifts(points: EnvelopePoints, quantumNs: number): LevelShift[] {
  const minima = detrended(points);
  const candidates: { at: number; sizeNs: number; score: number }[] = [];
  for (let at = REACH; at + REACH <= minima.length; at++) {
    const left = minima.valueNs.subarray(at - REACH, at);
    const right = minima.valueNs.subarray(at, at + REACH);
    const noise = Math.max(range(left), range(right), quantumNs);
    const [a, b] = [Math.max(middleHalf(left), quantumNs), Math.max(middleHalf(right), quantumNs)];
    const sizeNs = quantile(right, 0.5) - quantile(left, 0.5);
    const score = Math.abs(sizeNs) / noise;
    if (score > GAP && (Math.max(a, b) <= ALIKE * Math.min(a, b) || score > PLAIN)) {
      candidates.push({ at, sizeNs, score });
    }
  }
  candidates.sort((p, q) => q.score - p.score);
  const taken: typeof candidates = [];
  for (const c of candidates) {
    if (taken.every((t) => Math.abs(t.at - c.at) >= REACH)) taken.push(c);
  }
  return taken
    .sort((p, q) => p.at - q.at)
    .map(({ at, sizeNs }) => {
      const level = quantile(minima.valueNs.subarray(at - REACH, at), 0.5) + sizeNs / 2;
      const near = cut(points, minima.timeNs[at - 2]!, minima.timeNs[Math.min(at + 1, minima.length - 1)]!);
      return { atNs: locate(near, minima, level, sizeNs) ?? minima.timeNs[at]!, sizeNs };
    });
}

interface DetrendedMinima extends EnvelopePoints {
  slope: number;
}

function detrended(points: EnvelopePoints): DetrendedMinima {
  const { timeNs, valueNs } = blockMinima(points, BLOCKS, 0);
  const steepest = rankSlope([{ x: timeNs, y: valueNs }], 0).slope;
  const slope = Math.min(MAX_CLOCK_SLOPE, Math.max(-MAX_CLOCK_SLOPE, steepest));
  const minima = blockMinima(points, BLOCKS, slope);
  return { ...minima, valueNs: minima.valueNs.map((v, i) => v - slope * minima.timeNs[i]!), slope };
}

/** Returns the shift of the median of the block minima around a time, and the larger range next to it; null with too few blocks on a side. */
export function shiftAround(
  points: EnvelopePoints,
  atNs: number,
): { sizeNs: number; noiseNs: number } | null {
  const minima = detrended(points);
  let place = 0;
  while (place < minima.length && minima.timeNs[place]! < atNs) place++;
  let best: { sizeNs: number; noiseNs: number } | null = null;
  // The block that contains the moment itself may belong to either side.
  for (const at of [place - 1, place, place + 1]) {
    if (at < REACH || at + REACH > minima.length) continue;
    const left = minima.valueNs.subarray(at - REACH, at);
    const right = minima.valueNs.subarray(at, at + REACH);
    const noiseNs = Math.max(range(left), range(right));
    const sizeNs = quantile(right, 0.5) - quantile(left, 0.5);
    if (!best || noiseNs < best.noiseNs) best = { sizeNs, noiseNs };
  }
  return best;
}

/** Number of runs of the longer side that a step near an end is compared with, and the share of points closest to it that may be on either side. */
const RUNS = 16;
const EITHER_SIDE = 0.1;

/**
 * Like shiftAround, for a time near an end, where blocks are too few: compares the minimum of the shorter side with the minimum of as many points of the longer
 * one, run by run. Null with fewer than MIN_OUTSIDE points there, or fewer than three runs.
 */
export function shiftNearEnd(
  points: EnvelopePoints,
  atNs: number,
): { sizeNs: number; noiseNs: number } | null {
  if (points.length < MIN_POINTS) return null;
  const { slope } = detrended(points);
  const values = points.valueNs.map((v, i) => v - slope * points.timeNs[i]!);
  let at = 0;
  while (at < points.length && points.timeNs[at]! < atNs) at++;
  const atStart = at < points.length / 2;
  if (!atStart) values.reverse();
  const shorter = atStart ? at : points.length - at;
  const margin = Math.ceil(EITHER_SIDE * shorter);
  const outside = values.subarray(0, shorter - margin);
  if (outside.length < MIN_OUTSIDE) return null;
  const inside = values.subarray(shorter + margin, shorter + margin + RUNS * outside.length);
  const minima = minimaOf(inside, outside.length);
  if (minima.length < 3) return null;
  const { low, high } = extremes(minima);
  const sizeNs = quantile(minima, 0.5) - extremes(outside).low;
  return { sizeNs: atStart ? sizeNs : -sizeNs, noiseNs: high - low };
}

/** The points of an envelope with times in [fromNs, toNs). */
export function cut(points: EnvelopePoints, fromNs: number, toNs: number): EnvelopePoints {
  let from = 0;
  while (from < points.length && points.timeNs[from]! < fromNs) from++;
  let to = from;
  while (to < points.length && points.timeNs[to]! < toNs) to++;
  return {
    timeNs: points.timeNs.subarray(from, to),
    valueNs: points.valueNs.subarray(from, to),
    count: points.count.subarray(from, to),
    length: to - from,
  };
}

/** Finds the moment of a step. A delay may be long at any time but never too short: the low side of the step is where points are below `level`. */
function locate(
  near: EnvelopePoints,
  { slope }: DetrendedMinima,
  level: number,
  sizeNs: number,
): number | null {
  let at: number | null = null;
  for (let i = 0; i < near.length; i++) {
    if (near.valueNs[i]! - slope * near.timeNs[i]! >= level) continue;
    if (sizeNs < 0) return near.timeNs[i]!;
    at = near.timeNs[i + 1] ?? null;
  }
  return at;
}

function middleHalf(values: Float64Array): number {
  return quantile(values, 0.75) - quantile(values, 0.25);
}

function range(values: Float64Array): number {
  const { low, high } = extremes(values);
  return high - low;
}

function extremes(values: Float64Array): { low: number; high: number } {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    const v = values[i]!;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return { low, high };
}
