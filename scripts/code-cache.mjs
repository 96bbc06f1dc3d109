// Stores the engine's compiled code of the command line for src/cli/load.ts. It is collected while the program compares two captures in two threads, as for
// large captures (the demo's packets, repeated); the remaining pieces come from other commands on the demo's packets, or from their help.
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

const PCAP_HEAD_BYTES = 24;
/** Captures with this total size are read in a second thread (src/match/feed-thread.ts). */
const CAPTURE_BYTES = 9 << 20;
/** With a single processor there is no second thread. */
const THREADS = availableParallelism() > 1 ? ["program", "feed-program"] : ["program"];

export function keepCompiled(root) {
  const scratch = mkdtempSync(join(tmpdir(), "hoptime-build-"));
  try {
    const demo = (name) => join(root, "demo", `${name}.pcap.gz`);
    const captures = ["router-in", "router-out"].map((name) => {
      const bytes = gunzipSync(readFileSync(demo(name)));
      const packets = bytes.subarray(PCAP_HEAD_BYTES);
      const times = Math.ceil(CAPTURE_BYTES / packets.length);
      const file = join(scratch, `${name}.pcap`);
      writeFileSync(file, Buffer.concat([bytes, ...Array(times).fill(packets)]));
      return file;
    });
    const records = join(scratch, "records");
    const observing = (point, capture) => ["observe", demo(capture), "--point", point, "--to", records];
    const runs = [
      ["compare", ...captures],
      observing("A", "router-in"),
      observing("B", "router-out"),
      ["query", records, "--between", "A", "B"],
      ["inspect", demo("router-in")],
      ["localise", join(root, "demo", "chain.json"), "--help"],
      ...["collect", "top", "simulate", "evaluate", "size", "export"].map((command) => [command, "--help"]),
    ];
    /** Pieces of each thread by name; each is taken from the first run that has it. */
    const pieces = new Map(THREADS.map((thread) => [thread, new Map()]));
    runs.forEach((run, i) => {
      const target = join(scratch, `run${i}`);
      runOnce(root, run, target, i === 0 ? THREADS.length : 1);
      for (const [thread, known] of pieces) take(join(target, thread), known);
    });
    for (const [thread, known] of pieces) {
      if (known.size === 0) throw new Error(`nothing was compiled of ${thread}`);
      writeTogether(join(root, "dist", "cli", `${thread}.compiled`), known);
    }
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

function runOnce(root, run, target, threads) {
  const folder = join(root, "dist", "cli");
  const preload = ["--require", join(root, "scripts", "keep-compiled.cjs")];
  execFileSync(process.execPath, [...preload, join(folder, "main.js"), ...run], {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      NODE_OPTIONS: "",
      HOPTIME_PROGRAM_FOLDER: folder,
      HOPTIME_COMPILED_FOLDER: target,
      HOPTIME_COMPILED_THREADS: String(threads),
    },
  });
}

function take(folder, known) {
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder))
    if (!known.has(name)) known.set(name, readFileSync(join(folder, name)));
}

function writeTogether(file, known) {
  const index = {};
  const pieces = [];
  let at = 0;
  for (const [name, piece] of known) {
    const padding = Buffer.alloc((8 - (piece.length % 8)) % 8);
    index[name] = [at, piece.length];
    pieces.push(piece, padding);
    at += piece.length + padding.length;
  }
  const head = JSON.stringify(index);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(head.length);
  writeFileSync(`${file}.part`, Buffer.concat([length, Buffer.from(head, "latin1"), ...pieces]));
  renameSync(`${file}.part`, file);
}
