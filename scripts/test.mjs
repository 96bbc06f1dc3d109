// Runs the checks and the test suites; the last line counts the results.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
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
  // A file that fails to load has no tests to count, but is a failure.
  failed += result.testResults.filter((f) => f.status === "failed" && f.assertionResults.length === 0).length;
  for (const file of result.testResults) summarise(file);
} catch {
  failed += 1;
}
if (checkFailed > 0) console.log("failed: node scripts/check.mjs");
if (vitest.status !== 0 && failed === 0) failed = 1;
rmSync(scratch, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);

/** Prints the names of the failed tests last, because readers look at the end of a log first. */
function summarise({ name, status, message, assertionResults }) {
  const path = relative(root, name);
  if (status === "failed" && assertionResults.length === 0)
    console.log(`failed: ${path}: ${firstLine(message)}`);
  for (const test of assertionResults)
    if (test.status === "failed")
      console.log(`failed: ${path}: ${test.fullName}: ${firstLine(test.failureMessages?.[0])}`);
}

function firstLine(text) {
  return String(text ?? "")
    .split("\n")[0]
    .slice(0, 300);
}
