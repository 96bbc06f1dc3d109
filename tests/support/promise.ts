/**
 * What intervals promise, and whether they keep it, on both sides: they hold the truth as often as they say (90 %), and are not wider than a factor of what that takes. No answer is no hit:
 * it is left out of the share, and has a limit of its own. The width can be thought otherwise, which shows whether a fault would be seen.
 */
import { binomialCdf } from "../../src/base/math/special.ts";
import { type Interval, isNoAnswer, type NoAnswer } from "../../src/estimators/estimator.ts";

const CONFIDENCE = 0.9;
/** Of an honest interval to be called too narrow. */
const FALSE_ALARM = 1e-4;
/** Of the mean share over epochs, whose flows have errors in common: a false alarm of 3e-5. */
const STANDARD_ERRORS = 4;

export interface Limits {
  /** How much wider than needed. */
  factor: number;
  /** Share of questions without an answer. */
  unanswered: number;
}

/** What intervals of one quantity were worth. */
export class Judged {
  asked = 0;
  /** Reasons of those without an answer. */
  readonly reasons = new Set<NoAnswer["reason"]>();
  /** Errors over half widths: up to 1 is inside. */
  readonly #scaled: number[] = [];

  add(answer: Interval | NoAnswer, truth: number): void {
    this.asked++;
    if (isNoAnswer(answer)) {
      this.reasons.add(answer.reason);
      return;
    }
    const half = truth < answer.valueNs ? answer.valueNs - answer.lowNs : answer.highNs - answer.valueNs;
    const error = Math.abs(truth - answer.valueNs);
    // Exact and said to be: as narrow as can be. Whole nanoseconds are exact.
    this.#scaled.push(half <= 1 ? (error <= 1 ? 1 : Infinity) : error / half);
  }

  get answered(): number {
    return this.#scaled.length;
  }

  /** Answers that hold the truth, or would were they so many times as wide. */
  inside(width = 1): number {
    return this.#scaled.filter((error) => error <= width).length;
  }

  /** How many times wider they are than they had to be. */
  get excess(): number {
    const sorted = this.#scaled.toSorted((a, b) => a - b);
    return 1 / (sorted[Math.floor(CONFIDENCE * (sorted.length - 1))] ?? Infinity);
  }

  toString(): string {
    return `${this.inside()} of ${this.answered} inside, ${this.asked - this.answered} of ${this.asked} without an answer, ${this.excess.toFixed(2)} times as wide as needed`;
  }
}

/** One answer for an epoch, each independent of the others. */
export function faultsOf(judged: Judged, limits: Limits, width = 1): string[] {
  const narrow = binomialCdf(judged.inside(width), judged.answered, CONFIDENCE) <= FALSE_ALARM;
  return faults(judged, narrow, limits, width);
}

/** Many answers for an epoch, with errors in common. */
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
