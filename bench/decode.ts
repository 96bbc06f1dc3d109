/**
 * Compares decoding and digests with the same work in C (bench/reference/decode.c, built with gcc -O3 if gcc is installed), on one generated file. Best CPU
 * time of several runs of each, in turn so that other load slows both. The digests must be equal.
 *
 *   node scripts/bench.mjs decode [--packets 5e6] [--runs 5]
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { Kernels } from "../src/base/kernels.ts";
import { CaptureReader } from "../src/capture/reader.ts";
import { GENERATOR_VERSION, generateCaptures } from "./generate-captures.ts";

const option = (name: string, otherwise: number) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const packets = option("packets", 5e6);
const runs = option("runs", 5);

const folder = join("bench", "data");
mkdirSync(folder, { recursive: true });
const file = join(folder, `decode-${packets}-v${GENERATOR_VERSION}.pcap`);
if (!existsSync(file)) generateCaptures({ packets, beforeFile: file, afterFile: "/dev/null" });

interface Run {
  packets: number;
  rows: number;
  xor: string;
  cpuSeconds: number;
}

async function ours(): Promise<Run> {
  const kernels = new Kernels();
  const from = process.cpuUsage();
  const reader = await CaptureReader.open(kernels, file);
  let low = 0;
  let high = 0;
  while (await reader.next()) {
    const { digest, count } = reader.batch;
    for (let i = 0; i < count; i++) {
      low ^= digest[2 * i]!;
      high ^= digest[2 * i + 1]!;
    }
  }
  const used = process.cpuUsage(from);
  const { packets: n, ipPackets } = reader.statistics();
  reader.close();
  const hex = (v: number) => (v >>> 0).toString(16).padStart(8, "0");
  return {
    packets: n,
    rows: ipPackets,
    xor: hex(high) + hex(low),
    cpuSeconds: (used.user + used.system) / 1e6,
  };
}

function buildReference(): string | null {
  const binary = join("dist", "bench", "decode-reference");
  try {
    mkdirSync(join("dist", "bench"), { recursive: true });
    execFileSync("gcc", ["-O3", "-march=native", "-o", binary, join("bench", "reference", "decode.c")], {
      stdio: ["ignore", 2, 2],
    });
    return `./${binary}`;
  } catch {
    console.error("gcc is not there: no reference to compare with");
    return null;
  }
}

const reference = buildReference();
let best: Run | null = null;
let bestReference: Run | null = null;
for (let i = 0; i < runs; i++) {
  const mine = await ours();
  if (!best || mine.cpuSeconds < best.cpuSeconds) best = mine;
  if (reference) {
    const other = JSON.parse(execFileSync(reference, [file, "1"], { encoding: "utf8" })) as Run;
    if (other.xor !== mine.xor || other.rows !== mine.rows)
      throw new Error(
        `the reference disagrees: ${other.rows} rows, ${other.xor}; ours ${mine.rows}, ${mine.xor}`,
      );
    if (!bestReference || other.cpuSeconds < bestReference.cpuSeconds) bestReference = other;
  }
}
const mpps = (run: Run) => run.packets / run.cpuSeconds / 1e6;
console.log(
  JSON.stringify({
    packets: best!.packets,
    mpps: mpps(best!),
    referenceMpps: bestReference ? mpps(bestReference) : null,
    ratio: bestReference ? best!.cpuSeconds / bestReference.cpuSeconds : null,
    xor: best!.xor,
  }),
);
