import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { VERSION } from "../../base/version.ts";
import { probeErrors } from "./lda-trial.ts";
import { allThresholds, figureFiles, renderMarkdown } from "./report.ts";
import { type Reproduction, readResult, resultFile, resultText, runStudy } from "./reproduction.ts";
import { isMet, type Study } from "./study.ts";
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

/** Judged on seeds that nothing was chosen by. False alarms: none in seeds 11 to 16 (LDS). */
describe("levels of a right implementation", () => {
  it.each([
    ["lds-flows", 901],
    ["colate-accuracy", 902],
  ])("%s, seed %i", async (name, seed) => {
    const { findings } = await runStudy(study(name), { kernels: new Kernels(), scale: "quick", seed });
    const levels = allThresholds({
      format: "hoptime.reproduction/1",
      version: VERSION,
      scale: "quick",
      seed,
      findings,
    });
    expect(levels.length).toBeGreaterThan(0);
    for (const { threshold } of levels) expect(isMet(threshold), JSON.stringify(threshold)).toBe(true);
  });
});

describe("probes", () => {
  it("err like the mean of as many independent delays", () => {
    // Weibull 0.6 has a deviation of 1.76 means: 10,000 samples err by 1.76/100 * sqrt(2/pi) = 1.4 % in the mean.
    const truth = { meanNs: 200, stdevNs: 352 };
    const { mean, samples } = probeErrors(10_000, 0, truth, { kind: "weibull", shape: 0.6 }, 400, 5);
    expect(samples).toBeGreaterThan(9900);
    expect(samples).toBeLessThan(10_100);
    expect(mean).toBeGreaterThan(0.0125);
    expect(mean).toBeLessThan(0.0156);
  });
});
