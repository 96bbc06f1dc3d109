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

test("names the estimator to take, in words and as JSON", { timeout: 60_000 }, () => {
  const words = ["demo/router-in.pcap.gz", "--memory", "64kB", "--estimators", "lds,trajectory"];
  const text = evaluate(...words);
  expect(text.stderr).toBe("");
  expect(text.stdout).toMatch(/take lds: .*\n {2}hoptime observe FILE --point A --estimators lds/);
  const { advice, races } = JSON.parse(evaluate(...words, "--json").stdout);
  expect(advice.estimator).toBe("lds");
  expect(races.map((r: { race: { packets: number } }) => r.race.packets)).toEqual([6664, 6664]);
});

test("says which part of a damaged capture was used, and refuses what is not there", {
  timeout: 60_000,
}, () => {
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
  expect(evaluate().stderr).toContain("give a capture or --scenario");
});
