/** Fields of scenario files. The types of the samples ensure that every field of scenario.ts is covered. */
import type { Static } from "typebox";
import { expect, expectTypeOf, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
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
import { checkScenario, type SCENARIO } from "./scenario-schema.ts";
import { Simulation } from "./simulate.ts";

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
  ...{
    ratePps: 1,
    startS: 0,
    durationS: 1,
    packets: 1,
    flows: 1,
    arrivals: "poisson",
    alpha: 1,
    weightMax: 2,
  },
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

test("the schema and the types of scenario.ts say the same", () => {
  expectTypeOf<Static<typeof SCENARIO>>().toExtend<Scenario>();
  expectTypeOf<Omit<Scenario, "inject">>().toExtend<Static<typeof SCENARIO>>();
});

test("every field that there is may be written", () => {
  for (const traffic of [synthetic, population, replay] as Traffic[]) {
    const scenario: Whole<Omit<Scenario, "inject">> = {
      ...{ seed: 1, traffic, path: hops as Hop[], clocks: { receiver: clock }, probes },
    };
    expect(() => checkScenario(scenario, "s.json")).not.toThrow();
  }
});

function refusal(scenario: unknown): { message: string; hint: string } {
  try {
    checkScenario(scenario, "s.json");
  } catch (error) {
    expect((error as Error).name).toBe("UsageError");
    return error as unknown as { message: string; hint: string };
  }
  throw new Error("not refused");
}

const plain = { kind: "population", ratePps: 1000, durationS: 1 };
const ofPath = (...path: unknown[]) => refusal({ traffic: plain, path });

test("a misspelt field is refused with its place and what may have been meant", () => {
  const seed = refusal({ sede: 1, traffic: plain, path: [] });
  expect(seed.message).toBe("s.json: sede: no such field");
  expect(seed.hint).toMatch(/^did you mean seed\? Fields: seed, traffic, path/);
  const queued = ofPath({ kind: "queue" }, { kind: "queue", utilization: 0.5 });
  expect(queued.message).toBe("s.json: path[1].utilization: no such field");
  expect(queued.hint).toMatch(/^did you mean utilisation\?/);
  // A misspelt field is also a missing one; the error names the misspelt one.
  const delay = ofPath({ kind: "delay", model: { kind: "constant", nanoseconds: 1 } });
  expect(delay.message).toBe("s.json: path[0].model.nanoseconds: no such field");
  expect(delay.hint).toBe("fields: kind, ns");
  expect(refusal({ traffic: plain, path: [], clocks: { receiver: { drift: 1 } } }).message).toBe(
    "s.json: clocks.receiver.drift: no such field",
  );
});

test("a kind or a choice that there is not is refused with those that there are", () => {
  expect(refusal({ traffic: { kind: "sythetic" }, path: [] })).toMatchObject({
    message: "s.json: traffic.kind: invalid value 'sythetic' (expected synthetic, population, replay)",
    hint: "did you mean synthetic?",
  });
  expect(ofPath({ kind: "delay", model: { kind: "gamma" } }).message).toMatch(
    /^s\.json: path\[0\]\.model\.kind: invalid value 'gamma' \(expected constant, weibull, /,
  );
  expect(ofPath({ kind: "loss", model: "burst", probability: 0.1 })).toMatchObject({
    message: "s.json: path[0].model: invalid value 'burst' (expected uniform, bursts)",
    hint: "did you mean bursts?",
  });
  expect(ofPath({ kind: "paths", choose: "dice", paths: [{}] }).message).toBe(
    "s.json: path[0].choose: invalid value 'dice' (expected flow, packet)",
  );
  expect(ofPath({ utilisation: 0.5 }).message).toMatch(/path\[0\]\.kind: missing \(expected queue, /);
});

test("values of another type, missing ones and whole other documents are refused", () => {
  expect(refusal({ traffic: { ...plain, ratePps: "400k" }, path: [] }).message).toBe(
    "s.json: traffic.ratePps: invalid value '400k' (expected a number)",
  );
  expect(refusal({ traffic: { kind: "population", durationS: 1 }, path: [] }).message).toBe(
    "s.json: traffic.ratePps: missing",
  );
  expect(refusal({ traffic: plain, path: { kind: "queue" } }).message).toBe(
    's.json: path: invalid value {"kind":"queue"} (expected a list)',
  );
  expect(refusal([]).message).toBe("s.json: invalid value [] (expected an object)");
  expect(refusal(null).message).toBe("s.json: invalid value null (expected an object)");
});

test("scenarios beyond what a machine can hold are refused before anything is allocated", () => {
  const kernels = new Kernels();
  const run = (scenario: unknown) => () => new Simulation(kernels, scenario as Scenario);
  const before = kernels.memory.buffer.byteLength;
  expect(run({ traffic: { ...plain, flows: 1e9 }, path: [] })).toThrow(
    "traffic.flows: invalid value 1000000000 (expected a number of at most 20,000,000)",
  );
  expect(run({ traffic: plain, path: new Array(5000).fill({ kind: "queue", utilisation: 0.5 }) })).toThrow(
    "path: 5,000 entries (at most 256 are allowed)",
  );
  for (const [capacityPackets, value] of [
    [1e12, "1000000000000"],
    [Number.POSITIVE_INFINITY, "Infinity"],
  ] as const)
    expect(run({ traffic: plain, path: [{ kind: "queue", rateBps: 1e9, capacityPackets }] })).toThrow(
      `path[0].capacityPackets: invalid value ${value} (expected a number`,
    );
  // Each value is within its limit, but not their sum.
  const paths = new Array(256).fill({ rateBps: 1e9, capacityPackets: 1e7 });
  expect(run({ traffic: plain, path: [{ kind: "paths", choose: "flow", paths }] })).toThrow(
    /path\[0\] \(paths\): the hops up to here hold up to 39,063 MiB of packets/,
  );
  const slow = { kind: "delay", model: { kind: "exponential", meanNs: 1e15 } };
  expect(run({ traffic: plain, path: [slow] })).toThrow(/\(delay\): the hops up to here hold/);
  expect(kernels.memory.buffer.byteLength).toBe(before);
});
