/**
 * Three brokers, two workers, and ClickHouse if it is installed: kill -9 of a worker, of brokers (including the stream's leader) and of ClickHouse at random
 * times under load; a worker that is stopped beyond its lease and continues; one that is cut off from the brokers. No acknowledged record is lost or counted
 * twice, and answers are those of one collector. HOPTIME_CLUSTER_ROUNDS sets the number of rounds (30 in the long form).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Random } from "../../src/base/random.ts";
import type { encodeRecord } from "../../src/epoch/record.ts";
import { BATCH_TYPE } from "../../src/transport/batch.ts";
import { STREAM } from "../../src/transport/nats/cluster.ts";
import { NatsSink } from "../../src/transport/nats/nats-sink.ts";
import { CLICKHOUSE_SERVER, ClickhouseServer, NO_CLICKHOUSE } from "../support/clickhouse-server.ts";
import { clusterLoad, framed, type Load } from "../support/cluster-load.ts";
import { type CollectProcess, runHoptime, startCollect } from "../support/collect-process.ts";
import { CutLine } from "../support/cut-line.ts";
import { NatsServers, NO_NATS, untilReady } from "../support/nats-servers.ts";

const ROUNDS = Number(process.env["HOPTIME_CLUSTER_ROUNDS"] ?? 3);
const EPOCHS = 20;
const GROUP = "test";
const LEASE_S = 3;
const root = mkdtempSync(join(tmpdir(), "hoptime-cluster-"));
const SEGMENTS = [
  { from: "A", to: "B", label: "" },
  { from: "B", to: "C", label: "" },
  { from: "D", to: "E", label: "D:E" },
  { from: "F", to: "G", label: "F:G" },
];
/** Records with a label need no copies. */
const WATCHED = ["A:B", "B:C"];

let servers: NatsServers;
let load: Load;
let clickhouse: ClickhouseServer | null = null;
const workers: (CollectProcess | null)[] = [null, null];
/** Between a worker and the brokers. */
const lines: CutLine[] = [];

if (NO_NATS) console.log(`skipped: cluster: ${NO_NATS}`);
else if (CLICKHOUSE_SERVER === null)
  console.log(`cluster: results in each worker's own store, ${NO_CLICKHOUSE}`);

describe.skipIf(NO_NATS)("a cluster of three brokers and two workers", () => {
  beforeAll(async () => {
    servers = await NatsServers.start(join(root, "nats"), 3);
    await untilReady(servers);
    if (CLICKHOUSE_SERVER !== null) clickhouse = await ClickhouseServer.start();
    load = await clusterLoad(SEGMENTS, ["lda"], 1_750_000_000_000_000_000n);
    for (const i of [0, 1]) {
      lines[i] = await CutLine.to(servers.ports);
      workers[i] = await startWorker(i);
    }
  }, 60_000);

  afterAll(async () => {
    for (const worker of workers) await worker?.stop("kill");
    for (const line of lines) line.close();
    await servers?.stop();
    await clickhouse?.close();
    rmSync(root, { recursive: true, force: true });
  });

  it(
    "loses nothing and counts nothing twice, whichever is killed",
    async () => {
      const random = new Random(Number(process.env["HOPTIME_CLUSTER_SEED"] ?? 7));
      for (let round = 0; round < ROUNDS; round++) {
        const disturbed = disturb(round, random);
        await publish(round);
        await disturbed;
      }
      await settled();
      const alone = await startCollect(
        join(root, "alone"),
        WATCHED.flatMap((s) => ["--segment", s]),
      );
      try {
        for (let e = 0; e < ROUNDS * EPOCHS; e += 20)
          await post(alone.url, Array.from({ length: 20 }, (_, i) => load.epoch(e + i)).flat());
        for (const { from, to } of SEGMENTS) {
          const question = ["--between", from, to, "--json"];
          const expected = await runHoptime(["query", alone.url, ...question]);
          expect(JSON.parse(expected).epochs.used).toBe(ROUNDS * EPOCHS);
          for (const worker of workers)
            expect(await runHoptime(["query", worker?.url ?? "", ...question])).toBe(expected);
        }
        await sameRows(alone.url);
        await noneSetAside();
        await alone.stop();
        if (clickhouse) {
          const together = await exported("clickhouse", ["--clickhouse", `${clickhouse.origin}/hoptime`]);
          expect(together).toEqual(await exported("duckdb", ["--data", join(root, "alone")]));
          expect(together).toHaveLength(1 + SEGMENTS.length * ROUNDS * EPOCHS);
        }
      } finally {
        await alone.stop("kill");
      }
    },
    90_000 + ROUNDS * 60_000,
  );
});

async function startWorker(i: number): Promise<CollectProcess> {
  const file = join(root, `worker-${i}.yaml`);
  const nats = { url: lines[i]?.url, group: GROUP, lease: `${LEASE_S}s`, partitions: 4 };
  const results = clickhouse ? { clickhouse: { url: `${clickhouse.origin}/hoptime` } } : {};
  writeFileSync(file, JSON.stringify({ nats, segments: WATCHED, ...results }));
  return await startCollect(join(root, `worker-${i}`), ["--config", file]);
}

const VICTIMS = [
  ["worker"],
  ["leader", "clickhouse"],
  ["stopped", "cut off"],
  ["worker"],
  ["broker", "clickhouse"],
];

/** Kills or stops one or two of them while records arrive; they come back. */
async function disturb(round: number, random: Random): Promise<void> {
  const victims = VICTIMS[round % VICTIMS.length] ?? [];
  await Promise.all(victims.map((victim) => killOne(victim, random)));
}

async function killOne(victim: string, random: Random): Promise<void> {
  if (victim === "stopped" || victim === "cut off") {
    await sleep(random.float() * 1000);
    const [begin, end] = victim === "stopped" ? stopping(0) : cutting(1);
    begin();
    await sleep(1000 * LEASE_S * (1.1 + random.float()));
    end();
    return;
  }
  await sleep(300 + random.float() * 2500);
  if (victim === "clickhouse") {
    await clickhouse?.kill();
    await sleep(500 + random.float() * 3000);
    await clickhouse?.up();
    return;
  }
  if (victim === "worker") {
    const i = Math.floor(random.float() * 2);
    await workers[i]?.stop("kill");
    await sleep(random.float() * 4000);
    workers[i] = await startWorker(i);
    return;
  }
  const leader = await servers.leaderOf(STREAM);
  const i = victim === "leader" && leader >= 0 ? leader : Math.floor(random.float() * 3);
  await servers.killNode(i);
  await sleep(500 + random.float() * 3000);
  await servers.startNode(i);
}

type Pause = [begin: () => void, end: () => void];

/** As if its host was suspended: the worker continues without noticing. */
function stopping(i: number): Pause {
  const pid = workers[i]?.pid ?? 0;
  return [() => process.kill(pid, "SIGSTOP"), () => process.kill(pid, "SIGCONT")];
}

function cutting(i: number): Pause {
  return [() => lines[i]?.cut(), () => lines[i]?.mend()];
}

/** Sends the two ends of a segment by two taps; resolves when every record is acknowledged. */
async function publish(round: number): Promise<void> {
  const sinks = await Promise.all(
    ["near", "far"].map((name) =>
      NatsSink.open({
        ...{ url: servers.url, spoolDirectory: join(root, `spool-${name}`) },
        ...{ stopMs: 60_000, retryMs: [100, 1000] as const },
      }),
    ),
  );
  for (let e = round * EPOCHS; e < (round + 1) * EPOCHS; e++) {
    for (const record of load.epoch(e)) await sinks[record.role === "sender" ? 0 : 1]?.put(record);
    await sleep(60);
  }
  for (const sink of sinks) {
    await sink.close();
    expect(sink.counts).toMatchObject({ waiting: 0, dropped: 0, refused: 0 });
  }
}

/** Waits until everything is read and acknowledged. */
async function settled(limitMs = 60_000 + 10_000 * ROUNDS): Promise<void> {
  const link = await servers.connect();
  const untilMs = Date.now() + limitMs;
  try {
    for (;;) {
      const open: string[] = [];
      for (const p of [0, 1, 2, 3]) {
        const info = await link.streams.consumers.info(STREAM, `${GROUP}-${p}`).catch(() => null);
        if (!info || info.num_pending + info.num_ack_pending > 0)
          open.push(`${p}: ${info?.num_pending} pending, ${info?.num_ack_pending} not acknowledged`);
      }
      if (open.length === 0) return;
      if (Date.now() > untilMs) throw new Error(open.join("; "));
      await sleep(500);
    }
  } finally {
    await link.close();
  }
}

/** The results as a file, only epochs: which minutes exist yet depends on timing. */
async function exported(name: string, from: readonly string[]): Promise<string[]> {
  const file = join(root, `${name}.csv`);
  await runHoptime(["export", ...from, "--csv", file]);
  const [header = "", ...rows] = readFileSync(file, "utf8").trimEnd().split("\n");
  const step = header.split(",").indexOf("step_s");
  return [header, ...rows.filter((row) => row.split(",")[step] === "0")];
}

/** All answers were successful. */
async function noneSetAside(): Promise<void> {
  const link = await servers.connect();
  const { state } = await link.streams.streams.info("HOPTIME_ASIDE");
  await link.close();
  expect(state.messages).toBe(0);
}

async function post(url: string, records: Parameters<typeof encodeRecord>[0][]): Promise<void> {
  const response = await fetch(`${url}/v1/records`, {
    method: "POST",
    headers: { "content-type": BATCH_TYPE },
    body: new Uint8Array(framed(records)),
  });
  expect(response.status).toBe(200);
}

interface Rows {
  points: { startNs: string; latency: unknown }[];
}

/**
 * With a shared store, every worker answers from the results of all. With separate stores, both together have the rows of one collector, and rows in both are
 * equal.
 */
async function sameRows(alone: string): Promise<void> {
  for (const { from, to, label } of SEGMENTS) {
    const query = `from=${from}&to=${to}&label=${encodeURIComponent(label)}&estimator=lda&limit=10000`;
    const ask = async (url: string) => {
      const response = await fetch(`${url}/v1/latency?${query}`);
      const { points } = response.ok ? ((await response.json()) as Rows) : { points: [] };
      return points.filter((p) => p.latency !== null);
    };
    let expected: Rows["points"] = [];
    for (let i = 0; i < 40 && expected.length < ROUNDS * EPOCHS; i++) {
      expected = await ask(alone);
      await sleep(250);
    }
    const answers = await Promise.all(workers.map((worker) => ask(worker?.url ?? "")));
    if (clickhouse) {
      for (const answer of answers) expect(answer, `${from} to ${to}`).toEqual(expected);
      continue;
    }
    const all = new Map<string, unknown>();
    for (const point of answers.flat()) {
      if (all.has(point.startNs)) expect(point).toEqual(all.get(point.startNs));
      all.set(point.startNs, point);
    }
    const together = [...all.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, point]) => point);
    expect(together, `${from} to ${to}`).toEqual(expected);
  }
}
