/** From records over HTTP to incidents, alerts, webhooks, coverage and metrics; and the same after a restart. */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TSchema } from "typebox";
import { Check } from "typebox/schema";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { message, observedRecords, POINTS } from "../../tests/support/collector-records.ts";
import { earlier } from "../base/time.ts";
import type { EpochRecord } from "../epoch/record.ts";
import type { Alert } from "./alerts/alert.ts";
import { Alerts } from "./alerts/alerts.ts";
import { Webhook } from "./alerts/webhook.ts";
import { serverOptions } from "./config/collector-options.ts";
import { parseConfig } from "./config/read-config.ts";
import type { IncidentJson } from "./monitor/incident-json.ts";
import { ALERTS_ANSWER, COVERAGE_ANSWER, INCIDENTS_ANSWER, PATHS_ANSWER } from "./routes/network.ts";
import { type RunningServer, startServer } from "./server.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-network-"));
const running: RunningServer[] = [];
const hooks: Server[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
  for (const hook of hooks.splice(0)) hook.close();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** 40 quiet seconds, 12 slow ones, 30 quiet ones. */
let records: EpochRecord[] = [];
const SLOW = { first: 40, seconds: 12, moreNs: 5_000_000 };
beforeAll(async () => {
  const estimators = ["lda", "lds:rows=2,columns=512", "flows"];
  const parts = [
    { at: 0, seconds: SLOW.first, spike: 0 },
    { at: SLOW.first, seconds: SLOW.seconds, spike: SLOW.moreNs },
    { at: SLOW.first + SLOW.seconds, seconds: 30, spike: 0 },
  ];
  for (const { at, seconds, spike } of parts) {
    const { records: made } = await observedRecords(estimators, {
      seconds: seconds + 1,
      ratePps: 300,
      spike,
      seed: 7,
    });
    const firstNs = made.map((r) => r.epoch.startNs).reduce(earlier);
    const endNs = firstNs + BigInt(seconds) * 1_000_000_000n;
    records.push(...made.filter((r) => r.epoch.startNs < endNs).map((r) => moved(r, at)));
  }
  records = records.sort((a, b) => (a.epoch.startNs < b.epoch.startNs ? -1 : 1));
});

function moved(record: EpochRecord, seconds: number): EpochRecord {
  const by = BigInt(seconds) * 1_000_000_000n;
  const { startNs, endNs, referenceNs } = record.epoch;
  const epoch = { ...record.epoch, startNs: startNs + by, endNs: endNs + by, referenceNs: referenceNs + by };
  return { ...record, epoch };
}

async function hook(answer: (request: IncomingMessage, n: number) => number) {
  const bodies: { change: string; name: string; summary: string; authorization: string | undefined }[] = [];
  let n = 0;
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (d: Buffer) => {
      text += d.toString();
    });
    request.on("end", () => {
      const status = answer(request, n++);
      if (status === 200)
        bodies.push({
          ...(JSON.parse(text) as (typeof bodies)[number]),
          authorization: request.headers.authorization,
        });
      response.writeHead(status).end();
    });
  });
  hooks.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    bodies,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    requests: () => n,
  };
}

async function start(config: string, log: string[] = []): Promise<RunningServer> {
  const options = serverOptions(parseConfig(config, "hoptime.yaml"));
  const server = await startServer({
    ...options,
    listen: "127.0.0.1:0",
    tickMs: 1e9,
    // The simulated epochs lie in the past.
    now: () => records.at(-1)?.epoch.endNs ?? 0n,
    onLog: (text) => log.push(text),
  });
  running.push(server);
  return server;
}

async function send(server: RunningServer, some: readonly EpochRecord[]): Promise<void> {
  for (let at = 0; at < some.length; at += 60) {
    await server.service.ingest(message(some.slice(at, at + 60)), null, null);
    await server.service.settle();
  }
}

async function ask<T>(server: RunningServer, path: string, schema?: TSchema): Promise<T> {
  const response = await fetch(server.url + path);
  const body = (await response.json()) as T;
  expect(response.status, JSON.stringify(body)).toBe(200);
  if (schema) expect(Check(schema, body), `${path}: ${JSON.stringify(body).slice(0, 500)}`).toBe(true);
  return body;
}

const config = (data: string, url: string, more = "") => `
data: ${join(root, data)}
lateness: 2s
incidents: {settle: 20}
paths:
  - {name: way, points: [${POINTS.from}, ${POINTS.to}]}
notify:
  - {name: ops, webhook: "${url}", tokenFile: ${join(root, "token")}, retries: 2}
alerts:
  - {name: slow, when: mean > 2ms, for: 3s, clearAfter: 5s, to: [ops]}
  - {name: blame, when: incident, to: [ops]}
  - {name: never, when: loss > 50%, to: [ops]}
${more}`;

const SECRET = "very-secret-token";
writeFileSync(join(root, "token"), `${SECRET}\n`);

describe("a network", () => {
  it("has incidents with evidence and alerts that are told once, which survive a restart", async () => {
    const ops = await hook((_, n) => (n === 0 ? 503 : 200));
    const log: string[] = [];
    const text = config("restart", ops.url);
    const first = await start(text, log);
    const openNs = records[0]?.epoch.startNs ?? 0n;
    const at = (seconds: number) => openNs + BigInt(seconds) * 1_000_000_000n;
    const before = records.filter((r) => r.epoch.startNs < at(SLOW.first + 8));
    await send(first, before);
    const { incidents } = await ask<{ incidents: IncidentJson[] }>(first, "/v1/incidents", INCIDENTS_ANSWER);
    expect(incidents).toHaveLength(1);
    const [incident] = incidents;
    expect(incident).toMatchObject({
      ...{ kind: "delay", state: "open", paths: ["way"], startNs: `${at(SLOW.first)}`, closedNs: null },
      segment: { from: POINTS.from, to: POINTS.to },
    });
    expect(incident?.baseline).toBeGreaterThan(100_000);
    expect(incident?.baseline).toBeLessThan(300_000);
    expect(incident?.peak).toBeGreaterThan(SLOW.moreNs);
    expect(incident?.share).toBeCloseTo(1);
    // For flows seen before the incident, their earlier delay is shown as well.
    expect(incident?.flows.length).toBeGreaterThan(3);
    for (const flow of incident?.flows ?? []) {
      expect(flow.latency?.meanNs).toBeGreaterThan(SLOW.moreNs);
      expect(flow.before?.meanNs).toBeLessThan(1e6);
    }
    const { paths } = await ask<{ paths: { incidents: string[]; latency: { meanNs: number } }[] }>(
      first,
      "/v1/paths",
      PATHS_ANSWER,
    );
    expect(paths[0]?.incidents).toEqual([incident?.id]);
    expect(paths[0]?.latency.meanNs).toBeGreaterThan(SLOW.moreNs);
    const { alerts } = await ask<{ alerts: Alert[] }>(first, "/v1/alerts?state=open", ALERTS_ANSWER);
    expect(alerts.map((a) => a.name).sort()).toEqual(["blame", "slow"]);
    const metrics = await (await fetch(`${first.url}/metrics`)).text();
    expect(metrics).toContain('hoptime_alerts_active{alert="slow"} 1');
    expect(metrics).toContain('hoptime_alerts_active{alert="never"} 0');
    expect(metrics).toMatch(
      /hoptime_segment_blamed\{.*kind="delay"\} 0\.99|hoptime_segment_blamed\{.*kind="delay"\} 1/,
    );
    // Killed and restarted: no event is sent twice.
    running.splice(0);
    await first.service.abandon();
    const second = await start(text, log);
    expect(second.network.open.map((i) => i.id)).toEqual([incident?.id]);
    expect(second.alerts.active.map((a) => a.name).sort()).toEqual(["blame", "slow"]);
    await send(second, records.slice(before.length));
    const after = await ask<{ incidents: IncidentJson[] }>(second, "/v1/incidents", INCIDENTS_ANSWER);
    expect(after.incidents).toHaveLength(1);
    expect(after.incidents[0]).toMatchObject({
      ...{ id: incident?.id, state: "closed", ended: "ordinary" },
      endNs: `${at(SLOW.first + SLOW.seconds)}`,
    });
    expect((await ask<{ alerts: Alert[] }>(second, "/v1/alerts?state=open")).alerts).toEqual([]);
    const ended = await ask<{ alerts: Alert[] }>(second, "/v1/alerts?state=closed", ALERTS_ANSWER);
    expect(ended.alerts).toHaveLength(2);
    expect(ended.alerts.find((a) => a.name === "slow")?.worst).toBeGreaterThan(SLOW.moreNs);
    await second.alerts.close();
    // Old rows arrive again after a restart: ended alerts stay ended.
    const { results, events } = second.service;
    const lda = { from: POINTS.from, to: POINTS.to, label: "", estimator: "lda" };
    const labels = (await results.segments()).map((s) => s.label);
    const third = await Alerts.open({
      ...{ results, events, settings: { rules: second.alerts.rules, notify: [] } },
      ...{ heard: () => new Map(), nowNs: () => at(0) },
    });
    for (const label of labels)
      await third.take(
        await results.segmentRows({ ...lda, label, fromNs: at(SLOW.first + 2), toNs: at(10_000) }, 0),
      );
    expect(third.counts.began).toBe(0);
    // The first attempt failed and was retried.
    expect(ops.bodies.map((b) => `${b.name} ${b.change}`).sort()).toEqual([
      ...["blame began", "blame ended", "slow began", "slow ended"],
    ]);
    expect(ops.bodies[0]?.authorization).toBe(`Bearer ${SECRET}`);
    expect(log.join("\n")).toContain("incident opened: delay of");
    expect(log.join("\n")).not.toContain(SECRET);
    await ask(second, "/v1/incidents?state=closed&limit=1", INCIDENTS_ANSWER);
    expect((await ask<{ incidents: [] }>(second, `/v1/incidents?since=${at(500)}`)).incidents).toEqual([]);
  });

  it("pages of what began at the same time lose none and repeat none, also while more begins", async () => {
    const server = await start(config("pages", "http://127.0.0.1:9/"));
    const { alerts } = server.service.results;
    const write = (id: string, startNs: bigint) =>
      alerts.write({ id, startNs, closedNs: null, body: JSON.stringify({ id }) });
    const names = ["a b/c", "b", "c'd", "d", "e"];
    for (const name of names) await write(name, 5_000n);
    await write("older", 4_000n);
    type Answer = { alerts: { id: string }[]; next: string | null };
    const seen: string[] = [];
    for (let cursor: string | null = ""; cursor !== null && seen.length < 20; ) {
      const at = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page: Answer = await ask<Answer>(server, `/v1/alerts?limit=2${at}`);
      seen.push(...page.alerts.map((a) => a.id));
      cursor = page.next;
      await write(`newer ${seen.length}`, 6_000n + BigInt(seen.length));
    }
    expect(seen).toEqual([...names, "older"]);
    const bad = await fetch(`${server.url}/v1/alerts?cursor=yesterday`);
    expect([bad.status, await bad.text()]).toEqual([400, expect.stringContaining("cursor: invalid value")]);
  });

  it("counts what came, twice, late, and not at all", async () => {
    const server = await start(config("coverage", "http://127.0.0.1:9/"));
    const openNs = records[0]?.epoch.startNs ?? 0n;
    const seconds = (r: EpochRecord) => Number((r.epoch.startNs - openNs) / 1_000_000_000n);
    const lda = records.filter((r) => r.estimator === "lda" && seconds(r) < 30);
    // Two epochs of the receiver are missing, one of them arrives late; one message arrives twice.
    const isAbsent = (r: EpochRecord) => r.point === POINTS.to && (seconds(r) === 10 || seconds(r) === 20);
    await send(
      server,
      lda.filter((r) => !isAbsent(r)),
    );
    await send(
      server,
      lda.filter((r) => isAbsent(r) && seconds(r) === 10),
    );
    await send(
      server,
      lda.filter((r) => r.point === POINTS.from && seconds(r) < 3),
    );
    type Counted = {
      point: string;
      arrived: number;
      expected: number;
      missing: number;
      late: number;
      duplicate: number;
    };
    const { points, segments } = await ask<{
      points: Counted[];
      segments: { missing: number; missingTo: number; epochs: number; answered: number }[];
    }>(server, `/v1/coverage?since=${openNs}&until=${openNs + 30_000_000_000n}`, COVERAGE_ANSWER);
    const of = (point: string) => points.find((p) => p.point === point);
    expect(of(POINTS.from)).toMatchObject({ expected: 30, arrived: 30, missing: 0, late: 0, duplicate: 3 });
    expect(of(POINTS.to)).toMatchObject({ expected: 30, arrived: 29, missing: 1, late: 1, duplicate: 0 });
    expect(segments).toMatchObject([{ epochs: 30, missing: 1, missingTo: 1, answered: 29 }]);
  });

  it("changes with its settings while it runs", async () => {
    const server = await start(config("reload", "http://127.0.0.1:9/"));
    await send(
      server,
      records.filter((r) => r.estimator === "lda"),
    );
    const next = parseConfig(config("reload", "http://127.0.0.1:9/").replace("name: way", "name: road"), "f");
    await server.reload(serverOptions({ ...next, alerts: [{ name: "other", when: "mean > 1ns" }] }));
    const { paths } = await ask<{ paths: { name: string }[] }>(server, "/v1/paths", PATHS_ANSWER);
    expect(paths.map((p) => p.name)).toEqual(["road"]);
    const { rules } = await ask<{ rules: { name: string }[] }>(server, "/v1/alerts", ALERTS_ANSWER);
    expect(rules.map((r) => r.name)).toEqual(["other"]);
  });

  it("tells who heard of an alert that its rule is gone, and goes on with what a receiver has not taken yet", async () => {
    let isUp = false;
    const ops = await hook(() => (isUp ? 200 : 503));
    const text = config("gone", ops.url).replace("retries: 2", "retries: 20");
    const server = await start(text);
    const openNs = records[0]?.epoch.startNs ?? 0n;
    const untilNs = openNs + BigInt(SLOW.first + 8) * 1_000_000_000n;
    await send(
      server,
      records.filter((r) => r.epoch.startNs < untilNs),
    );
    const next = parseConfig(text, "f");
    await server.reload(serverOptions({ ...next, alerts: [{ name: "other", when: "mean > 1s" }] }));
    isUp = true;
    while (server.alerts.webhooks.some((w) => w.waiting > 0))
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect(ops.bodies.map((b) => `${b.name} ${b.change}`).sort()).toEqual([
      ...["blame began", "blame ended", "slow began", "slow ended"],
    ]);
  });

  it("describes its answers", async () => {
    const server = await start(config("docs", "http://127.0.0.1:9/"));
    const { paths } = await ask<{
      paths: Record<string, { get?: { responses: { 200: { content?: object } } } }>;
    }>(server, "/docs/openapi.json");
    for (const path of ["/v1/paths", "/v1/incidents", "/v1/coverage", "/v1/alerts"])
      expect(paths[path]?.get?.responses[200].content, path).toBeDefined();
  });
});

describe("a webhook", () => {
  it("gives up after its attempts, bounds its queue, and goes on", async () => {
    const dead = await hook((_, n) => (n < 3 ? 500 : 200));
    const log: string[] = [];
    const webhook = new Webhook({
      ...{ name: "x", url: dead.url, timeoutMs: 1000, retries: 2, pauseMs: 1 },
      onLog: (t) => log.push(t),
    });
    webhook.send({ n: 1 });
    for (let n = 2; n <= 1010; n++) webhook.send({ n });
    await webhook.close(20_000);
    expect(webhook.counts.failed).toBe(1);
    expect(webhook.counts.dropped).toBeGreaterThan(0);
    const { sent, dropped, failed } = webhook.counts;
    expect(sent + dropped + failed).toBe(1010);
    expect(log).toEqual(["webhook x: gave up one message: status 500"]);
  });

  it("waits no longer than its limit for an answer", async () => {
    const server = createServer(() => undefined);
    hooks.push(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const webhook = new Webhook({ name: "x", url, timeoutMs: 50, retries: 0 });
    webhook.send({});
    // If it waited for the close's grace period, the test would time out.
    await webhook.close(3_600_000);
    expect(webhook.counts).toMatchObject({ sent: 0, failed: 1 });
    server.closeAllConnections();
  });
});
