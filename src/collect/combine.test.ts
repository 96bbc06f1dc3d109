import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Moments } from "../base/math/moments.ts";
import { Random } from "../base/random.ts";
import { type Interval, isNoAnswer, type NoAnswer } from "../estimators/estimator.ts";
import { Combination, type Contribution } from "./combine.ts";

const NONE: NoAnswer = { reason: "no-usable-cells", text: "none" };
const interval = (valueNs: number, width = 0): Interval => ({
  valueNs,
  lowNs: valueNs - width,
  highNs: valueNs + width,
});
const value = (x: Interval | NoAnswer) => (isNoAnswer(x) ? x.reason : x.valueNs);
const part = (change: Partial<Contribution>): Contribution => ({
  mean: interval(0),
  stdev: NONE,
  packets: 1,
  lost: 0,
  used: 1,
  ...change,
});

describe("combining epochs", () => {
  it("adds the errors of one flow as they are where they repeat, and those of different flows by squares", () => {
    const same = new Combination();
    const apart = new Combination();
    for (let epoch = 0; epoch < 4; epoch++) {
      same.add(part({ mean: { ...interval(10, 2), repeats: 1 }, packets: 5 }), undefined, "f");
      apart.add(part({ mean: { ...interval(10, 2), repeats: 1 }, packets: 5 }), undefined, `f${epoch}`);
    }
    expect(same.result().mean).toEqual({ valueNs: 10, lowNs: 8, highNs: 12 });
    expect(apart.result().mean).toEqual({ valueNs: 10, lowNs: 9, highNs: 11 });
  });

  it("adds bounds as they are, over epochs and flows: each may lie at the same edge", () => {
    const [direct, byStates] = [new Combination(), new Combination()];
    const mean = { ...interval(10, 2), common: { lowNs: 2, highNs: 2 } };
    const stdev = { ...interval(5, 2), bound: true };
    for (let epoch = 0; epoch < 4; epoch++)
      for (const flow of ["f", "g"]) {
        const one = part({ mean, stdev, packets: 5 });
        direct.add(one, undefined, flow);
        const row = new Combination();
        row.add(one, undefined, flow);
        byStates.addState(row.state(), flow);
      }
    for (const combined of [direct.result(), byStates.result()]) {
      expect(combined.mean).toEqual({ valueNs: 10, lowNs: 8, highNs: 12 });
      expect(combined.stdev).toEqual({ valueNs: 5, lowNs: 3, highNs: 7 });
    }
  });

  it("holds mean and deviation of all where every delay is known within bounds that lean one way", () => {
    const random = new Random(77);
    for (let run = 0; run < 200; run++) {
      const all = new Moments();
      const combination = new Combination();
      // Groups of delays, each represented by one value at their lower or upper edge.
      for (let flow = 0; flow < 2 + (run % 6); flow++) {
        const values = new Moments();
        const [level, width] = [1000 * random.float(), 200 * random.float()];
        let squares = 0;
        for (let i = 0; i < 1 + (run % 9); i++) {
          const delay = level + 300 * random.float();
          const off = run % 2 === 0 ? width : random.float() * width;
          all.add(delay);
          values.add(delay + off);
          squares += width * width;
        }
        const [mean, stdev] = [values.mean!, values.stdev ?? 0];
        const offNs = Math.sqrt(squares / values.count);
        combination.add(
          part({
            mean: { ...interval(mean, width), common: { lowNs: width, highNs: width } },
            stdev: { valueNs: stdev, lowNs: Math.max(0, stdev - offNs), highNs: stdev + offNs, bound: true },
            packets: values.count,
          }),
          undefined,
          `${flow}`,
        );
      }
      const { mean, stdev } = combination.result();
      if (isNoAnswer(mean) || isNoAnswer(stdev)) throw new Error("no answer");
      const truth = all.stdev ?? 0;
      expect(mean.lowNs - 1e-6 <= all.mean! && all.mean! <= mean.highNs + 1e-6).toBe(true);
      expect(stdev.lowNs - 1e-6 <= truth && truth <= stdev.highNs + 1e-6).toBe(true);
    }
  });

  it("adds what is common to all epochs and flows as it is: it does not average out", () => {
    const combination = new Combination();
    const mean = { ...interval(10, 3), common: { lowNs: 1, highNs: 2 } };
    for (let epoch = 0; epoch < 4; epoch++) combination.add(part({ mean, packets: 5 }));
    expect(combination.result().mean).toEqual({ valueNs: 10, lowNs: 10 - 1 - 2 / 2, highNs: 10 + 2 + 1 / 2 });
  });

  it("gives mean and deviation of all packets, as if they had been one epoch, whatever the clocks' offset", () => {
    const epoch = fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(
        fc.array(epoch, { minLength: 1, maxLength: 8 }),
        fc.constantFrom(0, 3.6e12),
        (epochs, offset) => {
          const combination = new Combination();
          const all = new Moments();
          for (const delays of epochs) {
            const own = new Moments();
            for (const d of delays) {
              own.add(d + offset);
              all.add(d + offset);
            }
            const mean = interval(own.mean!);
            combination.add(
              part({ mean, stdev: interval(own.stdev!), packets: delays.length, lost: 2, used: 1 }),
            );
          }
          const total = combination.result();
          expect(value(total.mean)).toBeCloseTo(all.mean!, 1);
          expect(value(total.stdev) as number).toBeCloseTo(all.stdev!, 1);
          expect(total).toMatchObject({
            packets: all.count,
            lost: 2 * epochs.length,
            used: epochs.length,
            answered: 1,
          });
        },
      ),
      { numRuns: 200, seed: 61 },
    );
  });

  it("narrows intervals with the square root of the epochs, and adds a shared error whole", () => {
    const independent = new Combination();
    for (let i = 0; i < 16; i++) independent.add(part({ mean: interval(100, 8), packets: 10 }));
    expect(independent.result().mean).toEqual({ valueNs: 100, lowNs: 98, highNs: 102 });
    const together = new Combination();
    for (let i = 0; i < 16; i++)
      together.add(part({ mean: interval(100, 8), packets: 10 }), { index: 0, shared: interval(90, 1.5) });
    expect(together.result().mean).toEqual({ valueNs: 100, lowNs: 97.5, highNs: 102.5 });
    const apart = new Combination();
    for (let i = 0; i < 16; i++)
      apart.add(part({ mean: interval(100, 8), packets: 10 }), { index: i, shared: interval(90, 1.5) });
    expect(apart.result().mean).toEqual({ valueNs: 100, lowNs: 98, highNs: 102 });
  });

  it("keeps the promise of its intervals: independent errors cover as often as they say", () => {
    // 95 % intervals of 20 epochs of normal errors; in 1,000 runs 931 to 969 hits, except once in 190 such tests (fixed seed).
    let state = 7;
    const uniform = () => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) + 0.5) / 2 ** 32;
    const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
    let hits = 0;
    for (let run = 0; run < 1000; run++) {
      const combination = new Combination();
      let truth = 0;
      let packets = 0;
      for (let e = 0; e < 20; e++) {
        const [mu, sigma, n] = [100 + e, 1 + (e % 5), 10 + e * 3];
        truth += mu * n;
        packets += n;
        combination.add(part({ mean: interval(mu + sigma * normal(), 1.959964 * sigma), packets: n }));
      }
      const { mean } = combination.result();
      if (!isNoAnswer(mean) && mean.lowNs <= truth / packets && truth / packets <= mean.highNs) hits++;
    }
    expect(hits).toBeGreaterThanOrEqual(931);
    expect(hits).toBeLessThanOrEqual(969);
  });

  it("keeps the promise of the deviation's interval where epochs hold a packet each, known to within a cell", () => {
    const random = new Random(23);
    const normal = () => {
      const r = Math.sqrt(-2 * Math.log(1 - random.float()));
      return r * Math.cos(2 * Math.PI * random.float());
    };
    let hits = 0;
    // Of 1,000 runs 950 are expected: fewer than 920 once in 10^5. Bounds may cover more.
    for (let run = 0; run < 1000; run++) {
      const combination = new Combination();
      const delays = Array.from({ length: 2 + (run % 8) }, () => 1000 + 100 * normal());
      const mean = delays.reduce((sum, x) => sum + x, 0) / delays.length;
      const truth = Math.sqrt(delays.reduce((sum, x) => sum + (x - mean) ** 2, 0) / delays.length);
      for (const x of delays)
        combination.add(
          part({ mean: interval(x + 20 * normal(), 1.959964 * 20), stdev: interval(0), packets: 1 }),
        );
      const { stdev } = combination.result();
      if (!isNoAnswer(stdev) && stdev.lowNs <= truth && truth <= stdev.highNs) hits++;
    }
    expect(hits).toBeGreaterThanOrEqual(920);
  });

  it("sums losses where every part with packets has one, and has none otherwise, by states too", () => {
    const [known, unknown] = [part({ lost: 3, packets: 30 }), part({ lost: null, packets: 10 })];
    const idle = part({ lost: null, packets: 0 });
    const lostOf = (...parts: Contribution[]) => {
      const [direct, byStates] = [new Combination(), new Combination()];
      for (const one of parts) {
        direct.add(one);
        const alone = new Combination();
        alone.add(one);
        byStates.addState(alone.state());
      }
      expect(byStates.result().lost).toBe(direct.result().lost);
      return direct.result().lost;
    };
    expect(lostOf(known, known, idle)).toBe(6);
    expect(lostOf(known, unknown, known)).toBeNull();
    expect(lostOf(unknown)).toBeNull();
  });

  it("has what was lost at least where the loss of a part is not known, by states too", () => {
    const parts = [
      part({ packets: 100, lost: 4 }),
      part({ packets: 900, lost: null }),
      part({ packets: 60, lost: 0 }),
    ];
    const whole = new Combination();
    const byStates = new Combination();
    for (const one of parts) {
      whole.add(one);
      const own = new Combination();
      own.add(one);
      byStates.addState(own.state());
    }
    for (const { lost, lostLow } of [whole.result(), byStates.result()])
      expect({ lost, lostLow }).toEqual({ lost: null, lostLow: 4 });
  });

  it("says what share has an answer, and the commonest reason where none has", () => {
    const some = new Combination();
    some.add(part({ mean: interval(5), packets: 30 }));
    some.add(part({ mean: NONE, packets: 10, lost: null }));
    expect(some.result()).toMatchObject({
      mean: interval(5),
      packets: 40,
      answered: 0.75,
      lost: null,
      stdev: NONE,
    });
    const none = new Combination();
    none.add(part({ mean: { reason: "overflow", text: "" } }));
    none.add(part({ mean: NONE }));
    none.add(part({ mean: NONE }));
    expect(value(none.result().mean)).toBe("no-usable-cells");
    expect(value(new Combination().result().mean)).toBe("no-packets");
  });
});

describe("states of combinations", () => {
  const anyInterval = fc
    .tuple(
      fc.integer({ min: -1e9, max: 1e9 }),
      fc.integer({ min: 0, max: 1e6 }),
      fc.integer({ min: 0, max: 1e5 }),
      fc.boolean(),
    )
    .map(([valueNs, width, common, repeats]): Interval => {
      const own = interval(valueNs, width + common);
      return { ...own, common: { lowNs: common, highNs: common / 2 }, ...(repeats ? { repeats: 0.5 } : {}) };
    });
  const contribution = fc
    .record({
      mean: fc.oneof(anyInterval, fc.constant(NONE)),
      stdev: fc.oneof(
        { weight: 9, arbitrary: fc.integer({ min: 1, max: 1e6 }).map((s) => interval(s, s / 3)) },
        { weight: 1, arbitrary: fc.constant(NONE) },
      ),
      packets: fc.integer({ min: 0, max: 1e6 }),
      lost: fc.oneof(fc.integer({ min: 0, max: 1e4 }), fc.constant(null)),
      used: fc.integer({ min: 0, max: 100 }),
      bounds: fc.oneof(
        fc.constant(null),
        fc.constant({ valueNs: null, lowNs: -5e8, highNs: 5e8 }),
        fc.constant({ valueNs: 7, lowNs: 0, highNs: 9 }),
      ),
    })
    .map((c): Contribution => ({ ...c, arrived: Math.floor(c.packets * 0.9) }));

  it("combined in any grouping are what their contributions are, combined at once", () => {
    const close = (a: unknown, b: unknown): void => {
      if (typeof a === "number" && typeof b === "number")
        expect(Math.abs(a - b)).toBeLessThanOrEqual(1e-6 * (1 + Math.abs(a) + Math.abs(b)));
      else if (a !== null && typeof a === "object")
        for (const name of Object.keys(a))
          close((a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]);
      else expect(a).toBe(b);
    };
    fc.assert(
      fc.property(fc.array(fc.array(contribution, { maxLength: 6 }), { maxLength: 5 }), (groups) => {
        const [once, grouped] = [new Combination(), new Combination()];
        for (const group of groups) {
          const part = new Combination();
          for (const one of group) {
            once.add(one, undefined, "f");
            part.add(one, undefined, "f");
          }
          // Through JSON, as a stored row does.
          grouped.addState(JSON.parse(JSON.stringify(part.state())), "f");
        }
        const [a, b] = [once.result(), grouped.result()];
        close(a, b);
      }),
    );
  });
});
