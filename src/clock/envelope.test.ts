import fc from "fast-check";
import { expect, test } from "vitest";
import { drifting, hardware, send } from "../../tests/support/clock-traffic.ts";
import { Random } from "../base/random.ts";
import { blockMinima, Envelope, MAX_BUCKETS } from "./envelope.ts";

const point = fc.record({
  time: fc.oneof(fc.integer({ min: -1e6, max: 1e6 }), fc.integer({ min: 0, max: 4e12 })),
  value: fc.integer({ min: -1e9, max: 1e9 }),
});

test("every retained point is one that was fed, none is lost from the counts, and the extremes are exact", () => {
  fc.assert(
    fc.property(
      fc.array(point, { minLength: 1, maxLength: 300 }),
      fc.integer({ min: 1, max: 50 }),
      (fed, batch) => {
        const envelope = new Envelope();
        for (let from = 0; from < fed.length; from += batch) {
          const part = fed.slice(from, from + batch);
          const time = Float64Array.from(part, (p) => p.time);
          envelope.observe(
            time,
            Float64Array.from(part, (p) => p.value),
            part.length,
          );
        }
        const points = envelope.points();
        const known = new Set(fed.map((p) => `${p.time} ${p.value}`));
        for (let i = 0; i < points.length; i++) {
          expect(known).toContain(`${points.timeNs[i]} ${points.valueNs[i]}`);
          if (i > 0) expect(points.timeNs[i]).toBeGreaterThan(points.timeNs[i - 1]!);
        }
        expect(points.length).toBeLessThanOrEqual(MAX_BUCKETS);
        expect(points.count.reduce((a, b) => a + b, 0)).toBe(fed.length);
        expect(envelope.minNs).toBe(Math.min(...fed.map((p) => p.value)));
        expect(envelope.maxNs).toBe(Math.max(...fed.map((p) => p.value)));
        expect(envelope.firstNs).toBe(Math.min(...fed.map((p) => p.time)));
        expect(envelope.lastNs).toBe(Math.max(...fed.map((p) => p.time)));
        expect(envelope.negative).toBe(fed.filter((p) => p.value < 0).length);
        expect(envelope.meanNs).toBeCloseTo(fed.reduce((a, p) => a + p.value, 0) / fed.length, 3);
      },
    ),
  );
});

test("while all buckets are still of the first width, each keeps its smallest value (slow twin)", () => {
  const short = fc.record({
    time: fc.integer({ min: 0, max: 1024 * 200 }),
    value: fc.integer({ min: 0, max: 50 }),
  });
  fc.assert(
    fc.property(fc.array(short, { minLength: 1, maxLength: 200 }), (fed) => {
      const envelope = new Envelope();
      envelope.observe(
        Float64Array.from(fed, (p) => p.time),
        Float64Array.from(fed, (p) => p.value),
        fed.length,
      );
      const minimum = new Map<number, number>();
      for (const { time, value } of fed) {
        const bucket = Math.floor(time / 1024);
        minimum.set(bucket, Math.min(minimum.get(bucket) ?? Number.POSITIVE_INFINITY, value));
      }
      const expected = [...minimum].sort((a, b) => a[0] - b[0]).map(([, value]) => value);
      expect(Array.from(envelope.points().valueNs)).toEqual(expected);
    }),
  );
});

test("an hour at 50 ppm keeps the packets that met no queue: the floor without the drift is exact within 10 ns", () => {
  const dice = new Random(1);
  const { sendNs, diffNs, n } = send(dice, 200_000, 3.6e12, hardware(dice), drifting(50));
  const envelope = new Envelope();
  envelope.observe(sendNs, diffNs, n);
  const points = envelope.points();
  const floor = (time: Float64Array, value: Float64Array) =>
    value.reduce((low, v, i) => Math.min(low, v - 50e-6 * time[i]!), Number.POSITIVE_INFINITY);
  expect(floor(points.timeNs, points.valueNs) - floor(sendNs, diffNs)).toBeLessThan(10);
  // The smallest difference of a bucket of one second would be up to 50 us too high for its time.
  expect(envelope.widthNs).toBeGreaterThan(5e8);
});

test("times and differences that are no numbers are counted and left out", () => {
  const envelope = new Envelope();
  envelope.observe(
    Float64Array.of(1, Number.NaN, 3, 4),
    Float64Array.of(1, 2, Number.POSITIVE_INFINITY, 4),
    4,
  );
  expect(envelope.ignored).toBe(2);
  expect(envelope.packets).toBe(2);
});

test("one absurd time widens the buckets but breaks nothing", () => {
  const envelope = new Envelope();
  envelope.observe(Float64Array.of(0, 1e9, 9e18, 2e9), Float64Array.of(5, 6, 7, 4), 4);
  expect(envelope.points().length).toBe(2);
  expect(envelope.minNs).toBe(4);
});

test("blocks hold equal shares of packets and their lowest point along the slope", () => {
  const n = 1000;
  const points = {
    timeNs: Float64Array.from({ length: n }, (_, i) => i),
    valueNs: Float64Array.from({ length: n }, (_, i) => (i % 10 === 3 ? 2 * i : 2 * i + 5)),
    count: new Float64Array(n).fill(1),
    length: n,
  };
  const minima = blockMinima(points, 10, 2);
  expect(Array.from(minima.count)).toEqual(new Array(10).fill(100));
  expect(Array.from(minima.timeNs, (t) => t % 10)).toEqual(new Array(10).fill(3));
});
