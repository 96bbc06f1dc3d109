/** `hoptime evaluate` as a user runs it: the demo's packets, a capture that ends within a packet, and what is not there. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import { ROOT } from "../support/demo-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-evaluate-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function evaluate(...words: string[]) {
  const main = join(ROOT, "dist/cli/main.js");
  return spawnSync(process.execPath, [main, "evaluate", ...words], { encoding: "utf8", cwd: ROOT });
}

test("names the estimator to take for each budget, in words and as JSON", () => {
  const words = [
    "demo/router-in.pcap.gz",
    "--memory",
    "64kB",
    "--wire",
    "12",
    "--estimators",
    "lds,trajectory",
  ];
  const text = evaluate(...words);
  expect(text.stderr).toBe("");
  expect(text.stdout).toMatch(
    /Equal memory: 64.kB per tap[\s\S]*take lds: of .* within the budget .*\n.*\n {2}hoptime observe demo\/router-in.pcap.gz --point A --estimators lds [\s\S]*Equal bits on the wire: 12 per packet[\s\S]*take lds/,
  );
  const { budgets } = JSON.parse(evaluate(...words, "--json").stdout);
  expect(budgets).toHaveLength(2);
  for (const { races, advice } of budgets) {
    expect(advice.twoPoints.estimator).toBe("lds");
    expect(races.map((r: { packets: number }) => r.packets)).toEqual([6664, 6664]);
  }
  const { wireBits, fits } = budgets[1].races[0].rows[0];
  expect([fits, wireBits > 0 && wireBits <= 1.1 * 12]).toEqual([true, true]);
});

test("takes the exact match of two captures as the truth, and refuses what they cannot have", () => {
  const captures = ["demo/router-in.pcap.gz", "demo/router-out.pcap.gz"];
  const { budgets } = JSON.parse(
    evaluate(...captures, "--memory", "64kB", "--estimators", "lda,lds,sds", "--json").stdout,
  );
  const [race] = budgets[0].races;
  const exact = JSON.parse(
    spawnSync(process.execPath, [join(ROOT, "dist/cli/main.js"), "compare", ...captures, "--json"], {
      encoding: "utf8",
      cwd: ROOT,
    }).stdout,
  );
  expect([race.packets, race.meanNs]).toEqual([exact.segment.matched, exact.segment.latency.meanNs]);
  expect(race.rows.map((r: { fits: boolean }) => r.fits)).toEqual([true, true, true]);
  expect(race.rows[0].segmentError).toBeLessThan(0.05);
  expect(budgets[0].advice.withDelays.estimator).toBe("sds");
  const head = gunzipSync(readFileSync(join(ROOT, "demo/router-in.pcap.gz"))).subarray(0, 24 + 16 + 82);
  const one = join(scratch, "one.pcap");
  writeFileSync(one, head);
  expect(evaluate(one)).toMatchObject({ status: 2, stderr: expect.not.stringContaining("bug") });
  const refused = evaluate(...captures, "--loss", "1%");
  expect([refused.status, refused.stderr]).toEqual([
    2,
    expect.stringContaining("--loss has no effect on two captures"),
  ]);
});

test("says which part of a damaged capture was used, and refuses what is not there", () => {
  const cut = join(scratch, "cut.pcap");
  const whole = gunzipSync(readFileSync(join(ROOT, "demo/router-in.pcap.gz")));
  writeFileSync(cut, whole.subarray(0, 300_001));
  const damaged = evaluate(cut, "--estimators", "lda");
  expect([damaged.status, damaged.stderr]).toEqual([
    2,
    expect.stringMatching(/cut\.pcap: at byte \d+: .*; results cover the part that was read/),
  ]);
  expect(damaged.stdout).toMatch(/one queue at 88.%: 2,697 packets/);
  expect(evaluate(join(scratch, "none.pcap")).status).toBe(2);
  expect(evaluate().stderr).toContain("give a capture, two captures, or --scenario");
});
