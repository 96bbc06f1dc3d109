/**
 * Steps in the lower envelope: the smallest delay changes at once and stays, because a clock was set or because the
 * way became longer or shorter. One direction alone cannot tell which; two can (a clock step moves the differences
 * of both directions alike), and so can a capture whose own stamps jump by the same amount.
 *
 * Test: the minima of REACH blocks on either side of a place must be separated by GAP times the larger range of the
 * two sides, and the two ranges must be alike. A queue that fills or drains also shifts the minima, but it makes them
 * wander: the ranges differ or grow with the shift. Shifts smaller than that are not found; skew.ts then sees
 * that a step fits better than a line and claims no skew.
 */
import { blockMinima, type EnvelopePoints } from "./envelope.ts";
import { quantile } from "./quantile.ts";

export interface LevelShift {
  /** Send time of the first packet after the shift, as near as the buckets tell. */
  atNs: number;
  sizeNs: number;
}

const BLOCKS = 64;
const REACH = 6;
const GAP = 3;
const ALIKE = 6;

export function findShifts(points: EnvelopePoints, quantumNs: number): LevelShift[] {
  const minima = blockMinima(points, BLOCKS, 0);
  const candidates: { at: number; sizeNs: number; score: number }[] = [];
  for (let at = REACH; at + REACH <= minima.length; at++) {
    const left = minima.valueNs.subarray(at - REACH, at);
    const right = minima.valueNs.subarray(at, at + REACH);
    const a = range(left);
    const b = range(right);
    const noise = Math.max(a, b, quantumNs);
    const sizeNs = quantile(right, 0.5) - quantile(left, 0.5);
    const alike = noise <= ALIKE * Math.max(Math.min(a, b), quantumNs);
    if (alike && Math.abs(sizeNs) > GAP * noise)
      candidates.push({ at, sizeNs, score: Math.abs(sizeNs) / noise });
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
      return {
        atNs: locate(
          points,
          minima.timeNs[at - 2]!,
          minima.timeNs[Math.min(at + 1, minima.length - 1)]!,
          level,
          sizeNs,
        ),
        sizeNs,
      };
    });
}

/** Shift of the median of the block minima around a time, and the larger range beside it; null with too little on a side. */
export function shiftAround(
  points: EnvelopePoints,
  atNs: number,
): { sizeNs: number; noiseNs: number } | null {
  const minima = blockMinima(points, BLOCKS, 0);
  let at = 0;
  while (at < minima.length && minima.timeNs[at]! < atNs) at++;
  if (at < REACH || at + REACH > minima.length) return null;
  const left = minima.valueNs.subarray(at - REACH, at);
  const right = minima.valueNs.subarray(at, at + REACH);
  return {
    sizeNs: quantile(right, 0.5) - quantile(left, 0.5),
    noiseNs: Math.max(range(left), range(right)),
  };
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

/** A delay may be long at any time but never too short: the low side of the step is the one with points below `level`. */
function locate(points: EnvelopePoints, fromNs: number, toNs: number, level: number, sizeNs: number): number {
  const near = cut(points, fromNs, toNs);
  let at = fromNs;
  for (let i = 0; i < near.length; i++) {
    const low = near.valueNs[i]! < level;
    if (sizeNs > 0 && low) at = i + 1 < near.length ? near.timeNs[i + 1]! : toNs;
    if (sizeNs < 0 && low) return near.timeNs[i]!;
  }
  return sizeNs < 0 ? toNs : at;
}

function range(values: Float64Array): number {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return high - low;
}
