/** COLATE compared with the true delays: computes the rows of docs/estimators/colate.md. The caller chooses seeds and scenarios. */
import type { Kernels } from "../base/kernels.ts";
import { median } from "../base/math/regression.ts";
import { colate } from "../estimators/colate/colate.ts";
import {
  type Estimator,
  type EstimatorAnswer,
  isNoAnswer,
  type KnownFlows,
} from "../estimators/estimator.ts";
import { colateLiteral } from "../estimators/lab/colate-literal/literal.ts";
import { parseParameters } from "../estimators/parameters.ts";
import type { Scenario } from "../simulate/scenario.ts";
import { type ClassScore, type FlowRun, pickFlows, runFlows, scoreFlows } from "./flow-runs.ts";

export const COLATE_SEED = 7n;

/** Returns the answer for these flows of the `i`-th estimator of a run. */
export function askFlows(
  estimator: Estimator,
  text: string,
  run: FlowRun,
  i: number,
  flows: KnownFlows,
): EstimatorAnswer {
  const sealed = run.sealed[i];
  if (!sealed) throw new Error(`the run has no estimator ${i}`);
  const parameters = parseParameters(estimator, text);
  return estimator.estimate({
    parameters,
    seed: COLATE_SEED,
    ...sealed,
    flows,
    confidence: 0.95,
    epochNs: 1e10,
  });
}

function pair(estimator: Estimator, text: string) {
  return { estimator, parameters: parseParameters(estimator, text), seed: COLATE_SEED };
}

export interface ColateAccuracy {
  readonly text: string;
  readonly scores: readonly ClassScore[];
  readonly senderPayload: Uint8Array;
  readonly packets: number;
}

/** Computes the errors by flow size for several parameter sets on the same packets; all flows are known. */
export async function colateAccuracy(
  kernels: Kernels,
  scenario: Scenario,
  texts: readonly string[],
  classes: readonly (readonly [number, number])[],
): Promise<ColateAccuracy[]> {
  const run = await runFlows(
    kernels,
    scenario,
    texts.map((text) => pair(colate as Estimator, text)),
  );
  return texts.map((text, i) => ({
    text,
    scores: scoreFlows(run, askFlows(colate as Estimator, text, run, i, run.flows), classes),
    senderPayload: run.sealed[i]?.sender.payload ?? new Uint8Array(0),
    packets: run.sealed[i]?.sender.packets ?? 0,
  }));
}

/** Computes scores by decoder when only flows of at least `minimum` packets are known. */
export async function partlyKnown(
  kernels: Kernels,
  scenario: Scenario,
  text: string,
  minimums: readonly number[],
): Promise<{ minimum: number; scores: { decoder: string; score: ClassScore | undefined }[] }[]> {
  const run = await runFlows(kernels, scenario, [pair(colate as Estimator, text)]);
  return minimums.map((minimum) => {
    const ids = flowsBetween(run, minimum, Number.POSITIVE_INFINITY);
    const scores = ["blup", "quick"].map((decoder) => {
      const answer = askFlows(colate as Estimator, `${text},decoder=${decoder}`, run, 0, pickFlows(run, ids));
      const flows = answer.flows.map((f) => ({ ...f, flow: ids[f.flow] ?? 0 }));
      return { decoder, score: scoreFlows(run, { ...answer, flows }, [[1000, 9999]])[0] };
    });
    return { minimum, scores };
  });
}

export interface AsPublished {
  /** Medians of the relative errors. */
  readonly publishedMean: number;
  readonly publishedDeviation: number;
  /** Share of the published method's 95 % intervals that contain the true mean. */
  readonly publishedInside: number;
  readonly oneByOne: number;
  readonly together: number;
}

/** Compares the published method with this implementation on the same packets, for flows of 1,000 to 10,000 packets. */
export async function asPublished(kernels: Kernels, scenario: Scenario): Promise<AsPublished> {
  const literal = "n=65536,m=20,unit=1024";
  const ours = "n=65536,m=2,vectors=1";
  const run = await runFlows(kernels, scenario, [
    pair(colateLiteral, literal),
    pair(colate as Estimator, ours),
  ]);
  const ids = flowsBetween(run, 1000, 10_000);
  const some = pickFlows(run, ids);
  const published = askFlows(colateLiteral, `${literal},repetitions=1000`, run, 0, some);
  const all = askFlows(colate as Estimator, ours, run, 1, run.flows);
  const quick = askFlows(colate as Estimator, `${ours},decoder=quick`, run, 1, some);
  const wanted = new Set(ids);
  const mean = (f: number) => run.meanNs[f] ?? Number.NaN;
  const listed = (f: number) => ids[f] ?? 0;
  const inside = published.flows.filter(({ flow, mean: m }) => {
    const truth = mean(listed(flow));
    return !isNoAnswer(m) && m.lowNs <= truth && truth <= m.highNs;
  }).length;
  return {
    publishedMean: medianError(published, (f) => mean(listed(f)), "mean"),
    publishedDeviation: medianError(published, (f) => run.stdevNs[listed(f)] ?? Number.NaN, "stdev"),
    publishedInside: inside / ids.length,
    oneByOne: medianError(quick, (f) => mean(listed(f)), "mean"),
    together: medianError({ ...all, flows: all.flows.filter((f) => wanted.has(f.flow)) }, mean, "mean"),
  };
}

export interface Calibration {
  readonly held: number;
  readonly answered: number;
  /** Share of answers whose interval contains the true mean, by seed. */
  readonly shares: readonly number[];
}

/** Returns how often the 95 % intervals of flows of at least 30 packets contain the exact mean. */
export async function colateCalibration(
  kernels: Kernels,
  scenario: (seed: number) => Scenario,
  text: string,
  seeds: readonly number[],
): Promise<Calibration> {
  const shares: number[] = [];
  let [held, answered] = [0, 0];
  for (const seed of seeds) {
    const run = await runFlows(kernels, scenario(seed), [pair(colate as Estimator, text)]);
    const answer = askFlows(colate as Estimator, text, run, 0, run.flows);
    for (const score of scoreFlows(run, answer, [[30, Number.POSITIVE_INFINITY]])) {
      shares.push(score.inInterval);
      held += Math.round(score.inInterval * score.answered);
      answered += score.answered;
    }
  }
  return { held, answered, shares };
}

function flowsBetween({ flows }: FlowRun, from: number, below: number): number[] {
  return [...flows.packets.keys()].filter((f) => {
    const packets = flows.packets[f] ?? 0;
    return packets >= from && packets < below;
  });
}

/** Median of |relative error|; a missing answer counts as infinite. */
function medianError(
  answer: EstimatorAnswer,
  truth: (flow: number) => number,
  what: "mean" | "stdev",
): number {
  const errors = answer.flows.map((f) => {
    const value = f[what];
    return isNoAnswer(value) ? Number.POSITIVE_INFINITY : Math.abs(value.valueNs / truth(f.flow) - 1);
  });
  return median(errors) ?? Number.NaN;
}
