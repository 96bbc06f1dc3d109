// All checks that do not run the product: packages, formatting and lint, types, import rules, function size, non-null assertions.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const missing = Object.keys({ ...dependencies, ...devDependencies }).filter(
  (name) => !existsSync(join(root, "node_modules", name)),
);
if (missing.length > 0) {
  console.error(`check: ${missing.join(", ")} not installed: run npm install --no-audit --no-fund`);
  process.exit(1);
}

const bin = (name) => join(root, "node_modules", ".bin", name);
const steps = [
  ["biome", bin("biome"), ["check", "--error-on-warnings", "."]],
  ["types", bin("tsc"), ["-p", "tsconfig.json"]],
  ["types of the reports", bin("tsc"), ["-p", "web/tsconfig.json"]],
  ["types of the page", bin("tsc"), ["-p", "web/tsconfig.app.json"]],
  ["types of their tests", bin("tsc"), ["-p", "web/tsconfig.test.json"]],
  ["imports", process.execPath, ["scripts/check-imports.mjs"]],
  ["functions", process.execPath, ["scripts/check-functions.mjs"]],
  ["assertions", process.execPath, ["scripts/check-assertions.mjs"]],
];
let failed = false;
for (const [name, command, args] of steps) {
  try {
    execFileSync(command, args, { cwd: root, stdio: ["ignore", 2, 2] });
  } catch {
    console.error(`check: ${name} failed`);
    failed = true;
  }
}
process.exit(failed ? 1 : 0);
