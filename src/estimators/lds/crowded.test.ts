/** Few cells for many flows: 625 flows per cell. The cells are then all alike although the flows are not, and intervals must take that into account. */
import { expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { makePopulation, runPopulation, scorePopulation } from "../../evaluate/flow-population.ts";
import type { Estimator, KnownFlows } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { lds } from "./lds.ts";

const SEED = 7n;
const CLASSES: [number, number][] = [
  [1, 9],
  [10, 99],
  [100, 5000],
];

/** Share of 95 % intervals that contain the truth, by flow size. */
function inside(seed: number, known: (flows: KnownFlows) => KnownFlows): number[] {
  const population = makePopulation({ flows: 8000, shape: 1.1, maxPackets: 5000, seed });
  const parameters = parseParameters(lds, "rows=4,columns=64,k=5");
  const run = runPopulation(new Kernels(), population, [
    { estimator: lds as Estimator, parameters, seed: SEED },
  ]);
  const { sender, receiver } = run.sealed[0]!;
  const answer = (lds as Estimator).estimate({
    ...{ parameters, seed: SEED, sender, receiver },
    ...{ flows: known(run.flows), confidence: 0.95, epochNs: 10e9 },
  });
  return scorePopulation(run, answer, CLASSES).map((score) => score.coverage);
}

// On 24 other seeds (9101 to 9124), the lowest class of any has 97.8 %: the two modes of latency are within two standard deviations.
test("where many flows share each cell, the intervals of flows still hold the truth", () => {
  for (const share of inside(9201, (flows) => flows)) expect(share).toBeGreaterThan(0.93);
});

// On 12 other seeds (9101 to 9112), the lowest class of any has 91.4 %; the mean is 97 %.
test("and so they do where nobody knows the sizes of flows", () => {
  const unknown = (flows: KnownFlows): KnownFlows => ({
    ...flows,
    packets: new Float64Array(flows.count).fill(Number.NaN),
    complete: false,
  });
  for (const share of inside(9202, unknown)) expect(share).toBeGreaterThan(0.9);
});
