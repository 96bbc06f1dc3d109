import { describe, expect, test } from "vitest";
import {
  bestHashes,
  combFailure,
  dimensionComb,
  dimensionPbf,
  dimensionSvbf,
  dimensionTable,
  figure4,
  ribbonCodeBits,
  svbfFailure,
} from "./dimension.ts";

describe("dimensioning (paper, tables 1 and 2, figure 4)", () => {
  test("table 1 for a failure rate of 0.1 and 50 groups", () => {
    const svbf = dimensionSvbf(0.1, 50);
    expect([svbf.hashes, svbf.insertAccesses, svbf.lookupAccesses]).toEqual([9, 9, 27]);
    expect(svbf.bitsPerPacket).toBeCloseTo(12.8, 1);
    expect(dimensionPbf(0.1, 50)).toMatchObject({ hashes: 9, insertAccesses: 9, lookupAccesses: 450 });
    const wide = dimensionComb(0.1, 50, 1);
    expect([wide.hashes, wide.insertAccesses, wide.lookupAccesses]).toEqual([9, 9, 450]);
    expect(wide.bitsPerPacket).toBeCloseTo(12.8, 1);
    const two = dimensionComb(0.1, 11, 2);
    expect([two.hashes, two.insertAccesses, two.lookupAccesses]).toEqual([7, 14, 77]);
    expect(two.bitsPerPacket).toBeCloseTo(18.5, 1);
    const three = dimensionComb(0.1, 8, 3);
    expect([three.hashes, three.insertAccesses, three.lookupAccesses]).toEqual([6, 18, 48]);
    expect(three.bitsPerPacket).toBeCloseTo(24.2, 1);
    // 24.6 slots per packet, with 6 bits each.
    expect(dimensionTable(0.02, 50).bitsPerPacket / 6).toBeCloseTo(24.6, 0);
  });

  test("what is dimensioned for a rate has that rate", () => {
    for (const failure of [0.3, 0.1, 0.01, 1e-5]) {
      for (const k of [2, 10, 50, 400]) {
        const { exactHashes, bitsPerPacket } = dimensionSvbf(failure, k);
        expect(svbfFailure(bitsPerPacket, exactHashes, k) / failure).toBeCloseTo(1, 6);
      }
      const comb = dimensionComb(failure, 8, 3);
      expect(combFailure(comb.bitsPerPacket, comb.exactHashes, 8, 3) / failure).toBeCloseTo(1, 6);
    }
  });

  test("COMB(8, 3) in the memory of an SVBF fails for half of the packets", () => {
    expect(bestHashes(12.8, 3)).toBe(3);
    expect(combFailure(12.8, 3, 8, 3)).toBeCloseTo(0.5, 2);
    expect(svbfFailure(12.8, bestHashes(12.8), 50)).toBeCloseTo(0.1, 2);
  });

  test("figure 4: four orders of magnitude fewer failures cost half an order of load", () => {
    for (const k of [10, 50, 100]) {
      const [loose, tight] = [figure4(0.1, k), figure4(1e-5, k)];
      expect(loose.alpha / tight.alpha).toBeGreaterThan(2);
      expect(loose.alpha / tight.alpha).toBeLessThan(4.5);
      expect(tight.hashes).toBeGreaterThan(loose.hashes);
    }
    expect(figure4(0.1, 100).hashes - figure4(0.1, 50).hashes).toBeLessThan(1.2);
  });

  test("stored bits of a ribbon for a rate of false positives", () => {
    expect(ribbonCodeBits(50, 0.1)).toBe(9);
    expect(ribbonCodeBits(400, 0.1)).toBe(12);
    expect(ribbonCodeBits(64, 1)).toBe(6);
  });
});
