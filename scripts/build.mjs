// Builds dist/: kernels (AssemblyScript -> one .wasm), eBPF programs (clang, where it is there), the library (tsc, with the packages it uses), the CLI (esbuild), the report page (esbuild).
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildCli } from "./build-cli.mjs";
import { buildDatapath } from "./build-datapath.mjs";
import { bundlePackages } from "./bundle-packages.mjs";
import { writeKernelExports } from "./kernel-bindings.mjs";
import { writeKernelLayout } from "./kernel-layout.mjs";

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
    "--bindings",
    "raw",
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
  writeKernelExports(join(root, "dist", "kernels.d.ts"));
  writeKernelLayout(bin("asc"));
  for (const unused of ["kernels.js", "kernels.d.ts"]) rmSync(join(root, "dist", unused));
}
if (!only || only === "datapath") buildDatapath(root);
if (!only || only === "web") {
  if (existsSync(join(root, "web", "build.mjs"))) run(process.execPath, ["web/build.mjs"]);
}
if (!only || only === "library") {
  // Comments are for readers of the types (and of the source), not for those who install the code.
  run(bin("tsc"), ["-p", "tsconfig.build.json", "--declaration", "false", "--removeComments"]);
  run(bin("tsc"), ["-p", "tsconfig.build.json", "--emitDeclarationOnly"]);
  await buildCli(root);
  await bundlePackages(root);
}
