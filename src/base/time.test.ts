import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { UsageError } from "./errors.ts";
import { formatDuration, formatTime, parseDuration, parseTime } from "./time.ts";

fc.configureGlobal({ seed: 20 });

function complaint(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof UsageError && error.code === "bad-time" && error.hint !== undefined)
      return error.message;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("durations", () => {
  test("are read in every unit, with decimals, exactly", () => {
    const cases: [string, number][] = [
      ["5ns", 5],
      ["10us", 1e4],
      ["10µs", 1e4],
      ["10μs", 1e4],
      ["250ms", 2.5e8],
      ["1s", 1e9],
      ["2m", 1.2e11],
      ["2min", 1.2e11],
      ["1h", 3.6e12],
      ["1d", 8.64e13],
      ["365d", 3.1536e16],
      ["0s", 0],
      ["1.5 ms", 1_500_000],
      ["0.1m", 6e9],
      ["0.000000001s", 1],
      [" 7us ", 7000],
      ["+3s", 3e9],
      ["1.123456789s", 1_123_456_789],
    ];
    for (const [text, ns] of cases) expect([text, parseDuration(text)]).toEqual([text, ns]);
    expect(parseDuration("-4us", { signed: true })).toBe(-4000);
    expect(Object.is(parseDuration("-0s", { signed: true }), 0)).toBe(true);
  });

  test("that are invalid are refused with the reason", () => {
    const cases: [string, string][] = [
      ["", "does not start with a number"],
      ["fast", "does not start with a number"],
      ["10", "unit is missing"],
      ["10 parsecs", "unknown unit 'parsecs'"],
      ["1S", "unknown unit 'S'"],
      ["1toString", "unknown unit"],
      ["-1s", "negative"],
      ["0.5ns", "whole number of nanoseconds"],
      ["1e3s", "unknown unit 'e3s'"],
      ["1.s", "unknown unit"],
      ["NaNs", "number"],
      ["9007199254740993ns", "too long"],
      ["1s 2ms", "number"],
      [`${"9".repeat(400)}d`, "too long"],
    ];
    for (const [text, what] of cases) expect(complaint(() => parseDuration(text))).toContain(what);
  });

  test("of whole units come back as the number that was written", () => {
    fc.assert(
      fc.property(fc.nat(100000), fc.constantFrom("ns", "us", "ms", "s", "m", "h"), (n, unit) => {
        const scale = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 6e10, h: 3.6e12 }[unit]!;
        expect(parseDuration(`${n}${unit}`)).toBe(n * scale);
      }),
    );
  });

  test("are shown with three or four digits that mean something", () => {
    const cases: [number, string][] = [
      [17_790_000, "17.79 ms"],
      [17_794_321, "17.79 ms"],
      [950, "950 ns"],
      [-4_410, "-4.41 µs"],
      [0, "0 ns"],
      [1e9, "1 s"],
      [1_001_000, "1.00 ms"],
      [177_940_000, "177.9 ms"],
      [999_960, "1.00 ms"],
      [59_999_999_999, "1.00 min"],
      [9e10, "1.5 min"],
      [3.6e12, "1 h"],
      [3.1536e16, "365 d"],
      [0.25, "0.25 ns"],
      [17_801_234, "17.80 ms"],
      [-0, "0 ns"],
      [-0.001, "0.00 ns"],
      [99_996, "100.0 µs"],
      [123.456, "123.5 ns"],
    ];
    for (const [ns, text] of cases) expect([ns, formatDuration(ns)]).toEqual([ns, text]);
    for (const ns of [NaN, Infinity]) expect(() => formatDuration(ns)).toThrow(RangeError);
  });

  test("shown and read again are within half a percent", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 17, noNaN: true }), fc.boolean(), (e, negative) => {
        const ns = Math.round(10 ** e) * (negative ? -1 : 1);
        const shown = formatDuration(ns);
        const back = /^(-?[\d.]+) (\S+)$/.exec(shown)!;
        const unit = parseDuration(`1${back[2]}`);
        expect(Math.abs(Number(back[1]) * unit - ns)).toBeLessThanOrEqual(Math.abs(ns) * 0.005 + 1e-9);
        const digits = back[1]!.replace(/\D/g, "").replace(/^0+/, "");
        expect(digits.length).toBeLessThanOrEqual(Math.abs(ns) >= 8.64e16 ? 8 : 4);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("times", () => {
  test("are read as nanoseconds, as seconds with a point, and as ISO 8601", () => {
    const cases: [string, bigint][] = [
      ["1700000000123456789", 1700000000123456789n],
      ["-5", -5n],
      ["0", 0n],
      ["1700000000.5", 1700000000500000000n],
      ["1700000000.123456789", 1700000000123456789n],
      ["-0.000000001", -1n],
      ["1970-01-01T00:00:00Z", 0n],
      ["2023-11-14T22:13:20Z", 1700000000000000000n],
      ["2023-11-14T22:13:20.123456789Z", 1700000000123456789n],
      ["2023-11-14T23:13:20+01:00", 1700000000000000000n],
      ["2023-11-14 16:43:20.5-0530", 1700000000500000000n],
      ["2023-11-15T00:13:20,1+02", 1700000000100000000n],
      ["1969-12-31T23:59:59.999999999Z", -1n],
      ["2000-02-29T00:00Z", 951782400000000000n],
    ];
    for (const [text, ns] of cases) expect([text, parseTime(text)]).toEqual([text, ns]);
  });

  test("that are invalid are refused with the reason", () => {
    const cases: [string, string][] = [
      ["", "neither"],
      ["yesterday", "neither"],
      ["2023-11-14", "neither"],
      ["2023-11-14T22:13:20", "zone is missing"],
      ["2023-13-01T00:00:00Z", "month 13"],
      ["2023-02-29T00:00:00Z", "day 29"],
      ["1900-02-29T00:00:00Z", "day 29"],
      ["2023-01-00T00:00:00Z", "day 0"],
      ["2023-01-01T24:00:00Z", "hour 24"],
      ["2023-01-01T00:60:00Z", "minute 60"],
      ["2016-12-31T23:59:60Z", "leap seconds"],
      ["2023-01-01T00:00:00+24:00", "invalid zone"],
      ["2023-01-01T00:00:00.1234567891Z", "finer than a nanosecond"],
      ["1.1234567891", "finer than a nanosecond"],
    ];
    for (const [text, what] of cases) expect(complaint(() => parseTime(text))).toContain(what);
  });

  test("go there and back from year 0000 to 9999, agreeing with Date to the millisecond", () => {
    const first = BigInt(Date.parse("0000-01-01T00:00:00Z")) * 1_000_000n;
    const last = BigInt(Date.parse("9999-12-31T23:59:59.999Z")) * 1_000_000n + 999_999n;
    const instants = fc.oneof(
      fc.bigInt({ min: first, max: last }),
      fc.integer({ min: -730000, max: 2900000 }).map((days) => BigInt(days) * 86_400_000_000_000n - 1n),
    );
    fc.assert(
      fc.property(instants, (ns) => {
        fc.pre(ns >= first && ns <= last);
        const text = formatTime(ns);
        expect(parseTime(text)).toBe(ns);
        const ms = Number((ns - (((ns % 1_000_000n) + 1_000_000n) % 1_000_000n)) / 1_000_000n);
        expect(`${text.slice(0, 23)}Z`).toBe(new Date(ms).toISOString());
      }),
      { numRuns: 3000 },
    );
  });

  test("are right on the days where calendars go wrong", () => {
    // Ends of February in years with and without a leap day. 29 February 2000 is the last day of a 400-year era.
    const days = [
      "1600-02-29",
      "1900-02-28",
      "1900-03-01",
      "1999-12-31",
      "2000-02-29",
      "2000-03-01",
      "2400-02-29",
    ];
    for (const day of days) {
      const text = `${day}T23:59:59.999999999Z`;
      expect(formatTime(parseTime(text))).toBe(text);
      expect(parseTime(text) / 1_000_000n).toBe(
        BigInt(Date.parse(`${day}T23:59:59.999Z`)) + (text < "1970" ? 1n : 0n),
      );
    }
  });

  test("outside of four-digit years are still shown", () => {
    expect(formatTime(-1n, 3)).toBe("1969-12-31T23:59:59.999Z");
    expect(formatTime(1_999_999_999n, 0)).toBe("1970-01-01T00:00:01Z");
    expect(formatTime(0n)).toBe("1970-01-01T00:00:00.000000000Z");
    expect(formatTime(253402300800000000000n)).toBe("+010000-01-01T00:00:00.000000000Z");
    expect(formatTime(-62167219200000000001n)).toBe("-000001-12-31T23:59:59.999999999Z");
  });
});
