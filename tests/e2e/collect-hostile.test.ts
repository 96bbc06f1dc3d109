/** A collector with hostile clients: invalid input is refused by name or counted, other clients are served in the meantime, memory stays bounded. */
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { crc32c } from "../../src/base/bytes.ts";
import { Random } from "../../src/base/random.ts";
import { encodeRecord, headLength } from "../../src/epoch/record.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { BATCH_TYPE, frameRecord } from "../../src/transport/batch.ts";
import { message, observedRecords, POINTS } from "../support/collector-records.ts";
import { rounds } from "../support/rounds.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-hostile-"));
const BODIES = rounds(1000, 10_000);
let server: RunningServer;
const logged: string[] = [];
beforeAll(async () => {
  const limits = { requests: 1e6, burst: 1e6, bytes: 1e12, burstBytes: 1e12 };
  server = await startServer({
    data: join(root, "data"),
    listen: "127.0.0.1:0",
    limits,
    onLog: (text) => logged.push(text),
  });
});
afterAll(async () => {
  await server.close();
  rmSync(root, { recursive: true, force: true });
});

const send = (body: Uint8Array) =>
  fetch(`${server.url}/v1/records`, {
    method: "POST",
    headers: { "content-type": BATCH_TYPE },
    body: new Uint8Array(body),
  });

/** With corrected checksums, so that the error must be found in the content. */
function reseal(record: Uint8Array): void {
  try {
    const end = headLength(record) - 4;
    const view = new DataView(record.buffer, record.byteOffset, record.byteLength);
    if (end + 4 > record.length) return;
    view.setUint32(end, crc32c(record.subarray(0, end)), true);
    view.setUint32(record.length - 4, crc32c(record.subarray(0, record.length - 4)), true);
  } catch {
    // A head that could not have been sealed.
  }
}

it(`survives ${BODIES} bodies that were made wrong, and stores nothing that cannot be read`, async () => {
  const { records } = await observedRecords(["lda", "flows", "lds:rows=2,columns=64", "maple"], {
    seconds: 3,
  });
  const encoded = records.map((r) => encodeRecord(r));
  const random = new Random(2026);
  const pick = (n: number) => random.below(Math.max(1, n));
  const rssBefore = process.memoryUsage.rss();
  const statuses = new Map<number, number>();
  for (let n = 0; n < BODIES; n++) {
    const parts = Array.from({ length: 1 + pick(3) }, () => {
      const own = Uint8Array.from(encoded[pick(encoded.length)] ?? []);
      for (let k = pick(6); k > 0; k--) own[pick(pick(2) === 0 ? 160 : own.length)] = pick(256);
      if (pick(3) > 0) reseal(own);
      return own;
    });
    const body = Buffer.concat(parts.flatMap(frameRecord));
    // Some are truncated, some have a changed byte in their frame.
    if (pick(10) === 0) body[pick(4)] = pick(256);
    const sent = pick(10) === 0 ? body.subarray(0, pick(body.length)) : body;
    const response = await send(sent);
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    await response.arrayBuffer();
  }
  expect([...statuses.keys()].filter((s) => s !== 200 && s !== 400)).toEqual([]);
  expect(logged.filter((l) => l.includes("Error"))).toEqual([]);
  expect(process.memoryUsage.rss() - rssBefore).toBeLessThan(400e6);
  const archive = RecordArchive.open(join(root, "data", "records"));
  const { entries, foreign } = archive.list();
  expect(foreign).toEqual([]);
  for (const entry of entries) archive.readHead(entry);
  expect(entries.length).toBeGreaterThan(0);
  // The valid ones are still accepted and can be queried.
  expect((await send(message(records))).status).toBe(200);
  const answer = await fetch(`${server.url}/v1/query`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ between: [POINTS.from, POINTS.to] }),
  });
  expect(answer.status).toBe(200);
});

function open(): Promise<Socket> {
  const { port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), "127.0.0.1", () => resolve(socket));
    socket.on("error", reject);
  });
}

async function exchange(text: string): Promise<string> {
  const socket = await open();
  return await new Promise((resolve) => {
    let out = "";
    socket.on("data", (d: Buffer) => {
      out += d.toString();
    });
    socket.on("close", () => resolve(out));
    socket.on("error", () => resolve(out));
    // Open connections are closed some time after the answer.
    socket.once("data", () => setTimeout(() => socket.destroy(), 500));
    socket.write(text);
  });
}

it("serves others while slow clients hold their connections", async () => {
  const slow = await Promise.all(Array.from({ length: 100 }, open));
  for (const socket of slow) {
    socket.on("error", () => {});
    socket.write(
      `POST /v1/records HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${BATCH_TYPE}\r\ncontent-length: 1000\r\n\r\nx`,
    );
  }
  for (let n = 0; n < 20; n++) {
    expect((await fetch(`${server.url}/v1/points`)).status).toBe(200);
  }
  // They are still open.
  expect(slow.filter((socket) => socket.destroyed || socket.readableEnded)).toEqual([]);
  for (const socket of slow) socket.destroy();
});

it("refuses more at once than it has memory for, before reading it", async () => {
  const holding = await Promise.all(Array.from({ length: 12 }, open));
  const replies: string[] = [];
  for (const socket of holding) {
    socket.on("error", () => {});
    socket.on("data", (d: Buffer) => replies.push(d.toString()));
    socket.write(
      `POST /v1/records HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${BATCH_TYPE}\r\ncontent-length: ${60 << 20}\r\n\r\nx`,
    );
  }
  await expect
    .poll(() => replies.filter((r) => r.startsWith("HTTP/1.1 503")).length)
    .toBeGreaterThanOrEqual(3);
  for (const socket of holding) socket.destroy();
  await expect.poll(async () => (await send(Buffer.alloc(1000))).status).toBe(400);
});

it("refuses huge headers, bodies without a length, other protocols, and paths that lead elsewhere", async () => {
  expect(
    await exchange(`GET /v1/points HTTP/1.1\r\nhost: localhost\r\nx: ${"y".repeat(100_000)}\r\n\r\n`),
  ).toMatch(/^HTTP\/1.1 431/);
  expect(
    await exchange(
      `POST /v1/records HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${BATCH_TYPE}\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    ),
  ).toMatch(/^HTTP\/1.1 411/);
  expect(
    await exchange(
      `POST /v1/records HTTP/1.1\r\nhost: localhost\r\ncontent-type: ${BATCH_TYPE}\r\ncontent-length: 99999999999\r\n\r\n`,
    ),
  ).toMatch(/^HTTP\/1.1 413/);
  expect(await exchange("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")).toMatch(/^HTTP\/1.1 400/);
  for (const path of [
    "/../../etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/docs/../../etc/passwd",
    "/docs/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/%00",
  ]) {
    const reply = await exchange(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`);
    expect(reply, path).toMatch(/^HTTP\/1.1 40[04]/);
    expect(reply).not.toContain("root:");
  }
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});
