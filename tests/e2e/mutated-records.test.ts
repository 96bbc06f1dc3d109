/** Records with any content and a valid checksum: no question fails, and memory stays small. In a separate process, so that its memory can be measured. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { MutationReport } from "../../src/evaluate/mutated-records.ts";
import { ROOT } from "../support/demo-captures.ts";
import { rounds } from "../support/rounds.ts";

const MUTATIONS = rounds(1000, 10_000);
const MEMORY_MB = 256;

test(`${MUTATIONS} mutations of records with repaired checksums: none fails a question`, () => {
  const run = spawnSync(
    process.execPath,
    [join(ROOT, "scripts/bench.mjs"), "mutations", `${MUTATIONS}`, "11"],
    {
      encoding: "utf8",
      cwd: ROOT,
      timeout: 280_000,
    },
  );
  expect(run.stderr).toBe("");
  const report = JSON.parse(run.stdout) as MutationReport & { memoryMb: number };
  expect(report.failed).toEqual([]);
  expect(report.mutations).toBeGreaterThanOrEqual(MUTATIONS);
  // Many mutated records are still usable, but not most of those with changed texts, versions and lengths.
  expect(report.refused).toBeGreaterThan(MUTATIONS / 5);
  expect(report.memoryMb).toBeLessThan(MEMORY_MB);
});
