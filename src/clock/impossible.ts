/**
 * Delays that are still below 0 after a correction. A packet arrives after it was sent, so a negative delay means that the correction is wrong by at least that
 * amount at that moment: either the clocks did something else (a step within a few packets, a clock that stood still), or packets were paired falsely. In both
 * cases the stated uncertainty must cover it.
 */
import { type CorrectionMode, correction } from "./correction.ts";
import type { EnvelopePoints } from "./envelope.ts";
import type { ClockVerdict } from "./verdict.ts";

export interface Impossible {
  /** The correction that was applied; the values depend on it. */
  mode: CorrectionMode;
  /** How far the smallest delay of both directions is below 0; 0 if none is. */
  byNs: number;
  /** When that packet passed BEFORE; null without one. */
  atNs: number | null;
  /** Share of the points that are below 0 by more than the resolution of the timestamps. */
  share: number;
}

/** Only judged with packets of both directions: one direction cannot show whether a correction is right. */
export function impossibleLeft(
  verdict: ClockVerdict,
  mode: CorrectionMode,
  forward: EnvelopePoints,
  /** Negated differences. */
  reverse: EnvelopePoints,
  quantumNs: number,
): Impossible {
  if (forward.length === 0 || reverse.length === 0) return { mode, byNs: 0, atNs: null, share: 0 };
  const { offsetNs, slope, pivotNs, reverseNs, pieces } = correction(verdict, mode);
  const removed = (atNs: number) => (pieces.length === 0 ? [offsetNs] : piecesAt(pieces, atNs));
  // Next to a step a packet belongs to the piece in which its delay is a usual one, as in kernels/match/pieces.ts.
  const [first] = verdict.pieces;
  const firstNs = pieces[0]?.removedNs ?? offsetNs;
  const usualNs = {
    forward: (first?.levelNs ?? firstNs) - firstNs,
    reverse: (first?.reverseLevelNs ?? -firstNs) + firstNs,
  };
  const nearest = (delays: readonly number[], usual: number) =>
    delays.reduce((best, d) => (Math.abs(d - usual) < Math.abs(best - usual) ? d : best));
  let byNs = 0;
  let atNs: number | null = null;
  let below = 0;
  const look = (timeNs: number, delayNs: number) => {
    if (-delayNs > Math.max(byNs, quantumNs)) atNs = timeNs;
    byNs = Math.max(byNs, -delayNs);
    if (delayNs < -quantumNs) below++;
  };
  for (let i = 0; i < forward.length; i++) {
    const [at, difference] = [forward.timeNs[i]!, forward.valueNs[i]!];
    const d = difference - slope * (at + difference - pivotNs);
    look(
      at,
      nearest(
        removed(at).map((ns) => d - ns),
        usualNs.forward,
      ),
    );
  }
  for (let i = 0; i < reverse.length; i++) {
    const [at, difference] = [reverse.timeNs[i]!, -reverse.valueNs[i]!];
    const d = difference - slope * (at + difference - pivotNs);
    look(
      at,
      nearest(
        removed(at).map((ns) => ns - d),
        usualNs.reverse,
      ) - reverseNs,
    );
  }
  const share = below / (forward.length + reverse.length);
  return { mode, byNs: byNs > quantumNs ? byNs : 0, atNs, share };
}

/** Returns what may be removed from a packet that passed BEFORE at this time: near the end of a piece it may belong to the next one. */
function piecesAt(pieces: readonly { fromNs: number | null; removedNs: number }[], atNs: number): number[] {
  let [from, to] = [0, pieces.length];
  while (to - from > 1) {
    const middle = (from + to) >>> 1;
    if ((pieces[middle]?.fromNs ?? Number.NEGATIVE_INFINITY) <= atNs) from = middle;
    else to = middle;
  }
  return pieces.slice(Math.max(0, from - 1), from + 2).map((piece) => piece.removedNs);
}
