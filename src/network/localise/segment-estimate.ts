/**
 * Input of the localiser: one segment in one epoch, as plain data from any estimator, record or capture.
 *
 * Times are nanoseconds from any origin that all estimates share. `packets` crossed the segment, `lost` did not: `packets + lost` were sent. Null means "no
 * answer" (epoch void, no usable cells), never zero.
 */
import { invalidValue, UsageError } from "../../base/errors.ts";
import { normalQuantile } from "../../base/math/special.ts";
import type { EpochValue } from "./spikes.ts";

export interface LocaliseEstimate {
  readonly fromPoint: string;
  readonly toPoint: string;
  readonly epochStartNs: number;
  readonly epochEndNs: number;
  readonly meanNs: number | null;
  readonly lowNs: number | null;
  readonly highNs: number | null;
  readonly stdevNs: number | null;
  readonly packets: number;
  /** Negative only with `lostError`: more packets arrived than were sent in this epoch. */
  readonly lost: number;
  /** Standard error of `lost` if it is not counted packet by packet (packets in flight over the epoch's edges); Infinity: unknown. */
  readonly lostError?: number | undefined;
}

export interface SegmentLatency {
  readonly meanNs: number;
  readonly lowNs: number;
  readonly highNs: number;
  readonly stdevNs: number | null;
  readonly packets: number;
}

export interface LossRate {
  readonly rate: number;
  readonly low: number;
  readonly high: number;
}

/** Half-width of an interval at this confidence, in standard errors. */
export function intervalWidth(confidence: number): number {
  if (!(confidence > 0 && confidence < 1))
    throw invalidValue("confidence", confidence, "a share between 0 and 1", { code: "bad-parameter" });
  return normalQuantile((1 + confidence) / 2);
}

export function checkEstimate(e: LocaliseEstimate): void {
  const name = `${e.fromPoint} → ${e.toPoint}`;
  const fail = (parameter: keyof LocaliseEstimate, problem: string, expected: string): never => {
    const what = `estimate of ${name} at ${e.epochStartNs}: ${problem}`;
    throw new UsageError("bad-parameter", what, undefined, { parameter, value: e[parameter], expected });
  };
  if (!(e.epochEndNs > e.epochStartNs))
    fail("epochEndNs", "the epoch must end after it begins", "a time behind epochStartNs");
  if (!(e.packets >= 0 && (e.lost >= 0 || (e.lostError ?? 0) > 0) && e.packets + e.lost >= 0))
    fail(e.packets >= 0 ? "lost" : "packets", "packets and lost must not be negative", "0 or more");
  if (e.meanNs === null) return;
  if (!Number.isFinite(e.meanNs))
    fail("meanNs", "the mean is not a number; write null for no answer", "a number or null");
  if (e.lowNs !== null && e.highNs !== null && !(e.lowNs <= e.meanNs && e.meanNs <= e.highNs))
    fail("meanNs", "the mean must lie between low and high", "a number from lowNs to highNs");
}

/** Standard error of an estimate: from its interval, else from its deviation, else unknown (0). */
export function standardError(e: LocaliseEstimate, width: number): number {
  if (e.lowNs !== null && e.highNs !== null) return (e.highNs - e.lowNs) / (2 * width);
  return e.stdevNs !== null && e.packets > 0 ? e.stdevNs / Math.sqrt(e.packets) : 0;
}

export function epochValue(e: LocaliseEstimate, width: number): EpochValue {
  return {
    startNs: e.epochStartNs,
    endNs: e.epochEndNs,
    value: e.meanNs,
    error: e.meanNs === null ? 0 : standardError(e, width),
  };
}

/** The mean over epochs, weighted by packets; null if no epoch has an answer. */
export function overallLatency(estimates: readonly LocaliseEstimate[], width: number): SegmentLatency | null {
  let packets = 0;
  let sum = 0;
  let squares = 0;
  let errors = 0;
  let deviationKnown = true;
  for (const e of estimates) {
    if (e.meanNs === null || e.packets === 0) continue;
    packets += e.packets;
    sum += e.packets * e.meanNs;
    errors += (e.packets * standardError(e, width)) ** 2;
    if (e.stdevNs === null) deviationKnown = false;
    else squares += e.packets * e.stdevNs ** 2;
  }
  if (packets === 0) return null;
  const meanNs = sum / packets;
  for (const e of estimates) if (e.meanNs !== null) squares += e.packets * (e.meanNs - meanNs) ** 2;
  const half = (width * Math.sqrt(errors)) / packets;
  return {
    meanNs,
    lowNs: meanNs - half,
    highNs: meanNs + half,
    stdevNs: deviationKnown ? Math.sqrt(squares / packets) : null,
    packets,
  };
}

/** Share lost with its Wilson interval; null if nothing was sent. */
export function lossRate(sent: number, lost: number, width: number): LossRate | null {
  if (sent === 0) return null;
  const rate = lost / sent;
  const z2 = width * width;
  const centre = (rate + z2 / (2 * sent)) / (1 + z2 / sent);
  const half = (width * Math.sqrt((rate * (1 - rate)) / sent + z2 / (4 * sent * sent))) / (1 + z2 / sent);
  // At 0 and 1 the interval touches its end exactly; rounding must not move it beyond.
  return {
    rate,
    low: lost === 0 ? 0 : Math.max(0, centre - half),
    high: lost === sent ? 1 : Math.min(1, centre + half),
  };
}
