/** Measures how references change the traffic (rli-ton, figure 12): the same arrivals with and without references. */
import type { Kernels } from "../base/kernels.ts";
import { quantileSorted } from "../base/math/regression.ts";
import { simulate } from "../simulate/simulate.ts";
import { type RliSetting, rliScenario, type Scheme, withReferences } from "./rli-experiment.ts";
import { runSegment, type SegmentTruth } from "./run-segment.ts";

export interface Interference {
  injectionRate: number;
  /** Bits of references relative to the capacity of the link. */
  bandwidthShare: number;
  /** Mean delay of regular packets in ns, and their loss rate. */
  meanNs: { without: number; with: number };
  lossRate: { without: number; with: number };
  /** Shares of the flows whose mean delay rose, and fell, by more than 1 %. */
  slowed: number;
  quickened: number;
  /** change| of a flow's mean delay, in ns. */
  changeNs: { median: number; p90: number; p99: number };
}

export async function measureInterference(
  kernels: Kernels,
  setting: RliSetting,
  scheme: Scheme,
): Promise<Interference> {
  const { scenario, drainBps } = await rliScenario(kernels, setting);
  const offered = await simulate(kernels, scenario).offered();
  const injected = withReferences(scenario, scheme, drainBps);
  const { truth: before } = await runSegment(kernels, scenario, []);
  const { truth: after } = await runSegment(kernels, injected.scenario, []);
  const { references, packets } = injected.counts();
  const changes = compareFlows(before, after);
  const sizes = changes.map((c) => Math.abs(c.byNs)).sort((a, b) => a - b);
  const share = (of: (relative: number) => boolean) =>
    changes.filter((c) => of(c.relative)).length / Math.max(1, changes.length);
  return {
    injectionRate: references / packets,
    bandwidthShare: (references * 64 * 8e9) / offered.durationNs / drainBps,
    meanNs: { without: before.meanNs, with: after.meanNs },
    lossRate: { without: 1 - before.packets / offered.packets, with: 1 - after.packets / offered.packets },
    slowed: share((r) => r > 0.01),
    quickened: share((r) => r < -0.01),
    changeNs: {
      median: quantileSorted(sizes, 0.5) ?? 0,
      p90: quantileSorted(sizes, 0.9) ?? 0,
      p99: quantileSorted(sizes, 0.99) ?? 0,
    },
  };
}

function compareFlows(before: SegmentTruth, after: SegmentTruth): { byNs: number; relative: number }[] {
  const places = new Map<bigint, number>();
  const name = ({ flows }: SegmentTruth, i: number) =>
    (BigInt(flows.hash[2 * i + 1]!) << 32n) | BigInt(flows.hash[2 * i]!);
  for (let i = 0; i < before.flows.count; i++) places.set(name(before, i), i);
  const out: { byNs: number; relative: number }[] = [];
  for (let i = 0; i < after.flows.count; i++) {
    const at = places.get(name(after, i));
    if (at === undefined) continue;
    const byNs = after.flowMeanNs[i]! - before.flowMeanNs[at]!;
    out.push({ byNs, relative: byNs / before.flowMeanNs[at]! });
  }
  return out;
}
