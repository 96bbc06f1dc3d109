// Keeps what the engine compiles of the command line when it compares two captures, for src/cli/load.ts. In two threads, as large captures are: the
// demo's packets, several times over, make some.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

const PCAP_HEAD_BYTES = 24;
/** Both together are read in a second thread (src/match/feed-thread.ts). */
const CAPTURE_BYTES = 9 << 20;

export function keepCompiled(root) {
  const folder = join(root, "dist", "cli");
  const scratch = mkdtempSync(join(tmpdir(), "hoptime-build-"));
  try {
    const captures = ["router-in", "router-out"].map((name) => {
      const bytes = gunzipSync(readFileSync(join(root, "demo", `${name}.pcap.gz`)));
      const packets = bytes.subarray(PCAP_HEAD_BYTES);
      const times = Math.ceil(CAPTURE_BYTES / packets.length);
      const file = join(scratch, `${name}.pcap`);
      writeFileSync(file, Buffer.concat([bytes, ...Array(times).fill(packets)]));
      return file;
    });
    const preload = ["--require", join(root, "scripts", "keep-compiled.cjs")];
    execFileSync(process.execPath, [...preload, join(folder, "main.js"), "compare", ...captures], {
      cwd: root,
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, NODE_OPTIONS: "", HOPTIME_COMPILED_FOLDER: folder },
    });
    // On one processor there is no second thread.
    const programs = availableParallelism() > 1 ? ["program", "feed-program"] : ["program"];
    for (const name of programs) {
      if (!existsSync(join(folder, `${name}.compiled`))) throw new Error(`${name}.compiled was not written`);
    }
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
