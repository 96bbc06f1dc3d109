/**
 * Compares what `hoptime size` promises with measurements. Parameters are chosen from the packets, flows and loss of simulated traffic, as from a capture of
 * it; then that traffic is run with them. Each flow has its own delay with jitter, which is what flow sketches are made for; the variation of delays is passed
 * to `size` as it is.
 */
import type { Kernels } from "../base/kernels.ts";
import { median } from "../base/math/regression.ts";
import { type Estimator, isNoAnswer, type SizeRequest } from "../estimators/estimator.ts";
import { findAmong } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { Hop, Scenario } from "../simulate/scenario.ts";
import { type Entry, runSegment, type SegmentTruth } from "./run-segment.ts";

export interface SizeClaim {
  estimator: string;
  quantity: string;
  loss: number;
  claimed: number;
  /** For the segment, the mean over the runs; for flows, the median over all flows of that size in all runs. */
  measured: number | null;
  /** Number of runs or flows. */
  count: number;
}

/** The requested error of each is small, but large enough that the sizes do not store everything. */
const SIZED: readonly { estimator: string; error: number; flowSize: number | null }[] = [
  { estimator: "lda", error: 0.02, flowSize: null },
  { estimator: "trajectory", error: 0.05, flowSize: null },
  { estimator: "lds", error: 0.05, flowSize: 100 },
  { estimator: "sds", error: 0.05, flowSize: 100 },
  { estimator: "colate", error: 0.05, flowSize: 300 },
  { estimator: "maple", error: 0.03, flowSize: null },
];

const PACKETS = 80_000;
const DURATION_S = 8;
const independent: Hop = {
  kind: "delay",
  model: { kind: "per-flow", medianNs: 400_000, sigma: 0.6, jitter: 0.3 },
};

export async function measureClaims(
  kernels: () => Kernels,
  { loss, seeds }: { loss: number; seeds: readonly number[] },
): Promise<SizeClaim[]> {
  const found = new Map<string, { claim: SizeClaim; errors: number[] }>();
  for (const seed of seeds) {
    const scenario: Scenario = {
      seed,
      traffic: { kind: "synthetic", ratePps: PACKETS / DURATION_S, durationS: DURATION_S },
      path: [
        independent,
        ...(loss > 0 ? [{ kind: "loss", model: "uniform", probability: loss } as const] : []),
      ],
    };
    // Known values of the traffic, as a capture would show them.
    const { truth: known } = await runSegment(kernels(), scenario, []);
    for (const { estimator: name, error, flowSize } of SIZED) {
      const estimator = findAmong(ESTIMATORS, name);
      const { parameters, predictions } = sizeFor(estimator, known, { loss, error, flowSize });
      const run = await runSegment(kernels(), scenario, [{ estimator, parameters }]);
      for (const { quantity, loss: at, relativeError } of predictions) {
        if (relativeError === null || at !== loss) continue;
        const errors = errorsOf(quantity, run.entries, run.truth);
        if (!errors) continue;
        const key = `${name} ${quantity}`;
        const before = found.get(key);
        if (before) before.errors.push(...errors);
        else {
          const claim = { estimator: name, quantity, loss, claimed: relativeError, measured: null, count: 0 };
          found.set(key, { claim, errors });
        }
      }
    }
  }
  return [...found.values()].map(({ claim, errors }) => ({
    ...claim,
    measured: claim.quantity === "mean" ? average(errors) : median(errors),
    count: errors.length,
  }));
}

function sizeFor(
  estimator: Estimator,
  { packets, flows, meanNs, stdevNs }: SegmentTruth,
  { loss, error, flowSize }: { loss: number; error: number; flowSize: number | null },
) {
  const request: SizeRequest = {
    ...{ packets, flows: flows.count, flowPackets: Float64Array.from(flows.packets), loss: [loss] },
    ...{ epochNs: DURATION_S * 1e9, variation: stdevNs / meanNs, error, flowSize },
    ...{ memoryBytes: null, fixed: {} },
  };
  if (!estimator.sizing) throw new Error(`${estimator.name} has no sizes`);
  return estimator.sizing.size(request);
}

/** Flows within this factor of a size count as that size. */
const ALIKE = 1.5;

/** Returns the relative errors of the predicted quantity; null if it is not a mean. */
function errorsOf(quantity: string, entries: readonly Entry[], truth: SegmentTruth): number[] | null {
  const answer = entries[0]?.answer;
  if (quantity === "mean") {
    const mean = answer?.segment?.mean;
    return mean && !isNoAnswer(mean) ? [Math.abs(mean.valueNs - truth.meanNs) / truth.meanNs] : [];
  }
  const size = Number(/flows of ([\d,]+) packets/.exec(quantity)?.[1]?.replaceAll(",", "") ?? Number.NaN);
  if (Number.isNaN(size)) return null;
  return (answer?.flows ?? []).flatMap(({ flow, mean }) => {
    const packets = truth.flows.packets[flow] ?? 0;
    const exact = truth.flowMeanNs[flow] ?? Number.NaN;
    if (isNoAnswer(mean) || packets < size / ALIKE || packets > size * ALIKE) return [];
    return [Math.abs(mean.valueNs - exact) / exact];
  });
}

function average(list: readonly number[]): number | null {
  return list.length === 0 ? null : list.reduce((sum, x) => sum + x, 0) / list.length;
}
