/** The statements of `compare` about clocks with offset, drift, steps or wander; the true clocks are known from the scene (tests/support/scenario.ts). */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { ClockVerdict } from "../../src/clock/verdict.ts";
import { type CompareOptions, compareCaptures } from "../../src/compare/compare.ts";
import type { CompareReport, Latency } from "../../src/compare/report.ts";
import { mean, truthOf } from "../support/oracle.ts";
import { rounds } from "../support/rounds.ts";
import { makeScene, type SceneChoices, sceneOf } from "../support/scenario.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-clocks-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const MS = 1e6;

async function compareScene(choices: SceneChoices, clock: CompareOptions["clock"] = "asis", key = "5tuple") {
  const made = makeScene(sceneOf(choices));
  const [before, after] = [join(scratch, "before.pcap"), join(scratch, "after.pcap")];
  writeFileSync(before, made.files.before);
  writeFileSync(after, made.files.after);
  const report = await compareCaptures({ before, after, clock, key });
  return { truth: truthOf(made), report, verdict: report.clock as unknown as ClockVerdict };
}

describe("clocks apart by more than the window", () => {
  test.each([30e9, -7 * 86_400e9])(
    "%f ns: quantiles of all packets, flows, groups and intervals are as without, and that much more",
    async (offsetNs) => {
      const scene: SceneChoices = {
        packets: 4000,
        reverseShare: 0.4,
        forward: { minNs: 3 * MS, queueNs: 2 * MS, loss: 0.02 },
        reverse: { minNs: 1 * MS, queueNs: 4 * MS, loss: 0.02 },
      };
      for (const key of ["5tuple", "proto"]) {
        const { report: near } = await compareScene(scene, "asis", key);
        const { report: far } = await compareScene({ ...scene, clock: { offsetNs } }, "asis", key);
        const pairs = (r: CompareReport) =>
          [
            [r.segment.latency, 1],
            [r.reverse?.latency, -1],
            ...r.flows.map((f) => [f.latency, 1]),
            ...r.reverseFlows.map((f) => [f.latency, -1]),
            ...r.intervals.map((i) => [i.latency, 1]),
          ] as [Latency | null | undefined, number][];
        const wanted = pairs(near);
        expect(wanted.length).toBeGreaterThan(key === "proto" ? 5 : 12);
        let compared = 0;
        for (const [i, [latency, sign]] of pairs(far).entries()) {
          // Intervals begin with the first packet of either capture; if this differs, they contain other packets.
          if (Math.abs((latency?.meanNs ?? 0) - sign * offsetNs - (wanted[i]?.[0]?.meanNs ?? 0)) > 1000)
            continue;
          compared++;
          for (const name of ["p50Ns", "p90Ns", "p99Ns", "p999Ns"] as const) {
            const value = (latency?.[name] ?? 0) - sign * offsetNs;
            const without = wanted[i]?.[0]?.[name] ?? 0;
            // Buckets around another value: as wide as the part that the alignment leaves.
            expect(Math.abs(value - without), `${key} ${i} ${name}: ${value} for ${without}`).toBeLessThan(
              0.3 * MS,
            );
          }
        }
        expect(compared).toBeGreaterThan(wanted.length / 2);
      }
    },
  );

  test.each([20e9, -20e9, 86_400e9, -1.6e18])(
    "%f ns: order, jitter and loss are as without",
    async (offsetNs) => {
      const scene: SceneChoices = { packets: 4000, forward: { minNs: 3 * MS, queueNs: 2 * MS, loss: 0.02 } };
      const together = (await compareScene(scene)).report.segment;
      const { report, truth } = await compareScene({ ...scene, clock: { offsetNs } });
      const { matched, lost, reordered } = report.segment;
      expect({ matched, lost, reordered }).toEqual({
        matched: truth.forward.matched,
        lost: truth.forward.lost,
        reordered: truth.forward.reordered,
      });
      // At 1.6e18 ns, doubles are 256 ns apart.
      expect(
        Math.abs((report.segment.latency?.jitterNs ?? 0) - (together.latency?.jitterNs ?? 0)),
      ).toBeLessThan(300);
    },
  );

  test.each([1234e9, -1234e9])("%f ns, every tenth packet like all others of its kind", async (offsetNs) => {
    const scene = { packets: 6000, spanNs: 60e9, flows: 3, repeats: 0.1, clock: { offsetNs } };
    const { report, truth } = await compareScene(scene);
    expect(report.segment.matched).toBeGreaterThan(0.98 * truth.forward.matched);
    expect(Math.abs((report.segment.latency?.p50Ns ?? 0) / offsetNs - 1)).toBeLessThan(0.01);
  });
});

describe("one direction", () => {
  test("a queue that fills evenly is never called skew, and deskew leaves it alone", async () => {
    for (let seed = 1; seed <= rounds(20, 40); seed++) {
      const forward = { rampNs: (1 + (seed % 5)) * MS, queueNs: 0.3 * MS };
      const scene: SceneChoices = { seed, packets: 1500, spanNs: 60e9, forward };
      const { report, truth, verdict } = await compareScene(scene, "deskew");
      expect(verdict.skew?.detected).toBe(false);
      expect(Math.abs((report.segment.latency?.meanNs ?? 0) - mean(truth.forward.delaysNs))).toBeLessThan(2);
    }
  });

  test("shows no offset: it is not measurable, and the verdict is usable at best", async () => {
    for (const offsetNs of [0, 30 * MS, -2 * MS]) {
      const { verdict, report } = await compareScene({ clock: { offsetNs } });
      expect(verdict.offset.kind).toBe("not-measurable");
      expect(verdict.trust).toBe("usable");
      expect(report.clock.lines.join()).toMatch(/Clock offset: not measurable from one direction/);
      expect(report.clock.lines.join()).not.toMatch(/[Nn]othing to correct/);
    }
  });

  test.each([-3.5 * MS, -5 * MS, -8 * MS])(
    "an offset of %f ns that makes delays negative is not denied",
    async (offsetNs) => {
      const { verdict, report } = await compareScene({ clock: { offsetNs } });
      expect(verdict.offset.kind).toBe("constant");
      expect(report.clock.lines.join()).toMatch(/AFTER is at least .* behind BEFORE/);
      expect(verdict.trust).toBe("doubtful");
      expect(report.direction.order).not.toBe("swapped");
    },
  );

  test("a mean of an hour is unusable as captured, and usable without the hour", async () => {
    expect((await compareScene({ clock: { offsetNs: 3600e9 } })).verdict.trust).toBe("unusable");
    const { verdict, report, truth } = await compareScene({ clock: { offsetNs: 3600e9 } }, "deskew");
    expect(verdict.trust).toBe("usable");
    expect(Math.abs((report.segment.latency?.meanNs ?? 0) - mean(truth.forward.delaysNs))).toBeLessThan(2);
  });

  test.each([0.02, 0.05, 0.95, 0.98])("a step of 2 s at %f of the capture is not good", async (share) => {
    for (const sizeNs of [2e9, -2e9]) {
      const { verdict } = await compareScene({
        packets: 4000,
        clock: { steps: [{ atNs: share * 10e9, sizeNs }] },
      });
      expect(verdict.trust).toBe("doubtful");
      expect(verdict.steps).toHaveLength(1);
      expect(Math.abs((verdict.steps[0]?.sizeNs ?? 0) / sizeNs - 1)).toBeLessThan(0.01);
    }
  });

  test("a clock that wanders by 2 ms is not good", async () => {
    const clock = { wanderNs: 2 * MS, wanderPeriodNs: 30e9 };
    expect((await compareScene({ spanNs: 60e9, clock })).verdict.trust).toBe("doubtful");
  });
});

describe("clocks that wander against each other, both directions captured", () => {
  const path = { minNs: 3 * MS, queueNs: 0.5 * MS };
  const scene = (seed: number, wanderNs: number, ppm = 0): SceneChoices => ({
    seed,
    packets: 3000,
    spanNs: 60e9,
    reverseShare: 0.5,
    forward: path,
    reverse: path,
    clock: { wanderNs, wanderPeriodNs: 25e9 + seed * 4e9, ppm },
  });

  test.each([
    [2 * MS, 0],
    [2 * MS, 40],
    [20 * MS, 0],
    [0.5 * MS, 0],
  ])("by %f ns at %f ppm: said, and no delay is wrong by more than is stated", async (wanderNs, ppm) => {
    for (let seed = 1; seed <= 4; seed++)
      for (const mode of ["asis", "deskew"] as const) {
        const { verdict, report, truth } = await compareScene(scene(seed, wanderNs, ppm), mode);
        expect(verdict.drift.wanderNs).toBeGreaterThan(1.2 * wanderNs);
        expect(verdict.drift.wanderNs).toBeLessThan(3 * wanderNs);
        if (mode === "deskew") expect(verdict.trust).toBe("usable");
        else if (wanderNs > MS) expect(verdict.trust).toMatch(/doubtful|unusable/);
        expect(verdict.lines.join()).toMatch(/Clock wander:/);
        const { totalNs } = (report.clock as unknown as { uncertainty: { totalNs: number } }).uncertainty;
        const [least, most] = [truth.clock.minNs, truth.clock.maxNs];
        if (mode === "asis") expect(Math.max(Math.abs(least), Math.abs(most))).toBeLessThan(totalNs);
        const errorNs = Math.abs((report.segment.latency?.meanNs ?? 0) - mean(truth.forward.delaysNs));
        expect(errorNs).toBeLessThan(totalNs);
        const smallest = Math.min(...truth.forward.delaysNs);
        expect(Math.abs((report.segment.latency?.minNs ?? 0) - smallest)).toBeLessThan(totalNs);
      }
  });

  test.each([
    [2 * MS, 0, 0],
    [2 * MS, 40, 7 * MS],
    [20 * MS, 0, -300 * MS],
  ])(
    "deskew follows a wander of %f ns at %f ppm and %f ns off: delays of both ways are those of the path",
    async (wanderNs, ppm, offsetNs) => {
      for (let seed = 11; seed <= 13; seed++) {
        const wandering = scene(seed, wanderNs, ppm);
        const shape = { ...wandering, clock: { ...wandering.clock, offsetNs } };
        for (const mode of ["deskew", "relative"] as const) {
          const { report, truth } = await compareScene(shape, mode);
          for (const [found, way] of [
            [report.segment.latency, truth.forward],
            [report.reverse?.latency, truth.reverse],
          ] as const) {
            const lowest = Math.min(...way.delaysNs);
            const trueNs = mode === "relative" ? way.delaysNs.map((ns) => ns - lowest) : way.delaysNs;
            const middle = mean(trueNs);
            const deviation = Math.sqrt(mean(trueNs.map((ns) => (ns - middle) ** 2)));
            // Both directions have the same minimum delay, so the middle of the bounds is right if it is removed (if 0 is not among them).
            if (mode === "relative" || offsetNs !== 0)
              expect(Math.abs((found?.meanNs ?? 0) - middle)).toBeLessThan(0.25 * MS);
            expect(Math.abs((found?.stdevNs ?? 0) - deviation)).toBeLessThan(0.1 * MS);
          }
          expect(report.clock.lines.join()).toMatch(/The correction follows them/);
        }
      }
    },
  );

  test("a clock that wanders cannot be followed where one direction is silent for long", async () => {
    const { verdict } = await compareScene({ ...scene(5, 2 * MS), reverseFrom: 0.4 }, "deskew");
    if (verdict.drift.wanderNs !== null) expect(verdict.trust).toMatch(/doubtful|unusable/);
    expect(verdict.lines.join()).not.toMatch(/The correction follows them/);
  });

  test("queues alone are no wander, at any load, nor is a skew", async () => {
    const claimed: number[] = [];
    for (let seed = 1; seed <= rounds(60, 100); seed++) {
      const queueNs = [0.05, 0.5, 3, 20][seed % 4] ?? 1;
      const busy = { minNs: 3 * MS, queueNs: queueNs * MS, rampNs: seed % 3 === 0 ? 5 * MS : 0 };
      const { verdict } = await compareScene({
        ...scene(seed, 0, seed % 5 === 0 ? 30 : 0),
        packets: 600,
        forward: busy,
        reverse: seed % 2 === 0 ? busy : path,
      });
      if (verdict.drift.wanderNs !== null) claimed.push(seed);
    }
    // At 0.001 each, more than two in a hundred have a probability of 2e-4; a load that rises in one direction only is not a step either.
    expect(claimed.length).toBeLessThanOrEqual(2);
  });
});

interface ReportedPiece {
  fromNs: number | null;
  removedNs: number;
  uncertaintyNs: number | null;
  stepUncertaintyNs: number | null;
}
const TWO_WAY: SceneChoices = { packets: 4000, reverseShare: 0.5, forward: { loss: 0.01 } };

describe("a clock that was set, corrected piece by piece", () => {
  const cases: [string, { atNs: number; sizeNs: number }[]][] = [
    ["+1 s", [{ atNs: 5e9, sizeNs: 1e9 }]],
    ["-1 s", [{ atNs: 5e9, sizeNs: -1e9 }]],
    ["+40 ms, early", [{ atNs: 1.5e9, sizeNs: 40 * MS }]],
    [
      "+60 ms and -90 ms",
      [
        { atNs: 3e9, sizeNs: 60 * MS },
        { atNs: 7e9, sizeNs: -90 * MS },
      ],
    ],
  ];
  test.each(cases)("%s in both directions: each piece gets its offset", async (_, steps) => {
    for (const [offsetNs, ppm] of [
      [0, 0],
      [3600e9, 0],
      [-20 * MS, 30],
    ] as const) {
      const { report, truth, verdict } = await compareScene(
        { ...TWO_WAY, clock: { offsetNs, ppm, steps } },
        "deskew",
      );
      expect(verdict.trust).toBe("usable");
      const pieces = report.clock["pieces"] as ReportedPiece[];
      expect(pieces).toHaveLength(steps.length + 1);
      const { uncertainty } = report.clock as unknown as { uncertainty: { totalNs: number } };
      // A round trip plus the uncertainty from queues, without the steps.
      expect(uncertainty.totalNs).toBeLessThan(10 * MS);
      for (const [way, found] of [
        [truth.forward, report.segment],
        [truth.reverse, report.reverse],
      ] as const) {
        expect(found?.latency?.count).toBe(way.matched);
        expect(Math.abs((found?.latency?.meanNs ?? 0) - mean(way.delaysNs))).toBeLessThan(
          uncertainty.totalNs,
        );
        // No packet is assigned to the wrong side of a step.
        expect(found?.latency?.maxNs).toBeLessThan(Math.max(...way.delaysNs) + uncertainty.totalNs);
        expect(found?.latency?.minNs).toBeGreaterThan(Math.min(...way.delaysNs) - uncertainty.totalNs);
      }
    }
  });

  test("set back in one direction: pieces are brought to the first, the offset stays unknown", async () => {
    const steps = [
      { atNs: 4e9, sizeNs: -1e9 },
      { atNs: 8e9, sizeNs: -0.5e9 },
    ];
    const { report, truth, verdict } = await compareScene({ packets: 4000, clock: { steps } }, "deskew");
    expect(verdict.steps.map((s) => s.kind)).toEqual(["clock", "clock"]);
    expect(verdict.trust).toBe("usable");
    const { uncertainty } = report.clock as unknown as {
      uncertainty: { totalNs: number; stepsNs: number; offsetNs: number | null };
    };
    expect(uncertainty.offsetNs).toBeNull();
    expect(uncertainty.stepsNs).toBeLessThan(2 * MS);
    expect(Math.abs((report.segment.latency?.meanNs ?? 0) - mean(truth.forward.delaysNs))).toBeLessThan(
      uncertainty.totalNs,
    );
    expect(report.segment.latency?.maxNs).toBeLessThan(
      Math.max(...truth.forward.delaysNs) + uncertainty.totalNs,
    );
  });

  test("set forward in one direction, it may be the path: deskew leaves it, detrend removes it", async () => {
    const scene = { packets: 4000, clock: { steps: [{ atNs: 4e9, sizeNs: 1e9 }] } };
    const left = await compareScene(scene, "deskew");
    expect(left.verdict.trust).toBe("doubtful");
    expect(left.report.segment.latency?.maxNs).toBeGreaterThan(1e9);
    const { report, truth } = await compareScene(scene, "detrend");
    const { uncertainty } = report.clock as unknown as { uncertainty: { totalNs: number } };
    expect(Math.abs((report.segment.latency?.meanNs ?? 0) - mean(truth.forward.delaysNs))).toBeLessThan(
      uncertainty.totalNs,
    );
    expect(report.segment.latency?.maxNs).toBeLessThan(
      Math.max(...truth.forward.delaysNs) + uncertainty.totalNs,
    );
  });

  test("relative delays begin at 0 in every piece", async () => {
    const steps = [{ atNs: 4e9, sizeNs: -1e9 }];
    const { report } = await compareScene({ packets: 4000, clock: { offsetNs: 5e9, steps } }, "relative");
    expect(Math.abs(report.segment.latency?.minNs ?? 1e9)).toBeLessThan(MS);
    expect(report.segment.latency?.maxNs).toBeLessThan(100 * MS);
  });
});
