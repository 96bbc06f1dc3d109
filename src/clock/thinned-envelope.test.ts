/** Compares an envelope fed with thinned points with one that gets all points. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { Envelope } from "./envelope.ts";
import { estimateSkew } from "./skew.ts";
import { ThinnedEnvelope } from "./thinned-envelope.ts";

const ROWS = 1000;

/** Delays behind a queue, seen by a clock that drifts by 20 ppm; gaps of 2 us on average. */
function points(n: number) {
  const random = new Random(5);
  const time = new Float64Array(n);
  const value = new Float64Array(n);
  let now = 0;
  for (let i = 0; i < n; i++) {
    now += Math.ceil(4000 * random.float());
    time[i] = now;
    value[i] = Math.round(50_000 - 200_000 * Math.log(1 - random.float()) + 20e-6 * now);
  }
  return { time, value };
}

function thinned(time: Float64Array, value: Float64Array, sign: 1 | -1): Envelope {
  const kernels = new Kernels();
  const envelope = new Envelope();
  const feed = new ThinnedEnvelope(kernels, envelope, sign, ROWS);
  const address = kernels.alloc(16 * ROWS);
  // Cut at odd positions: blocks must not depend on it.
  for (let from = 0, step = 1; from < time.length; from += step, step = (step % ROWS) + 7) {
    step = Math.min(step, ROWS, time.length - from);
    kernels.f64.set(time.subarray(from, from + step), address >>> 3);
    kernels.f64.set(value.subarray(from, from + step), (address >>> 3) + ROWS);
    feed.take(address, address + 8 * ROWS, step);
  }
  feed.finish();
  return envelope;
}

test("gives the same sums, extremes and skew for many points", () => {
  const { time, value } = points(400_000);
  for (const sign of [1, -1] as const) {
    const all = new Envelope();
    all.observe(time, value, time.length, sign);
    const some = thinned(time, value, sign);
    for (const field of ["packets", "minNs", "maxNs", "firstNs", "lastNs", "negative"] as const)
      expect(some[field], field).toBe(all[field]);
    expect(some.meanNs).toBeCloseTo(all.meanNs, 3);
    // Every packet is counted in some bucket.
    expect(some.points().count.reduce((s, n) => s + n, 0)).toBe(time.length);
    if (sign === -1) continue;
    const [whole, thin] = [estimateSkew([all.points()], 1)!, estimateSkew([some.points()], 1)!];
    expect(whole.slope).toBeCloseTo(20e-6, 6);
    expect(thin.slope).toBeCloseTo(whole.slope, 7);
  }
});

test("is the same as an envelope that sees all points where they are few", () => {
  const { time, value } = points(20_000);
  const all = new Envelope();
  all.observe(time, value, time.length);
  expect(thinned(time, value, 1).points()).toEqual(all.points());
});

test("buckets in kernel memory hold what the envelope's own would, at any times", () => {
  const times = fc.oneof(
    fc.integer({ min: -1e6, max: 1e6 }),
    fc.integer({ min: 0, max: 4e9 }),
    fc.integer({ min: -4e12, max: 4e12 }),
  );
  const point = fc.record({ time: times, value: fc.integer({ min: -1e9, max: 1e9 }) });
  fc.assert(
    fc.property(fc.array(point, { minLength: 1, maxLength: 300 }), fc.constantFrom(1, -1), (fed, sign) => {
      const [time, value] = [
        Float64Array.from(fed, (p) => p.time),
        Float64Array.from(fed, (p) => p.value),
      ] as const;
      const all = new Envelope();
      all.observe(time, value, time.length, sign as 1 | -1);
      const some = thinned(time, value, sign as 1 | -1);
      expect(some.points()).toEqual(all.points());
      expect(some.widthNs).toBe(all.widthNs);
    }),
    { numRuns: 60 },
  );
});
