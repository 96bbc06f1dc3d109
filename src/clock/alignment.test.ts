import { expect, test } from "vitest";
import { Random } from "../base/random.ts";
import { type AlignmentPair, alignDistinct, findAlignment } from "./alignment.ts";

const HOUR = 3.6e12;

/** Makes `good` true pairs at an offset with delays of up to `spreadNs`, and `bad` pairs of unrelated times within an hour. */
function pairs(seed: number, good: number, bad: number, offsetNs: number, spreadNs: number): AlignmentPair[] {
  const dice = new Random(seed);
  const list: AlignmentPair[] = [];
  for (let i = 0; i < good; i++) {
    const beforeNs = HOUR * dice.float();
    list.push({ beforeNs, afterNs: beforeNs + offsetNs + spreadNs * dice.float() });
  }
  for (let i = 0; i < bad; i++)
    list.push({ beforeNs: HOUR * dice.float(), afterNs: HOUR * dice.float() + offsetNs });
  return list;
}

test.each([
  [100, 0, 1e6],
  [100, 900, 1e6],
  [20, 1000, 1e6],
  [500, 500, 5e9],
  [1000, 0, 5e9],
  [5, 40, 1e4],
])("%i true pairs among %i false ones, delays within %f ns: the offset is found", (good, bad, spread) => {
  for (let seed = 0; seed < 40; seed++) {
    for (const offset of [0, 37e9, -7200e9]) {
      const found = findAlignment(pairs(seed, good, bad, offset, spread))!;
      expect(found.offsetNs).toBeGreaterThanOrEqual(offset - spread);
      expect(found.offsetNs).toBeLessThanOrEqual(offset + 2 * spread);
      expect(found.total).toBe(good + bad);
      expect(found.support).toBeGreaterThanOrEqual(good / 2);
    }
  }
});

// Stated: below 1 in 1,000 for unrelated times; 1,000 runs at that rate exceed 5 with probability 6e-4.
test("unrelated captures have no alignment", () => {
  let found = 0;
  for (let seed = 0; seed < 1000; seed++) if (findAlignment(pairs(seed, 0, 200, 0, 1))) found++;
  expect(found).toBeLessThanOrEqual(5);
});

test("repeats of a periodic packet do not win over the overlap, and the runner-up shows them", () => {
  const list: AlignmentPair[] = [];
  // 50 equal packets, one per second, each paired with every copy: 50 true pairs, 49 at one second off, ...
  for (let i = 0; i < 50; i++) {
    for (let j = 0; j < 50; j++) list.push({ beforeNs: i * 1e9, afterNs: j * 1e9 + 37e9 + 1000 * (j % 7) });
  }
  const found = findAlignment(list)!;
  expect(Math.abs(found.offsetNs - 37e9)).toBeLessThan(1e4);
  expect(found.support).toBe(50);
  expect(found.runnerUp).toBe(49);
});

test("nothing gives nothing, and a single pair is taken at its word", () => {
  expect(findAlignment([])).toBeNull();
  expect(findAlignment([{ beforeNs: Number.NaN, afterNs: 1 }])).toBeNull();
  expect(findAlignment([{ beforeNs: 10, afterNs: 110 }])).toMatchObject({
    offsetNs: 100,
    support: 1,
    total: 1,
  });
  const apart = [
    { beforeNs: 0, afterNs: 1e12 },
    { beforeNs: 2e12, afterNs: 0 },
  ];
  expect(findAlignment(apart)).toBeNull();
});

test("packets that are distinct show the offset even where their delays vary by more than the captures last", () => {
  const list = [0, 10, 20, 30].map((ms, i) => ({ beforeNs: ms * 1e6, afterNs: HOUR + (200 + 90 * i) * 1e6 }));
  expect(findAlignment(list)).toBeNull();
  const found = alignDistinct(list, 10e9);
  expect(Math.abs((found?.offsetNs ?? 0) - HOUR)).toBeLessThan(0.5e9);
  // Unrelated times.
  expect(
    alignDistinct(
      list.map((p, i) => ({ ...p, afterNs: i * HOUR })),
      10e9,
    ),
  ).toBeNull();
});
