/**
 * One trace of LDA's evaluation (section IV), observed by several aggregators at once: different configurations, and different seeds that sample other packets.
 */
import type { Kernels } from "../../base/kernels.ts";
import { entryAt } from "../../base/lists.ts";
import { lgamma } from "../../base/math/special.ts";
import { Random } from "../../base/random.ts";
import { isNoAnswer } from "../../estimators/estimator.ts";
import { lda } from "../../estimators/lda/lda.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import type { DelayModel, LossHop, Scenario } from "../../simulate/scenario.ts";
import { type EndsTruth, runBothEnds } from "../both-ends.ts";
import { average } from "./numbers.ts";

/** Mean delay in the paper: 0.2 µs in all cases. */
const MEAN_NS = 200;

export type Shape = { readonly kind: "weibull" | "pareto"; readonly shape: number };

/** Returns a delay distribution of the paper with its mean. */
function delayModel({ kind, shape }: Shape): DelayModel {
  const scaleNs =
    kind === "weibull" ? MEAN_NS / Math.exp(lgamma(1 + 1 / shape)) : (MEAN_NS * (shape - 1)) / shape;
  return { kind, scaleNs, shape, spaced: true };
}

export interface Trial {
  readonly shape: Shape;
  readonly packets: number;
  readonly loss: LossHop;
  /** Seed of the trace. */
  readonly seed: number;
  /** Parameters of LDA, as text. */
  readonly variants: readonly string[];
  /** Number of aggregators per variant, each with its own seed. */
  readonly runs: number;
  readonly confidence?: number;
}

export interface TrialAnswer {
  /** Relative error; 1 without an answer. */
  readonly meanError: number;
  readonly deviationError: number;
  readonly meanNs: number;
  readonly lowNs: number;
  readonly highNs: number;
  /** The mean delay of its trace. */
  readonly exactNs: number;
  readonly used: number;
}

export interface TrialResult extends Readonly<Omit<EndsTruth, "sent" | "received">> {
  /** By variant, then by run. */
  readonly answers: readonly (readonly TrialAnswer[])[];
}

export async function runTrial(kernels: Kernels, trial: Trial): Promise<TrialResult> {
  const { shape, packets, loss, seed } = trial;
  const path = [
    { kind: "delay", model: delayModel(shape) } as const,
    ...(loss.probability > 0 ? [loss] : []),
  ];
  const traffic = { kind: "population", ratePps: 5e6, packets, flows: 1000 } as const;
  return await askAggregators(kernels, { seed, traffic, path }, trial);
}

/** Runs the aggregators of each variant on one trace. */
export async function askAggregators(
  kernels: Kernels,
  scenario: Scenario,
  { variants, runs, confidence = 0.98 }: Pick<Trial, "variants" | "runs" | "confidence">,
): Promise<TrialResult> {
  const pairs = variants.flatMap((text) =>
    Array.from({ length: runs }, (_, run) => ({
      estimator: lda,
      parameters: parseParameters(lda, text),
      seed: BigInt(1000 * (scenario.seed ?? 1) + run + 1),
    })),
  );
  const { truth, sealed } = await runBothEnds(kernels, scenario, pairs);
  const answers = pairs.map((pair, i): TrialAnswer => {
    const { segment } = lda.estimate({
      ...pair,
      ...entryAt(sealed, i),
      flows: null,
      confidence,
      epochNs: 1e9,
    });
    const mean = segment && !isNoAnswer(segment.mean) ? segment.mean : null;
    const stdev = segment && !isNoAnswer(segment.stdev) ? segment.stdev : null;
    return {
      meanError: mean ? Math.abs(mean.valueNs / truth.meanNs - 1) : 1,
      deviationError: stdev ? Math.abs(stdev.valueNs / truth.stdevNs - 1) : 1,
      meanNs: mean?.valueNs ?? Number.NaN,
      lowNs: mean?.lowNs ?? Number.NaN,
      highNs: mean?.highNs ?? Number.NaN,
      exactNs: truth.meanNs,
      used: segment?.packetsUsed ?? 0,
    };
  });
  const byVariant = variants.map((_, v) => answers.slice(v * runs, (v + 1) * runs));
  return { ...truth, answers: byVariant };
}

/** Distance between the seeds of a trial's traces. */
const NEXT_TRACE = 1_000_003;

/** Runs a trial on several traces and joins the answers; the true values are those of the first trace. */
export async function runTraces(kernels: Kernels, trial: Trial, traces: number): Promise<TrialResult> {
  const results: TrialResult[] = [];
  for (let i = 0; i < traces; i++)
    results.push(await runTrial(kernels, { ...trial, seed: trial.seed + i * NEXT_TRACE }));
  const answers = trial.variants.map((_, v) => results.flatMap((r) => entryAt(r.answers, v)));
  return { ...entryAt(results, 0), answers };
}

export interface ProbeErrors {
  readonly mean: number;
  readonly deviation: number;
  readonly samples: number;
}

/**
 * Sends Poisson probes at a rate through the same distribution for one second; returns errors averaged over `runs`. A run in which no probe arrives counts as
 * 100 %.
 */
export function probeErrors(
  rate: number,
  loss: number,
  truth: Pick<TrialResult, "meanNs" | "stdevNs">,
  shape: Shape,
  runs: number,
  seed: number,
): ProbeErrors {
  const random = new Random(seed).fork(`probes ${rate} ${loss}`);
  const model = delayModel(shape) as { scaleNs: number };
  const draw = () => {
    const u = 1 - random.float();
    return shape.kind === "weibull"
      ? model.scaleNs * (-Math.log(u)) ** (1 / shape.shape)
      : model.scaleNs * u ** (-1 / shape.shape);
  };
  const results = Array.from({ length: runs }, () => {
    let [n, sum, squares] = [0, 0, 0];
    const gap = () => -Math.log(1 - random.float()) / rate;
    for (let t = gap(); t < 1; t += gap()) {
      if (random.bernoulli(loss)) continue;
      const delay = draw();
      n++;
      sum += delay;
      squares += delay * delay;
    }
    const mean = n > 0 ? sum / n : 0;
    const stdev = n > 1 ? Math.sqrt(Math.max(0, (squares - n * mean * mean) / (n - 1))) : 0;
    return {
      samples: n,
      mean: Math.abs(mean / truth.meanNs - 1),
      deviation: Math.abs(stdev / truth.stdevNs - 1),
    };
  });
  return {
    samples: average(results.map((r) => r.samples)),
    mean: average(results.map((r) => r.mean)),
    deviation: average(results.map((r) => r.deviation)),
  };
}
