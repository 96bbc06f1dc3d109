/**
 * A day of a collector in minutes: 20 points (ten segments) send 24 hours of records as fast as they are accepted, in time order, one message per point and
 * minute (or longer), to a real `hoptime collect`; every hour a page requests the last hour. Memory must not grow with the hours; files do. Arguments: hours
 * (default 24), points (default 20), seconds per epoch (default 10; 1 is the default of taps, and takes ten times as long), minutes per message (default 1).
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { geometryFingerprint } from "../src/epoch/compatible.ts";
import { type EpochRecord, encodeRecord } from "../src/epoch/record.ts";
import { BATCH_TYPE, frameRecord } from "../src/transport/batch.ts";
import { startCollect } from "../tests/support/collect-process.ts";
import { observedRecords, POINTS } from "../tests/support/collector-records.ts";

const [hours = 24, points = 20, epochS = 10, messageMinutes = 1] = process.argv.slice(2).map(Number);
const SECOND_NS = 1_000_000_000n;
const root = mkdtempSync(join(tmpdir(), "hoptime-day-"));
const data = join(root, "data");
const segments = Array.from({ length: points / 2 }, (_, i) => ({ from: `A${i}`, to: `B${i}` }));
const collector = await startCollect(
  data,
  segments.flatMap(({ from, to }) => ["--segment", `${from}:${to}`]),
);

const { records } = await observedRecords(["lda"], {
  ...{ seconds: 3 * epochS, ratePps: 300, cut: { mode: "aligned", lengthNs: BigInt(epochS) * SECOND_NS } },
});
const whole = records
  .filter((r) => r.estimator === "lda")
  .sort((a, b) => b.counters.packets - a.counters.packets);
const startNs = whole[0]?.epoch.startNs;
const model = new Map(
  [POINTS.from, POINTS.to].map((p) => [p, whole.find((r) => r.point === p && r.epoch.startNs === startNs)]),
);

/** The day ends with the last full hour. */
const firstNs = (BigInt(Date.now()) / 3_600_000n) * 3600n * SECOND_NS - BigInt(hours) * 3600n * SECOND_NS;

function recordOf(end: "from" | "to", name: string, atNs: bigint): EpochRecord {
  const own = model.get(POINTS[end]);
  if (!own) throw new Error("no whole epoch was observed");
  const by = atNs - own.epoch.startNs;
  const { startNs: start, endNs, referenceNs } = own.epoch;
  const epoch = { ...own.epoch, startNs: start + by, endNs: endNs + by, referenceNs: referenceNs + by };
  const record = { ...own, point: name, epoch };
  return { ...record, fingerprint: geometryFingerprint(record) };
}

async function send(end: "from" | "to", name: string, minuteNs: bigint): Promise<number> {
  const list: Uint8Array[] = [];
  for (let s = 0; s < 60 * messageMinutes; s += epochS)
    list.push(encodeRecord(recordOf(end, name, minuteNs + BigInt(s) * SECOND_NS), { raw: true }));
  const response = await fetch(`${collector.url}/v1/records`, {
    method: "POST",
    headers: { "content-type": BATCH_TYPE },
    body: new Uint8Array(Buffer.concat(list.flatMap(frameRecord))),
  });
  const { results } = (await response.json()) as { results?: { outcome: string; reason?: string }[] };
  const bad = results?.find((r) => r.outcome !== "stored") ?? (results ? null : { outcome: response.status });
  if (bad) throw new Error(JSON.stringify(bad));
  return list.length;
}

function bytesBelow(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name)).size;
  return bytes;
}

/** Memory (RSS) and CPU seconds of the process itself. */
function usage(): { rssMb: number; cpuS: number } {
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${collector.pid}/status`, "utf8"))?.[1]);
  const fields = readFileSync(`/proc/${collector.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return { rssMb: rss / 1024, cpuS: (Number(fields[11]) + Number(fields[12])) / 100 };
}

interface Health {
  memory: { heapUsed: number; external: number; results: number };
}
const health = async () => (await (await fetch(`${collector.url}/v1/health`)).json()) as Health;

/** Waits until this hour is in the results, so that no backlog builds up. On a busy machine it waits as long as there is progress. */
async function settled(query: string): Promise<void> {
  for (let [n, before] = [0, -1]; n < 120; n++) {
    const response = await fetch(`${collector.url}/v1/latency?${query}`);
    const { points: series = [] } = (await response.json()) as { points?: { epochs: number }[] };
    const epochs = series.reduce((sum, p) => sum + p.epochs, 0);
    if (epochs === 3600 / epochS) return;
    if (epochs !== before) n = 0;
    before = epochs;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  throw new Error(`the hour is not in the results: ${query}`);
}

const resident: number[] = [];
try {
  console.log(`${hours} h of ${points} points, epochs of ${epochS} s`);
  console.log(
    "hour  records/s  per core of CPU  RSS MB  of it heap  external  database  files of results MB  hour's question ms",
  );
  for (let hour = 0; hour < hours; hour++) {
    const [wall, { cpuS }] = [performance.now(), usage()];
    let sent = 0;
    for (let minute = 0; minute < 60; minute += messageMinutes) {
      const atNs = firstNs + BigInt(3600 * hour + 60 * minute) * SECOND_NS;
      const jobs: ["from" | "to", string][] = segments.flatMap(({ from, to }) => [
        ["from", from] as const,
        ["to", to] as const,
      ]);
      const sender = async () => {
        for (let job = jobs.pop(); job; job = jobs.pop()) {
          // Not `sent += await …`, which would add to the value before the wait: there are two senders.
          const records = await send(...job, atNs);
          sent += records;
        }
      };
      await Promise.all([sender(), sender()]);
    }
    const until = firstNs + BigInt(3600 * (hour + 1)) * SECOND_NS;
    const last = `step=1m&since=${until - 3600n * SECOND_NS}&until=${until}`;
    for (const { from, to } of segments) await settled(`from=${from}&to=${to}&${last}`);
    const wallS = (performance.now() - wall) / 1000;
    const { memory } = await health();
    const asked = performance.now();
    const [one] = segments;
    await (await fetch(`${collector.url}/v1/latency?from=${one?.from}&to=${one?.to}&${last}`)).text();
    const ms = performance.now() - asked;
    const { rssMb, cpuS: after } = usage();
    resident.push(rssMb);
    const database = bytesBelow(data) - bytesBelow(join(data, "records"));
    console.log(
      [
        String(hour + 1).padStart(4),
        Math.round(sent / wallS)
          .toString()
          .padStart(10),
        Math.round(sent / (after - cpuS))
          .toString()
          .padStart(16),
        rssMb.toFixed(0).padStart(7),
        (memory.heapUsed / 1e6).toFixed(0).padStart(11),
        (memory.external / 1e6).toFixed(0).padStart(9),
        (memory.results / 1e6).toFixed(0).padStart(9),
        (database / 1e6).toFixed(1).padStart(20),
        ms.toFixed(0).padStart(19),
      ].join(" "),
    );
  }
  const half = resident.slice(Math.floor(resident.length / 2));
  const [before, after] = [
    Math.max(...resident.slice(2, Math.floor(resident.length / 2))),
    Math.max(...half),
  ];
  console.log(
    `RSS at most ${before.toFixed(0)} MB in the first half (without two hours of warming up), ${after.toFixed(0)} MB in the second: ${(after / before).toFixed(2)}x; records ${(bytesBelow(join(data, "records")) / 1e6).toFixed(0)} MB`,
  );
} finally {
  await collector.stop();
  rmSync(root, { recursive: true, force: true });
}
