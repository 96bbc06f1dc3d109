import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { listenEvents, readEvents } from "./events.ts";

async function* pieces(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
}

const STREAM =
  'retry: 2000\n\nid: 1\nevent: epoch\ndata: {"from":"Zürich"}\n\n: still here\n\nid: 2\nevent: plan\ndata: {broken\n\nevent: gap\ndata: {"lost":3}\n\nid: 5\nevent: epoch\ndata: {"half":';

test.each([1, 2, 7, 1000])("events are read however they are cut (%i bytes at a time)", async (size) => {
  const events = [];
  for await (const event of readEvents(pieces(STREAM, size))) events.push(event);
  expect(events).toEqual([
    { id: "1", type: "epoch", data: { from: "Zürich" } },
    { id: null, type: "gap", data: { lost: 3 } },
  ]);
});

test("a connection that breaks goes on behind the last event; the signal ends it", async () => {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response: ServerResponse) => {
    asked.push(request.headers["last-event-id"] as string | undefined);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const id = asked.length;
    response.write(`id: ${id}\nevent: epoch\ndata: {"n":${id}}\n\n`, () => {
      if (id === 1) response.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ending = new AbortController();
  const states: string[] = [];
  const seen: unknown[] = [];
  for await (const event of listenEvents(
    { url },
    { signal: ending.signal, onState: (text) => states.push(text) },
  )) {
    seen.push(event);
    if (seen.length === 2) ending.abort();
  }
  expect(seen).toEqual([
    { type: "epoch", data: { n: 1 } },
    { type: "epoch", data: { n: 2 } },
  ]);
  expect(asked).toEqual([undefined, "1"]);
  expect(states.map((s) => s.replace(url, ""))).toEqual([": the connection was lost", ": connected again"]);
  server.closeAllConnections();
  server.close();
});

test("a collector that is not there, or refuses, is named", async () => {
  const signal = new AbortController().signal;
  const server = createServer((_, response) => response.writeHead(401).end("no token"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const listen = () => listenEvents({ url: `http://127.0.0.1:${port}` }, { signal }).next();
  await expect(listen()).rejects.toThrow(/refused \(401\): no token/);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await expect(listen()).rejects.toThrow(/nothing listens there/);
});
