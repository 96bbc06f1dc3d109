/**
 * The result stores compared: the same rows in give the same answers out, byte for byte in JSON, with rows written twice, late, or in another
 * order.
 */
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CertificateAuthority, NO_OPENSSL } from "../../tests/support/certificates.ts";
import {
  CHDB,
  CLICKHOUSE_SERVER,
  ClickhouseServer,
  freePorts,
  NO_CLICKHOUSE,
} from "../../tests/support/clickhouse-server.ts";
import { ClickhouseShards, NO_SHARDS, SHARDS_NAME } from "../../tests/support/clickhouse-shards.ts";
import { FULL } from "../../tests/support/rounds.ts";
import { ODD_NAMES, STORE_EPOCH_NS, STORE_START_NS, storeRows } from "../../tests/support/store-rows.ts";
import { groupFlows } from "../query/segment/row-groups.ts";
import { ClickhouseStore } from "../results/clickhouse/store.ts";
import { DuckdbStore } from "../results/duckdb-store.ts";
import { Normals } from "../results/normals.ts";
import { overview } from "../results/overview.ts";
import type { ResultsStore } from "../results/results-store.ts";
import { allFlows, flowSeries, latencySeries, oneFlow, topFlows } from "../results/series.ts";
import { coverageOf } from "./coverage.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-stores-"));
const open: ResultsStore[] = [];
let server: ClickhouseServer;
beforeAll(async () => {
  if (CLICKHOUSE_SERVER === null) console.warn(`skipped: ${NO_CLICKHOUSE}`);
  else server = await ClickhouseServer.start();
});
afterAll(async () => {
  for (const store of open) await store.close();
  await server?.close();
  rmSync(root, { recursive: true, force: true });
});

const address = (database: string) => ({ origin: server.origin, database, user: "default", password: "" });
async function inClickhouse(database: string): Promise<ClickhouseStore> {
  // With a TTL for rows, which servers from 20.3 on apply by themselves.
  const keepS = { 0: 604_800, 60: 7_776_000, 3600: 157_680_000 };
  const store = await ClickhouseStore.open({ ...address(database), keepS });
  open.push(store);
  return store;
}
async function inDuckdb(name: string): Promise<DuckdbStore> {
  const store = await DuckdbStore.open(join(root, `${name}.duckdb`));
  open.push(store);
  return store;
}

const EPOCHS = 380;
const END_NS = STORE_START_NS + BigInt(EPOCHS) * STORE_EPOCH_NS;
const at = (epoch: number) => STORE_START_NS + BigInt(epoch) * STORE_EPOCH_NS;

/** Asks every question about every segment; `brief`: a few about one segment. */
async function everything(store: ResultsStore, brief: boolean): Promise<Record<string, unknown>> {
  const out: Record<string, unknown> = {
    segments: await store.segments(),
    newest: await store.newest(),
    isEmpty: await store.isEmpty(),
    coverage: await coverageOf(store, STORE_START_NS, END_NS),
    newestRows: (await store.newestRows(STORE_START_NS, END_NS)).sort((a, b) =>
      JSON.stringify([a.segment, a.estimator]) < JSON.stringify([b.segment, b.estimator]) ? -1 : 1,
    ),
    incidents: await store.incidents.list({ limit: 10 }),
    open: await store.incidents.list({ limit: 10, open: true, fromNs: 5n }),
    found: await store.incidents.find("it's 1"),
  };
  if (brief) {
    const one = { ...ODD_NAMES[0]!, estimator: "lda", fromNs: at(-9), toNs: END_NS };
    for (const stepNs of [0n, 60_000_000_000n])
      out[`${stepNs}`] = await latencySeries(store, one, stepNs, 500);
    out.flows = await topFlows(store, { ...one, estimator: "lds" }, 5);
    return out;
  }
  for (const steps of [7, 60])
    out[`overview ${steps}`] = await overview(store, new Normals(store), {
      ...{
        from: null,
        to: null,
        steps,
        preferred: ["lda"],
        fromNs: null,
        toNs: null,
        lengthNs: 7_800_000_000_000n,
      },
    });
  for (const hourOfWeekNs of [null, at(300)])
    for (const step of [0, 60, 3600] as const)
      out[`spreads ${step} ${hourOfWeekNs}`] = (
        await store.spreads({ step, fromNs: 0n, toNs: END_NS, share: 0.25, hourOfWeekNs })
      ).sort((a, b) => (a.key < b.key ? -1 : 1));
  for (const [i, segment] of ODD_NAMES.entries())
    for (const [from, to] of [
      [0, EPOCHS],
      [13, 350],
    ] as const) {
      const selection = { ...segment, estimator: "lds", fromNs: at(from), toNs: at(to) };
      const lda = { ...selection, estimator: "lda" };
      const name = (what: string) => `${what} ${i} ${from}-${to}`;
      for (const stepNs of [0n, 60n, 600n, 3600n])
        out[name(`latency ${stepNs}`)] = await latencySeries(store, lda, stepNs * 1_000_000_000n, 300);
      out[name("last")] = await store.lastRows(lda, 5);
      const flows = await topFlows(store, selection, 5);
      out[name("top")] = flows;
      out[name("top 3")] = await store.flows.top(selection, 3600, 3);
      const flow = flows[1]?.flow ?? "";
      out[name("flow")] = await oneFlow(store, selection, flow);
      out[name("no flow")] = await oneFlow(store, selection, "x' OR 1 = 1 --");
      for (const stepNs of [0n, 60_000_000_000n])
        out[name(`flow ${stepNs}`)] = await flowSeries(store, selection, flow, { stepNs, limit: 50 });
      out[name("all")] = await allFlows(store, { ...selection, toNs: at(from + 20) });
      if (i !== 1) out[name("groups")] = await groupFlows(store, selection, "host", 5);
    }
  return out;
}

const json = (value: unknown) =>
  JSON.stringify(value, (_, v: unknown) => (typeof v === "bigint" ? `${v}n` : v), 1);

/** Returns where two texts differ, with some context; whole texts would fill screens. */
function firstDifference(a: string, b: string): string {
  if (a === b) return "";
  let i = 0;
  while (a[i] === b[i]) i++;
  return `${a.slice(Math.max(0, i - 80), i + 80)} ≠ ${b.slice(i, i + 80)}`;
}

async function expectSame(a: ResultsStore, b: ResultsStore, brief = false): Promise<void> {
  const [left, right] = [await everything(a, brief), await everything(b, brief)];
  for (const [name, value] of Object.entries(left))
    expect(firstDifference(json(value), json(right[name])), name).toBe("");
}

/** One history for both stores: late endpoints, repeated rows, fewer flows, roll-ups in between. */
async function live(store: ResultsStore, write = store): Promise<void> {
  const all = storeRows(0, EPOCHS);
  await store.write(all.segments.slice(0, 1500), all.flows.slice(0, 3000));
  await write.write(
    all.segments.slice(1400),
    all.flows.filter((f) => f.startNs >= (all.flows[2990]?.startNs ?? 0n)),
  );
  for (const each of [store, write]) await each.rollUp(at(300));
  // The other endpoint arrives late: rows that lacked it now have both; some of the flows are gone.
  const better = storeRows(100, 160, 5);
  const late = better.segments.map((r) => ({ ...r, missing: 0, missingTo: 0 }));
  const fewer = better.flows.filter((f) => !f.flow.includes(".0:1001") && !f.flow.includes("it's"));
  await write.write(late, fewer);
  await write.write(late, fewer);
  // A row with one endpoint only does not replace one that has both.
  await store.write(
    late.slice(0, 4).map((r) => ({ ...r, missing: 1, missingTo: 1, sent: null })),
    [],
  );
  for (const each of [store, write]) await each.rollUp(at(340));
  for (const closedNs of [null, 9n])
    for (const id of ["it's 1", closedNs === null ? "two" : "three"])
      await store.incidents.write({
        id,
        startNs: id === "two" ? 3n : 2n,
        closedNs,
        body: '{"a":"\\"\'\\n"}',
      });
  for (const [i, more] of [{ records: 1, bytes: 10 }, { late: 1 }, { records: 2 }].entries()) {
    store.arrivals.count(
      { point: "A'", segment: "x:y", estimator: "lda", epoch: { startNs: at(3 * i) } },
      more,
    );
    if (i === 1) await store.arrivals.flush();
  }
}

describe.skipIf(CLICKHOUSE_SERVER === null)("ClickHouse and DuckDB", () => {
  it("give the same answers to every question, to the byte", async () => {
    const [duckdb, clickhouse] = [await inDuckdb("same"), await inClickhouse("same")];
    await live(duckdb);
    // Two workers on one database, one after the other and both at once.
    const other = await inClickhouse("same");
    await live(clickhouse, other);
    await expectSame(duckdb, clickhouse, true);
    for (const store of [duckdb, clickhouse, other]) while ((await store.rollUp(END_NS * 2n)) > 0);
    await expectSame(duckdb, clickhouse);
    for (const table of ["segments", "flows"] as const) {
      await duckdb.export(table, join(root, "a.csv"), "csv");
      await clickhouse.export(table, join(root, "b.csv"), "csv");
      const [a, b] = ["a.csv", "b.csv"].map((file) => readFileSync(join(root, file), "utf8").split("\n"));
      expect(a?.length).toBeGreaterThan(20);
      expect(b).toEqual(a);
    }
  });

  it("take away what an end that came late replaces, where packets cut epochs", async () => {
    const pair = storeRows(0, 1)
      .segments.slice(0, 1)
      .map((r) => ({ ...r, mode: "delimited" as const }));
    const [whole] = pair;
    if (!whole) throw new Error("no row");
    const alone = (shiftNs: bigint) => ({
      ...{ ...whole, startNs: whole.startNs + shiftNs, endNs: whole.endNs + shiftNs },
      ...{ missing: 1, missingTo: 1, sent: null, received: null },
    });
    const stores = [await inDuckdb("late"), await inClickhouse("late")];
    for (const store of stores) {
      await store.write([alone(700_000n), alone(-20_000_000_000n)], []);
      await store.rollUp(END_NS);
      await store.write(pair, []);
      await store.write(pair, []);
      await store.rollUp(END_NS);
    }
    const [a, b] = [stores[0] as ResultsStore, stores[1] as ResultsStore];
    await expectSame(a, b, true);
    const rows = await b.segmentRows({ ...whole.segment, estimator: "lda", fromNs: 0n, toNs: END_NS }, 0);
    expect(rows.map((r) => [r.startNs, r.missing])).toEqual([
      [whole.startNs - 20_000_000_000n, 1],
      [whole.startNs, 0],
    ]);
    // A slow worker writes its older rows: nothing changes.
    await b.write([alone(700_000n)], []);
    await b.rollUp(END_NS);
    await expectSame(a, b, true);
  });

  it("roll up one call at a time", async () => {
    const store = await inDuckdb("calls");
    let running = 0;
    let most = 0;
    const openSpans = store["openSpans"].bind(store);
    store["openSpans"] = async (...asked) => {
      most = Math.max(most, ++running);
      const spans = await openSpans(...asked);
      running--;
      return spans;
    };
    const { segments, flows } = storeRows(0, 130);
    await store.write(segments, flows);
    const made = await Promise.all(Array.from({ length: 3 }, () => store.rollUp(END_NS)));
    expect(most).toBe(1);
    expect(made[0]).toBeGreaterThan(0);
    expect(made.slice(1)).toEqual([0, 0]);
  });

  it("remove what is too old", async () => {
    const all = storeRows(0, 30);
    const week = 7n * 86_400_000_000_000n;
    const old = all.segments.map((r) => ({
      ...r,
      startNs: r.startNs - 2n * week,
      endNs: r.endNs - 2n * week,
    }));
    for (const store of [await inDuckdb("old"), await inClickhouse("old")]) {
      await store.write([...old, ...all.segments], []);
      await store.retain(0, { nowNs: END_NS * 2n, keepNs: week, maxBytes: null });
      const [known] = await store.segments();
      expect(known?.firstNs).toBe(STORE_START_NS);
      expect((await store.coverage(0n, END_NS)).map((c) => c.epochs)).toEqual(Array(6).fill(30));
    }
  });
});

describe.skipIf(CLICKHOUSE_SERVER === null)("workers on one ClickHouse", () => {
  it("that write the same rows at the same time count them once, and their minutes too", async () => {
    const workers = await Promise.all(Array.from({ length: 3 }, () => inClickhouse("workers")));
    const { segments, flows } = storeRows(0, 20);
    for (let at = 0; at < segments.length; at += 40) {
      const part = segments.slice(at, at + 40);
      await Promise.all(workers.map((w) => w.write(part, at === 0 ? flows : [])));
      await Promise.all(workers.map((w) => w.rollUp(END_NS)));
    }
    for (const worker of workers) while ((await worker.rollUp(END_NS)) > 0);
    const alone = await inDuckdb("alone");
    await alone.write(segments, flows);
    await alone.rollUp(END_NS);
    await expectSame(alone, workers[1] as ResultsStore, true);
  });

  it("keep the rows of a segment's owner, whatever an owner before writes late", async () => {
    const store = await inClickhouse("fenced");
    const { segments, flows } = storeRows(0, 2);
    const older = segments.map((r) => ({ ...r, received: 1, missing: 0 }));
    const fewer = flows.filter((f) => !f.flow.includes("it's"));
    await store.write(segments, flows, () => 12);
    const before = await everything(store, true);
    await store.write(older, fewer, () => 7);
    expect(await everything(store, true)).toEqual(before);
    // The owner itself may replace its rows, and so may the next owner.
    for (const fence of [12, 13]) {
      await store.write(fence === 12 ? older : segments, fence === 12 ? fewer : flows, () => fence);
      const now = await everything(store, true);
      if (fence === 12) expect(now).not.toEqual(before);
      else expect(now).toEqual(before);
    }
  });

  it("make their own minutes, and those that another has left", async () => {
    const first = await inClickhouse("shared");
    await first.write(storeRows(0, 6).segments, []);
    expect(await (await inClickhouse("shared")).rollUp(END_NS * 2n)).toBe(0);
    const later = await ClickhouseStore.open({ ...address("shared"), leftS: 0 });
    open.push(later);
    // Two minutes and two hours, each of three segments and two estimators.
    expect(await later.rollUp(END_NS * 2n)).toBe(4 * 6);
    expect(await first.rollUp(END_NS * 2n)).toBe(0);
  });

  it("make again, when they are opened, what somebody has dropped, and leave the rest", async () => {
    const store = await inClickhouse("dropped");
    const { segments, flows } = storeRows(0, 20);
    await store.write(segments, flows);
    const run = async (body: string) => {
      const response = await fetch(`${server.origin}/?database=dropped`, { method: "POST", body });
      expect(response.status, body).toBe(200);
      return await response.text();
    };
    const rows = await run("SELECT count() FROM segments FINAL");
    for (const name of ["flows", "spans", "spans_of_segments", "dirty"]) await run(`DROP TABLE ${name}`);
    await expect(store.segments()).rejects.toThrow(/spans.* start a collector to create what is missing$/);
    const again = await inClickhouse("dropped");
    expect(await run("SELECT count() FROM segments FINAL")).toBe(rows);
    expect(await run("SELECT count() FROM migrations")).toBe("1\n");
    expect(await again.isEmpty()).toBe(true);
    await again.write(segments, flows);
    expect(await again.segments()).toHaveLength(ODD_NAMES.length);
  });

  it("refuse a database of a newer hoptime, and a wrong password, in one line", async () => {
    await inClickhouse("newer");
    await fetch(`${server.origin}/?database=newer`, {
      method: "POST",
      body: "INSERT INTO migrations (version, hoptime) VALUES (99, 'x')",
    });
    await expect(ClickhouseStore.open(address("newer"))).rejects.toThrow(
      /'newer' is of a newer hoptime \(schema 99/,
    );
    // chDB accepts any user.
    if (CHDB !== undefined) return;
    const other = { ...address("x"), user: "bob", password: "secret" };
    await expect(ClickhouseStore.open(other)).rejects.toThrow(/wrong user or password \(user 'bob'\)$/);
  });
});

// Only in the full run: servers of 18.16 do not always start with ZooKeeper.
const noShards = FULL ? NO_SHARDS : "HOPTIME_FULL=1 runs it";
if (noShards) console.log(`skipped: shards of ClickHouse: ${noShards}`);
describe.skipIf(noShards)("ClickHouse with two shards", () => {
  it("gives the answers of DuckDB through either server, whatever is written twice", async () => {
    const shards = await ClickhouseShards.start(2);
    try {
      const stores = await Promise.all(
        shards.servers.map(({ origin }) =>
          ClickhouseStore.open({
            ...{ ...address("spread"), origin },
            cluster: { name: SHARDS_NAME, replicated: false },
          }),
        ),
      );
      const [one, two] = stores as [ClickhouseStore, ClickhouseStore];
      const alone = await inDuckdb("spread");
      await live(alone);
      await live(one, two);
      for (const store of [alone, one, two]) while ((await store.rollUp(END_NS * 2n)) > 0);
      for (const { origin } of shards.servers) {
        const count = await fetch(`${origin}/?database=spread`, {
          method: "POST",
          body: "SELECT count() FROM segments_local FINAL",
        });
        expect(Number(await count.text())).toBeGreaterThan(0);
      }
      for (const store of [one, two]) await expectSame(alone, store);
      await one.retain(0, { nowNs: END_NS * 2n, keepNs: null, maxBytes: null });
      for (const store of stores) await store.close();
    } finally {
      await shards.close();
    }
  });
});

describe.skipIf(CLICKHOUSE_SERVER === null || NO_OPENSSL || CHDB !== undefined)(
  "ClickHouse over HTTPS",
  () => {
    it("takes rows of a user; another authority, user, password or plain HTTP is refused in one line", async () => {
      const ours = new CertificateAuthority(join(root, "ours"), "our authority");
      const others = new CertificateAuthority(join(root, "others"), "another authority");
      const { certificateFile, keyFile } = ours.sign("clickhouse");
      const [port = 0] = await freePorts(1);
      const secure = await ClickhouseServer.start({
        password: "s€cret:/@",
        more: `<https_port>${port}</https_port><openSSL><server><certificateFile>${certificateFile}</certificateFile><privateKeyFile>${keyFile}</privateKeyFile><verificationMode>none</verificationMode></server></openSSL>`,
      });
      try {
        const right = {
          ...{ origin: `https://127.0.0.1:${port}`, database: "tls", user: "default", password: "s€cret:/@" },
          ca: ours.own.certificate,
        };
        const store = await ClickhouseStore.open(right);
        const { segments } = storeRows(0, 3);
        await store.write(segments, []);
        await store.write(segments, []);
        expect((await store.coverage(0n, END_NS)).map((c) => c.epochs)).toEqual(Array(6).fill(3));
        await store.close();
        const refused = (change: object, line: RegExp) =>
          expect(ClickhouseStore.open({ ...right, ...change })).rejects.toThrow(line);
        await refused({ ca: others.own.certificate }, /: its certificate is not trusted \(.*\)/);
        await refused({ ca: undefined }, /: its certificate is not trusted/);
        await refused({ password: "other" }, /wrong user or password \(user 'default'\)$/);
        await refused({ user: "bob" }, /wrong user or password \(user 'bob'\)$/);
        await expect(
          ClickhouseStore.open({ ...right, origin: `http://127.0.0.1:${port}` }),
        ).rejects.toMatchObject({
          code: "store-away",
          hint: expect.stringContaining("https:// where it speaks TLS"),
        });
        // ClickHouse itself either answers a TLS greeting or waits for the end of its first line, depending on the greeting's random bytes.
        const plain = createServer().listen(0, "127.0.0.1");
        await once(plain, "listening");
        const { port: plainPort } = plain.address() as AddressInfo;
        await refused({ origin: `https://127.0.0.1:${plainPort}` }, /does not speak TLS/);
        plain.close();
      } finally {
        await secure.close();
      }
    });
  },
);
