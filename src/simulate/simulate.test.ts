import { describe, expect, it } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { Injector } from "./injector.ts";
import { independentFlows, referenceQueue, twoLatencies, weibullDelays } from "./presets.ts";
import { type Hop, type Scenario, SIMULATED_FLAG, type SyntheticTraffic } from "./scenario.ts";
import { simulate } from "./simulate.ts";

const kernels = new Kernels();
const traffic: SyntheticTraffic = { kind: "synthetic", ratePps: 200_000, durationS: 0.1 };

const PATHS: Record<string, Hop[]> = {
  "one RED queue": [{ kind: "queue", discipline: "red", utilisation: 0.9 }],
  "a small queue with cross traffic": [
    {
      kind: "queue",
      utilisation: 0.95,
      capacityPackets: 50,
      cross: { kind: "synthetic", ratePps: 100_000, durationS: 0.1 },
    },
  ],
  "strict priorities, then a queue": [
    {
      kind: "classes",
      scheduler: "strict",
      utilisation: 0.95,
      classes: [{ dscp: [46] }, { capacityPackets: 100 }],
      cross: { kind: "population", ratePps: 50_000, durationS: 0.1 },
      point: "middle",
    },
    { kind: "queue", utilisation: 0.8, propagationNs: 5000 },
  ],
  "a fabric of two stages with loss and reordering": [
    {
      kind: "paths",
      choose: "packet",
      paths: [{ utilisation: 0.5 }, { utilisation: 0.9 }],
      point: "stage1",
    },
    { kind: "loss", model: "bursts", probability: 0.01, meanBurst: 10 },
    { kind: "paths", choose: "packet", paths: [{ utilisation: 0.4 }, { utilisation: 0.8 }], point: "stage2" },
    { kind: "reorder", probability: 0.05, extentNs: 100_000 },
  ],
  "independent delays": [{ kind: "delay", model: { kind: "per-flow" } }],
};
const classed = { keys: { classes: [46, 0].map((dscp) => ({ dscp, share: 1 })) } };
const scenarioOf = (path: Hop[], seed = 1): Scenario => ({ seed, traffic: { ...traffic, ...classed }, path });

interface Seen {
  at: number;
  delay: number;
}

async function combined(scenario: Scenario): Promise<Map<string, Seen>> {
  const all = new Map<string, Seen>();
  for await (const p of simulate(kernels, scenario).packets())
    all.set(p.digest.join(), { at: p.sentNs, delay: p.delayNs ?? Number.NaN });
  return all;
}

describe("the ways to look at a simulation", () => {
  for (const [name, path] of Object.entries(PATHS)) {
    it(`agree on the fate of every packet: ${name}`, async () => {
      const scenario = scenarioOf(path);
      const truth = await combined(scenario);
      expect(truth.size).toBeGreaterThan(10_000);
      const sim = simulate(kernels, scenario);
      const points = new Map(sim.points.map((p) => [p, { rows: 0, wrong: 0, backwards: 0, last: -1 }]));
      const arrived = new Map<string, number>();
      for await (const { point, batch } of sim.observe()) {
        const { digest, timeNs, delayNs, count } = batch;
        const p = points.get(point)!;
        for (let i = 0; i < count; i++) {
          p.rows++;
          const id = `${digest[2 * i]},${digest[2 * i + 1]}`;
          const fate = truth.get(id);
          if (timeNs[i]! < p.last) p.backwards++;
          p.last = timeNs[i]!;
          if (point === "sender") {
            if (fate?.at !== timeNs[i] || !Number.isNaN(delayNs[i]!)) p.wrong++;
          } else if (fate === undefined || fate.at + delayNs[i]! !== timeNs[i]) p.wrong++;
          if (point === "receiver") arrived.set(id, delayNs[i]!);
        }
      }
      for (const [, p] of points) expect(p).toMatchObject({ wrong: 0, backwards: 0 });
      expect(points.get("sender")!.rows).toBe(truth.size);
      let differing = 0;
      for (const [id, { delay }] of truth) if (!Object.is(arrived.get(id) ?? Number.NaN, delay)) differing++;
      expect(differing).toBe(0);
    });
  }

  it("hand out the same bits for the same seed, and others for another", async () => {
    const scenario = scenarioOf(PATHS["a fabric of two stages with loss and reordering"]!);
    const first = await combined(scenario);
    expect([...(await combined(scenario))]).toEqual([...first]);
    const other = await combined({ ...scenario, seed: 2 });
    expect([...other.keys()].some((id) => first.has(id))).toBe(false);
  });

  it("come in the order of sending when combined, whatever the path does", async () => {
    for (const path of Object.values(PATHS)) {
      let last = -1;
      let backwards = 0;
      for await (const { timeNs, count } of simulate(kernels, scenarioOf(path)).combined())
        for (let i = 0; i < count; i++) {
          if (timeNs[i]! < last) backwards++;
          last = timeNs[i]!;
        }
      expect(backwards).toBe(0);
    }
  });

  it("may be left early without leaving memory behind", async () => {
    const sim = simulate(kernels, scenarioOf(PATHS["strict priorities, then a queue"]!));
    for await (const _ of sim.observe()) break;
    const before = kernels.memory.buffer.byteLength;
    for (let i = 0; i < 100; i++) for await (const _ of sim.observe()) break;
    expect(kernels.memory.buffer.byteLength).toBe(before);
  });

  it("sum up to the truth per flow", async () => {
    const scenario = scenarioOf(PATHS["a small queue with cross traffic"]!);
    const sim = simulate(kernels, scenario);
    const truth = await sim.flows({ key: FlowKeySpec.parse("hosts") });
    const slow = new Map<string, { sent: number; lost: number; sum: number; squares: number }>();
    for await (const { addrA, delayNs, count } of sim.combined())
      for (let i = 0; i < count; i++) {
        const key = `${addrA[2 * i + 1]}>${addrA[2 * i]}`;
        const f = slow.get(key) ?? { sent: 0, lost: 0, sum: 0, squares: 0 };
        slow.set(key, f);
        f.sent++;
        if (Number.isNaN(delayNs[i]!)) f.lost++;
        else {
          f.sum += delayNs[i]!;
          f.squares += delayNs[i]! ** 2;
        }
      }
    expect(truth.size).toBe(slow.size);
    for (const f of truth) {
      const s = slow.get(`${f.keyWords[3]}>${f.keyWords[2]}`);
      expect({ sent: f.sent, lost: f.lost, sum: f.sumNs, squares: f.sumSquaresNs2 }).toEqual(s);
    }
    expect(truth.column("lost").reduce((a, b) => a + b, 0)).toBeGreaterThan(10);
    truth.free();
  });
});

describe("clocks", () => {
  it("change a point's timestamps, never the true delay", async () => {
    const scenario: Scenario = {
      ...scenarioOf([{ kind: "delay", model: { kind: "constant", ns: 10_000 } }]),
      clocks: {
        sender: { resolutionNs: 1000 },
        receiver: { offsetNs: -2_000_000, skewPpm: 100 },
      },
    };
    const sim = simulate(kernels, scenario);
    let wrong = 0;
    for await (const { point, batch } of sim.observe()) {
      const { timeNs, delayNs, count } = batch;
      for (let i = 0; i < count; i++) {
        if (point === "sender") {
          if (timeNs[i]! % 1000 !== 0) wrong++;
        } else {
          if (delayNs[i] !== 10_000) wrong++;
          const arrived = (timeNs[i]! + 2_000_000) / 1.0001;
          if (Math.abs(arrived - Math.round(arrived)) > 0.51) wrong++;
        }
      }
    }
    expect(wrong).toBe(0);
  });

  it("jitter has the deviation given", async () => {
    const sim = simulate(kernels, {
      ...scenarioOf([]),
      clocks: { receiver: { jitterNs: 300 } },
    });
    const truth = new Map<string, number>();
    let n = 0;
    let squares = 0;
    for await (const { point, batch } of sim.observe()) {
      const { digest, timeNs, count } = batch;
      for (let i = 0; i < count; i++) {
        const id = `${digest[2 * i]},${digest[2 * i + 1]}`;
        if (point === "sender") truth.set(id, timeNs[i]!);
        else {
          n++;
          squares += (timeNs[i]! - truth.get(id)!) ** 2;
        }
      }
    }
    // About 20,000 draws: the standard deviation of the estimate is 0.5 %; the limit is six of them.
    expect(Math.abs(Math.sqrt(squares / n) / 300 - 1)).toBeLessThan(0.03);
  });
});

/** Inserts a reference packet ahead of every n-th packet. */
class EveryNth implements Injector {
  readonly #n: number;
  #seen = 0;
  constructor(n: number) {
    this.#n = n;
  }
  inspect(batch: { count: number; timeNs: Float64Array }, sendNs: Float64Array): void {
    const { timeNs, count } = batch;
    for (let i = 0; i < count; i++) if (++this.#seen % this.#n === 0) sendNs[i] = timeNs[i]!;
  }
}

describe("packets of our own", () => {
  const queue: Hop[] = [{ kind: "queue", discipline: "red", utilisation: 0.8 }];

  it("go ahead of the packet that made the injector send them, and queue like any other", async () => {
    const sim = simulate(kernels, { ...scenarioOf(queue), inject: () => new EveryNth(100) });
    let regular = 0;
    let references = 0;
    let misplaced = 0;
    let reference: { at: number; arrives: number } | null = null;
    for await (const { timeNs, delayNs, flags, count } of sim.combined())
      for (let i = 0; i < count; i++) {
        const arrives = timeNs[i]! + delayNs[i]!;
        if ((flags[i]! & SIMULATED_FLAG.reference) !== 0) {
          references++;
          reference = { at: timeNs[i]!, arrives };
          continue;
        }
        regular++;
        const due = regular % 100 === 0;
        if (due !== (reference !== null)) misplaced++;
        if (reference && (reference.at !== timeNs[i] || reference.arrives >= arrives)) misplaced++;
        reference = null;
      }
    expect(misplaced).toBe(0);
    expect(references).toBe(Math.floor(regular / 100));
    expect(regular).toBe((await sim.offered()).packets);
  });

  it("slow the others down by what they add, and are left out of the truth per flow", async () => {
    const plain = simulate(kernels, scenarioOf(queue));
    const loaded = simulate(kernels, { ...scenarioOf(queue), inject: () => new EveryNth(2) });
    const [a, b] = [await plain.flows(), await loaded.flows()];
    const mean = (t: typeof a) =>
      t.column("sum").reduce((x, y) => x + y, 0) / t.column("sent").reduce((x, y) => x + y, 0);
    expect(b.size).toBe(a.size);
    expect(b.column("sent")).toEqual(a.column("sent"));
    expect(mean(b)).toBeGreaterThan(1.05 * mean(a));
    a.free();
    b.free();
  });

  it("are probes at the configured rate, among the traffic in order of time", async () => {
    const sim = simulate(kernels, { ...scenarioOf(queue), probes: { ratePps: 20_000, wireLength: 100 } });
    let probes = 0;
    let regular = 0;
    let wrong = 0;
    let last = 0;
    const ids = new Set<string>();
    for await (const { timeNs, flags, wireLength, digest, count } of sim.combined())
      for (let i = 0; i < count; i++) {
        if (timeNs[i]! < last) wrong++;
        last = timeNs[i]!;
        ids.add(`${digest[2 * i]},${digest[2 * i + 1]}`);
        if ((flags[i]! & SIMULATED_FLAG.probe) === 0) regular++;
        else {
          probes++;
          if (wireLength[i] !== 100) wrong++;
        }
      }
    expect(wrong).toBe(0);
    expect(regular).toBe((await sim.offered()).packets);
    expect(ids.size).toBe(regular + probes);
    // Poisson with mean 2,000; six standard deviations.
    expect(Math.abs(probes - 2000)).toBeLessThan(270);
  });
});

describe("what is refused", () => {
  const make = (change: Partial<Scenario>) => () => simulate(kernels, { ...scenarioOf([]), ...change });
  it("is named before anything runs", () => {
    expect(make({ seed: -1 })).toThrow(/seed/);
    expect(make({ clocks: { nowhere: {} } })).toThrow(/no such point/);
    expect(make({ path: [{ kind: "delay", model: { kind: "constant", ns: 1 }, point: "sender" }] })).toThrow(
      /different names/,
    );
    expect(
      make({
        path: [
          { kind: "loss", model: "uniform", probability: 0 },
          { kind: "delay", model: { kind: "exponential", meanNs: 1, spaced: true } },
        ],
      }),
    ).toThrow(/first hop/);
  });
  it("is named when the stage is made", async () => {
    const run = async (hop: Hop) => {
      for await (const _ of simulate(kernels, scenarioOf([hop])).combined());
    };
    await expect(run({ kind: "queue" })).rejects.toThrow(/utilisation/);
    await expect(run({ kind: "loss", model: "uniform", probability: 1 })).rejects.toThrow(/probability/);
    await expect(run({ kind: "paths", choose: "flow", paths: [] })).rejects.toThrow(/at least 1/);
    await expect(run({ kind: "classes", scheduler: "strict", utilisation: 1, classes: [] })).rejects.toThrow(
      /classes/,
    );
  });
});

describe("shared scenarios", () => {
  it("are runnable at small size", async () => {
    const small = { durationS: 0.05 };
    for (const scenario of [
      referenceQueue(0.88, { traffic: small }),
      independentFlows({ traffic: small, loss: { kind: "loss", model: "uniform", probability: 0.01 } }),
      twoLatencies({ traffic: { packets: 10_000 } }),
      weibullDelays({ packets: 10_000, spaced: true }),
    ]) {
      let n = 0;
      for await (const b of simulate(kernels, scenario).combined()) n += b.count;
      expect(n).toBeGreaterThan(5000);
    }
  });

  it("the reference traffic meets the levels of the reference queue", async () => {
    // 10 s at 400 kpps. Over seeds 1-5 the means were 3.5-3.8 us at 55 % and 15-20 us at 70 %. The limits are half and twice the reference values of 4 and 19
    // us.
    for (const [utilisation, meanUs] of [
      [0.55, 4],
      [0.7, 19],
    ] as const) {
      const table = await simulate(kernels, referenceQueue(utilisation)).flows();
      const sent = table.column("sent").reduce((a, b) => a + b, 0);
      const mean = table.column("sum").reduce((a, b) => a + b, 0) / sent / 1000;
      expect(mean).toBeGreaterThan(meanUs / 2);
      expect(mean).toBeLessThan(meanUs * 2);
      expect(table.size).toBeGreaterThan(550_000);
      table.free();
    }
  });
});
