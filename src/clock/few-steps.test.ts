import { expect, test } from "vitest";
import { Random } from "../base/random.ts";
import type { EnvelopePoints } from "./envelope.ts";
import { stepOfFew } from "./few-steps.ts";

const SPAN = 60e9;

/** Makes `packets` of one direction at random times: 5 ms plus queueing, plus the clock difference. */
function points(dice: Random, packets: number, clock: (t: number) => number): EnvelopePoints {
  const timeNs = Float64Array.from({ length: packets }, () => dice.float() * SPAN).sort();
  const valueNs = timeNs.map((t) => 5e6 + dice.exponential(1e6) + clock(t));
  return { timeNs, valueNs, count: new Float64Array(packets).fill(1), length: packets };
}

function found(seed: number, packets: number, clock: (t: number) => number) {
  const dice = new Random(`few ${seed}`);
  const back = (t: number) => -clock(t);
  return stepOfFew(points(dice, packets, clock), points(dice, packets, back), 2);
}

test("a clock that is set during a capture of 30 packets is found, with its size and place", () => {
  let seen = 0;
  for (let seed = 1; seed <= 100; seed++) {
    const [at, sizeNs] = [(0.25 + (seed % 50) / 100) * SPAN, seed % 2 === 0 ? 15e6 : -300e6];
    const step = found(seed, 15, (t) => (t > at ? sizeNs : 0));
    if (!step) continue;
    seen++;
    expect(Math.abs(step.sizeNs - sizeNs)).toBeLessThan(5e6);
    expect(Math.abs(step.atNs - at)).toBeLessThan(SPAN / 3);
  }
  expect(seen).toBeGreaterThan(80);
});

test("a clock that is set is found where the way back shows it a round trip later, a tenth of the capture", () => {
  let seen = 0;
  for (let seed = 1; seed <= 50; seed++) {
    const dice = new Random(`late ${seed}`);
    const at = (0.2 + 0.6 * dice.float()) * SPAN;
    const there = points(dice, 40, (t) => (t > at ? 15e6 : 0));
    const back = points(dice, 40, (t) => (t > at + SPAN / 10 ? -15e6 : 0));
    // The round trip is the sum of both minima.
    for (let i = 0; i < back.length; i++) back.valueNs[i]! += SPAN / 10;
    const step = stepOfFew(there, back, 2);
    if (!step) continue;
    seen++;
    expect(Math.abs(step.sizeNs - 15e6)).toBeLessThan(5e6);
    expect(Math.abs(step.atNs - at)).toBeLessThan(SPAN / 5);
  }
  expect(seen).toBeGreaterThan(45);
});

test.each([0, 20, 200])("clocks that drift by %d ppm were not set", (ppm) => {
  let claimed = 0;
  for (let seed = 1; seed <= 300; seed++) if (found(seed, 3 + (seed % 40), (t) => (ppm * t) / 1e6)) claimed++;
  expect(claimed).toBeLessThanOrEqual(1);
});

test("nor where the path of one direction became longer", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const dice = new Random(`route ${seed}`);
    const there = points(dice, 20, (t) => (t > SPAN / 2 ? 50e6 : 0));
    const back = points(dice, 20, () => 0);
    expect(stepOfFew(there, back, 2)).toBeNull();
  }
});
