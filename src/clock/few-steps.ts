/**
 * Clock steps in captures with too few packets for blocks (steps.ts): forward differences before and after a moment do not overlap, nor do reverse ones, and
 * they shift by the same amount in the opposite sense. For packets in random order this has a probability of 1 / C(n, k) in each direction, n packets with k
 * after the moment: so even few packets show it.
 *
 * A drift separates the two sides, too; but then it shows within them, and continues between them.
 */
import type { EnvelopePoints } from "./envelope.ts";
import { quantile } from "./quantile.ts";
import { rankSlope } from "./rank-slope.ts";
import { MAX_CLOCK_SLOPE } from "./skew.ts";
import { cut, type LevelShift } from "./steps.ts";

/** With more points steps.ts uses blocks. */
const MAX_POINTS = 128;
/** Log of the maximum false-alarm probability, over all candidate moments of a capture together. */
const UNLIKELY = Math.log(1e-3);
/** Minimum gap between the sides, as a share of their range. */
const GAP = 0.25;
/** 95 % interval of the drift. */
const Z = 1.96;
/** A drift that explains more than this share of a step rules the step out. */
const EXPLAINED = 0.5;
/** Sizes must agree within this share, or within the range of the sides. */
const SAME_SIZE = 0.2;

/** Returns null if no moment stands out, or if there are enough packets for blocks. */
export function stepOfFew(
  forward: EnvelopePoints,
  /** Negated differences. */
  reverse: EnvelopePoints,
  quantumNs: number,
): LevelShift | null {
  const fewest = Math.min(forward.length, reverse.length);
  if (fewest === 0 || fewest > MAX_POINTS) return null;
  const [onward, backward] = [rangesOf(forward), rangesOf(reverse)];
  const roundTripNs = usualRoundTrip(forward, reverse);
  let best: (LevelShift & { chance: number; slope: number; backNs: number }) | null = null;
  let asked = forward.length;
  for (let i = 1; i < forward.length; i++) {
    const there = apart(onward, forward.timeNs[i]!, quantumNs);
    if (!there) continue;
    // Reverse packets between two forward ones may be on either side; if AFTER's clock was set, they show it one round trip later.
    for (const backNs of momentsBetween(forward.timeNs[i - 1]!, forward.timeNs[i]! + roundTripNs, reverse)) {
      asked++;
      const back = apart(backward, backNs, quantumNs);
      if (!back || Math.sign(there.sizeNs) === Math.sign(back.sizeNs)) continue;
      const differNs = Math.abs(there.sizeNs + back.sizeNs);
      const varyNs = there.rangeNs + back.rangeNs;
      if (differNs > Math.max(varyNs, SAME_SIZE * Math.abs(there.sizeNs))) continue;
      const chance = there.chance + back.chance;
      // A drift would have to explain both directions.
      const slope = Math.max(there.gapNs / there.pauseNs, back.gapNs / back.pauseNs);
      if (chance < (best?.chance ?? 0))
        best = { atNs: forward.timeNs[i]!, backNs, sizeNs: there.sizeNs, chance, slope };
    }
  }
  if (!best || best.chance + Math.log(asked) >= UNLIKELY) return null;
  const { atNs, backNs, sizeNs, slope } = best;
  const drift = driftBeside(forward, reverse, atNs, backNs);
  const isDrift = Math.abs(drift.acrossNs) > EXPLAINED * Math.abs(sizeNs) || drift.steepest >= slope;
  return isDrift ? null : { atNs, sizeNs };
}

/** Returns the drift within the sides: its amount from the middle of one side to the middle of the other, and the maximum slope. */
function driftBeside(forward: EnvelopePoints, reverse: EnvelopePoints, atNs: number, backNs: number) {
  const sides = [
    cut(forward, Number.NEGATIVE_INFINITY, atNs),
    cut(forward, atNs, Number.POSITIVE_INFINITY),
    cut(reverse, Number.NEGATIVE_INFINITY, backNs),
    cut(reverse, backNs, Number.POSITIVE_INFINITY),
  ];
  const strata = sides.map(({ timeNs, valueNs }, i) => ({
    x: timeNs,
    y: i < 2 ? valueNs : valueNs.map((v) => -v),
  }));
  const { slope, low, high } = rankSlope(strata, Z);
  const middle = ({ timeNs }: EnvelopePoints) => quantile(timeNs, 0.5);
  const [left, right] = sides;
  return {
    acrossNs: left && right ? slope * (middle(right) - middle(left)) : 0,
    steepest: Math.min(MAX_CLOCK_SLOPE, Math.max(Math.abs(low), Math.abs(high))),
  };
}

/** The round trip of the median packets of each direction; the clocks cancel. 0 without packets of both directions. */
export function usualRoundTrip(forward: EnvelopePoints, reverse: EnvelopePoints): number {
  if (forward.length === 0 || reverse.length === 0) return 0;
  const median = ({ valueNs, length }: EnvelopePoints) => quantile(valueNs.slice(0, length), 0.5);
  return Math.max(0, median(forward) + median(reverse));
}

function* momentsBetween(fromNs: number, toNs: number, { timeNs, length }: EnvelopePoints) {
  for (let i = 0; i < length; i++) {
    const at = timeNs[i]!;
    if (at > fromNs && at < toNs) yield at;
  }
  yield toNs;
}

interface Apart {
  sizeNs: number;
  gapNs: number;
  /** Between the two points next to the moment. */
  pauseNs: number;
  /** The larger range of the two sides. */
  rangeNs: number;
  /** Log of the probability that sides of this size do not overlap. */
  chance: number;
}

/** Points with the running minimum and maximum from either end: the other direction may have many points, and every candidate moment needs both sides. */
interface Ranges {
  points: EnvelopePoints;
  before: { low: Float64Array; high: Float64Array };
  behind: { low: Float64Array; high: Float64Array };
}

function rangesOf(points: EnvelopePoints): Ranges {
  const { valueNs, length } = points;
  const empty = () => ({ low: new Float64Array(length), high: new Float64Array(length) });
  const [before, behind] = [empty(), empty()];
  for (let i = 0; i < length; i++) {
    before.low[i] = Math.min(valueNs[i]!, i > 0 ? before.low[i - 1]! : Number.POSITIVE_INFINITY);
    before.high[i] = Math.max(valueNs[i]!, i > 0 ? before.high[i - 1]! : Number.NEGATIVE_INFINITY);
  }
  for (let i = length - 1; i >= 0; i--) {
    behind.low[i] = Math.min(valueNs[i]!, i + 1 < length ? behind.low[i + 1]! : Number.POSITIVE_INFINITY);
    behind.high[i] = Math.max(valueNs[i]!, i + 1 < length ? behind.high[i + 1]! : Number.NEGATIVE_INFINITY);
  }
  return { points, before, behind };
}

/** Returns null if the sides overlap, or nearly do. */
function apart({ points, before, behind }: Ranges, atNs: number, quantumNs: number): Apart | null {
  const { timeNs, valueNs, length } = points;
  const k = firstFrom(timeNs, length, atNs);
  if (k === 0 || k === length) return null;
  const a = { low: before.low[k - 1]!, high: before.high[k - 1]! };
  const b = { low: behind.low[k]!, high: behind.high[k]! };
  const gapNs = Math.max(b.low - a.high, a.low - b.high);
  const rangeNs = Math.max(a.high - a.low, b.high - b.low, quantumNs);
  if (gapNs <= GAP * rangeNs) return null;
  const [left, right] = [valueNs.slice(0, k), valueNs.slice(k, length)];
  const sizeNs = quantile(right, 0.5) - quantile(left, 0.5);
  const pauseNs = Math.max(1, timeNs[k]! - timeNs[k - 1]!);
  return { sizeNs, gapNs, pauseNs, rangeNs, chance: -logChoose(length, k) };
}

/** Returns the index of the first of ascending times that is not before `atNs`. */
function firstFrom(timeNs: Float64Array, length: number, atNs: number): number {
  let [from, to] = [0, length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (timeNs[middle]! < atNs) from = middle + 1;
    else to = middle;
  }
  return from;
}

function logChoose(n: number, k: number): number {
  let sum = 0;
  for (let i = 1; i <= k; i++) sum += Math.log((n - k + i) / i);
  return sum;
}
