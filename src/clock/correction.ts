/**
 * What to subtract from a difference to get a delay, and how uncertain the clocks leave it.
 *
 * A correction is applied as  delay = diff - offsetNs - slope * (afterNs - pivotNs): it belongs to AFTER's clock, and is a function of what that
 * clock showed, whichever way the packet went and whoever applies it (the exact match, an estimator's tap at AFTER).
 *   asis      nothing.
 *   deskew    a detected skew, anchored so that nothing is subtracted at the first packet; a recognised
 *             offset (TAI, GPS, zone); with both directions captured, the middle of the bounds of the offset,
 *             where 0 is outside them.
 *   detrend   deskew, and the trend of the smallest delay where only one direction shows it: right where the load was even, and wrong by
 *             the trend of the queues where it was not.
 *   relative  deskew, then the smallest remaining difference: delays above the minimum. Never wrong by an
 *             offset, and right for variation and queueing; says nothing of the constant part. A few outlying
 *             packets that lie below the minimum of the rest for no clock's reason (false matches) stay
 *             negative.
 * A clock that wanders is followed by all but asis, where both directions show what it does (clock-path.ts).
 * Where a clock was set, for certain, deskew and relative remove that piece by piece (pieces.ts); detrend also where it may have been the path. `symmetric` removes the middle of the
 * bounds also where 0 lies inside them; that is right only if both ways take equally long at their fastest.
 */
import { formatDuration } from "../base/time.ts";
import { type ClockPath, pathPieces } from "./clock-path.ts";
import { type RemovedPiece, removedPieces } from "./pieces.ts";
import type { ClockVerdict, StepVerdict } from "./verdict.ts";

export const CORRECTION_MODES = ["asis", "deskew", "detrend", "relative"] as const;
export type CorrectionMode = (typeof CORRECTION_MODES)[number];

export interface Correction {
  offsetNs: number;
  /** Of AFTER's clock, per ns that it shows. */
  slope: number;
  /** Time at AFTER where the slope takes nothing off. */
  pivotNs: number;
  /** Taken off delays of the other way: relative ones are above the smallest of their direction. */
  reverseNs: number;
  /** From the first piece on, where a clock was set; empty where nothing is removed piece by piece. */
  pieces: RemovedPiece[];
  describe: string;
}

/** Whether a mode removes steps of a kind: where the pieces between steps are known. */
export function removesStep(
  { pieces }: Pick<ClockVerdict, "pieces">,
  kind: StepVerdict["kind"],
  mode: CorrectionMode,
): boolean {
  if (mode === "asis" || pieces.length === 0) return false;
  return kind === "clock" || (mode === "detrend" && kind === "ambiguous");
}

export function correction(
  verdict: ClockVerdict,
  mode: CorrectionMode,
  options: { symmetric?: boolean } = {},
): Correction {
  const { offset, skew, originNs, floor } = verdict;
  if (mode === "asis" || floor === null)
    return {
      offsetNs: 0,
      slope: 0,
      pivotNs: originNs,
      reverseNs: 0,
      pieces: [],
      describe: "delays as captured",
    };
  const parts: string[] = [];
  // The skew is per ns of BEFORE's clock; AFTER's runs 1 + skew times as fast.
  const perBefore = removableSkew(verdict, mode) / 1e6;
  const slope = perBefore / (1 + perBefore);
  if (perBefore !== 0 && skew) parts.push(`a skew of ${Number(skew.ppm.toPrecision(4))} ppm`);
  const pieces = piecesOf(verdict, mode, options.symmetric === true);
  // Where AFTER's clock was set, its times of the first piece.
  const pivotNs =
    originNs + (pieces.length > 0 ? (verdict.pieces[0]?.levelNs ?? floor.levelNs) : floor.levelNs);
  const steps = verdict.steps.filter((s) => removesStep(verdict, s.kind, mode)).length;
  const wanders = followed(verdict, mode) !== null;
  if (wanders) parts.push(`what a clock wanders by, ${formatDuration(verdict.drift.wanderNs ?? 0)} at most`);
  else if (pieces.length > 0) parts.push(steps === 1 ? "a step of a clock" : `${steps} steps of a clock`);
  const offsetNs = pieces[0]?.removedNs ?? removableOffset(verdict, options.symmetric === true);
  if (mode !== "relative") {
    if (offsetNs !== 0 && !wanders) parts.push(`an offset of ${formatDuration(offsetNs)} (${offset.kind})`);
    const describe = parts.length === 0 ? "nothing to correct" : `${parts.join(" and ")} removed`;
    return { offsetNs, slope, pivotNs, reverseNs: 0, pieces, describe };
  }
  const levelNs = pieces[0]?.removedNs ?? floor.levelNs;
  parts.push(`the smallest difference of ${formatDuration(levelNs)}`);
  const describe = `delays above the smallest: ${parts.join(" and ")} removed`;
  // What AFTER's clock showed when a packet left there was a round trip before what the pivot is of.
  const reverseNs = (1 - slope) * reverseFloor(verdict);
  return { offsetNs: levelNs, slope, pivotNs, reverseNs, pieces, describe };
}

/** What a clock that wanders does, where a mode follows it; null otherwise. */
export function followed({ drift }: Pick<ClockVerdict, "drift">, mode: CorrectionMode): ClockPath | null {
  return mode === "asis" ? null : drift.path;
}

/** What is removed from the pieces between steps, or of a clock that is followed; empty where nothing is removed piece by piece. */
function piecesOf(verdict: ClockVerdict, mode: CorrectionMode, symmetric: boolean): RemovedPiece[] {
  const { pieces, steps, floor } = verdict;
  const path = followed(verdict, mode);
  if (path) return pathPieces(path, mode === "relative" ? path.levelNs : 0);
  const [first] = pieces;
  if (!first || !steps.some((s) => removesStep(verdict, s.kind, mode))) return [];
  const relative = mode === "relative";
  const offsetOf = (offset: ClockVerdict["offset"]) => removableOffset({ ...verdict, offset }, symmetric);
  return removedPieces(pieces, relative ? (first.levelNs ?? floor?.levelNs ?? 0) : offsetOf(first.offset), {
    twoWay: verdict.mode === "two-way",
    absolute: !relative,
    ambiguous: mode === "detrend",
    offsetOf,
  });
}

/** With the forward delays beginning at 0, those the other way hold the smallest of both. */
function reverseFloor({ offset, mode, drift: { path } }: ClockVerdict): number {
  if (path) return path.levelNs + path.reverseLevelNs;
  if (mode !== "two-way" || offset.lowNs === null || offset.highNs === null) return 0;
  return offset.highNs - offset.lowNs;
}

/** In ppm. */
function removableSkew({ skew }: ClockVerdict, mode: CorrectionMode): number {
  if (!skew || mode === "asis") return 0;
  return skew.detected || (mode === "detrend" && skew.reason === "one-direction-only") ? skew.ppm : 0;
}

function removableOffset({ offset, mode }: ClockVerdict, symmetric: boolean): number {
  if (offset.kind === "tai-utc" || offset.kind === "time-zone") return offset.estimateNs;
  if (mode !== "two-way" || offset.kind === "unknown") return 0;
  return offset.kind === "constant" || symmetric ? offset.estimateNs : 0;
}

export interface ClockUncertainty {
  /** Sum of the known parts, and of what delays are below 0 by nevertheless: a delay may be wrong by this much, either way, by the clocks alone. */
  totalNs: number;
  /** The steps of both timestamps, 1 ns each where unknown. */
  resolutionNs: number;
  /** What is left of the skew, over the whole capture; null where a single packet shows nothing of it. */
  skewNs: number | null;
  /** How far the offset that is left may be from 0; null: not bounded (one direction). 0 for relative delays. */
  offsetNs: number | null;
  /** Steps that may be a clock's and are not removed, and what those are uncertain by that are. */
  stepsNs: number;
  /** How far the clocks wander against each other, or what is left of it; 0 where they do not, as far as both directions show. */
  wanderNs: number;
}

/** No clock has a larger skew: none is assumed, and this much where too few packets show any. */
const WORST_PPM = 500;

/** Null parts are unknown and not in the total: say so beside it. */
export function clockUncertainty(verdict: ClockVerdict, mode: CorrectionMode): ClockUncertainty {
  const { skew, offset, steps } = verdict;
  const path = followed(verdict, mode);
  const resolutionNs = (verdict.resolutionNs.before ?? 1) + (verdict.resolutionNs.after ?? 1);
  let skewNs: number | null = null;
  // What a line leaves, the path takes off.
  if (path) skewNs = 0;
  else if (skew) {
    const removed = removableSkew(verdict, mode);
    const worstPpm = Math.min(
      WORST_PPM,
      Math.max(Math.abs(skew.lowPpm - removed), Math.abs(skew.highPpm - removed)),
    );
    skewNs = (worstPpm * skew.spanNs) / 1e6;
  } else if (verdict.pairs.forward + verdict.pairs.reverse > 1) skewNs = (WORST_PPM * verdict.spanNs) / 1e6;
  let offsetNs: number | null = null;
  if (mode === "relative") offsetNs = 0;
  else if (offset.lowNs !== null && offset.highNs !== null) {
    const removed = mode === "asis" ? 0 : removableOffset(verdict, false);
    offsetNs = Math.max(Math.abs(offset.lowNs - removed), Math.abs(offset.highNs - removed));
  }
  const pieces = piecesOf(verdict, mode, false);
  // Of the worst piece.
  const bounds = pieces.map((p) => p.offsetUncertaintyNs).filter((ns) => ns !== null);
  if (bounds.length > 0 && !(path && mode === "relative")) offsetNs = Math.max(...bounds);
  const left = steps.filter((s) => s.kind !== "delay" && !removesStep(verdict, s.kind, mode));
  const stepsNs =
    left.reduce((sum, s) => sum + Math.abs(s.sizeNs), 0) +
    pieces.reduce((sum, p) => sum + p.stepUncertaintyNs, 0);
  const leftNs = path && path.roughNs + (mode === "relative" ? path.boundNs : 0);
  const wanderNs = leftNs ?? verdict.drift.wanderNs ?? 0;
  const knownNs = resolutionNs + (skewNs ?? 0) + (offsetNs ?? 0) + stepsNs + wanderNs;
  const { impossible } = verdict;
  const totalNs = knownNs + (impossible.mode === mode ? besideImpossible(verdict, mode) : 0);
  return { totalNs, resolutionNs, skewNs, offsetNs, stepsNs, wanderNs };
}

/** Delays below 0 by less than this share of a step are not of its moment. */
const SHARE_OF_STEP = 0.1;

/**
 * What delays are below 0 by. Next to a step that is removed at once they show that the clock came there little by little (it stood still, or was slewed): before the moment at which it is removed they
 * come out too small by up to so much, behind it too large by up to the rest of the step.
 */
function besideImpossible(verdict: ClockVerdict, mode: CorrectionMode): number {
  const { byNs } = verdict.impossible;
  const sizes = verdict.steps
    .filter((s) => s.kind !== "delay" && removesStep(verdict, s.kind, mode))
    .map((s) => Math.abs(s.sizeNs))
    .filter((sizeNs) => byNs > SHARE_OF_STEP * sizeNs);
  return sizes.reduce((most, sizeNs) => Math.max(most, sizeNs - byNs), byNs);
}
