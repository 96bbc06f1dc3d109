/**
 * Cost and accuracy of MAPLE. Parts can be run separately by name: node scripts/bench.mjs maple [speed|accuracy|cost CAPTURE...]
 *
 *   speed     SVBF compared with C (bench/reference/svbf.c), the other structures, building and looking up ribbons, a tap from batches to payload
 *   cost      bits per packet of records of real captures, by purpose
 *   accuracy  every store on one trace of the reference traffic at 88 %: bits, failures, errors (the table of docs/estimators/maple.md)
 */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Kernels } from "../src/base/kernels.ts";
import { Random } from "../src/base/random.ts";
import { PacketBatch } from "../src/capture/batch.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { CaptureReader, DEFAULT_SEED } from "../src/capture/reader.ts";
import { MaplePayload } from "../src/estimators/maple/lookup.ts";
import { maple } from "../src/estimators/maple/maple.ts";
import { createStore } from "../src/estimators/maple/stores/open.ts";
import type { StoreGeometry } from "../src/estimators/maple/stores/packet-store.ts";
import { PacketCosts } from "../src/estimators/packet-costs.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { PLAIN_STORE as plain, STORE_COLUMNS, storeAccuracy } from "../src/evaluate/maple-stores.ts";
import { mean, referenceTrace } from "../src/evaluate/reference-trace.ts";
import { simulate } from "../src/simulate/simulate.ts";

// The bundle runs in dist/bench.
const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const row = (name: string, ...cells: (string | number)[]) =>
  console.log(`${name.padEnd(34)} ${cells.join("  ")}`);

function cpu(run: () => void): number {
  const start = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}
const best = (rounds: number, run: () => void) => Math.min(...Array.from({ length: rounds }, () => cpu(run)));
const rate = (n: number, seconds: number) => `${(n / seconds / 1e6).toFixed(1)} M/s`;

async function speed(): Promise<void> {
  const kernels = new Kernels();
  const [n, k, rounds] = [400_000, 50, 15];
  const [keys, codes, out] = [kernels.alloc(8 * n), kernels.alloc(2 * n), kernels.alloc(8 * n)];
  const random = new Random(1);
  const counts = new Array(k).fill(0);
  {
    const u16 = new Uint16Array(kernels.memory.buffer);
    for (let i = 0; i < n; i++) {
      kernels.u32[(keys >>> 2) + 2 * i] = random.uint32();
      kernels.u32[(keys >>> 2) + 2 * i + 1] = random.uint32();
      const code = random.below(k);
      u16[(codes >>> 1) + i] = code;
      counts[code]++;
    }
  }
  const measure = (geometry: StoreGeometry, bits: number) => {
    const insert = Math.min(
      ...Array.from({ length: rounds }, () => {
        const store = createStore(kernels, geometry, bits * n);
        const t = cpu(() => {
          store.insert(keys, codes, n);
          if (geometry.kind === "ribbon") store.close(counts);
        });
        store.free();
        return t;
      }),
    );
    const store = createStore(kernels, geometry, bits * n);
    store.insert(keys, codes, n);
    store.close(counts);
    const lookup = best(rounds, () => store.lookup(keys, n, out));
    const perPacket = store.bits / n;
    store.free();
    return { insert, lookup, perPacket };
  };
  mkdirSync(join(root, "dist", "bench"), { recursive: true });
  const binary = join(root, "dist", "bench", "svbf");
  execFileSync("cc", ["-O3", "-o", binary, join(root, "bench", "reference", "svbf.c")]);
  const c = execFileSync(binary, [String(n), "12.8", "9", String(k), String(rounds)], { encoding: "utf8" });
  const [cInsert, cLookup] = c.split(" ").map(Number) as [number, number];
  row("SVBF in C", "insert", rate(cInsert, 1), "look-up", rate(cLookup, 1));
  for (const [name, geometry, bits] of [
    ["SVBF 12.8 bit, h = 9", { ...plain, kind: "svbf", groups: k, hashes: 9 }, 12.8],
    ["COMB(8, 3) 12.8 bit, h = 3", { ...plain, kind: "comb", groups: k, hashes: 3, f: 8, theta: 3 }, 12.8],
    ["PBF 12.8 bit, h = 9", { ...plain, kind: "pbf", groups: k, hashes: 9 }, 12.8],
    ["hash table 147 bit", { ...plain, kind: "table", groups: k, codeBits: 6 }, 147],
    ["ribbon r = 6", { ...plain, kind: "ribbon", groups: k, codeBits: 6 }, 0],
    ["ribbon r = 10", { ...plain, kind: "ribbon", groups: k, codeBits: 10 }, 0],
  ] as const) {
    const { insert, lookup, perPacket } = measure(geometry, bits);
    const times =
      geometry.kind === "svbf"
        ? [
            `${((cInsert * insert) / n).toFixed(2)}x and ${((cLookup * lookup) / n).toFixed(2)}x the time of C`,
          ]
        : [];
    row(
      name,
      "insert",
      rate(n, insert),
      "look-up",
      rate(n, lookup),
      `${perPacket.toFixed(2)} bit/packet`,
      ...times,
    );
  }
  await tapSpeed();
}

/** A tap with simulated batches of known delays, from the first row to the payload. */
async function tapSpeed(): Promise<void> {
  const kernels = new Kernels();
  const batches: PacketBatch[] = [];
  const mask = FlowKeySpec.parse().store(kernels);
  const simulation = simulate(kernels, {
    seed: 1,
    traffic: { kind: "synthetic", ratePps: 400_000, durationS: 1 },
    path: [{ kind: "queue", utilisation: 0.88 }],
  });
  for await (const batch of simulation.combined()) {
    const copy = new PacketBatch(kernels, batch.capacity);
    copy.count = batch.count;
    for (const name of ["time", "digest", "meta", "addrA", "addrB", "addrC", "addrD", "delay"] as const)
      kernels.u8.copyWithin(copy.column(name), batch.column(name), batch.column(name) + 8 * batch.count);
    for (const name of ["wireLength", "ipid", "flags"] as const)
      kernels.u8.copyWithin(copy.column(name), batch.column(name), batch.column(name) + 4 * batch.count);
    kernels.call.keyFlows(copy.address, mask, DEFAULT_SEED);
    batches.push(copy);
  }
  const n = batches.reduce((sum, b) => sum + b.count, 0);
  for (const text of [
    "",
    "check=0,index=false",
    "index=false",
    "identity=both,index=true",
    "store=svbf,k=50,identity=digest,capacity=400000",
  ]) {
    const tap = maple.createTap({ kernels, role: "receiver", seed: 1n }, parseParameters(maple, text));
    const costs = new PacketCosts();
    let payload: Uint8Array = new Uint8Array(0);
    let sealing = 0;
    const all = best(4, () => {
      tap.begin(0);
      for (const batch of batches) tap.update(batch, 0, batch.count);
      sealing = cpu(() => {
        payload = tap.seal().payload;
      });
    });
    costs.add(MaplePayload.of(kernels, payload).costs(), n);
    row(
      `tap ${text}`,
      rate(n, all),
      `sealing ${(1000 * sealing).toFixed(0)} ms`,
      costs.text()!,
      `bound ${(tap.memoryBytes / 1e6).toFixed(0)} MB`,
    );
    tap.free();
  }
}

/** Size of records of real captures: each capture is one epoch, with artificial delays (they do not affect the size). */
async function cost(files: readonly string[]): Promise<void> {
  for (const file of files) {
    for (const text of ["", "index=false", "identity=both,index=true"]) {
      const kernels = new Kernels();
      const random = new Random(5);
      const tap = maple.createTap(
        { kernels, role: "receiver", seed: DEFAULT_SEED },
        parseParameters(maple, text),
      );
      tap.begin(0);
      const reader = await CaptureReader.open(kernels, file, { key: FlowKeySpec.parse() });
      const flows = new Set<bigint>();
      while (await reader.next()) {
        const { batch } = reader;
        const at = batch.column("flowHash") >>> 3;
        for (let i = 0; i < batch.count; i++) {
          batch.delayNs[i] = Math.round(random.lognormal(11, 1));
          flows.add(kernels.u64[at + i]!);
        }
        tap.update(batch, 0, batch.count);
      }
      reader.close();
      const { payload, packets } = tap.seal();
      const costs = new PacketCosts();
      costs.add(MaplePayload.of(kernels, payload).costs(), packets);
      row(basename(file), `${packets} packets, ${flows.size} flows`, `'${text}'`, costs.text()!);
    }
  }
}

async function accuracy(seed: number, seconds: number): Promise<void> {
  const kernels = new Kernels();
  const trace = await referenceTrace(kernels, { seed, seconds });
  const meanUs = mean(trace.epochs.map((e) => mean(e.delayNs))) / 1000;
  const packets = Math.round(mean(trace.epochs.map((e) => e.count)));
  row(
    "trace",
    `seed ${seed}, ${trace.epochs.length} epochs of about ${packets} packets, mean ${meanUs.toFixed(0)} us`,
  );
  row("store", ...STORE_COLUMNS);
  for (const [name, columns] of storeAccuracy(kernels, trace))
    row(name, ...columns.map((x) => x.toPrecision(3)));
}

const [part, ...rest] = process.argv.slice(2);
if (part === undefined || part === "speed") await speed();
if (part === "cost") await cost(rest);
if (part === undefined || part === "accuracy") await accuracy(Number(rest[0] ?? 1), Number(rest[1] ?? 6));
