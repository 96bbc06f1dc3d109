/** The flows of LDS's figures, and their errors. */
import { entryAt } from "../../base/lists.ts";
import { isNoAnswer } from "../../estimators/estimator.ts";
import { lds } from "../../estimators/lds/lds.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { makePopulation, type Population, type PopulationRun } from "../flow-population.ts";
import type { LDS_DECODERS } from "../lds-accuracy.ts";
import type { StudyContext } from "./study.ts";

type LdsDecoder = (typeof LDS_DECODERS)[number];

export const SEED = 7n;
/** Pareto shape of the fitted trace: P(size >= x) = x^-0.8. */
export const SHAPE = 0.8;

/** Distance between the seeds of several populations in one run. */
const NEXT_POPULATION = 1_000_003;

/**
 * The paper's trace: 140,000 flows, 7 M packets. A quick run has a quarter of the flows and the same number of cells per flow. `which`: index of several
 * populations.
 */
export function traffic(
  { scale, seed: first }: StudyContext,
  which = 0,
): { population: Population; shrink: number } {
  const shrink = scale === "full" ? 1 : 4;
  const seed = first + which * NEXT_POPULATION;
  const flows = 146_000 / shrink;
  return { population: makePopulation({ flows, shape: SHAPE, maxPackets: 154_000, seed }), shrink };
}

export interface FlowError {
  readonly packets: number;
  readonly error: number;
  /** Delay of the flow relative to the mean of all packets. */
  readonly slowness: number;
}

/** Returns the errors of one decoder's answers; flows without an answer get the mean of all, as in the paper. */
export function errorsOf(
  run: PopulationRun,
  answers: readonly { flow: number; mean: { valueNs: number } | null }[],
): FlowError[] {
  let [sum, packets] = [0, 0];
  for (let f = 0; f < run.flows.count; f++) {
    sum += run.sumNs[f]!;
    packets += run.received[f]!;
  }
  const all = sum / packets;
  return answers.flatMap(({ flow, mean }) => {
    if (run.received[flow] === 0) return [];
    const truth = run.sumNs[flow]! / run.received[flow]!;
    return [
      {
        packets: run.flows.packets[flow]!,
        error: Math.abs((mean?.valueNs ?? all) - truth) / truth,
        slowness: truth / all,
      },
    ];
  });
}

export function decode(run: PopulationRun, at: number, parameters: string, decoder: LdsDecoder): FlowError[] {
  const { flows } = lds.estimate({
    parameters: { ...parseParameters(lds, parameters), decoder },
    seed: SEED,
    ...entryAt(run.sealed, at),
    flows: run.flows,
    confidence: 0.95,
    epochNs: 10e9,
  });
  return errorsOf(
    run,
    flows.map(({ flow, mean }) => ({ flow, mean: isNoAnswer(mean) ? null : mean })),
  );
}

export function quantile(errors: readonly FlowError[], from: number, to: number, share: number): number {
  const own = Float64Array.from(
    errors.filter((e) => e.packets >= from && e.packets <= to),
    (e) => e.error,
  ).sort();
  return own.length === 0 ? Number.NaN : own[Math.min(own.length - 1, Math.floor(share * own.length))]!;
}

/** Returns the errors if every flow gets the mean of all packets. */
export function meanForAll(run: PopulationRun): FlowError[] {
  return errorsOf(
    run,
    Array.from({ length: run.flows.count }, (_, flow) => ({ flow, mean: null })),
  );
}
