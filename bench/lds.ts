/**
 * LDS in the paper's setting, and its update loop compared with C, with and without its list of the heaviest flows: node scripts/bench.mjs lds
 * [accuracy|speed]. Accuracy: 146,000 flows, Pareto 0.8, about 7.9 M packets, flow latencies of 100 or 320 µs with 10 % jitter per packet.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Kernels } from "../src/base/kernels.ts";
import { PacketBatch } from "../src/capture/batch.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { CaptureReader, DEFAULT_COVER, DEFAULT_SEED } from "../src/capture/reader.ts";
import type { SketchCells } from "../src/estimators/lds/cells.ts";
import { rowSeeds, samplingThreshold } from "../src/estimators/lds/geometry.ts";
import { DEFAULT_KEYS, type HeavyKeys } from "../src/estimators/lds/heavy-keys.ts";
import { lds } from "../src/estimators/lds/lds.ts";
import { geometryOf, type LdsParameters } from "../src/estimators/lds/parameters.ts";
import { decodeCells } from "../src/estimators/lds/payload.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { eachPacket, makePopulation, shuffledPackets } from "../src/evaluate/flow-population.ts";
import { ldsAccuracy } from "../src/evaluate/lds-accuracy.ts";

const SEED = 7n;
/** Runs on a capture: of our program and of C in turn. */
const RUNS = 9;
/** Offset of the packets in a record of kernels/flows/heavy-flows.ts. */
const PACKETS_WORD = 6;
const population = makePopulation({ flows: 146_000, shape: 0.8, maxPackets: 154_000, seed: 1 });
const what = process.argv[2];

if (what !== "speed") {
  console.log(`${population.flows} flows, ${population.packets} packets`);
  console.log(
    "median error (share of intervals that hold the truth) for flows of 100-499, 500-999, 1k-5k, >= 5k",
  );
  const dense = "rows=4,columns=17500,k=1";
  const banks = "rows=4,columns=87500,k=5,rates=1/.5/.1/.01";
  accuracy(dense, 0);
  accuracy(banks, 0);
  accuracy(banks, 0.001);
  accuracy(banks, 0.01);
}
if (what !== "accuracy") {
  await speed("rows=4,columns=17500,k=1");
  await speed("rows=4,columns=87500,k=5,rates=1/.5/.1/.01");
}

function accuracy(text: string, loss: number): void {
  const { payloadBytes, decoders } = ldsAccuracy(new Kernels(), population, text, loss, SEED);
  console.log(`\n${text}, loss ${100 * loss} %: ${payloadBytes} bytes per point`);
  for (const { decoder, scores, cpuSeconds } of decoders) {
    const line = scores.map(
      (s) =>
        `${(100 * s.medianError).toFixed(3)} % (${s.coverage.toFixed(2)})${s.answered < s.flows ? ` ${s.flows - s.answered} of ${s.flows} unanswered` : ""}`,
    );
    console.log(`${decoder.padEnd(11)} ${line.join(" | ")}   ${cpuSeconds.toFixed(1)} s`);
  }
}

async function speed(text: string): Promise<void> {
  const kernels = new Kernels();
  const parameters = parseParameters(lds, text);
  const { rows, columns, k, rates } = parameters;
  const n = population.packets;
  const time = new Float64Array(n);
  const digest = new Uint32Array(2 * n);
  const hash = new Uint32Array(2 * n);
  let i = 0;
  eachPacket(
    population,
    10e9,
    (f, low, high, sendNs) => {
      time[i] = sendNs;
      digest.set([low, high], 2 * i);
      hash.set(population.hash.subarray(2 * f, 2 * f + 2), 2 * i++);
    },
    shuffledPackets(population),
  );
  const { call } = kernels;
  const sketch = call.ldsNew(rows, columns, k, false, false) >>> 0;
  const head = new BigUint64Array(1 + 3 * rows);
  head[0] = BigInt(n);
  for (const [r, s] of rowSeeds(SEED, rows).entries()) {
    const flow = (BigInt(s.flowHi) << 32n) | BigInt(s.flowLo);
    const packet = (BigInt(s.packetHi) << 32n) | BigInt(s.packetLo);
    const threshold = BigInt(samplingThreshold(rates[r]!));
    call.ldsRow(sketch, r, flow, packet, threshold);
    head.set([flow, packet, threshold], 1 + 3 * r);
  }
  const batch = new PacketBatch(kernels);
  // The hashes are the keys, as in C.
  batch.meta.fill(0);
  batch.wireLength.fill(100);
  const heavy = call.heavyFlowsNew(DEFAULT_KEYS) >>> 0;
  const runs = 9;
  const measure = (update: (rows: number) => void, clear: () => void): number => {
    let best = Number.POSITIVE_INFINITY;
    for (let run = 0; run < runs; run++) {
      clear();
      let spent = 0;
      for (let from = 0; from < n; from += batch.capacity) {
        const to = Math.min(n, from + batch.capacity);
        batch.timeNs.set(time.subarray(from, to));
        batch.digest.set(digest.subarray(2 * from, 2 * to));
        batch.flowHash.set(hash.subarray(2 * from, 2 * to));
        batch.addrA.set(hash.subarray(2 * from, 2 * to));
        batch.count = to - from;
        // CPU time, so that other processes do not count.
        const start = process.cpuUsage();
        update(to - from);
        const used = process.cpuUsage(start);
        spent += 1000 * (used.user + used.system);
      }
      best = Math.min(best, spent / n);
    }
    return best;
  };
  const best = measure(
    (count) => call.ldsUpdate(sketch, batch.address, 0, count, 0),
    () => call.ldsClear(sketch),
  );
  const words = kernels.u64.subarray((call.ldsCells(sketch) >>> 0) >>> 3).subarray(0, rows * columns * 2);
  let sum = 0n;
  for (const word of words) sum = mix(sum ^ word);

  const folder = mkdtempSync(join(tmpdir(), "hoptime-bench-"));
  try {
    const [data, program] = [join(folder, "packets"), join(folder, "lds")];
    writeFileSync(data, Buffer.concat([head, time, digest, hash].map((a) => Buffer.from(a.buffer))));
    const source = join(process.cwd(), "bench", "reference", "lds.c");
    execFileSync("cc", ["-O3", "-march=native", "-o", program, source, "-lm"]);
    const out = execFileSync(program, [data, rows, columns, k, runs].map(String), { encoding: "utf8" });
    const [ns, checksum] = out.trim().split(" ");
    const equal = checksum === BigInt.asUintN(64, sum).toString(16).padStart(16, "0");
    const ratio = best / Number(ns);
    console.log(
      `\n${text}: ${best.toFixed(1)} ns per packet (${(1000 / best).toFixed(1)} Mpps), C ${ns} ns: ${ratio.toFixed(2)}x; cells ${equal ? "equal" : "DIFFER"}`,
    );
    if (!equal) process.exitCode = 1;
    const withKeys = measure(
      (count) => {
        call.ldsUpdate(sketch, batch.address, 0, count, 0);
        call.heavyFlowsUpdate(heavy, batch.address, 0, count);
      },
      () => {
        call.ldsClear(sketch);
        call.heavyFlowsClear(heavy);
      },
    );
    const listed = execFileSync(program, [data, rows, columns, k, runs, DEFAULT_KEYS].map(String), {
      encoding: "utf8",
    });
    const [nsWithKeys, keys] = listed.trim().split(" ");
    const same = keys === keysChecksum(kernels, heavy);
    console.log(
      `  with its list of ${DEFAULT_KEYS} keys: ${withKeys.toFixed(1)} ns per packet, C ${nsWithKeys} ns: ${(withKeys / Number(nsWithKeys)).toFixed(2)}x; lists ${same ? "equal" : "DIFFER"}`,
    );
    if (!same) process.exitCode = 1;
    await pipeline(parameters, folder, program, data);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Computes the same checksum of the list as the reference, after the last packet. */
function keysChecksum(kernels: Kernels, heavy: number): string {
  kernels.call.heavyFlowsShed(heavy);
  const count = kernels.call.heavyFlowsCount(heavy) >>> 0;
  let sum = mix(BigInt.asUintN(64, kernels.call.heavyFlowsFloor(heavy)) ^ BigInt(count));
  for (let i = 0; i < count; i++) {
    const at = (kernels.call.heavyFlowsRecord(heavy, i) >>> 0) >>> 3;
    sum += mix(mix(kernels.u64[at] ?? 0n) ^ (kernels.u64[at + PACKETS_WORD] ?? 0n));
  }
  return hex(sum);
}

/** The same for a sealed list. */
function sealedKeysChecksum({ count, floor, hash, packets }: HeavyKeys): string {
  let sum = mix(BigInt(floor) ^ BigInt(count));
  for (let i = 0; i < count; i++) sum += mix(mix(wordOf(hash, i)) ^ BigInt(packets[i]!));
  return hex(sum);
}

/** From a pcap file to the sketch, keyed by 5-tuple, with and without the list of heaviest flows. */
async function pipeline(parameters: LdsParameters, folder: string, program: string, rowsFile: string) {
  const captures = join(folder, "captures");
  const options = ["--packets", "1e6", "--ipv6Share", "0", "--vlanShare", "0", "--out", captures];
  execFileSync(process.execPath, ["scripts/bench.mjs", "generate-captures", ...options]);
  const capture = join(captures, "before.pcap");
  const { rows, columns, k } = parameters;
  for (const keys of [0, DEFAULT_KEYS]) {
    let best = Number.POSITIVE_INFINITY;
    let theirs = Number.POSITIVE_INFINITY;
    let equal = true;
    for (let run = 0; run < RUNS; run++) {
      const { ns, payload } = await sketchCapture(capture, { ...parameters, keys, digest: "32" });
      best = Math.min(best, ns);
      // In turn, so that other load slows both.
      const rest = [rowsFile, rows, columns, k, 1, keys, capture, DEFAULT_COVER, DEFAULT_SEED].map(String);
      const [reference, cells, list] = execFileSync(program, rest, { encoding: "utf8" }).trim().split(" ");
      theirs = Math.min(theirs, Number(reference));
      if (run > 0) continue;
      const sealed = decodeCells(payload, { ...geometryOf(parameters), delays: false });
      equal = cells === cellsChecksum(sealed);
      if (sealed.keys) equal &&= list === sealedKeysChecksum(sealed.keys);
    }
    const what = keys > 0 ? `sketch and list of ${keys} keys` : "sketch";
    console.log(
      `  pcap file to ${what}: ${best.toFixed(1)} ns per packet, C ${theirs.toFixed(1)} ns: ${(best / theirs).toFixed(2)}x; ${equal ? "equal" : "DIFFER"}`,
    );
    if (!equal) process.exitCode = 1;
  }
}

/** CPU time from opening the capture to its last packet; the sketch is allocated before, as in C. */
async function sketchCapture(capture: string, parameters: LdsParameters) {
  const kernels = new Kernels();
  const tap = lds.createTap({ kernels, role: "sender", seed: SEED }, parameters);
  tap.begin(0);
  const start = process.cpuUsage();
  const reader = await CaptureReader.open(kernels, capture, { key: FlowKeySpec.parse() });
  let packets = 0;
  while (await reader.next()) {
    tap.update(reader.batch, 0, reader.batch.count);
    packets += reader.batch.count;
  }
  const used = process.cpuUsage(start);
  reader.close();
  return { ns: (1000 * (used.user + used.system)) / packets, payload: tap.seal().payload };
}

function cellsChecksum({ count, sumHigh, sumLow, digest }: SketchCells): string {
  let sum = 0n;
  for (let i = 0; i < count.length; i++) {
    sum = mix(sum ^ ((BigInt(sumHigh[i]!) << 32n) | BigInt(sumLow[i]!)));
    sum = mix(sum ^ ((BigInt(digest[i]!) << 32n) | BigInt(count[i]!)));
  }
  return hex(sum);
}

function wordOf(words: Uint32Array, i: number): bigint {
  return (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!);
}

function hex(word: bigint): string {
  return BigInt.asUintN(64, word).toString(16).padStart(16, "0");
}

function mix(h: bigint): bigint {
  const cut = (x: bigint) => BigInt.asUintN(64, x);
  h = cut((h ^ (h >> 30n)) * 0xbf58476d1ce4e5b9n);
  h = cut((h ^ (h >> 27n)) * 0x94d049bb133111ebn);
  return h ^ (h >> 31n);
}
