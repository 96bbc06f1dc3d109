/** LDA compared with the true delays in the paper's synthetic setting (lda-scenarios.ts), for several parameter sets at once. */
import type { Kernels } from "../base/kernels.ts";
import { isNoAnswer, type SegmentEstimate } from "../estimators/estimator.ts";
import { lda } from "../estimators/lda/lda.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { type EndsTruth, runBothEnds } from "./both-ends.ts";
import { weibullScenario } from "./lda-scenarios.ts";

export interface LdaAccuracy {
  /** Runs with an answer; the shares and means below are over these. */
  readonly answered: number;
  readonly meanError: number;
  readonly deviationError: number;
  readonly inMeanInterval: number;
  readonly inDeviationInterval: number;
  /** Packets that the answers use, averaged over all runs. */
  readonly packetsUsed: number;
}

export interface LdaAccuracyOptions {
  /** Parameter sets, as text. */
  readonly variants: readonly string[];
  readonly runs: number;
  readonly packets: number;
  readonly loss: number;
}

/** Returns one row per variant; all variants see the same runs. */
export async function ldaAccuracy(kernels: Kernels, options: LdaAccuracyOptions): Promise<LdaAccuracy[]> {
  const { variants, runs, packets, loss } = options;
  const tallies = variants.map(() => new Tally());
  for (let run = 0; run < runs; run++) {
    const seed = BigInt(1000 + run);
    const pairs = variants.map((text) => ({ estimator: lda, parameters: parseParameters(lda, text), seed }));
    const scenario = weibullScenario({ packets, loss, seed: run + 1 });
    const { truth, sealed } = await runBothEnds(kernels, scenario, pairs);
    for (const [i, ends] of sealed.entries()) {
      const parameters = parseParameters(lda, variants[i] ?? "");
      const input = { parameters, seed, ...ends, flows: null, confidence: 0.95, epochNs: 1e9 };
      const { segment } = lda.estimate(input);
      if (segment) tallies[i]?.add(segment, truth);
    }
  }
  return tallies.map((tally) => tally.result(runs));
}

class Tally {
  #answered = 0;
  #mean = 0;
  #deviation = 0;
  #used = 0;
  #inMean = 0;
  #inDeviation = 0;

  add({ mean, stdev, packetsUsed }: SegmentEstimate, truth: EndsTruth): void {
    this.#used += packetsUsed;
    if (isNoAnswer(mean)) return;
    this.#answered++;
    this.#mean += Math.abs(mean.valueNs / truth.meanNs - 1);
    if (mean.lowNs <= truth.meanNs && truth.meanNs <= mean.highNs) this.#inMean++;
    // A missing answer counts as an error of 100 %.
    if (isNoAnswer(stdev)) {
      this.#deviation += 1;
      return;
    }
    this.#deviation += Math.abs(stdev.valueNs / truth.stdevNs - 1);
    if (stdev.lowNs <= truth.stdevNs && truth.stdevNs <= stdev.highNs) this.#inDeviation++;
  }

  result(runs: number): LdaAccuracy {
    const share = (sum: number) => sum / this.#answered;
    return {
      answered: this.#answered,
      meanError: share(this.#mean),
      deviationError: share(this.#deviation),
      inMeanInterval: share(this.#inMean),
      inDeviationInterval: share(this.#inDeviation),
      packetsUsed: this.#used / runs,
    };
  }
}
