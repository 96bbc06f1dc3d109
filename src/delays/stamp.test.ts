import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ADAPTIVE_DEFAULTS, AdaptiveRate, injectionRate } from "./injection-rate.ts";
import { decodeStamp, encodeStamp, STAMP_BYTES } from "./stamp.ts";

describe("STAMP packets", () => {
  test("come back as they were written", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 0xffff_ffff }),
        fc.bigInt({ min: 0n, max: 4_294_967_295_999_999_999n }),
        fc.integer({ min: 0, max: 65_535 }),
        fc.boolean(),
        (sequence, timeNs, session, synchronised) => {
          const bytes = encodeStamp({ sequence, timeNs, session, synchronised, errorNs: 5000 });
          expect(bytes.length).toBe(STAMP_BYTES);
          const back = decodeStamp(bytes)!;
          expect(back).toMatchObject({ sequence, timeNs, session, synchronised });
          // The error estimate is rounded up, to one part in 128.
          expect(back.errorNs!).toBeGreaterThanOrEqual(5000 * 0.99);
          expect(back.errorNs!).toBeLessThan(5100);
        },
      ),
      { seed: 3 },
    );
  });

  test("with NTP times are understood", () => {
    const bytes = Buffer.alloc(STAMP_BYTES);
    // NTP's first era ends on 2036-02-07; this is 2024-01-01 and a half second.
    bytes.writeUInt32BE(2_208_988_800 + 1_704_067_200, 4);
    bytes.writeUInt32BE(0x8000_0000, 8);
    bytes.writeUInt16BE(0x8001, 12);
    expect(decodeStamp(bytes)!.timeNs).toBe(1_704_067_200_500_000_000n);
  });

  test("cut or impossible ones are refused", () => {
    expect(decodeStamp(Buffer.alloc(15))).toBeNull();
    const bytes = encodeStamp({ sequence: 1, timeNs: 5n, session: 1, synchronised: true, errorNs: 1 });
    bytes.writeUInt32BE(1_000_000_000, 8);
    expect(decodeStamp(bytes)).toBeNull();
  });
});

describe("the injection rate", () => {
  test("follows the ellipse: 1-in-10 below 60 % utilisation, 1-in-300 from 85 % on", () => {
    expect(injectionRate(0.2)).toBe(0.1);
    expect(injectionRate(0.6)).toBe(0.1);
    expect(injectionRate(0.85)).toBeCloseTo(1 / 300, 12);
    expect(injectionRate(1)).toBeCloseTo(1 / 300, 12);
    const x = (0.725 - 0.6) / 0.25;
    expect(injectionRate(0.725)).toBeCloseTo(Math.sqrt(1 - x * x) * (0.1 - 1 / 300) + 1 / 300, 12);
  });

  test("falls as the utilisation rises", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (a, b) => {
          expect(injectionRate(Math.max(a, b))).toBeLessThanOrEqual(injectionRate(Math.min(a, b)));
        },
      ),
    );
  });

  test("tracks what the queue is given, smoothed", () => {
    const rate = new AdaptiveRate(1e9, { ...ADAPTIVE_DEFAULTS, smoothing: 0.5 });
    expect(rate.update(1e9 / 8 / 1000, 1e6)).toBeCloseTo(1 / 300, 12);
    expect(rate.utilisation).toBeCloseTo(1, 12);
    rate.update(0, 1e6);
    expect(rate.utilisation).toBeCloseTo(0.5, 12);
  });
});
