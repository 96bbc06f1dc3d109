import { expect, test } from "vitest";
import { Random } from "../../base/random.ts";
import { delayAtCut } from "./crossing.ts";

const EPOCH_NS = 1e9;

/** Packets in flight behind a queue arrive evenly until the delay at the cut is over; foreign ones come at any time. */
function arrivals(seed: number, delayNs: number, inFlight: number, foreign: number): number[] {
  const random = new Random(seed);
  return [
    ...Array.from({ length: inFlight }, () => delayNs * random.float()),
    ...Array.from({ length: foreign }, () => EPOCH_NS * random.float()),
  ];
}

test("packets in flight show the delay at the cut, foreign packets among them or not", () => {
  for (let seed = 1; seed <= 20; seed++) {
    for (const foreign of [0, 40]) {
      const timesNs = arrivals(seed, 200e6, 100, foreign);
      const delayNs = delayAtCut({ timesNs, epochNs: EPOCH_NS }) ?? Number.NaN;
      // Four standard errors: 2 x 200 ms / sqrt(12 x 100), and of the foreign ones about as much.
      expect(Math.abs(delayNs - 200e6), `seed ${seed}, ${foreign} foreign`).toBeLessThan(
        foreign ? 100e6 : 46e6,
      );
    }
  }
});

test("foreign packets alone show no delay but by chance, and few packets none", () => {
  let shown = 0;
  for (let seed = 1; seed <= 200; seed++)
    if (delayAtCut({ timesNs: arrivals(seed, 0, 0, 100), epochNs: EPOCH_NS }) !== null) shown++;
  // Two standard errors on one side: 2.3 % of 200, and four deviations of that.
  expect(shown).toBeLessThan(14);
  expect(delayAtCut({ timesNs: [1e6, 2e6, 3e6], epochNs: EPOCH_NS })).toBeNull();
  expect(delayAtCut({ timesNs: [-5e6, 2e9, -1, 3e9, 4e9, 5e9], epochNs: EPOCH_NS })).toBeNull();
});
