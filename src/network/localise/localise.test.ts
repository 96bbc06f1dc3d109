import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Random } from "../../base/random.ts";
import { EPOCH_NS, estimate, type InjectedSpike, simulatePath } from "../../evaluate/path-noise.ts";
import { renderLocalisationHtml } from "../../present/html/localise-html.ts";
import { formatLocalisation } from "../../present/text/localise-text.ts";
import { type Localisation, localise } from "./localise.ts";
import { type LocaliseEstimate, lossRate } from "./segment-estimate.ts";

const EPOCHS = 160;

/** Three segments of about 10, 20 and 30 µs with slight noise; `change` may move any of them. */
function calmPath(
  change: (
    segment: number,
    epoch: number,
  ) => Partial<LocaliseEstimate> & { add?: number; halfNs?: number } = () => ({}),
  epochs = 40,
): LocaliseEstimate[] {
  const random = new Random(5);
  const points = ["P1", "P2", "P3", "P4"];
  const list: LocaliseEstimate[] = [];
  for (let t = 0; t < epochs; t++)
    for (let j = 0; j < 3; j++) {
      const { add = 0, halfNs = 100, ...more } = change(j, t);
      const meanNs = 10_000 * (j + 1) + 300 * random.normal() + add;
      list.push(estimate(points[j]!, points[j + 1]!, t, meanNs, halfNs, more));
    }
  return list;
}
const calmPoints = ["P1", "P2", "P3", "P4"];
const blamed = (l: Localisation) =>
  l.spikes.map((s) => (s.segment ? `${s.segment.from} ${s.segment.to}` : null));

describe("a simulated path of six segments with ordinary queueing noise", () => {
  const run = (label: string, i: number, inject: boolean) => {
    const random = new Random(`${label} ${i}`);
    const choice = random.fork("choice");
    const segment = choice.below(6);
    const epochs = 2 + choice.below(12);
    const firstEpoch = 10 + choice.below(EPOCHS - 30);
    // Ordinary queueing here is tens of microseconds; a queue that fills adds milliseconds: 100 to 1,000 times.
    const times = 100 * 10 ** choice.float();
    const spikes = (ordinaryNs: readonly number[]): InjectedSpike[] =>
      inject ? [{ segment, firstEpoch, epochs, excessNs: times * ordinaryNs[segment]! }] : [];
    const path = simulatePath(random, 6, EPOCHS, spikes);
    return { path, segment, firstEpoch, epochs };
  };

  // Fixed seeds: the outcome is the same each time. Over other seeds (bench/localise.ts) the correct share is 97 % at 100 times and 100 % from 200 times on, so
  // one or two of these 200 would be expected to fail.
  it("blames the segment with the spike in at least 98 % of 200 runs, with times within one epoch in nine of ten", () => {
    let right = 0;
    let onTime = 0;
    for (let i = 0; i < 200; i++) {
      const { path, segment, firstEpoch, epochs } = run("spike", i, true);
      const { spikes } = localise(path.points, path.estimates);
      const named = spikes.filter((s) => s.segment !== null);
      const hit = named.filter(
        (s) =>
          s.segment!.from === path.points[segment] &&
          s.fromNs < (firstEpoch + epochs) * EPOCH_NS &&
          s.toNs > firstEpoch * EPOCH_NS,
      );
      if (hit.length > 0 && hit.length === named.length) right++;
      const begin = Math.min(...hit.map((s) => s.fromNs)) / EPOCH_NS;
      const end = Math.max(...hit.map((s) => s.toNs)) / EPOCH_NS;
      if (Math.abs(begin - firstEpoch) <= 1 && Math.abs(end - firstEpoch - epochs) <= 1) onTime++;
    }
    expect(right).toBeGreaterThanOrEqual(196);
    expect(onTime).toBeGreaterThanOrEqual(180);
  });

  it("blames no segment in at least 99 % of 200 runs without a spike", () => {
    let calm = 0;
    for (let i = 0; i < 200; i++) {
      const { path } = run("calm", i, false);
      if (localise(path.points, path.estimates).spikes.every((s) => s.segment === null)) calm++;
    }
    expect(calm).toBeGreaterThanOrEqual(198);
  });

  it("blames both of two segments that are slow at once", () => {
    let both = 0;
    for (let i = 0; i < 40; i++) {
      const random = new Random(`two ${i}`);
      const first = random.fork("choice").below(6);
      const second = (first + 1 + random.fork("other").below(5)) % 6;
      const path = simulatePath(random, 6, EPOCHS, () => [
        { segment: first, firstEpoch: 50, epochs: 8, excessNs: 2e7 },
        { segment: second, firstEpoch: 53, epochs: 8, excessNs: 2e7 },
      ]);
      // A doubt elsewhere ("undecided") blames no segment.
      const names = new Set(
        localise(path.points, path.estimates)
          .spikes.filter((s) => s.segment !== null)
          .map((s) => path.points.indexOf(s.segment!.from)),
      );
      if (names.size === 2 && names.has(first) && names.has(second)) both++;
    }
    expect(both).toBeGreaterThanOrEqual(39);
  });
});

describe("decomposition", () => {
  it("adds means, and errors as root of squares", () => {
    const l = localise(["A", "B", "C"], [estimate("A", "B", 0, 1000, 300), estimate("B", "C", 0, 3000, 400)]);
    expect(l.epochs[0]!.total!.meanNs).toBe(4000);
    expect(l.epochs[0]!.total!.highNs).toBeCloseTo(4500, 6);
    expect(l.segments.map((s) => s.share)).toEqual([0.25, 0.75]);
    expect(l.endToEnd.latency!.lowNs).toBeCloseTo(3500, 6);
  });

  it("weighs epochs by packets and adds losses up", () => {
    const l = localise(
      ["A", "B"],
      [
        estimate("A", "B", 0, 1000, 0, { packets: 300, lost: 100, stdevNs: 0 }),
        estimate("A", "B", 1, 2000, 0, { packets: 100, lost: 0, stdevNs: 0 }),
      ],
    );
    expect(l.segments[0]).toMatchObject({ sent: 500, lost: 100 });
    expect(l.segments[0]!.latency!.meanNs).toBe(1250);
    expect(l.segments[0]!.latency!.stdevNs).toBeCloseTo(Math.sqrt(0.75 * 250 ** 2 + 0.25 * 750 ** 2), 6);
    expect(l.segments[0]!.loss!.rate).toBe(0.2);
  });

  it("has no end-to-end value where a segment has no answer, and never a zero instead", () => {
    const l = localise(
      ["A", "B", "C"],
      [estimate("A", "B", 0, 1000), estimate("B", "C", 0, null), estimate("A", "B", 1, 1000)],
    );
    expect(l.epochs.map((e) => e.total)).toEqual([null, null]);
    expect(l.epochs[0]!.segments[1]).toBeNull();
    expect(l.segments[1]!.latency).toBeNull();
    expect(l.endToEnd.latency).toBeNull();
    expect(l.segments[0]!.share).toBeNull();
  });

  it("puts epochs side by side whose middles lie in each other", () => {
    const shift = (e: LocaliseEstimate, ns: number) => ({
      ...e,
      epochStartNs: e.epochStartNs + ns,
      epochEndNs: e.epochEndNs + ns,
    });
    const estimates = [0, 1, 2].flatMap((t) => [
      estimate("A", "B", t, 1000),
      shift(estimate("B", "C", t, 2000), 0.3 * EPOCH_NS),
    ]);
    expect(localise(["A", "B", "C"], estimates).epochs.map((e) => e.total?.meanNs)).toEqual([
      3000, 3000, 3000,
    ]);
  });

  it("does not depend on the order of the estimates", () => {
    const estimates = calmPath((j, t) => (j === 1 && t >= 20 && t < 25 ? { add: 5e6 } : {}));
    const expected = localise(calmPoints, estimates);
    fc.assert(
      fc.property(fc.shuffledSubarray(estimates, { minLength: estimates.length }), (shuffled) => {
        expect(localise(calmPoints, shuffled)).toEqual(expected);
      }),
      { numRuns: 10, seed: 31 },
    );
  });

  it("a loss interval holds the truth as often as it says", () => {
    // 95 % intervals, 2,000 draws: coverage below 92.5 % or above 98.5 % would have a probability of less than 10^-5.
    const random = new Random(8);
    let held = 0;
    for (let i = 0; i < 2000; i++) {
      const lost = Array.from({ length: 400 }, () => random.bernoulli(0.02)).filter(Boolean).length;
      const interval = lossRate(400, lost, 1.96)!;
      if (interval.low <= 0.02 && 0.02 <= interval.high) held++;
    }
    expect(held / 2000).toBeGreaterThan(0.925);
    expect(held / 2000).toBeLessThan(0.985);
  });

  it.each([
    [["A"], [], "two points or more"],
    [["A", "B", "A"], [], "named twice"],
    [["A", "B"], [], "no estimate of any segment"],
    [["A", "B"], [estimate("A", "B", 0, Number.NaN)], "write null for no answer"],
    [["A", "B"], [{ ...estimate("A", "B", 0, 5), lowNs: 6 }], "between low and high"],
  ])("%j with %j is refused", (points, estimates, message) => {
    expect(() => localise(points, estimates)).toThrow(message);
  });
});

describe("spikes and blame", () => {
  it("name segment, times, baseline, peak and share", () => {
    const l = localise(
      calmPoints,
      calmPath((j, t) => (j === 1 && t >= 20 && t < 25 ? { add: 5e6 } : {})),
    );
    expect(l.spikes).toHaveLength(1);
    const [spike] = l.spikes;
    expect(spike).toMatchObject({
      fromNs: 20 * EPOCH_NS,
      toNs: 25 * EPOCH_NS,
      segment: { from: "P2", to: "P3" },
    });
    expect(spike!.baselineNs).toBeCloseTo(20_000, -3);
    expect(spike!.peakNs).toBeCloseTo(5.02e6, -4);
    expect(spike!.share).toBeGreaterThan(0.99);
    expect(spike!.confidence).toBeGreaterThan(0.99);
  });

  it("a third of all epochs may be slow: the baseline holds", () => {
    const l = localise(
      calmPoints,
      calmPath((j, t) => (j === 0 && t >= 5 && t < 10 ? { add: 3e6 } : {}), 15),
    );
    expect(blamed(l)).toEqual(["P1 P2"]);
    expect(l.spikes[0]).toMatchObject({ fromNs: 5 * EPOCH_NS, toNs: 10 * EPOCH_NS });
  });

  it("is undecided where error bars are wider than the rise, and says which segments it may be", () => {
    const l = localise(
      calmPoints,
      calmPath((j, t) =>
        t >= 20 && t < 22 ? { add: 400_000 - 150_000 * Math.abs(j - 1) - 50_000 * j, halfNs: 600_000 } : {},
      ),
    );
    expect(blamed(l)).toEqual([null]);
    expect(l.spikes[0]!.reason).toBe("error bars overlap: P2 → P3 or P1 → P2");
    expect(l.spikes[0]!.peakNs).toBeGreaterThan(700_000);
  });

  it("two segments with room between their error bars are both named", () => {
    const l = localise(
      calmPoints,
      calmPath((j, t) => (t >= 20 && t < 24 && j !== 2 ? { add: 1e6, halfNs: 50_000 } : {})),
    );
    expect(blamed(l).sort()).toEqual(["P1 P2", "P2 P3"]);
  });

  it("a small rise beside a large one is not blamed", () => {
    const l = localise(
      calmPoints,
      calmPath((j, t) => (t >= 20 && t < 24 ? { add: j === 1 ? 5e6 : 30_000 } : {})),
    );
    expect(blamed(l)).toEqual(["P2 P3"]);
  });

  it("a clock offset at an inner point moves nothing: neither the sum nor the blame", () => {
    const change = (j: number, t: number) => (j === 2 && t >= 20 && t < 24 ? { add: 5e6 } : {});
    const straight = localise(calmPoints, calmPath(change));
    const offset = (j: number) => (j === 0 ? 5e9 : j === 1 ? -5e9 : 0);
    const skewed = localise(
      calmPoints,
      calmPath((j, t) => {
        const { add = 0 } = change(j, t) as { add?: number };
        return { add: add + offset(j) };
      }),
    );
    expect(blamed(skewed)).toEqual(blamed(straight));
    expect(skewed.epochs[0]!.total!.meanNs).toBeCloseTo(straight.epochs[0]!.total!.meanNs, 0);
  });

  it("gives no verdict on a handful of epochs, with a note", () => {
    const l = localise(
      calmPoints,
      calmPath((j, t) => (j === 1 && t === 3 ? { add: 5e6 } : {}), 5),
    );
    expect(l.spikes).toEqual([]);
    expect(l.notes).toEqual(["5 epochs are too few to find spikes; 8 are needed"]);
  });

  it("constant delays (no noise at all) do not make a nanosecond a spike", () => {
    const flat = Array.from({ length: 30 }, (_, t) => estimate("A", "B", t, t === 20 ? 10_001 : 10_000, 0));
    expect(localise(["A", "B"], flat).spikes).toEqual([]);
    const step = Array.from({ length: 30 }, (_, t) => estimate("A", "B", t, t === 20 ? 50_000 : 10_000, 0));
    expect(blamed(localise(["A", "B"], step))).toEqual(["A B"]);
  });

  it("a spike that lasts to the end is open", () => {
    const l = localise(
      calmPoints,
      calmPath((j, t) => (j === 1 && t >= 35 ? { add: 5e6 } : {})),
    );
    expect(l.spikes[0]).toMatchObject({ open: true, toNs: 40 * EPOCH_NS });
  });
});

describe("localisation as text and page", () => {
  const l = () =>
    localise(
      ["P1", "<P2>", "P3"],
      Array.from({ length: 30 }, (_, t) => [
        estimate("P1", "<P2>", t, t === 12 ? null : 10_000 + (t % 3) * 100, 100, { lost: t === 5 ? 3 : 0 }),
        estimate("<P2>", "P3", t, 20_000 + (t % 5) * 100 + (t >= 20 && t < 23 ? 4e6 : 0)),
      ]).flat(),
    );

  it("prints segments, shares, losses and blame", () => {
    const text = formatLocalisation(l());
    expect(text).toMatch(
      /^P1 → <P2> → P3\n30 epochs, 30,003 packets sent, 3 lost, 0\.01 % \[0\.0018 %, 0\.058 %\]/,
    );
    expect(text).toContain("20 s … 23 s  <P2> → P3: 20.2");
    expect(text).toContain("confidence > 99.9 %");
    expect(text).toContain("▁");
    expect(text).not.toMatch(/NaN|undefined/);
    expect(formatLocalisation(l(), { originNs: 1_700_000_000_000_000_000n })).toContain(
      "2023-11-14T22:13:40",
    );
  });

  it("draws a page of its own: no script, nothing fetched, names escaped", () => {
    const html = renderLocalisationHtml(l());
    expect(html).toContain("&lt;P2&gt; → P3");
    expect(html).not.toMatch(/<P2>|<script|https?:|src=|NaN|undefined/);
    // One chart per segment, one of all, one of the path, one of the segment that lost packets.
    expect(html.match(/<svg /g)).toHaveLength(5);
    expect(html).toContain("Loss over time, P1 → &lt;P2&gt;");
  });
});
