/** RLI over several seeds: the tables of docs/estimators/rli.md and the basis of `hoptime size rli`. */
import { Kernels } from "../base/kernels.ts";
import { flowErrors, type SizeClass } from "./flow-errors.ts";
import { runRli, type Scheme } from "./rli-experiment.ts";

export interface HeldIntervals {
  /** Share of the answered flows whose interval contains the true mean. */
  readonly inside: number;
  /** Median of interval width / true mean, averaged over the seeds. */
  readonly width: number;
}

export interface RliCase {
  readonly utilisation: number;
  readonly scheme: Scheme;
  readonly seeds: readonly number[];
  readonly durationS: number;
  readonly inputs?: number;
  /** Additional parameters, as text. */
  readonly more?: string;
}

async function* errorsBySeed(one: RliCase, classes: readonly SizeClass[]) {
  const { utilisation, scheme, seeds, durationS, inputs, more = "" } = one;
  for (const seed of seeds) {
    const traffic = { durationS, ...(inputs === undefined ? {} : { inputs }) };
    const run = await runRli(new Kernels(), { utilisation, seed, traffic }, scheme, [], { more });
    yield flowErrors(run.truth, run.entries[0]?.answer.flows ?? [], classes);
  }
}

/** Returns coverage and width of the intervals by class of flows. */
export async function rliIntervals(one: RliCase, classes: readonly SizeClass[]): Promise<HeldIntervals[]> {
  const sums = classes.map(() => ({ flows: 0, inside: 0, width: 0 }));
  for await (const found of errorsBySeed(one, classes))
    for (const [i, { answered, withinInterval, medianWidth }] of found.entries()) {
      const sum = sums[i];
      if (!sum) continue;
      sum.flows += answered;
      sum.inside += answered * (withinInterval ?? 0);
      sum.width += (medianWidth ?? Number.NaN) / one.seeds.length;
    }
  return sums.map(({ flows, inside, width }) => ({ inside: inside / flows, width }));
}

/** Returns the median error by class of flows, averaged over the seeds. */
export async function rliMedians(one: RliCase, classes: readonly SizeClass[]): Promise<number[]> {
  const sums = classes.map(() => 0);
  for await (const found of errorsBySeed(one, classes))
    for (const [i, { median }] of found.entries()) sums[i]! += (median ?? Number.NaN) / one.seeds.length;
  return sums;
}
