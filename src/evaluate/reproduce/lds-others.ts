/**
 * LDS compared with RLI and MPE (section 5.1, figure 9): the same flows at 100 or 320 µs, in time order. Delays of adjacent packets are independent there,
 * although both other systems assume that they are similar. Each system gets what the paper gives it: RLI 1,000 packets per second with known delays, MPE 1 and
 * 10 % of the packets. Flows that MPE did not sample get the mean of all.
 */
import { entryAt } from "../../base/lists.ts";
import { type EstimatorAnswer, isNoAnswer } from "../../estimators/estimator.ts";
import { multiflow } from "../../estimators/lab/multiflow/multiflow.ts";
import { lds } from "../../estimators/lds/lds.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { rli } from "../../estimators/rli/rli.ts";
import { distribution, type Figure } from "../../present/figure/figure.ts";
import { twoLatencies } from "../../simulate/presets.ts";
import { type Contestant, runSegment, type SegmentTruth } from "../run-segment.ts";
import type { FlowError } from "./lds-population.ts";
import type { StudyContext } from "./study.ts";

const PACKETS_PER_SECOND = 27_000;
const REFERENCES_PER_SECOND = 1000;

export interface Beside {
  readonly name: string;
  readonly errors: readonly FlowError[];
}

/** Returns one entry per system, LDS first. */
export async function besideOthers(
  { kernels, seed }: StudyContext,
  columns: number,
  shrink: number,
): Promise<Beside[]> {
  const every = Math.round(PACKETS_PER_SECOND / REFERENCES_PER_SECOND);
  const contestants: Contestant[] = [
    {
      name: "LDS",
      estimator: lds,
      parameters: parseParameters(lds, `rows=4,columns=${columns},k=1,keys=0,decoder=smallest`),
    },
    {
      name: "RLI, 1 kHz",
      estimator: rli,
      parameters: parseParameters(rli, `every=${every},line=arrival,max=2000000`),
    },
    ...[0.01, 0.1].map((rate) => ({
      name: `MPE, ${100 * rate} %`,
      estimator: multiflow,
      parameters: parseParameters(multiflow, `rate=${rate}`),
    })),
  ];
  const traffic = {
    ratePps: PACKETS_PER_SECOND,
    packets: Math.round(7_350_000 / shrink),
    flows: Math.round(190_000 / shrink),
  };
  const { truth, entries } = await runSegment(kernels, twoLatencies({ seed, traffic }), contestants);
  return entries.map(({ name, answer }) => ({ name, errors: errorsOf(truth, answer) }));
}

function errorsOf(
  { flows, flowMeanNs, meanNs }: SegmentTruth,
  { flows: answers }: EstimatorAnswer,
): FlowError[] {
  const found = new Map<number, number>();
  for (const { flow, mean } of answers) if (!isNoAnswer(mean)) found.set(flow, mean.valueNs);
  return Array.from({ length: flows.count }, (_, flow) => {
    const exact = flowMeanNs[flow]!;
    const error = Math.abs((found.get(flow) ?? meanNs) - exact) / exact;
    return { packets: flows.packets[flow]!, error, slowness: exact / meanNs };
  });
}

export function besideFigure(beside: readonly Beside[]): Figure {
  return {
    title: "LDS beside RLI and MPE: flows of more than 100 packets",
    x: { label: "relative error", scale: "log", quantity: "share", range: [1e-5, 10] },
    y: { label: "flows", quantity: "share", range: [0, 1] },
    series: beside.map(({ name, errors }) =>
      distribution(
        name,
        errors.filter((e) => e.packets > 100).map((e) => Math.min(10, Math.max(1e-5, e.error))),
      ),
    ),
  };
}

/** Returns the ratio of the smallest error of the other systems to that of LDS, over flows with more packets than a minimum. */
export function leadOverOthers(
  beside: readonly Beside[],
  median: (errors: readonly FlowError[]) => number,
): number {
  const medians = beside.map(({ errors }) => median(errors));
  return Math.min(...medians.slice(1)) / entryAt(medians, 0);
}
