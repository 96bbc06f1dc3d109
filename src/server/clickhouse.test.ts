/** A collector with results in ClickHouse gives the same answers as one with DuckDB, while the ClickHouse server is killed and restarted. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CLICKHOUSE_SERVER, ClickhouseServer, NO_CLICKHOUSE } from "../../tests/support/clickhouse-server.ts";
import {
  message,
  type ObservedRecords,
  observedRecords,
  POINTS,
} from "../../tests/support/collector-records.ts";
import { ClickhouseStore } from "../results/clickhouse/store.ts";
import { BATCH_TYPE } from "../transport/batch.ts";
import { type RunningServer, startServer } from "./server.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-collect-clickhouse-"));
let clickhouse: ClickhouseServer;
let observed: ObservedRecords;
const running = new Set<RunningServer>();
beforeAll(async () => {
  if (CLICKHOUSE_SERVER === null) {
    console.warn(`skipped: ${NO_CLICKHOUSE}`);
    return;
  }
  clickhouse = await ClickhouseServer.start({ password: "o'pen \\ sesame" });
  observed = await observedRecords(["lda", "lds:rows=2,columns=256", "flows"], { seconds: 64, ratePps: 100 });
});
afterAll(async () => {
  for (const server of running) await server.close();
  await clickhouse?.close();
  rmSync(root, { recursive: true, force: true });
});

const SEGMENT = { ...POINTS, label: "" };
const password = "o'pen \\ sesame";
async function start(name: string, inClickhouse: boolean, database = "hoptime"): Promise<RunningServer> {
  const address = { origin: clickhouse?.origin, database, user: "default", password };
  const server = await startServer({
    ...{ data: join(root, name), listen: "127.0.0.1:0", segments: [SEGMENT], tickMs: 50 },
    ...(inClickhouse ? { openResults: () => ClickhouseStore.open(address) } : {}),
  });
  running.add(server);
  return server;
}

async function stop(server: RunningServer): Promise<void> {
  running.delete(server);
  await server.close();
}

async function post(url: string, body: Uint8Array): Promise<number> {
  const headers = { "content-type": BATCH_TYPE };
  const response = await fetch(`${url}/v1/records`, { method: "POST", headers, body: new Uint8Array(body) });
  return response.status;
}

async function get(url: string, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${url}${path}`);
  return { status: response.status, text: await response.text() };
}

const selection = `from=${POINTS.from}&to=${POINTS.to}`;
const QUESTIONS = [
  "/v1/segments",
  "/v1/overview",
  "/v1/coverage",
  ...["lda", "lds"].flatMap((e) =>
    ["", "&step=10s", "&step=1m", "&step=1h"].map((s) => `/v1/latency?${selection}&estimator=${e}${s}`),
  ),
  ...["", "&group=host"].map((g) => `/v1/flows?${selection}&top=5${g}`),
];

async function answers(server: RunningServer): Promise<Record<string, string>> {
  await server.service.settle();
  while ((await server.service.results.rollUp(1n << 61n)) > 0);
  const out: Record<string, string> = {};
  for (const path of QUESTIONS) {
    const { status, text } = await get(server.url, path);
    expect(status, `${path}: ${text}`).toBe(200);
    out[path] = text;
  }
  return out;
}

/** A roll-up of the service may be under way while it is asked: answers are compared again until it is done. */
async function expectSame(a: RunningServer, b: RunningServer, but = ""): Promise<void> {
  let different = QUESTIONS;
  for (let tries = 0; tries < 20 && different.length > 0; tries++) {
    if (tries > 0) await sleep(500);
    const [left, right] = [await answers(a), await answers(b)];
    different = QUESTIONS.filter((path) => path !== but && left[path] !== right[path]);
  }
  expect(different).toEqual([]);
}

describe.skipIf(CLICKHOUSE_SERVER === null)("a collector with ClickHouse", () => {
  it("answers as one with DuckDB, after its server was killed again and again under load", async () => {
    const [plain, shared] = [await start("plain", false), await start("shared", true)];
    const { records } = observed;
    const step = Math.ceil(records.length / 18);
    let refused = 0;
    for (let i = 0; i * step < records.length; i++) {
      const body = message(records.slice(i * step, (i + 1) * step));
      // The collector stores records itself, so it accepts them whether or not ClickHouse is up.
      expect(await post(shared.url, body)).toBe(200);
      expect(await post(plain.url, body)).toBe(200);
      if (i % 6 === 2) await clickhouse.kill();
      if (i % 6 === 3) {
        const { status, text } = await get(shared.url, "/v1/overview");
        expect(status).toBe(503);
        expect(JSON.parse(text)).toMatchObject({
          error: "store-away",
          message: expect.stringMatching(
            /^ClickHouse at http:\/\/127\.0\.0\.1:\d+ (refuses the connection|cannot be reached)/,
          ),
        });
        refused++;
      }
      if (i % 6 === 4) await clickhouse.up();
      await sleep(20 * (i % 5));
    }
    expect(refused).toBe(3);
    await waitFor(() => shared.service.health().status === "ok");
    await expectSame(shared, plain);
    // After a restart the results are read back from ClickHouse.
    await stop(shared);
    const again = await start("shared", true);
    await expectSame(again, plain);
    await stop(again);
    // Another collector on the same database sees the rows of the first. A collector whose results are gone makes them again from its records.
    const other = await start("other", true);
    expect((await get(other.url, `/v1/latency?${selection}&estimator=lda`)).text).toBe(
      (await get(plain.url, `/v1/latency?${selection}&estimator=lda`)).text,
    );
    await stop(other);
    const anew = await start("shared", true, "anew");
    // Arrival times are not in the records, so coverage differs.
    await expectSame(anew, plain, "/v1/coverage");
  });

  it("keeps what it has when it ends while the server is away, and writes it after", async () => {
    const [plain, shared] = [await start("plain-2", false), await start("shared-2", true, "ends")];
    const body = message(observed.records.slice(0, 100));
    await clickhouse.kill();
    for (const { url } of [plain, shared]) expect(await post(url, body)).toBe(200);
    await stop(shared);
    await clickhouse.up();
    const again = await start("shared-2", true, "ends");
    await waitFor(() => again.service.health().status === "ok");
    const [a, b] = [await answers(again), await answers(plain)];
    for (const path of QUESTIONS.filter((q) => q.startsWith("/v1/latency")))
      expect(a[path] === b[path], path).toBe(true);
  });
});

async function waitFor(what: () => boolean): Promise<void> {
  for (let i = 0; i < 3000 && !what(); i++) await sleep(50);
  expect(what()).toBe(true);
}
