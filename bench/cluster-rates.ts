/**
 * Measures the cost of a worker by records per second (docs/scaling.md): CPU time of the worker, the broker and ClickHouse at each rate. From the lowest and
 * the highest rate it computes the fixed cost per second and the cost per record, which show how much more three workers cost than one at the same total rate.
 *
 *   node scripts/bench.mjs cluster-rates [--rates 20,130,400] [--seconds 15] [--results duckdb|clickhouse]
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CLICKHOUSE_SERVER } from "../tests/support/clickhouse-server.ts";
import { clusterLoad } from "../tests/support/cluster-load.ts";
import { NO_NATS } from "../tests/support/nats-servers.ts";
import { RunningCluster } from "../tests/support/running-cluster.ts";

if (NO_NATS) throw new Error(NO_NATS);
const text = { type: "string" } as const;
const { values } = parseArgs({ options: { rates: text, seconds: text, results: text } });
const rates = (values.rates ?? "20,130,400").split(",").map(Number);
const seconds = Number(values.seconds ?? 15);
const clickhouse = (values.results ?? (CLICKHOUSE_SERVER ? "clickhouse" : "duckdb")) === "clickhouse";
const POINTS = 20;
const WARM_RECORDS = 6000;

const root = mkdtempSync(join(tmpdir(), "hoptime-bench-rates-"));
mkdirSync(join(root, "nats"));
const cluster = await RunningCluster.start(root, { clickhouse });
try {
  const segments = Array.from({ length: POINTS / 2 }, (_, i) => ({
    ...{ from: `s${i}`, to: `r${i}`, label: `s${i}:r${i}` },
  }));
  const startNs = BigInt(Math.floor(Date.now() / 1000) - 3000) * 1_000_000_000n;
  const load = await clusterLoad(segments, ["lda"], startNs);
  let next = 0;
  const publish = async (epochs: number) => {
    const records = Array.from({ length: epochs }, () => load.epoch(next++)).flat();
    // Live taps send the cost of observing in their records.
    await cluster.publish(records.map((r) => ({ ...r, effort: { cpuNs: 1_000_000, queue: 0 } })));
  };
  await cluster.addWorker();
  await cluster.shared();
  for (let sent = 0; sent < WARM_RECORDS; sent += 10 * POINTS) {
    await publish(10);
    await sleep(50);
  }
  await cluster.drained();
  console.log(
    "| records/s | worker, ms CPU/s | us/record | broker, ms/s | ClickHouse, ms/s |\n| --- | --- | --- | --- | --- |",
  );
  const measured: { rate: number; ms: number[] }[] = [];
  for (const rate of rates) {
    await sleep(2000);
    const before = cluster.usage();
    const startMs = performance.now();
    let sent = 0;
    for (let atS = 0; atS < seconds; atS = (performance.now() - startMs) / 1000) {
      const due = Math.floor((atS * rate - sent) / POINTS);
      if (due > 0) await publish(due);
      sent += due * POINTS;
      await sleep(20);
    }
    await cluster.drained();
    const tookS = (performance.now() - startMs) / 1000;
    const now = cluster.usage();
    const of = (a = 0, b = 0) => (1000 * (a - b)) / tookS;
    const ms = [
      of(now.workers[0]?.cpuS, before.workers[0]?.cpuS),
      of(now.brokers.cpuS, before.brokers.cpuS),
      of(now.clickhouse.cpuS, before.clickhouse.cpuS),
    ];
    const real = sent / tookS;
    measured.push({ rate: real, ms });
    const cells = [real, ms[0] ?? 0, (1000 * (ms[0] ?? 0)) / real, ms[1] ?? 0, ms[2] ?? 0];
    console.log(`| ${cells.map((n) => n.toFixed(0)).join(" | ")} |`);
  }
  const [low, high] = [measured[0], measured.at(-1)];
  if (low && high && low !== high)
    for (const [i, name] of ["worker", "broker", "ClickHouse"].entries()) {
      const [a = 0, b = 0] = [low.ms[i], high.ms[i]];
      const each = (b - a) / (high.rate - low.rate);
      const fixed = Math.max(0, a - each * low.rate);
      const ratio = (3 * fixed + each * high.rate) / (fixed + each * high.rate);
      console.log(
        `${name}: ${fixed.toFixed(1)} ms a second and ${(1000 * each).toFixed(0)} us a record; three workers for ${high.rate.toFixed(0)} records/s cost ${ratio.toFixed(2)} times one`,
      );
    }
} finally {
  await cluster.stop();
  rmSync(root, { recursive: true, force: true });
}
