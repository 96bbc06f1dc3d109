// Compiles datapath/*.bpf.c to dist/datapath/*.bpf.o with clang. Without clang or libbpf's headers, the rest of hoptime is still built, and --ebpf reports what
// is missing. The objects are the same on every machine (they refer to kernel structures by BTF), so those of a package work everywhere.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";

export function buildDatapath(root) {
  const from = join(root, "datapath");
  const to = join(root, "dist", "datapath");
  if (!existsSync(from)) return;
  const sources = readdirSync(from).filter((name) => name.endsWith(".bpf.c"));
  if (spawnSync("clang", ["--version"]).status !== 0) {
    console.error("datapath: not built (clang is not installed)");
    return;
  }
  mkdirSync(to, { recursive: true });
  // Debian has asm/ in a directory per architecture, which clang does not search for the target bpf.
  const include = spawnSync("gcc", ["-print-multiarch"], { encoding: "utf8" }).stdout?.trim();
  const headers = [include, `${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`]
    .filter(Boolean)
    .map((name) => `/usr/include/${name}`)
    .filter(existsSync);
  for (const name of sources) {
    const out = join(to, `${basename(name, ".c")}.o`);
    rmSync(out, { force: true });
    // -g adds BTF, which is needed to find maps and constants. The debug sections are not needed.
    const args = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror"];
    for (const folder of headers) args.push("-I", folder);
    const { status, stderr } = spawnSync("clang", [...args, "-c", join(from, name), "-o", out], {
      encoding: "utf8",
    });
    if (status !== 0) {
      if (/'bpf\/bpf_helpers\.h' file not found/.test(stderr)) {
        console.error("datapath: not built (the headers of libbpf are not installed: libbpf-dev)");
        return;
      }
      throw new Error(`datapath/${name}:\n${stderr}`);
    }
    stripDebug(out);
  }
}

function stripDebug(file) {
  try {
    execFileSync("llvm-strip", ["-g", file], { stdio: "ignore" });
  } catch {
    // The file stays larger.
  }
}
