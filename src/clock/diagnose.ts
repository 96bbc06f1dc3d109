/**
 * Turns the observers' data into a verdict: steps first (they would tilt any line), then the skew of the pieces between them, then the remaining offset, then
 * the trust. Nothing is refused here: a verdict accompanies the numbers, even if there was nothing to judge.
 */
import { countOf } from "../base/quantity.ts";
import { followClocks } from "./clock-path.ts";
import type { CorrectionMode } from "./correction.ts";
import { blockMinima, type Envelope, type EnvelopePoints } from "./envelope.ts";
import { impossibleLeft } from "./impossible.ts";
import type { ClockObserver } from "./observer.ts";
import { judgeOffset, LONGEST_DELAY_NS, type OffsetVerdict, recogniseOffset } from "./offset.ts";
import { cutBeside, fitPieces, marginBeside, sizedSteps } from "./pieces.ts";
import { quantile } from "./quantile.ts";
import { resolutionNs } from "./resolution.ts";
import { sentences } from "./sentences.ts";
import { combineDirections, estimateSkew, type SkewEstimate } from "./skew.ts";
import { judgeSteps } from "./step-verdict.ts";
import { cut } from "./steps.ts";
import type { TimestampReport } from "./timestamp-quality.ts";
import { judgeTrust } from "./trust.ts";
import type { ClockVerdict, SkewVerdict, StepVerdict } from "./verdict.ts";
import { unseenMove, wanderOf } from "./wander.ts";

const BLOCKS = 64;
/** At most this share of the blocks may have a negative minimum that the clocks do not explain, if it is below the others by FAR_OFF times their spread. */
const OUTLIER_BLOCKS = 0.1;
const FAR_OFF = 2;
/** With fewer packets, or within a few steps of the timestamps' resolution, the shape of the differences means nothing. */
const MIN_FOR_SHAPE = 50;
const SHAPE_QUANTA = 2;

export interface DiagnoseInput {
  observer: ClockObserver;
  /** The clock correction (default: none): the trust in the delays depends on it. */
  mode?: CorrectionMode;
  /** One clock timestamped both captures. */
  oneClock?: boolean;
  /** What is known of the timestamps of all packets of each capture, in the time base of the pairs (a TimestampQuality). */
  before?: { report(): TimestampReport };
  after?: { report(): TimestampReport };
}

export function diagnose(input: DiagnoseInput): ClockVerdict {
  const [before, after] = [input.before?.report() ?? null, input.after?.report() ?? null];
  const { forward, reverse } = input.observer;
  const [points, back] = [forward.points(), reverse.points()];
  const resolution = { before: before?.resolutionNs ?? null, after: after?.resolutionNs ?? null };
  const quantumNs = quantumOf(resolution.before, resolution.after, points);

  const shifts = judgeSteps(points, back, quantumNs, before, after);
  const cuts = shifts.map((s) => s.atNs);
  const pieces = cutAt(points, cuts);
  const backPieces = cutAt(
    back,
    shifts.filter((s) => s.kind !== "delay").map((s) => s.atNs),
  );
  const found = claimed(
    combineDirections(estimateSkew(pieces, quantumNs), estimateSkew(backPieces, quantumNs)),
    reverse.packets > 0,
  );
  const slope = found?.detected ? found.slope : 0;
  const originNs = Math.min(forward.firstNs, reverse.firstNs);
  const lastNs = Math.max(forward.lastNs, reverse.lastNs);
  const halves = found ? estimateHalves(points, cuts, quantumNs) : [];
  const [first, second] = halves;

  const floorNs = lowest(points, slope, originNs);
  const levelNs = levelOf(points, slope, originNs);
  const spanNs = lastNs - originNs;
  const line = { slope, originNs, spanNs, quantumNs };
  const clockPieces = fitPieces({ forward: points, reverse: back, steps: shifts, ...line });
  const steps = sizedSteps(shifts, clockPieces);
  // Across a step the bounds of the offset would contradict each other: the offset is judged between steps.
  const [fromNs, toNs] = longestPart(originNs, lastNs, steps);
  const offset = offsetOf(
    levelOf(cutBeside(points, fromNs, toNs, slope), slope, originNs),
    levelOf(cutBeside(back, fromNs, toNs, -slope), -slope, originNs),
    quantumNs,
    input.oneClock === true,
  );
  const verdict: ClockVerdict = {
    mode: forward.packets === 0 ? "no-pairs" : reverse.packets === 0 ? "one-way" : "two-way",
    pairs: { forward: forward.packets, reverse: reverse.packets },
    originNs: Number.isFinite(originNs) ? originNs : 0,
    spanNs: Math.max(0, spanNs),
    negative: negativeOf(forward, quantumNs),
    floor:
      floorNs === null || levelNs === null
        ? null
        : { asIsNs: forward.minNs, deskewedNs: slope === 0 ? forward.minNs : floorNs, levelNs },
    swapped: steps.length === 0 && looksSwapped(forward, reverse, quantumNs),
    offset,
    skew: found && skewVerdict(found),
    noSkewReason: found ? null : noSkewReason(forward, points),
    steps,
    pieces: clockPieces,
    drift: {
      residualNs: found?.residualNs ?? null,
      constant: found && first && second ? sameSlope(found, first, second) : null,
      halves: halves.map((h) => ({ lowPpm: h.low * 1e6, highPpm: h.high * 1e6 })),
      ...wanderBeside(steps, points, back, line),
      ...(input.oneClock ? { unseenNs: 0 } : {}),
    },
    impossible: { mode: "asis", byNs: 0, atNs: null, share: 0 },
    resolutionNs: resolution,
    backward: { before: backwardOf(before), after: backwardOf(after) },
    batched: { before: batchedOf(before), after: batchedOf(after) },
    trust: "good",
    lines: [],
  };
  const typical = typicalNs(points, back, slope, originNs, offset);
  verdict.impossible = impossibleLeft(verdict, input.mode ?? "asis", points, back, quantumNs);
  verdict.trust = judgeTrust(verdict, typical, quantumNs, input.mode ?? "asis");
  verdict.lines = sentences(verdict, forward.ignored + reverse.ignored, input.mode ?? "asis");
  return verdict;
}

/** How a clock wanders around the line, if no clock was set. */
function wanderBeside(
  steps: readonly StepVerdict[],
  forward: EnvelopePoints,
  reverse: EnvelopePoints,
  line: { slope: number; originNs: number; spanNs: number; quantumNs: number },
): Pick<ClockVerdict["drift"], "wanderNs" | "unseenNs" | "path"> {
  const { slope, spanNs, quantumNs } = line;
  if (steps.some((s) => s.kind !== "delay")) return { wanderNs: null, unseenNs: 0, path: null };
  const wanderNs = wanderOf(forward, reverse, slope, quantumNs);
  if (wanderNs === null) return { wanderNs, unseenNs: unseenMove(forward, reverse, slope), path: null };
  return { wanderNs, unseenNs: 0, path: followClocks(forward, reverse, line, spanNs, quantumNs) };
}

function negativeOf({ packets, negative, minNs }: Envelope, quantumNs: number): ClockVerdict["negative"] {
  if (packets === 0) return { count: negative, share: 0, minNs: null, withinResolution: false };
  return {
    count: negative,
    share: negative / packets,
    minNs,
    withinResolution: minNs < 0 && minNs >= -quantumNs,
  };
}

/** Each timestamp is off by up to its resolution; an unknown resolution is estimated from the differences. */
function quantumOf(before: number | null, after: number | null, points: EnvelopePoints): number {
  const fallback = before === null || after === null ? (resolutionNs(points.valueNs) ?? 1) : 1;
  return (before ?? fallback) + (after ?? fallback);
}

function cutAt(points: EnvelopePoints, times: readonly number[]): EnvelopePoints[] {
  const edges = [Number.NEGATIVE_INFINITY, ...times, Number.POSITIVE_INFINITY];
  return edges.slice(1).map((to, i) => cut(points, edges[i]!, to));
}

function estimateHalves(points: EnvelopePoints, cuts: readonly number[], quantumNs: number): SkewEstimate[] {
  const middle = (points.timeNs[0]! + points.timeNs[points.length - 1]!) / 2;
  const estimates = [
    estimateSkew(cutAt(cut(points, Number.NEGATIVE_INFINITY, middle), cuts), quantumNs),
    estimateSkew(cutAt(cut(points, middle, Number.POSITIVE_INFINITY), cuts), quantumNs),
  ];
  return estimates.filter((e) => e !== null);
}

/** Halves with disjoint intervals mean an uneven drift, provided that the whole or a half shows a clock skew at all. */
function sameSlope(whole: SkewEstimate, a: SkewEstimate, b: SkewEstimate): boolean {
  if (!whole.detected && !a.detected && !b.detected) return true;
  return a.low <= b.high && b.low <= a.high;
}

function lowest(points: EnvelopePoints, slope: number, originNs: number): number | null {
  if (points.length === 0) return null;
  let low = Number.POSITIVE_INFINITY;
  for (let i = 0; i < points.length; i++) {
    low = Math.min(low, points.valueNs[i]! - slope * (points.timeNs[i]! - originNs));
  }
  return low;
}

/** Returns the longest part without a step that may be a clock's, and without packets that may be on either side of one. */
function longestPart(firstNs: number, lastNs: number, steps: readonly StepVerdict[]): [number, number] {
  const inner = steps.filter((s) => s.kind !== "delay").map((s) => s.atNs);
  const edges = [firstNs, ...inner, lastNs];
  let best = 1;
  for (let i = 2; i < edges.length; i++) {
    if (edges[i]! - edges[i - 1]! > edges[best]! - edges[best - 1]!) best = i;
  }
  const last = best === edges.length - 1;
  const marginNs = marginBeside(edges[best - 1]!, edges[best]!, lastNs - firstNs);
  return [
    best === 1 ? Number.NEGATIVE_INFINITY : edges[best - 1]! + marginNs,
    last ? Number.POSITIVE_INFINITY : edges[best]! - marginNs,
  ];
}

/**
 * The floor for judging the offset: the smallest difference, unless a few blocks are far below zero, or below a recognised offset, and far from all others.
 * Those are false matches or timestamps out of order, and say nothing about the clocks. Values below zero that are close to the rest do: no delay is negative.
 */
function levelOf(points: EnvelopePoints, slope: number, originNs: number): number | null {
  const floor = lowest(points, slope, originNs);
  if (floor === null || (floor >= 0 && floor <= LONGEST_DELAY_NS) || recogniseOffset(floor)) return floor;
  const minima = blockMinima(points, BLOCKS, slope);
  const levels = minima.valueNs.map((v, i) => v - slope * (minima.timeNs[i]! - originNs)).sort();
  const zero = recogniseOffset(quantile(levels, 0.5))?.offsetNs ?? 0;
  const below = levels.filter((v) => v < zero);
  const rest = levels.subarray(below.length);
  const [first] = rest;
  const last = below.at(-1);
  if (first === undefined || last === undefined || below.length > OUTLIER_BLOCKS * levels.length)
    return floor;
  const spread = quantile(rest, 0.5) - first;
  return first - last > FAR_OFF * spread ? first : floor;
}

/** Delays have a sharp lower edge and a long upper tail; negated delays have the opposite shape. */
function looksSwapped(forward: Envelope, reverse: Envelope, quantumNs: number): boolean {
  if (forward.packets === 0 || forward.maxNs >= 0) return false;
  // reverse contains negated differences: the captures are swapped if no forward difference exceeds any reverse one.
  if (reverse.packets > 0) return forward.maxNs <= -reverse.maxNs;
  const { minNs, meanNs, maxNs } = forward;
  if (forward.packets < MIN_FOR_SHAPE || maxNs - minNs <= SHAPE_QUANTA * quantumNs) return false;
  return maxNs - meanNs < (meanNs - minNs) / 2;
}

/** In one direction a load that rises or falls evenly looks exactly like a skew: no skew is claimed unless the trend adds up to more than any queue holds. */
function claimed(found: SkewEstimate | null, twoWay: boolean): SkewEstimate | null {
  if (!found?.detected || twoWay || Math.abs(found.slope) * found.spanNs > LONGEST_DELAY_NS) return found;
  return { ...found, detected: false, reason: "one-direction-only" };
}

function offsetOf(
  forward: number | null,
  negatedReverse: number | null,
  quantumNs: number,
  oneClock: boolean,
): OffsetVerdict {
  if (oneClock && forward !== null) {
    const explanation = "one clock timestamped both captures";
    return { kind: "none", estimateNs: 0, lowNs: 0, highNs: 0, explanation };
  }
  if (forward === null) {
    return {
      kind: "unknown",
      estimateNs: 0,
      lowNs: negatedReverse === null ? null : -negatedReverse,
      highNs: null,
      explanation: "no packet was seen in the forward direction",
    };
  }
  return judgeOffset(forward, negatedReverse === null ? null : -negatedReverse, quantumNs);
}

/** Median of the envelope without offset and drift, of the faster direction: the reference for coarse timestamps and for bounds. */
function typicalNs(
  forward: EnvelopePoints,
  /** Negated differences. */
  reverse: EnvelopePoints,
  slope: number,
  originNs: number,
  offset: OffsetVerdict,
): number | null {
  if (forward.length === 0) return null;
  const removed = offset.kind === "none" ? 0 : offset.estimateNs;
  const median = ({ valueNs, timeNs }: EnvelopePoints, sign: 1 | -1) =>
    Math.abs(
      quantile(
        valueNs.map((v, i) => v - sign * (removed + slope * (timeNs[i]! - originNs))),
        0.5,
      ),
    );
  return reverse.length === 0 ? median(forward, 1) : Math.min(median(forward, 1), median(reverse, -1));
}

function noSkewReason(forward: Envelope, points: EnvelopePoints): string {
  if (forward.packets === 0) return "no packet was seen at both points";
  if (points.length < 8)
    return `only ${countOf(points.length, "distinct time")} in the capture; a skew needs 8`;
  return "the packets are too close together in time";
}

function skewVerdict(found: SkewEstimate): SkewVerdict {
  // + 0 avoids a minus zero in the report.
  const ppm = found.slope * 1e6 + 0;
  const lowPpm = found.low * 1e6;
  const highPpm = found.high * 1e6;
  return {
    ppm,
    lowPpm,
    highPpm,
    ppmUncertainty: Math.max(highPpm - ppm, ppm - lowPpm),
    spanNs: found.spanNs,
    points: found.points,
    detected: found.detected,
    reason: found.reason,
  };
}

function backwardOf(report: TimestampReport | null) {
  return report && { count: report.backward.count, largestNs: report.backward.largestNs };
}

function batchedOf(report: TimestampReport | null) {
  return report && { ...report.batched };
}
