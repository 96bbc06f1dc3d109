/**
 * Follows a clock that wanders: AFTER's clock minus BEFORE's over time, as packets of both directions bound it in each time slice. Within a slice no packet
 * arrives before it was sent, so the clock difference is between the largest difference of the reverse direction and the smallest of the forward direction. The
 * path goes through the middle, in straight lines from slice to slice.
 *
 * Unknown remain the asymmetry of the two minimum delays (as with a constant offset), and clock changes within a slice. If the bounds allow a mean clock
 * difference of 0, it is assumed to be 0: likewise no constant offset is removed if 0 is within its bounds.
 */
import type { EnvelopePoints } from "./envelope.ts";
import type { RemovedPiece } from "./pieces.ts";
import { quantile } from "./quantile.ts";
import { bothSeen, minima, type Slices } from "./wander.ts";

const SLICES = [16, 32, 64, 128, 256];
/** Slices without packets of one direction are bridged, up to this many in a row. */
const BRIDGED = 2;
/** Packets of both directions must cover this share of the capture. */
const MOST = 0.9;
/** A path changes which points are lowest, and thereby itself: it settles after a few rounds. */
const ROUNDS = 4;
/** A move between slices above this multiple of the median move is a jump, not an evenly wandering clock. */
const JUMP = 4;
/** The path is removed in this many pieces, each with one offset. */
const PIECES = 512;

export interface ClockPath {
  /** Middles of the slices, and how far AFTER's clock is ahead there, in addition to the line that was removed first. */
  timeNs: number[];
  aheadNs: number[];
  /** Bounds of `aheadNs`; null in a slice without packets of one direction. */
  bounds: ({ lowNs: number; highNs: number } | null)[];
  /** Maximum distance of the bounds from the path. */
  boundNs: number;
  /** Maximum clock change within a slice and a piece, estimated from how the path bends, and before and after all slices. */
  roughNs: number;
  /** Minimum differences of both directions relative to the path; those of the reverse direction negated. */
  levelNs: number;
  reverseLevelNs: number;
}

/** Returns null unless packets of both directions bound the clocks over the whole capture. */
export function followClocks(
  forward: EnvelopePoints,
  /** Negated differences. */
  reverse: EnvelopePoints,
  line: { slope: number; originNs: number },
  spanNs: number,
  quantumNs: number,
): ClockPath | null {
  const both = bothSeen(forward, reverse);
  if (!both || both.toNs - both.fromNs < MOST * spanNs) return null;
  let best: ClockPath | null = null;
  const { originNs } = line;
  const outsideNs = Math.max(0, both.fromNs - originNs, originNs + spanNs - both.toNs);
  for (const slices of SLICES) {
    const found = follow(forward, reverse, line, { ...both, slices, outsideNs }, quantumNs);
    if (found && (!best || found.boundNs + found.roughNs < best.boundNs + best.roughNs)) best = found;
  }
  return best;
}

function follow(
  forward: EnvelopePoints,
  reverse: EnvelopePoints,
  { slope, originNs }: { slope: number; originNs: number },
  when: Slices & { outsideNs: number },
  quantumNs: number,
): ClockPath | null {
  const widthNs = (when.toNs - when.fromNs) / when.slices;
  const timeNs = Array.from({ length: when.slices }, (_, i) => when.fromNs + (i + 0.5) * widthNs);
  const aheadNs = new Array<number>(when.slices).fill(0);
  const known = (at: number) => slope * (at - originNs) + valueAt(timeNs, aheadNs, at);
  const lows = () => {
    const there = minima(forward, when, known);
    const back = minima(reverse, when, (at) => -known(at));
    return there.map((low, i) => ({ there: low, back: back[i] ?? Number.POSITIVE_INFINITY }));
  };
  const isSeen = ({ there, back }: Low) => Number.isFinite(there + back);
  for (let round = 0; round < ROUNDS; round++) {
    const seen = lows();
    if (!isDense(seen.map(isSeen))) return null;
    const moves = seen.map((low) => (isSeen(low) ? (low.there - low.back) / 2 : null));
    for (const [i, move] of bridged(moves).entries()) aheadNs[i] = aheadNs[i]! + move;
  }
  const seen = lows().map((low) => (isSeen(low) ? low : null));
  const all = seen.filter((low) => low !== null);
  // A negative round trip: the clocks moved by more than a round trip within a slice.
  if (all.some(({ there, back }) => there + back < -quantumNs)) return null;
  return described(timeNs, aheadNs, seen, all, when.outsideNs / widthNs);
}

interface Low {
  there: number;
  back: number;
}

function described(
  timeNs: number[],
  middlesNs: readonly number[],
  seen: readonly (Low | null)[],
  all: readonly Low[],
  /** Slices between the time that both directions cover and the end of the capture. */
  outside: number,
): ClockPath {
  const [there, back] = [Math.min(...all.map((l) => l.there)), Math.min(...all.map((l) => l.back))];
  const meanNs = middlesNs.reduce((sum, v) => sum + v, 0) / middlesNs.length;
  // The whole path may be higher by up to `there`, or lower by up to `back`.
  const shiftNs = -meanNs <= there && -meanNs >= -back ? -meanNs : 0;
  const aheadNs = middlesNs.map((v) => v + shiftNs);
  const bends = aheadNs.map((v, i) => {
    const [a, b] = [aheadNs[i - 1], aheadNs[i + 1]];
    return a === undefined || b === undefined ? 0 : Math.abs(a - 2 * v + b);
  });
  const moves = aheadNs.map((v, i) => Math.abs(v - (aheadNs[i - 1] ?? v)));
  const perPiece = timeNs.length / PIECES;
  const most = Math.max(...moves);
  // A jump: within the slice the clocks are at the old value or at the new one.
  const jumpNs = most > JUMP * quantile(moves, 0.5) ? most : 0;
  // Outside of the slices the path stays where it is.
  const outsideNs = Math.min(outside * most, Math.max(...aheadNs) - Math.min(...aheadNs));
  return {
    timeNs,
    aheadNs,
    bounds: seen.map((low, i) => {
      const at = aheadNs[i] ?? 0;
      return low && { lowNs: at - (low.back + shiftNs), highNs: at + (low.there - shiftNs) };
    }),
    boundNs: Math.max(...all.map((l) => Math.max(l.there - shiftNs, l.back + shiftNs))),
    // The packets that bound a slice may be at its edge: at the other edge the path has turned by half a bend.
    roughNs: Math.max(Math.max(...bends) / 2 + (perPiece * most) / 2, jumpNs, outsideNs),
    levelNs: there - shiftNs,
    reverseLevelNs: back + shiftNs,
  };
}

/** Returns what is removed in each piece; `moreNs` is removed in addition. */
export function pathPieces({ timeNs, aheadNs, boundNs }: ClockPath, moreNs: number): RemovedPiece[] {
  const [first, second] = [timeNs[0] ?? 0, timeNs[1] ?? 0];
  const startNs = first - (second - first) / 2;
  const widthNs = ((second - first) * timeNs.length) / PIECES;
  return Array.from({ length: PIECES }, (_, i) => ({
    fromNs: i === 0 ? null : startNs + i * widthNs,
    toNs: i === PIECES - 1 ? null : startNs + (i + 1) * widthNs,
    removedNs: moreNs + valueAt(timeNs, aheadNs, startNs + (i + 0.5) * widthNs),
    offsetUncertaintyNs: boundNs,
    stepUncertaintyNs: 0,
  }));
}

/** Interpolates linearly between the middles of slices, and extrapolates half a slice at the ends; beyond that the value stays that of the end. */
function valueAt(timeNs: readonly number[], aheadNs: readonly number[], at: number): number {
  const last = timeNs.length - 1;
  const [first, second] = [timeNs[0] ?? 0, timeNs[1] ?? 0];
  const place = Math.min(last + 0.5, Math.max(-0.5, (at - first) / (second - first)));
  const i = Math.min(last - 1, Math.max(0, Math.floor(place)));
  const [a, b] = [aheadNs[i] ?? 0, aheadNs[i + 1] ?? 0];
  return a + (place - i) * (b - a);
}

/** Returns whether no gap is too long to bridge, and none is at an end. */
function isDense(seen: readonly boolean[]): boolean {
  if (!seen[0] || !seen.at(-1)) return false;
  let run = 0;
  for (const one of seen) {
    run = one ? 0 : run + 1;
    if (run > BRIDGED) return false;
  }
  return true;
}

/** Interpolates linearly over missing values. */
function bridged(moves: readonly (number | null)[]): number[] {
  const out: number[] = [];
  let last = 0;
  for (const [i, move] of moves.entries()) {
    if (move === null) continue;
    for (let k = out.length; k < i; k++)
      out.push((out[last] ?? 0) + ((k - last) / (i - last)) * (move - (out[last] ?? 0)));
    out.push(move);
    last = i;
  }
  return out;
}
