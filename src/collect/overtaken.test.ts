import fc from "fast-check";
import { expect, it } from "vitest";
import { type ApartEpoch, overtakenAlong } from "./overtaken.ts";

const MOST = 100;
const epoch = (lost: number, appeared: number, most = MOST): ApartEpoch => ({ lost, appeared, most });

function found(chain: readonly ApartEpoch[]) {
  const { total, ofEpoch } = overtakenAlong(chain);
  return { total, likely: ofEpoch.map((e) => e.likely), most: ofEpoch.map((e) => e.most) };
}

it("finds what is missing in one epoch and appears in the next or the one before", () => {
  expect(found([epoch(7, 0), epoch(0, 7)])).toEqual({ total: 7, likely: [7, 0], most: [7, 0] });
  expect(found([epoch(0, 7), epoch(7, 0)])).toEqual({ total: 7, likely: [0, 7], most: [0, 7] });
});

it("follows packets through epochs whose cells hide them: as many come in as leave", () => {
  // Slow flows over parallel paths, as measured: 55 are missing in the fifth epoch, 27 appear in the sixth, and 28 in the seventh.
  const shown = [
    epoch(0, 0),
    epoch(7, 0),
    epoch(1, 9),
    epoch(13, 1),
    epoch(55, 11),
    epoch(0, 27),
    epoch(0, 28),
  ];
  expect(found(shown)).toMatchObject({ total: 76, likely: [0, 7, 1, 13, 55, 0, 0] });
});

it("takes no more than may have gone over a cut, and loss that nowhere appears stays loss", () => {
  expect(overtakenAlong([epoch(500, 0, 20), epoch(0, 0, 20), epoch(0, 500, 20)]).total).toBe(20);
  expect(found([epoch(50, 0), epoch(60, 3), epoch(40, 0)])).toEqual({
    total: 3,
    likely: [3, 0, 0],
    most: [3, 0, 3],
  });
  expect(found([epoch(5, 5)])).toEqual({ total: 0, likely: [0], most: [0] });
});

it("explains no more than appeared, and of no epoch more than it misses", () => {
  const chains = fc.array(fc.record({ lost: fc.nat(50), appeared: fc.nat(50), most: fc.nat(80) }), {
    maxLength: 12,
  });
  fc.assert(
    fc.property(chains, (chain) => {
      const { total, ofEpoch } = overtakenAlong(chain);
      expect(total).toBeLessThanOrEqual(chain.reduce((sum, e) => sum + e.appeared, 0));
      for (const [i, { lost }] of chain.entries()) expect(ofEpoch[i]?.most).toBeLessThanOrEqual(lost);
    }),
    { numRuns: 300, seed: 1 },
  );
});
