/** Compares the greedy plans with the optimal set of routers, on maps small enough to compute it. */
import { planUpgrades } from "../network/plan/plan.ts";
import type { Topology } from "../network/topology/topology.ts";

export interface PlanGaps {
  /** Relative excess of the plan's probe hops over the minimum, by number of upgrades, starting at 1. */
  readonly greedy: readonly number[];
  readonly hops: readonly number[];
}

/** Evaluates 1 to `upgrades` routers. Throws a UsageError for maps that are too large to search. */
export function planGaps(map: Topology, upgrades: number): PlanGaps {
  const best = planUpgrades(map, { upgrade: upgrades, strategy: "optimal-small" }).steps.slice(1);
  const byHops = planUpgrades(map, { upgrade: upgrades, strategy: "greedy-hops" }).steps;
  // A plan ends when no upgrade reduces the probe hops any more.
  const hopsAfter = (n: number) => (byHops[n] ?? byHops.at(-1))?.probeHops ?? Number.NaN;
  return {
    greedy: best.map((step) => (step.greedyProbeHops ?? Number.NaN) / step.probeHops - 1),
    hops: best.map((step, i) => hopsAfter(i + 1) / step.probeHops - 1),
  };
}

export interface GapSummary {
  readonly mean: number;
  readonly worst: number;
  readonly optimal: number;
  readonly count: number;
}

export function summariseGaps(gaps: readonly number[]): GapSummary {
  return {
    mean: gaps.reduce((a, b) => a + b, 0) / Math.max(1, gaps.length),
    worst: gaps.reduce((a, b) => Math.max(a, b), 0),
    optimal: gaps.filter((gap) => gap < 1e-9).length,
    count: gaps.length,
  };
}
