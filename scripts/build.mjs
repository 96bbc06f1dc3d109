// Builds dist/: kernels (AssemblyScript -> one .wasm), the library and CLI (tsc), the report page (esbuild).
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name) => join(root, "node_modules", ".bin", name);
const run = (command, args) => execFileSync(command, args, { cwd: root, stdio: ["ignore", 2, 2] });
const only = process.argv[2];

mkdirSync(join(root, "dist"), { recursive: true });
if (!only || only === "kernels") {
  run(bin("asc"), [
    "kernels/index.ts",
    "--outFile",
    "dist/kernels.wasm",
    "--config",
    "none",
    "-O3",
    "--converge",
    "--noAssert",
    "--runtime",
    "minimal",
    "--initialMemory",
    "64",
    "--maximumMemory",
    "65536",
    "--enable",
    "bulk-memory",
    "--use",
    "abort=",
    "--disableWarning",
    "235",
  ]);
}
if (!only || only === "web") {
  if (existsSync(join(root, "web", "build.mjs"))) run(process.execPath, ["web/build.mjs"]);
}
if (!only || only === "library") {
  run(bin("tsc"), ["-p", "tsconfig.build.json"]);
  // The command line is put together into few files, with the reading thread beside it: a hundred modules take longer to find than to run.
  const cli = join(root, "dist", "cli");
  rmSync(cli, { recursive: true, force: true });
  const bundle = (...args) =>
    run(bin("esbuild"), [
      ...args,
      "--bundle",
      "--platform=node",
      "--format=esm",
      "--packages=external",
      "--outdir=dist/cli",
      "--log-level=warning",
    ]);
  bundle("src/cli/main.ts", "--splitting", "--chunk-names=[name]-[hash]");
  bundle("src/collect/feed-worker.ts");
  chmodSync(join(cli, "main.js"), 0o755);
}
