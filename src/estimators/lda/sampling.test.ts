import { describe, expect, it } from "vitest";
import { UsageError } from "../../base/errors.ts";
import { parseParameters } from "../parameters.ts";
import { lda } from "./lda.ts";
import { expectedSample, hashRanges, leadingZeroSampling, tunedSampling } from "./sampling.ts";

describe("sampling of banks", () => {
  it("with a known loss is best where a row expects one loss: alpha = 1", () => {
    const [packets, loss, rows] = [5e6, 0.01, 1024];
    const sample = (alpha: number) => {
      const sampling = tunedSampling(packets, [loss], rows, alpha);
      return expectedSample(sampling, rows, packets * (1 - loss), packets * loss);
    };
    for (const alpha of [0.25, 0.5, 0.8, 1.25, 2]) expect(sample(alpha)).toBeLessThan(sample(1));
    // The paper's choice reaches 82 % of the best.
    expect(sample(0.5) / sample(1)).toBeCloseTo(0.5 * Math.exp(0.5), 3);
  });

  it("by leading zero bits is the paper's example: 3 and 7 bits are 1/8 - 1/128 and 1/128", () => {
    const { from, limit } = hashRanges([2 ** -3 - 2 ** -7, 2 ** -7]);
    expect(limit).toBe(1n << 29n);
    expect(from).toEqual([1n << 25n, 0n]);
  });

  it("samples every packet in one of the banks where nothing is known", () => {
    for (const banks of [1, 2, 3, 4, 7]) {
      const sampling = leadingZeroSampling(banks);
      expect(sampling.reduce((s, p) => s + p, 0)).toBe(1);
      expect(hashRanges(sampling).limit).toBe(1n << 32n);
      for (let i = 1; i < banks; i++) expect(sampling[i]!).toBeLessThan(sampling[i - 1]!);
    }
  });

  it("shares the packets where the banks want more than all of them", () => {
    const sampling = tunedSampling(1000, [0.005, 0.1], 512, 1);
    expect(sampling).toEqual([0.5, 0.5]);
  });
});

describe("parameters of an LDA", () => {
  const parse = (text: string) => parseParameters(lda, text);

  it("are the paper's configurations of 1024 counters when packets are given", () => {
    expect(parse("packets=5e6")).toMatchObject({ banks: 2, rows: 512, loss: [0.005, 0.1] });
    expect(parse("packets=5e6,banks=3")).toMatchObject({ banks: 3, rows: 341, loss: [0.001, 0.01, 0.1] });
    expect(parse("packets=5e6,banks=4")).toMatchObject({
      banks: 4,
      rows: 256,
      loss: [0.001, 0.01, 0.05, 0.1],
    });
    expect(parse("packets=5e6,loss=0.02")).toMatchObject({ banks: 1, rows: 1024, loss: [0.02] });
    const { sampling } = parse("packets=5e6,alpha=0.5");
    expect(sampling[0]).toBeCloseTo((0.5 * 512) / 25_001, 12);
    expect(sampling[1]).toBeCloseTo((0.5 * 512) / 500_001, 12);
  });

  it("sample all packets in four banks by default", () => {
    expect(parse("")).toMatchObject({
      banks: 4,
      rows: 256,
      sampling: [15 / 16, 15 / 256, 15 / 4096, 1 / 4096],
    });
  });

  it.each([
    ["loss=0.01", /needs packets/],
    ["banks=1,packets=100", /no default loss rates/],
    ["banks=3,sampling=0.5/0.1", /2 values/],
    ["banks=3,packets=10,loss=0.1/0.2", /2 values/],
    ["sampling=0.9/0.2", /disjoint/],
    ["sampling=0/0.2", /disjoint/],
    ["rows=1", /two rows/],
    ["rows=1.5", /whole number/],
    ["deviation=best", /residual, paper/],
  ])("refuse %s and say why", (text, why) => {
    expect(() => parse(text)).toThrow(UsageError);
    expect(() => parse(text)).toThrow(why);
  });
});
