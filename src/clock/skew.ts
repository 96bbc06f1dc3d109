/**
 * Relative skew of two clocks from the lower envelope of their differences, with a reliable interval.
 *
 * Point: the line of Moon et al. (moon-line.ts) if it is within the interval, else the median slope. Interval (95 %): the packets are cut into K blocks of
 * equal counts; at the true slope the minima of the blocks are exchangeable, so the rank interval of rank-slope.ts holds. Few blocks are better if the minimum
 * is rarely reached (the minimum of n falls with 1/n), many if it is always reached and only jitters; K in 8..64 is tried and the narrowest taken, each at 1 -
 * 0.05/4 (Bonferroni), so that the choice costs no coverage. Queues have memory: neighbouring minima are correlated, as the rank correlation of neighbours
 * shows. It widens the interval as for AR(1) noise (Hamed and Rao 1998), and if the envelope wanders like a random walk (a queue that never empties) the
 * interval is joined with one computed from its increments.
 *
 * Real minima are not quite stationary (load, temperature, caches), so a trend as large as their own spread around the line, over the longest piece, is always
 * allowed in addition. Independent noise alone would not need that.
 *
 * Limit: in one direction, a load that rises evenly all the time looks like a skew. Therefore a skew is only *claimed* (`detected`) if the interval excludes 0,
 * the slope is one that a clock can have, and a line explains the minima better than a step does.
 */
import { blockMinima, type EnvelopePoints } from "./envelope.ts";
import { moonLine } from "./moon-line.ts";
import { quantile } from "./quantile.ts";
import { type RankSlope, rankSlope, type Stratum } from "./rank-slope.ts";

export interface SkewEstimate {
  slope: number;
  low: number;
  high: number;
  spanNs: number;
  /** Block minima used for the interval. */
  points: number;
  /** Middle 80 % of the block minima around the line. */
  residualNs: number;
  detected: boolean;
  reason: SkewReason;
}

export type SkewReason =
  | "detected"
  | "interval-holds-zero"
  | "steeper-than-clocks"
  | "one-direction-only"
  | "step-fits-better"
  | "directions-disagree";

const MIN_BLOCKS = 8;
const FINEST = 64;
const BLOCK_CHOICES = [FINEST, 32, 16, 8];
/** Two-sided normal quantile of 0.05 / 4. */
const Z_OF_ONE_CHOICE = 2.4977;
/** NTP considers a clock broken from 500 ppm on; cheap crystals stay below 100. */
export const MAX_CLOCK_SLOPE = 500e-6;
/** From this correlation of neighbouring blocks on, the minima are treated as a random walk. */
const RANDOM_WALK_FROM = 0.25;

/** `pieces`: parts of one envelope, each with its own level (before and after a step). */
export function estimateSkew(pieces: readonly EnvelopePoints[], quantumNs: number): SkewEstimate | null {
  const all = pieces.filter((p) => p.length > 0);
  const rough = rankSlope(stratify(all, FINEST, 0), 0).slope;
  const fine = stratify(all, FINEST, rough);
  if (sizeOf(fine) < MIN_BLOCKS) return null;
  const [first, ...more] = all;
  if (first === undefined) return null;
  const last = more.at(-1) ?? first;
  const spanNs = last.timeNs[last.length - 1]! - first.timeNs[0]!;
  const leverNs = Math.max(...fine.map(({ x }) => x[x.length - 1]! - x[0]!));
  if (!(leverNs > 0)) return null;
  const memory = neighbourCorrelation(fine, rankSlope(fine, 0).slope);
  const line = more.length === 0 ? moonSlope(first) : null;

  let best: Omit<SkewEstimate, "detected" | "reason" | "spanNs"> | null = null;
  let chosen: Stratum[] = fine;
  for (const blocks of BLOCK_CHOICES) {
    const strata = stratify(all, blocks, rough);
    const points = sizeOf(strata);
    if (points < MIN_BLOCKS) continue;
    const ranks = rankInterval(strata, memory ** Math.max(1, sizeOf(fine) / points), fine);
    const slope = line !== null && line >= ranks.low && line <= ranks.high ? line : ranks.slope;
    const residualNs = spreadAround(strata, slope);
    // Equal minima may hide up to one step of the timestamps; the header explains the spread.
    const allowance = (residualNs + quantumNs) / leverNs;
    const [low, high] = [ranks.low - allowance, ranks.high + allowance];
    if (best && high - low >= best.high - best.low) continue;
    best = { slope, low, high, points, residualNs };
    chosen = strata;
  }
  if (!best) return null;
  const reason = judge(chosen, best.slope, best.low, best.high);
  return { ...best, spanNs, detected: reason === "detected", reason };
}

/** Interval for the slope of block minima whose neighbours are correlated by `memory`. */
function rankInterval(strata: readonly Stratum[], memory: number, fine: readonly Stratum[]): RankSlope {
  const ranks = rankSlope(strata, Z_OF_ONE_CHOICE, Math.sqrt((1 + memory) / (1 - memory)));
  const bounded = Number.isFinite(ranks.low);
  if (bounded && memory <= RANDOM_WALK_FROM) return ranks;
  const walk = incrementInterval(fine);
  return {
    ...ranks,
    low: bounded ? Math.min(ranks.low, walk.low) : walk.low,
    high: bounded ? Math.max(ranks.high, walk.high) : walk.high,
  };
}

/**
 * Combines the estimates of both directions. A clock tilts both alike: a slope excluded by one direction is excluded, and two disjoint intervals mean that at
 * least one trend does not come from the clocks. `reverse` is of negated differences.
 */
export function combineDirections(
  forward: SkewEstimate | null,
  reverse: SkewEstimate | null,
): SkewEstimate | null {
  if (!reverse) return forward;
  const other: SkewEstimate = { ...reverse, slope: -reverse.slope, low: -reverse.high, high: -reverse.low };
  if (!forward || forward.reason === "steeper-than-clocks") return other;
  if (other.reason === "steeper-than-clocks") return forward;
  const [near, far] =
    forward.high - forward.low <= other.high - other.low ? [forward, other] : [other, forward];
  const low = Math.max(near.low, far.low);
  const high = Math.min(near.high, far.high);
  const spanNs = Math.max(near.spanNs, far.spanNs);
  if (low > high) {
    const apart = { low: Math.min(near.low, far.low), high: Math.max(near.high, far.high) };
    return { ...near, ...apart, spanNs, detected: false, reason: "directions-disagree" };
  }
  const slope = Math.min(high, Math.max(low, near.slope));
  const agreed = (e: SkewEstimate) => e.low > 0 || e.high < 0;
  let reason = near.reason;
  if (low <= 0 && high >= 0) reason = "interval-holds-zero";
  else if (near.detected || far.detected || (agreed(near) && agreed(far))) reason = "detected";
  else if (reason === "interval-holds-zero") reason = "one-direction-only";
  if (reason === "detected" && Math.abs(slope) > MAX_CLOCK_SLOPE) reason = "steeper-than-clocks";
  return { ...near, slope, low, high, spanNs, reason, detected: reason === "detected" };
}

function judge(strata: readonly Stratum[], slope: number, low: number, high: number): SkewReason {
  if (low <= 0 && high >= 0) return "interval-holds-zero";
  if (Math.abs(slope) > MAX_CLOCK_SLOPE) return "steeper-than-clocks";
  return stepFitsBetter(strata, slope) ? "step-fits-better" : "detected";
}

/** Returns the block minima of all pieces at a slope, with blocks distributed by packets; pieces too small for three blocks are left out. */
function stratify(pieces: readonly EnvelopePoints[], blocks: number, slope: number): Stratum[] {
  const weight = pieces.map((points) => points.count.reduce((a, b) => a + b, 0));
  const total = weight.reduce((a, b) => a + b, 0);
  const strata: Stratum[] = [];
  for (const [i, points] of pieces.entries()) {
    const share = pieces.length === 1 ? blocks : Math.round((blocks * weight[i]!) / total);
    if (share < 3) continue;
    const minima = blockMinima(points, share, slope);
    if (minima.length >= 3) strata.push({ x: minima.timeNs, y: minima.valueNs });
  }
  return strata;
}

function sizeOf(strata: readonly Stratum[]): number {
  return strata.reduce((sum, s) => sum + s.x.length, 0);
}

function moonSlope(points: EnvelopePoints): number | null {
  let weighted = 0;
  let packets = 0;
  for (let i = 0; i < points.length; i++) {
    weighted += points.count[i]! * (points.timeNs[i]! - points.timeNs[0]!);
    packets += points.count[i]!;
  }
  const line = moonLine(points.timeNs, points.valueNs, points.timeNs[0]! + weighted / packets);
  return line?.slope ?? null;
}

/** Residuals of each stratum from a line through its own median. */
function residualsOf({ x, y }: Stratum, slope: number): number[] {
  const residuals = Array.from({ length: x.length }, (_, i) => y[i]! - slope * (x[i]! - x[0]!));
  const middle = quantile(residuals, 0.5);
  return residuals.map((r) => r - middle);
}

function spreadAround(strata: readonly Stratum[], slope: number): number {
  const residuals = strata.flatMap((s) => residualsOf(s, slope));
  return quantile(residuals, 0.9) - quantile(residuals, 0.1);
}

/** Correlation of the ranks of neighbouring residuals, corrected for the bias of a fitted line, clamped to 0..0.95. */
function neighbourCorrelation(strata: readonly Stratum[], slope: number): number {
  let product = 0;
  let square = 0;
  let size = 0;
  for (const stratum of strata) {
    const rank = ranksOf(residualsOf(stratum, slope));
    size += rank.length;
    for (let i = 0; i < rank.length; i++) {
      square += rank[i]! * rank[i]!;
      if (i > 0) product += rank[i]! * rank[i - 1]!;
    }
  }
  if (square === 0) return 0;
  const raw = product / square;
  return Math.min(0.95, Math.max(0, raw + (2 + 4 * raw) / size));
}

/** Ranks around 0, ties sharing their mean rank. */
function ranksOf(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => values[a]! - values[b]!);
  const ranks = new Array<number>(values.length).fill(0);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to < order.length && values[order[to]!] === values[order[from]!]) to++;
    for (let i = from; i < to; i++) ranks[order[i]!] = (from + to - 1) / 2 - (order.length - 1) / 2;
    from = to;
  }
  return ranks;
}

/** Interval for the slope if the minima are a random walk with drift: independent increments. */
function incrementInterval(strata: readonly Stratum[]): { low: number; high: number } {
  let rise = 0;
  let run = 0;
  let squares = 0;
  for (const { x, y } of strata) {
    rise += y[x.length - 1]! - y[0]!;
    run += x[x.length - 1]! - x[0]!;
  }
  const slope = rise / run;
  for (const { x, y } of strata) {
    for (let i = 1; i < x.length; i++) squares += (y[i]! - y[i - 1]! - slope * (x[i]! - x[i - 1]!)) ** 2;
  }
  const reach = (Z_OF_ONE_CHOICE * Math.sqrt(squares)) / run;
  return { low: slope - reach, high: slope + reach };
}

/** Returns whether a single step without any slope leaves smaller residuals (sum of absolute values) than the line. */
function stepFitsBetter(strata: readonly Stratum[], slope: number): boolean {
  let line = 0;
  let step = 0;
  for (const stratum of strata) {
    line += absoluteSum(residualsOf(stratum, slope));
    let best = Number.POSITIVE_INFINITY;
    for (let cut = 1; cut < stratum.x.length; cut++) {
      best = Math.min(best, levelCost(stratum.y, 0, cut) + levelCost(stratum.y, cut, stratum.y.length));
    }
    step += best;
  }
  return step < line;
}

function levelCost(y: ArrayLike<number>, from: number, to: number): number {
  const part = Array.from({ length: to - from }, (_, i) => y[from + i]!);
  const middle = quantile(part, 0.5);
  return absoluteSum(part.map((v) => v - middle));
}

function absoluteSum(values: readonly number[]): number {
  return values.reduce((sum, v) => sum + Math.abs(v), 0);
}
