import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { PacketBatch } from "../../capture/batch.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { CaptureReader } from "../../capture/reader.ts";
import {
  makePopulation,
  type Population,
  runPopulation,
  scorePopulation,
} from "../../evaluate/flow-population.ts";
import type { Estimator, EstimatorAnswer, KnownFlows, SealedEpoch } from "../estimator.ts";
import { isNoAnswer } from "../estimator.ts";
import { flowTable } from "../flows/flows.ts";
import { readKnownFlows } from "../flows/payload.ts";
import { parseParameters } from "../parameters.ts";
import { delaysOf, differenceOf } from "./difference.ts";
import { layFlows } from "./flow-set.ts";
import { lds } from "./lds.ts";
import { minedBytes } from "./mined.ts";
import { expectedCells, geometryOf, type LdsParameters } from "./parameters.ts";
import { decodeCells } from "./payload.ts";

const SEED = 3n;

function run(population: Population, text: string, options?: Parameters<typeof runPopulation>[3]) {
  const parameters = parseParameters(lds, text);
  const pairs = [{ estimator: lds as Estimator, parameters, seed: SEED }];
  const result = runPopulation(new Kernels(), population, pairs, options);
  const ask = (
    flows: KnownFlows | null = result.flows,
    change: Partial<LdsParameters> = {},
  ): EstimatorAnswer =>
    lds.estimate({
      parameters: { ...parameters, ...change } as LdsParameters,
      seed: SEED,
      ...result.sealed[0]!,
      flows,
      confidence: 0.95,
      epochNs: 10e9,
    });
  return { ...result, parameters, ask };
}

function sketchOf(
  parameters: LdsParameters,
  { sender, receiver }: { sender: SealedEpoch; receiver: SealedEpoch },
) {
  const geometry = geometryOf(parameters);
  const expected = expectedCells(parameters, false, SEED);
  return differenceOf(
    geometry,
    SEED,
    decodeCells(sender.payload, expected),
    decodeCells(receiver.payload, expected),
  );
}

const population = makePopulation({ flows: 4000, shape: 0.9, maxPackets: 5000, seed: 5 });

describe("packets that only one end counts", () => {
  test("foreign packets at the receiver are distinguished from loss, with coverage, and spoil no number", () => {
    const { ask, ...result } = run(population, "rows=4,columns=2000,k=5", {
      loss: 0.001,
      extra: { flows: 200, packets: 400 },
    });
    const { segment, notes, flows } = ask();
    expect(notes.join()).toMatch(/about [\d.]+ % of the packets received were counted at the receiver only/);
    expect(segment?.coverage).toBeGreaterThan(0.3);
    expect(segment!.lost).toBeGreaterThan(0);
    const lost = population.packets - result.received.reduce((a, b) => a + b, 0);
    expect(Math.abs(segment!.lost! - lost)).toBeLessThan(0.35 * lost);
    const [score] = scorePopulation(result, { segment, flows, notes }, [[50, 1e9]]);
    expect(score!.coverage).toBeGreaterThan(0.92);
  });

  test("without digests, cells that agree by chance are not trusted: the answer is foreign-packets", () => {
    const { ask } = run(population, "rows=4,columns=2000,k=5,digest=0", {
      loss: 0.01,
      extra: { flows: 300, packets: 2000 },
    });
    const { segment, flows } = ask();
    expect(segment!.mean).toMatchObject({ reason: "foreign-packets" });
    expect(flows[0]!.mean).toMatchObject({ reason: "foreign-packets" });
    expect(isNoAnswer(segment!.mean) && segment!.mean.text).toMatch(/digest=16/);
  });

  test("flows that the sender alone counts go dark while the others lose nothing: said, not called loss at random", () => {
    const kernels = new Kernels();
    const parameters = parseParameters(lds, "rows=4,columns=8000,k=1");
    const taps = [0, 1].map(() => lds.createTap({ kernels, role: "sender", seed: SEED }, parameters));
    const batch = new PacketBatch(kernels, 2048);
    for (const [end, tap] of taps.entries()) {
      tap.begin(0);
      let n = 0;
      for (let f = 0; f < 60; f++) {
        for (let i = 0; i < 30; i++) {
          if (end === 1 && f >= 50) continue;
          batch.timeNs[n] = 1000 * (30 * f + i) + 500 * end;
          batch.digest.set([n, f], 2 * n);
          batch.flowHash.set([f * 0x1234567, f * 0x7654321], 2 * n);
          n++;
        }
      }
      batch.count = n;
      tap.update(batch, 0, n);
    }
    const [sender, receiver] = taps.map((t) => t.seal());
    const answer = lds.estimate({
      parameters,
      seed: SEED,
      sender: sender!,
      receiver: receiver!,
      flows: null,
      confidence: 0.95,
      epochNs: 1e9,
    });
    expect(answer.notes.join()).toMatch(/300 packets .* whole flows are missing at the receiver/);
    expect(answer.segment!.mean).toMatchObject({ valueNs: 500 });
  });

  test("loss at random alone raises no suspicion", () => {
    for (const loss of [0.001, 0.05, 0.3]) {
      expect(run(population, "rows=4,columns=2000,k=5", { loss }).ask(null).notes).toEqual([]);
    }
  });
});

test("a row without loss is exact, however few flows it holds beside rows that sample them", () => {
  const few = makePopulation({ flows: 2, shape: 0.7, maxPackets: 200, jitter: 0.4, seed: 3 });
  const result = run(few, "rows=4,columns=17500,k=5,rates=1/.5/.1/.01");
  const { segment } = result.ask();
  if (!segment || isNoAnswer(segment.mean)) throw new Error("no answer");
  const sum = (list: ArrayLike<number>) => Array.from(list).reduce((s, x) => s + x, 0);
  const truth = sum(result.sumNs) / sum(result.received);
  expect(segment.mean.highNs - segment.mean.lowNs).toBeLessThan(1);
  expect(Math.abs(segment.mean.valueNs - truth)).toBeLessThan(1);
});

describe("what else is mined", () => {
  test("the length of a flow is never underestimated by its bound", () => {
    const result = run(population, "rows=4,columns=1000,k=2,rates=1");
    const sketch = sketchOf(result.parameters, result.sealed[0]!);
    const unknown = { ...result.flows, packets: new Float64Array(population.flows).fill(Number.NaN) };
    const set = layFlows(sketch, { ...unknown, complete: false });
    for (let f = 0; f < population.flows; f++)
      expect(set.atMost[f]).toBeGreaterThanOrEqual(population.size[f]!);
  });

  test("bytes are bounded by the flow's emptiest cells where they are counted", () => {
    const result = run(population, "rows=4,columns=20000,k=1,bytes=true");
    const sketch = sketchOf(result.parameters, result.sealed[0]!);
    const set = layFlows(sketch, result.flows);
    let exact = 0;
    for (let f = 0; f < population.flows; f++) {
      const bytes = minedBytes(sketch, set, f)!;
      expect(bytes).toBeGreaterThanOrEqual(result.flows.bytes[f]!);
      if (bytes === result.flows.bytes[f]) exact++;
    }
    expect(exact / population.flows).toBeGreaterThan(0.98);
    const without = run(population, "rows=4,columns=20000,k=1");
    expect(minedBytes(sketchOf(without.parameters, without.sealed[0]!), set, 0)).toBeNull();
  });

  test("the loss of a flow is that of its cells, less its neighbours' share", () => {
    const result = run(population, "rows=4,columns=8000,k=1", { loss: 0.02 });
    let error = 0;
    let total = 0;
    for (const { flow, lost } of result.ask().flows) {
      const truth = population.size[flow]! - result.received[flow]!;
      if (population.size[flow]! < 100) continue;
      total += truth;
      error += Math.abs(lost! - truth);
    }
    expect(error / total).toBeLessThan(0.05);
  });

  test("deviations of flows that own their cells: the interval holds the truth, others have a reason", () => {
    let inside = 0;
    let answered = 0;
    for (let seed = 0; seed < 5; seed++) {
      const many = makePopulation({ flows: 1500, shape: 0.7, maxPackets: 5000, jitter: 0.4, seed });
      const result = run(many, "rows=4,columns=50000,k=8,rates=1/1/.5/.5");
      for (const { flow, stdev } of result.ask().flows) {
        if (many.size[flow]! < 300) continue;
        if (isNoAnswer(stdev)) {
          expect(["no-usable-cells", "too-much-noise"]).toContain(stdev.reason);
          continue;
        }
        answered++;
        const mean = result.sumNs[flow]! / result.received[flow]!;
        const truth = Math.sqrt(result.squaresNs2[flow]! / result.received[flow]! - mean * mean);
        if (truth >= stdev.lowNs && truth <= stdev.highNs) inside++;
      }
    }
    // Flows get no answer if more than three tenths of the differences between their cells may come from others: with up to half, only 79 to 89 % of intervals
    // held.
    expect(answered).toBeGreaterThan(70);
    // Measured on 20 other seeds: 333 of 338 (98.5 %). For 85 flows, that share has a standard deviation of 1.3 %; the limit is four of them, one false alarm
    // in 10,000.
    expect(inside / answered).toBeGreaterThan(0.93);
    const plain = run(population, "rows=4,columns=20000,k=1").ask().flows[0]!;
    expect(plain.stdev).toMatchObject({ reason: "not-supported" });
  });
});

describe("what cannot be answered says why", () => {
  test("a flow that was never counted is not in the sketch", () => {
    const { ask, flows } = run(population, "rows=4,columns=30000,k=1");
    const foreign: KnownFlows = {
      count: 1,
      hash: Uint32Array.of(123, 456),
      packets: Float64Array.of(Number.NaN),
      bytes: Float64Array.of(Number.NaN),
      keyWords: new Uint32Array(10),
      complete: false,
    };
    expect(ask(foreign).flows[0]).toMatchObject({ mean: { reason: "not-in-sketch" }, packets: 0 });
    const none = { ...flows, count: 1, packets: Float64Array.of(0) };
    expect(ask(none).flows[0]!.mean).toMatchObject({ reason: "not-in-sketch" });
  });

  test("counts that overflowed leave their rows out", () => {
    const geometry = { rows: 1, columns: 4, k: 1, rates: [1], weights: "" };
    const cells = decodeCells(run(population, "rows=1,columns=4,k=1").sealed[0]!.sender.payload, {
      ...geometry,
      delays: false,
    });
    cells.totals[0]! += 2 ** 32;
    const sketch = differenceOf(geometry, SEED, cells, cells);
    expect(sketch.rows[0]).toMatchObject({ overflowed: true, usable: 0 });
    expect(sketch.usable.includes(1)).toBe(false);
    expect(delaysOf(geometry, SEED, cells).usable.includes(1)).toBe(false);
  });
});

describe("weights", () => {
  /** Flows 10.0.0.f to 10.1.0.1 with real flow keys; the gold ones have destination port 53. */
  function weighted(text: string) {
    const kernels = new Kernels();
    const parameters = parseParameters(lds, text);
    const taps = [0, 1].map(() => lds.createTap({ kernels, role: "sender", seed: SEED }, parameters));
    const table = flowTable.createTap({ kernels, role: "sender", seed: SEED }, parseParameters(flowTable));
    for (const tap of taps) tap.begin(0);
    const mask = FlowKeySpec.parse().store(kernels);
    const batch = new PacketBatch(kernels);
    const truth = new Map<string, { sum: number; n: number; gold: boolean }>();
    const small = makePopulation({ flows: 3000, shape: 1, maxPackets: 300, seed: 8 });
    const fill = (from: number, rows: number) => {
      for (let i = 0; i < rows; i++) {
        const packet = from + i;
        const f = owner[packet]!;
        const gold = f % 100 === 0;
        batch.timeNs[i] = 1000 * packet;
        batch.digest.set([Math.imul(packet, 0x9e3779b1) >>> 0, packet], 2 * i);
        batch.meta.set([((1024 + (f % 60_000)) << 16) | (gold ? 53 : 443), 17 | (1 << 28)], 2 * i);
        batch.addrA.set([0x0a010001, 0x0a000000 + f], 2 * i);
        for (const column of [batch.addrB, batch.addrC, batch.addrD]) column.fill(0, 2 * i, 2 * i + 2);
        batch.wireLength[i] = 100;
        batch.flags[i] = 0;
      }
      batch.count = rows;
      kernels.call.keyFlows(batch.address, mask, 1n);
    };
    const owner = [...small.size].flatMap((size, f) => new Array<number>(size).fill(f));
    for (let from = 0; from < owner.length; from += batch.capacity) {
      const rows = Math.min(batch.capacity, owner.length - from);
      fill(from, rows);
      taps[0]!.update(batch, 0, rows);
      table.update(batch, 0, rows);
      for (let i = 0; i < rows; i++) {
        const f = owner[from + i]!;
        const delay = Math.round(small.baseNs[f]! * (0.8 + (((from + i) * 7919) % 400) / 1000));
        batch.timeNs[i]! += delay;
        const name = `${batch.flowHash[2 * i + 1]}:${batch.flowHash[2 * i]}`;
        const entry = truth.get(name) ?? { sum: 0, n: 0, gold: f % 100 === 0 };
        entry.sum += delay;
        entry.n++;
        truth.set(name, entry);
      }
      taps[1]!.update(batch, 0, rows);
    }
    const [sender, receiver] = taps.map((t) => t.seal());
    const flows = readKnownFlows(table.seal());
    const answer = (decoder: LdsParameters["decoder"]) => {
      const { flows: estimates } = lds.estimate({
        parameters: { ...parameters, decoder },
        seed: SEED,
        sender: sender!,
        receiver: receiver!,
        flows,
        confidence: 0.95,
        epochNs: 1e9,
      });
      const errors = { gold: [] as number[], other: [] as number[] };
      let covered = 0;
      for (const { flow, mean } of estimates) {
        if (isNoAnswer(mean)) throw new Error(mean.text);
        const t = truth.get(`${flows.hash[2 * flow + 1]}:${flows.hash[2 * flow]}`)!;
        const exact = t.sum / t.n;
        errors[t.gold ? "gold" : "other"].push(Math.abs(mean.valueNs - exact) / exact);
        if (mean.lowNs <= exact && exact <= mean.highNs) covered++;
      }
      const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;
      return { gold: mean(errors.gold), other: mean(errors.other), coverage: covered / estimates.length };
    };
    return { answer, sender: sender! };
  }

  test("gold flows by filter stand out of their cells, the others pay; intervals keep their promise", () => {
    const flat = weighted("rows=4,columns=400,k=1");
    const policy = weighted("rows=4,columns=400,k=1,weights=100:udp dst port 53");
    for (const decoder of ["smallest", "bp"] as const) {
      const [before, after] = [flat.answer(decoder), policy.answer(decoder)];
      expect(after.gold).toBeLessThan(0.5 * before.gold);
      expect(after.other).toBeGreaterThan(0.9 * before.other);
      expect(after.coverage).toBeGreaterThan(0.92);
      expect(before.coverage).toBeGreaterThan(0.92);
    }
  });

  test("a weight must be a number with an expression, and an expression must be one", () => {
    expect(() => parseParameters(lds, "weights=gold:udp")).toThrow(/is not WEIGHT:EXPRESSION/);
    expect(() => parseParameters(lds, "weights=70000:udp")).toThrow(/70000:udp/);
    const parameters = parseParameters(lds, "weights=5:frobnicate");
    expect(() => lds.createTap({ kernels: new Kernels(), role: "sender", seed: 0n }, parameters)).toThrow();
  });
});

describe("parameters", () => {
  test("k = 1 takes all packets in all rows, more cells per flow bring banks ready for loss", () => {
    expect(parseParameters(lds, "k=1").rates).toEqual([1, 1, 1, 1]);
    expect(parseParameters(lds, "").rates).toEqual([1, 0.5, 0.1, 0.01]);
    expect(parseParameters(lds, "rows=6,k=3").rates).toEqual([1, 1, 1, 0.5, 0.1, 0.01]);
    expect(parseParameters(lds, "rows=2,rates=.2").rates).toEqual([0.2, 0.2]);
    expect(() => parseParameters(lds, "rows=4,rates=1/.5")).toThrow(/rates has 2 values/);
    expect(() => parseParameters(lds, "rows=1,rates=0")).toThrow(/at least/);
    expect(() => parseParameters(lds, "columns=3,k=5")).toThrow(/do not fit/);
  });
});

const shared = process.env["HOPTIME_SHARED"] ?? fileURLToPath(new URL("../../../../shared", import.meta.url));
const router = join(shared, "traces", "twopoint", "linux-router");
const have = existsSync(join(router, "router-busy.truth.json"));
if (!have)
  console.log(`skipped: ${router} is not there (HOPTIME_SHARED names the folder of shared captures)`);

describe.skipIf(!have)("a Linux router that loses 5.4 % of its packets", () => {
  interface Truth {
    sent: number;
    lost: number;
    packets?: number;
    meanNs?: number;
    stdevNs?: number;
  }

  test("largest flows: means within their intervals, losses near the truth; no packet travelled", async () => {
    const truth = JSON.parse(readFileSync(join(router, "router-busy.truth.json"), "utf8")) as {
      flows: Record<string, Truth>;
      meanNs: number;
      lost: number;
    };
    // k = 32 cells for up to 904 lost packets of a flow: a few survive in the row that takes 1 %.
    const parameters = parseParameters(lds, "rows=4,columns=17500,k=32,rates=1/.5/.1/.01");
    const key = FlowKeySpec.parse();
    const seeds = [1n, 2n, 3n, 4n, 5n, 6n];
    const ends: SealedEpoch[][] = [];
    let flows: KnownFlows | null = null;
    let start: bigint | null = null;
    for (const name of ["router-busy-in.pcap.gz", "router-busy-out.pcap.gz"]) {
      const kernels = new Kernels();
      const reader = await CaptureReader.open(kernels, join(router, name), { key });
      const taps = seeds.map((seed) => lds.createTap({ kernels, role: "sender", seed }, parameters));
      const table = flowTable.createTap({ kernels, role: "sender", seed: 0n }, parseParameters(flowTable));
      while (await reader.next()) {
        start ??= reader.originNs!;
        for (const tap of taps) {
          tap.begin(Number(start - reader.originNs!));
          tap.update(reader.batch, 0, reader.batch.count);
        }
        table.update(reader.batch, 0, reader.batch.count);
      }
      ends.push(taps.map((tap) => tap.seal()));
      flows ??= readKnownFlows(table.seal());
      reader.close();
    }
    let judged = 0;
    let inside = 0;
    let segments = 0;
    for (const [i, seed] of seeds.entries()) {
      const [sender, receiver] = ends.map((sealed) => sealed[i]!);
      const answer = lds.estimate({
        parameters,
        seed,
        sender: sender!,
        receiver: receiver!,
        flows,
        confidence: 0.95,
        epochNs: 60e9,
      });
      for (const { flow, mean, lost, packets } of answer.flows) {
        const k = key.describe(flows!.keyWords, 10 * flow);
        const exact = truth.flows[[k.src, k.dst, k.proto, k.sport ?? "", k.dport ?? ""].join("|")];
        if (!exact || exact.sent < 150 || exact.meanNs === undefined) continue;
        expect(packets).toBe(exact.sent);
        if (isNoAnswer(mean)) {
          expect(mean.reason).toBe("no-usable-cells");
          continue;
        }
        judged++;
        if (mean.lowNs <= exact.meanNs && exact.meanNs <= mean.highNs) inside++;
        expect(Math.abs(mean.valueNs - exact.meanNs) / exact.meanNs).toBeLessThan(0.04);
        if (exact.sent > 2000) expect(Math.abs(lost! - exact.lost)).toBeLessThan(0.05 * exact.lost + 5);
      }
      expect(answer.segment!.lost).toBeGreaterThan(truth.lost - 10);
      expect(answer.notes.join()).toMatch(/counted at the receiver only/);
      const { mean } = answer.segment!;
      if (isNoAnswer(mean)) throw new Error(mean.text);
      if (mean.lowNs <= truth.meanNs && truth.meanNs <= mean.highNs) segments++;
    }
    // 15 flows, 6 seeds. At 95 %, fewer than 80 of 90 would be one false alarm in 300.
    expect(judged).toBeGreaterThan(85);
    expect(inside / judged).toBeGreaterThan(0.88);
    expect(segments).toBeGreaterThanOrEqual(5);
  });
});
