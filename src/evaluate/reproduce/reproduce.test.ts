import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { VERSION } from "../../base/version.ts";
import { planUpgrades } from "../../network/plan/plan.ts";
import { operatorMap } from "../grown-map.ts";
import { probeErrors } from "./lda-trial.ts";
import { LEFT_OUT } from "./left-out.ts";
import { overSeeds, seedsMarkdown } from "./over-seeds.ts";
import { figureFiles, renderMarkdown } from "./report.ts";
import { type Reproduction, readResult, resultFile, resultText, runStudy } from "./reproduction.ts";
import type { Study } from "./study.ts";
import { chooseStudies, STUDIES } from "./table.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-reproduce-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const study = (name: string): Study => {
  const [found] = chooseStudies([name]);
  if (!found) throw new Error(name);
  return found;
};

describe("the list of studies", () => {
  it("has every finding once", () => {
    const ids = STUDIES.flatMap((s) => s.heads.map((head) => head.id));
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("is chosen from by study, finding or paper; what is unknown is refused with what there is", () => {
    expect(chooseStudies(["lda-4b"]).map((s) => s.name)).toEqual(["lda-tuned"]);
    expect(chooseStudies(["lds"]).every((s) => s.paper === "lds")).toBe(true);
    expect(chooseStudies([])).toHaveLength(STUDIES.length);
    expect(() => chooseStudies(["lda-44"])).toThrow(
      expect.objectContaining({
        problem: "there is no experiment 'lda-44'",
        hint: expect.stringContaining("lda-4a, lda-4b"),
      }),
    );
  });
});

describe("the map that is drawn", () => {
  it("is as large as the paper's, and connected", () => {
    for (const seed of [1, 2, 3]) {
      const map = operatorMap(315, 972, seed);
      const plan = planUpgrades(map, { upgrade: 0, strategy: "greedy" });
      expect([plan.routers, plan.links]).toEqual([315, 1944]);
      // There is a path between any two routers.
      expect(plan.steps[0]?.segments.count).toBeGreaterThanOrEqual(315 * 314);
    }
  });
});

describe("a study", () => {
  it("is kept with its settings, and found again for the same ones only", async () => {
    const one = study("mplane-8");
    const result = await runStudy(one, { kernels: new Kernels(), scale: "quick", seed: 3 });
    const file = resultFile(scratch, one);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, resultText(result));
    expect(readResult(scratch, one, { scale: "quick", seed: 3 })).toEqual(result);
    expect(readResult(scratch, one, { scale: "quick", seed: 4 })).toBeNull();
    expect(readResult(scratch, one, { scale: "full", seed: 3 })).toBeNull();
    // A map is only for plans, so other studies do not run again.
    expect(readResult(scratch, one, { scale: "quick", seed: 3, map: "net.weights" })).toEqual(result);
    writeFileSync(file, resultText(result).slice(0, 100));
    expect(readResult(scratch, one, { scale: "quick", seed: 3 })).toBeNull();
  });

  it("that is ended stops between two of its runs", async () => {
    const signal = AbortSignal.abort();
    const running = runStudy(study("lda-6"), { kernels: new Kernels(), scale: "quick", seed: 1, signal });
    await expect(running).rejects.toThrow(/abort/i);
  });
});

describe("the report", () => {
  it("has every finding, its verdict and its figures; figures are files of their own", async () => {
    const { findings } = await runStudy(study("mplane-9"), {
      kernels: new Kernels(),
      scale: "quick",
      seed: 1,
    });
    const whole: Reproduction = {
      format: "hoptime.reproduction/1",
      version: VERSION,
      scale: "quick",
      seed: 1,
      findings,
    };
    const page = renderMarkdown(whole, { command: "hoptime reproduce", figures: "figures" });
    for (const { name } of figureFiles(whole)) expect(page).toContain(`figures/${name}`);
    for (const { id, ours } of findings) {
      expect(page).toContain(`id="${id}"`);
      expect(page).toContain(ours);
    }
  });
});

describe("levels over seeds", () => {
  const run = (seed: number, value: number, verdict: "holds" | "does not hold" = "holds"): Reproduction => ({
    ...{ format: "hoptime.reproduction/1", version: VERSION, scale: "quick", seed },
    findings: [
      {
        ...{ id: "x-1", paper: "lda", where: "fig. 1", title: "x", claim: "c", setting: "s", literal: null },
        ...{ ours: "o", verdict, why: "w", table: { columns: [], rows: [] }, figures: [] },
        thresholds: [
          { what: "error", value, limit: 1, sense: "at most", quantity: "plain" },
          { what: "error", value, limit: 0.1, sense: "at least", quantity: "plain" },
        ],
      },
    ],
  });

  it("hold where nine of ten runs reach them", () => {
    const ten = (missed: number) => Array.from({ length: 10 }, (_, i) => run(i, i < missed ? 2 : 0.5));
    expect(overSeeds(ten(1)).levels.map((l) => [l.reached, l.holds])).toEqual([
      [9, true],
      [10, true],
    ]);
    expect(overSeeds(ten(2)).levels[0]).toMatchObject({ reached: 8, holds: false });
    expect(seedsMarkdown(overSeeds(ten(2)), "hoptime reproduce")).toContain("8 of 10: too few");
  });

  it("are held against the reference simulation by their median", () => {
    const with10 = (value: number) =>
      overSeeds(
        Array.from({ length: 10 }, (_, i) => {
          const one = run(i, value);
          const thresholds = one.findings.flatMap((f) => f.thresholds).slice(1);
          return {
            ...one,
            findings: one.findings.map((f) => ({
              ...f,
              thresholds: thresholds.map((t) => ({ ...t, reference: 0.4 })),
            })),
          };
        }),
      );
    expect(with10(0.5).levels).toMatchObject([{ reached: 10, holds: true }]);
    expect(with10(0.3).levels).toMatchObject([{ reached: 10, holds: false }]);
    expect(seedsMarkdown(with10(0.3), "c")).toContain("10 of 10: median short of the reference");
  });

  it("name verdicts that hang on the seed", () => {
    const result = overSeeds([run(1, 0.5), run(2, 0.5, "does not hold")]);
    expect(result.verdicts).toEqual([{ id: "x-1", verdicts: ["holds", "does not hold"], same: false }]);
    expect(seedsMarkdown(result, "c")).toContain("x-1 (holds 1, does not hold 1)");
  });
});

describe("what is not repeated", () => {
  it("is none of what is, and has a reason", () => {
    const done = new Set(STUDIES.flatMap((s) => s.heads.map((h) => `${s.paper} ${h.where}`)));
    for (const { paper, where, why } of LEFT_OUT) {
      expect(done.has(`${paper} ${where}`)).toBe(false);
      expect(why.length).toBeGreaterThan(20);
    }
  });
});

describe("probes", () => {
  it("err like the mean of as many independent delays", () => {
    // Weibull 0.6 has a standard deviation of 1.76 means: the mean error of 10,000 samples is 1.76/100 * sqrt(2/pi) = 1.4 %.
    const truth = { meanNs: 200, stdevNs: 352 };
    const { mean, samples } = probeErrors(10_000, 0, truth, { kind: "weibull", shape: 0.6 }, 400, 5);
    expect(samples).toBeGreaterThan(9900);
    expect(samples).toBeLessThan(10_100);
    expect(mean).toBeGreaterThan(0.0125);
    expect(mean).toBeLessThan(0.0156);
  });
});
