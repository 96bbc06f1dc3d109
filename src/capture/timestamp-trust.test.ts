import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LOOK, OutlierCounter, TimestampTrust } from "./timestamp-trust.ts";

const S = 1e9;
const DAY = 86_400 * S;
const YEAR = 365 * DAY;
const TOLERANCE = 5 * S;

/** Returns all rows with their believed times, fed in batches of these sizes in turn. */
function believe(
  times: readonly number[],
  sizes: readonly number[],
): { believed: number[]; trust: TimestampTrust } {
  const trust = new TimestampTrust(TOLERANCE);
  const believed: number[] = [];
  let open = new Float64Array();
  let previous: number | null = null;
  const give = (rows: number[], last: boolean) => {
    let backNs = 0;
    for (const time of rows) {
      if (previous !== null) backNs = Math.max(backNs, previous - time);
      previous = time;
    }
    const all = new Float64Array(open.length + rows.length);
    all.set(open);
    all.set(rows, open.length);
    const decided = trust.observe(all, all.length, backNs, last);
    for (const time of (trust.believed ?? all).subarray(0, decided)) believed.push(time);
    open = all.slice(decided);
  };
  for (let at = 0, turn = 0; at < times.length; turn++) {
    const size = sizes[turn % sizes.length]!;
    give(times.slice(at, at + size), false);
    at += size;
  }
  give([], true);
  return { believed, trust };
}

const steady = (n: number, gap = 1e6) => Array.from({ length: n }, (_, i) => i * gap);
const bent = (times: number[], at: number, count: number, by: number) =>
  times.map((t, i) => (i >= at && i < at + count ? t + by : t));

describe("times that can be believed", () => {
  test("are the stamps themselves where they only go forward, whatever the gaps and the batches", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: 0, max: 2e9 }), fc.integer({ min: 0, max: 9e12 })), {
          maxLength: 3000,
        }),
        fc.array(fc.integer({ min: 1, max: 2500 }), { minLength: 1, maxLength: 4 }),
        (gaps, sizes) => {
          let now = 0;
          const times = gaps.map((gap) => (now += gap));
          const { believed, trust } = believe(times, sizes);
          expect(believed).toEqual(times);
          expect(trust.report()).toMatchObject({ count: 0, setBackNs: 0, lastNs: times.at(-1) ?? null });
        },
      ),
      { numRuns: 100, seed: 3 },
    );
  });

  test("outliers of a burst are those before it, wherever it lies and however rows are batched", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 5999 }),
        fc.integer({ min: 1, max: 400 }),
        fc.constantFrom(60 * S, 3600 * S, YEAR, -60 * S, -YEAR),
        fc.constantFrom(1e3, 1e6, 30e6),
        fc.array(fc.integer({ min: 1, max: 4096 }), { minLength: 1, maxLength: 3 }),
        (at, wanted, by, gap, sizes) => {
          const n = 6000;
          const count = Math.min(wanted, n - at);
          const { believed, trust } = believe(bent(steady(n, gap), at, count, by), sizes);
          const report = trust.report();
          // Near an end the rows in between may be the outliers, or there was silence.
          if (by < 0 ? at <= count : n - at - count <= count) return;
          expect(report.setBackNs).toBe(0);
          expect(report.count).toBe(count);
          expect(Math.abs((by > 0 ? report.aheadNs : -report.behindNs) - by)).toBeLessThan(13 * S);
          const wrong = believed.findIndex((time, i) =>
            i < at || i >= at + count ? time !== i * gap : Math.abs(time - i * gap) > count * gap,
          );
          expect(wrong, `row ${wrong} at ${believed[wrong]}`).toBe(-1);
        },
      ),
      { numRuns: 150, seed: 4 },
    );
  });

  test("follow a clock that is set, and say by how much it was set back", () => {
    const times = bent(steady(8000), 5000, 3000, -100 * S);
    const { believed, trust } = believe(times, [4096]);
    expect(believed).toEqual(times);
    expect(trust.report()).toMatchObject({ count: 0 });
    expect(trust.report().setBackNs).toBeCloseTo(100 * S - 1e6, -3);
    const ahead = bent(steady(8000), 5000, 3000, YEAR);
    expect(believe(ahead, [4096]).believed).toEqual(ahead);
  });

  test("at a packet a day are the stamps too", () => {
    const times = steady(40, 1.01 * DAY);
    expect(believe(times, [7]).believed).toEqual(times);
    expect(believe(bent(times, 20, 1, 30 * DAY), [7]).trust.report().count).toBe(1);
  });

  test("of two clocks in one file are those of the first, and no step for every packet", () => {
    const times = steady(5000).map((t, i) => (i % 2 === 0 ? t : t + 60 * S));
    const { believed, trust } = believe(times, [4096]);
    expect(trust.report()).toMatchObject({ setBackNs: 0 });
    expect(trust.report().count).toBeGreaterThan(2490);
    expect(Math.max(...believed.slice(0, 5000 - LOOK))).toBeLessThan(5 * S);
  });
});

test("a counter keeps what is left open itself", () => {
  const counter = new OutlierCounter(TOLERANCE);
  const times = Float64Array.from(bent(steady(100), 99, 1, YEAR));
  counter.observe(times.subarray(0, 60), 60, 0);
  counter.observe(times.subarray(60), 40, 0);
  expect(counter.report()).toMatchObject({ count: 1, behindNs: 0, lastNs: 98e6 });
});
