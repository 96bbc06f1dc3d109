/**
 * Detects clocks that wander against each other around a line: both directions show it, in opposite senses. The minimum delay of a direction changes with the
 * load of that direction; a clock change adds to one direction and subtracts as much from the other. So the difference of the two minima varies more over time
 * than their sum only if a clock wanders.
 *
 * Needs both directions, and no step in between. How it fails: loads that rise and fall in opposite senses in the two directions look the same.
 */
import { blockMinima, type EnvelopePoints } from "./envelope.ts";

/** Numbers of slices of the time covered by both directions: fine slices follow fast clock changes, coarse ones have packets in each. */
const COARSE = 16;
const SLICES = [COARSE, 64, 256, 1024];
/** Minimum number of slices with packets of both directions. */
const MIN_SLICES = 8;
/** The ratio of variances that 8 or more independent slices exceed with a probability below 0.001 (F with 7 and 7 degrees of freedom: 15). */
const RATIO = 15;

/** Returns how far the clocks moved against each other, from minimum to maximum, without the line; null if queues explain it. */
export function wanderOf(
  forward: EnvelopePoints,
  /** Negated differences. */
  reverse: EnvelopePoints,
  slope: number,
  quantumNs: number,
): number | null {
  const both = bothSeen(forward, reverse);
  if (!both) return null;
  let best: Wander | null = null;
  for (const slices of SLICES) {
    const found = wanderIn(forward, reverse, slope, { ...both, slices, quantumNs });
    if (found && found.ratio > (best?.ratio ?? RATIO)) best = found;
  }
  return best?.wanderNs ?? null;
}

/**
 * Returns how far the clocks may have moved around the line without a sign: a movement shows in the minimum delays of both directions, so it is not larger than
 * these vary in the steadier one. 0 if too few slices have packets of both directions.
 */
export function unseenMove(
  forward: EnvelopePoints,
  /** Negated differences. */
  reverse: EnvelopePoints,
  slope: number,
): number {
  const both = bothSeen(forward, reverse);
  if (!both) return 0;
  const when = { ...both, slices: COARSE };
  const known = (sign: 1 | -1) => (at: number) => sign * slope * (at - both.fromNs);
  const inSlices = [minima(forward, when, known(1)), minima(reverse, when, known(-1))];
  // With long pauses most slices are empty.
  const inRuns = [runMinima(forward, known(1), slope), runMinima(reverse, known(-1), -slope)];
  return Math.max(steadier(inSlices), steadier(inRuns));
}

/** Long runs hide fast movements, few packets do not show the minimum. */
const RUN = 8;
const MAX_RUNS = 64;

/** Minima of runs of as many packets each. */
function runMinima(points: EnvelopePoints, known: (timeNs: number) => number, slope: number): number[] {
  const { timeNs, valueNs, length } = blockMinima(
    points,
    Math.min(MAX_RUNS, Math.max(COARSE, Math.floor(points.length / RUN))),
    slope,
  );
  return Array.from({ length }, (_, i) => valueNs[i]! - known(timeNs[i]!));
}

/** Returns how far the minima of the steadier direction vary; 0 if there are too few of one. */
function steadier(ways: readonly (readonly number[])[]): number {
  const seen = ways.map((lows) => lows.filter(Number.isFinite));
  if (seen.some((lows) => lows.length < MIN_SLICES)) return 0;
  return Math.min(...seen.map((lows) => Math.max(...lows) - Math.min(...lows)));
}

/** Returns the time covered by packets of both directions; null if there is none. */
export function bothSeen(
  forward: EnvelopePoints,
  reverse: EnvelopePoints,
): { fromNs: number; toNs: number } | null {
  if (forward.length === 0 || reverse.length === 0) return null;
  const fromNs = Math.max(forward.timeNs[0] ?? 0, reverse.timeNs[0] ?? 0);
  const toNs = Math.min(lastOf(forward), lastOf(reverse));
  return toNs > fromNs ? { fromNs, toNs } : null;
}

interface Wander {
  wanderNs: number;
  /** Ratio of the variance of the clocks to that of the path: the slices with the highest ratio are used. */
  ratio: number;
}

export interface Slices {
  fromNs: number;
  toNs: number;
  slices: number;
}

function wanderIn(
  forward: EnvelopePoints,
  reverse: EnvelopePoints,
  slope: number,
  { quantumNs, ...when }: Slices & { quantumNs: number },
): Wander | null {
  const line = (timeNs: number) => slope * (timeNs - when.fromNs);
  const there = minima(forward, when, line);
  const back = minima(reverse, when, (timeNs) => -line(timeNs));
  const seen = there.flatMap((a, i) => {
    const b = back[i];
    return Number.isFinite(a) && b !== undefined && Number.isFinite(b)
      ? [{ clock: (a - b) / 2, path: (a + b) / 2 }]
      : [];
  });
  if (seen.length < Math.max(MIN_SLICES, when.slices / 2)) return null;
  const clock = seen.map((s) => s.clock);
  const noise = variance(seen.map((s) => s.path)) + quantumNs * quantumNs;
  return { wanderNs: Math.max(...clock) - Math.min(...clock), ratio: variance(clock) / noise };
}

const lastOf = (points: EnvelopePoints) => points.timeNs[points.length - 1] ?? 0;

/** Returns the minimum of each slice, without the known clock difference; Infinity without points. */
export function minima(
  points: EnvelopePoints,
  { fromNs, toNs, slices }: Slices,
  known: (timeNs: number) => number,
): number[] {
  const low = new Array<number>(slices).fill(Number.POSITIVE_INFINITY);
  for (let i = 0; i < points.length; i++) {
    const timeNs = points.timeNs[i]!;
    const slice = Math.min(slices - 1, Math.floor((slices * (timeNs - fromNs)) / (toNs - fromNs)));
    if (slice < 0 || timeNs > toNs) continue;
    low[slice] = Math.min(low[slice] ?? 0, points.valueNs[i]! - known(timeNs));
  }
  return low;
}

function variance(values: readonly number[]): number {
  const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
  return values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1);
}
