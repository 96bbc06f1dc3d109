/**
 * What MAPLE costs and what it yields. Two parts, each on its own by name: node scripts/bench.mjs maple [speed|accuracy|cost CAPTURE...]
 *
 *   speed     SVBF against C (bench/reference/svbf.c), the other structures, the ribbon's building and look-up, a tap from batches to payload
 *   cost      bits per packet of records of real captures, by what they serve
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
import { histogramOf } from "../src/estimators/maple/cell-table.ts";
import { epochCentres, pairedCentres } from "../src/estimators/maple/centres/epoch-centres.ts";
import { CentrePipeline, type Strategy } from "../src/estimators/maple/centres/pipeline.ts";
import { MaplePayload } from "../src/estimators/maple/lookup.ts";
import { maple } from "../src/estimators/maple/maple.ts";
import { createStore } from "../src/estimators/maple/stores/open.ts";
import type { StoreGeometry } from "../src/estimators/maple/stores/packet-store.ts";
import { PacketCosts } from "../src/estimators/packet-costs.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { ask, askAbsent, askAcross, fill, groupErrors, subFlows } from "../src/evaluate/maple-questions.ts";
import { mean, quantile, referenceTrace, type TraceEpoch } from "../src/evaluate/reference-trace.ts";
import { simulate } from "../src/simulate/simulate.ts";

// The bundle runs in dist/bench.
const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const plain = { codeBits: 0, hashes: 0, f: 0, theta: 0, seed: 99n };
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

/** A tap fed with simulated batches of known delays, from the first row to the payload. */
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

/** What records take on real captures: each as one epoch, with delays made up (they do not matter to the bits). */
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
  row(
    "trace",
    `seed ${seed}, ${trace.epochs.length} epochs of about ${trace.epochs[0]!.count} packets, mean ${(mean(trace.epochs.map((e) => mean(e.delayNs))) / 1000).toFixed(0)} us`,
  );
  const absolute = (e: TraceEpoch, x: Float64Array) =>
    Float64Array.from(x, (v, i) => Math.abs(v - e.delayNs[i]!)).filter((v) => !Number.isNaN(v));
  const relative = (e: TraceEpoch, x: Float64Array) =>
    Float64Array.from(x, (v, i) => Math.abs(v - e.delayNs[i]!) / e.delayNs[i]!).filter(
      (v) => !Number.isNaN(v),
    );
  const results = new Map<string, number[][]>();
  const note = (name: string, values: number[]) => results.set(name, [...(results.get(name) ?? []), values]);
  const judge = (
    name: string,
    e: TraceEpoch,
    bits: number,
    failure: number,
    wrong: number,
    absent: number,
    x: Float64Array,
  ) => {
    const errors = relative(e, x);
    const groups = (keyOf: (i: number) => number | bigint) => quantile(groupErrors(e, x, keyOf), 0.5);
    const aggregates = [
      groups((i) => e.flowHash[i]!),
      groups((i) => e.source[i]!),
      groups((i) => e.source[i]! >>> 16),
      groups(subFlows(e)),
    ];
    note(name, [
      bits,
      100 * failure,
      100 * wrong,
      100 * quantile(errors, 0.5),
      100 * quantile(errors, 0.9),
      ...aggregates.map((a) => 100 * a),
      mean(absolute(e, x)) / 1000,
      100 * absent,
    ]);
  };
  for (const strategy of ["log", "kmedians", "hybrid"] as Strategy[]) {
    const pipeline = new CentrePipeline({ strategy, k: 50, random: new Random(7) });
    const kept: ReturnType<typeof fill>[] = [];
    for (const [i, e] of trace.epochs.entries()) {
      if (i >= 2) {
        const falsePositives = trace.epochs[i - 1]!.digest;
        const structures = strategy === "hybrid" ? (["svbf", "comb", "pbf"] as const) : (["svbf"] as const);
        for (const kind of structures) {
          const geometry =
            kind === "comb" ? { ...plain, kind, hashes: 3, f: 8, theta: 3 } : { ...plain, kind, hashes: 9 };
          const filled = fill(kernels, e, pipeline.current, geometry, 12.8);
          const o = ask(kernels, filled);
          judge(
            `${kind}, ${strategy} centres`,
            e,
            filled.store.bits / e.count,
            o.failure,
            o.falseRate,
            askAbsent(kernels, filled, falsePositives),
            o.estimateNs,
          );
          if (strategy === "hybrid" && kind === "svbf") {
            kept.unshift(filled);
            for (let wrong = 0; wrong < Math.min(3, kept.length); wrong++) {
              const x = absolute(e, askAcross(kernels, kept.slice(0, wrong + 1), e));
              note(
                `  ${wrong} wrong epochs (p50, p75, p95 us)`,
                [0.5, 0.75, 0.95].map((q) => quantile(x, q) / 1000),
              );
            }
            for (const old of kept.splice(3)) old.free();
          } else filled.free();
        }
      }
      pipeline.observe(e.delayNs);
      pipeline.endEpoch();
    }
    for (const old of kept) old.free();
  }
  /** Queueing delays in a ribbon or mixed ribbons. */
  const sizeAware = (i: number, e: TraceEpoch) => {
    const transmission = Float64Array.from(e.wireLength, (l) => Math.round((8e9 * l) / trace.rateBps));
    const stored = e.delayNs.map((d, j) => d - transmission[j]!);
    const at = kernels.alloc(8 * e.count);
    kernels.f64.set(stored, at >>> 3);
    const centres = pairedCentres(histogramOf(kernels, at, e.count), 64, 300);
    kernels.free(at);
    const filled = fill(kernels, e, centres, { ...plain, kind: "mixed", codeBits: 6 }, 0.905, stored);
    const o = ask(kernels, filled);
    judge(
      "mixed k = 64, 0.905 bits fewer, size-aware",
      e,
      filled.store.bits / e.count,
      o.failure,
      o.falseRate,
      askAbsent(kernels, filled, trace.epochs[i - 1]!.digest),
      o.estimateNs.map((v, j) => v + transmission[j]!),
    );
    filled.free();
  };
  for (const [i, e] of trace.epochs.entries()) {
    if (i < 2) continue;
    sizeAware(i, e);
    const transmission = Float64Array.from(e.wireLength, (l) => Math.round((8e9 * l) / trace.rateBps));
    for (const [k, r, sized] of [
      [32, 5, true],
      [64, 6, false],
      [50, 9, false],
      [64, 10, false],
      [400, 12, false],
    ] as const) {
      const stored = sized ? e.delayNs.map((d, j) => d - transmission[j]!) : e.delayNs;
      const at = kernels.alloc(8 * e.count);
      kernels.f64.set(stored, at >>> 3);
      const centres = epochCentres(histogramOf(kernels, at, e.count), k, { scale: "log", s0Ns: 200 });
      kernels.free(at);
      const filled = fill(kernels, e, centres, { ...plain, kind: "ribbon", codeBits: r }, 0, stored);
      const o = ask(kernels, filled);
      const x = sized ? o.estimateNs.map((v, j) => v + transmission[j]!) : o.estimateNs;
      judge(
        `ribbon k = ${k} in ${r} bits${sized ? ", size-aware" : ""}`,
        e,
        filled.store.bits / e.count,
        o.failure,
        o.falseRate,
        askAbsent(kernels, filled, trace.epochs[i - 1]!.digest),
        x,
      );
      filled.free();
    }
  }
  row(
    "store",
    "bit/packet",
    "failure %",
    "false %",
    "packet median %",
    "p90 %",
    "flow %",
    "host %",
    "prefix %",
    "sub-flow %",
    "mean abs us",
    "strangers %",
  );
  for (const [name, rows] of results) {
    row(name, ...rows[0]!.map((_, j) => mean(rows.map((r) => r[j]!)).toPrecision(3)));
  }
}

const [part, ...rest] = process.argv.slice(2);
if (part === undefined || part === "speed") await speed();
if (part === "cost") await cost(rest);
if (part === undefined || part === "accuracy") await accuracy(Number(rest[0] ?? 1), Number(rest[1] ?? 6));
