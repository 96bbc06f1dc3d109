import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { Kernels } from "../../../base/kernels.ts";
import { Random } from "../../../base/random.ts";
import { CellTable, histogramOf } from "../cell-table.ts";
import { type Centres, centreOf, nearestCentres } from "./centres.ts";
import { epochCentres } from "./epoch-centres.ts";
import { logarithmicCentres } from "./logarithmic.ts";
import { OnlineMedians } from "./online-medians.ts";
import { CentrePipeline } from "./pipeline.ts";

let kernels: Kernels;
beforeAll(() => {
  kernels = new Kernels();
});

function histogram(delays: Float64Array) {
  const at = kernels.alloc(8 * delays.length);
  kernels.f64.set(delays, at >>> 3);
  const found = histogramOf(kernels, at, delays.length);
  kernels.free(at);
  return found;
}

const cost = (centres: Centres, delays: Float64Array) =>
  delays.reduce((sum, d) => sum + Math.abs(d - centres.valuesNs[centreOf(centres, d)]!), 0) / delays.length;

describe("centres", () => {
  test("logarithmic centres lie in the middle of equal parts of each decade", () => {
    const { valuesNs } = logarithmicCentres(50);
    expect(valuesNs.length).toBe(50);
    expect(Array.from(valuesNs.subarray(0, 3))).toEqual([145, 235, 325]);
    expect(valuesNs[49]).toBe(9_550_000);
    expect(logarithmicCentres(7, { lowNs: 1000, highNs: 5e6 }).valuesNs.length).toBe(7);
    expect(() => logarithmicCentres(5, { lowNs: 10, highNs: 10 })).toThrow(/not a range/);
  });

  test("a delay belongs to the nearest centre, in the kernel too", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: -5_000_000, max: 2_000_000_000 }), { minLength: 1, maxLength: 40 }),
        fc.array(fc.integer({ min: -6_000_000, max: 3_000_000_000 }), { minLength: 1, maxLength: 40 }),
        (values, delays) => {
          const centres = nearestCentres(values);
          const cells = new CellTable(kernels, centres);
          const [at, codes] = [kernels.alloc(8 * delays.length), kernels.alloc(2 * delays.length)];
          kernels.f64.set(delays, at >>> 3);
          cells.assign(at, codes, delays.length);
          const got = Array.from({ length: delays.length }, (_, i) =>
            new DataView(kernels.memory.buffer).getUint16(codes + 2 * i, true),
          );
          const sums = cells.sums();
          cells.free();
          kernels.free(at);
          kernels.free(codes);
          delays.forEach((d, i) => {
            const minimum = Math.min(...centres.valuesNs.map((v) => Math.abs(v - d)));
            expect(Math.abs(centres.valuesNs[got[i]!]! - d)).toBe(minimum);
            expect(centreOf(centres, d)).toBe(got[i]);
          });
          sums.forEach((cell, c) => {
            const mine = delays.filter((_, i) => got[i] === c);
            expect(cell.count).toBe(mine.length);
            expect(cell.sum).toBe(mine.reduce((s, d) => s + BigInt(d - cell.baseNs), 0n));
            expect(cell.squares).toBe(mine.reduce((s, d) => s + BigInt(d - cell.baseNs) ** 2n, 0n));
            expect(cell.minNs).toBe(Math.min(...mine));
            expect(cell.maxNs).toBe(Math.max(...mine));
          });
        },
      ),
      { numRuns: 200, seed: 5 },
    );
  });

  test("centres of an epoch's own delays: every delay in exactly one group, fewer groups than delays allowed", () => {
    const random = new Random(3);
    const delays = Float64Array.from({ length: 20_000 }, () => Math.round(random.lognormal(11, 1.4)));
    for (const k of [1, 7, 64, 400]) {
      const centres = epochCentres(histogram(delays), k, { scale: "log" });
      expect(centres.valuesNs.length).toBe(k);
      for (let c = 0; c < k; c++) {
        expect(centres.valuesNs[c]!).toBeLessThan(centres.uppersNs[c]!);
        if (c > 0) expect(centres.valuesNs[c]!).toBeGreaterThanOrEqual(centres.uppersNs[c - 1]!);
      }
    }
    expect(epochCentres(histogram(Float64Array.of(5, 5, 900)), 64, { scale: "log" }).valuesNs).toEqual(
      Float64Array.of(5, 900),
    );
  });

  test("negative delays (clocks apart) are clustered like positive ones", () => {
    const random = new Random(4);
    const delays = Float64Array.from({ length: 5000 }, () => Math.round(1e5 * random.normal()));
    const { valuesNs } = epochCentres(histogram(delays), 64, { scale: "log" });
    expect(valuesNs[0]!).toBeLessThan(-1e5);
    const errors = delays.map((d) => Math.min(...valuesNs.map((v) => Math.abs(v - d))) / (Math.abs(d) + 500));
    expect(errors.sort()[2500]!).toBeLessThan(0.05);
  });

  test("online medians are few, and their reduction costs at most twice the best", () => {
    const random = new Random(11);
    const delays = Float64Array.from({ length: 40_000 }, () => Math.round(random.lognormal(11, 1.3)));
    const online = new OnlineMedians(50, delays.length, new Random(1));
    for (const d of delays) online.add(d);
    const { valuesNs, weights } = online.candidates();
    expect(weights.reduce((a, b) => a + b)).toBe(delays.length);
    expect(valuesNs.length).toBeLessThan(2 * 50 * (1 + Math.log2(delays.length)));
    expect(valuesNs.length).toBeGreaterThan(100);
    expect(online.phases).toBeGreaterThan(3);
    const best = cost(epochCentres(histogram(delays), 50, { scale: "absolute" }), delays);
    const pipe = new CentrePipeline({ strategy: "kmedians", k: 50, sampling: 1, random: new Random(2) });
    pipe.observe(delays);
    pipe.endEpoch();
    pipe.endEpoch();
    expect(pipe.current.valuesNs.length).toBe(50);
    expect(cost(pipe.current, delays)).toBeLessThan(2 * best);
  });

  test("what an epoch teaches serves the one after the next", () => {
    const pipe = new CentrePipeline({ strategy: "kmedians", k: 4, sampling: 1, random: new Random(2) });
    const start = pipe.current;
    pipe.observe(Float64Array.from({ length: 100 }, (_, i) => 1000 + i));
    pipe.endEpoch();
    expect(pipe.current).toBe(start);
    pipe.observe(Float64Array.from({ length: 100 }, (_, i) => 50_000 + i));
    pipe.endEpoch();
    expect(Math.max(...pipe.current.valuesNs)).toBeLessThan(1100);
    expect(pipe.current.shares!.reduce((a, b) => a + b)).toBeCloseTo(1, 9);
    pipe.endEpoch();
    expect(Math.min(...pipe.current.valuesNs)).toBeGreaterThanOrEqual(50_000);
    // Nothing can be learned from an epoch without packets, so the centres stay.
    pipe.endEpoch();
    expect(Math.min(...pipe.current.valuesNs)).toBeGreaterThanOrEqual(50_000);
  });

  test("hybrid centres keep half of them logarithmic", () => {
    const pipe = new CentrePipeline({ strategy: "hybrid", k: 50, sampling: 1, random: new Random(2) });
    pipe.observe(Float64Array.from({ length: 5000 }, (_, i) => 40_000 + i));
    pipe.endEpoch();
    pipe.endEpoch();
    const half = logarithmicCentres(25).valuesNs;
    const values = new Set(pipe.current.valuesNs);
    expect(half.every((v) => values.has(v))).toBe(true);
    expect([...values].filter((v) => v >= 40_000 && v < 45_000).length).toBeGreaterThanOrEqual(24);
  });
});
