/**
 * A backlog that takes longer than a record waits for its other end (ten minutes): records that a worker has not estimated by then are not acknowledged. The
 * worker's clock is set ahead by a quarter of an hour while it works, and it is killed soon after. Another worker finds all remaining records, and every row
 * exists once.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { STREAM } from "../../src/transport/nats/cluster.ts";
import { NatsSink } from "../../src/transport/nats/nats-sink.ts";
import { CLICKHOUSE_SERVER, ClickhouseServer, NO_CLICKHOUSE } from "../support/clickhouse-server.ts";
import { clusterLoad } from "../support/cluster-load.ts";
import { type CollectProcess, startCollect } from "../support/collect-process.ts";
import { NatsServers, NO_NATS, untilReady } from "../support/nats-servers.ts";

const why = NO_NATS ?? (CLICKHOUSE_SERVER === null ? NO_CLICKHOUSE : null);
if (why) console.log(`skipped: a long backlog: ${why}`);
const root = mkdtempSync(join(tmpdir(), "hoptime-cluster-backlog-"));
const SEGMENTS = Array.from({ length: 20 }, (_, i) => ({ from: `s${i}`, to: `r${i}`, label: `s${i}:r${i}` }));
const EPOCHS = 60;
const ESTIMATORS = ["lda", "lds:rows=2,columns=1024"];
const ROWS = SEGMENTS.length * EPOCHS * ESTIMATORS.length;
const AHEAD = join(root, "ahead");

let servers: NatsServers;
let clickhouse: ClickhouseServer;
const workers: CollectProcess[] = [];

async function addWorker(): Promise<CollectProcess> {
  const name = `w${workers.length}`;
  const nats = { url: servers.url, group: "backlog", lease: "3s" };
  const file = join(root, `${name}.yaml`);
  writeFileSync(file, JSON.stringify({ nats, clickhouse: { url: `${clickhouse.origin}/hoptime` } }));
  const worker = await startCollect(join(root, name), ["--config", file]);
  workers.push(worker);
  return worker;
}

const health = async ({ url }: CollectProcess) =>
  (await (await fetch(`${url}/v1/health`)).json()) as {
    records: { rows: number };
    cluster: { partitions: number; unacknowledged: number; acknowledged: number };
  };

async function asked(sql: string): Promise<number> {
  const response = await fetch(`${clickhouse.origin}/?database=hoptime&query=${encodeURIComponent(sql)}`);
  return Number(await response.text());
}

/** Messages of the stream that are not acknowledged. The stream was made by the sink, which decides on the number of partitions. */
async function open(worker: CollectProcess): Promise<number> {
  const { partitions } = (await health(worker)).cluster;
  const link = await servers.connect();
  try {
    const all = Array.from({ length: partitions }, (_, p) =>
      link.streams.consumers.info(STREAM, `backlog-${p}`),
    );
    return (await Promise.all(all)).reduce((n, info) => n + info.num_pending + info.num_ack_pending, 0);
  } finally {
    await link.close();
  }
}

describe.skipIf(why)("a backlog of more than ten minutes", () => {
  afterAll(async () => {
    delete process.env["NODE_OPTIONS"];
    for (const worker of workers) await worker.stop("kill");
    await servers?.stop();
    await clickhouse?.close();
    rmSync(root, { recursive: true, force: true });
  });

  it("is not acknowledged before it is estimated, and loses nothing when its worker is killed", async () => {
    mkdirSync(join(root, "nats"));
    [servers, clickhouse] = await Promise.all([
      NatsServers.start(join(root, "nats"), 1),
      ClickhouseServer.start(),
    ]);
    await untilReady(servers);
    const load = await clusterLoad(SEGMENTS, ESTIMATORS, 1_750_000_000_000_000_000n);
    const sink = await NatsSink.open({
      url: servers.url,
      spoolDirectory: join(root, "spool"),
      stopMs: 60_000,
    });
    for (let e = 0; e < EPOCHS; e++) await Promise.all(load.epoch(e).map((r) => sink.put(r)));
    await sink.close();
    expect(sink.counts).toMatchObject({ waiting: 0, refused: 0, dropped: 0 });
    // The worker's clock is set ahead when this file exists.
    const clock = join(root, "clock.mjs");
    writeFileSync(
      clock,
      `import { existsSync } from "node:fs";
const now = Date.now;
let aheadMs = 0;
setInterval(() => { if (existsSync(${JSON.stringify(AHEAD)})) aheadMs = 900_000; }, 50).unref();
Date.now = () => now() + aheadMs;\n`,
    );
    process.env["NODE_OPTIONS"] = `--import=${clock}`;
    const first = await addWorker();
    delete process.env["NODE_OPTIONS"];
    while ((await health(first)).cluster.unacknowledged < 1000) await sleep(20);
    writeFileSync(AHEAD, "");
    // It has completed records with the clock ahead, and is far from done.
    while ((await health(first)).cluster.acknowledged === 0) await sleep(20);
    await sleep(300);
    const { cluster, records } = await health(first);
    await first.stop("kill");
    console.log(`killed with ${cluster.acknowledged} records acknowledged, ${records.rows} of ${ROWS} rows`);
    // It was killed while working; otherwise the test shows nothing.
    expect(records.rows).toBeLessThan(ROWS);
    // When the clock jumps, a record may lack its other end, which is a few messages behind in the stream; it has then waited for ten minutes.
    const alone = SEGMENTS.length * ESTIMATORS.length;
    const rows = await asked("SELECT count() FROM segments FINAL WHERE step_s = 0");
    expect(cluster.acknowledged).toBeLessThanOrEqual(2 * rows + alone);
    const second = await addWorker();
    while ((await open(second)) > 0) await sleep(200);
    expect(await open(second)).toBe(0);
    const whole = "FROM segments FINAL WHERE step_s = 0 AND gone = 0 AND missing = 0";
    expect(await asked(`SELECT count() ${whole}`)).toBe(ROWS);
    expect(await asked(`SELECT uniqExact(from_point, estimator, start_ns) ${whole}`)).toBe(ROWS);
  }, 600_000);
});
