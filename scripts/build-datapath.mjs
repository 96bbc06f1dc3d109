// Builds datapath/*.bpf.c into dist/datapath/*.bpf.o with clang. Where clang or libbpf's headers are missing the rest of hoptime is built all the same: --ebpf then reports what is
// missing. Objects are the same on every machine (they name kernel structures by BTF), so those of a package serve all.
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
  // Debian keeps asm/ in a folder per architecture, which clang does not look into for the target bpf.
  const include = spawnSync("gcc", ["-print-multiarch"], { encoding: "utf8" }).stdout?.trim();
  const headers = [include, `${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`]
    .filter(Boolean)
    .map((name) => `/usr/include/${name}`)
    .filter(existsSync);
  for (const name of sources) {
    const out = join(to, `${basename(name, ".c")}.o`);
    rmSync(out, { force: true });
    // -g: BTF, which maps and constants are found by. The debug sections themselves are not needed.
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
    // Only larger.
  }
}
