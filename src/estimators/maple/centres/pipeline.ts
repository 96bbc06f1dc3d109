/**
 * The centres of an epoch if they are needed before its packets (MAPLE, section 3.2), in three stages. Epoch i is sampled into candidate medians, epoch i + 1
 * reduces those to k centres, epoch i + 2 is stored by them. Until then: logarithmic centres.
 *
 *   log      the range decides, nothing is learned
 *   kmedians k learned centres; a congestion that did not exist two epochs ago has no centre near it
 *   hybrid   k/2 logarithmic, k/2 learned: the paper's choice
 *
 * The shares of the groups (by which PBF divides its memory) come from the same sampled delays and are as old as the centres. They are an average over epochs,
 * with weights that decay by the factor `memory` per epoch. The paper uses one epoch alone (memory 0): PBF then leaves out the difference between epochs two
 * apart; an average of several epochs is closer to the next.
 */
import { kMedians1d } from "../../../base/math/kmedians.ts";
import { bucketMid, bucketOf } from "../../../base/math/log-histogram.ts";
import type { Random } from "../../../base/random.ts";
import { type Centres, centreOf, nearestCentres } from "./centres.ts";
import { type LogarithmicRange, logarithmicCentres, PAPER_RANGE } from "./logarithmic.ts";
import { type Candidates, OnlineMedians } from "./online-medians.ts";

/** Buckets with a lower weight are dropped. */
const MIN_WEIGHT = 1e-7;

export type Strategy = "log" | "kmedians" | "hybrid";

export interface PipelineOptions {
  strategy: Strategy;
  k: number;
  range?: LogarithmicRange;
  /** Share of packets that the online stage uses. */
  sampling?: number;
  /** Approximate number of packets per epoch. */
  expected?: number;
  /** Decay factor of the average of shares: from 0 (one epoch alone) to below 1. */
  memory?: number;
  random: Random;
}

export class CentrePipeline {
  readonly #options: Required<PipelineOptions>;
  readonly #static: Centres;
  readonly #fixed: Float64Array;
  #medians: OnlineMedians;
  #candidates: Candidates | null = null;
  /** Sampled delays by log bucket: of the current epoch, and the average of the previous ones. */
  #sampled = new Map<number, number>();
  #frequencies = new Map<number, number>();
  #current: Centres;

  constructor(options: PipelineOptions) {
    this.#options = { range: PAPER_RANGE, sampling: 0.1, expected: 400_000, memory: 0.8, ...options };
    const { strategy, k, range } = this.#options;
    this.#static = logarithmicCentres(k, range);
    this.#fixed =
      strategy === "hybrid"
        ? logarithmicCentres(Math.ceil(k / 2), range).valuesNs
        : strategy === "log"
          ? this.#static.valuesNs
          : new Float64Array(0);
    this.#medians = this.#newMedians();
    this.#current = this.#static;
  }

  /** The centres by which the packets of the current epoch are stored. */
  get current(): Centres {
    return this.#current;
  }

  /** Adds delays of the current epoch; each is used with the sampling probability. */
  observe(delaysNs: Float64Array): void {
    const { sampling, random } = this.#options;
    if (sampling >= 1) for (const delay of delaysNs) this.#learn(delay);
    // Draws gaps instead of one random number per packet.
    else
      for (let i = random.geometric(sampling) - 1; i < delaysNs.length; i += random.geometric(sampling))
        this.#learn(delaysNs[i]!);
  }

  /** Ends the epoch: every stage hands its result to the next. */
  endEpoch(): void {
    if (this.#candidates) this.#current = this.#reduce(this.#candidates);
    const found = this.#medians.candidates();
    this.#candidates = found.weights.some((w) => w > 0) ? found : null;
    this.#medians = this.#newMedians();
    this.#remember();
  }

  #learn(delayNs: number): void {
    this.#medians.add(delayNs);
    const bucket = bucketOf(delayNs);
    this.#sampled.set(bucket, (this.#sampled.get(bucket) ?? 0) + 1);
  }

  #remember(): void {
    let sum = 0;
    for (const count of this.#sampled.values()) sum += count;
    if (sum === 0) return;
    const { memory } = this.#options;
    const known = new Map<number, number>();
    for (const [bucket, weight] of this.#frequencies) {
      if (weight * memory > MIN_WEIGHT) known.set(bucket, weight * memory);
    }
    for (const [bucket, count] of this.#sampled) known.set(bucket, (known.get(bucket) ?? 0) + count / sum);
    this.#frequencies = known;
    this.#sampled = new Map();
  }

  #newMedians(): OnlineMedians {
    const { k, expected, sampling, random } = this.#options;
    return new OnlineMedians(k, expected * sampling, random, this.#fixed);
  }

  /** The offline stage: keeps fixed medians and reduces the others to the rest of k. */
  #reduce(candidates: Candidates): Centres {
    const { valuesNs, weights, fixed } = candidates;
    const learn = this.#options.k - this.#fixed.length;
    const values = [...this.#fixed];
    if (learn > 0) {
      const free = Array.from(valuesNs.keys()).filter((i) => fixed[i] === 0 && weights[i]! > 0);
      const learnt = kMedians1d(
        Float64Array.from(free, (i) => valuesNs[i]!),
        Float64Array.from(free, (i) => weights[i]!),
        learn,
      );
      values.push(...learnt.centres);
    }
    if (values.length === 0) return this.#static;
    const centres = nearestCentres(values);
    const shares = new Float64Array(centres.valuesNs.length);
    let sum = 0;
    for (const [bucket, weight] of this.#frequencies) {
      shares[centreOf(centres, bucketMid(bucket))]! += weight;
      sum += weight;
    }
    return { ...centres, shares: shares.map((s) => s / sum) };
  }
}
