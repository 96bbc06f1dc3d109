/**
 * Speed of COLATE's update compared with the same work in C (bench/reference/colate.c, gcc -O3), on decoded rows: CPU time, best of several runs, both programs
 * in turn; their cells must be equal. Also the time of a query: 100,000 flows decoded together over 65,536 counters.
 *
 *   node scripts/bench.mjs colate-speed [--packets 4e6] [--rounds 9]
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Kernels } from "../src/base/kernels.ts";
import { Random } from "../src/base/random.ts";
import { BATCH_ROWS, PacketBatch } from "../src/capture/batch.ts";
import { colate } from "../src/estimators/colate/colate.ts";
import { createCounters, slotsOf } from "../src/estimators/colate/layout.ts";
import type { ColateParameters } from "../src/estimators/colate/parameters.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { runFlows } from "../src/evaluate/flow-runs.ts";
import type { Scenario } from "../src/simulate/scenario.ts";

const { values } = parseArgs({
  options: { packets: { type: "string", default: "4e6" }, rounds: { type: "string", default: "9" } },
});
const packets = Number(values.packets);
const rounds = Number(values.rounds);
const seed = 0x1234_5678_9abcn;
const folder = join(tmpdir(), "hoptime-bench-colate");
mkdirSync(folder, { recursive: true });
const program = join(folder, "colate");
const source = join(process.cwd(), "bench", "reference", "colate.c");
execFileSync("gcc", ["-O3", "-march=native", "-o", program, source, "-lm"]);

const cpuNs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1e3;
};

// 32 batches of rows with a realistic mix of flows: large ones and many small ones.
const BATCHES = 32;
const ROWS = BATCHES * BATCH_ROWS;
const kernels = new Kernels();
const random = new Random("colate speed");
const bytes = Buffer.alloc(24 * ROWS);
const batches = Array.from({ length: BATCHES }, (_, b) => {
  const batch = new PacketBatch(kernels);
  batch.count = BATCH_ROWS;
  const { timeNs, digest, flowHash } = batch;
  for (let i = 0; i < BATCH_ROWS; i++) {
    const row = b * BATCH_ROWS + i;
    const flow = random.bernoulli(0.5) ? random.below(200_000) : Math.floor((1 - random.float()) ** -1.2 * 3);
    timeNs[i] = 500 * row + random.below(400);
    digest.set([random.uint32(), random.uint32()], 2 * i);
    flowHash.set([Math.imul(flow, 0x9e37_79b1) >>> 0, Math.imul(flow, 0x85eb_ca6b) >>> 0], 2 * i);
    bytes.writeDoubleLE(timeNs[i]!, 8 * row);
    for (const [column, at] of [
      [digest, 1],
      [flowHash, 2],
    ] as const) {
      bytes.writeUInt32LE(column[2 * i]!, 8 * (at * ROWS + row));
      bytes.writeUInt32LE(column[2 * i + 1]!, 8 * (at * ROWS + row) + 4);
    }
  }
  return batch;
});
const rowsFile = join(folder, "rows.bin");
writeFileSync(rowsFile, bytes);
const repeats = Math.ceil(packets / ROWS);

function writeSlots(parameters: ColateParameters): string {
  const { edges, slots } = slotsOf(parameters, seed);
  const out = Buffer.alloc(8 * edges.length + 16 * slots.length);
  for (const [v, edge] of edges.entries()) out.writeBigUInt64LE(edge, 8 * v);
  for (const [i, slot] of slots.entries()) {
    const at = 8 * edges.length + 16 * i;
    out.writeBigUInt64LE(slot.seed, at);
    out.writeUInt32LE(slot.first, at + 8);
    out.writeUInt32LE(slot.cells, at + 12);
  }
  const file = join(folder, "slots.bin");
  writeFileSync(file, out);
  return file;
}

const M = (1n << 64n) - 1n;
const rotl = (x: bigint, r: bigint) => ((x << r) | (x >> (64n - r))) & M;
const P1 = 0x9e3779b185ebca87n;
const mixWord = (h: bigint, w: bigint) =>
  (rotl(h ^ ((rotl((w * 0xc2b2ae3d27d4eb4fn) & M, 31n) * P1) & M), 27n) * P1 + 0x85ebca77c2b2ae63n) & M;

console.log(`COLATE updates, CPU time, best of ${rounds}; equal cells checked`);
for (const text of ["vectors=1", "", "n=262144,vectors=1", "n=262144", "n=1048576"]) {
  const parameters = parseParameters(colate, text);
  const slots = writeSlots(parameters);
  const { multiplier } = slotsOf(parameters, seed);
  let [ours, theirs] = [Infinity, Infinity];
  for (let i = 0; i < rounds; i++) {
    const counters = createCounters(kernels, parameters, seed);
    const begin = cpuNs();
    for (let r = 0; r < repeats; r++) {
      for (const batch of batches) kernels.call.colateUpdate(counters, batch.address, 0, BATCH_ROWS, 0);
    }
    ours = Math.min(ours, (cpuNs() - begin) / (repeats * ROWS));
    const start = (kernels.call.colateCells(counters) >>> 0) >>> 3;
    const cells = kernels.u64.subarray(start, start + 2 * parameters.n);
    let check = 0n;
    for (const word of cells) check = mixWord(check, word);
    const maximum = kernels.call.colateMax(counters) >>> 0;
    kernels.call.colateFree(counters);
    const { n, m, vectors, unit } = parameters;
    const args = [rowsFile, n, m, vectors.length, multiplier, unit, slots, repeats].map(String);
    const [count, ns, sum, fullest] = execFileSync(program, args).toString().trim().split(" ");
    if (sum !== check.toString(16).padStart(16, "0") || Number(fullest) !== maximum) {
      throw new Error(`${text}: the cells differ from those of the reference`);
    }
    theirs = Math.min(theirs, Number(ns) / Number(count));
  }
  const rate = (ns: number) => `${(1000 / ns).toFixed(1)} M/s`.padStart(10);
  console.log(
    `${`${parameters.n} counters, ${parameters.vectors.length} vectors`.padEnd(32)} ${rate(ours)}  C ${rate(theirs)}  ratio ${(ours / theirs).toFixed(2)}`,
  );
}

const scenario: Scenario = {
  seed: 1,
  traffic: {
    kind: "population",
    ratePps: 400_000,
    packets: 2_000_000,
    flows: 116_000,
    alpha: 0.9,
    weightMax: 20_000,
  },
  path: [{ kind: "delay", model: { kind: "per-flow" } }],
};
console.log("a question: all flows of an epoch, 65,536 counters, CPU time, best of 3");
for (const text of ["m=2,vectors=1", "m=2", ""]) {
  const parameters = parseParameters(colate, text);
  const run = await runFlows(kernels, scenario, [{ estimator: colate, parameters, seed }]);
  let minimum = Infinity;
  for (let i = 0; i < 3; i++) {
    const begin = cpuNs();
    colate.estimate({
      parameters,
      seed,
      ...run.sealed[0]!,
      flows: run.flows,
      confidence: 0.95,
      epochNs: 5e9,
    });
    minimum = Math.min(minimum, (cpuNs() - begin) / 1e6);
  }
  const { m, vectors } = parameters;
  console.log(
    `${run.flows.count} flows, m=${m}, ${vectors.length} vectors: ${(minimum / 1000).toFixed(2)} s`,
  );
}
