import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { normalCdf } from "../../base/math/special.ts";
import { Random } from "../../base/random.ts";
import { baselineOf, scoreOf } from "./baseline.ts";

/** A process with memory and any distribution of values, given by its inverse. */
function series(random: Random, memory: number, inverse: (g: number) => number): number[] {
  let state = random.normal();
  return Array.from({ length: 300 }, () => {
    state = memory * state + Math.sqrt(1 - memory * memory) * random.normal();
    return inverse(state);
  });
}
const exponential = (g: number) => -Math.log(Math.max(1e-15, 1 - normalCdf(g)));

describe("the baseline", () => {
  // The threshold of a spike for 300 epochs is 2.35 + 2/sqrt(300) = 2.47. At most 1 in 100 series may reach it by chance.
  it.each([
    ["normal", 0.5, (g: number) => 1000 + 100 * g],
    ["exponential", 0, (g: number) => 1000 * exponential(g)],
    ["lognormal", 0.8, (g: number) => 1000 * Math.exp(0.7 * g)],
    ["slow lognormal", 0.95, (g: number) => 1000 * Math.exp(0.5 * g)],
    ["Weibull", 0.7, (g: number) => 1000 * exponential(g) ** (1 / 0.7)],
  ])("gives ordinary %s noise no score of a spike", (name, memory, inverse) => {
    const random = new Random(name);
    let high = 0;
    for (let i = 0; i < 400; i++) {
      const values = series(random, memory, inverse);
      const baseline = baselineOf(values, 1);
      if (Math.max(...values.map((v) => scoreOf(baseline, v))) >= 2.47) high++;
    }
    expect(high).toBeLessThanOrEqual(4);
  });

  it("is not moved much by a third of disturbed epochs", () => {
    const random = new Random(4);
    const calm = Array.from({ length: 60 }, () => 1000 + 50 * random.normal());
    const disturbed = [...calm, ...Array.from({ length: 30 }, () => 90_000 + 1000 * random.normal())];
    expect(Math.abs(baselineOf(disturbed, 1).median - baselineOf(calm, 1).median)).toBeLessThan(50);
    expect(scoreOf(baselineOf(disturbed, 1), 90_000)).toBeGreaterThan(4);
  });

  it("the score does not change when a series is shifted or stretched", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 10, maxLength: 50 }),
        fc.integer({ min: -1e6, max: 1e6 }),
        fc.constantFrom(2, 64, 1024),
        (values, shift, stretch) => {
          const plain = baselineOf(values, 1);
          const moved = baselineOf(
            values.map((v) => v * stretch + shift),
            stretch,
          );
          expect(scoreOf(moved, 2000 * stretch + shift)).toBeCloseTo(scoreOf(plain, 2000), 6);
        },
      ),
      { numRuns: 200, seed: 32 },
    );
  });
});
