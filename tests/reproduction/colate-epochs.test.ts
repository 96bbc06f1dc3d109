/** COLATE over many epochs: vectors that are sealed before they are full, and questions that combine the epochs' answers. */
import { describe, expect, it } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../../src/capture/reader.ts";
import { Combination } from "../../src/collect/combine.ts";
import { estimatePair, isRefusal, readPair } from "../../src/collect/estimate.ts";
import { pairRecords } from "../../src/collect/pair.ts";
import { receivedRecord } from "../../src/collect/record-handle.ts";
import type { EpochRecord } from "../../src/epoch/record.ts";
import { colate } from "../../src/estimators/colate/colate.ts";
import { isNoAnswer } from "../../src/estimators/estimator.ts";
import { flowTable } from "../../src/estimators/flows/flows.ts";
import { parseParameters } from "../../src/estimators/parameters.ts";
import { arrive } from "../../src/evaluate/both-ends.ts";
import { PointObserver } from "../../src/observe/observer.ts";
import type { Scenario } from "../../src/simulate/scenario.ts";
import { simulate } from "../../src/simulate/simulate.ts";
import { FlowTruthTable } from "../../src/simulate/truth.ts";

const ORIGIN = 1_700_000_000_000_000_000n;

/** Both points of a simulated segment, observed in epochs of a second; and the true values over all of them. */
async function observe(scenario: Scenario, text: string) {
  const kernels = new Kernels();
  const taps = [
    { estimator: colate, parameters: parseParameters(colate, text) },
    { estimator: flowTable, parameters: parseParameters(flowTable) },
  ];
  const records: EpochRecord[] = [];
  const point = (name: string, role: "sender" | "receiver") =>
    new PointObserver({
      ...{ kernels, point: name, role, taps, seed: DEFAULT_SEED, key: "5tuple", cover: 64 },
      cut: { mode: "aligned", lengthNs: 1_000_000_000n },
      onRecord: (record) => records.push(record),
    });
  const points = { sender: point("A", "sender"), receiver: point("B", "receiver") };
  const truth = new FlowTruthTable(kernels);
  const mask = FlowKeySpec.parse().store(kernels);
  for await (const { point: where, batch } of simulate(kernels, scenario).observe(["sender", "receiver"])) {
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    points[where as "sender" | "receiver"].feed(batch, ORIGIN);
  }
  for (const p of Object.values(points)) p.finish();
  for await (const batch of simulate(kernels, scenario).combined()) truth.update(batch);
  const of = (estimator: string, name: string) =>
    records.filter((r) => r.estimator === estimator && r.point === name);
  return { records, of, truth };
}

describe("vectors that would overflow", () => {
  // 2^(24-1) ns are 838 delays of 10 us in a counter; in a second, the largest flow has 2,500 packets in each of its two.
  const text = "n=2048,m=2,vectors=1,b=24,delay=10000";
  const scenario: Scenario = {
    seed: 4,
    traffic: { kind: "population", ratePps: 50_000, durationS: 2.4, flows: 200, alpha: 0.8, weightMax: 400 },
    path: [
      { kind: "delay", model: { kind: "uniform", lowNs: 4000, highNs: 9000 } },
      { kind: "loss", model: "uniform", probability: 0.0002 },
    ],
  };

  it("are sealed before, at instants that both ends share or that pairing makes good", async () => {
    const { of } = await observe(scenario, text);
    const senders = of("colate", "A");
    const receivers = of("colate", "B");
    expect(senders.length).toBeGreaterThan(3);
    const { pairs, unpaired } = pairRecords(
      senders.map((s) => receivedRecord(s)),
      receivers.map((r) => receivedRecord(r)),
    );
    expect(unpaired).toEqual([]);
    const shared = pairs.filter((p) => p.senders.length === 1 && p.receivers.length === 1);
    expect(shared.length / pairs.length).toBeGreaterThan(0.7);
    let packets = 0;
    for (const pair of pairs) {
      const read = readPair(colate, pair);
      if (isRefusal(read)) throw new Error(read.reason);
      const estimate = estimatePair(colate, pair, read, { confidence: 0.95, flows: null });
      if (isRefusal(estimate)) throw new Error(estimate.reason);
      const { segment } = estimate.answer;
      packets += segment!.received!;
      if (isNoAnswer(segment!.mean)) throw new Error(segment!.mean.text);
      expect(Math.abs(segment!.mean.valueNs / 6500 - 1)).toBeLessThan(0.05);
    }
    expect(packets).toBe(receivers.reduce((s, r) => s + r.counters.packets, 0));
  });
});

describe("a question over many epochs", () => {
  it("has intervals that hold as often as they say: what repeats from epoch to epoch adds as it is", async () => {
    const text = "n=2048,m=2,vectors=1";
    const scenario: Scenario = {
      seed: 3,
      traffic: {
        kind: "population",
        ratePps: 100_000,
        durationS: 6,
        flows: 10_000,
        alpha: 0.9,
        weightMax: 3000,
      },
      path: [{ kind: "delay", model: { kind: "per-flow" } }],
    };
    const { of, truth } = await observe(scenario, text);
    const repeating = new Map<string, Combination>();
    const independent = new Map<string, Combination>();
    const receivers = of("colate", "B");
    const lists = of("flows", "A");
    for (const [i, sender] of of("colate", "A").entries()) {
      const receiver = receivers[i]!;
      const flows = flowTable.flowList!.read(
        { payload: lists[i]!.payload, packets: lists[i]!.counters.packets },
        parseParameters(flowTable),
      );
      if (!flows) throw new Error("a flow table lists its flows");
      const answer = colate.estimate({
        ...{
          parameters: parseParameters(colate, text),
          seed: DEFAULT_SEED,
          flows,
          confidence: 0.95,
          epochNs: 1e9,
        },
        sender: { payload: sender.payload, packets: sender.counters.packets },
        receiver: { payload: receiver.payload, packets: receiver.counters.packets },
      });
      for (const { flow, mean, stdev, lost } of answer.flows) {
        const name = `${flows.hash[2 * flow]}:${flows.hash[2 * flow + 1]}`;
        const packets = flows.packets[flow]!;
        for (const [all, key] of [
          [repeating, name],
          [independent, undefined],
        ] as const) {
          if (!all.has(name)) all.set(name, new Combination());
          all.get(name)!.add({ mean, stdev, packets, lost, used: packets }, undefined, key);
        }
      }
    }
    const hashes = truth.hashes();
    const sent = truth.column("sent");
    const sum = truth.column("sum");
    const held = (all: Map<string, Combination>) => {
      let [flows, inside] = [0, 0];
      for (let f = 0; f < sent.length; f++) {
        const mean =
          sent[f]! >= 100 ? all.get(`${hashes[2 * f]}:${hashes[2 * f + 1]}`)?.result().mean : undefined;
        if (!mean || isNoAnswer(mean)) continue;
        flows++;
        if (mean.lowNs <= sum[f]! / sent[f]! && sum[f]! / sent[f]! <= mean.highNs) inside++;
      }
      expect(flows).toBeGreaterThan(500);
      return inside / flows;
    };
    expect(held(repeating)).toBeGreaterThan(0.94);
    // The error if all of it averaged out; but answers are shrunk to the common mean in every epoch.
    expect(held(independent)).toBeLessThan(0.93);
  });
});

describe("a merged epoch", () => {
  it("answers as one epoch over both", async () => {
    const kernels = new Kernels();
    const parameters = parseParameters(colate, "n=4096,m=4");
    const scenario: Scenario = {
      seed: 9,
      traffic: { kind: "population", ratePps: 100_000, packets: 40_000, flows: 100 },
      path: [{ kind: "delay", model: { kind: "per-flow" } }],
    };
    const make = () => colate.createTap({ kernels, role: "sender", seed: 1n }, parameters);
    const [whole, first, second] = [make(), make(), make()];
    for (const tap of [whole, first, second]) tap.begin(0);
    const mask = FlowKeySpec.parse().store(kernels);
    for await (const batch of simulate(kernels, scenario).combined()) {
      kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
      arrive(batch);
      const half = batch.count >> 1;
      whole.update(batch, 0, batch.count);
      first.update(batch, 0, half);
      second.update(batch, half, batch.count);
    }
    expect(colate.merge(first.seal(), second.seal(), parameters)).toEqual(whole.seal());
  });
});
