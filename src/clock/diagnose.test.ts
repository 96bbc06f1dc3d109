import { expect, test } from "vitest";
import {
  type DelayModel,
  drifting,
  hardware,
  type Pairs,
  queue,
  rarelyAtMinimum,
  send,
} from "../../tests/support/clock-traffic.ts";
import { Random } from "../base/random.ts";
import { type CorrectionMode, clockUncertainty, correction } from "./correction.ts";
import { diagnose } from "./diagnose.ts";
import { ClockObserver } from "./observer.ts";
import { TimestampQuality } from "./timestamp-quality.ts";
import type { ClockVerdict } from "./verdict.ts";

const SPAN = 1e10;
const N = 4000;
type Model = (dice: Random) => DelayModel;
type Clock = (timeNs: number) => number;

function forward(seed: number, model: Model, clock: Clock, n = N): Pairs {
  const dice = new Random(`forward ${seed}`);
  return send(dice, n, SPAN, model(dice), clock);
}

function backward(seed: number, model: Model, clock: Clock): Pairs {
  const dice = new Random(`reverse ${seed}`);
  return send(dice, N, SPAN, model(dice), clock, { sign: -1 });
}

function judge(there: Pairs, back?: Pairs): ClockVerdict {
  const observer = new ClockObserver();
  observer.observe(there.sendNs, there.diffNs, there.n);
  if (back) observer.observeReverse(back.sendNs, back.diffNs, back.n);
  return diagnose({ observer });
}

/** Applies a correction as callers do. */
function corrected(pairs: Pairs, verdict: ClockVerdict, mode: CorrectionMode): Float64Array {
  const { offsetNs, slope, pivotNs } = correction(verdict, mode);
  return pairs.diffNs.map((diff, i) => diff - offsetNs - slope * (pairs.sendNs[i]! + diff - pivotNs));
}

const minimum = (values: Float64Array) => values.reduce((a, b) => Math.min(a, b));

test("two good clocks are good, nothing is corrected, and the verdict survives JSON", () => {
  for (const back of [undefined, backward(1, hardware, () => 0)]) {
    const there = forward(1, hardware, () => 0);
    const verdict = judge(there, back);
    // One direction alone shows no offset, both show none beyond the delays: the measurement is usable, not good.
    expect(verdict.trust).toBe("usable");
    expect(verdict.offset.kind).toBe(back ? "none" : "not-measurable");
    expect(verdict.lines.join()).toMatch(back ? /none visible/ : /offset: not measurable from one direction/);
    expect(verdict.skew!.detected).toBe(false);
    expect(verdict.steps).toEqual([]);
    expect(JSON.parse(JSON.stringify(verdict))).toEqual(verdict);
    expect(correction(verdict, "deskew")).toMatchObject({
      offsetNs: 0,
      slope: 0,
      describe: "nothing to correct",
    });
  }
});

test("one clock has no offset against itself, whatever the direction", () => {
  const observer = new ClockObserver();
  const there = forward(1, hardware, () => 0);
  observer.observe(there.sendNs, there.diffNs, there.n);
  const verdict = diagnose({ observer, oneClock: true });
  expect(verdict.offset).toMatchObject({ kind: "none", lowNs: 0, highNs: 0 });
  expect(verdict.trust).toBe("good");
});

test("a trend in one direction is clock skew or load: it is reported, and removed only on request", () => {
  const there = forward(2, hardware, drifting(50));
  const verdict = judge(there);
  expect(verdict.skew).toMatchObject({ detected: false, reason: "one-direction-only" });
  expect(verdict.trust).toBe("doubtful");
  expect(verdict.lines.join("\n")).toMatch(/rises by 50\.0\d* ppm.*clock skew or load/);
  expect(correction(verdict, "deskew")).toMatchObject({ slope: 0, describe: "nothing to correct" });
  const delays = corrected(there, verdict, "detrend");
  expect(minimum(delays)).toBeGreaterThan(4800);
  expect(delays.reduce((a, b) => Math.max(a, b))).toBeLessThan(5300);
  expect(clockUncertainty(verdict, "deskew").skewNs!).toBeGreaterThan(490_000);
  expect(clockUncertainty(verdict, "detrend").skewNs!).toBeLessThan(200);
});

test("a trend that no queue holds is the clocks' in one direction, too", () => {
  const dice = new Random(2);
  const there = send(dice, N, 4 * 3600e9, hardware(dice), (t) => 200e-6 * t);
  expect(judge(there).skew).toMatchObject({ detected: true, reason: "detected" });
});

test("a skew of 50 ppm is removed: the smallest delay and the largest are what they were without it", () => {
  const verdict = judge(forward(2, hardware, drifting(50)), backward(2, hardware, drifting(50)));
  expect(verdict.trust).toBe("doubtful");
  const delays = corrected(forward(2, hardware, drifting(50)), verdict, "deskew");
  // Anchored at the first packet, at which the clocks differed by almost nothing.
  expect(minimum(delays)).toBeGreaterThan(4800);
  expect(delays.reduce((a, b) => Math.max(a, b))).toBeLessThan(5300);
  expect(verdict.lines.join("\n")).toMatch(/AFTER runs 50\.0\d* ppm faster/);
  const left = clockUncertainty(verdict, "deskew");
  expect(left.offsetNs!).toBeLessThan(5100);
  expect(left.skewNs!).toBeLessThan(200);
  expect(clockUncertainty(verdict, "asis").skewNs!).toBeGreaterThan(490_000);
});

test.each([
  [37e9, "tai-utc"],
  [-18e9, "tai-utc"],
  [7200e9, "time-zone"],
  [-20_700e9, "time-zone"],
])("a usual offset of %f ns is named and removed, also under a skew", (offset, kind) => {
  const there = forward(3, hardware, (t) => offset + 10e-6 * t);
  const verdict = judge(there);
  expect(verdict.offset).toMatchObject({ kind, estimateNs: offset });
  expect(verdict.trust).toBe("unusable");
  const delays = corrected(there, verdict, "detrend");
  expect(Math.abs(minimum(delays) - 4900)).toBeLessThan(150);
});

test("an offset that only makes delays negative is bounded, not removed, and relative delays start at 0", () => {
  const there = forward(4, rarelyAtMinimum, () => -5e8);
  const verdict = judge(there);
  expect(verdict.offset.kind).toBe("constant");
  expect(verdict.offset.highNs).toBe(minimum(there.diffNs));
  expect(verdict.offset.lowNs).toBeNull();
  expect(verdict.negative).toMatchObject({ count: N, share: 1 });
  expect(verdict.trust).toBe("doubtful");
  expect(correction(verdict, "deskew").offsetNs).toBe(0);
  expect(minimum(corrected(there, verdict, "relative"))).toBe(0);
  expect(verdict.swapped).toBe(false);
});

test.each([-1e6, -2e6, -3e6, -5e6])(
  "an offset of %f ns shows where queues let few packets through at once",
  (offset) => {
    // Delays from 0.9 ms on, rarely at the minimum: a few blocks are below zero, close to the others.
    const dice = new Random(21);
    const there = send(
      dice,
      N,
      SPAN,
      () => 0.9e6 + dice.exponential(20e6),
      () => offset,
    );
    const verdict = judge(there);
    expect(verdict.negative.count).toBeGreaterThan(0);
    expect(verdict.offset).toMatchObject({ kind: "constant", highNs: minimum(there.diffNs) });
    expect(verdict.lines.join()).toMatch(/AFTER is at least .* behind BEFORE/);
    expect(verdict.lines.join()).not.toMatch(/false matches/);
    expect(verdict.trust).toBe("doubtful");
  },
);

test.each([0.01, 0.03, 0.06, 0.93, 0.97, 0.99])(
  "a step of 2 s at %f of the capture is seen, either way",
  (share) => {
    for (const size of [2e9, -2e9]) {
      const { steps, trust } = judge(forward(22, rarelyAtMinimum, (t) => (t > share * SPAN ? size : 0)));
      expect(steps).toHaveLength(1);
      expect(steps[0]!.sizeNs / size).toBeCloseTo(1, 1);
      expect(Math.abs(steps[0]!.atNs / SPAN - share)).toBeLessThan(0.003);
      expect(trust).toBe("doubtful");
    }
  },
);

test("a clock that wanders by half the delay is not good", () => {
  const dice = new Random(23);
  const wander: Clock = (t) => 2e6 * Math.sin((2 * Math.PI * t) / (SPAN / 2));
  const verdict = judge(send(dice, N, SPAN, () => 3e6 + dice.exponential(1e6), wander));
  expect(verdict.trust).toBe("doubtful");
});

test("captures given in the wrong order are suspected from the shape of the differences", () => {
  const there = forward(5, rarelyAtMinimum, () => 0);
  const turned = { ...there, diffNs: there.diffNs.map((d) => -d) };
  const verdict = judge(turned);
  expect(verdict.swapped).toBe(true);
  expect(verdict.lines[0]).toContain("seem to be swapped");
  const back = backward(5, hardware, () => 0);
  expect(judge(turned, { ...back, diffNs: back.diffNs.map((d) => -d) }).swapped).toBe(true);
});

test("a constant delay in rounded timestamps does not suggest the wrong order", () => {
  const dice = new Random(41);
  const sendNs = Float64Array.from({ length: N }, () => 1000 * Math.floor(dice.float() * 1e7)).sort();
  const quality = new TimestampQuality();
  quality.observe(sendNs, N);
  const swapped = (diffNs: Float64Array) => {
    const observer = new ClockObserver();
    observer.observe(sendNs, diffNs, N);
    return diagnose({ observer, before: quality, after: quality }).swapped;
  };
  // One packet a rounding step below all others is no tail.
  expect(swapped(sendNs.map((_, i) => (i === 200 ? -4e9 - 1000 : -4e9)))).toBe(false);
  expect(swapped(sendNs.map(() => -4e9 - 1000 * Math.floor(dice.exponential(50))))).toBe(true);
});

test("both directions bound the offset; its middle is removed only where zero is outside the bounds", () => {
  const clock = () => 3e6;
  const there = forward(6, hardware, clock);
  const verdict = judge(there, backward(6, hardware, clock));
  expect(verdict.mode).toBe("two-way");
  expect(verdict.offset.kind).toBe("constant");
  expect(verdict.offset.lowNs!).toBeLessThan(3e6);
  expect(verdict.offset.highNs!).toBeGreaterThan(3e6);
  expect(Math.abs(minimum(corrected(there, verdict, "deskew")) - 4900)).toBeLessThan(100);
  expect(clockUncertainty(verdict, "deskew").offsetNs!).toBeCloseTo(4900, -2);
  // Equal clocks, a slow forward and a fast reverse path: the middle would be wrong by half the difference.
  const unequal = judge(
    forward(6, rarelyAtMinimum, () => 0),
    backward(6, hardware, () => 0),
  );
  expect(unequal.offset.kind).toBe("none");
  expect(correction(unequal, "deskew").offsetNs).toBe(0);
  expect(correction(unequal, "deskew", { symmetric: true }).offsetNs).toBe(unequal.offset.estimateNs);
});

test("a step seen in one direction is ambiguous, in both it is the clock's, in one of two it is the path's", () => {
  const step: Clock = (t) => (t > 0.6 * SPAN ? 1e5 : 0);
  const alone = judge(forward(7, hardware, step));
  expect(alone.steps).toHaveLength(1);
  expect(alone.steps[0]).toMatchObject({ kind: "ambiguous" });
  expect(alone.trust).toBe("doubtful");
  expect(alone.skew!.detected).toBe(false);
  const both = judge(forward(7, hardware, step), backward(7, hardware, step));
  expect(both.steps[0]).toMatchObject({ kind: "clock" });
  // The offset is judged in the longest part, here the first: no contradiction.
  expect(both.offset.kind).toBe("none");
  const route = judge(
    forward(7, hardware, step),
    backward(7, hardware, () => 0),
  );
  expect(route.steps[0]).toMatchObject({ kind: "delay" });
  expect(route.trust).toBe("usable");
});

test("a step that only the reverse direction shows is ambiguous if delays vary too much forward, else the reverse path's", () => {
  const step: Clock = (t) => (t > 0.6 * SPAN ? -3e6 : 0);
  const noisy = judge(forward(8, rarelyAtMinimum, step, 300), backward(7, hardware, step));
  expect(noisy.steps).toHaveLength(1);
  expect(noisy.steps[0]).toMatchObject({ kind: "ambiguous" });
  expect(noisy.steps[0]!.sizeNs).toBeCloseTo(-3e6, -4);
  expect(noisy.trust).toBe("doubtful");
  const route = judge(
    forward(7, hardware, () => 0),
    backward(7, hardware, step),
  );
  expect(route.steps).toEqual([]);
});

test("a clock that was set while one direction was silent is the clock's, and the offset before it is known", () => {
  const step: Clock = (t) => (t > 0.7 * SPAN ? 1e9 : 0);
  const there = forward(7, hardware, step);
  const silent = (t: number) => t > 0.68 * SPAN && t < 0.72 * SPAN;
  const kept = Array.from(there.sendNs.keys()).filter((i) => !silent(there.sendNs[i]!));
  const column = (values: Float64Array) => Float64Array.from(kept, (i) => values[i]!);
  const sparse = { sendNs: column(there.sendNs), diffNs: column(there.diffNs), n: kept.length };
  const { steps, offset } = judge(sparse, backward(7, hardware, step));
  expect(steps).toHaveLength(1);
  expect(steps[0]).toMatchObject({ kind: "clock" });
  expect(offset.kind).toBe("none");
});

test.each([0.02, 0.05, 0.96, 0.985])("so it is near the ends, at %d of the capture, with its size", (at) => {
  const step: Clock = (t) => (t > at * SPAN ? -1e5 : 0);
  const both = judge(forward(7, hardware, step), backward(7, hardware, step));
  expect(both.steps).toHaveLength(1);
  expect(both.steps[0]).toMatchObject({ kind: "clock" });
  expect(Math.abs(both.steps[0]!.sizeNs + 1e5)).toBeLessThan(1000);
  expect(clockUncertainty(both, "deskew").totalNs).toBeLessThan(12_000);
  const route = judge(
    forward(7, hardware, step),
    backward(7, hardware, () => 0),
  );
  expect(route.steps[0]).toMatchObject({ kind: "delay" });
});

test.each([0.3, 0.5, 0.6])("a step at %d of the capture has its size, whatever a line makes of it", (at) => {
  const step: Clock = (t) => (t > at * SPAN ? 1e5 : 0);
  const both = judge(forward(7, hardware, step), backward(7, hardware, step));
  expect(Math.abs(both.steps[0]!.sizeNs - 1e5)).toBeLessThan(1000);
});

test.each([2.3, 9, 40])("a clock that wanders %d times to and fro is recognised", (times) => {
  const wander: Clock = (t) => 2e4 * Math.sin((2 * Math.PI * times * t) / SPAN);
  const verdict = judge(forward(3, hardware, wander), backward(3, hardware, wander));
  expect(Math.abs(verdict.drift.wanderNs! - 4e4)).toBeLessThan(4e3);
  expect(verdict.trust).toMatch(/doubtful|unusable/);
  expect(verdict.lines.join()).toMatch(/Clock wander:/);
  expect(verdict.lines.join()).not.toMatch(/right packets were matched/);
});

test("a wander that delays hide is in the uncertainty, as far as they can hide it", () => {
  const moving: Clock = (t) => 2e6 * Math.sin((2 * Math.PI * t) / (0.7 * SPAN));
  const verdict = judge(forward(9, rarelyAtMinimum, moving, 100), backward(9, rarelyAtMinimum, moving));
  expect(verdict.drift.wanderNs).toBeNull();
  const { skewNs, wanderNs } = clockUncertainty(verdict, "deskew");
  expect(skewNs! + wanderNs).toBeGreaterThan(4e6);
  expect(skewNs! + wanderNs).toBeLessThan(2e7);
  const steady = judge(
    forward(9, hardware, () => 0),
    backward(9, hardware, () => 0),
  );
  expect(clockUncertainty(steady, "deskew").wanderNs).toBeLessThan(200);
});

test("a backward jump in a capture's own timestamps names the clock that was set", () => {
  const there = forward(8, hardware, (t) => (t > 0.5 * SPAN ? -1e8 : 0));
  const observer = new ClockObserver();
  observer.observe(there.sendNs, there.diffNs, N);
  const before = new TimestampQuality();
  before.observe(there.sendNs, N);
  const after = new TimestampQuality();
  after.observe(
    there.sendNs.map((t, i) => t + there.diffNs[i]!),
    N,
  );
  const verdict = diagnose({ observer, before, after });
  expect(verdict.steps[0]).toMatchObject({ kind: "clock" });
  expect(verdict.steps[0]!.evidence).toContain("AFTER");
  // A gap between packets hides a part of the jump.
  expect(verdict.backward.after!.largestNs).toBeGreaterThan(0.9e8);
  expect(verdict.backward.after!.largestNs).toBeLessThanOrEqual(1e8 + 200);
  expect(verdict.backward.before!.count).toBe(0);
});

test("a step beside a skew: the skew is still right", () => {
  const clock: Clock = (t) => 50e-6 * t + (t > 0.5 * SPAN ? 1e6 : 0);
  const verdict = judge(forward(9, hardware, clock), backward(9, hardware, clock));
  expect(verdict.steps).toHaveLength(1);
  expect(verdict.skew!.detected).toBe(true);
  expect(Math.abs(verdict.skew!.ppm - 50)).toBeLessThan(0.05);
});

test("a clock that is being disciplined is seen to drift unevenly", () => {
  const bent: Clock = (t) => (t < SPAN / 2 ? 20e-6 * t : 20e-6 * (SPAN - t));
  const roof = judge(forward(10, hardware, bent));
  expect(roof.drift.constant).toBe(false);
  expect(roof.skew!.detected).toBe(false);
  expect(roof.trust).toBe("doubtful");
  const bending: Clock = (t) => 20e-6 * Math.min(t, SPAN / 2) + 5e-6 * Math.max(0, t - SPAN / 2);
  const slower = judge(forward(10, hardware, bending), backward(10, hardware, bending));
  expect(slower.skew!.detected).toBe(true);
  expect(slower.drift.constant).toBe(false);
});

test("a few false matches far below the rest change neither offset nor skew nor relative delays", () => {
  for (const offset of [0, 37e9]) {
    const there = forward(11, hardware, () => offset);
    for (const i of [500, 1700, 2900]) there.diffNs[i] = offset - 4e10;
    const verdict = judge(there);
    expect(verdict.offset.kind).toBe(offset === 0 ? "not-measurable" : "tai-utc");
    expect(verdict.skew!.detected).toBe(false);
    expect(verdict.floor!.levelNs - offset).toBeGreaterThan(4800);
    expect(corrected(there, verdict, "relative").filter((d) => d < 0)).toHaveLength(3);
  }
});

test("microsecond timestamps on a path of microseconds: negative delays are within the resolution", () => {
  const dice = new Random(12);
  const there = send(
    dice,
    N,
    SPAN,
    () => 300 + 400 * dice.float(),
    () => -200,
    { quantumNs: 1000 },
  );
  const observer = new ClockObserver();
  observer.observe(there.sendNs, there.diffNs, N);
  const quality = new TimestampQuality();
  quality.observe(there.sendNs, N);
  const verdict = diagnose({ observer, before: quality, after: quality });
  expect(verdict.resolutionNs).toEqual({ before: 1000, after: 1000 });
  expect(verdict.offset.kind).toBe("not-measurable");
  expect(verdict.trust).not.toBe("good");
  expect(clockUncertainty(verdict, "asis").resolutionNs).toBe(2000);
});

test("nothing, one packet and five packets have verdicts too", () => {
  const none = diagnose({ observer: new ClockObserver() });
  expect(none).toMatchObject({ mode: "no-pairs", trust: "unusable", skew: null, floor: null });
  expect(correction(none, "relative")).toMatchObject({ offsetNs: 0, slope: 0 });
  for (const n of [1, 5]) {
    const verdict = judge(forward(13, hardware, () => 0, n));
    expect(verdict.skew).toBeNull();
    expect(verdict.noSkewReason).toContain("needs 8");
    // Too few packets to show a skew: assume the maximum of a clock.
    const { skewNs } = clockUncertainty(verdict, "asis");
    expect(skewNs).toEqual(n === 1 ? null : (500 * verdict.spanNs) / 1e6);
    expect(JSON.parse(JSON.stringify(verdict))).toEqual(verdict);
  }
});

test("a queue that fills in one direction is not blamed on the clocks when the other direction is quiet", () => {
  const filling: Model = (dice) => queue(dice, (t) => 0.9 + (0.4 * t) / SPAN, SPAN / N);
  const verdict = judge(
    forward(14, filling, () => 0),
    backward(14, hardware, () => 0),
  );
  expect(verdict.skew!.detected).toBe(false);
  expect(verdict.skew!.highPpm).toBeLessThan(0.1);
});

test("as is changes nothing, whatever was found", () => {
  const verdict = judge(forward(15, hardware, (t) => 37e9 + 50e-6 * t));
  expect(correction(verdict, "asis")).toMatchObject({ offsetNs: 0, slope: 0 });
});
