import fc from "fast-check";
import { expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { resolutionNs } from "./resolution.ts";
import { KernelScan, TimestampQuality } from "./timestamp-quality.ts";

function timestamps(seed: number, n: number, quantumNs: number, meanGapNs = 1e7): Float64Array {
  const dice = new Random(seed);
  let now = 0;
  return Float64Array.from({ length: n }, () => {
    now += dice.exponential(meanGapNs);
    return Math.round(Math.floor(now / quantumNs) * quantumNs);
  });
}

test.each([1, 8, 10, 100, 1000, 1e4, 1e6, 1e7])("timestamps in steps of %f ns are recognised", (quantum) => {
  for (const n of [40, 500]) expect(resolutionNs(timestamps(3, n, quantum, 1e9))).toBe(quantum);
});

test("binary fractions of a second, rounded to ns, are recognised down to 2^-26 s and look like 1 ns below", () => {
  expect(resolutionNs(timestamps(4, 500, 1e9 / 2 ** 20))).toBe(1e9 / 2 ** 20);
  expect(resolutionNs(timestamps(4, 500, 1e9 / 2 ** 26))).toBe(1e9 / 2 ** 26);
  expect(resolutionNs(timestamps(4, 500, 1e9 / 2 ** 32))).toBe(1);
});

test("a few odd stamps among thousands do not change the resolution, and few stamps have none", () => {
  const some = timestamps(5, 5000, 1000);
  some[17] = some[17]! + 3;
  expect(resolutionNs(some)).toBe(1000);
  expect(resolutionNs(timestamps(5, 10, 1000))).toBeNull();
});

test("traffic in one even beat does not make its clock coarse, a coarse clock shows in uneven distances", () => {
  const beat = Array.from({ length: 400 }, (_, i) => 7e9 + i * 1e6);
  expect(resolutionNs(beat)).toBe(1000);
  // One in twenty is lost.
  expect(resolutionNs(beat.filter((_, i) => i % 20 !== 3))).toBe(1000);
  // Many packets within each step of a clock that counts milliseconds.
  expect(resolutionNs(Array.from({ length: 4000 }, (_, i) => Math.floor(i / 10) * 1e6))).toBe(1e6);
});

test("the resolution is judged on absolute stamps: the origin may be any", () => {
  const absolute = timestamps(6, 500, 1000);
  const origin = 1_700_000_000_123_456_789n;
  const phase = Number(origin % 1_000_000_000n);
  const quality = new TimestampQuality({ originNs: origin });
  const relative = absolute.map((t) => t + 1e9 - phase);
  quality.observe(relative, relative.length);
  expect(quality.report().resolutionNs).toBe(1000);
});

test("the report is the same however the stamps are cut into batches, and equals the plain definition", () => {
  const times = fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 1, maxLength: 80 });
  fc.assert(
    fc.property(times, fc.integer({ min: 1, max: 80 }), (time, batch) => {
      const quality = new TimestampQuality({ minWireGapNs: 3 });
      for (let from = 0; from < time.length; from += batch) {
        const part = time.slice(from, from + batch);
        quality.observe(Float64Array.from(part), part.length);
      }
      const report = quality.report();
      const steps = time.slice(1).map((t, i) => t - time[i]!);
      const backward = steps.filter((s) => s < 0);
      expect(report.backward.count).toBe(backward.length);
      expect(report.backward.largestNs).toBe(Math.max(0, ...backward.map((s) => -s)));
      expect(report.gaps[0]?.sizeNs ?? -1).toBe(Math.max(-1, ...steps.filter((s) => s >= 0)));
      const beside = (near: (s: number) => boolean) =>
        time.filter((_, i) => (i > 0 && near(steps[i - 1]!)) || (i < steps.length && near(steps[i]!))).length;
      expect(report.batched.equalShare).toBeCloseTo(beside((s) => s === 0) / time.length, 12);
      expect(report.batched.share).toBeCloseTo(beside((s) => s >= 0 && s < 3) / time.length, 12);
    }),
  );
});

test("interrupt batches are distinguished from coarse timestamps", () => {
  const batches = new TimestampQuality();
  const fine = Float64Array.from({ length: 3000 }, (_, i) => Math.floor(i / 8) * 100_003);
  batches.observe(fine, fine.length);
  expect(batches.report().batched).toMatchObject({ equalShare: 1, longestRun: 8, impossible: true });
  const coarse = new TimestampQuality();
  const micro = timestamps(7, 3000, 1000, 700);
  coarse.observe(micro, micro.length);
  expect(coarse.report().batched.equalShare).toBeGreaterThan(0.3);
  expect(coarse.report().batched.impossible).toBe(false);
});

test("a clock set forward shows as the largest gap, with its place", () => {
  const quality = new TimestampQuality();
  const time = timestamps(8, 1000, 1, 1e6).map((t, i) => (i < 400 ? t : t + 37e9));
  quality.observe(time, time.length);
  expect(quality.report().gaps[0]!.atNs).toBe(time[399]);
  expect(Math.round(quality.report().gaps[0]!.sizeNs / 1e9)).toBe(37);
});

test("the kernel that passes over timestamps counts as the code that looks at each", () => {
  const kernels = new Kernels();
  const scan = new KernelScan(kernels);
  const column = kernels.alloc(8 * 200);
  const steps = fc.array(
    fc.oneof(fc.integer({ min: -1, max: 4 }), fc.integer({ min: 0, max: 60 }), fc.constant(Number.NaN)),
    { minLength: 1, maxLength: 200 },
  );
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 200 }), (gaps, batch) => {
      let now = 0;
      const time = gaps.map((gap) => {
        if (Number.isNaN(gap)) return gap;
        now += gap;
        return now;
      });
      const [fast, slow] = [
        new TimestampQuality({ minWireGapNs: 3 }),
        new TimestampQuality({ minWireGapNs: 3 }),
      ];
      for (let from = 0; from < time.length; from += batch) {
        const part = Float64Array.from(time.slice(from, from + batch));
        kernels.f64.set(part, column >>> 3);
        fast.observe(part, part.length, scan.of(column));
        slow.observe(part, part.length, (_near, first) => first);
        expect(fast.takeBackNs()).toBe(slow.takeBackNs());
      }
      expect(fast.report()).toEqual(slow.report());
    }),
  );
});
