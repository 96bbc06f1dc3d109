/**
 * Speed of LDA updates compared with the same work in C (bench/reference/lda.c, gcc -O3), in one run: on decoded rows, and from a pcap file to the sketch. CPU
 * time of each, best of several runs, both programs in turn; their cells must be equal.
 *
 *   node scripts/bench.mjs lda-speed [--packets 2e6] [--rounds 7]
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Kernels } from "../src/base/kernels.ts";
import { Random } from "../src/base/random.ts";
import { BATCH_ROWS, PacketBatch } from "../src/capture/batch.ts";
import { CaptureReader, DEFAULT_COVER, DEFAULT_SEED } from "../src/capture/reader.ts";
import type { SealedEpoch } from "../src/estimators/estimator.ts";
import { lda } from "../src/estimators/lda/lda.ts";
import type { LdaParameters } from "../src/estimators/lda/parameters.ts";
import { decodeRows } from "../src/estimators/lda/payload.ts";
import { hashRanges } from "../src/estimators/lda/sampling.ts";
import { parseParameters } from "../src/estimators/parameters.ts";

const { values } = parseArgs({
  options: { packets: { type: "string", default: "2e6" }, rounds: { type: "string", default: "7" } },
});
const packets = Number(values.packets);
const rounds = Number(values.rounds);
const seed = 0x1234_5678_9abcn;
const folder = join(tmpdir(), "hoptime-bench-lda");
mkdirSync(folder, { recursive: true });
const program = join(folder, "lda");
const source = join(process.cwd(), "bench", "reference", "lda.c");
execFileSync("gcc", ["-O3", "-march=native", "-o", program, source]);

interface Measured {
  nsPerPacket: number;
  check: string;
}

function reference(mode: string, file: string, parameters: LdaParameters, rest: string[]): Measured {
  const { from, limit } = hashRanges(parameters.sampling);
  const edges = [limit, from[0] ?? 0n, from[1] ?? 0n, from[2] ?? 0n].map(String);
  const out = execFileSync(program, [
    mode,
    file,
    `${parameters.banks}`,
    `${parameters.rows}`,
    `${seed}`,
    ...edges,
    ...rest,
  ]);
  const [count, ns, check] = out.toString().trim().split(" ") as [string, string, string];
  return { nsPerPacket: Number(ns) / Number(count), check };
}

const M = (1n << 64n) - 1n;
const rotl = (x: bigint, r: bigint) => ((x << r) | (x >> (64n - r))) & M;
const P1 = 0x9e3779b185ebca87n;
const mixWord = (h: bigint, w: bigint) =>
  (rotl(h ^ ((rotl((w * 0xc2b2ae3d27d4eb4fn) & M, 31n) * P1) & M), 27n) * P1 + 0x85ebca77c2b2ae63n) & M;

/** Computes the same checksum of the cells as the reference. */
function checksum(sealed: SealedEpoch, parameters: LdaParameters): string {
  const rows = decodeRows(sealed, parameters);
  let check = 0n;
  for (let i = 0; i < rows.count.length; i++) {
    check = mixWord(check, BigInt.asUintN(64, rows.sum[i]!));
    check = mixWord(check, (BigInt(rows.digest![i]!) << 32n) | BigInt(rows.count[i]!));
  }
  return check.toString(16).padStart(16, "0");
}

const cpuNs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1e3;
};

function best(name: string, ours: () => Measured, theirs: () => Measured): void {
  let a = Infinity;
  let b = Infinity;
  for (let i = 0; i < rounds; i++) {
    const mine = ours();
    const other = theirs();
    if (mine.check !== other.check)
      throw new Error(`${name}: the cells differ: ${mine.check}, C ${other.check}`);
    a = Math.min(a, mine.nsPerPacket);
    b = Math.min(b, other.nsPerPacket);
  }
  const rate = (ns: number) => `${(1000 / ns).toFixed(1)} M/s`;
  console.log(
    `${name.padEnd(44)} ${rate(a).padStart(10)}  C ${rate(b).padStart(10)}  ratio ${(a / b).toFixed(2)}`,
  );
}

// Enough different rows that a branch predictor cannot learn them; all fit into the L2 cache.
const BATCHES = 32;
const kernels = new Kernels();
const random = new Random("lda speed");
const bytes = Buffer.alloc(16 * BATCH_ROWS * BATCHES);
const batches = Array.from({ length: BATCHES }, (_, b) => {
  const batch = new PacketBatch(kernels);
  batch.count = BATCH_ROWS;
  const { timeNs, digest } = batch;
  for (let i = 0; i < BATCH_ROWS; i++) {
    const row = b * BATCH_ROWS + i;
    timeNs[i] = 500 * row + random.below(400);
    digest[2 * i] = random.uint32();
    digest[2 * i + 1] = random.uint32();
    bytes.writeDoubleLE(timeNs[i]!, 8 * row);
    bytes.writeUInt32LE(digest[2 * i]!, 8 * (BATCHES * BATCH_ROWS + row));
    bytes.writeUInt32LE(digest[2 * i + 1]!, 8 * (BATCHES * BATCH_ROWS + row) + 4);
  }
  return batch;
});
const rowsFile = join(folder, "rows.bin");
writeFileSync(rowsFile, bytes);

const settings = [
  { name: "two banks for 5 M packets", text: "packets=5e6" },
  { name: "defaults (all packets sampled)", text: "" },
  { name: "half of the packets sampled", text: "sampling=0.5,rows=1024" },
];
console.log(`LDA updates, CPU time, best of ${rounds}`);
for (const { name, text } of settings) {
  const parameters = parseParameters(lda, text);
  const repeats = Math.ceil(packets / BATCH_ROWS / BATCHES);
  best(
    `decoded rows, ${name}`,
    () => {
      const tap = lda.createTap({ kernels, role: "sender", seed }, parameters);
      tap.begin(0);
      const begin = cpuNs();
      for (let i = 0; i < repeats; i++) {
        for (const batch of batches) tap.update(batch, 0, BATCH_ROWS);
      }
      const nsPerPacket = (cpuNs() - begin) / (repeats * BATCH_ROWS * BATCHES);
      const check = checksum(tap.seal(), parameters);
      tap.free();
      return { nsPerPacket, check };
    },
    () => reference("update", rowsFile, parameters, [`${repeats}`]),
  );
}

const captures = join(folder, `pair-${packets}`);
const capture = join(captures, "before.pcap");
if (!existsSync(capture)) {
  const options = ["--packets", `${packets}`, "--ipv6Share", "0", "--vlanShare", "0", "--out", captures];
  execFileSync(process.execPath, ["scripts/bench.mjs", "generate-captures", ...options]);
}
const parameters = parseParameters(lda, "");
const runs: Measured[] = [];
async function ours(): Promise<Measured> {
  const k = new Kernels();
  const begin = cpuNs();
  const reader = await CaptureReader.open(k, capture, {});
  const tap = lda.createTap({ kernels: k, role: "sender", seed }, parameters);
  tap.begin(0);
  let count = 0;
  while (await reader.next()) {
    tap.update(reader.batch, 0, reader.batch.count);
    count += reader.batch.count;
  }
  const nsPerPacket = (cpuNs() - begin) / count;
  reader.close();
  return { nsPerPacket, check: checksum(tap.seal(), parameters) };
}
for (let i = 0; i < rounds; i++) runs.push(await ours());
let next = 0;
best(
  "pcap file to sketch, defaults",
  () => runs[next++]!,
  () => reference("pipeline", capture, parameters, [`${DEFAULT_COVER}`, `${DEFAULT_SEED}`]),
);
