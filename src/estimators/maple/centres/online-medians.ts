/**
 * Candidate medians of a stream of delays in one pass and little memory (MAPLE, section 3.2: the one-thread variant of the polylogarithmic-space algorithm of
 * Charikar, O'Callaghan and Panigrahy). The algorithm works in phases. A phase opens a new median at delay x with probability distance / f, f = L / (k (1 + log
 * n)), where L is a lower bound of the best cost; otherwise x counts for the nearest median (Meyerson's online facility location). When a phase has opened too
 * many medians or spent too much, L doubles, and its medians become the first points of the next phase, with their weights.
 *
 * Leaves O(k log n) weighted candidates for the offline stage. Fixed medians (hybrid clustering) are open in every phase. Limits: the cost is within a constant
 * factor of the best only in expectation; a burst that was never sampled has no candidate.
 */
import type { Random } from "../../../base/random.ts";

/** Factor by which L grows from phase to phase. */
const GROWTH = 2;
/** A phase ends when its cost exceeds this many times L. */
const COST_BOUND = 4;
/** Delays are measured in ns: below this, a phase would open a median for every delay. */
const MIN_COST_NS = 1;

export interface Candidates {
  valuesNs: Float64Array;
  weights: Float64Array;
  /** 1 if the median is a fixed one. */
  fixed: Uint8Array;
}

export class OnlineMedians {
  readonly #random: Random;
  readonly #fixed: Float64Array;
  readonly #openLimit: number;
  readonly #factor: number;
  #lowerBound = 0;
  #cost = 0;
  phases = 0;
  #count = 0;
  #values: Float64Array;
  #weights: Float64Array;
  #isFixed: Uint8Array;

  /** `expected`: approximate number of delays; it determines how many medians are kept. */
  constructor(k: number, expected: number, random: Random, fixedNs: Float64Array = new Float64Array(0)) {
    this.#random = random;
    this.#fixed = fixedNs.slice().sort();
    this.#factor = k * (1 + Math.log2(Math.max(2, expected)));
    this.#openLimit = Math.ceil(2 * this.#factor) + this.#fixed.length;
    const room = this.#openLimit + 1;
    this.#values = new Float64Array(room);
    this.#weights = new Float64Array(room);
    this.#isFixed = new Uint8Array(room);
    this.#begin();
  }

  add(delayNs: number): void {
    this.#insert(delayNs, 1);
    while (this.#count >= this.#openLimit || this.#cost > COST_BOUND * this.#lowerBound) {
      if (!this.#nextPhase()) return;
    }
  }

  candidates(): Candidates {
    const n = this.#count;
    return {
      valuesNs: this.#values.slice(0, n),
      weights: this.#weights.slice(0, n),
      fixed: this.#isFixed.slice(0, n),
    };
  }

  #begin(): void {
    this.phases++;
    this.#cost = 0;
    this.#count = this.#fixed.length;
    this.#values.set(this.#fixed);
    this.#weights.fill(0);
    this.#isFixed.fill(0);
    this.#isFixed.fill(1, 0, this.#fixed.length);
  }

  /** Starts the next phase. Returns false if it cannot help because the bound is still unknown. */
  #nextPhase(): boolean {
    const old = this.candidates();
    if (this.#lowerBound === 0) {
      // The first nonzero distance sets the scale. The bound may start far too low; the phases correct it.
      if (this.#count < this.#openLimit && this.#cost === 0) return false;
      this.#lowerBound = MIN_COST_NS;
    } else this.#lowerBound *= GROWTH;
    this.#begin();
    // In random order: medians are sorted, and facility location on a sorted stream opens too few at its end.
    const order = this.#random.shuffle(Array.from(old.valuesNs.keys()));
    for (const i of order) {
      if (old.weights[i]! > 0) this.#insert(old.valuesNs[i]!, old.weights[i]!);
    }
    return true;
  }

  #insert(valueNs: number, weight: number): void {
    const values = this.#values;
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (values[middle]! < valueNs) low = middle + 1;
      else high = middle;
    }
    let nearest = low;
    if (low === this.#count || (low > 0 && valueNs - values[low - 1]! <= values[low]! - valueNs))
      nearest = low - 1;
    const distance = this.#count === 0 ? Infinity : Math.abs(values[nearest]! - valueNs);
    const price = this.#lowerBound / this.#factor;
    const full = this.#count >= values.length;
    if (!full && distance > 0 && (price === 0 || this.#random.float() * price < distance * weight)) {
      values.copyWithin(low + 1, low, this.#count);
      this.#weights.copyWithin(low + 1, low, this.#count);
      this.#isFixed.copyWithin(low + 1, low, this.#count);
      values[low] = valueNs;
      this.#weights[low] = weight;
      this.#isFixed[low] = 0;
      this.#count++;
      return;
    }
    this.#weights[nearest]! += weight;
    this.#cost += distance * weight;
  }
}
