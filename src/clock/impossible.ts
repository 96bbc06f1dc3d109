/**
 * What a correction leaves that no clock and no path can have made of packets: delays below 0. A packet arrives behind its sending, so where a delay comes out as less than nothing, what was
 * taken off is wrong by at least as much, there: the clocks did something besides (a step of a few packets, a clock that stood still), or packets were paired falsely. Either way the uncertainty
 * that is stated must hold it.
 */
import { type CorrectionMode, correction } from "./correction.ts";
import type { EnvelopePoints } from "./envelope.ts";
import type { ClockVerdict } from "./verdict.ts";

export interface Impossible {
  /** How far the smallest delay of both directions lies below 0; 0 where none does. */
  byNs: number;
  /** Share of the moments seen that are below 0 by more than the timestamps' resolution. */
  share: number;
}

/** Of packets of both directions; a single one has no measure of its own for what its clock is apart by. */
export function impossibleLeft(
  verdict: ClockVerdict,
  mode: CorrectionMode,
  forward: EnvelopePoints,
  /** Negated differences. */
  reverse: EnvelopePoints,
  quantumNs: number,
): Impossible {
  if (forward.length === 0 || reverse.length === 0) return { byNs: 0, share: 0 };
  const { offsetNs, slope, pivotNs, reverseNs, pieces } = correction(verdict, mode);
  const removedAt = (sendNs: number, differenceNs: number) =>
    pieceAt(pieces, sendNs)?.map((ns) => ns + slope * (sendNs + differenceNs - pivotNs)) ?? [
      offsetNs + slope * (sendNs + differenceNs - pivotNs),
    ];
  let byNs = 0;
  let below = 0;
  const look = (delayNs: number) => {
    byNs = Math.max(byNs, -delayNs);
    if (delayNs < -quantumNs) below++;
  };
  for (let i = 0; i < forward.length; i++) {
    const difference = forward.valueNs[i]!;
    look(Math.max(...removedAt(forward.timeNs[i]!, difference).map((ns) => difference - ns)));
  }
  for (let i = 0; i < reverse.length; i++) {
    const difference = -reverse.valueNs[i]!;
    look(Math.max(...removedAt(reverse.timeNs[i]!, difference).map((ns) => ns - difference)) - reverseNs);
  }
  return { byNs: byNs > quantumNs ? byNs : 0, share: below / (forward.length + reverse.length) };
}

/** What is removed of a packet that was at BEFORE then; near the end of a piece it may be of the next one. Null where nothing is removed piece by piece. */
function pieceAt(pieces: readonly { fromNs: number | null; removedNs: number }[], atNs: number): number[] | null {
  if (pieces.length === 0) return null;
  let [from, to] = [0, pieces.length];
  while (to - from > 1) {
    const middle = (from + to) >>> 1;
    if ((pieces[middle]?.fromNs ?? Number.NEGATIVE_INFINITY) <= atNs) from = middle;
    else to = middle;
  }
  return pieces.slice(Math.max(0, from - 1), from + 2).map((piece) => piece.removedNs);
}
