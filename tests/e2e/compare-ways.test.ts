/**
 * Directions of packets when clocks drift, step or have offsets, or when answers come late: every packet's direction is known from the scene
 * (tests/support/scenario.ts).
 */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type CompareOptions, compareCaptures } from "../../src/compare/compare.ts";
import { compareWithEstimates } from "../../src/compare/estimates.ts";
import { parseParameters } from "../../src/estimators/parameters.ts";
import { findEstimator } from "../../src/estimators/table.ts";
import { mean, quantile, type Truth, truthOf, type WayTruth } from "../support/oracle.ts";
import { rounds } from "../support/rounds.ts";
import { makeScene, type SceneChoices, sceneOf } from "../support/scenario.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-ways-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const MS = 1e6;

function files(choices: SceneChoices): { truth: Truth; before: string; after: string } {
  const made = makeScene(sceneOf(choices));
  const [before, after] = [join(scratch, "before.pcap"), join(scratch, "after.pcap")];
  writeFileSync(before, made.files.before);
  writeFileSync(after, made.files.after);
  return { truth: truthOf(made), before, after };
}

async function compareScene(choices: SceneChoices, options: Partial<CompareOptions> = {}) {
  const { truth, before, after } = files(choices);
  return { truth, report: await compareCaptures({ before, after, ...options }) };
}

/** Counts and captured delays are those of the scene, for each direction. */
function expectWays({ truth, report }: Awaited<ReturnType<typeof compareScene>>): void {
  const both: [WayTruth, typeof report.reverse][] = [
    [truth.forward, report.segment],
    [truth.reverse, report.reverse],
  ];
  for (const [way, found] of both) {
    expect(found).toMatchObject({
      sent: way.sent,
      received: way.received,
      matched: way.matched,
      lost: way.lost,
    });
    expect(Math.abs((found?.latency?.meanNs ?? Number.NaN) - mean(way.stampedNs))).toBeLessThan(2);
  }
  expect(report.segment.reordered).toBe(truth.forward.reordered);
  expect(report.direction.order).toBe("as-given");
}

const LAN = { minNs: 100_000, queueNs: 20_000, loss: 0.01 };
const TWO_WAY = {
  reverseShare: 0.5,
  forward: { loss: 0.01 },
  reverse: { loss: 0.02 },
} satisfies SceneChoices;
const CASES: [string, SceneChoices][] = [
  ["a LAN of 0.2 ms, 20 ppm, 25 s", { spanNs: 25e9, forward: LAN, reverse: LAN, clock: { ppm: 20 } }],
  ["a LAN of 0.2 ms, 20 ppm, 60 s", { spanNs: 60e9, forward: LAN, reverse: LAN, clock: { ppm: 20 } }],
  ["a LAN of 0.2 ms, 20 ppm, an hour", { spanNs: 3600e9, forward: LAN, reverse: LAN, clock: { ppm: 20 } }],
  ["20 ppm over an hour and 50 ms off", { spanNs: 3600e9, clock: { ppm: 20, offsetNs: 50 * MS } }],
  ["-200 ppm over an hour and 3 s off", { spanNs: 3600e9, clock: { ppm: -200, offsetNs: 3e9 } }],
  ["a step of 20 ms", { clock: { steps: [{ atNs: 4e9, sizeNs: 20 * MS }] } }],
  ["a step of -1 s", { clock: { steps: [{ atNs: 7e9, sizeNs: -1e9 }] } }],
  [
    "two steps",
    {
      clock: {
        steps: [
          { atNs: 1e9, sizeNs: 60 * MS },
          { atNs: 8e9, sizeNs: -90 * MS },
        ],
      },
    },
  ],
  ["a wander of 20 ms", { spanNs: 60e9, clock: { wanderNs: 20 * MS, wanderPeriodNs: 40e9 } }],
  ["two days off, 30 ppm", { spanNs: 600e9, clock: { ppm: 30, offsetNs: -172_800e9 } }],
  [
    "half of the flows without answers",
    { unanswered: 0.5, spanNs: 60e9, clock: { ppm: 50, offsetNs: 40 * MS } },
  ],
  [
    "no flow with answers, but routers between",
    { unanswered: 1, routed: true, spanNs: 600e9, clock: { ppm: 50, offsetNs: 40 * MS } },
  ],
];

describe("packets that go both ways are put to the way they went", () => {
  test.each(CASES)("%s", async (_name, choices) => {
    expectWays(await compareScene({ packets: 4000, ...TWO_WAY, ...choices }));
  });

  test.each([
    ["50 ms ahead", { offsetNs: 50 * MS }],
    ["50 ms behind, drifting", { offsetNs: -50 * MS, ppm: 100 }],
  ])("traffic that becomes two-way late, the clock %s", async (_name, clock) => {
    expectWays(await compareScene({ ...TWO_WAY, packets: 60_000, flows: 500, reverseFrom: 0.8, clock }));
  });

  test("after 12,000 one-way flows", async () => {
    const choices = {
      ...TWO_WAY,
      packets: 60_000,
      flows: 12_000,
      reverseFrom: 0.7,
      clock: { offsetNs: 50 * MS },
    };
    expectWays(await compareScene(choices));
  });

  test("with the drift taken out, delays are true within what is stated", async () => {
    const { truth, report } = await compareScene(
      { ...TWO_WAY, packets: 6000, spanNs: 3600e9, clock: { ppm: 20, offsetNs: 50 * MS } },
      { clock: "deskew" },
    );
    const { totalNs } = report.clock["uncertainty"] as { totalNs: number };
    for (const [way, found] of [
      [truth.forward, report.segment],
      [truth.reverse, report.reverse],
    ] as const) {
      expect(Math.abs((found?.latency?.meanNs ?? 0) - mean(way.delaysNs))).toBeLessThan(0.05 * MS);
      expect(Math.abs((found?.latency?.meanNs ?? 0) - mean(way.delaysNs))).toBeLessThan(totalNs);
    }
  });
});

describe("how flows are grouped does not change what is measured", () => {
  test.each(["5tuple", "hosts", "proto", "dscp", "dport", "ports", "vlan", "src/24", "5tuple,dscp"])(
    "%s",
    async (key) => {
      const scene = await compareScene({ ...TWO_WAY, clock: { offsetNs: -20 * MS, ppm: 50 } }, { key });
      expectWays(scene);
      const { report, truth } = scene;
      for (const [flows, way] of [
        [report.flows, truth.forward],
        [report.reverseFlows, truth.reverse],
      ] as const) {
        const sum = (pick: (flow: (typeof flows)[number]) => number) =>
          flows.reduce((n, f) => n + pick(f), 0);
        expect(sum((f) => f.matched)).toBe(way.matched);
        expect(sum((f) => f.lost)).toBe(way.lost);
        const weighted = sum((f) => f.matched * (f.latency?.meanNs ?? 0)) / way.matched;
        expect(Math.abs(weighted - mean(way.stampedNs))).toBeLessThan(2);
      }
      if (key === "proto") {
        const [flow] = report.flows;
        expect(report.flows).toHaveLength(1);
        expect(flow?.latency?.p90Ns).toBeCloseTo(report.segment.latency?.p90Ns ?? 0, -4);
        expect(flow?.latency?.stdevNs).toBeCloseTo(report.segment.latency?.stdevNs ?? 0, 0);
      }
    },
  );
});

test("flows of which no packet was matched go the way of their hosts", async () => {
  const wrong: string[] = [];
  for (let seed = 1; seed <= rounds(10, 20); seed++) {
    const { truth, report } = await compareScene({
      seed,
      packets: 300,
      flows: 150,
      reverseShare: 0.5,
      spanNs: 20e9,
      forward: { loss: 0.3 },
      reverse: { loss: 0.3 },
    });
    const counts = (way: { sent: number; received: number; matched: number } | null) =>
      `${way?.sent} sent, ${way?.received} received, ${way?.matched} matched`;
    for (const [true_, found] of [
      [truth.forward, report.segment],
      [truth.reverse, report.reverse],
    ] as const)
      if (counts(true_) !== counts(found)) wrong.push(`${seed}: ${counts(found)} for ${counts(true_)}`);
    const lost = report.intervals.reduce((sum, interval) => sum + interval.lost, 0);
    if (lost !== report.segment.lost)
      wrong.push(`${seed}: ${lost} lost in intervals, ${report.segment.lost} in all`);
  }
  expect(wrong).toEqual([]);
});

describe("captures so short that one way has no packet at both points", () => {
  const SHORT = { spanNs: 0.5e9, packets: 600, reverseShare: 0.5, flows: 30 };
  const [fast, slow] = [
    { minNs: 20 * MS, queueNs: MS },
    { minNs: 450 * MS, queueNs: MS },
  ];
  const counts = (way: { sent: number; received: number; matched: number } | null) =>
    `${way?.sent} sent, ${way?.received} received, ${way?.matched} matched`;

  test.each([
    ["routers between", true, 0],
    ["clocks that agree", false, 0],
    ["clocks an hour apart", false, 3600e9],
  ])("the way back: its packets are not of the way there; %s", async (_name, routed, offsetNs) => {
    const { truth, report } = await compareScene({
      ...SHORT,
      routed,
      forward: fast,
      reverse: slow,
      before: { toNs: 0.44e9 },
      clock: { offsetNs },
    });
    expect(truth.reverse.matched).toBe(0);
    expect(counts(report.segment)).toBe(counts(truth.forward));
    expect(counts(report.reverse)).toBe(counts(truth.reverse));
    expect(report.segment.lost).toBe(0);
    expect(report.reverse).toMatchObject({ latency: null, undecided: report.reverse?.lost });
    expect(report.notes.join()).toMatch(
      /no packet from the second point to the first was seen at both points/,
    );
  });

  test("the way there: time to live shows that what was matched comes back", async () => {
    const { truth, report } = await compareScene({
      ...SHORT,
      routed: true,
      forward: slow,
      reverse: fast,
      after: { toNs: 0.44e9 },
    });
    expect(truth.forward.matched).toBe(0);
    expect(counts(report.segment)).toBe(counts(truth.forward));
    expect(counts(report.reverse)).toBe(counts(truth.reverse));
    expect(report.direction.order).not.toBe("swapped");
  });

  test("both: nothing is claimed of loss", async () => {
    const { report } = await compareScene({
      ...SHORT,
      forward: slow,
      reverse: slow,
      before: { toNs: 0.44e9 },
      after: { toNs: 0.44e9 },
    });
    expect(report.segment.undecided).toBe(report.segment.lost + report.segment.appeared);
    expect(report.direction.order).toBe("unclear");
    expect(report.clock.trust).toBe("unusable");
  });
});

test("of so few packets that directions do not show, they are not claimed", async () => {
  const wrong: string[] = [];
  let right = 0;
  const seeds = rounds(60, 100);
  for (let seed = 1; seed <= seeds; seed++) {
    const { truth, report } = await compareScene({
      seed,
      packets: 8 + (seed % 40),
      spanNs: 0.2e9,
      flows: 25,
      reverseShare: 0.4,
      forward: { minNs: MS, queueNs: 0.05 * MS },
      reverse: { minNs: MS, queueNs: 0.05 * MS },
      clock: {
        offsetNs: [-3 * MS, 0, -MS, 20 * MS][seed % 4] ?? 0,
        steps: seed % 3 === 0 ? [{ atNs: 0.1e9, sizeNs: 50 * MS }] : [],
      },
    });
    const same =
      report.segment.matched === truth.forward.matched &&
      (report.reverse?.matched ?? 0) === truth.reverse.matched;
    if (same) right++;
    else if (report.direction.order === "as-given" || !/doubtful|unusable/.test(report.clock.trust))
      wrong.push(`${seed}: ${report.direction.order}, ${report.clock.trust}`);
  }
  expect(wrong).toEqual([]);
  expect(right).toBeGreaterThan(seeds / 2);
});

test("relative delays of the way back have quantiles as fine as those of the way there", async () => {
  const path = { minNs: 30 * MS, queueNs: 10_000 };
  const { truth, report } = await compareScene(
    { reverseShare: 0.5, forward: path, reverse: path, clock: { offsetNs: 5e9 } },
    { clock: "relative" },
  );
  const above = truth.reverse.delaysNs.map((d) => d - Math.min(...truth.reverse.delaysNs));
  for (const [q, found] of [
    [0.5, report.reverse?.latency?.p50Ns],
    [0.9, report.reverse?.latency?.p90Ns],
  ] as const) {
    expect(Math.abs((found ?? Number.NaN) - quantile(above, q))).toBeLessThan(0.02 * quantile(above, q) + 50);
  }
});

describe("estimators beside the exact match", () => {
  const estimate = async (choices: SceneChoices, name: string, clock: CompareOptions["clock"] = "asis") => {
    const { truth, before, after } = files(choices);
    const estimator = findEstimator(name);
    const plans = [{ estimator, parameters: parseParameters(estimator, "") }];
    const report = await compareWithEstimates({ before, after, clock }, { plans, confidence: 0.999 });
    return { truth, found: report.estimates?.[name] as EstimateLike };
  };
  interface EstimateLike {
    meanNs: number | null;
    lowNs: number | null;
    highNs: number | null;
    exactMeanNs: number | null;
    flows?: { relativeError: number | null; meanNs: number | null; exactMeanNs: number | null }[];
    reverse?: EstimateLike;
  }

  test.each(["lda", "maple", "sds"])("%s answers for each way, whatever the clock shows", async (name) => {
    for (const offsetNs of [0, -1.7e18, 86_400e9]) {
      const { truth, found } = await estimate({ ...TWO_WAY, packets: 6000, clock: { offsetNs } }, name);
      for (const [answer, way] of [
        [found, truth.forward],
        [found.reverse, truth.reverse],
      ] as const) {
        expect(answer?.exactMeanNs).toBeCloseTo(mean(way.stampedNs), -3);
        if (answer?.meanNs === null || answer === undefined) continue;
        expect(answer.lowNs).toBeLessThanOrEqual(mean(way.stampedNs) + 1e3);
        expect(answer.highNs).toBeGreaterThanOrEqual(mean(way.stampedNs) - 1e3);
      }
    }
  });

  test("a corrected clock is corrected alike for estimators and for the exact match", async () => {
    const clock = { ppm: 150, offsetNs: 2e9 };
    const choices = { reverseShare: 0.5, packets: 6000, spanNs: 600e9, clock };
    const { found } = await estimate(choices, "sds", "deskew");
    for (const answer of [found, found.reverse])
      for (const flow of answer?.flows ?? [])
        if (flow.meanNs !== null && flow.exactMeanNs !== null)
          expect(Math.abs(flow.meanNs - flow.exactMeanNs)).toBeLessThan(0.5 * MS);
  });

  test.each([
    ["sds", 80 * MS],
    ["sds", -2e9],
    ["maple", 80 * MS],
    ["maple", -2e9],
    ["lda", -50 * MS],
  ])("%s sees a clock that was set by %d ns as the exact match does", async (name, sizeNs) => {
    const clock = { ppm: 30, offsetNs: 1e9, steps: [{ atNs: 250e9, sizeNs }] };
    const { truth, found } = await estimate(
      { ...TWO_WAY, packets: 6000, spanNs: 600e9, clock },
      name,
      "deskew",
    );
    for (const [answer, way] of [
      [found, truth.forward],
      [found.reverse, truth.reverse],
    ] as const) {
      // The mean delay is 4 ms; an unnoticed step would add tens of ms.
      expect(Math.abs((answer?.exactMeanNs ?? Number.NaN) - mean(way.delaysNs))).toBeLessThan(2 * MS);
      if (answer?.meanNs != null)
        expect(Math.abs(answer.meanNs - (answer.exactMeanNs ?? 0))).toBeLessThan(MS);
      for (const flow of answer?.flows ?? [])
        if (flow.meanNs !== null && flow.exactMeanNs !== null)
          expect(Math.abs(flow.meanNs - flow.exactMeanNs)).toBeLessThan(MS);
    }
    const answered = [found, found.reverse].some(
      (a) => a?.meanNs != null || (a?.flows ?? []).some((f) => f.meanNs !== null),
    );
    expect(answered).toBe(true);
  });
});
