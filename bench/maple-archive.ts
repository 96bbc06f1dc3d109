/**
 * Measures a query for a packet with an approximate time in an archive of a day of 1 s epochs (86,400 records): node scripts/bench.mjs maple-archive [records]
 *
 * Cold: the page cache is dropped before each query (as root: /proc/sys/vm/drop_caches; otherwise each file of the archive separately, while directory entries
 * stay). What was possible is printed. The library is timed from opening the archive; the whole command, including the start of Node.js, is timed if
 * dist/cli/main.js has been built.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { RecordArchive } from "../src/archive/archive.ts";
import { recordPath } from "../src/archive/names.ts";
import { Kernels } from "../src/base/kernels.ts";
import { Random } from "../src/base/random.ts";
import { formatTime } from "../src/base/time.ts";
import { PacketBatch } from "../src/capture/batch.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../src/capture/reader.ts";
import { encodeRecord } from "../src/epoch/record.ts";
import { MaplePayload } from "../src/estimators/maple/lookup.ts";
import { maple } from "../src/estimators/maple/maple.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { PointObserver } from "../src/observe/observer.ts";
import { askPackets } from "../src/query/packet/ask.ts";

// The bundle runs in dist/bench.
const main = join(dirname(dirname(fileURLToPath(import.meta.url))), "cli", "main.js");
const records = Number(process.argv[2] ?? 86_400);
const PER_EPOCH = 50;
const SPACING_NS = 16e6;
const ORIGIN = 1_700_006_400_000_000_000n;
const QUESTIONS = 10;

const directory = mkdtempSync(join(tmpdir(), "hoptime-bench-maple-"));
try {
  const kernels = new Kernels();
  await write(kernels);
  const way = dropCaches();
  console.log(`archive of ${records} records of ${PER_EPOCH} packets; before each cold question: ${way}`);
  const random = new Random(4);
  for (const cold of [true, false]) await ask(random, cold);
  warmLookup(kernels);
} finally {
  rmSync(directory, { recursive: true, force: true });
}

/** Writes files directly, because storing records one by one with their syncs is not measured here. */
async function write(kernels: Kernels): Promise<void> {
  await RecordArchive.create(directory);
  const observer = new PointObserver({
    kernels,
    point: "B",
    role: "receiver",
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    seed: DEFAULT_SEED,
    taps: [{ estimator: maple, parameters: parseParameters(maple, "k=16,capacity=1000,flows=100") }],
    key: "5tuple",
    cover: 64,
    delays: true,
    onRecord: (record, options) => {
      const path = join(directory, ...recordPath(record));
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, encodeRecord(record, options));
    },
  });
  const random = new Random(3);
  const batch = new PacketBatch(kernels, PER_EPOCH);
  const mask = FlowKeySpec.parse().store(kernels);
  for (let epoch = 0; epoch < records; epoch++) {
    batch.count = PER_EPOCH;
    for (let i = 0; i < PER_EPOCH; i++) {
      batch.timeNs[i] = epoch * 1e9 + i * SPACING_NS;
      batch.digest.set([epoch * PER_EPOCH + i, 0x5eed], 2 * i);
      batch.meta.set([(2000 + (i % 8)) << 16, 17 | (1 << 28)], 2 * i);
      batch.addrA.set([0x0a00_0001, 0x0a01_0001], 2 * i);
      batch.ipid[i] = i;
      batch.flags[i] = 1 << 20;
      batch.wireLength[i] = 100;
      batch.delayNs[i] = Math.round(random.lognormal(11, 1));
    }
    kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
    observer.feed(batch, ORIGIN);
  }
  observer.finish();
}

async function ask(random: Random, cold: boolean): Promise<void> {
  const library: number[] = [];
  const command: number[] = [];
  const start: number[] = [];
  for (let n = 0; n < QUESTIONS; n++) {
    const [epoch, i] = [random.below(records), random.below(PER_EPOCH)];
    const digest = ((0x5eedn << 32n) | BigInt(epoch * PER_EPOCH + i)).toString(16).padStart(16, "0");
    const at = ORIGIN + BigInt(epoch) * 1_000_000_000n + BigInt(i * SPACING_NS);
    const [fromNs, toNs] = [at - 10_000_000n, at + 10_000_000n];
    if (cold) dropCaches();
    const began = performance.now();
    const opened = RecordArchive.open(directory);
    const answer = await askPackets(opened, { packets: { by: "digest", digests: [digest] }, fromNs, toNs });
    opened.close();
    library.push(performance.now() - began);
    if (answer.matched + answer.multi !== 1) throw new Error(`packet ${digest} was not found`);
    if (!existsSync(main) || n >= QUESTIONS / 2) continue;
    if (cold) dropCaches();
    const from = performance.now();
    const times = ["--from", formatTime(fromNs), "--to", formatTime(toNs)];
    const run = spawnSync(process.execPath, [main, "query", directory, "--packet", digest, ...times]);
    command.push(performance.now() - from);
    if (run.status !== 0) throw new Error(String(run.stderr));
    if (cold) dropCaches();
    const alone = performance.now();
    spawnSync(process.execPath, ["-e", "0"]);
    start.push(performance.now() - alone);
  }
  const say = (times: number[]) => {
    const sorted = [...times].sort((a, b) => a - b);
    return `median ${sorted[sorted.length >> 1]!.toFixed(1)}, worst ${sorted.at(-1)!.toFixed(1)} ms`;
  };
  const name = cold ? "cold" : "warm";
  console.log(
    `${name}, one packet, from opening the archive: first ${library[0]!.toFixed(1)}, ${say(library)}`,
  );
  if (command.length === 0) console.log(`${name}, the command: not measured, dist/cli/main.js is not built`);
  else console.log(`${name}, hoptime query: ${say(command)}; of which Node.js alone: ${say(start)}`);
}

/** Returns what was dropped, as text. */
function dropCaches(): string {
  try {
    execFileSync("sync");
    writeFileSync("/proc/sys/vm/drop_caches", "3");
    return "the page cache and the names of files were dropped (drop_caches)";
  } catch {
    // Drops each file with dd; most are not in the cache anyway.
    const drop = 'find "$1" -type f -exec dd if={} iflag=nocache count=0 status=none \\;';
    const done = spawnSync("sh", ["-c", drop, "sh", directory]).status === 0;
    return done ? "files were dropped one by one (dd), names were not" : "nothing could be dropped";
  }
}

function warmLookup(kernels: Kernels): void {
  const store = RecordArchive.open(directory);
  const [entry] = store.list({ fromNs: ORIGIN, toNs: ORIGIN + 1n }).entries;
  const bytes = store.readHead(entry!).layout.unpackedBytes;
  const payload = new MaplePayload(kernels, (o, l) => store.readPayloadRange(entry!, o, l), bytes);
  const key = BigUint64Array.of(0x5eedn << 32n);
  const rounds = 2000;
  const began = performance.now();
  for (let i = 0; i < rounds; i++) payload.lookup("digest", key);
  console.log(
    `one packet from an open record: ${((1000 * (performance.now() - began)) / rounds).toFixed(1)} us`,
  );
  store.close();
}
