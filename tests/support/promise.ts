/**
 * Checks the promise of intervals in both directions: they contain the true value as often as stated (90 %), and are at most a factor wider than necessary for
 * that. A missing answer is not a hit or miss, but has its own limit. `width` scales the intervals, to show that a fault would be detected.
 */
import { binomialCdf } from "../../src/base/math/special.ts";
import { type Interval, isNoAnswer, type NoAnswer } from "../../src/estimators/estimator.ts";

const CONFIDENCE = 0.9;
/** Probability that a correct interval is reported as too narrow. */
const FALSE_ALARM = 1e-4;
/** Limit in standard errors of the mean share over epochs, because flows of an epoch have correlated errors: a false alarm rate of 3e-5. */
const STANDARD_ERRORS = 4;

export interface Limits {
  /** Maximum width relative to the necessary one. */
  factor: number;
  /** Maximum share of questions without an answer. */
  unanswered: number;
}

/** Quality of the intervals of one quantity. */
export class Judged {
  asked = 0;
  /** Reasons of those without an answer. */
  readonly reasons = new Set<NoAnswer["reason"]>();
  /** Errors divided by half widths: up to 1 is inside. */
  readonly #scaled: number[] = [];

  add(answer: Interval | NoAnswer, truth: number): void {
    this.asked++;
    if (isNoAnswer(answer)) {
      this.reasons.add(answer.reason);
      return;
    }
    const half = truth < answer.valueNs ? answer.valueNs - answer.lowNs : answer.highNs - answer.valueNs;
    const error = Math.abs(truth - answer.valueNs);
    // An interval of at most 1 ns to either side with an error of at most 1 ns counts as exact, not as too wide.
    this.#scaled.push(half <= 1 ? (error <= 1 ? 1 : Infinity) : error / half);
  }

  get answered(): number {
    return this.#scaled.length;
  }

  /** Number of answers whose interval, scaled by `width`, contains the true value. */
  inside(width = 1): number {
    return this.#scaled.filter((error) => error <= width).length;
  }

  /** Ratio of the width to the necessary one. */
  get excess(): number {
    const sorted = this.#scaled.toSorted((a, b) => a - b);
    return 1 / (sorted[Math.floor(CONFIDENCE * (sorted.length - 1))] ?? Infinity);
  }

  toString(): string {
    return `${this.inside()} of ${this.answered} inside, ${this.asked - this.answered} of ${this.asked} without an answer, ${this.excess.toFixed(2)} times as wide as needed`;
  }
}

/** For one independent answer per epoch. */
export function faultsOf(judged: Judged, limits: Limits, width = 1): string[] {
  const narrow = binomialCdf(judged.inside(width), judged.answered, CONFIDENCE) <= FALSE_ALARM;
  return faults(judged, narrow, limits, width);
}

/** For many answers per epoch, with correlated errors. */
export function faultsOfEpochs(epochs: readonly Judged[], all: Judged, limits: Limits, width = 1): string[] {
  const shares = epochs.filter((e) => e.answered > 0).map((e) => e.inside(width) / e.answered);
  const mean = shares.reduce((sum, x) => sum + x, 0) / shares.length;
  const variance = shares.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (shares.length - 1);
  const narrow = !(mean + STANDARD_ERRORS * Math.sqrt(variance / shares.length) > CONFIDENCE);
  return faults(all, narrow, limits, width);
}

function faults(judged: Judged, narrow: boolean, { factor, unanswered }: Limits, width: number): string[] {
  const silent = judged.asked === 0 ? 1 : 1 - judged.answered / judged.asked;
  return [
    ...(narrow ? [`too narrow: ${judged}`] : []),
    ...(judged.excess * width >= factor ? [`too wide: ${judged}`] : []),
    ...(silent > unanswered ? [`too often without an answer: ${judged}`] : []),
  ];
}
