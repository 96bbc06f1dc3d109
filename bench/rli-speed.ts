/**
 * Speed of RLI's update against the same work in C (bench/reference/rli.c, gcc -O3), alternating, CPU time; the sums of both must be equal. C reads the line as `line=transmission`
 * does; what the default does beyond that has no twin there and is held to the same time.
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
import { decodeRli } from "../src/estimators/rli/payload.ts";
import { rli } from "../src/estimators/rli/rli.ts";
import { rliScenario, SCHEMES, withReferences } from "../src/evaluate/rli-experiment.ts";
import { RECEIVER } from "../src/simulate/scenario.ts";
import { simulate } from "../src/simulate/simulate.ts";

const SEED = 5n;

/** Ratio of the times per packet, ours over C's; the slower of the two ways. */
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
  const program = join(folder, "rli");
  const source = join(process.cwd(), "bench", "reference", "rli.c");
  execFileSync("gcc", ["-O3", "-march=native", "-o", program, source, "-lm"]);
  const parameters = parseParameters(rli, `drain=${drainBps},max=2000000`);
  const usual = parseParameters(rli, `drain=${drainBps},max=2000000,line=backlog`);
  let [ours, whole, theirs] = [Infinity, Infinity, Infinity];
  for (let round = 0; round < rounds; round++) {
    const time = (chosen: typeof parameters) => {
      const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, chosen);
      tap.begin(0, 0n);
      const before = process.cpuUsage();
      for (const batch of batches) tap.update(batch, 0, batch.count);
      const { user, system } = process.cpuUsage(before);
      const sealed = tap.seal();
      tap.free();
      return { sealed, ns: ((user + system) * 1e3) / packets };
    };
    whole = Math.min(whole, time(usual).ns);
    const { sealed, ns: line } = time(parameters);
    ours = Math.min(ours, line);
    const sketch = decodeRli(sealed, parameters, SEED);
    const mine = [
      sketch.counters.answered,
      sketch.flows.count,
      sketch.total.sum,
      weighted(sketch.flows),
    ].join(" ");
    const out = execFileSync(program, [rows, `${8e9 / drainBps}`, `${parameters.buffer}`], {
      stdio: ["ignore", "pipe", "ignore"],
    })
      .toString()
      .trim();
    const [ns, ...rest] = out.split(" ");
    if (rest.join(" ") !== mine) throw new Error(`results differ: ours ${mine}, C ${rest.join(" ")}`);
    theirs = Math.min(theirs, Number(ns) / packets);
  }
  const ratio = Math.max(ours, whole) / theirs;
  const rate = (ns: number) => `${(1000 / ns).toFixed(1)} M/s`;
  console.log(
    `\nRLI update, ${packets} rows, best of ${rounds}: ${rate(ours)}, with backlogs ${rate(whole)}, C ${rate(theirs)}, ratio ${ratio.toFixed(2)}; results equal`,
  );
  return ratio;
}

/** A number that depends on every flow's packets and sum, whatever the order of flows. */
function weighted(flows: ReturnType<typeof decodeRli>["flows"]): bigint {
  let sum = 0n;
  for (let i = 0; i < flows.count; i++) {
    sum += flows.sum[i]! * BigInt(flows.hash[2 * i]!) + BigInt(flows.packets[i]!);
  }
  return BigInt.asUintN(64, sum);
}

/** Per row, 64 bytes: time f64, delay f64, flow hash u64, meta u64, addrA u64, wire u32, flags u32, 16 bytes 0. */
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
