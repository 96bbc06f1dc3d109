// Everything that is checked without running the product: formatting and lint, types, the import rule.
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name) => join(root, "node_modules", ".bin", name);
const steps = [
  ["biome", bin("biome"), ["check", "--error-on-warnings", "."]],
  ["types", bin("tsc"), ["-p", "tsconfig.json"]],
  ["types of the page", bin("tsc"), ["-p", "web/tsconfig.json"]],
  ["types of its test", bin("tsc"), ["-p", "web/tsconfig.test.json"]],
  ["imports", process.execPath, ["scripts/check-imports.mjs"]],
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
