/** Fields of scenario files. The types of the samples make sure that every field of scenario.ts is among them. */
import { expect, test } from "vitest";
import type {
  ClassesHop,
  Clock,
  DelayModel,
  Hop,
  LossHop,
  PathsHop,
  PopulationTraffic,
  Probes,
  QueueHop,
  QueueSpec,
  ReorderHop,
  ReplayTraffic,
  Scenario,
  SyntheticTraffic,
  Traffic,
} from "./scenario.ts";
import { checkFields } from "./scenario-fields.ts";

type Whole<T> = T extends unknown ? Required<T> : never;

const sizes = { share1500: 0.5, share576: 0.1, mixing: 0.1 };
const prefix = { prefix: "10.0.0.0/8", share: 1 };
const keys = { sources: [prefix], targets: [prefix], udpShare: 0.2, classes: [{ dscp: 46, share: 0.1 }] };
const synthetic: Whole<SyntheticTraffic> = {
  kind: "synthetic",
  ...{ ratePps: 1, durationS: 1, packets: 1, alpha: 1.1, maxFlowPackets: 10, inputs: 1, lineRateBps: 1e9 },
  rtt: { medianMs: 1, sigma: 1, minMs: 1, maxMs: 1 },
  access: { minBps: 1, maxBps: 2 },
  window: { first: 1, capLow: 1, capHigh: 2 },
  sizes,
  keys,
};
const population: Whole<PopulationTraffic> = {
  kind: "population",
  ...{ ratePps: 1, durationS: 1, packets: 1, flows: 1, arrivals: "poisson", alpha: 1, weightMax: 2 },
  sizes,
  keys,
};
const replay: Whole<ReplayTraffic> = { kind: "replay", file: "a.pcap", timeScale: 1, durationS: 1 };
const queue: Whole<QueueSpec> = {
  ...{ rateBps: 1, utilisation: 0.5, discipline: "red", capacityPackets: 1, propagationNs: 1 },
  red: { minTh: 1, maxTh: 2, weight: 0.1, maxP: 0.1 },
};
const models: Whole<DelayModel>[] = [
  { kind: "constant", ns: 1 },
  { kind: "weibull", scaleNs: 1, shape: 1, spaced: true },
  { kind: "pareto", scaleNs: 1, shape: 1, spaced: true },
  { kind: "exponential", meanNs: 1, spaced: true },
  { kind: "lognormal", medianNs: 1, sigma: 1, spaced: true },
  { kind: "uniform", lowNs: 1, highNs: 1, spaced: true },
  { kind: "per-flow", medianNs: 1, sigma: 1, jitter: 1 },
  { kind: "bimodal", lowNs: 1, highNs: 1, shareLow: 1, jitter: 1 },
];
const hops: (
  | Whole<QueueHop>
  | Whole<ClassesHop>
  | Whole<PathsHop>
  | Whole<LossHop>
  | Whole<ReorderHop>
  | Hop
)[] = [
  { kind: "queue", ...queue, cross: population },
  {
    kind: "classes",
    ...{ scheduler: "drr", rateBps: 1, utilisation: 1, propagationNs: 1, cross: synthetic },
    classes: [{ dscp: [1], weight: 1, capacityPackets: 1 }],
  },
  { kind: "paths", choose: "flow", paths: [queue] },
  { kind: "loss", model: "uniform", probability: 0 },
  { kind: "loss", model: "bursts", probability: 0, meanBurst: 1 },
  { kind: "reorder", probability: 0, extentNs: 1 },
  ...models.map((model): Hop => ({ kind: "delay", model, point: "here" })),
];
const clock: Whole<Clock> = { offsetNs: 1, skewPpm: 1, jitterNs: 1, resolutionNs: 1 };
const probes: Whole<Probes> = { ratePps: 1, arrivals: "uniform", wireLength: 64 };

test("every field that there is may be written", () => {
  for (const traffic of [synthetic, population, replay] as Traffic[]) {
    const scenario: Whole<Omit<Scenario, "inject">> = {
      ...{ seed: 1, traffic, path: hops as Hop[], clocks: { receiver: clock }, probes },
    };
    expect(() => checkFields("s.json", scenario)).not.toThrow();
  }
});

test("others are refused with their place and what there is", () => {
  const refused = (scenario: unknown, message: RegExp, hint?: RegExp) => {
    expect(() => checkFields("s.json", scenario)).toThrow(
      expect.objectContaining({ name: "UsageError", message: expect.stringMatching(message) }),
    );
    if (hint)
      expect(() => checkFields("s.json", scenario)).toThrow(
        expect.objectContaining({ hint: expect.stringMatching(hint) }),
      );
  };
  refused({ sede: 1 }, /^s\.json: sede: there is no such field$/, /^use seed, traffic, /);
  refused(
    { traffic: replay, path: [{ kind: "queue" }, { kind: "queue", utilization: 0.5 }] },
    /path\[1\]\.utilization: /,
    /utilisation/,
  );
  refused({ path: [{ kind: "delay", model: { kind: "gamma" } }] }, /path\[0\]\.model\.kind: is none of/);
  refused({ clocks: { receiver: { drift: 1 } } }, /clocks\.receiver\.drift: /, /skewPpm/);
  refused({ path: { kind: "queue" } }, /path: is no list/);
});
