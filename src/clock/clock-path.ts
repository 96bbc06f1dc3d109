/**
 * A clock that wanders, followed: AFTER's clock minus BEFORE's over time, as packets of both directions bound it slice by slice. In a slice nothing arrives before it was sent, so what the
 * clocks are apart by lies between the smallest difference of one direction and the largest of the other; the path goes through the middle, straight from slice to slice.
 *
 * What stays unknown is what one direction takes longer than the other at its fastest (as with a constant offset), and what the clocks do within a slice. Where the bounds allow that the
 * clocks are right on the average, they are taken to be: as where 0 lies within the bounds of a constant offset, none is removed.
 */
import type { EnvelopePoints } from "./envelope.ts";
import type { RemovedPiece } from "./pieces.ts";
import { quantile } from "./quantile.ts";
import { bothSeen, minima, type Slices } from "./wander.ts";

const SLICES = [16, 32, 64, 128, 256];
/** Slices without packets of one direction are bridged, up to so many in a row. */
const BRIDGED = 2;
/** Both directions must be there for this share of the capture. */
const MOST = 0.9;
/** A path moves the points that lie lowest, and so itself: it is settled after a few rounds. */
const ROUNDS = 4;
/** A move from slice to slice of so many usual ones is none of a clock that wanders evenly. */
const JUMP = 4;
/** Removed piece by piece, each of one offset. */
const PIECES = 512;

export interface ClockPath {
  /** Middles of the slices, and what AFTER's clock is ahead by there, besides the line that was removed first. */
  timeNs: number[];
  aheadNs: number[];
  /** Bounds of that; null in a slice without packets of one direction. */
  bounds: ({ lowNs: number; highNs: number } | null)[];
  /** The bounds are off by this much at most. */
  boundNs: number;
  /** What the clocks do within a slice and a piece, at most, by how the path bends. */
  roughNs: number;
  /** Smallest differences of both directions beside the path; of the reverse ones negated. */
  levelNs: number;
  reverseLevelNs: number;
}

/** Null where packets of both directions do not bound the clocks all along. */
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
  for (const slices of SLICES) {
    const found = follow(forward, reverse, line, { ...both, slices }, quantumNs);
    if (found && (!best || found.boundNs + found.roughNs < best.boundNs + best.roughNs)) best = found;
  }
  return best;
}

function follow(
  forward: EnvelopePoints,
  reverse: EnvelopePoints,
  { slope, originNs }: { slope: number; originNs: number },
  when: Slices,
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
  // Less than no time to and fro: the clocks moved within a slice by more than a round trip.
  if (all.some(({ there, back }) => there + back < -quantumNs)) return null;
  return described(timeNs, aheadNs, seen, all);
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
): ClockPath {
  const [there, back] = [Math.min(...all.map((l) => l.there)), Math.min(...all.map((l) => l.back))];
  const meanNs = middlesNs.reduce((sum, v) => sum + v, 0) / middlesNs.length;
  // All of the path may lie higher by up to `there`, or lower by up to `back`.
  const shiftNs = -meanNs <= there && -meanNs >= -back ? -meanNs : 0;
  const aheadNs = middlesNs.map((v) => v + shiftNs);
  const bends = aheadNs.map((v, i) => {
    const [a, b] = [aheadNs[i - 1], aheadNs[i + 1]];
    return a === undefined || b === undefined ? 0 : Math.abs(a - 2 * v + b);
  });
  const moves = aheadNs.map((v, i) => Math.abs(v - (aheadNs[i - 1] ?? v)));
  const perPiece = timeNs.length / PIECES;
  const most = Math.max(...moves);
  // All at once: within the slice the clocks are where they were, or where they came to.
  const jumpNs = most > JUMP * quantile(moves, 0.5) ? most : 0;
  return {
    timeNs,
    aheadNs,
    bounds: seen.map((low, i) => {
      const at = aheadNs[i] ?? 0;
      return low && { lowNs: at - (low.back + shiftNs), highNs: at + (low.there - shiftNs) };
    }),
    boundNs: Math.max(...all.map((l) => Math.max(l.there - shiftNs, l.back + shiftNs))),
    // The packets that bound a slice may lie at its edge: at the other one the path has turned by half a bend.
    roughNs: Math.max(Math.max(...bends) / 2 + (perPiece * most) / 2, jumpNs),
    levelNs: there - shiftNs,
    reverseLevelNs: back + shiftNs,
  };
}

/** What is removed of each piece; `moreNs` besides. */
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

/** Straight between the middles of slices, and on for half a slice at the ends; what lies outside is as at the ends. */
function valueAt(timeNs: readonly number[], aheadNs: readonly number[], at: number): number {
  const last = timeNs.length - 1;
  const [first, second] = [timeNs[0] ?? 0, timeNs[1] ?? 0];
  const place = Math.min(last + 0.5, Math.max(-0.5, (at - first) / (second - first)));
  const i = Math.min(last - 1, Math.max(0, Math.floor(place)));
  const [a, b] = [aheadNs[i] ?? 0, aheadNs[i + 1] ?? 0];
  return a + (place - i) * (b - a);
}

/** No gap is longer than what is bridged, and none is at an end. */
function isDense(seen: readonly boolean[]): boolean {
  if (!seen[0] || !seen.at(-1)) return false;
  let run = 0;
  for (const one of seen) {
    run = one ? 0 : run + 1;
    if (run > BRIDGED) return false;
  }
  return true;
}

/** Straight over what was not seen. */
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
