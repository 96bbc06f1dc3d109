/** What `compare` says of clocks that are off, drift, step or wander, and what it must not say: the clocks are known from the scene (tests/support/scenario.ts). */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { ClockVerdict } from "../../src/clock/verdict.ts";
import { type CompareOptions, compareCaptures } from "../../src/compare/compare.ts";
import { mean, truthOf } from "../support/oracle.ts";
import { makeScene, type SceneChoices, sceneOf } from "../support/scenario.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-clocks-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const MS = 1e6;

async function compareScene(choices: SceneChoices, clock: CompareOptions["clock"] = "asis") {
  const made = makeScene(sceneOf(choices));
  const [before, after] = [join(scratch, "before.pcap"), join(scratch, "after.pcap")];
  writeFileSync(before, made.files.before);
  writeFileSync(after, made.files.after);
  const report = await compareCaptures({ before, after, clock });
  return { truth: truthOf(made), report, verdict: report.clock as unknown as ClockVerdict };
}

describe("clocks apart by more than the window", () => {
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
      // At 1.6e18 ns a double steps by 256 ns.
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
    for (let seed = 1; seed <= 40; seed++) {
      const forward = { rampNs: (1 + (seed % 5)) * MS, queueNs: 0.3 * MS };
      const scene: SceneChoices = { seed, packets: 1500, spanNs: 60e9, forward };
      const { report, truth, verdict } = await compareScene(scene, "deskew");
      expect(verdict.skew?.detected).toBe(false);
      expect(Math.abs((report.segment.latency?.meanNs ?? 0) - mean(truth.forward.delaysNs))).toBeLessThan(2);
    }
  });

  test("shows no offset: it says so, and is usable at best", async () => {
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
