/**
 * Measures how fast a collector accepts records: messages of real records over the real HTTP server, to disk and back, and the queries that pages make. One
 * process is the server, this one sends; the server's CPU time is measured, so that the rates are per core, independent of other load. Argument: a directory
 * for the data (default: the one for temporary files).
 *
 * If many files were deleted within the last half minute, ext4 searches all of them for each file that it creates, which took up to 1 ms per record after a run
 * of the tests. The benchmark waits until this is over.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { earlier } from "../src/base/time.ts";
import type { EpochRecord } from "../src/epoch/record.ts";
import { encodeRecord } from "../src/epoch/record.ts";
import { BATCH_TYPE, frameRecord } from "../src/transport/batch.ts";
import { observedRecords, POINTS } from "../tests/support/collector-records.ts";

const root = mkdtempSync(join(process.argv[2] ?? tmpdir(), "hoptime-ingest-"));
await calm();
const port = 18_000 + (process.pid % 1000);
const url = `http://127.0.0.1:${port}`;
const server = spawn(
  process.execPath,
  [
    "dist/cli/main.js",
    "collect",
    "--data",
    join(root, "data"),
    "--listen",
    `127.0.0.1:${port}`,
    "--segment",
    `${POINTS.from}:${POINTS.to}`,
    "--segment",
    "E:F",
    "--segment",
    "G:H",
  ],
  { stdio: ["ignore", "ignore", "pipe"] },
);
let said = "";
server.stderr.on("data", (d: Buffer) => {
  said += d.toString();
});
while (!said.includes("collecting at")) await new Promise((resolve) => setTimeout(resolve, 50));

/** CPU seconds of the server so far. */
function cpuS(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const moved = (record: EpochRecord, epochs: number): EpochRecord => {
  const by = BigInt(epochs) * 1_000_000_000n;
  const { startNs, endNs, referenceNs } = record.epoch;
  return {
    ...record,
    epoch: { ...record.epoch, startNs: startNs + by, endNs: endNs + by, referenceNs: referenceNs + by },
  };
};

async function sendAll(messages: readonly Buffer[]): Promise<void> {
  let at = 0;
  const sender = async () => {
    for (let body = messages[at++]; body; body = messages[at++]) {
      const response = await fetch(`${url}/v1/records`, {
        method: "POST",
        headers: { "content-type": BATCH_TYPE },
        body: new Uint8Array(body),
      });
      if (!response.ok) throw new Error(await response.text());
      const { results } = (await response.json()) as { results: { outcome: string; reason?: string }[] };
      const bad = results.find((r) => r.outcome !== "stored");
      if (bad) throw new Error(`${bad.outcome}: ${bad.reason}`);
    }
  };
  await Promise.all([sender(), sender()]);
}

/** Creates files until this is as fast as on an idle disk; at most a minute. */
async function calm(): Promise<void> {
  const files = join(root, "calm");
  mkdirSync(files);
  for (let round = 0; ; round++) {
    const from = process.cpuUsage();
    // The files are kept, because deleting them would slow down the disk again.
    for (let i = 0; i < 200; i++) closeSync(openSync(join(files, `${round}-${i}`), "wx"));
    const { user, system } = process.cpuUsage(from);
    const us = (user + system) / 200;
    if (us < 80) return;
    if (round === 12) {
      console.log(`making a file takes ${us.toFixed(0)} us of CPU here: records/s are lower for it`);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 5000));
  }
}

interface Traffic {
  ratePps: number;
  flows?: number;
  /** Point names in the records. */
  as?: typeof POINTS;
  /** Number of different epochs, which are repeated. */
  epochs?: number;
}

async function messagesOf(estimator: string, count: number, perMessage: number, traffic: Traffic) {
  const { ratePps, flows = 12, as = POINTS, epochs = 1 } = traffic;
  const { records } = await observedRecords([estimator], { seconds: epochs + 1, ratePps, flows });
  const first = records.map((r) => r.epoch.startNs).reduce(earlier);
  const own = records.filter((r) => r.estimator === estimator.split(":")[0]);
  const epochOf = (r: EpochRecord) => Number((r.epoch.startNs - first) / 1_000_000_000n);
  const all: Uint8Array[] = [];
  for (let e = 0; all.length < count; e++)
    for (const tap of own.filter((r) => epochOf(r) === e % epochs)) {
      const point = tap.point === POINTS.from ? as.from : as.to;
      all.push(encodeRecord({ ...moved(tap, e - (e % epochs)), point }, { raw: true }));
    }
  const messages: Buffer[] = [];
  for (let at = 0; at < all.length; at += perMessage)
    messages.push(Buffer.concat(all.slice(at, at + perMessage).flatMap(frameRecord)));
  return { messages, records: all.length, bytes: all.reduce((n, r) => n + r.length, 0) };
}

/** Measures records: for a segment without queries only storing them, otherwise until their rows are written. */
async function measure(
  name: string,
  estimator: string,
  count: number,
  perMessage: number,
  traffic: Traffic,
): Promise<void> {
  const { messages, records, bytes } = await messagesOf(estimator, count, perMessage, traffic);
  const [from, cpu] = [performance.now(), cpuS()];
  await sendAll(messages);
  const sentS = (performance.now() - from) / 1000;
  await settled();
  const used = cpuS() - cpu;
  const per = (s: number) => `${Math.round(records / s)} records/s, ${(bytes / s / 1e6).toFixed(0)} MB/s`;
  console.log(
    `${name}: ${records} records of ${Math.round(bytes / records)} B: acknowledged ${per(sentS)} by the clock; ${per(used)} per core of CPU`,
  );
}

async function ask(name: string, path: string, init?: RequestInit, times = 200): Promise<void> {
  const ms: number[] = [];
  let size = 0;
  for (let n = 0; n < times; n++) {
    const from = performance.now();
    const response = await fetch(url + path, init);
    size = (await response.arrayBuffer()).byteLength;
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    ms.push(performance.now() - from);
  }
  ms.sort((a, b) => a - b);
  const at = (share: number) => ms[Math.min(times - 1, Math.floor(share * times))]?.toFixed(1);
  console.log(`${name}: median ${at(0.5)} ms, p99 ${at(0.985)} ms, ${(size / 1e3).toFixed(0)} kB`);
}

/** Measures how long queries wait while records are stored and estimated. */
async function askWhile(
  name: string,
  path: string,
  estimator: string,
  count: number,
  traffic: Traffic,
): Promise<void> {
  const { messages } = await messagesOf(estimator, count, 2, traffic);
  const ms: number[] = [];
  const coming = (async () => {
    await sendAll(messages);
    await settled();
  })();
  let over = false;
  void coming.then(() => {
    over = true;
  });
  while (!over) {
    const from = performance.now();
    await (await fetch(url + path)).arrayBuffer();
    ms.push(performance.now() - from);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await coming;
  ms.sort((a, b) => a - b);
  const at = (share: number) => ms[Math.floor(share * (ms.length - 1))]?.toFixed(1);
  console.log(`${name}: median ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms of ${ms.length}`);
}

/** Waits until nothing is left to be estimated or written. */
async function settled(): Promise<void> {
  for (let quiet = 0, before = ""; quiet < 2; ) {
    const { pairing, records } = (await (await fetch(`${url}/v1/health`)).json()) as {
      pairing: { estimated: number; behind: number };
      records: { rows: number };
    };
    const now = `${pairing.estimated} ${pairing.behind} ${records.rows}`;
    quiet = now === before ? quiet + 1 : 0;
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 600));
  }
}

/** Returns the flow with the most packets. */
async function largest(pair: string): Promise<string> {
  const response = await fetch(`${url}/v1/flows?${pair}&estimator=lds&top=1`);
  const { flows } = (await response.json()) as { flows: { flow: string }[] };
  return encodeURIComponent(flows[0]?.flow ?? "");
}

const pairOf = ({ from, to }: typeof POINTS) => `from=${from}&to=${to}`;
const UNWATCHED = { from: "C", to: "D" };
const FLOWS = { from: "E", to: "F" };
const HOUR = { from: "G", to: "H" };

try {
  await measure("lda, stored", "lda", 7200, 200, { ratePps: 1000, as: UNWATCHED });
  await measure("lda, stored and estimated", "lda", 7200, 200, { ratePps: 1000, epochs: 20 });
  const lda = `/v1/latency?${pairOf(POINTS)}&estimator=lda`;
  await ask("latency over an hour of 1 s epochs in steps of a minute", `${lda}&step=1m`);
  await ask("latency over an hour, epoch by epoch", `${lda}&limit=4000`);
  // Records as large as on a busy link.
  const large = { ratePps: 100_000, flows: 30_000 };
  const ldsLarge = "lds:rows=4,columns=17500";
  await measure("lds, stored", ldsLarge, 200, 8, { ...large, as: UNWATCHED });
  await measure("lds, stored and estimated", ldsLarge, 60, 8, large);
  await askWhile("segments, while such records come", "/v1/segments", ldsLarge, 60, { ...large, as: FLOWS });
  const many = { ratePps: 20_000, flows: 5000, epochs: 20 };
  await measure("lds, an hour with 5,000 flows", "lds:rows=4,columns=2500", 7200, 40, { ...many, as: HOUR });
  const pair = pairOf(HOUR);
  const flow = await largest(pair);
  await ask("top 10 flows over that hour", `/v1/flows?${pair}&estimator=lds&top=10`);
  await ask("one flow over that hour, in steps of a minute", `/v1/flow?${pair}&flow=${flow}&step=1m`);
  await ask("one flow over that hour, epoch by epoch", `/v1/flow?${pair}&flow=${flow}&limit=4000`);
  await ask("flows by host over that hour", `/v1/flows?${pair}&estimator=lds&group=host`);
} finally {
  server.kill("SIGKILL");
  await once(server, "exit");
  rmSync(root, { recursive: true, force: true });
}
