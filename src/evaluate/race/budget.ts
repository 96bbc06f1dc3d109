/**
 * What is made equal in a race: memory of a tap, bits on the wire, or bits stored, the latter two per packet that arrives. A size is found by the estimator's own `sizing`, whose one knob is memory; for
 * bits, what taps really write is measured, and the memory changed until it fits.
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
  /** Records of both ends, and packets that were sent for the estimator. `list`: the list of flows counts, too. */
  | { readonly kind: "wire" | "stored"; readonly bitsPerPacket: number; readonly list: boolean };

/** Sizes are chosen in steps, and indices grow in powers of two: so much above the budget is within it. */
const TOLERANCE = 1.1;
/** Below this share of the budget a larger size is tried. */
const USED = 0.85;
const ROUNDS = 5;
const SMALLEST = 512;
/** More is of no use to an epoch of some packets, and taps of all estimators have to fit into one process. */
const USEFUL_PER_PACKET = 1024;
const USEFUL_AT_LEAST = 2 ** 20;
const LARGEST = 2 ** 27;
/** A size that takes so little more of the budget than one a quarter of it is not worth its memory. */
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

/** Memory above which no size is tried. */
export function largestMemory({ packets }: Pick<ExpectedTraffic, "packets">): number {
  return Math.min(LARGEST, Math.max(USEFUL_AT_LEAST, USEFUL_PER_PACKET * packets));
}

export interface Fixed {
  /** Parameters set by hand, as text, by estimator. */
  readonly [estimator: string]: string;
}

/** Contestants at a size that fits, as far as they have sizes; the others as they usually are. */
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

/** One estimator on the way to its size. */
class Trial {
  readonly #estimator: Estimator;
  readonly #expected: ExpectedTraffic;
  readonly #text: string;
  /** Memory given to `sizing`; null: it has none. */
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

  /** What the last size took, of the budget. */
  note(share: number): void {
    const fits = share <= TOLERANCE;
    const memory = this.#memory ?? 0;
    const before = this.#best;
    const better =
      before === null ||
      (fits ? !(before.share <= TOLERANCE && before.share >= share) : share < before.share);
    // Bits that do not grow with the memory: what is larger holds no more.
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

  /** In proportion, within what is known to be too small and too large. */
  #next(memory: number, share: number): number {
    const wanted = memory * Math.min(16, Math.max(1 / 16, 0.97 / Math.max(1e-6, share)));
    if (wanted > this.#tooSmall && wanted < this.#tooLarge) return wanted;
    const high = this.#tooLarge === Infinity ? 4 * memory : this.#tooLarge;
    return this.#tooSmall === 0 ? high / 4 : Math.sqrt(this.#tooSmall * high);
  }

  /** Null where nothing of that size can work. */
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
