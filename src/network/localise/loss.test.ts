import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lgamma } from "../../base/math/special.ts";
import { Random } from "../../base/random.ts";
import { estimate } from "../../evaluate/path-noise.ts";
import { burstiness, burstyLossRate, chanceOfLoss, countLoss, judgeStretches, lossValue } from "./loss.ts";

const epoch = (t: number, sent: number, lost: number, lostError?: number) =>
  estimate("A", "B", t, 1000, 100, { packets: sent - lost, lost, lostError });

/** P(X >= k), term by term. */
function tailTwin(k: number, mean: number, spread: number): number {
  const r = mean / (spread - 1);
  const q = 1 / spread;
  let below = 0;
  for (let x = 0; x < k; x++)
    below += Math.exp(lgamma(x + r) - lgamma(r) - lgamma(x + 1) + r * Math.log(q) + x * Math.log(1 - q));
  return 1 - below;
}

describe("ordinary loss", () => {
  it("its chance is the tail of the negative binomial, summed term by term", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 100, max: 5000 }),
        fc.integer({ min: 0, max: 400 }),
        fc.integer({ min: 1000, max: 200_000 }),
        fc.double({ min: 1, max: 20, noNaN: true }),
        (lost, sent, before, beforeSent, phi) => {
          const chance = chanceOfLoss(
            { sent, lost: Math.min(lost, sent), error: 0 },
            { sent: beforeSent, lost: before, error: 0 },
            phi,
          );
          const mean = (sent * (before + phi / 2)) / beforeSent;
          const twin = tailTwin(Math.min(lost, sent), mean, phi * (1 + sent / beforeSent));
          expect(Math.abs(chance - twin)).toBeLessThan(1e-9);
        },
      ),
      { numRuns: 300, seed: 71 },
    );
  });

  it("is calibrated: below a chance of 5 % in at most 5 % of draws, each with its own baseline", () => {
    // 2,000 draws of single losses; more than 6.7 % would have a probability of 0.03 % if 5 % were the truth. Counts are whole numbers, so less is usual.
    const random = new Random("chance");
    let rare = 0;
    for (let i = 0; i < 2000; i++) {
      const rate = 1e-3 * 10 ** random.float();
      const baseline = { sent: 20_000, lost: random.poisson(20_000 * rate), error: 0 };
      const seen = { sent: 2000, lost: random.poisson(2000 * rate), error: 0 };
      if (chanceOfLoss(seen, baseline, 1) < 0.05) rare++;
    }
    expect(rare / 2000).toBeLessThan(0.067);
    expect(rare / 2000).toBeGreaterThan(0.015);
  });

  it("bursts are distinguished from single losses", () => {
    const random = new Random("bursts");
    const single = Array.from({ length: 300 }, (_, t) => epoch(t, 1000, random.poisson(2)));
    const bursts = Array.from({ length: 300 }, (_, t) => epoch(t, 1000, 8 * random.poisson(0.25)));
    // The standard error of the factor is sqrt(2 / 300) for single losses, about phi sqrt(2/300 + 1/75) for bursts of 8: 5 of them.
    expect(Math.abs(burstiness(single) - 1)).toBeLessThan(0.41);
    expect(Math.abs(burstiness(bursts) - 8)).toBeLessThan(5.7);
    const wide = burstyLossRate(countLoss(bursts), burstiness(bursts), 1.96)!;
    const narrow = burstyLossRate(countLoss(bursts), 1, 1.96)!;
    expect(wide.high - wide.low).toBeGreaterThan(2 * (narrow.high - narrow.low));
  });

  it("an interval of bursty loss holds the truth as often as it says", () => {
    // 95 % intervals whose factor is itself estimated from 60 epochs; 400 draws: below 91 % would have a probability of 0.05 %.
    const random = new Random("bursty interval");
    let held = 0;
    for (let i = 0; i < 400; i++) {
      const epochs = Array.from({ length: 60 }, (_, t) => epoch(t, 1000, 5 * random.poisson(1)));
      const { low, high } = burstyLossRate(countLoss(epochs), burstiness(epochs), 1.96)!;
      if (low <= 0.005 && 0.005 <= high) held++;
    }
    expect(held / 400).toBeGreaterThan(0.91);
  });

  it("one burst among epochs that lost nothing is not rare, a lasting loss is", () => {
    const calm = Array.from({ length: 60 }, (_, t) => epoch(t, 1000, 0));
    const burst = calm.with(20, epoch(20, 1000, 15));
    const lasting = calm.map((e, t) => (t >= 20 && t < 26 ? epoch(t, 1000, 30) : e));
    expect(judgeStretches(burst, [{ first: 20, last: 20 }], 1e-4)[0]!.chance).toBeGreaterThan(1e-4);
    expect(judgeStretches(lasting, [{ first: 20, last: 25 }], 1e-4)[0]!.chance).toBeLessThan(1e-7);
  });

  it("two lasting losses do not hide each other", () => {
    const random = new Random("two");
    const slow = [
      { first: 20, last: 29 },
      { first: 60, last: 69 },
    ];
    const column = Array.from({ length: 120 }, (_, t) =>
      epoch(t, 1000, random.poisson(slow.some((s) => s.first <= t && t <= s.last) ? 20 : 1)),
    );
    for (const { chance } of judgeStretches(column, slow, 1e-4)) expect(chance).toBeLessThan(1e-8);
  });

  it("what packets in flight over an edge may have made is no loss", () => {
    const column = Array.from({ length: 40 }, (_, t) =>
      epoch(t, 1000, t === 20 ? 30 : t === 21 ? -30 : 0, 20),
    );
    expect(judgeStretches(column, [{ first: 20, last: 20 }], 1e-4)[0]!.chance).toBe(1);
    expect(countLoss(column).lost).toBe(0);
    expect(lossValue(column[20]!).error).toBeGreaterThan(0.02);
  });

  it("an epoch in which nothing was sent has no share lost", () => {
    expect(lossValue(epoch(0, 0, 0)).value).toBeNull();
    expect(burstyLossRate({ sent: 0, lost: 0, error: 0 }, 1, 1.96)).toBeNull();
  });
});
