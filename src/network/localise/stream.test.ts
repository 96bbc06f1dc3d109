import { describe, expect, it } from "vitest";
import { Random } from "../../base/random.ts";
import { EPOCH_NS, estimate } from "../../evaluate/path-noise.ts";
import { LocaliseStream } from "./stream.ts";

const POINTS = ["A", "B", "C"];

describe("a stream of estimates", () => {
  it("answers which paths have news, epoch by epoch", () => {
    const stream = new LocaliseStream();
    stream.watch(POINTS);
    stream.watch(["B", "C"]);
    expect(stream.add(estimate("A", "B", 0, 1000))).toEqual([]);
    expect(stream.add(estimate("B", "C", 0, 2000))).toEqual([POINTS, ["B", "C"]]);
    expect(stream.localisation(POINTS)?.endToEnd.latency?.meanNs).toBe(3000);
    expect(stream.add(estimate("X", "Y", 0, 1))).toEqual([]);
    expect(stream.counters).toEqual({ estimates: 3, late: 0, repeated: 0, unwatched: 1 });
    expect(stream.add(estimate("A", "B", 1, 1000))).toEqual([]);
    expect(stream.flush()).toEqual([POINTS]);
  });

  it("holds no more after ten thousand epochs than after some hundred, and still finds what happens then", () => {
    const stream = new LocaliseStream({ historyEpochs: 100, windowEpochs: 40 });
    stream.watch(POINTS);
    const random = new Random("days");
    const held = { epochs: 0, spikes: 0 };
    const last = 10_000;
    for (let epoch = 0; epoch < last; epoch++) {
      // A spike of five epochs in every fifty, on alternating segments; 100 occur in total.
      const slow = epoch % 50 >= 45 ? (Math.floor(epoch / 50) % 2 === 0 ? "A" : "B") : "";
      for (const [from, to] of [
        ["A", "B"],
        ["B", "C"],
      ] as const)
        stream.add(estimate(from, to, epoch, 1e5 + 3000 * random.normal() + (from === slow ? 2e6 : 0)));
      held.epochs = Math.max(held.epochs, stream.held.epochs);
      if (epoch > 200) held.spikes = Math.max(held.spikes, stream.held.spikes);
    }
    expect(held.epochs).toBeLessThanOrEqual(3 * 100);
    // Two of each hundred epochs in a segment and four in the path; and some from noise.
    expect(held.spikes).toBeLessThanOrEqual(12);
    const { spikes } = stream.verdicts(POINTS);
    const named = spikes.map((s) => [s.segment?.from, s.fromNs / EPOCH_NS]);
    expect(named).toContainEqual(["B", last - 5]);
    expect(named).toContainEqual(["A", last - 55]);
    expect(spikes.every((s) => s.toNs / EPOCH_NS > last - 100)).toBe(true);
    expect(stream.localisation(POINTS)?.epochs).toHaveLength(100);
  });

  it("refuses settings that could not hold what it waits for", () => {
    expect(() => new LocaliseStream({ historyEpochs: 3, lateEpochs: 3 })).toThrow(/historyEpochs/);
    expect(() => new LocaliseStream().watch(["A"])).toThrow(/two points/);
    expect(() => new LocaliseStream().localisation(POINTS)).toThrow(/A → B → C is not watched/);
  });
});
