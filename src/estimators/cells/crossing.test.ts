import { expect, test } from "vitest";
import { Random } from "../../base/random.ts";
import { delayAtCut } from "./crossing.ts";

const EPOCH_NS = 1e9;

/** Packets in flight behind a queue arrive evenly until the delay at the cut is over; foreign packets arrive at any time. */
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
      const delayNs = delayAtCut({ timesNs, epochNs: EPOCH_NS, meanNs: 40e6 })?.delayNs ?? Number.NaN;
      // Four standard errors of a median: 200 ms / sqrt(100). Foreign packets among the early ones add to it.
      expect(Math.abs(delayNs - 200e6), `seed ${seed}, ${foreign} foreign`).toBeLessThan(
        foreign ? 120e6 : 80e6,
      );
    }
  }
});

test("a few times that mean nothing do not move it", () => {
  const timesNs = [...arrivals(7, 0.5e6, 60, 0), 300e6, 400e6, 450e6];
  expect(delayAtCut({ timesNs, epochNs: EPOCH_NS, meanNs: 1e6 })?.delayNs).toBeLessThan(1e6);
});

test("foreign packets alone show no delay but by chance", () => {
  let shown = 0;
  for (let seed = 1; seed <= 200; seed++)
    if (delayAtCut({ timesNs: arrivals(seed, 0, 0, 100), epochNs: EPOCH_NS, meanNs: 10e9 })) shown++;
  // The limit of two standard errors applies to one half, but both halves vary: 8 % of 200, plus four standard deviations.
  expect(shown).toBeLessThan(32);
  const times = [-5e6, 2e9, -1, 3e9, 4e9, 5e9];
  expect(delayAtCut({ timesNs: times, epochNs: EPOCH_NS, meanNs: 1e6 })).toBeNull();
});

test("one packet that came far later than the mean allows was not in flight; one that came soon may have been", () => {
  const at = (ms: number) => delayAtCut({ timesNs: [ms * 1e6], epochNs: EPOCH_NS, meanNs: 0.1e6 });
  expect(at(400)).toBeNull();
  expect(at(20)).toEqual({ delayNs: 40e6, shown: 1 });
});
