/**
 * The clock relation piece by piece: between two steps that may be a clock's, AFTER's clock is ahead of BEFORE's by an offset of its own. With both directions each piece
 * bounds its offset by itself; with one, a piece is known relative to the one before it, by the smallest difference of either.
 */
import { blockMinima, type EnvelopePoints } from "./envelope.ts";
import { usualRoundTrip } from "./few-steps.ts";
import { judgeOffset, type OffsetVerdict } from "./offset.ts";
import { quantile } from "./quantile.ts";
import { cut } from "./steps.ts";
import type { StepVerdict } from "./verdict.ts";

const BLOCKS = 16;
/** Of the span: a step is found as near as this, and the other direction meets it a round trip later. */
const MARGIN = 1 / 32;

export interface ClockPiece {
  /** Times at BEFORE; the first begins, and the last ends, with the capture (null). */
  fromNs: number | null;
  toNs: number | null;
  /** The step that it begins with; null of the first. */
  step: StepVerdict["kind"] | null;
  offset: OffsetVerdict;
  /** Smallest forward difference, without the drift; null without forward packets. */
  levelNs: number | null;
  /** How far the smallest differences of parts of it lie above that: what it is uncertain by. */
  spreadNs: number;
  /** How long no forward packet had shown the clocks when it began: the step may have been as much earlier. */
  unseenNs: number;
  /** Smallest reverse difference, negated, without the drift. */
  reverseLevelNs: number | null;
  /** What a packet next to the step that it begins with may be off by: the step, where delays of a direction vary by so much that they do not tell which side it is of. */
  besideNs: number;
}

export interface PieceInput {
  forward: EnvelopePoints;
  /** Negated differences. */
  reverse: EnvelopePoints;
  steps: readonly StepVerdict[];
  /** The skew that is removed first. */
  slope: number;
  originNs: number;
  spanNs: number;
  quantumNs: number;
}

/** Empty where no clock may have been set, or where the directions contradict each other within a piece. */
export function fitPieces(input: PieceInput): ClockPiece[] {
  const pieces = allPieces(input);
  for (const [i, piece] of pieces.entries()) piece.besideNs = besideStep(input, pieces[i - 1], piece);
  for (const [i, piece] of pieces.entries()) widenShort(input, pieces[i - 1], piece);
  const fits = pieces.every(({ offset }) => offset.kind !== "unknown" || offset.lowNs === null);
  return fits ? pieces : [];
}

function allPieces({
  forward,
  reverse,
  steps,
  slope,
  originNs,
  spanNs,
  quantumNs,
}: PieceInput): ClockPiece[] {
  const cuts = steps.filter((s) => s.kind !== "delay");
  if (cuts.length === 0) return [];
  const starts: (StepVerdict | null)[] = [null, ...cuts];
  const roundTripNs = usualRoundTrip(forward, reverse);
  return starts.map((step, i) => {
    const next = cuts[i];
    const [fromNs, toNs] = [step?.atNs ?? Number.NEGATIVE_INFINITY, next?.atNs ?? Number.POSITIVE_INFINITY];
    // Around a step packets may be of either piece.
    const marginNs = Math.min(
      MARGIN * spanNs,
      (Math.min(toNs, originNs + spanNs) - Math.max(fromNs, originNs)) / 4,
    );
    const [startNs, endNs] = [fromNs + marginNs, toNs - marginNs];
    const own = levelOf(cutBeside(forward, startNs, endNs, slope), slope, originNs);
    const backFromNs = Math.min(Math.max(startNs, fromNs + roundTripNs), (startNs + endNs) / 2);
    const back = levelOf(cutBeside(reverse, step ? backFromNs : startNs, endNs, -slope), -slope, originNs);
    return {
      fromNs: step?.atNs ?? null,
      toNs: next?.atNs ?? null,
      step: step?.kind ?? null,
      offset: own
        ? judgeOffset(own.levelNs, back ? -back.levelNs : null, quantumNs)
        : {
            kind: "unknown",
            estimateNs: 0,
            lowNs: back ? -back.levelNs : null,
            highNs: null,
            explanation: "no packet was seen in the forward direction",
          },
      levelNs: own?.levelNs ?? null,
      spreadNs: own?.spreadNs ?? 0,
      unseenNs: step ? unseenBefore(forward, step.atNs) : 0,
      reverseLevelNs: back?.levelNs ?? null,
      besideNs: 0,
    };
  });
}

/** Fewer points say nothing of those at their ends. */
const FEWEST = 5;

/**
 * The points between two steps. A clock that was slewed, or stood still, comes to its step little by little: of the points next to a step those are left out that are further below all others
 * than these differ by.
 */
export function cutBeside(
  points: EnvelopePoints,
  fromNs: number,
  toNs: number,
  slope: number,
): EnvelopePoints {
  const all = cut(points, fromNs, toNs);
  const { timeNs, valueNs, length } = all;
  if (length < FEWEST) return all;
  const values = valueNs.slice(0, length).map((v, i) => v - slope * (timeNs[i]! - timeNs[0]!));
  const first = Number.isFinite(fromNs) ? 1 : 0;
  const last = Number.isFinite(toNs) ? length - 1 : length;
  const others = values.slice(first, last).sort();
  const low = others[0]! - (quantile(others, 0.5) - others[0]!);
  const from = first === 1 && values[0]! < low ? timeNs[1]! : Number.NEGATIVE_INFINITY;
  const to = last < length && values[length - 1]! < low ? timeNs[length - 1]! : Number.POSITIVE_INFINITY;
  return cut(all, from, to);
}

/** Delays further above the smallest than half a step are as far from those on its other side: up to this share of them. */
const FEW_FAR = 0.01;

function besideStep(
  { forward, reverse, slope, originNs }: PieceInput,
  before: ClockPiece | undefined,
  piece: ClockPiece,
): number {
  if (!before) return 0;
  const stepNs = Math.abs(stepBetween(before, piece));
  const farOf = (points: EnvelopePoints, tilt: number, level: (p: ClockPiece) => number | null) => {
    let [far, all] = [0, 0];
    for (const one of [before, piece]) {
      const own = cut(points, one.fromNs ?? Number.NEGATIVE_INFINITY, one.toNs ?? Number.POSITIVE_INFINITY);
      const levelNs = level(one) ?? Number.POSITIVE_INFINITY;
      all += own.length;
      for (let i = 0; i < own.length; i++)
        if (own.valueNs[i]! - tilt * (own.timeNs[i]! - originNs) - levelNs > stepNs / 2) far++;
    }
    return far > FEW_FAR * all;
  };
  const isFar = farOf(forward, slope, (p) => p.levelNs) || farOf(reverse, -slope, (p) => p.reverseLevelNs);
  return isFar ? stepNs : 0;
}

/** The smallest of n packets lies above the smallest of many by more than this only one time of 20. */
const MOSTLY = 0.95;

/** The level of a piece of few packets is uncertain by what the smallest of so many is above the level of the longer piece beside it. */
function widenShort(
  { forward, slope, originNs }: PieceInput,
  before: ClockPiece | undefined,
  piece: ClockPiece,
): void {
  if (!before) return;
  const pointsOf = (p: ClockPiece) =>
    cut(forward, p.fromNs ?? Number.NEGATIVE_INFINITY, p.toNs ?? Number.POSITIVE_INFINITY);
  const both = [before, piece].map((own) => ({ own, points: pointsOf(own) }));
  const [short, long] = both.sort((a, b) => a.points.length - b.points.length) as [Measured, Measured];
  const few = short.points.length;
  if (few === 0 || few >= BLOCKS || long.own.levelNs === null) return;
  const { timeNs, valueNs, length } = long.points;
  const above: number[] = [];
  for (let from = 0; from + few <= length; from += few) {
    let low = Number.POSITIVE_INFINITY;
    for (let i = from; i < from + few; i++)
      low = Math.min(low, valueNs[i]! - slope * (timeNs[i]! - originNs) - long.own.levelNs);
    above.push(low);
  }
  short.own.spreadNs = Math.max(short.own.spreadNs, quantile(above, MOSTLY));
}

interface Measured {
  own: ClockPiece;
  points: EnvelopePoints;
}

/** From the last point before a time up to it; 0 without one. */
function unseenBefore({ timeNs, length }: EnvelopePoints, atNs: number): number {
  let at = 0;
  while (at < length && timeNs[at]! < atNs) at++;
  return at === 0 ? 0 : atNs - timeNs[at - 1]!;
}

/** Steps as large as the pieces on either side of them are apart: what finds a step takes it for smaller where a line fits a part of it. */
export function sizedSteps(steps: readonly StepVerdict[], pieces: readonly ClockPiece[]): StepVerdict[] {
  if (pieces.length === 0) return [...steps];
  let i = 0;
  return steps.map((step) => {
    if (step.kind === "delay") return step;
    const [before, after] = [pieces[i], pieces[i + 1]];
    i++;
    if (!before || !after) return step;
    const [from, to] = [middleOf(before), middleOf(after)];
    const apartNs = from !== null && to !== null ? to - from : stepBetween(before, after);
    return apartNs === 0 ? step : { ...step, sizeNs: apartNs };
  });
}

function middleOf({ offset: { lowNs, highNs } }: ClockPiece): number | null {
  return lowNs === null || highNs === null ? null : (lowNs + highNs) / 2;
}

/** The smallest of all; and the median of the smallest of parts above it. */
function levelOf(
  points: EnvelopePoints,
  slope: number,
  originNs: number,
): { levelNs: number; spreadNs: number } | null {
  if (points.length === 0) return null;
  const minima = blockMinima(points, BLOCKS, slope);
  const levels = minima.valueNs.map((v, i) => v - slope * ((minima.timeNs[i] ?? 0) - originNs));
  const levelNs = levels.reduce((low, v) => Math.min(low, v), Number.POSITIVE_INFINITY);
  return { levelNs, spreadNs: quantile(levels, 0.5) - levelNs };
}

/** What a correction removes from a piece, besides what it removes from the first. */
export interface RemovedPiece {
  fromNs: number | null;
  toNs: number | null;
  /** All that is removed from its differences, but for the skew. */
  removedNs: number;
  /** A delay of the piece may be wrong by this much by what was removed; null: not bounded (one direction), beyond `stepNs`. */
  offsetUncertaintyNs: number | null;
  /** What the step at its start is uncertain by, where one direction shows it, and where packets next to it may be of either side. */
  stepUncertaintyNs: number;
}

export interface PieceWishes {
  /** Both directions bound the offset of a piece. */
  twoWay: boolean;
  /** Offsets are judged; otherwise pieces are only brought to the level of the first. */
  absolute: boolean;
  /** Steps that may as well be a path's are removed, too. */
  ambiguous: boolean;
  offsetOf: (offset: OffsetVerdict) => number;
}

export function removedPieces(
  pieces: readonly ClockPiece[],
  firstNs: number,
  { twoWay, absolute, ambiguous, offsetOf }: PieceWishes,
): RemovedPiece[] {
  const removes = ({ step }: ClockPiece) => step === "clock" || (ambiguous && step === "ambiguous");
  const isBounded = ({ offset }: ClockPiece) =>
    absolute && twoWay && offset.lowNs !== null && offset.highNs !== null && offset.kind !== "unknown";
  const removed: RemovedPiece[] = [];
  let removedNs = firstNs;
  for (const [i, piece] of pieces.entries()) {
    const { fromNs, toNs, offset } = piece;
    const before = pieces[i - 1];
    const bounded = isBounded(piece);
    let stepUncertaintyNs = 0;
    if (removes(piece) && before) {
      if (bounded) removedNs = offsetOf(offset);
      else {
        removedNs += stepBetween(before, piece);
        stepUncertaintyNs = Math.max(piece.spreadNs, before.spreadNs);
      }
      stepUncertaintyNs += piece.besideNs;
    }
    const offsetUncertaintyNs = bounded
      ? Math.max(Math.abs((offset.lowNs ?? 0) - removedNs), Math.abs((offset.highNs ?? 0) - removedNs))
      : null;
    removed.push({ fromNs, toNs, removedNs, offsetUncertaintyNs, stepUncertaintyNs });
  }
  return chainBack(pieces, removed, pieces.findIndex(isBounded), removes);
}

/** By how much the smallest forward difference moved from one piece to the next. */
function stepBetween(before: ClockPiece, after: ClockPiece): number {
  return (after.levelNs ?? before.levelNs ?? 0) - (before.levelNs ?? after.levelNs ?? 0);
}

/** Pieces before the first with bounds of its own (packets went one way only): known by the steps that lead to it. */
function chainBack(
  pieces: readonly ClockPiece[],
  removed: readonly RemovedPiece[],
  firstBounded: number,
  removes: (piece: ClockPiece) => boolean,
): RemovedPiece[] {
  const out = [...removed];
  for (let i = firstBounded - 1; i >= 0; i--) {
    const [piece, next, own, known] = [pieces[i], pieces[i + 1], out[i], out[i + 1]];
    if (!piece || !next || !own || !known || !removes(next)) break;
    const stepUncertaintyNs = Math.max(piece.spreadNs, next.spreadNs);
    out[i] = { ...own, removedNs: known.removedNs - stepBetween(piece, next), stepUncertaintyNs };
  }
  return out;
}
