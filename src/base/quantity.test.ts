import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatBytes, formatCount, formatShare } from "./quantity.ts";
import { formatInstant, formatNs } from "./time.ts";

const plain = (text: string) => text.replaceAll("\u202f", " ").replaceAll("\u2212", "-");

describe("numbers for people", () => {
  test("delays take the unit that suits them", () => {
    const written = [0, 0.25, 812, 999.96, 31_250, 1_204_000, 36_990_000_000, 61e9, 7_500e9, 90 * 86_400e9];
    expect(written.map((ns) => plain(formatNs(ns)))).toEqual([
      "0 ns",
      "0.25 ns",
      "812 ns",
      "1 µs",
      "31.25 µs",
      "1.204 ms",
      "36.99 s",
      "61 s",
      "2 h 05 min",
      "90 d 00 h",
    ]);
  });

  test("negative delays keep their sign", () => {
    expect(plain(formatNs(-1500))).toBe("-1.5 µs");
    expect(plain(formatNs(-7_500e9))).toBe("-2 h 05 min");
  });

  test("a delay below ten minutes is written within 0.05 % of what it is", () => {
    fc.assert(
      fc.property(fc.double({ min: 1, max: 5.9e11, noNaN: true }), (ns) => {
        const [, number, unit] = /^([\d.]+) (ns|µs|ms|s)$/.exec(plain(formatNs(ns)))!;
        const read = Number(number) * { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }[unit as "ns"];
        expect(Math.abs(read - ns) / ns).toBeLessThanOrEqual(0.0005 + 1e-9);
        expect(Number(number)).toBeLessThan(unit === "s" ? 600.5 : 1000);
      }),
      { seed: 1, numRuns: 500 },
    );
  });

  test("a share that is not nothing never reads as nothing, and one that is not all never as all", () => {
    const shares = [0, 1e-9, 0.00138, 0.5, 0.99, 0.999, 0.99999, 1 - 1e-12, 1];
    expect(shares.map((s) => plain(formatShare(s)))).toEqual([
      "0 %",
      "< 0.0001 %",
      "0.138 %",
      "50 %",
      "99 %",
      "99.9 %",
      "99.999 %",
      "> 99.9999 %",
      "100 %",
    ]);
  });

  test("counts are grouped and bytes are decimal", () => {
    expect(formatCount(1_234_567)).toBe("1,234,567");
    expect([0, 999, 1000, 999_999, 43.86e6].map((n) => plain(formatBytes(n)))).toEqual([
      "0 B",
      "999 B",
      "1 kB",
      "1 MB",
      "43.9 MB",
    ]);
  });

  test("instants are UTC, exact to the nanosecond, before 1970 too", () => {
    expect(formatInstant(1_714_737_600_000_000_001n, 9)).toBe("2024-05-03 12:00:00.000000001");
    expect(formatInstant(1_714_737_600_999_999_999n, 0)).toBe("2024-05-03 12:00:00");
    expect(formatInstant(-1n, 9)).toBe("1969-12-31 23:59:59.999999999");
    expect(plain(formatInstant(10n ** 30n))).toBe(`${10n ** 30n} ns`);
  });
});
