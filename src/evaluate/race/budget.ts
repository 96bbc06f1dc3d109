/**
 * The budget that all estimators of a race get: memory of a tap, or bits per arrived packet, either sent or stored. The estimator's `sizing` chooses the
 * parameters; its one input is memory. For a budget in bits, the size of the taps' actual records is measured, and the memory is adjusted until it fits.
 */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import type { Estimator, ParameterValues } from "../../estimators/estimator.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import type {
  ContestantResult,
  ExpectedTraffic,
  RaceContestant,
  RaceSegment,
  SegmentResult,
} from "./segment.ts";

export type Budget =
  | { readonly kind: "memory"; readonly bytes: number }
  /** Records of both ends, plus packets injected for the estimator. `list`: the list of flows counts as well. */
  | { readonly kind: "wire" | "stored"; readonly bitsPerPacket: number; readonly list: boolean };

/** Sizes change in steps, and indices grow in powers of two, so this much above the budget still fits. */
const TOLERANCE = 1.1;
/** Below this share of the budget, a larger size is tried. */
const USED = 0.85;
const ROUNDS = 5;
const SMALLEST = 512;
/** More memory per packet is useless, and the taps of all estimators have to fit into one process. */
const USEFUL_PER_PACKET = 1024;
const USEFUL_AT_LEAST = 2 ** 20;
const LARGEST = 2 ** 27;
/** A size four times as large must use at least this much more of the budget, otherwise it is not worth its memory. */
const GROWTH = 1.05;

/** Bits per packet that arrived. */
export interface Bits {
  readonly stored: number;
  readonly wire: number;
  readonly list: number;
}

export function bitsOf(result: ContestantResult, { packets, list }: SegmentResult): Bits {
  const share = (bytes: number) => (8 * bytes) / Math.max(1, packets);
  const stored = share(result.senderBytes + result.receiverBytes);
  return {
    stored,
    wire: stored + share(result.injectedBytes),
    list: result.usesList ? share(list.bytes) : 0,
  };
}

export function isWithin(budget: Budget | null, result: ContestantResult, of: SegmentResult): boolean {
  return budget === null || used(budget, result, of) <= TOLERANCE * limitOf(budget);
}

function limitOf(budget: Budget): number {
  return budget.kind === "memory" ? budget.bytes : budget.bitsPerPacket;
}

function used(budget: Budget, result: ContestantResult, of: SegmentResult): number {
  if (budget.kind === "memory") return result.memoryBytes;
  const bits = bitsOf(result, of);
  return bits[budget.kind] + (budget.list ? bits.list : 0);
}

/** Returns the largest memory that is tried. */
export function largestMemory({ packets }: Pick<ExpectedTraffic, "packets">): number {
  return Math.min(LARGEST, Math.max(USEFUL_AT_LEAST, USEFUL_PER_PACKET * packets));
}

export interface Fixed {
  /** Parameters set by the user, as text, by estimator. */
  readonly [estimator: string]: string;
}

/** Returns the contestants with sizes that fit the budget. Estimators without `sizing` keep their usual parameters. */
export async function fitAll(
  segment: RaceSegment,
  estimators: readonly Estimator[],
  budget: Budget | null,
  fixed: Fixed = {},
): Promise<RaceContestant[]> {
  const expected = await segment.expected();
  const trials = estimators.map((estimator) => new Trial(estimator, budget, expected, fixed[estimator.name]));
  if (budget !== null)
    for (let round = 0; round < ROUNDS; round++) {
      const open = trials.filter((trial) => trial.isOpen);
      if (open.length === 0) break;
      const measured = await segment.run(
        open.map((trial) => trial.contestant),
        true,
      );
      for (const [i, trial] of open.entries())
        trial.note(used(budget, entryAt(measured.results, i), measured) / limitOf(budget));
    }
  return trials.map((trial) => trial.best);
}

/** The search for the size of one estimator. */
class Trial {
  readonly #estimator: Estimator;
  readonly #expected: ExpectedTraffic;
  readonly #text: string;
  /** Memory passed to `sizing`; null if the estimator has none. */
  #memory: number | null;
  #parameters: ParameterValues;
  #tooSmall = 0;
  #tooLarge = Infinity;
  readonly #largest: number;
  #best: { parameters: ParameterValues; share: number; memory: number } | null = null;
  isOpen = true;

  constructor(estimator: Estimator, budget: Budget | null, expected: ExpectedTraffic, text = "") {
    this.#estimator = estimator;
    this.#expected = expected;
    this.#text = text;
    const usual = parseParameters(estimator, text);
    this.#parameters = usual;
    this.#memory = null;
    this.#largest = largestMemory(expected);
    this.isOpen = false;
    if (budget === null || !estimator.sizing) return;
    const wanted = budget.kind === "memory" ? budget.bytes : (budget.bitsPerPacket * expected.packets) / 8;
    const start = Math.min(this.#largest, Math.max(SMALLEST, wanted));
    for (let memory = start; memory <= this.#largest; memory *= 2) {
      const parameters = this.#size(memory);
      if (parameters === null) continue;
      this.#memory = memory;
      this.#parameters = parameters;
      this.isOpen = true;
      return;
    }
  }

  get contestant(): RaceContestant {
    return { estimator: this.#estimator, parameters: this.#parameters };
  }

  get best(): RaceContestant {
    return { estimator: this.#estimator, parameters: this.#best?.parameters ?? this.#parameters };
  }

  /** Notes which share of the budget the last size took, and chooses the next size. */
  note(share: number): void {
    const fits = share <= TOLERANCE;
    const memory = this.#memory ?? 0;
    const before = this.#best;
    const better =
      before === null ||
      (fits ? !(before.share <= TOLERANCE && before.share >= share) : share < before.share);
    // The bits do not grow with the memory, so a larger size stores no more.
    const idle =
      before !== null &&
      before.share <= TOLERANCE &&
      memory > 4 * before.memory &&
      share < GROWTH * before.share;
    if (better && !idle) this.#best = { parameters: this.#parameters, share, memory };
    if (fits) this.#tooSmall = Math.max(this.#tooSmall, memory);
    else this.#tooLarge = Math.min(this.#tooLarge, memory);
    this.isOpen = false;
    if (idle || (fits && share >= USED)) return;
    const next = Math.min(this.#largest, this.#next(memory, share));
    if (next < SMALLEST || Math.abs(Math.log(next / memory)) < 0.02) return;
    const parameters = this.#size(next);
    if (parameters === null || JSON.stringify(parameters) === JSON.stringify(this.#parameters)) return;
    this.#memory = next;
    this.#parameters = parameters;
    this.isOpen = true;
  }

  /** Scales the memory in proportion, within the limits known to be too small and too large. */
  #next(memory: number, share: number): number {
    const wanted = memory * Math.min(16, Math.max(1 / 16, 0.97 / Math.max(1e-6, share)));
    if (wanted > this.#tooSmall && wanted < this.#tooLarge) return wanted;
    const high = this.#tooLarge === Infinity ? 4 * memory : this.#tooLarge;
    return this.#tooSmall === 0 ? high / 4 : Math.sqrt(this.#tooSmall * high);
  }

  /** Returns null if nothing of that size works. */
  #size(memoryBytes: number): ParameterValues | null {
    const names = this.#text.split(",").map((part) => part.split("=", 1)[0] ?? "");
    const given = parseParameters(this.#estimator, this.#text);
    const set = Object.entries(given).filter(([name]) => names.includes(name));
    const none = { flowPackets: null, variation: 1, error: null, flowSize: null };
    try {
      const request = {
        ...this.#expected,
        ...none,
        memoryBytes: Math.round(memoryBytes),
        fixed: Object.fromEntries(set),
      };
      return this.#estimator.sizing?.size(request).parameters ?? null;
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      return null;
    }
  }
}
