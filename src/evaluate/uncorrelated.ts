/**
 * Scenarios in which packets close in time have different delays, so that references say nothing about other packets: priorities, several paths, and a latency
 * per flow. LDS sums each flow's own timestamps, so it is not affected (LDS paper, section 4).
 */

import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { lds } from "../estimators/lds/lds.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { rli } from "../estimators/rli/rli.ts";
import { independentFlows, referenceTraffic } from "../simulate/presets.ts";
import type { Scenario, SyntheticTraffic } from "../simulate/scenario.ts";
import { type FlowErrors, flowErrors } from "./flow-errors.ts";
import { SCHEMES, withReferences } from "./rli-experiment.ts";
import { runSegment } from "./run-segment.ts";

export interface UncorrelatedSetting {
  seed?: number;
  traffic?: Partial<SyntheticTraffic>;
}

/** Three scenarios: a latency per flow; two classes with strict priority and references in the lower one; four paths, chosen by flow. */
export function uncorrelatedScenarios({ seed = 1, traffic }: UncorrelatedSetting): Record<string, Scenario> {
  const classes = [
    { dscp: 46, share: 0.6 },
    { dscp: 0, share: 0.4 },
  ];
  return {
    independent: independentFlows({ seed, ...(traffic ? { traffic } : {}) }),
    priority: {
      seed,
      traffic: referenceTraffic({ ...traffic, keys: { classes } }),
      path: [
        { kind: "classes", scheduler: "strict", utilisation: 0.9, classes: [{ dscp: [46] }, { dscp: [0] }] },
      ],
    },
    ecmp: {
      seed,
      traffic: referenceTraffic(traffic),
      path: [
        {
          kind: "paths",
          choose: "flow",
          // Paths with different load; the first is nearly idle.
          paths: [{ utilisation: 0.4 }, { utilisation: 0.7 }, { utilisation: 0.85 }, { utilisation: 0.92 }],
        },
      ],
    },
  };
}

export interface UncorrelatedResult {
  rli: FlowErrors;
  lds: FlowErrors;
}

/** Returns errors over flows of at least 100 packets, with 1-in-10 references, RLI's highest rate. */
export async function compareUncorrelated(kernels: Kernels, scenario: Scenario): Promise<UncorrelatedResult> {
  const injected = withReferences(scenario, { ...SCHEMES["1-in-300"], every: 10 }, 0);
  const run = await runSegment(kernels, injected.scenario, [
    { estimator: rli, parameters: parseParameters(rli, "max=2000000") },
    { estimator: lds, parameters: parseParameters(lds, "rows=4,columns=5000,k=1") },
  ]);
  const errorsOf = (entry: number) =>
    entryAt(flowErrors(run.truth, entryAt(run.entries, entry).answer.flows, [{ from: 100, to: null }]), 0);
  return { rli: errorsOf(0), lds: errorsOf(1) };
}
