/** A disk that is full or read-only: only stored records are acknowledged, and everything continues when there is space again. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { identityText, recordIdentity } from "../../src/epoch/identity.ts";
import type { EpochRecord } from "../../src/epoch/record.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { BATCH_TYPE } from "../../src/transport/batch.ts";
import { HttpSink } from "../../src/transport/http/http-sink.ts";
import { STREAM } from "../../src/transport/nats/cluster.ts";
import { NatsSink } from "../../src/transport/nats/nats-sink.ts";
import { CLICKHOUSE_SERVER, ClickhouseServer } from "../support/clickhouse-server.ts";
import { clusterLoad } from "../support/cluster-load.ts";
import { startCollect } from "../support/collect-process.ts";
import { message, observedRecords } from "../support/collector-records.ts";
import { NatsServers, NO_NATS, untilReady } from "../support/nats-servers.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-full-"));
const disk = join(root, "disk");
let server: RunningServer | null = null;
const mounted = mount();

/** A disk of 8 MB; only root can create one. */
function mount(): boolean {
  mkdirSync(disk);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
afterEach(async () => {
  await server?.close().catch(() => undefined);
  server = null;
});
afterAll(() => {
  if (mounted) execFileSync("umount", [disk]);
  rmSync(root, { recursive: true, force: true });
});

async function post(body: Buffer): Promise<{ status: number; results: { outcome: string }[] }> {
  const response = await fetch(`${server?.url}/v1/records`, {
    method: "POST",
    headers: { "content-type": BATCH_TYPE },
    body: new Uint8Array(body),
  });
  const json = (await response.json()) as { results?: { outcome: string }[] };
  return { status: response.status, results: json.results ?? [] };
}

it.skipIf(!mounted)(
  "answers 503 while the disk is full, keeps what it acknowledged, and takes records again",
  async () => {
    const { records } = await observedRecords(["lda"], { seconds: 30 });
    server = await startServer({ data: join(disk, "data"), listen: "127.0.0.1:0", tickMs: 1e9 });
    const first = records.slice(0, 10);
    expect((await post(message(first))).status).toBe(200);
    const hog = join(disk, "hog");
    try {
      writeFileSync(hog, Buffer.alloc(8 << 20));
    } catch {
      // As full as possible.
    }
    const refused = await post(message(records.slice(10)));
    expect(refused.status).toBe(503);
    // It still answers, and has all records that it acknowledged.
    expect((await fetch(`${server.url}/v1/points`)).status).toBe(200);
    const names = () => {
      const archive = RecordArchive.open(join(disk, "data", "records"));
      return archive.list().entries.map((e) => identityText(recordIdentity(archive.readRecord(e))));
    };
    for (const record of first) expect(names()).toContain(identityText(recordIdentity(record)));
    rmSync(hog);
    const again = await post(message(records.slice(10)));
    expect(again.status).toBe(200);
    expect(again.results.every((r) => r.outcome === "stored" || r.outcome === "unchanged")).toBe(true);
    expect(new Set(names()).size).toBe(records.length);
  },
);

it.skipIf(!mounted)(
  "answers 503 where the disk may only be read, and says why it does not start there",
  async () => {
    const { records } = await observedRecords(["lda"], { seconds: 3 });
    const data = join(disk, "other");
    server = await startServer({ data, listen: "127.0.0.1:0", tickMs: 1e9 });
    // Mounted over itself, read-only: this works while files are open, as with a failing disk.
    const archive = join(data, "records");
    execFileSync("mount", ["--bind", archive, archive]);
    try {
      execFileSync("mount", ["-o", "remount,bind,ro", archive]);
      expect((await post(message(records))).status).toBe(503);
      await expect(startServer({ data: join(archive, "new"), listen: "127.0.0.1:0" })).rejects.toThrow(
        "cannot be written: read-only file system",
      );
    } finally {
      execFileSync("umount", [archive]);
    }
    expect((await post(message(records))).status).toBe(200);
  },
);

it.skipIf(!mounted)(
  "a tap whose spool's disk is full drops and counts; what it has spooled is sent once",
  async () => {
    const { records } = await observedRecords(["lda"], { seconds: 30 });
    const hog = join(disk, "spool-hog");
    try {
      writeFileSync(hog, Buffer.alloc(8 << 20));
    } catch {
      // As full as possible; then a little space.
    }
    truncateSync(hog, statSync(hog).size - (512 << 10));
    server = await startServer({ data: join(root, "collector"), listen: "127.0.0.1:0", tickMs: 1e9 });
    const { url } = server;
    await server.close();
    const said: string[] = [];
    const sink = await HttpSink.open({
      ...{ url, spoolDirectory: join(disk, "spool"), retryMs: [20, 200], stopMs: 60_000 },
      onState: (text) => said.push(text),
    });
    const put = (n: number) => sink.put({ ...(records[n % records.length] as EpochRecord), point: `P${n}` });
    let n = 0;
    for (; n < 20_000 && sink.counts.dropped === 0; n++) await put(n);
    expect(n).toBeLessThan(20_000);
    for (const end = n + 20; n < end; n++) await put(n);
    const { waiting, dropped } = sink.counts;
    expect(waiting + dropped).toBe(n);
    expect(said.join()).toMatch(/records wait in the spool/);
    server = await startServer({ data: join(root, "collector"), listen: new URL(url).host, tickMs: 1e9 });
    await sink.close();
    expect(sink.counts).toMatchObject({ sent: waiting, unchanged: 0, waiting: 0 });
    const archive = RecordArchive.open(join(root, "collector", "records"));
    expect(archive.list().entries).toHaveLength(waiting);
    rmSync(hog);
  },
);

it.skipIf(!mounted || NO_NATS !== null || CLICKHOUSE_SERVER === null)(
  "a worker whose disk is full acknowledges nothing, says so, and goes on when there is room",
  async () => {
    const [servers, clickhouse] = await Promise.all([
      NatsServers.start(join(root, "nats"), 1),
      ClickhouseServer.start(),
    ]);
    await untilReady(servers);
    const nats = { url: servers.url, group: "full", lease: "3s", partitions: 1 };
    const file = join(root, "worker.yaml");
    writeFileSync(file, JSON.stringify({ nats, clickhouse: { url: `${clickhouse.origin}/hoptime` } }));
    const worker = await startCollect(join(disk, "worker"), ["--config", file]);
    const link = await servers.connect();
    const hog = join(disk, "worker-hog");
    try {
      const load = await clusterLoad(
        [{ from: "D", to: "E", label: "D:E" }],
        ["lda"],
        1_750_000_000_000_000_000n,
      );
      try {
        writeFileSync(hog, Buffer.alloc(8 << 20));
      } catch {
        // As full as possible.
      }
      const sink = await NatsSink.open({ url: servers.url, spoolDirectory: join(root, "cluster-spool") });
      for (let e = 0; e < 20; e++) for (const record of load.epoch(e)) await sink.put(record);
      await sink.close();
      expect(sink.counts).toMatchObject({ sent: 40, waiting: 0 });
      const open = async () => {
        const info = await link.streams.consumers.info(STREAM, "full-0").catch(() => null);
        return info ? info.num_pending + info.num_ack_pending : 40;
      };
      while (!/ENOSPC|no space/i.test(worker.log())) await sleep(100);
      expect(await open()).toBe(40);
      expect((await fetch(`${worker.url}/v1/health`)).status).toBe(200);
      rmSync(hog);
      while ((await open()) > 0) await sleep(100);
      const sql = "SELECT uniqExact(start_ns) FROM segments FINAL WHERE step_s = 0 AND missing = 0";
      const answer = await fetch(`${clickhouse.origin}/?database=hoptime&query=${encodeURIComponent(sql)}`);
      expect(Number(await answer.text())).toBe(20);
      const { state } = await link.streams.streams.info("HOPTIME_ASIDE");
      expect(state.messages).toBe(0);
    } finally {
      rmSync(hog, { force: true });
      await link.close();
      await worker.stop("kill");
      await servers.stop();
      await clickhouse.close();
    }
  },
  90_000,
);
