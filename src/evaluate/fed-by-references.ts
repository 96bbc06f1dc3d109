/**
 * Runs estimators that need each packet's delay with delays interpolated between references instead of exact ones, and compares them with the true delays. One
 * epoch over the scenario.
 */

import type { Kernels } from "../base/kernels.ts";
import { entryAt, required } from "../base/lists.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { addDelayErrors, type DelayError, delayErrorOf, noDelayErrors } from "../delays/delay-error.ts";
import { type OwnedBatch, ReferenceDelays } from "../delays/reference-delays.ts";
import type { EstimatorAnswer } from "../estimators/estimator.ts";
import { widenByDelayError } from "../estimators/widen.ts";
import { RECEIVER, type Scenario } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import { FlowTruthTable } from "../simulate/truth.ts";
import { type Contestant, readTruth, type SegmentTruth } from "./run-segment.ts";

export interface FedRun {
  truth: SegmentTruth;
  error: DelayError | null;
  /** Answers with the error of the interpolated delays added to their intervals, and without. */
  answers: { widened: EstimatorAnswer; plain: EstimatorAnswer }[];
}

/** `scenario` must contain references (withReferences). */
export async function runFedByReferences(
  kernels: Kernels,
  scenario: Scenario,
  drainBps: number,
  contestants: readonly Contestant[],
  confidence = 0.95,
): Promise<FedRun> {
  const key = FlowKeySpec.parse();
  const truth = new FlowTruthTable(kernels, { key });
  const mask = key.store(kernels);
  const taps = contestants.map(({ estimator, parameters }) => {
    const tap = estimator.createTap({ kernels, role: "receiver", seed: DEFAULT_SEED }, parameters);
    tap.begin(0, 0n);
    return tap;
  });
  const delays = new ReferenceDelays(kernels, { drainBps });
  const errors = noDelayErrors();
  let lastNs = 0;
  const feed = (owned: OwnedBatch) => {
    addDelayErrors(errors, required(owned.errors, "the error of the references' delays"));
    // References are not part of the traffic, so they are not passed to the estimators.
    const { flags } = owned.batch;
    const select = owned.batch.column("select");
    for (let i = 0; i < owned.batch.count; i++)
      kernels.u8[select + i] = (flags[i]! & OWN_PACKETS) === 0 ? 1 : 0;
    owned.batch.compact();
    for (const tap of taps) tap.update(owned.batch, 0, owned.batch.count);
  };
  try {
    for await (const batch of simulate(kernels, scenario).at(RECEIVER)) {
      kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
      truth.updateKeyed(batch);
      lastNs = batch.timeNs[batch.count - 1]!;
      for (const owned of delays.push(batch, 0n)) feed(owned);
    }
    for (const owned of delays.finish()) feed(owned);
    const known = readTruth(truth);
    const error = delayErrorOf(errors);
    const answers = contestants.map(({ estimator, parameters }, i) => {
      const plain = estimator.estimate({
        ...{ parameters, seed: DEFAULT_SEED, sender: null, receiver: entryAt(taps, i).seal() },
        ...{ flows: known.flows, confidence, epochNs: lastNs },
      });
      return { plain, widened: widenByDelayError(plain, error, confidence) };
    });
    return { truth: known, error, answers };
  } finally {
    for (const tap of taps) tap.free();
    delays.free();
    truth.free();
    kernels.free(mask);
  }
}

/** Flags of references and probes (kernels/rli/references.ts). */
const OWN_PACKETS = (1 << 22) | (1 << 23);
