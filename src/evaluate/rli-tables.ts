/** RLI over several seeds: what the tables of docs/estimators/rli.md and the basis of `hoptime size rli` are made of. */
import { Kernels } from "../base/kernels.ts";
import { flowErrors, type SizeClass } from "./flow-errors.ts";
import { runRli, type Scheme } from "./rli-experiment.ts";

export interface HeldIntervals {
  /** Share of answered flows inside their intervals. */
  readonly inside: number;
  /** Mean over the seeds of the median width over the truth. */
  readonly width: number;
}

export interface RliCase {
  readonly utilisation: number;
  readonly scheme: Scheme;
  readonly seeds: readonly number[];
  readonly durationS: number;
  readonly inputs?: number;
  /** More parameters, as text. */
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

/** By class of flows: how often intervals hold, and how wide they are. */
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

/** By class of flows: the median error, in the mean over the seeds. */
export async function rliMedians(one: RliCase, classes: readonly SizeClass[]): Promise<number[]> {
  const sums = classes.map(() => 0);
  for await (const found of errorsBySeed(one, classes))
    for (const [i, { median }] of found.entries()) sums[i]! += (median ?? Number.NaN) / one.seeds.length;
  return sums;
}
