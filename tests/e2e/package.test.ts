/** The package as others get it: packed, installed elsewhere, run and imported with its types. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { DEMO, ROOT } from "../support/demo-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-package-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test("the packed package runs and is imported elsewhere, kernels and types included", () => {
  // --ignore-scripts: dist is built already, and other tests are using it.
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
  // Its run-time dependencies, and nothing of ours besides.
  const { dependencies = {} } = JSON.parse(execFileSync("cat", [join(ROOT, "package.json")]).toString());
  for (const name of Object.keys(dependencies)) {
    mkdirSync(join(modules, name, ".."), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  }
  const bin = join(modules, "hoptime/dist/cli/main.js");
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
