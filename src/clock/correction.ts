/**
 * What to subtract from a difference to get a delay, and the uncertainty that the clocks leave.
 *
 * A correction is applied as  delay = diff - offsetNs - slope * (afterNs - pivotNs): it belongs to AFTER's clock and is a function of what that clock showed,
 * in both directions and for every user (the exact match, an estimator's tap at AFTER).
 *   asis      nothing.
 *   deskew    a detected skew, anchored so that nothing is subtracted at the first packet; a recognised offset (TAI, GPS, time zone); with both directions
 *             captured, the middle of the bounds of the offset if they exclude 0.
 *   detrend   deskew, and the trend of the minimum delay if only one direction shows it: right if the load was constant, otherwise wrong by the trend of the
 *             queues.
 *   relative  deskew, then the smallest remaining difference: delays above the minimum. Never wrong by an offset, and right for variation and queueing; the
 *             constant part is unknown. A few outliers below the minimum of the rest that no clock explains (false matches) stay negative.
 * All modes except asis follow a clock that wanders, if both directions show it (clock-path.ts). If a clock was certainly set, deskew and relative remove the
 * step piece by piece (pieces.ts); detrend does so also if the path may have changed instead. `symmetric` removes the middle of the bounds even if they include
 * 0; that is right only if the minimum delays of both directions are equal.
 */
import { formatDuration } from "../base/time.ts";
import { type ClockPath, pathPieces } from "./clock-path.ts";
import { type RemovedPiece, removedPieces } from "./pieces.ts";
import type { ClockVerdict, StepVerdict } from "./verdict.ts";

export const CORRECTION_MODES = ["asis", "deskew", "detrend", "relative"] as const;
export type CorrectionMode = (typeof CORRECTION_MODES)[number];

export interface Correction {
  offsetNs: number;
  /** Slope of AFTER's clock, per ns of its own time. */
  slope: number;
  /** Time at AFTER where the slope subtracts nothing. */
  pivotNs: number;
  /** Subtracted from reverse delays: relative delays are above the minimum of their own direction. */
  reverseNs: number;
  /** One entry per piece between clock steps, from the first on; empty if nothing is removed piece by piece. */
  pieces: RemovedPiece[];
  describe: string;
}

/** Returns whether a mode removes steps of a kind; it can only if the pieces between the steps are known. */
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
  // If AFTER's clock was set, the pivot is in its times of the first piece.
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
  // A reverse packet left AFTER one round trip before the packet that the pivot refers to.
  const reverseNs = (1 - slope) * reverseFloor(verdict);
  return { offsetNs: levelNs, slope, pivotNs, reverseNs, pieces, describe };
}

/** Returns the path of a wandering clock if the mode follows it; null otherwise. */
export function followed({ drift }: Pick<ClockVerdict, "drift">, mode: CorrectionMode): ClockPath | null {
  return mode === "asis" ? null : drift.path;
}

/** Returns what is removed from the pieces between steps, or along the path of a followed clock; empty if nothing is removed piece by piece. */
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

/** If forward delays start at 0, the smallest reverse delay is the sum of both minimum delays. */
function reverseFloor({ offset, mode, drift: { path } }: ClockVerdict): number {
  if (path) return path.levelNs + path.reverseLevelNs;
  if (mode !== "two-way" || offset.lowNs === null || offset.highNs === null) return 0;
  return offset.highNs - offset.lowNs;
}

/** The skew that a mode removes, in ppm. */
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
  /** Sum of the known parts, and of how far delays remain below 0: the maximum error of a delay, in either direction, caused by the clocks alone. */
  totalNs: number;
  /** Resolutions of both timestamps together; 1 ns each if unknown. */
  resolutionNs: number;
  /** Remaining skew over the whole capture; null if a single packet cannot show it. */
  skewNs: number | null;
  /** Maximum distance of the remaining offset from 0; null: not bounded (one direction). 0 for relative delays. */
  offsetNs: number | null;
  /** Steps that may be a clock's and are not removed, and the uncertainty of those that are removed. */
  stepsNs: number;
  /**
   * How far the clocks wander against each other, or the part that is not corrected. Without a sign of it: how far they may have moved, in addition to the skew,
   * because the minimum delays of both directions vary as much.
   */
  wanderNs: number;
}

/** No clock has a larger skew; also the skew assumed if too few packets show any. */
const WORST_PPM = 500;

/** Null parts are unknown and not in the total: state that with the total. */
export function clockUncertainty(verdict: ClockVerdict, mode: CorrectionMode): ClockUncertainty {
  const { skew, offset, steps } = verdict;
  const path = followed(verdict, mode);
  const resolutionNs = (verdict.resolutionNs.before ?? 1) + (verdict.resolutionNs.after ?? 1);
  let skewNs: number | null = null;
  // The path removes what the line leaves.
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
  // The worst piece counts.
  const bounds = pieces.map((p) => p.offsetUncertaintyNs).filter((ns) => ns !== null);
  if (bounds.length > 0 && !(path && mode === "relative")) offsetNs = Math.max(...bounds);
  const left = steps.filter((s) => s.kind !== "delay" && !removesStep(verdict, s.kind, mode));
  const stepsNs =
    left.reduce((sum, s) => sum + Math.abs(s.sizeNs), 0) +
    pieces.reduce((sum, p) => sum + p.stepUncertaintyNs, 0);
  const leftNs = path && path.roughNs + (mode === "relative" ? path.boundNs : 0);
  // A drift that cannot be excluded is a movement, too.
  const wanderNs = leftNs ?? verdict.drift.wanderNs ?? Math.max(0, verdict.drift.unseenNs - (skewNs ?? 0));
  const knownNs = resolutionNs + (skewNs ?? 0) + (offsetNs ?? 0) + stepsNs + wanderNs;
  const { impossible } = verdict;
  const totalNs = knownNs + (impossible.mode === mode ? besideImpossible(verdict, mode) : 0);
  return { totalNs, resolutionNs, skewNs, offsetNs, stepsNs, wanderNs };
}

/** Delays below 0 by less than this share of a step do not come from the moment of the step, unless it is as near as a clock that stood still needs. */
const SHARE_OF_STEP = 0.1;

/**
 * Error that delays below 0 reveal. Next to a step that is removed at once they show that the clock changed gradually (it stood still, or was slewed): before
 * the moment of removal delays are too small by up to this amount, after it too large by up to the rest of the step.
 */
function besideImpossible(verdict: ClockVerdict, mode: CorrectionMode): number {
  const { byNs, atNs } = verdict.impossible;
  const sizes = verdict.steps
    .filter((s) => s.kind !== "delay" && removesStep(verdict, s.kind, mode))
    .map((s) => ({ sizeNs: Math.abs(s.sizeNs), apartNs: Math.abs(s.atNs - (atNs ?? Number.NaN)) }))
    .filter(({ sizeNs, apartNs }) => byNs > SHARE_OF_STEP * sizeNs || (byNs > 0 && apartNs <= sizeNs))
    .map(({ sizeNs }) => sizeNs);
  return sizes.reduce((most, sizeNs) => Math.max(most, sizeNs - byNs), byNs);
}
