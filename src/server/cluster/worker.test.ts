/**
 * Workers against a real nats-server: records set aside, records in parts, partition ownership. Three brokers and kills: tests/e2e/cluster.test.ts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { clusterLoad, type Load } from "../../../tests/support/cluster-load.ts";
import { NatsServers, NO_NATS } from "../../../tests/support/nats-servers.ts";
import { type EpochRecord, encodeRecord } from "../../epoch/record.ts";
import { openCluster, STREAM } from "../../transport/nats/cluster.ts";
import { NatsSink } from "../../transport/nats/nats-sink.ts";
import { PlanReader } from "../../transport/nats/plan-reader.ts";
import { homeOf, subjectOf } from "../../transport/nats/subjects.ts";
import { type RunningServer, startServer } from "../server.ts";
import type { ClusterState } from "./cluster-part.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-workers-"));
const SEGMENTS = [
  { from: "A", to: "B", label: "" },
  { from: "B", to: "C", label: "" },
  { from: "D", to: "E", label: "D:E" },
];
afterAll(() => rmSync(root, { recursive: true, force: true }));
if (NO_NATS) console.log(`skipped: workers of a cluster: ${NO_NATS}`);

describe.skipIf(NO_NATS)("workers of a cluster", () => {
  let servers: NatsServers;
  let load: Load;
  let next = 0;
  const running: RunningServer[] = [];

  beforeAll(async () => {
    // A small maximum payload, so that larger records are split.
    servers = await NatsServers.start(
      join(root, "nats"),
      1,
      "max_payload: 6144\njetstream { store_dir: DIR }",
    );
    load = await clusterLoad(SEGMENTS, ["lda", "lds:rows=2,columns=1024"], 1_750_000_000_000_000_000n);
  });
  afterEach(async () => {
    for (const server of running.splice(0)) await server.close();
  });
  afterAll(() => servers?.stop());

  const worker = async (group: string, data = `w${next++}`): Promise<RunningServer> => {
    const nats = { url: servers.url, group, leaseMs: 1500, partitions: 4 };
    const server = await startServer({
      ...{ data: join(root, data), listen: "127.0.0.1:0", tickMs: 100, nats },
      segments: SEGMENTS.filter((s) => s.label === ""),
    });
    running.push(server);
    return server;
  };
  const publish = async (records: readonly EpochRecord[]) => {
    const sink = await NatsSink.open({ url: servers.url, spoolDirectory: join(root, `spool${next++}`) });
    await Promise.all(records.map((r) => sink.put(r)));
    await sink.close();
    expect(sink.counts).toMatchObject({ waiting: 0, dropped: 0, refused: 0 });
    return sink.counts;
  };
  const epochs = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => load.epoch(from + i)).flat();
  const state = (server: RunningServer) => server.service.cluster as ClusterState;
  const until = async (what: () => boolean | Promise<boolean>, limitMs = 120_000) => {
    for (const end = Date.now() + limitMs; !(await what()); ) {
      if (Date.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
      await sleep(50);
    }
  };
  const rowsOf = async (server: RunningServer, from: string, to: string) => {
    const response = await fetch(`${server.url}/v1/latency?from=${from}&to=${to}&estimator=lda&limit=10000`);
    if (!response.ok) return 0;
    const { points } = (await response.json()) as { points: { latency: unknown }[] };
    return points.filter((p) => p.latency !== null).length;
  };

  it("get records in parts, pair those of points that are at home elsewhere, and acknowledge them", async () => {
    const one = await worker("parts");
    const records = epochs(0, 5);
    // 4 kB of each message are reserved for its header.
    expect(records.some((r) => encodeRecord(r).length > 6144 - 4096)).toBe(true);
    expect(await publish(records)).toMatchObject({ sent: records.length, unchanged: 0 });
    for (const { from, to } of SEGMENTS) await until(async () => (await rowsOf(one, from, to)) === 5);
    await until(() => state(one).unacknowledged === 0);
    expect(state(one)).toMatchObject({ owned: [0, 1, 2, 3], setAside: 0, workers: 1 });
    // Published again: the stream recognises them by message id.
    expect(await publish(records)).toMatchObject({ unchanged: records.length });
  });

  it("set a poison record aside, name it, and go on", async () => {
    const one = await worker("poison");
    const link = await servers.connect();
    const [bad] = load.epoch(7);
    const bytes = encodeRecord(bad as EpochRecord);
    bytes[bytes.length - 9]! ^= 0xff;
    await link.stream.publish("hoptime.records.0.A.-", bytes);
    await link.stream.publish("hoptime.records.1.X.-", new TextEncoder().encode("no record"));
    await publish(epochs(5, 9));
    await until(() => state(one).setAside === 2);
    for (const { from, to } of SEGMENTS) await until(async () => (await rowsOf(one, from, to)) === 9);
    const { aside } = state(one);
    expect(aside.map((a) => a.subject).sort()).toEqual(["hoptime.records.0.A.-", "hoptime.records.1.X.-"]);
    expect(JSON.stringify(one.service.health())).toContain("record set aside");
    expect(await (await fetch(`${one.url}/metrics`)).text()).toContain(
      'hoptime_cluster_set_aside_total{group="poison"} 2',
    );
    expect((await link.streams.streams.info("HOPTIME_ASIDE")).state.messages).toBe(2);
    await until(() => state(one).unacknowledged === 0);
    await link.close();
  });

  it("set aside what speaks for another point, or is in a partition that is not its own", async () => {
    const one = await worker("placed");
    const link = await servers.connect();
    const record = (point: string, label: string) => {
      const found = load.epoch(0).find((r) => r.point === point && r.segment === label);
      return encodeRecord(found as EpochRecord);
    };
    const home = (point: string, label: string) => homeOf(point, label, 4);
    const [a, e] = [home("A", ""), home("E", "D:E")];
    const other = (partition: number) => (partition + 1) % 4;
    // A tap permitted to publish for F only; one with another number of partitions, with and without a label; one that claims to send a copy.
    const published = [
      [subjectOf(home("F", ""), "F", ""), record("A", ""), "f"],
      [subjectOf(other(e), "E", "D:E"), record("E", "D:E"), "e"],
      [subjectOf(other(a), "A", ""), record("A", ""), "a"],
      [subjectOf(other(e), "E", "D:E"), record("E", "D:E"), `e@${other(e)}`],
    ] as const;
    for (const [subject, bytes, msgID] of published) await link.stream.publish(subject, bytes, { msgID });
    const reasons = () => state(one).aside.map((s) => s.reason);
    const placed = () => reasons().filter((r) => / partition | subject says /.test(r));
    await until(() => placed().length === published.length);
    expect(placed().sort()).toEqual([
      ...[e, e, a]
        .map((at) => `it was published to partition ${other(at)}; of 4, it belongs to ${at}`)
        .sort(),
      "the record is of point 'A' without a label; its subject says point 'F' without a label",
    ]);
    await until(() => state(one).unacknowledged === 0);
    await link.close();
  });

  it("judge times by the servers' clock: one whose own is behind takes what the others take", async () => {
    const now = Date.now;
    const startNs = BigInt(now()) * 1_000_000n;
    const fresh = await clusterLoad([{ from: "K", to: "L", label: "K:L" }], ["lda"], startNs);
    Date.now = () => now() - 7_200_000;
    try {
      const one = await worker("behind");
      await publish(fresh.epoch(0));
      await until(async () => (await rowsOf(one, "K", "L")) === 1);
      expect(state(one).aside.filter((a) => a.reason.includes("clock"))).toEqual([]);
    } finally {
      Date.now = now;
    }
  });

  it("share the partitions when one joins, and take them back when it leaves; every group gets all", async () => {
    const one = await worker("shared", "shared-1");
    await until(() => state(one).owned.length === 4);
    const two = await worker("shared", "shared-2");
    await until(() => state(one).owned.length === 2 && state(two).owned.length === 2);
    expect([...state(one).owned, ...state(two).owned].sort()).toEqual([0, 1, 2, 3]);
    await publish(epochs(9, 12));
    const both = async () => {
      const counts = await Promise.all(
        SEGMENTS.map(({ from, to }) => Promise.all([rowsOf(one, from, to), rowsOf(two, from, to)])),
      );
      return counts.every(([a = 0, b = 0]) => Math.max(a, b) >= 3);
    };
    await until(both);
    running.splice(running.indexOf(two), 1);
    await two.close();
    await until(() => state(one).owned.length === 4);
    await publish(epochs(12, 14));
    const link = await servers.connect();
    await until(async () => {
      const infos = await Promise.all(
        [0, 1, 2, 3].map((p) => link.streams.consumers.info(STREAM, `shared-${p}`)),
      );
      return infos.every((i) => i.num_pending === 0 && i.num_ack_pending === 0);
    });
    await link.close();
    // Any worker answers about all segments, whoever processed them.
    for (const { from, to } of SEGMENTS) {
      const response = await fetch(`${one.url}/v1/query`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ between: [from, to], estimators: ["lda"] }),
      });
      const answer = (await response.json()) as { epochs?: { used: number } };
      expect(answer.epochs?.used, JSON.stringify(answer).slice(0, 300)).toBe(14);
    }
  });

  it("of two groups at once get all records each", async () => {
    const both = await Promise.all([worker("one-group"), worker("other-group")]);
    await publish(epochs(20, 24));
    for (const server of both) {
      await until(async () => {
        for (const { from, to } of SEGMENTS) if ((await rowsOf(server, from, to)) < 4) return false;
        return true;
      });
      await until(() => state(server).unacknowledged === 0);
    }
    expect(both.map((server) => state(server).workers)).toEqual([1, 1]);
  });

  it("keep the plan of the taps in the cluster", async () => {
    const one = await worker("plan");
    const reader = new PlanReader({ url: servers.url });
    expect(await reader.read()).toBeNull();
    await one.service.setPlan({ estimators: ["lda"], epoch: "1s" });
    expect(JSON.parse((await reader.read()) ?? "")).toMatchObject({ version: 1, plan: { epoch: "1s" } });
    const two = await worker("plan");
    expect(two.service.plan.plan).toEqual({ estimators: ["lda"], epoch: "1s" });
    expect([...(await reader.labels()).keys()].sort()).toEqual(
      expect.arrayContaining(["A", "B", "C", "D", "E"]),
    );
    await reader.close();
  });

  it("go on when the stream and all that is shared were removed, and make them again", async () => {
    const one = await worker("removed");
    const reader = new PlanReader({ url: servers.url });
    await one.service.setPlan({ estimators: ["lda"], epoch: "1s" });
    const plan = await reader.read();
    expect(plan).not.toBeNull();
    const sink = await NatsSink.open({
      ...{ url: servers.url, spoolDirectory: join(root, `spool${next++}`), retryMs: [50, 200] as const },
    });
    const put = async (from: number, to: number) => {
      for (const record of epochs(from, to)) await sink.put(record);
      await until(() => sink.counts.waiting === 0);
    };
    await put(30, 33);
    for (const { from, to } of SEGMENTS) await until(async () => (await rowsOf(one, from, to)) >= 3);
    const link = await servers.connect();
    for (const name of [STREAM, "HOPTIME_ASIDE", "KV_hoptime", "KV_hoptime-removed"])
      await link.streams.streams.delete(name);
    await put(33, 36);
    for (const { from, to } of SEGMENTS) await until(async () => (await rowsOf(one, from, to)) >= 6);
    await until(() => state(one).unacknowledged === 0);
    expect((await openCluster(link)).partitions).toBe(4);
    await until(async () => (await reader.read()) === plan);
    await reader.close();
    await sink.close();
    await link.close();
  });
});

describe.skipIf(NO_NATS)("a server that is not as it has to be", () => {
  it("has little storage: the stream takes a part of it, so that the oldest records go when it is full", async () => {
    const small = "jetstream { store_dir: DIR, max_file_store: 6GB }";
    await refused(small, async (s) => {
      const link = await s.connect();
      expect((await openCluster(link)).notes).toEqual([]);
      const { config } = await link.streams.streams.info(STREAM);
      expect([config.max_bytes, config.discard, config.max_age]).toEqual([5e9, "old", 3 * 86_400e9]);
      await link.close();
    });
  });

  const refused = async (more: string, work: (servers: NatsServers) => Promise<unknown>) => {
    const servers = await NatsServers.start(mkdtempSync(join(root, "other-")), 1, more);
    try {
      await work(servers);
    } finally {
      await servers.stop();
    }
  };

  it("is named: no JetStream, no entry", async () => {
    await refused("", (s) => expect(s.connect()).rejects.toThrow(/JetStream does not answer/));
    await refused("authorization { user: u, password: p }\njetstream { store_dir: DIR }", (s) =>
      expect(s.connect()).rejects.toThrow(/authentication failed/),
    );
  });

  it("is named: a stream of that name that removes what was read, or takes other subjects", async () => {
    await refused("jetstream { store_dir: DIR }", async (s) => {
      const link = await s.connect();
      const { RetentionPolicy } = link.packages.jetstream;
      await link.streams.streams.add({ name: STREAM, subjects: ["other.>"] });
      await expect(openCluster(link)).rejects.toThrow(/takes other\.>, not hoptime\.records/);
      await link.streams.streams.delete(STREAM);
      const retention = RetentionPolicy.Workqueue;
      await link.streams.streams.add({ name: STREAM, subjects: ["hoptime.records.>"], retention });
      await expect(openCluster(link)).rejects.toThrow(/deletes records once they are read/);
      await link.close();
    });
  });
});
