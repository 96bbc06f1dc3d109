import { expect, test } from "vitest";
import { binomialCdf } from "../base/math/special.ts";
import { Random } from "../base/random.ts";
import { type GroupPoint, judgeGroups } from "./group-votes.ts";

/** Packets of two hosts: `answers` of the other order among others, with drifting clocks; `roundTripNs` 0: all go the same way. */
function points(
  dice: Random,
  packets: number,
  answers: number,
  roundTripNs: number,
  jitterNs: number,
): GroupPoint[] {
  const ppm = 200 * (2 * dice.float() - 1);
  const order = Array.from({ length: packets }, (_, i): 0 | 1 => (i < answers ? 0 : 1));
  for (let i = packets - 1; i > 0; i--) {
    const k = dice.below(i + 1);
    [order[i], order[k]] = [order[k] ?? 0, order[i] ?? 0];
  }
  let timeNs = 0;
  return order.map((own) => {
    timeNs += dice.exponential(1e9);
    // Queues, and now and then a long one.
    const queueNs = dice.exponential(jitterNs) + (dice.bernoulli(0.05) ? dice.exponential(30 * jitterNs) : 0);
    return {
      group: 1,
      order: own,
      timeNs,
      valueNs:
        (ppm * timeNs) / 1e6 + (own === 1 ? queueNs : roundTripNs === 0 ? queueNs : -roundTripNs - queueNs),
    };
  });
}

test("a handful of acknowledgements among data shows which way they go, over clocks that drift by more than they take", () => {
  const dice = new Random("few answers");
  let known = 0;
  for (let run = 0; run < 50; run++) {
    const verdict = judgeGroups(points(dice, 57, 5, 3.5e6, 1e5));
    if (verdict.kind !== "known") continue;
    known++;
    expect(verdict.forward.get(1)).toBe(1);
  }
  expect(known).toBeGreaterThanOrEqual(45);
});

test("packets that all go the same way are not parted by their order", () => {
  const dice = new Random("one way");
  const runs = 200;
  let parted = 0;
  for (let run = 0; run < runs; run++) {
    const packets = 12 + dice.below(80);
    const verdict = judgeGroups(points(dice, packets, 1 + dice.below(Math.ceil(packets / 2)), 0, 1e5));
    if (verdict.kind === "known") parted++;
  }
  // Four tests, each wrong with a probability of 0.005: this many of 200 have a probability below 1e-3.
  expect(1 - binomialCdf(parted - 1, runs, 0.02), `${parted} parted`).toBeGreaterThan(1e-3);
});

test("timestamps that are coarser than a round trip do not show that packets all go one way", () => {
  const dice = new Random("coarse");
  const fine = points(dice, 200, 60, 0, 1e4);
  expect(judgeGroups(fine).kind).toBe("one-way");
  const coarse = fine.map((p) => ({ ...p, valueNs: 1e6 * Math.floor((p.valueNs - fine[0]!.valueNs) / 1e6) }));
  const steady = coarse.map((p, i) => ({ ...p, valueNs: i % 7 === 0 ? 1e6 : 0 }));
  expect(judgeGroups(steady).kind).toBe("open");
});
