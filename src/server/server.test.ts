/** A collector through its real HTTP server: what it accepts, whom it admits, what it answers. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  message,
  type ObservedRecords,
  observedRecords,
  POINTS,
} from "../../tests/support/collector-records.ts";
import { RecordArchive } from "../archive/archive.ts";
import { UsageError } from "../base/errors.ts";
import { geometryFingerprint } from "../epoch/compatible.ts";
import type { EpochRecord } from "../epoch/record.ts";
import type { Answer } from "../query/segment/answer.ts";
import { askArchive } from "../query/segment/ask.ts";
import { BATCH_TYPE } from "../transport/batch.ts";
import type { TlsFiles } from "./app.ts";
import { askCollector } from "./client.ts";
import type { IngestResult } from "./ingest.ts";
import { ClientLimits } from "./limits.ts";
import { type RunningServer, type ServerOptions, startServer } from "./server.ts";
import { TokenStore, tokenFile } from "./tokens.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-server-"));
const running: RunningServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.close();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
let observed: ObservedRecords;
beforeAll(async () => {
  observed = await observedRecords(["lda", "flows"]);
});

let number = 0;
const fresh = () => join(root, `data-${number++}`);

async function start(change: Partial<ServerOptions> = {}): Promise<RunningServer & { data: string }> {
  const data = change.data ?? fresh();
  const server = await startServer({ data, listen: "127.0.0.1:0", ...change });
  running.push(server);
  return { ...server, data };
}

async function post(url: string, body: Uint8Array, headers: Record<string, string> = {}) {
  const response = await fetch(`${url}/v1/records`, {
    method: "POST",
    headers: { "content-type": BATCH_TYPE, ...headers },
    body: new Uint8Array(body),
  });
  const json = (await response.json()) as { results?: IngestResult[]; error?: string; message?: string };
  return { status: response.status, ...json };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const resealed = (record: EpochRecord, change: Partial<EpochRecord>): EpochRecord => {
  const changed = { ...record, ...change };
  return { ...changed, fingerprint: geometryFingerprint(changed) };
};

describe("records", () => {
  it("are in the archive once they are acknowledged, as they were sent; sent again they change nothing", async () => {
    const { url, data } = await start();
    const body = message(observed.records);
    const first = await post(url, body);
    expect(first.status).toBe(200);
    expect(first.results?.every((r) => r.outcome === "stored")).toBe(true);
    const archive = RecordArchive.open(join(data, "records"));
    const stored = archive.list().entries.map((e) => archive.readRecord(e));
    expect(stored).toHaveLength(observed.records.length);
    const again = await post(url, gzipSync(body), { "content-encoding": "gzip" });
    expect(again.results?.every((r) => r.outcome === "unchanged")).toBe(true);
    expect(archive.list().entries).toHaveLength(stored.length);
  });

  it("that are wrong are refused by name, each for itself", async () => {
    const { url } = await start();
    const [good, other] = observed.records;
    if (!good || !other) throw new Error("no records");
    const damaged = message([good]);
    damaged[60] = (damaged[60] ?? 0) ^ 1;
    const future = { ...good.epoch, startNs: 4_000_000_000_000_000_000n, endNs: 4_000_000_001_000_000_000n };
    const bad = [
      resealed(good, { estimator: "nobody" }),
      resealed(good, { payloadVersion: 99 }),
      resealed(good, { parameters: "banks=1e9" }),
      resealed(good, { key: "nonsense" }),
      resealed(good, { epoch: future }),
      resealed(good, { epoch: { ...good.epoch, endNs: good.epoch.startNs } }),
      { ...good, fingerprint: 1n },
      resealed(good, { filter: "x".repeat(5000) }),
      resealed(good, { point: "x".repeat(65) }),
    ];
    const { status, results = [] } = await post(url, Buffer.concat([damaged, message([...bad, other])]));
    expect(status).toBe(200);
    const reasons = results.map((r) => r.reason ?? r.outcome);
    const expected = [
      /damaged/,
      /'nobody'/,
      /version 99/,
      /banks/,
      /key|field/,
      /clock of the point/,
      /epoch from/,
      /fingerprint/,
      /filter/,
      /point/,
      /^stored$/,
    ];
    expect(reasons).toHaveLength(expected.length);
    for (const [i, pattern] of expected.entries()) expect(reasons[i]).toMatch(pattern);
  });

  it("of a message that is cut: the whole ones count", async () => {
    const { url } = await start();
    const body = message(observed.records.slice(0, 3));
    const got = (await post(url, body.subarray(0, body.length - 3))) as {
      results?: IngestResult[];
      cut?: string;
    };
    expect(got.results).toHaveLength(2);
    expect(got.cut).toContain("the message is cut");
    expect(await post(url, body.subarray(0, 10))).toMatchObject({ status: 400, error: "bad-message" });
  });

  it("wait outside where a message is too large, unpacks to too much, or is not one", async () => {
    const { url } = await start();
    const bomb = gzipSync(Buffer.alloc(80 << 20));
    expect(await post(url, bomb, { "content-encoding": "gzip" })).toMatchObject({ status: 413 });
    expect(await post(url, Buffer.from("junk"), { "content-encoding": "gzip" })).toMatchObject({
      status: 400,
    });
    expect(await post(url, Buffer.from("junk"), { "content-encoding": "br" })).toMatchObject({ status: 415 });
    expect(await post(url, Buffer.from("{}"), { "content-type": "application/json" })).toMatchObject({
      status: 415,
    });
  });
});

describe("answers", () => {
  it("are those of the archive, word by word, and refusals carry the library's fields", async () => {
    const { url, data } = await start();
    await post(url, message(observed.records));
    const question = { between: [POINTS.from, POINTS.to], top: 3 };
    const reply = await askCollector<Answer>({ url }, { method: "POST", path: "/v1/query", json: question });
    const own = askArchive(RecordArchive.open(join(data, "records")), {
      between: [POINTS.from, POINTS.to],
      top: 3,
    });
    expect(reply).toEqual(JSON.parse(JSON.stringify(own)));
    const wrong = askCollector(
      { url },
      { method: "POST", path: "/v1/query", json: { ...question, parameters: { lda: "banks=7" } } },
    );
    await expect(wrong).rejects.toMatchObject({
      name: "UsageError",
      code: "bad-parameter",
      parameter: "lda",
    });
    const missing = askCollector(
      { url },
      { method: "POST", path: "/v1/query", json: { between: ["X", POINTS.to] } },
    );
    await expect(missing).rejects.toThrow("no records of point 'X'");
    const misspelt = askCollector(
      { url },
      { method: "POST", path: "/v1/query", json: { ...question, tpo: 3 } },
    );
    await expect(misspelt).rejects.toThrow("tpo: no such field");
  });

  it("name who is not there", async () => {
    const asked = askCollector({ url: "http://127.0.0.1:9" }, { method: "GET", path: "/v1/points" });
    await expect(asked).rejects.toThrow("http://127.0.0.1:9");
  });

  it("describe themselves: every route is in openapi.json, and none other", async () => {
    const { url } = await start();
    const { paths } = (await (await fetch(`${url}/docs/openapi.json`)).json()) as {
      paths: Record<string, object>;
    };
    expect(Object.keys(paths)).toContain("/v1/records");
    const page = await (await fetch(`${url}/docs`)).text();
    for (const path of Object.keys(paths)) expect(page).toContain(path);
    for (const [path, methods] of Object.entries(paths))
      for (const method of Object.keys(methods)) {
        const response = await fetch(url + path, {
          method: method.toUpperCase(),
          ...(method === "get" ? {} : { body: "x" }),
        });
        // Some routes have no data yet.
        const told = response.status === 404 ? ((await response.json()) as { error: string }).error : "";
        expect(told, `${method} ${path}`).not.toBe("not-found");
        if (!response.bodyUsed) await response.body?.cancel();
      }
  });
});

describe("results", () => {
  it("come over HTTP: segments, latency over time, flows, and what is new as it comes", async () => {
    const { url, service } = await start({ segments: [{ ...POINTS, label: "" }], tickMs: 50 });
    const stop = new AbortController();
    const listened = await fetch(`${url}/v1/events`, { signal: stop.signal });
    expect(listened.headers.get("content-type")).toContain("text/event-stream");
    await post(url, message(observed.records));
    let text = "";
    for await (const part of listened.body ?? []) {
      text += Buffer.from(part).toString();
      if (text.includes("event: epoch")) break;
    }
    const [, data = "{}"] = /event: epoch\ndata: (.*)\n/.exec(text) ?? [];
    expect(JSON.parse(data)).toMatchObject({ from: POINTS.from, to: POINTS.to, estimator: "lda" });
    stop.abort();
    await service.settle();
    const get = async (path: string) => {
      const response = await fetch(url + path);
      return { status: response.status, json: (await response.json()) as Record<string, unknown> };
    };
    const { json } = await get("/v1/segments");
    expect(json["segments"]).toMatchObject([{ ...POINTS, label: "", estimators: ["lda"] }]);
    const pair = `from=${POINTS.from}&to=${POINTS.to}`;
    const latency = await get(`/v1/latency?${pair}&step=2s&limit=2`);
    expect(latency.json["points"]).toHaveLength(2);
    expect(latency.json["next"]).not.toBeNull();
    const more = await get(`/v1/latency?${pair}&step=2s&cursor=${latency.json["next"]}`);
    expect((more.json["points"] as unknown[]).length).toBeGreaterThan(0);
    for (const [path, status, word] of [
      [`/v1/latency?from=X&to=Y`, 404, "no results of X → Y"],
      [`/v1/latency?${pair}&step=soon`, 400, "not a duration"],
      [`/v1/latency?${pair}&limit=0`, 400, "limit"],
      [`/v1/latency?${pair}&colour=red`, 400, "unknown parameter 'colour'"],
      [`/v1/latency?from=X`, 400, "to: missing"],
      [`/v1/latency?${pair}&estimator=maple`, 404, "no results of estimator 'maple'"],
      [`/v1/flow?${pair}&flow=tcp`, 404, "not among the largest flows"],
    ] as const) {
      const got = await get(path);
      expect(got.status, path).toBe(status);
      expect(got.json["message"]).toContain(word);
    }
  });
});

it("has metrics: base units, every line well formed, segments and points but no flows", async () => {
  const { url, service } = await start({ segments: [{ ...POINTS, label: "" }] });
  await post(url, message(observed.records));
  await service.settle();
  const text = await (await fetch(`${url}/metrics`)).text();
  for (const row of text.trim().split("\n"))
    expect(row).toMatch(/^(# (HELP|TYPE) \S+ .+|[a-z_]+(\{([a-z]+="[^"]*",?)*\})? -?[\d.e+-]+)$/);
  expect(text).toContain(`hoptime_records_total{outcome="stored"} ${observed.records.length}`);
  const delay = new RegExp(
    `hoptime_segment_delay_seconds\\{from="${POINTS.from}",to="${POINTS.to}",label="",estimator="lda"\\} ([\\d.e-]+)`,
  ).exec(text);
  expect(Number(delay?.[1])).toBeGreaterThan(0.0001);
  expect(Number(delay?.[1])).toBeLessThan(0.0003);
  expect(text).toContain('hoptime_http_requests_total{route="/v1/records",status="2xx"} 1');
  expect(text).not.toMatch(/10\.\d+\.\d+\.\d+/);
});

describe("access", () => {
  async function withTokens() {
    const data = fresh();
    const { url } = await start({ data });
    const tokens = new TokenStore(tokenFile(data));
    const make = async (scope: "ingest" | "read" | "admin", point?: string) =>
      (await tokens.add("", scope, ...(point === undefined ? [] : [point]))).token;
    const made = {
      a: await make("ingest", POINTS.from),
      b: await make("ingest", POINTS.to),
      read: await make("read"),
      admin: await make("admin"),
    };
    await new Promise((resolve) => setTimeout(resolve, 1100));
    return { url, data, tokens, ...made };
  }

  it("a token opens its scope, for its point, and nothing else; tokens are hashed on disk", async () => {
    const { url, data, a, read, admin } = await withTokens();
    const body = message(observed.of(POINTS.from).slice(0, 1));
    const foreign = message(observed.of(POINTS.to).slice(0, 1));
    expect(await post(url, body)).toMatchObject({ status: 401, error: "no-token" });
    expect(await post(url, body, bearer("hop_nobody"))).toMatchObject({ status: 401, error: "bad-token" });
    expect(await post(url, body, bearer(`${a.slice(0, -1)}${a.endsWith("A") ? "B" : "A"}`))).toMatchObject({
      status: 401,
    });
    expect(await post(url, body, bearer(read))).toMatchObject({ status: 403, error: "wrong-scope" });
    expect(await post(url, body, bearer(a))).toMatchObject({ status: 200, results: [{ outcome: "stored" }] });
    const other = await post(url, foreign, bearer(a));
    expect(other.results?.[0]).toMatchObject({ outcome: "refused" });
    expect(other.results?.[0]?.reason).toContain(`the token is for '${POINTS.from}'`);
    expect(await post(url, foreign, bearer(admin))).toMatchObject({ results: [{ outcome: "stored" }] });
    expect((await fetch(`${url}/v1/points`, { headers: bearer(a) })).status).toBe(403);
    expect((await fetch(`${url}/v1/points`, { headers: bearer(read) })).status).toBe(200);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const text = readFileSync(tokenFile(data), "utf8");
    for (const token of [a, read, admin]) expect(text).not.toContain(token.slice(17));
    expect(statSync(tokenFile(data)).mode & 0o077).toBe(0);
  });

  it("of a tap on several interfaces a token is for several points, and for no other", async () => {
    const { url, tokens, data } = await withTokens();
    const { token } = await tokens.add("router", "ingest", POINTS.from, POINTS.to);
    const { token: elsewhere } = await tokens.add("elsewhere", "ingest", "C", "D");
    await new Promise((resolve) => setTimeout(resolve, 1100));
    const body = message([...observed.of(POINTS.from).slice(0, 1), ...observed.of(POINTS.to).slice(0, 1)]);
    const refused = await post(url, body, bearer(elsewhere));
    expect(refused.results?.map((r) => r.outcome)).toEqual(["refused", "refused"]);
    expect(refused.results?.[0]?.reason).toContain("the token is for 'C', 'D'");
    expect(await post(url, body, bearer(token))).toMatchObject({
      results: [{ outcome: "stored" }, { outcome: "stored" }],
    });
    expect(new TokenStore(tokenFile(data)).list().map((t) => t.points)).toContainEqual([
      POINTS.from,
      POINTS.to,
    ]);
  });

  it("ends with the token", async () => {
    const { url, tokens, read } = await withTokens();
    expect((await fetch(`${url}/v1/points`, { headers: bearer(read) })).status).toBe(200);
    await tokens.revoke(read.split("_")[1] ?? "");
    await new Promise((resolve) => setTimeout(resolve, 1100));
    expect((await fetch(`${url}/v1/points`, { headers: bearer(read) })).status).toBe(401);
  });

  it("without tokens it is for this host, by its name: a page's own name for it does not do", async () => {
    const { url } = await start();
    const ask = (host: string) =>
      new Promise<number>((resolve, reject) => {
        const asked = request(`${url}/v1/points`, { headers: { host } }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        });
        asked.on("error", reject);
        asked.end();
      });
    expect(await ask("localhost:1234")).toBe(200);
    expect(await ask("evil.example")).toBe(421);
  });

  it("from other hosts needs TLS or a word, and tokens", async () => {
    await expect(start({ listen: "0.0.0.0:0" })).rejects.toThrow(
      "can be reached from other hosts, and tokens would cross",
    );
    await expect(start({ listen: "0.0.0.0:0", insecure: true })).rejects.toThrow("there are no tokens");
    await expect(start({ listen: "nowhere" })).rejects.toThrow("listen: invalid value 'nowhere'");
    const data = fresh();
    const first = await start({ data });
    await new TokenStore(tokenFile(data)).add("", "read");
    await first.close();
    running.length = 0;
    const { url } = await start({ data, listen: "0.0.0.0:0", insecure: true });
    expect(url).toMatch(/^http:/);
  });

  it("speaks TLS, and asks for the client's certificate where configured", async () => {
    const folder = mkdtempSync(join(root, "tls-"));
    const made = (name: string) => {
      const args = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
      ];
      execFileSync(
        "openssl",
        [
          ...args,
          "-subj",
          `/CN=${name}`,
          "-addext",
          "subjectAltName=IP:127.0.0.1",
          "-keyout",
          join(folder, `${name}.key`),
          "-out",
          join(folder, `${name}.pem`),
        ],
        { stdio: "ignore" },
      );
      return {
        certificate: readFileSync(join(folder, `${name}.pem`), "utf8"),
        key: readFileSync(join(folder, `${name}.key`), "utf8"),
      };
    };
    const [own, client] = [made("collector"), made("client")];
    const { url } = await start({ tls: { ...own, clientCa: client.certificate } });
    expect(url).toMatch(/^https:/);
    const asked = { method: "GET", path: "/v1/points" } as const;
    const known = await askCollector({ url, ca: own.certificate, ...client }, asked);
    expect(known).toEqual({ points: [] });
    await expect(askCollector({ url, ca: own.certificate }, asked)).rejects.toThrow(url);
    await expect(askCollector({ url, ...client }, asked)).rejects.toThrow(/self.signed/);
    const refused = async (tls: TlsFiles) => {
      const error: unknown = await start({ tls }).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(UsageError);
      return (error as UsageError).message;
    };
    const file = "neither";
    expect(await refused({ ...own, key: client.key })).toBe("tls-key: does not belong to the certificate");
    expect(await refused({ ...own, certificate: file })).toBe("tls-cert: no certificate in PEM");
    expect(await refused({ ...own, key: file })).toContain("tls-key: no private key in PEM");
    expect(await refused({ ...own, clientCa: file })).toBe("client-ca: no certificate in PEM");
  });

  it("sends the headers that keep a browser from being used against it", async () => {
    const { url } = await start();
    const { headers } = await fetch(`${url}/docs`);
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("access-control-allow-origin")).toBeNull();
    expect(headers.get("x-powered-by")).toBeNull();
  });

  it("has limits per client: one that asks too much waits, others do not", async () => {
    const { url } = await start({ limits: { requests: 1, burst: 3, bytes: 1e9, burstBytes: 1e9 } });
    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await fetch(`${url}/v1/points`)).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    let now = 0;
    const limits = new ClientLimits({ requests: 1, burst: 2, bytes: 10, burstBytes: 100 }, () => now);
    const ok = (client: string, bytes: number) => {
      try {
        limits.take(client, bytes);
        return true;
      } catch {
        return false;
      }
    };
    expect([ok("a", 100), ok("a", 1), ok("b", 1)]).toEqual([true, false, true]);
    now = 10_000;
    expect(ok("a", 90)).toBe(true);
  });
});

it("two collectors do not share a directory, and the second says so", async () => {
  const { data } = await start();
  await expect(start({ data })).rejects.toThrow(`${data}: another collector is using it`);
});
