/** The package as users get it: packed, installed elsewhere, run, and imported with its types. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { DEMO, ROOT } from "../support/demo-captures.ts";

/**
 * Measured: 9.6 MB, including 3.8 for the command line, 2.9 for the library with its types, 0.8 for the pages, 0.8 for eBPF programs, 0.6 for documents and 0.4
 * for the demo captures.
 */
const MAX_INSTALLED_BYTES = 10e6;

const scratch = mkdtempSync(join(tmpdir(), "hoptime-package-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test("the packed package runs and is imported elsewhere, kernels and types included", () => {
  // --ignore-scripts: dist is already built, and other tests are using it.
  execFileSync("npm", ["pack", "--ignore-scripts", "--pack-destination", scratch], {
    cwd: ROOT,
    stdio: "ignore",
  });
  const tarball = readdirSync(scratch).find((f) => f.endsWith(".tgz"))!;
  const home = join(scratch, "elsewhere");
  const modules = join(home, "node_modules");
  mkdirSync(join(modules, "hoptime"), { recursive: true });
  execFileSync("tar", [
    "-xzf",
    join(scratch, tarball),
    "-C",
    join(modules, "hoptime"),
    "--strip-components=1",
  ]);
  // All packages that it uses are included.
  const { dependencies } = JSON.parse(readFileSync(join(modules, "hoptime/package.json"), "utf8"));
  expect(dependencies ?? {}).toEqual({});
  expect(bytesBelow(modules)).toBeLessThan(MAX_INSTALLED_BYTES);
  const bin = join(modules, "hoptime/dist/cli/main.js");
  // Only users who run a collector install its database.
  const collect = spawnSync(process.execPath, [bin, "collect", "--data", join(scratch, "data")], {
    encoding: "utf8",
  });
  expect(collect.status).toBe(2);
  expect(collect.stderr).toMatch(
    /@duckdb\/node-api, in which .* is not installed.*npm install -g @duckdb\/node-api/,
  );
  const demo = execFileSync(process.execPath, [bin, "demo"], { cwd: home }).toString();
  expect(demo).toContain("packets  6,664 sent");
  writeFileSync(join(home, "package.json"), '{"type":"module"}');
  writeFileSync(
    join(home, "use.ts"),
    `import { compareCaptures, type CompareReport } from "hoptime";
const report: CompareReport = await compareCaptures({ before: ${JSON.stringify(DEMO.before)}, after: ${JSON.stringify(DEMO.after)} });
const lost: number = report.segment.lost;
console.log(report.segment.matched, lost);
`,
  );
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  execFileSync(
    tsc,
    [
      "--module",
      "nodenext",
      "--target",
      "es2023",
      "--strict",
      "--skipLibCheck",
      "false",
      "--types",
      "node",
      "--typeRoots",
      join(ROOT, "node_modules/@types"),
      "use.ts",
    ],
    {
      cwd: home,
      stdio: "inherit",
    },
  );
  expect(execFileSync(process.execPath, ["use.js"], { cwd: home }).toString()).toBe("6163 320\n");
});

function bytesBelow(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
