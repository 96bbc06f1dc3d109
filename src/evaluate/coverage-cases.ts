/**
 * The traffic on which coverage is measured: one queue, or independent delays; with loss, reordering, clock offset and skew; with epochs by time and by
 * packets. Every seed gets new traffic. Cases are small, about one second each: 8 epochs of 10,000 packets.
 */
import type { CutPlan } from "../epoch/cutter.ts";
import type { Clock, Hop, LossHop, Scenario, SyntheticTraffic } from "../simulate/scenario.ts";
import { RECEIVER } from "../simulate/scenario.ts";
import { type CoverageCase, observeSimulated } from "./coverage.ts";
import { observeCapturesOf } from "./coverage-captures.ts";
import { referenceInjector } from "./reference-injectors.ts";

const TRAFFIC: SyntheticTraffic = { kind: "synthetic", ratePps: 10_000, durationS: 8 };
const ALIGNED: CutPlan = { mode: "aligned", lengthNs: 1_000_000_000n };
const DELIMITED: CutPlan = { mode: "delimited", every: 10_000 };

/** Estimators that need no special packets in the traffic, with their default parameters. `flows` also is the list of flows for per-flow answers. */
export const COVERED = ["lda", "flows", "lds", "colate", "sds", "maple"] as const;
/** Reference packets would change the truth of the other estimators, so RLI has traffic of its own. */
const BY_REFERENCES = ["rli"] as const;
/** Estimators for the cases with captures; sds and maple use `observe --sender`. */
const IN_CAPTURES = ["lda", "flows", "lds", "sds", "maple"] as const;

interface Variation {
  name: string;
  loss?: number;
  reorder?: boolean;
  clock?: Clock;
  cut?: CutPlan;
}

/** Loss comes from the loss hop, so that the loss rate is as configured. */
const queue: Hop = { kind: "queue", utilisation: 0.85, capacityPackets: 2000, propagationNs: 200_000 };
/** Some epochs are congested: long delays and most of the losses affect the same packets. */
const overloaded: Hop = { kind: "queue", utilisation: 1, capacityPackets: 300, propagationNs: 200_000 };
const independent: Hop = {
  kind: "delay",
  model: { kind: "per-flow", medianNs: 400_000, sigma: 0.6, jitter: 0.3 },
};

interface Kind {
  name: string;
  hop: Hop;
  /** Packets per reference packet. */
  references?: number;
  /** Observes capture files that contain both directions. */
  captures?: boolean;
}

function make(kind: Kind, { name, loss, reorder, clock, cut }: Variation): CoverageCase {
  const lossHop: LossHop[] = loss ? [{ kind: "loss", model: "uniform", probability: loss }] : [];
  const full = `${kind.name}, ${name}`;
  const path: Hop[] = [
    kind.hop,
    ...(reorder ? [{ kind: "reorder", probability: 0.02, extentNs: 300_000 } as const] : []),
    ...lossHop,
  ];
  const every = kind.references;
  const scenario = (seed: number): Scenario => ({
    seed: seedOf(full, seed),
    traffic: TRAFFIC,
    path,
    ...(every === undefined ? {} : { inject: () => referenceInjector({ kind: "packets", every }) }),
    ...(clock && !kind.captures ? { clocks: { [RECEIVER]: clock } } : {}),
  });
  const used = cut ?? ALIGNED;
  return {
    name: full,
    estimators: kind.captures ? IN_CAPTURES : every === undefined ? COVERED : BY_REFERENCES,
    observe: (kernels, seed, estimators) =>
      kind.captures
        ? observeCapturesOf(kernels, {
            scenario: scenario(seed),
            cut: used,
            estimators,
            ...(clock ? { clock } : {}),
          })
        : observeSimulated(kernels, scenario(seed), used, estimators),
  };
}

/** Every case has its own traffic, so that one unlucky trace does not affect all of them. */
function seedOf(name: string, seed: number): number {
  let sum = 0;
  for (const letter of name) sum = (31 * sum + letter.charCodeAt(0)) % 65_521;
  return 100_000 * seed + sum;
}

const NO_LOSS: Variation = { name: "no loss" };
const VARIATIONS: readonly Variation[] = [
  NO_LOSS,
  { name: "loss 0.1 %", loss: 0.001 },
  { name: "loss 1 %", loss: 0.01 },
  { name: "loss 10 %", loss: 0.1 },
  { name: "reordering", reorder: true },
  { name: "clock +50 us", clock: { offsetNs: 50_000 } },
  { name: "clock -50 us", clock: { offsetNs: -50_000 } },
  { name: "drift 20 ppm", clock: { skewPpm: 20 } },
  { name: "delimited, no loss", cut: DELIMITED },
  { name: "delimited, loss 1 %", cut: DELIMITED, loss: 0.01 },
  { name: "delimited, reordering", cut: DELIMITED, reorder: true },
];
const ALL = (kind: Kind) => VARIATIONS.map((v) => make(kind, v));

const ROUTER: Kind = { name: "two-way router captures", hop: queue, captures: true };

export const COVERAGE_CASES: readonly CoverageCase[] = [
  ...ALL({ name: "queue", hop: queue }),
  make({ name: "overload", hop: overloaded }, { name: "aligned" }),
  make({ name: "overload", hop: overloaded }, { name: "delimited", cut: DELIMITED }),
  ...ALL({ name: "independent", hop: independent }),
  ...ALL({ name: "queue with references", hop: queue, references: 100 }),
  make({ name: "queue with dense references", hop: queue, references: 10 }, NO_LOSS),
  make(ROUTER, { name: "loss 1 %", loss: 0.01 }),
  make(ROUTER, { name: "receiver's clock 50 us behind", clock: { offsetNs: -50_000 } }),
  make(ROUTER, { name: "delimited, no loss", cut: DELIMITED }),
];
