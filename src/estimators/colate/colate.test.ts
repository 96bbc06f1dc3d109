/** The kernel against a slow reference, payloads, differences, and answers for traffic small enough to calculate by hand. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeBatch, type Row } from "../../../tests/support/small-batch.ts";
import { FormatError, UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { Random } from "../../base/random.ts";
import { type EstimatorAnswer, isNoAnswer, type KnownFlows, type SealedEpoch } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { colate } from "./colate.ts";
import { layoutOf, placesOf, slotsOf } from "./layout.ts";
import type { ColateParameters } from "./parameters.ts";
import { type Counters, decodeCounters, encodeCounters, mergeCounters } from "./payload.ts";

const kernels = new Kernels();
const SEED = 0x0bad_cafe_1234n;
const parameters = (text: string) => parseParameters(colate, text);

function seal(
  text: string,
  rows: readonly Row[],
  options: { startNs?: number; size?: number } = {},
): SealedEpoch {
  const tap = colate.createTap({ kernels, role: "sender", seed: SEED }, parameters(text));
  tap.begin(options.startNs ?? 0);
  const size = options.size ?? 100;
  for (let from = 0; from < rows.length; from += size) {
    const batch = makeBatch(kernels, rows.slice(from, from + size));
    tap.update(batch, 0, batch.count);
    batch.free();
  }
  const sealed = tap.seal();
  tap.free();
  return sealed;
}

const M = (1n << 64n) - 1n;
function rehash(h: bigint, seed: bigint): bigint {
  let x = ((h ^ seed) * 0x9e3779b185ebca87n + 0x27d4eb2f165667c5n) & M;
  x = ((x ^ (x >> 33n)) * 0xc2b2ae3d27d4eb4fn) & M;
  x = ((x ^ (x >> 29n)) * 0x165667b19e3779f9n) & M;
  return x ^ (x >> 32n);
}

/** Returns the cell of a packet, calculated with BigInt. */
function cellOf(p: ColateParameters, digest: [number, number], flow: number): number {
  const { multiplier, edges, slots } = slotsOf(p, SEED);
  const d = (BigInt(digest[0]) << 32n) | BigInt(digest[1]);
  const x = (((d * multiplier) & M) >> 32n) * BigInt(p.m);
  const vector = edges.findIndex((edge) => (x & 0xffff_ffffn) < edge);
  const slot = slots[vector * p.m + Number(x >> 32n)]!;
  return slot.first + Number(((rehash(BigInt(flow), slot.seed) >> 32n) * BigInt(slot.cells)) >> 32n);
}

const rowOf = fc.record({
  timeNs: fc.double({ min: -1e6, max: 1e12, noNaN: true }),
  digest: fc.tuple(fc.nat(0xffff_ffff), fc.nat(0xffff_ffff)) as fc.Arbitrary<[number, number]>,
  flow: fc.nat(40),
});

describe("the update", () => {
  it("does what a slow twin does, for any vectors, bits and units", () => {
    const texts = [
      "n=64,m=2,b=20,check=8,delay=1",
      "n=64,m=3,b=52,vectors=1,check=0,unit=4",
      "n=200,m=4,b=33,vectors=0.5/0.2/0.1/0.1/0.06/0.04,check=32,unit=1024",
    ];
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.array(rowOf, { maxLength: 150 }), (text, rows) => {
        const p = parameters(text);
        const startNs = 12_345;
        const counters = decodeCounters(seal(text, rows, { startNs, size: 40 }), p, SEED);
        const sum = new Array<bigint>(p.n).fill(0n);
        const count = new Array<number>(p.n).fill(0);
        const check = new Array<bigint>(p.n).fill(0n);
        for (const { timeNs, digest, flow } of rows) {
          const c = cellOf(p, digest, flow);
          sum[c]! += BigInt(Math.floor((timeNs - startNs) / p.unit));
          count[c]!++;
          check[c]! ^= BigInt(digest[1]);
        }
        expect([...counters.count]).toEqual(count);
        expect([...counters.sum]).toEqual(sum.map((s) => Number(BigInt.asUintN(p.b, s))));
        expect([...counters.digest]).toEqual(check.map((d) => Number(BigInt.asUintN(p.check, d))));
      }),
      { numRuns: 60, seed: 1 },
    );
  });

  it("puts a flow's packets where questions look for them", () => {
    const p = parameters("n=500,m=4");
    const flow = 77;
    const places = new Set(placesOf(p, SEED, Uint32Array.of(flow, 0)));
    const random = new Random(1);
    const rows = Array.from({ length: 3000 }, () => ({
      timeNs: 1,
      digest: [random.uint32(), random.uint32()] as [number, number],
      flow,
    }));
    const { count } = decodeCounters(seal("n=500,m=4", rows), p, SEED);
    const filled = new Set([...count.keys()].filter((c) => count[c]! > 0));
    expect([...filled].every((c) => places.has(c))).toBe(true);
    // Shares of the vectors, and of the counters within each: five standard deviations of a binomial.
    const { starts, q } = layoutOf(p);
    for (const [v, share] of q.entries()) {
      const inVector = count.subarray(starts[v]!, starts[v + 1]!).reduce((s, x) => s + x, 0);
      expect(Math.abs(inVector - 3000 * share)).toBeLessThan(5 * Math.sqrt(3000 * share * (1 - share)));
    }
  });

  it("says when it is full: before a sum of delays can wrap", () => {
    // 2^(20-1) units of 1 ns hold the delays of 524 packets at 1000 ns.
    const p = parameters("n=64,m=2,vectors=1,b=20,delay=1000");
    const tap = colate.createTap({ kernels, role: "sender", seed: SEED }, p);
    tap.begin(0);
    const feed = (n: number) => {
      const batch = makeBatch(
        kernels,
        Array.from({ length: n }, () => ({ timeNs: 5, digest: [3, 3], flow: 9 }) as Row),
      );
      tap.update(batch, 0, n);
      batch.free();
    };
    feed(523);
    expect(tap.isFull!()).toBe(false);
    feed(1);
    expect(tap.isFull!()).toBe(true);
    tap.seal();
    expect(tap.isFull!()).toBe(false);
    tap.free();
  });
});

describe("the payload", () => {
  it("comes back from its bytes, and merges as its cells do", () => {
    const p = parameters("n=48,m=2,b=41,check=5,vectors=0.6/0.4");
    const cell = fc.oneof(
      fc.constant(null),
      fc.record({
        count: fc.oneof(fc.integer({ min: 1, max: 90 }), fc.integer({ min: 1, max: 2 ** 31 })),
        sum: fc.maxSafeNat().map((s) => s % 2 ** 41),
        digest: fc.nat(31),
      }),
    );
    const cells = fc.array(cell, { minLength: 48, maxLength: 48 });
    const empty = decodeCounters(seal("n=48,m=2,b=41,check=5,vectors=0.6/0.4", []), p, SEED);
    const make = (list: readonly ({ count: number; sum: number; digest: number } | null)[]): Counters => ({
      ...empty,
      count: Uint32Array.from(list, (x) => x?.count ?? 0),
      sum: Float64Array.from(list, (x) => x?.sum ?? 0),
      digest: Uint32Array.from(list, (x) => x?.digest ?? 0),
    });
    const sealed = (c: Counters) => ({
      payload: encodeCounters(c),
      packets: c.count.reduce((s, x) => s + x, 0),
    });
    fc.assert(
      fc.property(cells, cells, (one, two) => {
        const [a, b] = [make(one), make(two)];
        expect(decodeCounters(sealed(a), p, SEED)).toEqual(a);
        const merged = mergeCounters(a, b);
        for (let c = 0; c < 48; c++) {
          const sum = BigInt(a.sum[c]!) + BigInt(b.sum[c]!);
          expect(merged.sum[c]).toBe(Number(BigInt.asUintN(41, sum)));
        }
        expect(mergeCounters(b, a)).toEqual(merged);
      }),
      { numRuns: 100, seed: 2 },
    );
  });

  it("takes b + check bits per cell in use and as many as the count needs", () => {
    const random = new Random(3);
    const rows = Array.from({ length: 100_000 }, (_, i) => ({
      timeNs: i * 1000,
      digest: [random.uint32(), random.uint32()] as [number, number],
      flow: random.below(3000),
    }));
    const { payload } = seal("n=1000,m=2,vectors=1,b=26,check=0,delay=1", rows, { size: 2000 });
    const bitsPerCell = (8 * payload.length) / 1000;
    // 100 packets per cell: 7 bits of count, and less than 3 bits for the length of the count.
    expect(bitsPerCell).toBeGreaterThan(26 + 7);
    expect(bitsPerCell).toBeLessThan(26 + 10);
  });

  it("of another geometry is refused by the name of what differs", () => {
    const two = (a: string, b: string) => () => ask(parameters(a), seal(a, []), seal(b, []), []);
    expect(two("n=64,m=2", "n=128,m=2")).toThrow("the receiver's vector has n=128, not n=64");
    expect(two("n=64,m=2", "n=64,m=4")).toThrow("m=4, not m=2");
    expect(two("n=64,m=2,b=40", "n=64,m=2,b=41")).toThrow("b=41, not b=40");
    expect(two("n=64,m=2,unit=1", "n=64,m=2,unit=2")).toThrow("unit=2, not unit=1");
    expect(two("n=64,m=2,vectors=1", "n=64,m=2,vectors=0.5/0.5")).toThrow("vectors=2, not vectors=1");
    expect(two("n=64,m=2,vectors=0.4/0.6", "n=64,m=2,vectors=0.5/0.5")).toThrow(FormatError);
  });

  it("parameters that cannot work are refused", () => {
    for (const text of [
      "m=1,vectors=1",
      "n=64,m=40",
      "unit=3",
      "vectors=0.5/0.2",
      "vectors=0.5/0.5,shares=1",
      "b=8,delay=1e9",
    ]) {
      expect(() => parameters(text), text).toThrow(UsageError);
    }
  });
});

function ask(
  p: ColateParameters,
  sender: SealedEpoch,
  receiver: SealedEpoch,
  flows: readonly { flow: number; packets: number }[],
  complete = true,
): EstimatorAnswer {
  const known: KnownFlows = {
    count: flows.length,
    hash: Uint32Array.from(flows.flatMap((f) => [f.flow, 0])),
    packets: Float64Array.from(flows, (f) => f.packets),
    bytes: new Float64Array(flows.length),
    keyWords: new Uint32Array(10 * flows.length),
    complete,
  };
  return colate.estimate({
    parameters: p,
    seed: SEED,
    sender,
    receiver,
    flows: known,
    confidence: 0.95,
    epochNs: 1e9,
  });
}

interface Fate extends Row {
  digest: [number, number];
  flow: number;
  delayNs: number;
}

/** Packets of flows, each with its own delay plus jitter. */
function traffic(
  sizes: readonly number[],
  delayOf: (flow: number, random: Random) => number,
  seed = 5,
): Fate[] {
  const random = new Random(seed);
  const rows: Fate[] = [];
  for (const [flow, size] of sizes.entries()) {
    for (let i = 0; i < size; i++) {
      rows.push({
        timeNs: random.below(1e9),
        digest: [random.uint32(), random.uint32()],
        flow: flow + 1,
        delayNs: Math.round(delayOf(flow, random)),
      });
    }
  }
  return rows;
}
const arrived = (rows: readonly Fate[]) => rows.map((r) => ({ ...r, timeNs: r.timeNs + r.delayNs }));
const listOf = (sizes: readonly number[]) => sizes.map((packets, i) => ({ flow: i + 1, packets }));
const meanOf = (rows: readonly Fate[], flow: number) => {
  const own = rows.filter((r) => r.flow === flow);
  return own.reduce((s, r) => s + r.delayNs, 0) / own.length;
};

describe("answers", () => {
  const sizes = [900, 400, 300, 50, 20, 5, 1];
  const delay = (flow: number, random: Random) => 1000 * (flow + 1) * (1 + 0.2 * random.normal());
  const rows = traffic(sizes, delay);

  it("of flows that own their counters are exact, mean and deviation, and so is the segment's", () => {
    const text = "n=60000,m=16,vectors=1";
    const answer = ask(parameters(text), seal(text, rows), seal(text, arrived(rows)), listOf(sizes));
    const all = rows.reduce((s, r) => s + r.delayNs, 0) / rows.length;
    expect(answer.segment!.mean).toEqual({ valueNs: all, lowNs: all, highNs: all });
    expect(answer.segment).toMatchObject({ lost: 0, coverage: 1, packetsUsed: rows.length });
    for (const { flow, mean, stdev, packets, lost } of answer.flows.slice(0, 4)) {
      if (isNoAnswer(mean) || isNoAnswer(stdev)) throw new Error(`flow ${flow}: no answer`);
      const truth = meanOf(rows, flow + 1);
      expect(Math.abs(mean.valueNs / truth - 1)).toBeLessThan(0.01);
      expect(mean.lowNs).toBeLessThanOrEqual(truth);
      expect(mean.highNs).toBeGreaterThanOrEqual(truth);
      // Sixteen counters: four times the relative standard deviation sqrt(2/15)/2.
      expect(Math.abs(stdev.valueNs / (0.2 * truth) - 1)).toBeLessThan(0.73);
      expect({ packets, lost }).toEqual({ packets: sizes[flow], lost: 0 });
    }
  });

  it("give an unbiased standard deviation for flows that own their counters, in intervals that hold", () => {
    const text = "n=60000,m=16,vectors=1";
    const runs = 60;
    let squares = 0;
    let inside = 0;
    for (let run = 0; run < runs; run++) {
      const some = traffic([50, 200, 90], delay, 100 + run);
      const { flows } = ask(
        parameters(text),
        seal(text, some),
        seal(text, arrived(some)),
        listOf([50, 200, 90]),
      );
      const { stdev } = flows[0]!;
      if (isNoAnswer(stdev)) throw new Error(stdev.text);
      squares += (stdev.valueNs / 200) ** 2;
      if (stdev.lowNs <= 200 && 200 <= stdev.highNs) inside++;
    }
    // The mean of 60 runs has a standard deviation of sqrt(2 / 15 / 60) = 0.047; the limit is four of them.
    expect(Math.abs(squares / runs - 1)).toBeLessThan(0.19);
    // At 95 %, at least 50 of 60 intervals contain the truth, except in one case of 10,000.
    expect(inside).toBeGreaterThanOrEqual(50);
  });

  it("are right for negative delays and across the wrap of the sums", () => {
    const text = "n=60000,m=8,vectors=1,b=22,delay=1000";
    const back = traffic([400, 300], (flow) => -700 - 100 * flow);
    const answer = ask(parameters(text), seal(text, back), seal(text, arrived(back)), listOf([400, 300]));
    const means = answer.flows.map(({ mean }) => (isNoAnswer(mean) ? Number.NaN : mean.valueNs));
    expect(means[0]).toBeCloseTo(-700, 2);
    expect(means[1]).toBeCloseTo(-800, 2);
  });

  it("leave out the counters that lost a packet, and only those", () => {
    const text = "n=60000,m=32,vectors=1";
    const kept = rows.filter((_, i) => i % 100 !== 7);
    const answer = ask(parameters(text), seal(text, rows), seal(text, arrived(kept)), listOf(sizes));
    expect(answer.segment!.lost).toBe(rows.length - kept.length);
    expect(answer.segment!.coverage).toBeLessThan(1);
    expect(answer.segment!.coverage).toBeGreaterThan(0.5);
    const { mean, lost } = answer.flows[0]!;
    if (isNoAnswer(mean)) throw new Error(mean.text);
    expect(Math.abs(mean.valueNs / meanOf(kept, 1) - 1)).toBeLessThan(0.03);
    expect(lost).toBe(9);
  });

  it("give the reason where every counter of a flow lost a packet", () => {
    const text = "n=60000,m=2,vectors=1";
    const kept = rows.filter((r, i) => r.flow !== 1 || i % 50 !== 0);
    const { flows, notes } = ask(
      parameters(text),
      seal(text, rows),
      seal(text, arrived(kept)),
      listOf(sizes),
    );
    expect(flows[0]!.mean).toMatchObject({ reason: "no-usable-cells" });
    expect(flows[1]!.mean).toHaveProperty("valueNs");
    expect(notes.join()).toContain("no usable counter");
  });

  it("do not trust counters that hold more packets than their bits allow", () => {
    const text = "n=60000,m=2,vectors=1,b=20,delay=2000";
    const { flows, notes } = ask(
      parameters(text),
      seal(text, rows),
      seal(text, arrived(rows)),
      listOf(sizes),
    );
    // 262 packets at 2000 ns fill 19 bits, and flow 1 has 450 in each of its counters.
    expect(flows[0]!.mean).toMatchObject({ reason: "no-usable-cells" });
    expect(flows[2]!.mean).toHaveProperty("valueNs");
    expect(notes.join()).toContain("more packets than their bits allow");
  });

  it("notice counters whose packets were exchanged, by their digests or by their size", () => {
    const own = Array.from({ length: 400 }, () => 30);
    const many = traffic(own, (_, random) => 50_000 + 5000 * random.normal(), 8);
    for (const check of [16, 0]) {
      const text = `n=20000,m=4,vectors=1,check=${check}`;
      const p = parameters(text);
      // Four packets are lost and replaced by four packets of the same counters half an epoch later. One more is lost, and one appears.
      const heard = arrived(many).filter((_, i) => i !== 77);
      for (const i of [10, 2010, 4010, 6010]) {
        const { digest, flow, timeNs } = heard[i]!;
        let low = digest[1];
        do low = (low + 12_345) >>> 0;
        while (cellOf(p, [digest[0], low], flow) !== cellOf(p, digest, flow));
        heard[i] = {
          ...heard[i]!,
          digest: [digest[0], low],
          timeNs: timeNs < 5e8 ? timeNs + 5e8 : timeNs - 5e8,
        };
      }
      heard.push({ ...heard[5]!, digest: [1, 2], flow: 9999 });
      const answer = ask(p, seal(text, many), seal(text, heard), listOf(own));
      expect(answer.notes.join(), text).toContain(
        "4 counters left out: equal counts at both ends, but different packets",
      );
      const { mean } = answer.segment!;
      if (isNoAnswer(mean)) throw new Error(mean.text);
      expect(Math.abs(mean.valueNs - 50_000), text).toBeLessThan(300);
    }
  });

  it("for flows without a count come from the counters where they stand out, and are refused elsewhere", () => {
    const text = "n=2000,m=4,vectors=1";
    const crowd = traffic([3000, ...Array.from({ length: 800 }, () => 3)], delay, 9);
    const named = [
      { flow: 1, packets: Number.NaN },
      { flow: 5, packets: Number.NaN },
    ];
    const { flows, notes } = ask(
      parameters(text),
      seal(text, crowd),
      seal(text, arrived(crowd)),
      named,
      false,
    );
    expect(Math.abs(flows[0]!.packets! / 3000 - 1)).toBeLessThan(0.05);
    expect(flows[0]!.mean).toHaveProperty("valueNs");
    expect(notes.join()).toContain("estimated from the counters");
    expect(flows[1]!.mean).toMatchObject({ reason: "too-much-noise" });
    expect(flows[1]!.packets).toBeNull();
  });

  it("refuse a segment whose ends saw different packets", () => {
    const text = "n=256,m=2";
    const elsewhere = traffic(sizes, delay, 6);
    const answer = ask(parameters(text), seal(text, rows), seal(text, arrived(elsewhere)), listOf(sizes));
    expect(answer.segment!.mean).toMatchObject({ reason: "foreign-packets" });
  });
});
