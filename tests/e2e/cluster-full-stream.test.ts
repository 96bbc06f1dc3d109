/**
 * A stream that is full and rejects new messages (discard new): taps keep their records in the spool and report why, a worker continues with the messages in
 * the stream, and when there is space everything arrives once. Records of points without a label need copies in the stream; the worker makes them when there is
 * space. A deleted consumer is created again.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { BATCH_TYPE } from "../../src/transport/batch.ts";
import { openCluster, STREAM } from "../../src/transport/nats/cluster.ts";
import { NatsSink } from "../../src/transport/nats/nats-sink.ts";
import { partitionOf } from "../../src/transport/nats/subjects.ts";
import { clusterLoad, framed } from "../support/cluster-load.ts";
import { type CollectProcess, startCollect } from "../support/collect-process.ts";
import { NatsServers, NO_NATS, untilReady } from "../support/nats-servers.ts";

if (NO_NATS) console.log(`skipped: a full stream: ${NO_NATS}`);
const root = mkdtempSync(join(tmpdir(), "hoptime-full-stream-"));
const PARTITIONS = 4;
const LABELLED = { from: "D", to: "E", label: "D:E" };
/** The partitions of its sender and receiver differ, so each of its records is copied. */
const PLAIN = { from: "A", to: "C", label: "" };
const EPOCHS = 20;

let servers: NatsServers;
let worker: CollectProcess | null = null;

describe.skipIf(NO_NATS)("a stream that is full", () => {
  afterAll(async () => {
    await worker?.stop("kill");
    await servers?.stop();
    rmSync(root, { recursive: true, force: true });
  });

  const rows = async ({ from, to, label }: typeof PLAIN) => {
    const query = `from=${from}&to=${to}&label=${encodeURIComponent(label)}&estimator=lda&limit=1000`;
    const response = await fetch(`${worker?.url}/v1/latency?${query}`);
    if (!response.ok) return 0;
    const { points } = (await response.json()) as { points: { latency: unknown }[] };
    return points.filter((p) => p.latency !== null).length;
  };
  const until = async (holds: () => Promise<boolean>) => {
    while (!(await holds())) await sleep(100);
  };

  it("loses nothing: taps spool and say so, the worker goes on, and all is there when there is room", async () => {
    mkdirSync(join(root, "nats"));
    servers = await NatsServers.start(join(root, "nats"), 1);
    await untilReady(servers);
    expect(partitionOf("A", PARTITIONS)).not.toBe(partitionOf("C", PARTITIONS));
    const link = await servers.connect();
    const { DiscardPolicy } = link.packages.jetstream;
    await openCluster(link, { partitions: PARTITIONS });
    const edit = (max_msgs: number) =>
      link.streams.streams.update(STREAM, { max_msgs, discard: DiscardPolicy.New });
    // The records of both segments, in this order; there is space for all of the first and for one copy of the second.
    const load = await clusterLoad([LABELLED, PLAIN], ["lda"], 1_750_000_000_000_000_000n);
    const all = Array.from({ length: EPOCHS }, (_, e) => load.epoch(e)).flat();
    const plain = all.filter((r) => r.segment === "");
    const labelled = all.filter((r) => r.segment !== "");
    await edit(plain.length + 10);
    const said: string[] = [];
    const sink = await NatsSink.open({
      ...{ url: servers.url, spoolDirectory: join(root, "spool"), retryMs: [50, 200] as const },
      onState: (text) => said.push(text),
    });
    for (const record of plain) await sink.put(record);
    await until(async () => sink.counts.waiting === 0);
    for (const record of labelled) await sink.put(record);
    await until(async () => said.some((text) => /the stream HOPTIME is full/.test(text)));
    expect(said.at(-1)).toMatch(/records wait in the spool$/);
    const file = join(root, "worker.yaml");
    const nats = { url: servers.url, group: "full", lease: "3s", partitions: PARTITIONS };
    writeFileSync(file, JSON.stringify({ nats, segments: ["A:C"] }));
    worker = await startCollect(join(root, "worker"), ["--config", file]);
    // The records of the labelled segment are processed, although copies of the other cannot be made.
    await until(async () => (await rows(LABELLED)) >= 4);
    expect(sink.counts).toMatchObject({ dropped: 0, refused: 0 });
    const acknowledged = async () =>
      ((await (await fetch(`${worker?.url}/v1/health`)).json()) as { cluster: { acknowledged: number } })
        .cluster.acknowledged;
    await until(async () => (await acknowledged()) >= 8);
    // A record that comes over HTTP is not acknowledged either.
    const headers = { "content-type": BATCH_TYPE };
    const body = new Uint8Array(framed(load.epoch(EPOCHS)));
    const answer = await fetch(`${worker.url}/v1/records`, { method: "POST", headers, body });
    expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining("is full")]);
    await edit(1_000_000);
    // A consumer is deleted as well.
    await link.streams.consumers.delete(STREAM, `full-${partitionOf("C", PARTITIONS)}`);
    await until(async () => (await rows(LABELLED)) === EPOCHS && (await rows(PLAIN)) === EPOCHS);
    await sink.close();
    expect(sink.counts).toMatchObject({ sent: all.length, waiting: 0, dropped: 0, refused: 0 });
    expect(said.at(-1)).toMatch(/accepts records again/);
    const open = async () => {
      const infos = await Promise.all(
        Array.from({ length: PARTITIONS }, (_, p) => link.streams.consumers.info(STREAM, `full-${p}`)),
      );
      return infos.reduce((n, info) => n + info.num_pending + info.num_ack_pending, 0);
    };
    await until(async () => (await open()) === 0);
    await link.close();
  }, 90_000);
});
