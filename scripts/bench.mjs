// Runs one benchmark: node scripts/bench.mjs NAME [args]; NAME --help prints the header comment of its file. bench/NAME.ts is bundled to dist/bench/NAME.mjs
// and run there.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [name, ...args] = process.argv.slice(2);
const source = join(root, "bench", `${name}.ts`);
if (!name || !existsSync(source)) {
  const names = readdirSync(join(root, "bench"))
    .filter((f) => f.endsWith(".ts") && !f.endsWith(".test.ts"))
    .map((f) => f.slice(0, -3));
  console.error(`usage: node scripts/bench.mjs NAME [args]; NAME is one of ${names.join(", ")}`);
  process.exit(2);
}
if (args.includes("--help") || args.includes("-h")) {
  const [, comment = "no description"] = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(source, "utf8")) ?? [];
  console.log(comment.replace(/^ ?\* ?/gm, "").trim());
  process.exit(0);
}
if (!existsSync(join(root, "dist", "kernels.wasm"))) {
  execFileSync(process.execPath, ["scripts/build.mjs", "kernels"], { cwd: root, stdio: ["ignore", 2, 2] });
}
const bundle = join(root, "dist", "bench", `${name}.mjs`);
execFileSync(
  join(root, "node_modules", ".bin", "esbuild"),
  [
    source,
    "--bundle",
    "--platform=node",
    "--format=esm",
    "--packages=external",
    "--log-level=warning",
    `--outfile=${bundle}`,
  ],
  { cwd: root, stdio: ["ignore", 2, 2] },
);
process.exit(spawnSync(process.execPath, [bundle, ...args], { stdio: "inherit" }).status ?? 1);
