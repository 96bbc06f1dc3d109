/**
 * A NATS cluster (docs/cluster.md, docs/scaling.md): LDA records with 1 s epochs are published to a real nats-server and processed by real workers, until every
 * record is acknowledged. All parts share the processors of one machine, so the result is the CPU time per record of each part, not the rate.
 *
 *   node scripts/bench.mjs cluster cost [--points 10,100,1000] [--workers 1,2,3] [--records 20000] [--pin]
 *       cost per record by number of points, then by number of workers with the most points, after a warm-up of each worker
 *       --pin: workers on the first processor, the rest on the others (processors that share a core slow each other down, which would distort the workers' CPU time)
 *   node scripts/bench.mjs cluster run [--points 1000] [--minutes 10] [--workers 1] [--limit S] [--rate 400]
 *       a whole network for this many simulated minutes: throughput, lag, memory; --rate: records per second, without it as fast as possible
 *   node scripts/bench.mjs cluster lag [--share 0.25] [--seconds 40] [--load 1.4]
 *       (root) records waiting if --load times as many come as one worker can process: with one worker that gets this share of a processor, after a second one joined, and after one was killed
 *   node scripts/bench.mjs cluster join [--records 6000]
 *       this many records with one worker, after a second one has joined, and after one of the two was killed
 *
 * --results duckdb|clickhouse (default clickhouse for run and join, if it is installed), --brokers 1|3 (default 1). Progress goes to stderr.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { cpus, setPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { EpochRecord } from "../src/epoch/record.ts";
import { CLICKHOUSE_SERVER } from "../tests/support/clickhouse-server.ts";
import { clusterLoad, type Load } from "../tests/support/cluster-load.ts";
import { NO_NATS } from "../tests/support/nats-servers.ts";
import { type PartsUsage, RunningCluster, type Usage } from "../tests/support/running-cluster.ts";

if (NO_NATS) throw new Error(NO_NATS);
const text = { type: "string" } as const;
const { values: flags, positionals } = given();
const [what = "cost"] = positionals;

/** Prints one line and exits with code 2 if an option is unknown. */
function given() {
  try {
    const options = {
      ...{ points: text, workers: text, records: text, minutes: text, results: text, brokers: text },
      ...{
        limit: text,
        share: text,
        seconds: text,
        load: text,
        rate: text,
        pin: { type: "boolean" } as const,
      },
    };
    return parseArgs({ allowPositionals: true, options });
  } catch (error) {
    console.error(`${(error as Error).message.split(".")[0]}; --help lists the options`);
    process.exit(2);
  }
}
const numbers = (given: string | undefined, others: string) => (given ?? others).split(",").map(Number);
/** Limit in s of the time for which epochs are published; the results so far are reported. */
const limitS = Number(flags.limit ?? Number.POSITIVE_INFINITY);
const brokers = flags.brokers === "3" ? 3 : 1;
const root = mkdtempSync(join(tmpdir(), "hoptime-bench-cluster-"));
/** Records per second; without it as fast as possible. */
const rate = Number(flags.rate ?? Number.POSITIVE_INFINITY);
/** Warm-up records per worker, whose time at first goes into compiling and creating directories. */
const WARM_RECORDS = 6000;
/** Maximum number of records published but not processed; taps would keep more in their spools. */
const MOST_OPEN = 60_000;
const PUBLISHED_AT_ONCE = 1000;
let clusters = 0;

const start = (clickhouse: boolean) => {
  const folder = join(root, `${clusters++}`);
  mkdirSync(folder);
  return RunningCluster.start(folder, { brokers, clickhouse });
};
const inClickhouse = (otherwise: boolean) =>
  flags.results === undefined ? otherwise && CLICKHOUSE_SERVER !== null : flags.results === "clickhouse";

/** Returns epochs that end now, like those that taps send. */
function loadOf(points: number, seconds: number): Promise<Load> {
  const segments = Array.from({ length: points / 2 }, (_, i) => ({
    from: `s${i}`,
    to: `r${i}`,
    label: `s${i}:r${i}`,
  }));
  const startNs = BigInt(Math.floor(Date.now() / 1000) - seconds) * 1_000_000_000n;
  return clusterLoad(segments, ["lda"], startNs);
}

/** Returns records like those of live taps: with the cost of observing, and compressed in the same way. */
function epochs(load: Load, from: number, to: number): EpochRecord[] {
  return Array.from({ length: to - from }, (_, i) => load.epoch(from + i))
    .flat()
    .map((record) => ({ ...record, effort: { cpuNs: 1_000_000, queue: 0 } }));
}

function progress(line: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}

function since(before: PartsUsage, now: PartsUsage): PartsUsage {
  const one = (a: Usage | undefined, b: Usage): Usage => ({ ...b, cpuS: b.cpuS - (a?.cpuS ?? 0) });
  return {
    workers: now.workers.map((w, i) => one(before.workers[i], w)),
    brokers: one(before.brokers, now.brokers),
    clickhouse: one(before.clickhouse, now.clickhouse),
    publisher: one(before.publisher, now.publisher),
  };
}

const cpu = (list: readonly Usage[]) => list.reduce((n, u) => n + u.cpuS, 0);
const microseconds = (cpuS: number, records: number) => ((1e6 * cpuS) / records).toFixed(0);

/** Publishes epochs and waits until they are acknowledged. */
async function through(cluster: RunningCluster, load: Load, from: number, to: number, onOpen: () => void) {
  const startedMs = performance.now();
  let [most, open, published, saidMs, done] = [0, 1, false, startedMs, from];
  const points = 2 * load.segments.length;
  const together = Math.max(1, Math.floor(Math.min(PUBLISHED_AT_ONCE, rate / 4) / points));
  const publishing = (async () => {
    for (let e = from; e < to && performance.now() - startedMs < 1000 * limitS; e += together) {
      done = Math.min(to, e + together);
      await cluster.publish(epochs(load, e, Math.min(to, e + together)));
      await sleep(Math.max(0, startedMs + (1000 * (done - from) * points) / rate - performance.now()));
      while (Number.isFinite(open) && open > MOST_OPEN) await sleep(250);
    }
    published = true;
  })();
  while (open > 0) {
    await Promise.race([sleep(500), publishing]);
    if (published) await sleep(200);
    const all = published;
    open = await cluster.open();
    most = Math.max(most, Number.isFinite(open) ? open : 0);
    if (!all) open = Math.max(open, 1);
    if (performance.now() - saidMs < 10_000) continue;
    saidMs = performance.now();
    progress(
      `${done - from} of ${to - from} epochs published, ${open} records open; ${((saidMs - startedMs) / 1000).toFixed(0)} s`,
    );
    onOpen();
  }
  await publishing;
  return { seconds: (performance.now() - startedMs) / 1000, most, epochs: done - from };
}

/** Pins all threads of a process; its children inherit this. */
function pin(pid: number, processors: string): void {
  execFileSync("taskset", ["-a", "-c", "-p", processors, `${pid}`], { stdio: "ignore" });
}

async function cost(points: number, workers: number, records: number): Promise<void> {
  if (flags.pin) pin(process.pid, `1-${cpus().length - 1}`);
  const cluster = await start(inClickhouse(false));
  try {
    for (let i = 0; i < workers; i++) {
      const { pid } = await cluster.addWorker();
      if (flags.pin) pin(pid, "0");
    }
    await cluster.shared();
    const warm = Math.ceil((workers * WARM_RECORDS) / points);
    const to = warm + Math.ceil(records / points);
    const load = await loadOf(points, to);
    await through(cluster, load, 0, warm, () => undefined);
    const before = cluster.usage();
    const { seconds, most } = await through(cluster, load, warm, to, () => undefined);
    const sent = (to - warm) * points;
    const used = since(before, cluster.usage());
    const cells = [
      ...[points, workers, sent, Math.round(sent / seconds), most, microseconds(cpu(used.workers), sent)],
      ...[microseconds(used.brokers.cpuS, sent), microseconds(used.clickhouse.cpuS, sent)],
      ...[Math.max(...used.workers.map((w) => w.rssMb)).toFixed(0), used.brokers.rssMb.toFixed(0)],
    ];
    console.log(`| ${cells.join(" | ")} |`);
  } finally {
    await cluster.stop();
  }
}

async function run(points: number, minutes: number, workers: number): Promise<void> {
  const cluster = await start(inClickhouse(true));
  try {
    for (let i = 0; i < workers; i++) await cluster.addWorker();
    await cluster.shared();
    const asked = Math.round(60 * minutes);
    const load = await loadOf(points, asked);
    const before = cluster.usage();
    const peak = { workers: 0, brokers: 0, clickhouse: 0 };
    const look = () => {
      const now = cluster.usage();
      peak.workers = Math.max(peak.workers, ...now.workers.map((w) => w.rssMb));
      peak.brokers = Math.max(peak.brokers, now.brokers.rssMb);
      peak.clickhouse = Math.max(peak.clickhouse, now.clickhouse.rssMb);
    };
    const { seconds: tookS, most, epochs: seconds } = await through(cluster, load, 0, asked, look);
    look();
    const used = since(before, cluster.usage());
    const sent = seconds * points;
    const rows = await cluster.rows();
    const us = (cpuS: number) => `${microseconds(cpuS, sent)} us`;
    console.log(
      [
        `${points} points, ${seconds} of ${asked} s of 1 s epochs, ${workers} worker${workers > 1 ? "s" : ""}: ${sent} records in ${tookS.toFixed(0)} s: ${Math.round(sent / tookS)} records/s by the clock`,
        `rows in the results: ${rows} of ${(seconds * points) / 2}`,
        `most open: ${most} records, ${(most / points).toFixed(1)} s of what the points send`,
        `CPU per record: workers ${us(cpu(used.workers))}, brokers ${us(used.brokers.cpuS)}, ClickHouse ${us(used.clickhouse.cpuS)}, publisher ${us(used.publisher.cpuS)}`,
        `processors for ${points} points in real time: workers ${((points * cpu(used.workers)) / sent).toFixed(2)}, brokers ${((points * used.brokers.cpuS) / sent).toFixed(2)}, ClickHouse ${((points * used.clickhouse.cpuS) / sent).toFixed(2)}`,
        `most memory: ${peak.workers.toFixed(0)} MB a worker, ${peak.brokers.toFixed(0)} MB brokers, ${peak.clickhouse.toFixed(0)} MB ClickHouse`,
      ].join("\n"),
    );
  } finally {
    await cluster.stop();
  }
}

/** Processes the same number of records with one worker, after a second one has joined, and after one of the two was killed under load. */
async function joining(records: number): Promise<void> {
  const cluster = await start(inClickhouse(true));
  const points = 100;
  const count = Math.ceil(records / points);
  try {
    const load = await loadOf(points, 3 * count);
    await cluster.addWorker();
    await cluster.shared();
    await phase(cluster, "one worker", epochs(load, 0, count));
    await cluster.addWorker();
    await cluster.shared();
    await phase(cluster, "a second has joined", epochs(load, count, 2 * count));
    await phase(cluster, "one of the two is killed", epochs(load, 2 * count, 3 * count), async () => {
      await cluster.workers.shift()?.stop("kill");
    });
    console.log(`rows in the results: ${await cluster.rows()} of ${(3 * count * points) / 2}`);
  } finally {
    await cluster.stop();
  }
}

const CONTROL_GROUPS = "/sys/fs/cgroup/cpu";
const PERIOD_US = 20_000;
/** Duration over which the capacity of one worker is measured. */
const ABLE_MS = 8000;

/** Limits a process to a share of a processor with a kernel control group (version 1, as root). `lift` removes the limit. */
function limited(pid: number, share: number): { lift: () => void } {
  const folder = join(CONTROL_GROUPS, `hoptime-bench-${pid}`);
  try {
    mkdirSync(folder);
    writeFileSync(join(folder, "cpu.cfs_period_us"), `${PERIOD_US}`);
    writeFileSync(join(folder, "cpu.cfs_quota_us"), `${Math.round(share * PERIOD_US)}`);
    writeFileSync(join(folder, "cgroup.procs"), `${pid}`);
    // Raises the priority, so that the process gets its share despite other load.
    setPriority(pid, -10);
  } catch (error) {
    throw new Error(`lag needs root and the cpu control group (version 1): ${(error as Error).message}`);
  }
  return {
    lift: () => {
      for (const member of readFileSync(join(folder, "cgroup.procs"), "utf8").split("\n").filter(Boolean))
        writeFileSync(join(CONTROL_GROUPS, "cgroup.procs"), member);
      rmdirSync(folder);
    },
  };
}

/** Returns the records per second that one worker acknowledges while more wait, after the first `warm`; when it returns, all are processed. */
async function ableOf(cluster: RunningCluster, warm: number): Promise<number> {
  const acknowledged = async () => (await cluster.health())[0]?.cluster.acknowledged ?? 0;
  let begin = 0;
  while ((begin = await acknowledged()) < warm) await sleep(100);
  const fromMs = performance.now();
  await sleep(ABLE_MS);
  const able = ((await acknowledged()) - begin) / ((performance.now() - fromMs) / 1000);
  await cluster.drained();
  return able;
}

/** Sends `load` times as many records as one throttled worker can process; then a second worker joins; then one of them is killed, and no more records come. */
async function lagging(share: number, seconds: number, load: number): Promise<void> {
  const cluster = await start(inClickhouse(true));
  // Enough segments that each worker gets about half of them.
  const points = 120;
  const limits: { lift: () => void }[] = [];
  try {
    const records = await loadOf(points, 20_000);
    const add = async () => limited((await cluster.addWorker()).pid, share);
    limits.push(await add());
    await cluster.shared();
    let next = 0;
    const publish = (count: number) => cluster.publish(epochs(records, next, (next += count)));
    // At first the worker compiles; enough records wait until the end of the measurement.
    await publish(Math.ceil((2 * WARM_RECORDS + ABLE_MS) / points));
    const able = await ableOf(cluster, WARM_RECORDS);
    const come = load * able;
    console.log(
      `one worker with ${share} of a processor: ${able.toFixed(0)} records/s; ${come.toFixed(0)} come`,
    );
    const during = async (name: string) => {
      const seen: number[] = [];
      const before = [await cluster.health(), cluster.usage().workers] as const;
      const startMs = performance.now();
      for (let sent = 0, atS = 0; atS < seconds; atS = (performance.now() - startMs) / 1000) {
        const due = Math.floor((come * atS - sent) / points);
        if (due > 0) await publish(due);
        sent += due * points;
        if (atS >= (seen.length * seconds) / 8) seen.push(await cluster.open());
        await sleep(100);
      }
      const end = await cluster.open();
      const [begin = end] = seen;
      const [health, usage] = [await cluster.health(), cluster.usage().workers];
      const tookS = (performance.now() - startMs) / 1000;
      const did = health.map((h, i) => h.cluster.acknowledged - (before[0][i]?.cluster.acknowledged ?? 0));
      const cpuS = usage.map((u, i) => u.cpuS - (before[1][i]?.cpuS ?? 0));
      const each = (counts: readonly number[], digits: number) =>
        counts.map((n) => (n / tookS).toFixed(digits)).join(" + ");
      console.log(
        `${name}: records that wait, every ${seconds / 8} s: ${seen.join(", ")}, ${end}; ${((end - begin) / seconds).toFixed(0)} more each second, workers acknowledged ${each(did, 0)} with ${each(cpuS, 2)} of a processor`,
      );
    };
    await during("one worker");
    limits.push(await add());
    await during("a second has joined");
    await during("later");
    await cluster.workers.shift()?.stop("kill");
    await during("one of the two is killed");
    for (const { lift } of limits.splice(0)) lift();
    await cluster.drained();
    console.log(
      `at the end: none waits; rows in the results: ${await cluster.rows()} of ${(next * points) / 2}`,
    );
  } finally {
    for (const { lift } of limits) lift();
    await cluster.stop();
  }
}

/** The time of the busiest worker is how long the records would wait if each worker had its own processor. */
async function phase(
  cluster: RunningCluster,
  name: string,
  records: readonly EpochRecord[],
  meanwhile = async () => {},
): Promise<void> {
  const before = [await cluster.health(), cluster.usage().workers] as const;
  const half = Math.ceil(records.length / 2);
  await cluster.publish(records.slice(0, half));
  const killed = cluster.workers.length;
  await meanwhile();
  const gone = killed - cluster.workers.length;
  await cluster.publish(records.slice(half));
  await cluster.drained();
  const [health, usage] = [await cluster.health(), cluster.usage().workers];
  const did = health.map((h, i) => h.cluster.acknowledged - (before[0][i + gone]?.cluster.acknowledged ?? 0));
  const cpuS = usage.map((u, i) => u.cpuS - (before[1][i + gone]?.cpuS ?? 0));
  console.log(
    `${name}: ${records.length} records; acknowledged by each worker: ${did.join(" + ")}; CPU of each: ${cpuS.map((s) => `${s.toFixed(1)} s`).join(" + ")}`,
  );
}

try {
  if (what === "run") {
    const [points = 1000] = numbers(flags.points, "1000");
    await run(points, Number(flags.minutes ?? 10), Number(flags.workers ?? 1));
  } else if (what === "lag") {
    await lagging(Number(flags.share ?? 0.25), Number(flags.seconds ?? 40), Number(flags.load ?? 1.4));
  } else if (what === "join") {
    await joining(Number(flags.records ?? 6000));
  } else {
    const counts = numbers(flags.points, "10,100,1000");
    const records = Number(flags.records ?? 20_000);
    console.log(
      "| points | workers | records | records/s | most open | workers, us CPU/record | brokers, us | ClickHouse, us | MB a worker | MB brokers |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    );
    const [first = 1, ...more] = numbers(flags.workers, "1,2,3");
    for (const points of counts) await cost(points, first, records);
    for (const workers of more) await cost(counts.at(-1) ?? 100, workers, records);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
