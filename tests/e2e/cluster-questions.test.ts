/**
 * Every kind of question, asked of two workers with ClickHouse and an object store, and of one collector with neither: the answers are the same byte for byte,
 * except for addresses. The two segments of a path are in different partitions, and the second one becomes slow. Packets are queried by digest, flow and
 * capture, also when no worker has their records on disk any more.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { earlier } from "../../src/base/time.ts";
import { type EpochRecord, encodeRecord } from "../../src/epoch/record.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { BATCH_TYPE, frameRecord } from "../../src/transport/batch.ts";
import { NatsSink } from "../../src/transport/nats/nats-sink.ts";
import { partitionOf } from "../../src/transport/nats/subjects.ts";
import { CLICKHOUSE_SERVER, ClickhouseServer, NO_CLICKHOUSE } from "../support/clickhouse-server.ts";
import { type CollectProcess, runHoptime, startCollect } from "../support/collect-process.ts";
import { observedRecords, POINTS } from "../support/collector-records.ts";
import { NatsServers, NO_NATS, untilReady } from "../support/nats-servers.ts";
import { OBJECT_KEYS, ObjectServer } from "../support/object-server.ts";
import { writePcap } from "../support/small-pcap.ts";

const why = NO_NATS ?? (CLICKHOUSE_SERVER === null ? NO_CLICKHOUSE : null);
if (why) console.log(`skipped: questions to a cluster: ${why}`);
const root = mkdtempSync(join(tmpdir(), "hoptime-cluster-questions-"));
const BEGIN_NS = 1_750_000_000_000_000_000n;
const SECOND_NS = 1_000_000_000n;
const EPOCHS = 60;
const SLOW_FROM = 45;
const PARTITIONS = 4;
const PATH = ["A", "B", "C"];
const [before, after] = [join(root, "p.pcap"), join(root, "q.pcap")];
const FLOW = "udp 10.0.0.1:2000 > 10.9.0.9:53";

let servers: NatsServers;
let clickhouse: ClickhouseServer;
let objects: ObjectServer;
let alone: CollectProcess;
const workers: CollectProcess[] = [];

/** Records of both segments, with one minute of simulated traffic each; the second one becomes slow. */
async function ofPath(): Promise<EpochRecord[]> {
  const estimators = ["lda", "lds:rows=2,columns=256", "flows"];
  const [normal, slow] = await Promise.all(
    [0, 5_000_000].map((spike) => observedRecords(estimators, { seconds: EPOCHS, ratePps: 100, spike })),
  );
  const first = (normal?.records ?? []).map((r) => r.epoch.startNs).reduce(earlier);
  const moved = (record: EpochRecord, from: string, to: string): EpochRecord => {
    const { startNs, endNs, referenceNs } = record.epoch;
    const by = BEGIN_NS - first;
    const epoch = {
      ...record.epoch,
      startNs: startNs + by,
      endNs: endNs + by,
      referenceNs: referenceNs + by,
    };
    return { ...record, point: record.point === POINTS.from ? from : to, segment: `${from}:${to}`, epoch };
  };
  const isSlow = (r: EpochRecord) => r.epoch.startNs - first >= BigInt(SLOW_FROM) * SECOND_NS;
  const second = [
    ...(normal?.records ?? []).filter((r) => !isSlow(r)),
    ...(slow?.records ?? []).filter(isSlow),
  ];
  return [
    ...(normal?.records ?? []).map((r) => moved(r, "A", "B")),
    ...second.map((r) => moved(r, "B", "C")),
  ].sort((a, b) => Number(a.epoch.endNs - b.epoch.endNs));
}

/** Packets between P and Q; their delays depend on their digests. */
async function ofPackets(): Promise<EpochRecord[]> {
  const sent = Array.from({ length: 2000 }, (_, n) => ({
    timeNs: BEGIN_NS + 200_000_000n + BigInt(n) * 1_250_000n,
    ...{ src: `10.0.0.${1 + (n % 4)}`, dst: "10.9.0.9", sport: 2000 + (n % 4), dport: 53, ipid: n >> 2 },
    payload: Uint8Array.from({ length: 20 }, (_, i) => (n * 31 + i * i * 7 + (n >> 8)) & 255),
  }));
  writePcap(before, sent);
  const arrived = sent.filter((_, n) => n % 20 !== 3);
  writePcap(
    after,
    arrived.map((p, n) => ({ ...p, timeNs: p.timeNs + 300_000n + BigInt((n * 7919) % 500_000) })),
  );
  const directory = join(root, "packets");
  const cut = { mode: "aligned", lengthNs: SECOND_NS } as const;
  await observePoint({
    ...{ files: [after], sender: { files: [before], windowNs: 1e9 }, point: "Q", directory, cut },
    ...{ estimators: ["maple"], parameters: { maple: "k=16,check=6,identity=both,index=true" } },
  });
  for (const [point, file] of [
    ["P", before],
    ["Q", after],
  ] as const)
    await observePoint({ files: [file], point, directory, estimators: ["lda", "colate"], cut });
  const archive = RecordArchive.open(directory);
  const records = archive.list().entries.map((entry) => archive.readRecord(entry));
  archive.close();
  return records;
}

/** As a tap sends them: parts of packet records can be read in place. */
const encoded = (record: EpochRecord) => encodeRecord(record, { raw: record.estimator === "maple" });

async function start(name: string, more: object, args: readonly string[] = []): Promise<CollectProcess> {
  const file = join(root, `${name}.yaml`);
  const paths = [{ name: "web", points: PATH, estimator: "lda" }];
  writeFileSync(file, JSON.stringify({ paths, incidents: { settle: 20 }, ...more }));
  return await startCollect(join(root, name), ["--config", file, ...args]);
}

describe.skipIf(why)("a cluster", () => {
  beforeAll(async () => {
    Object.assign(process.env, OBJECT_KEYS);
    mkdirSync(join(root, "nats"));
    [servers, clickhouse, objects] = await Promise.all([
      NatsServers.start(join(root, "nats"), 1),
      ClickhouseServer.start(),
      ObjectServer.start("records"),
    ]);
    await untilReady(servers);
    alone = await start("alone", {});
    for (const name of ["w0", "w1"]) {
      const nats = { url: servers.url, group: "questions", lease: "3s", partitions: PARTITIONS };
      const store = ["--records", "s3://records/of/cluster", "--s3-endpoint", objects.endpoint];
      const results = { clickhouse: { url: `${clickhouse.origin}/hoptime` } };
      workers.push(await start(name, { nats, ...results }, store));
    }
    expect(partitionOf("B", PARTITIONS)).not.toBe(partitionOf("C", PARTITIONS));
    const records = [...(await ofPath()), ...(await ofPackets())];
    const sink = await NatsSink.open({
      url: servers.url,
      spoolDirectory: join(root, "spool"),
      stopMs: 60_000,
    });
    for (let at = 0; at < records.length; at += 200) {
      const part = records.slice(at, at + 200);
      for (const record of part) await sink.put(record, { raw: record.estimator === "maple" });
      const body = new Uint8Array(Buffer.concat(part.flatMap((r) => frameRecord(encoded(r)))));
      const headers = { "content-type": BATCH_TYPE };
      expect((await fetch(`${alone.url}/v1/records`, { method: "POST", headers, body })).status).toBe(200);
    }
    await sink.close();
    expect(sink.counts).toMatchObject({ sent: records.length, waiting: 0, refused: 0 });
  }, 300_000);

  afterAll(async () => {
    for (const process of [...workers, alone]) await process?.stop("kill");
    await servers?.stop();
    await clickhouse?.close();
    await objects?.close();
    rmSync(root, { recursive: true, force: true });
  });

  const plain = (text: string) => [...workers, alone].reduce((t, { url }) => t.replaceAll(url, "URL"), text);

  /** Returns one collector's answer when both workers give it too; which minutes exist yet depends on timing. */
  async function same(ask: (url: string) => Promise<string>, name: string): Promise<string> {
    for (let i = 0; ; i++) {
      const [expected = "", ...others] = await Promise.all(
        [alone, ...workers].map(async ({ url }) => plain(await ask(url))),
      );
      if (others.every((answer) => answer === expected)) return expected;
      if (i < 60) await sleep(500);
      else for (const answer of others) expect(answer, name).toBe(expected);
    }
  }
  const get = async (url: string, path: string, body?: object) => {
    const headers = { "content-type": "application/json" };
    const post = body && { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, post);
    return `${response.status} ${await response.text()}`;
  };

  it("answers every question of the API as one collector", async () => {
    const [ab, bc] = ["from=A&to=B&label=A:B", "from=B&to=C&label=B:C"];
    const until = await same((url) => get(url, `/v1/latency?${bc}&estimator=lda&limit=1000`), "rows");
    expect(JSON.parse(until.slice(4)).points.length).toBeGreaterThanOrEqual(25);
    const flow = encodeURIComponent(
      JSON.parse((await get(alone.url, `/v1/flows?${ab}&top=1`)).slice(4)).flows[0].flow,
    );
    for (const path of [
      ...["/v1/segments", "/v1/overview", "/v1/coverage", "/v1/paths", "/v1/incidents", "/v1/plan"],
      ...["", "?state=open", "?state=closed"].map((q) => `/v1/incidents${q}`),
      "/v1/alerts",
      ...["lda", "lds"].flatMap((e) =>
        ["", "10s", "1m", "1h"].map((s) => `/v1/latency?${ab}&estimator=${e}${s && `&step=${s}`}`),
      ),
      ...[ab, bc].flatMap((s) =>
        ["", "&group=host", "&group=prefix/24"].map((g) => `/v1/flows?${s}&top=5${g}`),
      ),
      ...[`/v1/flow?${ab}&flow=${flow}`, `/v1/flow/segments?flow=${flow}`, "/v1/packets/settings?point=Q"],
    ])
      expect((await same((url) => get(url, path), path)).slice(0, 4), path).toBe("200 ");
    for (const [path, body] of [
      ["/v1/query", { between: ["A", "B"] }],
      ["/v1/query", { between: ["B", "C"], top: 5, group: "host" }],
      ["/v1/query", { between: ["P", "Q"], top: 4 }],
      ["/v1/localise", { path: PATH, estimator: "lda" }],
      ["/v1/packets", { point: "Q", digests: ["5be0cd19137e2179"] }],
    ] as const)
      expect((await same((url) => get(url, path, body), path)).slice(0, 4), path).toBe("200 ");
    const incidents = await get(workers[1]?.url ?? "", "/v1/incidents");
    expect(JSON.parse(incidents.slice(4)).incidents).toMatchObject([
      { segment: { from: "B", to: "C" }, kind: "delay", flowCount: 12 },
    ]);
    const points = await same(async (url) => {
      const { points } = JSON.parse((await get(url, "/v1/points")).slice(4)) as {
        points: { name: string }[];
      };
      return JSON.stringify(points.map((p) => p.name));
    }, "points");
    expect(JSON.parse(points)).toEqual(["A", "B", "C", "P", "Q"]);
  }, 300_000);

  it("answers every question of the command line as one collector", async () => {
    for (const args of CLI) {
      const [command = "", ...more] = args;
      const text = await same((url) => runHoptime([command, url, ...more]), args.join(" "));
      expect(text, args.join(" ")).not.toBe("");
    }
  }, 300_000);

  it("answers about packets whose records only the object store has, and the store alone does", async () => {
    const ask = (place: string) => runHoptime(["query", place, "--capture", before, "--json"]);
    const expected = plain(await ask(alone.url));
    expect(JSON.parse(expected).packets).toBe(2000);
    for (const [i, { url }] of workers.entries()) {
      rmSync(join(root, `w${i}`, "records", "Q"), { recursive: true, force: true });
      expect(plain(await ask(url))).toBe(expected);
    }
  }, 120_000);

  it("exports the rows of one collector", async () => {
    await alone.stop();
    const rows = async (name: string, from: readonly string[], table: string) => {
      const file = join(root, `${name}-${table}.csv`);
      await runHoptime(["export", ...from, "--csv", file, "--table", table]);
      return readFileSync(file, "utf8");
    };
    for (const table of ["segments", "flows"]) {
      const expected = await rows("alone", ["--data", join(root, "alone")], table);
      expect(expected.split("\n").length).toBeGreaterThan(2 * EPOCHS);
      expect(await rows("cluster", ["--clickhouse", `${clickhouse.origin}/hoptime`], table)).toBe(expected);
    }
  }, 120_000);
});

const CLI = [
  ["query", "--list", "incidents", "--json"],
  ["query", "--list", "paths"],
  ["query", "--between", "A", "B", "--series"],
  ["query", "--between", "B", "C", "--top", "5", "--sort", "delay", "--json"],
  ["query", "--between", "P", "Q", "--flow", FLOW, "--json"],
  ["query", "--capture", before, "--json"],
  ["query", "--capture", before, "--group", "subflow/100"],
  ["query", "--flow", FLOW, "--ipid", "10-50", "--json"],
  ["query", "--group", "all", "--json"],
  ["localise", "--path", PATH.join(","), "--estimator", "lda", "--json"],
];
