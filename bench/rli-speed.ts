/**
 * Speed of RLI's update compared with the same work in C (bench/reference/rli.c, gcc -O3), in turn, CPU time: with the line only (`line=transmission`), and
 * with backlogs (the default), each compared with an equivalent C program. Results must be equal to the last bit. For this, C must not use fused multiply-add,
 * which WebAssembly does not have; it is timed with and without, and the faster time counts.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Kernels } from "../src/base/kernels.ts";
import { PacketBatch } from "../src/capture/batch.ts";
import { copyBatch } from "../src/capture/copy-batch.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../src/capture/reader.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { decodeRli, type RliSketch } from "../src/estimators/rli/payload.ts";
import { rli } from "../src/estimators/rli/rli.ts";
import { rliScenario, SCHEMES, withReferences } from "../src/evaluate/rli-experiment.ts";
import { RECEIVER } from "../src/simulate/scenario.ts";
import { simulate } from "../src/simulate/simulate.ts";

const SEED = 5n;

const LINES = ["transmission", "backlog"] as const;

/** Returns the ratio of our time per packet to that of C; the larger one of the two lines. */
export async function rliSpeed(rounds = 7): Promise<number> {
  const kernels = new Kernels();
  const { scenario, drainBps } = await rliScenario(kernels, { utilisation: 0.7, traffic: { durationS: 2 } });
  const injected = withReferences(scenario, SCHEMES.adaptive, drainBps);
  const mask = FlowKeySpec.parse().store(kernels);
  const batches: PacketBatch[] = [];
  for await (const batch of simulate(kernels, injected.scenario).at(RECEIVER)) {
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    const copy = new PacketBatch(kernels, batch.count);
    copyBatch(batch, copy);
    batches.push(copy);
  }
  const folder = join(tmpdir(), "hoptime-bench-rli");
  mkdirSync(folder, { recursive: true });
  const rows = join(folder, "rows.bin");
  const packets = writeRows(rows, batches);
  const source = join(process.cwd(), "bench", "reference", "rli.c");
  const programs = (["off", "fast"] as const).map((contract) => {
    const program = join(folder, `rli-${contract}`);
    execFileSync("gcc", ["-O3", "-march=native", `-ffp-contract=${contract}`, "-o", program, source, "-lm"]);
    return { program, exact: contract === "off" };
  });
  const best = LINES.map((line) => ({ line, ours: Infinity, theirs: Infinity }));
  for (let round = 0; round < rounds; round++) {
    for (const times of best) {
      const parameters = parseParameters(rli, `drain=${drainBps},max=2000000,line=${times.line}`);
      const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, parameters);
      tap.begin(0, 0n);
      const before = process.cpuUsage();
      for (const batch of batches) tap.update(batch, 0, batch.count);
      const { user, system } = process.cpuUsage(before);
      const mine = resultsOf(decodeRli(tap.seal(), parameters, SEED));
      tap.free();
      times.ours = Math.min(times.ours, ((user + system) * 1e3) / packets);
      const given = [rows, `${8e9 / drainBps}`, `${parameters.buffer}`, times.line];
      for (const { program, exact } of programs) {
        const out = execFileSync(program, given, { stdio: ["ignore", "pipe", "ignore"] }).toString();
        const [ns, ...rest] = out.trim().split(" ");
        if (exact && rest.join(" ") !== mine)
          throw new Error(`line=${times.line}: results differ: ours ${mine}, C ${rest.join(" ")}`);
        times.theirs = Math.min(times.theirs, Number(ns) / packets);
      }
    }
  }
  console.log(`\nRLI update, ${packets} rows, best of ${rounds}; results equal to the last bit`);
  const rate = (ns: number) => `${(1000 / ns).toFixed(1)} M/s`;
  for (const { line, ours, theirs } of best)
    console.log(
      `  line=${line.padEnd(12)} ${rate(ours)}, C ${rate(theirs)}, ratio ${(ours / theirs).toFixed(2)}`,
    );
  return Math.max(...best.map(({ ours, theirs }) => ours / theirs));
}

/** Returns the results in the C program's format: packets answered, flows, sum of delays, and two numbers that depend on every flow but not on their order. */
function resultsOf({ counters, total, flows }: RliSketch): string {
  const bits = (of: Float64Array, i = 0) => new BigUint64Array(of.buffer, of.byteOffset + 8 * i, 1)[0]!;
  let errors = [total.squares, total.errors, total.misses].reduce((n, x) => n + bits(Float64Array.of(x)), 0n);
  for (let i = 0; i < flows.count; i++) {
    const own = bits(flows.squares, i) + bits(flows.errors, i) + 3n * bits(flows.misses, i);
    const counts = BigInt(flows.gaps[i]!) + BigInt(flows.excess[i]!) + 3n * BigInt(flows.idle[i]!);
    errors += own * BigInt(flows.hash[2 * i]!) + counts;
  }
  const all = [counters.answered, flows.count, total.sum, weighted(flows), BigInt.asUintN(64, errors)];
  return all.join(" ");
}

/** Returns a number that depends on every flow's packets and sum, but not on the order of flows. */
function weighted(flows: RliSketch["flows"]): bigint {
  let sum = 0n;
  for (let i = 0; i < flows.count; i++) {
    sum += flows.sum[i]! * BigInt(flows.hash[2 * i]!) + BigInt(flows.packets[i]!);
  }
  return BigInt.asUintN(64, sum);
}

/** Per row 64 bytes: time f64, delay f64, flow hash u64, meta u64, addrA u64, wire u32, flags u32, 16 bytes 0. */
function writeRows(file: string, batches: readonly PacketBatch[]): number {
  const count = batches.reduce((n, b) => n + b.count, 0);
  const bytes = Buffer.alloc(8 + 64 * count);
  bytes.writeBigUInt64LE(BigInt(count), 0);
  let at = 8;
  for (const batch of batches) {
    const { timeNs, delayNs, flowHash, meta, addrA, wireLength, flags } = batch;
    for (let i = 0; i < batch.count; i++, at += 64) {
      bytes.writeDoubleLE(timeNs[i]!, at);
      bytes.writeDoubleLE(delayNs[i]!, at + 8);
      for (const [k, words] of [flowHash, meta, addrA].entries()) {
        bytes.writeUInt32LE(words[2 * i]!, at + 16 + 8 * k);
        bytes.writeUInt32LE(words[2 * i + 1]!, at + 20 + 8 * k);
      }
      bytes.writeUInt32LE(wireLength[i]!, at + 40);
      bytes.writeUInt32LE(flags[i]!, at + 44);
    }
  }
  writeFileSync(file, bytes);
  return count;
}
