/**
 * The verdict on the clocks of two captures: plain data, fit for JSON. `diagnose` (diagnose.ts) makes it, `correction` (correction.ts) acts on it, `sentences`
 * (sentences.ts) puts it into words.
 *
 * Signs: an offset, a skew or a step is AFTER's clock against BEFORE's, positive if AFTER's is ahead or faster.
 */
import type { ClockPath } from "./clock-path.ts";
import type { Impossible } from "./impossible.ts";
import type { OffsetVerdict } from "./offset.ts";
import type { ClockPiece } from "./pieces.ts";
import type { SkewReason } from "./skew.ts";

/**
 * good: the delays are right as they are. usable: they are right after the corrections named, or within the uncertainty named. doubtful: something could not be
 * decided (level, a step, a trend); read the sentences before using the delays. unusable: the timestamps contradict each other, or are too coarse, or there is
 * nothing to judge.
 */
export type Trust = "good" | "usable" | "doubtful" | "unusable";

export interface SkewVerdict {
  ppm: number;
  /** 95 % interval. */
  lowPpm: number;
  highPpm: number;
  /** The larger distance from `ppm` to an end of the interval. */
  ppmUncertainty: number;
  spanNs: number;
  /** Block minima used for the interval. */
  points: number;
  /** Whether a skew is claimed (and corrected); `reason` says why or why not. */
  detected: boolean;
  reason: SkewReason;
}

export interface StepVerdict {
  /** Time at BEFORE of the first packet after the step. */
  atNs: number;
  sizeNs: number;
  /** clock: a clock was set. delay: the path became longer or shorter. ambiguous: not decidable from one direction. */
  kind: "clock" | "delay" | "ambiguous";
  evidence: string;
}

export interface BeforeAfter<T> {
  before: T;
  after: T;
}

export interface ClockVerdict {
  mode: "no-pairs" | "one-way" | "two-way";
  pairs: { forward: number; reverse: number };
  /** Earliest send time: the anchor of corrections. */
  originNs: number;
  /** From the origin to the latest send time. */
  spanNs: number;
  negative: {
    count: number;
    share: number;
    /** Smallest forward difference (positive if none is negative); null without pairs. */
    minNs: number | null;
    /** Every negative difference is within the resolution of the timestamps. */
    withinResolution: boolean;
  };
  /**
   * Smallest forward difference as captured, after removing a detected skew, and after also leaving out a few outliers that would be negative delays among
   * positive ones (false matches). Null without pairs.
   */
  floor: { asIsNs: number; deskewedNs: number; levelNs: number } | null;
  /** BEFORE and AFTER seem to be swapped: negated, the differences look like delays. */
  swapped: boolean;
  offset: OffsetVerdict;
  skew: SkewVerdict | null;
  /** Why there is no skew estimate; null if there is one. */
  noSkewReason: string | null;
  steps: StepVerdict[];
  /** The pieces between steps that may be a clock's; empty without steps. */
  pieces: ClockPiece[];
  drift: {
    /** Middle 80 % of the minima around the line; null without a skew estimate. */
    residualNs: number | null;
    /** Whether both halves allow the same skew; null if they are too short. */
    constant: boolean | null;
    halves: { lowPpm: number; highPpm: number }[];
    /** How far the clocks wander against each other around the line, as both directions show it; null if they do not. */
    wanderNs: number | null;
    /** If they do not: how far the clocks may have moved nevertheless, because delays vary as much. 0 with steps, and from one direction. */
    unseenNs: number;
    /** The path of the clock difference, if both directions bound it over the whole capture; null otherwise, or without wander. */
    path: ClockPath | null;
  };
  /** Delays that remain below 0 with the correction in use, if both directions show it. */
  impossible: Impossible;
  /** Null: unknown. */
  resolutionNs: BeforeAfter<number | null>;
  backward: BeforeAfter<{ count: number; largestNs: number } | null>;
  batched: BeforeAfter<{ share: number; equalShare: number; longestRun: number; impossible: boolean } | null>;
  trust: Trust;
  /** What was found, how big it is, what to do; most serious first. */
  lines: string[];
}
