// Builds dist/: kernels (AssemblyScript to one .wasm), eBPF programs (clang, if present), the library (tsc, with the packages it uses), the CLI (esbuild), the
// web pages (esbuild).
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
const WASM = join(root, "dist", "kernels.wasm");
/** Hashes of the sources of the compiled kernels. */
const BUILT = join(root, ".cache", "kernels.json");

mkdirSync(join(root, "dist"), { recursive: true });
if (only === "kernels" || (!only && !builtBefore())) {
  buildKernels();
  rememberBuilt();
}
if (!only || only === "datapath") buildDatapath(root);
if (!only || only === "web") {
  if (existsSync(join(root, "web", "build.mjs"))) run(process.execPath, ["web/build.mjs"]);
}
if (!only || only === "library") {
  // Comments stay in the type declarations, but not in the code.
  run(bin("tsc"), ["-p", "tsconfig.build.json", "--declaration", "false", "--removeComments"]);
  run(bin("tsc"), ["-p", "tsconfig.build.json", "--emitDeclarationOnly"]);
  await buildCli(root);
  await bundlePackages(root);
}

function buildKernels() {
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

/** Compiling the kernels takes longer than everything else together, so it is done only if the sources or the module have changed. */
function builtBefore() {
  const known = existsSync(BUILT) ? JSON.parse(readFileSync(BUILT, "utf8")) : {};
  return existsSync(WASM) && known.sources === hashOf(kernelSources()) && known.wasm === hashOf([WASM]);
}

function rememberBuilt() {
  mkdirSync(dirname(BUILT), { recursive: true });
  writeFileSync(BUILT, JSON.stringify({ sources: hashOf(kernelSources()), wasm: hashOf([WASM]) }));
}

function kernelSources() {
  const kernels = readdirSync(join(root, "kernels"), { recursive: true, withFileTypes: true });
  const files = kernels.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const scripts = ["build", "kernel-bindings", "kernel-layout"].map((name) =>
    join(root, "scripts", `${name}.mjs`),
  );
  const written = ["exports", "layout"].map((name) => join(root, "src", "base", `kernel-${name}.ts`));
  return [
    ...files.sort(),
    ...scripts,
    ...written,
    join(root, "node_modules", "assemblyscript", "package.json"),
  ];
}

function hashOf(files) {
  const hash = createHash("sha256");
  for (const file of files) hash.update(file.slice(root.length)).update("\0").update(readFileSync(file));
  return hash.digest("hex");
}
