/** Runs a simulated segment past taps at both ends, with true delays per flow, and scores per-flow answers by flow size. */
import type { Kernels } from "../base/kernels.ts";
import { median } from "../base/math/regression.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import type { EstimatorAnswer, KnownFlows, SealedEpoch } from "../estimators/estimator.ts";
import { isNoAnswer } from "../estimators/estimator.ts";
import type { Scenario } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import { FlowTruthTable } from "../simulate/truth.ts";
import { arrive, type TapPair } from "./both-ends.ts";

export interface FlowRun {
  flows: KnownFlows;
  /** By flow: packets that arrived, their mean delay (NaN if none arrived) and its standard deviation. */
  received: Float64Array;
  meanNs: Float64Array;
  stdevNs: Float64Array;
  sealed: { sender: SealedEpoch; receiver: SealedEpoch }[];
}

/** Runs the whole scenario as one epoch. */
export async function runFlows(
  kernels: Kernels,
  scenario: Scenario,
  pairs: readonly TapPair[],
): Promise<FlowRun> {
  const taps = pairs.map(({ estimator, parameters, seed }) => ({
    sender: estimator.createTap({ kernels, role: "sender", seed }, parameters),
    receiver: estimator.createTap({ kernels, role: "receiver", seed }, parameters),
  }));
  for (const { sender, receiver } of taps) for (const tap of [sender, receiver]) tap.begin(0);
  const truth = new FlowTruthTable(kernels);
  const mask = FlowKeySpec.parse().store(kernels);
  for await (const batch of simulate(kernels, scenario).combined()) {
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    truth.updateKeyed(batch);
    for (const { sender } of taps) sender.update(batch, 0, batch.count);
    arrive(batch);
    for (const { receiver } of taps) receiver.update(batch, 0, batch.count);
  }
  const sent = truth.column("sent");
  const lost = truth.column("lost");
  const sum = truth.column("sum");
  const squares = truth.column("squares");
  const received = sent.map((n, f) => n - lost[f]!);
  const meanNs = sum.map((s, f) => s / received[f]!);
  const run: FlowRun = {
    flows: {
      count: sent.length,
      hash: truth.hashes(),
      packets: sent,
      bytes: truth.column("bytes"),
      keyWords: new Uint32Array(10 * sent.length),
      complete: true,
    },
    received,
    meanNs,
    stdevNs: squares.map((s, f) => Math.sqrt(Math.max(0, s / received[f]! - meanNs[f]! ** 2))),
    sealed: taps.map(({ sender, receiver }) => ({ sender: sender.seal(), receiver: receiver.seal() })),
  };
  for (const { sender, receiver } of taps) for (const tap of [sender, receiver]) tap.free();
  truth.free();
  kernels.free(mask);
  return run;
}

export interface ClassScore {
  from: number;
  to: number;
  flows: number;
  answered: number;
  /** Median of |relative error| over answered flows. */
  median: number;
  /** Shares of the answered flows. */
  within5: number;
  inInterval: number;
}

const SIZE_CLASSES: readonly (readonly [number, number])[] = [
  [1, 1],
  [2, 9],
  [10, 99],
  [100, 999],
  [1000, 9999],
  [10_000, Number.POSITIVE_INFINITY],
];

/** Scores per-flow answers, with classes by packets sent. */
export function scoreFlows(
  run: FlowRun,
  answer: EstimatorAnswer,
  classes: readonly (readonly [number, number])[] = SIZE_CLASSES,
): ClassScore[] {
  return classes.map(([from, to]) => {
    const errors: number[] = [];
    let flows = 0;
    let inInterval = 0;
    for (const { flow, mean } of answer.flows) {
      const p = run.flows.packets[flow]!;
      const truth = run.meanNs[flow]!;
      if (p < from || p > to || Number.isNaN(truth)) continue;
      flows++;
      if (isNoAnswer(mean)) continue;
      errors.push(Math.abs(mean.valueNs / truth - 1));
      if (mean.lowNs <= truth && truth <= mean.highNs) inInterval++;
    }
    const answered = errors.length;
    return {
      from,
      to,
      flows,
      answered,
      median: median(errors) ?? Number.NaN,
      within5: errors.filter((e) => e <= 0.05).length / answered,
      inInterval: inInterval / answered,
    };
  });
}

/** Returns a list with only these flows. */
export function pickFlows(run: FlowRun, ids: readonly number[]): KnownFlows {
  return {
    count: ids.length,
    hash: Uint32Array.from(ids.flatMap((f) => [run.flows.hash[2 * f]!, run.flows.hash[2 * f + 1]!])),
    packets: Float64Array.from(ids, (f) => run.flows.packets[f]!),
    bytes: new Float64Array(ids.length),
    keyWords: new Uint32Array(10 * ids.length),
    complete: false,
  };
}
