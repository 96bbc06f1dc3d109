/**
 * A whole cluster for benchmarks: nats-server, ClickHouse (if requested) and workers; publishes records of many segments and measures the cost of each part.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type EpochRecord, encodeRecord } from "../../src/epoch/record.ts";
import { type Cluster, openCluster, STREAM } from "../../src/transport/nats/cluster.ts";
import type { NatsLink } from "../../src/transport/nats/connection.ts";
import { messageId, publishPieces } from "../../src/transport/nats/nats-sink.ts";
import { homeOf, subjectOf } from "../../src/transport/nats/subjects.ts";
import { ClickhouseServer } from "./clickhouse-server.ts";
import { type CollectProcess, startCollect } from "./collect-process.ts";
import { NatsServers, untilReady } from "./nats-servers.ts";

export const PARTITIONS = 12;
const IN_FLIGHT = 256;

export interface Usage {
  /** CPU seconds so far. */
  cpuS: number;
  rssMb: number;
}

export interface PartsUsage {
  workers: Usage[];
  brokers: Usage;
  clickhouse: Usage;
  publisher: Usage;
}

export interface WorkerHealth {
  records: { rows: number };
  cluster: { owned: number[]; acknowledged: number; unacknowledged: number; lag: number; lost: number };
}

export class RunningCluster {
  readonly workers: CollectProcess[] = [];
  readonly #root: string;
  readonly #servers: NatsServers;
  readonly #clickhouse: ClickhouseServer | null;
  readonly #link: NatsLink & { cluster: Cluster };
  #started = 0;

  private constructor(
    root: string,
    servers: NatsServers,
    clickhouse: ClickhouseServer | null,
    link: NatsLink & { cluster: Cluster },
  ) {
    this.#root = root;
    this.#servers = servers;
    this.#clickhouse = clickhouse;
    this.#link = link;
  }

  static async start(
    root: string,
    { brokers = 1, clickhouse = false }: { brokers?: 1 | 3; clickhouse?: boolean } = {},
  ): Promise<RunningCluster> {
    const servers = await NatsServers.start(root, brokers);
    await untilReady(servers);
    const results = clickhouse ? await ClickhouseServer.start() : null;
    const link = await servers.connect();
    const cluster = await openCluster(link, { partitions: PARTITIONS });
    return new RunningCluster(root, servers, results, { ...link, cluster });
  }

  async addWorker(): Promise<CollectProcess> {
    const name = `worker-${this.#started++}`;
    const file = join(this.#root, `${name}.yaml`);
    // Leases are longer than the default, because all parts share the processors of one machine.
    const nats = { url: this.#servers.url, group: "bench", partitions: PARTITIONS, lease: "30s" };
    writeFileSync(file, JSON.stringify({ nats }));
    const results = this.#clickhouse ? ["--clickhouse", `${this.#clickhouse.origin}/bench`] : [];
    const worker = await startCollect(join(this.#root, name), ["--config", file, ...results]);
    this.workers.push(worker);
    return worker;
  }

  /** Waits until every partition has a worker, and each worker its share. */
  async shared(): Promise<void> {
    const most = Math.ceil(PARTITIONS / this.workers.length);
    for (let i = 0; i < 600; i++) {
      const owned = (await this.health()).map(({ cluster }) => cluster.owned.length);
      if (owned.every((n) => n <= most) && owned.reduce((a, b) => a + b, 0) === PARTITIONS) return;
      await sleep(200);
    }
    throw new Error("the partitions are not shared");
  }

  health(): Promise<WorkerHealth[]> {
    return Promise.all(
      this.workers.map(
        async ({ url }) => (await (await fetch(`${url}/v1/health`)).json()) as Promise<WorkerHealth>,
      ),
    );
  }

  async publish(records: readonly EpochRecord[]): Promise<void> {
    const link = this.#link;
    const { partitions } = link.cluster;
    for (let at = 0; at < records.length; at += IN_FLIGHT)
      await Promise.all(
        records.slice(at, at + IN_FLIGHT).map((record) => {
          const bytes = encodeRecord(record);
          const { point, segment } = record;
          const subject = subjectOf(homeOf(point, segment, partitions), point, segment);
          return publishPieces(link, { subject, bytes, id: messageId(record, bytes), tap: null });
        }),
      );
  }

  /** Returns the number of messages that are not acknowledged. */
  async open(): Promise<number> {
    const infos = await Promise.all(
      Array.from({ length: PARTITIONS }, (_, p) =>
        this.#link.streams.consumers.info(STREAM, `bench-${p}`).catch(() => null),
      ),
    );
    if (infos.includes(null)) return Number.POSITIVE_INFINITY;
    return infos.reduce((n, info) => n + (info ? info.num_pending + info.num_ack_pending : 0), 0);
  }

  async drained(): Promise<void> {
    while ((await this.open()) > 0) await sleep(250);
  }

  /** Returns the number of epochs of segments in the results, without duplicates. */
  async rows(): Promise<number> {
    if (!this.#clickhouse) return (await this.health()).reduce((n, h) => n + h.records.rows, 0);
    const sql = "SELECT uniqExact(from_point, to_point, estimator, start_ns) FROM segments WHERE step_s = 0";
    const response = await fetch(
      `${this.#clickhouse.origin}/?database=bench&query=${encodeURIComponent(sql)}`,
    );
    return Number(await response.text());
  }

  usage(): PartsUsage {
    const { user, system } = process.cpuUsage();
    const publisher = { cpuS: (user + system) / 1e6, rssMb: process.memoryUsage().rss / 1e6 };
    return {
      workers: this.workers.map((w) => usageOf([w.pid])),
      brokers: usageOf(this.#servers.pids),
      clickhouse: usageOf(this.#clickhouse ? [this.#clickhouse.pid] : []),
      publisher,
    };
  }

  async stop(): Promise<void> {
    for (const worker of this.workers) await worker.stop("kill");
    await this.#link.close();
    await this.#servers.stop();
    await this.#clickhouse?.close();
  }
}

function usageOf(pids: readonly number[]): Usage {
  let [cpuS, rssMb] = [0, 0];
  for (const pid of pids) {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    cpuS += (Number(fields[11]) + Number(fields[12])) / 100;
    rssMb += (Number(fields[21]) * 4096) / 1e6;
  }
  return { cpuS, rssMb };
}
