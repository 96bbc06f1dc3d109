/** The sink with a collector that misbehaves: unreachable, slow, refusing, forgetful. */
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
} from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { numberedRecord } from "../../../tests/support/numbered-record.ts";
import { decodeRecord } from "../../epoch/record.ts";
import { splitBatch } from "../batch.ts";
import { Spool } from "../spool.ts";
import { HttpSink, type HttpSinkOptions } from "./http-sink.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-http-sink-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});
let number = 0;
const fresh = () => join(root, `spool-${number++}`);

type Answer = (request: IncomingMessage, response: ServerResponse, numbers: number[]) => void;

/** Numbers of the records of each message, as received. */
async function collector(answer: Answer = accept, port = 0) {
  const messages: number[][] = [];
  const headers: IncomingMessage["headers"][] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
    const raw = Buffer.concat(parts);
    const body = request.headers["content-encoding"] === "gzip" ? gunzipSync(raw) : raw;
    const numbers = splitBatch(body, "m").records.map((r) => decodeRecord(r.bytes).counters.packets);
    messages.push(numbers);
    headers.push(request.headers);
    answer(request, response, numbers);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const { port: bound } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${bound}`, port: bound, messages, headers };
}

const accept: Answer = (_, response, numbers) => {
  response.end(JSON.stringify({ results: numbers.map(() => ({ outcome: "stored" })) }));
};

const open = (url: string, change: Partial<HttpSinkOptions> = {}) =>
  HttpSink.open({ url, spoolDirectory: fresh(), retryMs: [5, 50], stopMs: 5000, ...change });

async function putAll(sink: HttpSink, count: number, from = 0) {
  return await Promise.all(Array.from({ length: count }, (_, n) => sink.put(numberedRecord(from + n))));
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

describe("a sink over HTTP", () => {
  it("sends every record once, in order, with the token, and leaves nothing behind", async () => {
    const { url, messages, headers } = await collector();
    const spoolDirectory = fresh();
    const sink = await open(url, { spoolDirectory, token: "hop_secret" });
    for (let at = 0; at < 300; at += 50) await putAll(sink, 50, at);
    await sink.close();
    expect(messages.flat()).toEqual(range(0, 300));
    expect(headers[0]?.authorization).toBe("Bearer hop_secret");
    expect(sink.counts).toMatchObject({ sent: 300, refused: 0, dropped: 0, waiting: 0, waitingBytes: 0 });
    expect(readdirSync(spoolDirectory).filter((n) => n.endsWith(".batch"))).toEqual([]);
  });

  it("keeps what it was given while the collector is away, and sends it in order when it is back", async () => {
    const gone = await collector();
    for (const server of servers.splice(0)) server.close();
    const said: string[] = [];
    const sink = await open(gone.url, { onState: (text) => said.push(text) });
    await putAll(sink, 20);
    await sleep(100);
    expect(sink.counts.waiting).toBe(20);
    const back = await collector(accept, gone.port);
    await putAll(sink, 20, 20);
    await sink.close();
    expect(back.messages.flat()).toEqual(range(0, 40));
    expect(said[0]).toContain("records wait in the spool");
    expect(said.at(-1)).toContain("accepts records again");
  });

  it("what an ended run left in the spool is sent first by the next one", async () => {
    const gone = await collector();
    for (const server of servers.splice(0)) server.close();
    const spoolDirectory = fresh();
    const first = await open(gone.url, { spoolDirectory, stopMs: 50 });
    await putAll(first, 10);
    await first.close();
    expect(first.counts.waiting).toBe(10);
    const back = await collector(accept, gone.port);
    const second = await open(gone.url, { spoolDirectory });
    await putAll(second, 5, 10);
    await second.close();
    expect(back.messages.flat()).toEqual(range(0, 15));
  });

  it("sends again what was not acknowledged: answers that are lost, cut, or no answers", async () => {
    let n = 0;
    const { url, messages } = await collector((request, response, numbers) => {
      n++;
      if (n === 1) request.socket.destroy();
      else if (n === 2) response.writeHead(503, { "retry-after": "0" }).end("{}");
      else if (n === 3) response.end("not JSON");
      else if (n === 4) response.writeHead(401).end(JSON.stringify({ message: "the token is not known" }));
      else accept(request, response, numbers);
    });
    const said: string[] = [];
    const sink = await open(url, { onState: (text) => said.push(text) });
    await putAll(sink, 3);
    await sink.close();
    expect(messages.slice(0, 5)).toEqual(Array.from({ length: 5 }, () => [0, 1, 2]));
    expect(sink.counts).toMatchObject({ sent: 3, waiting: 0 });
    expect(said.join()).toContain("the token is not known");
  });

  it("comes again no earlier than Retry-After asks for, in seconds or as a date", async () => {
    const atMs: number[] = [];
    const { url } = await collector((request, response, numbers) => {
      atMs.push(performance.now());
      const date = new Date(Date.now() + 2000).toUTCString();
      if (atMs.length <= 2)
        response.writeHead(503, { "retry-after": atMs.length === 1 ? "1" : date }).end("{}");
      else accept(request, response, numbers);
    });
    const sink = await open(url);
    await putAll(sink, 1);
    await sink.close();
    const [first = 0, second = 0, third = 0] = atMs;
    expect(second - first).toBeGreaterThanOrEqual(990);
    // A date has whole seconds.
    expect(third - second).toBeGreaterThanOrEqual(990);
    expect(sink.counts).toMatchObject({ sent: 1, waiting: 0 });
  });

  it("is bounded: the oldest records make room, and are counted", async () => {
    const gone = await collector();
    for (const server of servers.splice(0)) server.close();
    const spoolDirectory = fresh();
    // One attempt: files being sent are not dropped.
    const once = { retryMs: [60_000, 60_000] as const };
    const sink = await open(gone.url, { spoolDirectory, maxSpoolBytes: 5000, stopMs: 20, ...once });
    for (let n = 0; n < 100; n++) await putAll(sink, 1, n);
    const { waiting, waitingBytes, dropped } = sink.counts;
    expect(waitingBytes).toBeLessThanOrEqual(5000);
    expect(waiting).toBeGreaterThan(5);
    expect(waiting + dropped).toBe(100);
    await sink.close();
    const back = await collector(accept, gone.port);
    const again = await open(gone.url, { spoolDirectory });
    await again.close();
    const sent = back.messages.flat();
    expect(sent).toEqual([...sent].sort((a, b) => a - b));
    expect(sent).toHaveLength(waiting);
    // Those being sent were not dropped, however many they were; all others are the newest.
    expect(sent.at(-1)).toBe(99);
    const gaps = sent.filter((n, i) => i > 0 && n !== (sent[i - 1] ?? 0) + 1);
    expect(gaps.length).toBeLessThanOrEqual(1);
  });

  it("counts and names what the collector refuses, at once and each reason once, and goes on", async () => {
    const { url } = await collector((_, response, numbers) => {
      const reason = (n: number) => (n === 5 ? "of another point" : `ends at ${n}, ahead of the clock`);
      const results = numbers.map((n) =>
        n % 2 ? { outcome: "refused", reason: reason(n) } : { outcome: "unchanged" },
      );
      response.end(JSON.stringify({ results }));
    });
    const said: string[] = [];
    const sink = await open(url, { onState: (text) => said.push(text) });
    await putAll(sink, 6);
    // A tap that runs for days must not report this only at its end.
    await expect.poll(() => said).toHaveLength(2);
    await sink.close();
    expect(sink.counts).toMatchObject({ sent: 3, unchanged: 3, refused: 3, waiting: 0 });
    expect(sink.refusals).toEqual(["ends at 1, ahead of the clock", "of another point"]);
    expect(said).toEqual(sink.refusals.map((reason) => `${url}: refuses records: ${reason}`));
  });

  it("sets aside the one file that the collector cannot read, and sends the others", async () => {
    const { url, messages } = await collector((request, response, numbers) => {
      if (numbers.includes(7)) response.writeHead(400).end(JSON.stringify({ message: "poison" }));
      else accept(request, response, numbers);
    });
    const spoolDirectory = fresh();
    const sink = await open(url, { spoolDirectory });
    for (let n = 0; n < 10; n++) await putAll(sink, 1, n);
    await sink.close();
    const taken = messages.filter((m) => !m.includes(7)).flat();
    expect(taken).toEqual(range(0, 10).filter((n) => n !== 7));
    expect(sink.counts).toMatchObject({ sent: 9, refused: 1, waiting: 0 });
    expect(readdirSync(spoolDirectory).filter((n) => n.endsWith(".refused"))).toHaveLength(1);
    expect(sink.refusals[0]).toContain("poison");
  });

  it("a file cut by a kill gives its whole records; an empty one none", async () => {
    const spoolDirectory = fresh();
    const gone = await collector();
    for (const server of servers.splice(0)) server.close();
    const first = await open(gone.url, { spoolDirectory, stopMs: 10 });
    await putAll(first, 1);
    await putAll(first, 3, 1);
    await putAll(first, 1, 4);
    await first.close();
    const files = readdirSync(spoolDirectory)
      .filter((n) => n.endsWith(".batch"))
      .sort();
    expect(files).toHaveLength(3);
    const [one = "", two = "", three = ""] = files.map((f) => join(spoolDirectory, f));
    truncateSync(one, 0);
    truncateSync(two, statSync(two).size - 5);
    appendFileSync(three, Buffer.alloc(30));
    const back = await collector(accept, gone.port);
    const second = await open(gone.url, { spoolDirectory });
    await second.close();
    expect(back.messages.flat()).toEqual([1, 2, 4]);
    expect(second.counts.waiting).toBe(0);
  });

  it("a clean stop ends within its limit, also where the collector never answers", async () => {
    const { url } = await collector(() => {});
    const sink = await open(url, { stopMs: 200 });
    await putAll(sink, 5);
    // Without a limit neither close nor the test would end.
    await sink.close();
    expect(sink.counts.waiting).toBe(5);
  });

  it("goes on where the disk takes nothing, and counts what is given up", async () => {
    const { url } = await collector();
    const spoolDirectory = fresh();
    const sink = await open(url, { spoolDirectory });
    // The folder is gone: every write fails, even as root.
    rmSync(spoolDirectory, { recursive: true });
    const outcomes = await putAll(sink, 4);
    expect(outcomes.every((o) => o.outcome === "refused")).toBe(true);
    expect(sink.counts.dropped).toBe(4);
    await sink.close();
    expect(existsSync(spoolDirectory)).toBe(false);
  });

  it("two observers do not share a spool", async () => {
    const spoolDirectory = fresh();
    const spool = await Spool.open(spoolDirectory, 1e6);
    await expect(Spool.open(spoolDirectory, 1e6)).rejects.toThrow("another observer is using it");
    await spool.close();
  });
});
