// Runs the checks and the test suites, and closes with the one line that counts them.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const scratch = mkdtempSync(join(tmpdir(), "hoptime-test-"));
const report = join(scratch, "report.json");
const only = process.argv.slice(2);

let checkFailed = 0;
if (only.length === 0) {
  try {
    execFileSync(process.execPath, ["scripts/check.mjs"], { cwd: root, stdio: ["ignore", 2, 2] });
  } catch {
    checkFailed = 1;
  }
}
const vitest = spawnSync(
  join(root, "node_modules", ".bin", "vitest"),
  ["run", "--reporter=default", "--reporter=json", `--outputFile=${report}`, ...only],
  { cwd: root, stdio: ["ignore", 2, 2] },
);
let passed = 0;
let failed = checkFailed;
let skipped = 0;
try {
  const result = JSON.parse(readFileSync(report, "utf8"));
  passed = result.numPassedTests;
  failed += result.numFailedTests;
  skipped = result.numPendingTests + (result.numTodoTests ?? 0);
  // A file that fails to load has no tests to count, and is a failure all the same.
  failed += result.testResults.filter((f) => f.status === "failed" && f.assertionResults.length === 0).length;
} catch {
  failed += 1;
}
if (vitest.status !== 0 && failed === 0) failed = 1;
rmSync(scratch, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
