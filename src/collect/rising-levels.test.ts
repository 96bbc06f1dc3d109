import { describe, expect, it } from "vitest";
import { Random } from "../base/random.ts";
import { risesOf, type ShownLevel } from "./rising-levels.ts";

/** Values of a level with deviations of 5, approximately normal (sum of twelve). */
function shown(levels: readonly number[], seed: number): ShownLevel[] {
  const random = new Random(seed);
  return levels.map((level) => {
    let noise = -6;
    for (let i = 0; i < 12; i++) noise += random.float();
    return { level: level + 5 * noise, deviation: 5 };
  });
}

const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);

describe("rises of a level that never falls", () => {
  it("are none where only chance moves the values: 200 series of 100", () => {
    const flat = new Array<number>(100).fill(7);
    // At 4 deviations fewer than one series in a thousand shows a rise by chance: more than two of 200 have probability 0.001.
    const rising = Array.from({ length: 200 }, (_, seed) => sum(risesOf(shown(flat, 900 + seed), 4)) > 0);
    expect(rising.filter(Boolean).length).toBeLessThanOrEqual(2);
  });

  it("are where a step is, also one below what a single value shows", () => {
    const levels = Array.from({ length: 60 }, (_, i) => (i < 30 ? 0 : 12));
    const rises = risesOf(shown(levels, 31), 4);
    expect(sum(rises)).toBeGreaterThan(9);
    expect(sum(rises)).toBeLessThan(15);
    expect(sum(rises.slice(24, 36))).toBeGreaterThan(0.9 * sum(rises));
  });

  it("are spread over a slope, and add up to it", () => {
    const levels = Array.from({ length: 200 }, (_, i) => 3 * i);
    const rises = risesOf(shown(levels, 32), 4);
    expect(Math.abs(sum(rises) - 597)).toBeLessThan(30);
    for (let i = 20; i < 180; i += 20) expect(Math.abs(sum(rises.slice(i, i + 20)) - 60)).toBeLessThan(20);
  });

  it("are not where one value is far above and the next ones are back", () => {
    const levels = shown(new Array<number>(40).fill(0), 33);
    levels[20] = { level: 60, deviation: 5 };
    expect(sum(risesOf(levels, 4))).toBe(0);
    // It may be a step as long as nothing follows.
    expect(sum(risesOf(levels.slice(0, 21), 4))).toBeGreaterThan(50);
  });

  it("ask for more where values scatter beyond their deviations", () => {
    const levels = shown(new Array<number>(80).fill(0), 34).map(({ level }, i) => ({
      level: level * 6 + (i === 79 ? 60 : 0),
      deviation: 5,
    }));
    expect(sum(risesOf(levels, 4))).toBe(0);
  });

  it("of a day of seconds add up too", () => {
    const levels = Array.from({ length: 86_400 }, (_, i) => 0.5 * i);
    const rises = risesOf(shown(levels, 35), 4);
    expect(Math.abs(sum(rises) - 43_200)).toBeLessThan(60);
  });

  it("of none and of one value are none", () => {
    expect(risesOf([], 4)).toEqual([]);
    expect(risesOf([{ level: 3, deviation: 1 }], 4)).toEqual([]);
  });
});
