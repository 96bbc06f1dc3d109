/**
 * The clock relation piece by piece: between two steps that may be a clock's, AFTER's clock has one offset. With both directions each piece bounds its own
 * offset; with one direction a piece is known relative to the previous one, by the smallest difference of each.
 */
import { blockMinima, type EnvelopePoints } from "./envelope.ts";
import { usualRoundTrip } from "./few-steps.ts";
import { judgeOffset, type OffsetVerdict } from "./offset.ts";
import { quantile } from "./quantile.ts";
import { cut } from "./steps.ts";
import type { StepVerdict } from "./verdict.ts";

const BLOCKS = 16;
/** Share of the span: the accuracy of a step's position; the other direction shows the step a round trip later. */
const MARGIN = 1 / 32;

export interface ClockPiece {
  /** Times at BEFORE; null for the start and the end of the capture. */
  fromNs: number | null;
  toNs: number | null;
  /** The step at the start of the piece; null for the first piece. */
  step: StepVerdict["kind"] | null;
  offset: OffsetVerdict;
  /** Smallest forward difference, without the drift; null without forward packets. */
  levelNs: number | null;
  /** How far the minima of parts of the piece are above `levelNs`: its uncertainty. */
  spreadNs: number;
  /** Time without forward packets before the start of the piece: the step may have been earlier by this much. */
  unseenNs: number;
  /** Smallest reverse difference, negated, without the drift. */
  reverseLevelNs: number | null;
  /**
   * Possible error of a packet next to the step at the start: the size of the step if the delays of a direction vary too much to show which side a packet is
   * on.
   */
  besideNs: number;
}

export interface PieceInput {
  forward: EnvelopePoints;
  /** Negated differences. */
  reverse: EnvelopePoints;
  steps: readonly StepVerdict[];
  /** The skew, removed first. */
  slope: number;
  originNs: number;
  spanNs: number;
  quantumNs: number;
}

/** Empty if no clock may have been set, or if the directions contradict each other within a piece. */
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
    const marginNs = marginBeside(Math.max(fromNs, originNs), Math.min(toNs, originNs + spanNs), spanNs);
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

/** Packets this close to a step at an end of a piece may belong to either side. */
export function marginBeside(fromNs: number, toNs: number, spanNs: number): number {
  return Math.min(MARGIN * spanNs, (toNs - fromNs) / 4);
}

/** With fewer points the ends cannot be judged. */
const FEWEST = 5;

/**
 * Returns the points between two steps. A clock that was slewed, or stood still, reaches its new value gradually: points next to a step are left out if they
 * are below all others by more than the others vary.
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

/** A delay more than half a step above the minimum is as close to the delays on the other side of the step: at most this share of delays may be. */
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

/** The smallest of n packets is above the smallest of many by more than this quantile only 1 time in 20. */
const MOSTLY = 0.95;

/** The level of a piece with few packets is uncertain: by how far the minimum of that many packets is above the level of the longer adjacent piece. */
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

/** Returns the time from the last point before `atNs` up to it; 0 without one. */
function unseenBefore({ timeNs, length }: EnvelopePoints, atNs: number): number {
  let at = 0;
  while (at < length && timeNs[at]! < atNs) at++;
  return at === 0 ? 0 : atNs - timeNs[at - 1]!;
}

/** Sets the size of each step to the distance of the pieces on either side: the step detector underestimates it if a line fits a part of it. */
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

/** Returns the minimum of all points, and how far the median of the minima of parts is above it. */
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

/** What a correction removes from a piece. */
export interface RemovedPiece {
  fromNs: number | null;
  toNs: number | null;
  /** Total removed from its differences, except the skew. */
  removedNs: number;
  /** Possible error of a delay of the piece through the removed offset; null: not bounded (one direction), apart from the step. */
  offsetUncertaintyNs: number | null;
  /** Uncertainty of the step at its start, if only one direction shows it, or if packets next to it may be on either side. */
  stepUncertaintyNs: number;
}

export interface PieceWishes {
  /** Both directions bound the offset of a piece. */
  twoWay: boolean;
  /** Judge the offset of each piece; otherwise pieces are only brought to the level of the first. */
  absolute: boolean;
  /** Also remove steps that may be a path change. */
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
        stepUncertaintyNs = Math.max(piece.spreadNs, before.spreadNs, pathBetween(before, piece));
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

/** How far the smallest forward difference moved from one piece to the next. */
function stepBetween(before: ClockPiece, after: ClockPiece): number {
  return (after.levelNs ?? before.levelNs ?? 0) - (before.levelNs ?? after.levelNs ?? 0);
}

/** How far the smallest round trip moved from one piece to the next: a clock does not change it. 0 if a direction is missing. */
function pathBetween(before: ClockPiece, after: ClockPiece): number {
  const roundTrip = ({ levelNs, reverseLevelNs }: ClockPiece) =>
    (levelNs ?? Number.NaN) + (reverseLevelNs ?? Number.NaN);
  const movedNs = Math.abs(roundTrip(after) - roundTrip(before));
  return Number.isNaN(movedNs) ? 0 : movedNs;
}

/** Pieces before the first one with bounds of its own (packets in one direction only) are known through the steps in between. */
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
    const stepUncertaintyNs = Math.max(piece.spreadNs, next.spreadNs, pathBetween(piece, next));
    out[i] = { ...own, removedNs: known.removedNs - stepBetween(piece, next), stepUncertaintyNs };
  }
  return out;
}
