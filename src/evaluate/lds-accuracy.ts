/** LDS compared with the true delays in the paper's setting: every decoder on one run of a flow population. */
import type { Kernels } from "../base/kernels.ts";
import { lds } from "../estimators/lds/lds.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { type Population, type PopulationScore, runPopulation, scorePopulation } from "./flow-population.ts";

export const LDS_DECODERS = ["smallest", "alpha", "background", "bp", "auto"] as const;

export interface LdsAccuracy {
  readonly payloadBytes: number;
  readonly decoders: readonly {
    readonly decoder: (typeof LDS_DECODERS)[number];
    readonly scores: readonly PopulationScore[];
    readonly cpuSeconds: number;
  }[];
}

/** `text`: parameters. */
export function ldsAccuracy(
  kernels: Kernels,
  population: Population,
  text: string,
  loss: number,
  seed = 7n,
): LdsAccuracy {
  const parameters = parseParameters(lds, text);
  const run = runPopulation(kernels, population, [{ estimator: lds, parameters, seed }], { loss });
  const [ends] = run.sealed;
  if (!ends) throw new Error("a run of one estimator has its two ends");
  return {
    payloadBytes: ends.sender.payload.length,
    decoders: LDS_DECODERS.map((decoder) => {
      const before = process.cpuUsage();
      const answer = lds.estimate({
        parameters: { ...parameters, decoder },
        seed,
        ...ends,
        flows: run.flows,
        confidence: 0.95,
        epochNs: 10e9,
      });
      const cpuSeconds = process.cpuUsage(before).user / 1e6;
      return { decoder, scores: scorePopulation(run, answer), cpuSeconds };
    }),
  };
}
