/**
 * A NATS cluster (docs/cluster.md): records of 10 to 1,000 points, LDA with 1 s epochs, published to a real nats-server and worked by one to three workers, until every record is acknowledged. The machine's cores
 * are shared by all of them, so what counts is the CPU time per record of each part, not the rate; and the lag with a second worker that joins. Arguments: records per run (default 12,000), points (default
 * 10,100,1000), workers (default 1,2,3), brokers (1 or 3, default 1).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type EpochRecord, encodeRecord } from "../src/epoch/record.ts";
import { openCluster, STREAM } from "../src/transport/nats/cluster.ts";
import type { NatsLink } from "../src/transport/nats/connection.ts";
import { messageId, publishPieces } from "../src/transport/nats/nats-sink.ts";
import { homeOf, subjectOf } from "../src/transport/nats/subjects.ts";
import { clusterLoad } from "../tests/support/cluster-load.ts";
import { type CollectProcess, startCollect } from "../tests/support/collect-process.ts";
import { NatsServers, NO_NATS, untilReady } from "../tests/support/nats-servers.ts";

if (NO_NATS) throw new Error(NO_NATS);
const [records = 12_000, points = [10, 100, 1000], counts = [1, 2, 3], brokers = 1] = process.argv
  .slice(2)
  .map((text) => (text.includes(",") ? text.split(",").map(Number) : Number(text))) as [
  number?,
  (number | number[])?,
  (number | number[])?,
  number?,
];
const root = mkdtempSync(join(tmpdir(), "hoptime-bench-cluster-"));
const PARTITIONS = 12;
const START_NS = 1_750_000_000_000_000_000n;

/** CPU seconds of processes so far, and what they hold, MB. */
function usage(pids: readonly number[]): { cpuS: number; rssMb: number } {
  let [cpuS, rssMb] = [0, 0];
  for (const pid of pids) {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    cpuS += (Number(fields[11]) + Number(fields[12])) / 100;
    rssMb += (Number(fields[21]) * 4096) / 1e6;
  }
  return { cpuS, rssMb };
}

async function publishAll(link: NatsLink, all: readonly EpochRecord[]): Promise<void> {
  const cluster = await openCluster(link);
  const full = { ...link, cluster };
  for (let at = 0; at < all.length; at += 256)
    await Promise.all(
      all.slice(at, at + 256).map((record) => {
        const bytes = encodeRecord(record);
        const { point, segment } = record;
        const subject = subjectOf(homeOf(point, segment, cluster.partitions), point, segment);
        return publishPieces(full, { subject, bytes, id: messageId(record, bytes), tap: null });
      }),
    );
}

/** Messages that are not acknowledged. */
async function open(link: NatsLink, group: string): Promise<number> {
  let n = 0;
  for (let p = 0; p < PARTITIONS; p++) {
    const info = await link.streams.consumers.info(STREAM, `${group}-${p}`).catch(() => null);
    n += info ? info.num_pending + info.num_ack_pending : Number.NaN;
  }
  return Number.isNaN(n) ? Number.POSITIVE_INFINITY : n;
}

async function startWorker(url: string, group: string, name: string): Promise<CollectProcess> {
  const file = join(root, `${name}.yaml`);
  writeFileSync(file, JSON.stringify({ nats: { url, group, lease: "3s", partitions: PARTITIONS } }));
  return await startCollect(join(root, name), ["--config", file]);
}

async function loadOf(count: number): Promise<EpochRecord[]> {
  const segments = Array.from({ length: count / 2 }, (_, i) => ({
    from: `s${i}`,
    to: `r${i}`,
    label: `s${i}:r${i}`,
  }));
  const load = await clusterLoad(segments, ["lda"], START_NS);
  const all: EpochRecord[] = [];
  for (let e = 0; all.length < records; e++) all.push(...load.epoch(e));
  return all;
}

/** All partitions have a worker, and each worker its share. */
async function shared(workers: readonly CollectProcess[]): Promise<void> {
  const most = Math.ceil(PARTITIONS / workers.length);
  for (let i = 0; i < 200; i++) {
    const owned = await Promise.all(
      workers.map(async ({ url }) => {
        const health = (await (await fetch(`${url}/v1/health`)).json()) as { cluster: { owned: number[] } };
        return health.cluster.owned.length;
      }),
    );
    if (owned.every((n) => n <= most) && owned.reduce((a, b) => a + b, 0) === PARTITIONS) return;
    await sleep(200);
  }
  throw new Error("the partitions are not shared");
}

async function run(count: number, workerCount: number): Promise<void> {
  const name = `p${count}-w${workerCount}`;
  const servers = await NatsServers.start(join(root, name), brokers === 3 ? 3 : 1);
  await untilReady(servers);
  const workers: CollectProcess[] = [];
  try {
    const link = await servers.connect();
    for (let i = 0; i < workerCount; i++) workers.push(await startWorker(servers.url, name, `${name}-${i}`));
    await shared(workers);
    const all = await loadOf(count);
    const pids = workers.map((w) => w.pid);
    const [before, brokersBefore, from] = [usage(pids), usage(servers.pids), performance.now()];
    const publishing = publishAll(link, all);
    let lag = 0;
    let published = false;
    void publishing.then(() => {
      published = true;
    });
    for (let left = 1; left > 0 || !published; ) {
      await sleep(250);
      left = await open(link, name);
      if (Number.isFinite(left)) lag = Math.max(lag, left);
    }
    await publishing;
    const seconds = (performance.now() - from) / 1000;
    const [after, brokersAfter] = [usage(pids), usage(servers.pids)];
    const us = (a: { cpuS: number }, b: { cpuS: number }) =>
      ((1e6 * (a.cpuS - b.cpuS)) / all.length).toFixed(0);
    console.log(
      `${count} points, ${workerCount} worker${workerCount > 1 ? "s" : ""}: ${all.length} records in ${seconds.toFixed(1)} s (${Math.round(all.length / seconds)}/s), at most ${lag} open; CPU per record: workers ${us(after, before)} us, brokers ${us(brokersAfter, brokersBefore)} us; memory: ${(after.rssMb / workerCount).toFixed(0)} MB a worker, ${(brokersAfter.rssMb / servers.ports.length).toFixed(0)} MB a broker`,
    );
    await link.close();
  } finally {
    for (const worker of workers) await worker.stop("kill");
    await servers.stop();
  }
}

/** Records that wait, one worker; a second one joins or does not. */
async function join2(joins: boolean): Promise<void> {
  const name = joins ? "joins" : "alone";
  const servers = await NatsServers.start(join(root, name), 1);
  await untilReady(servers);
  const workers: CollectProcess[] = [];
  try {
    const link = await servers.connect();
    await openCluster(link, { partitions: PARTITIONS });
    await publishAll(link, await loadOf(100));
    const from = performance.now();
    workers.push(await startWorker(servers.url, name, `${name}-0`));
    if (joins) workers.push(await startWorker(servers.url, name, `${name}-1`));
    while ((await open(link, name)) > 0) await sleep(250);
    const seconds = (performance.now() - from) / 1000;
    console.log(
      `a backlog of ${records} records, ${joins ? "a second worker joins" : "one worker"}: worked off after ${seconds.toFixed(1)} s`,
    );
    await link.close();
  } finally {
    for (const worker of workers) await worker.stop("kill");
    await servers.stop();
  }
}

try {
  for (const count of [points].flat()) await run(count, 1);
  for (const count of [counts].flat()) if (count > 1) await run([points].flat().at(-1) ?? 100, count);
  for (const joins of [false, true]) await join2(joins);
} finally {
  rmSync(root, { recursive: true, force: true });
}
