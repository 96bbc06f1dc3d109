/** RLI's experiments: the reference traffic through one queue at a given utilisation, with references injected (rli-ton, sections IV and V). */
import type { Kernels } from "../base/kernels.ts";
import type { AdaptiveSettings } from "../delays/injection-rate.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { rli } from "../estimators/rli/rli.ts";
import { referenceQueue } from "../simulate/presets.ts";
import type { Scenario, SyntheticTraffic } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import { solveRate } from "../simulate/stage.ts";
import { type Injection, type ReferenceInjector, referenceInjector } from "./reference-injectors.ts";
import { type Contestant, type RunOptions, runSegment, type SegmentRun } from "./run-segment.ts";

export type Scheme =
  | { kind: "adaptive"; settings?: AdaptiveSettings }
  | { kind: "packets"; every: number }
  | { kind: "time"; everyNs: number }
  | { kind: "either"; every: number; everyNs: number };

/** The paper's choices (section V-A). */
export const SCHEMES = {
  adaptive: { kind: "adaptive" },
  "1-in-300": { kind: "packets", every: 300 },
  "780 us": { kind: "time", everyNs: 780_000 },
  combination: { kind: "either", every: 300, everyNs: 780_000 },
} as const satisfies Record<string, Scheme>;

export interface RliSetting {
  utilisation: number;
  seed?: number;
  /** Changes to the reference traffic, which enters by one OC-192 link. */
  traffic?: Partial<SyntheticTraffic>;
}

/** Builds a scenario with one input link and one RED queue, and returns its drain rate, which algorithm 1 and equation 1 need. */
export async function rliScenario(
  kernels: Kernels,
  { utilisation, seed = 1, traffic }: RliSetting,
): Promise<{ scenario: Scenario; drainBps: number }> {
  const scenario = referenceQueue(utilisation, { seed, traffic: { inputs: 1, ...traffic } });
  const offered = await simulate(kernels, scenario).offered();
  const drainBps = solveRate({ utilisation }, offered.bytes, offered.durationNs);
  return {
    scenario: { ...scenario, path: [{ kind: "queue", discipline: "red", rateBps: drainBps }] },
    drainBps,
  };
}

/** Returns the same scenario with references; `counts` returns their number after a run. */
export function withReferences(
  scenario: Scenario,
  scheme: Scheme,
  drainBps: number,
): { scenario: Scenario; counts: () => ReferenceInjector["counts"] } {
  const injection: Injection = scheme.kind === "adaptive" ? { ...scheme, drainBps } : scheme;
  let last: ReferenceInjector | null = null;
  return {
    scenario: {
      ...scenario,
      inject: () => {
        last = referenceInjector(injection);
        return last;
      },
    },
    counts: () => last?.counts ?? { references: 0, packets: 0 },
  };
}

/** Returns RLI's two estimators with this drain rate. */
export function rliContestants(drainBps: number, more = ""): Contestant[] {
  return (["rli", "rli-l"] as const).map((estimator) => ({
    name: estimator,
    estimator: rli,
    parameters: parseParameters(rli, `estimator=${estimator},drain=${drainBps},max=2000000${more}`),
  }));
}

/** Index of each of the contestants of `rliAsWritten` among the entries of a run. */
export const AS_WRITTEN = { rli: 0, left: 1, ours: 2 } as const;

/**
 * Returns, for the same packets: RLI and RLI-L as published, which interpolate linearly by arrival time (equation 1), and our variant, which takes the backlog
 * into account.
 */
export function rliAsWritten(drainBps: number): Contestant[] {
  const ours = rliContestants(drainBps, ",line=backlog").slice(0, 1);
  return [
    ...rliContestants(drainBps, ",line=arrival"),
    ...ours.map((contestant) => ({ ...contestant, name: "ours" })),
  ];
}

export interface RliRun extends SegmentRun {
  drainBps: number;
  references: number;
  /** Number of regular packets sent. */
  sent: number;
  /** References divided by regular packets. */
  injectionRate: number;
}

export async function runRli(
  kernels: Kernels,
  setting: RliSetting,
  scheme: Scheme,
  others: readonly Contestant[] = [],
  options: RunOptions & { more?: string; contestants?: (drainBps: number) => Contestant[] } = {},
): Promise<RliRun> {
  const { scenario, drainBps } = await rliScenario(kernels, setting);
  const injected = withReferences(scenario, scheme, drainBps);
  const run = await runSegment(
    kernels,
    injected.scenario,
    [...(options.contestants?.(drainBps) ?? rliContestants(drainBps, options.more)), ...others],
    options,
  );
  const { references, packets } = injected.counts();
  return { ...run, drainBps, references, sent: packets, injectionRate: references / packets };
}
