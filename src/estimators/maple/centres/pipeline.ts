/**
 * Where the centres of an epoch come from when they must be there before its packets (MAPLE, section 3.2): three stages. Epoch i is
 * sampled into candidate medians, epoch i + 1 reduces those to k centres, epoch i + 2 is stored by them. Until then: logarithmic centres.
 *
 *   log      the range decides, nothing is learnt
 *   kmedians k centres learnt; a congestion that was not there two epochs ago has no centre near it
 *   hybrid   k/2 logarithmic, k/2 learnt: the paper's choice
 */
import { kMedians1d } from "../../../base/kmedians.ts";
import type { Random } from "../../../base/random.ts";
import { type Centres, centreOf, nearestCentres } from "./centres.ts";
import { type LogarithmicRange, logarithmicCentres, PAPER_RANGE } from "./logarithmic.ts";
import { type Candidates, OnlineMedians } from "./online-medians.ts";

export type Strategy = "log" | "kmedians" | "hybrid";

export interface PipelineOptions {
  strategy: Strategy;
  k: number;
  range?: LogarithmicRange;
  /** Share of packets that the online stage looks at. */
  sampling?: number;
  /** About how many packets an epoch has. */
  expected?: number;
  random: Random;
}

export class CentrePipeline {
  readonly #options: Required<PipelineOptions>;
  readonly #static: Centres;
  readonly #fixed: Float64Array;
  #medians: OnlineMedians;
  #candidates: Candidates | null = null;
  #current: Centres;

  constructor(options: PipelineOptions) {
    this.#options = { range: PAPER_RANGE, sampling: 0.1, expected: 400_000, ...options };
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

  /** Centres that the packets of the current epoch are stored by. */
  get current(): Centres {
    return this.#current;
  }

  /** Delays of the current epoch; each is looked at with the sampling probability. */
  observe(delaysNs: Float64Array): void {
    const { sampling, random } = this.#options;
    if (sampling >= 1) for (const delay of delaysNs) this.#medians.add(delay);
    // Gaps instead of a draw per packet.
    else
      for (let i = random.geometric(sampling) - 1; i < delaysNs.length; i += random.geometric(sampling))
        this.#medians.add(delaysNs[i]!);
  }

  /** The epoch has ended: every stage passes on what it has. */
  endEpoch(): void {
    if (this.#candidates) this.#current = this.#reduce(this.#candidates);
    const found = this.#medians.candidates();
    this.#candidates = found.weights.some((w) => w > 0) ? found : null;
    this.#medians = this.#newMedians();
  }

  #newMedians(): OnlineMedians {
    const { k, expected, sampling, random } = this.#options;
    return new OnlineMedians(k, expected * sampling, random, this.#fixed);
  }

  /** The offline stage: fixed medians stay, the others are reduced to what is left of k. */
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
    for (let i = 0; i < valuesNs.length; i++) {
      shares[centreOf(centres, valuesNs[i]!)]! += weights[i]!;
      sum += weights[i]!;
    }
    return { ...centres, shares: shares.map((s) => s / sum) };
  }
}
