import { createSocket } from "node:dgram";
import { expect, test } from "vitest";
import { sendReferences } from "./reference-sender.ts";
import { decodeStamp, type StampPacket } from "./stamp.ts";

test("references arrive in order, with the time they were sent", async () => {
  const socket = createSocket("udp4");
  const received: { sequence: number; delayNs: number }[] = [];
  socket.on("message", (bytes) => {
    const stamp = decodeStamp(bytes)!;
    received.push({
      sequence: stamp.sequence,
      delayNs: Number(BigInt(Date.now()) * 1_000_000n - stamp.timeNs),
    });
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", () => resolve()));
  const summary = await sendReferences({
    to: "127.0.0.1",
    port: socket.address().port,
    packetsPerSecond: 400,
    durationNs: 500e6,
  });
  await new Promise((resolve) => setTimeout(resolve, 100));
  socket.close();
  expect(received.map((r) => r.sequence)).toEqual(Array.from({ length: summary.sent }, (_, i) => i));
  expect(summary.sent).toBeGreaterThan(150);
  expect(summary.sent).toBeLessThan(260);
  // Both are this host's clock; its millisecond reading and a busy machine leave some slack.
  for (const { delayNs } of received) expect(Math.abs(delayNs)).toBeLessThan(500e6);
});

test("a host that cannot be found is named, and nothing is left open", async () => {
  await expect(
    sendReferences({ to: "no-such-host.invalid", packetsPerSecond: 10, durationNs: 1e6 }),
  ).rejects.toThrow(/to: no-such-host\.invalid/);
});

test("references state how far off their time may be, and leave at uneven times", async () => {
  const socket = createSocket("udp4");
  const stamps: StampPacket[] = [];
  socket.on("message", (bytes) => stamps.push(decodeStamp(bytes)!));
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", () => resolve()));
  const { port } = socket.address();
  await sendReferences({ to: "127.0.0.1", port, packetsPerSecond: 400, durationNs: 500e6 });
  await new Promise((resolve) => setTimeout(resolve, 100));
  socket.close();
  for (const { errorNs } of stamps) expect(errorNs).toBeGreaterThanOrEqual(25_000);
  // Within their millisecond: if all were in step, one part of ten would hold them all. That 150 random ones leave any part empty has a chance of 1e-6.
  const parts = new Set(stamps.map((s) => Math.floor(Number(s.timeNs % 1_000_000n) / 1e5)));
  expect(stamps.length).toBeGreaterThan(150);
  expect(parts.size).toBeGreaterThanOrEqual(8);
});

test("no pace at all is refused with what to give", async () => {
  await expect(sendReferences({ to: "127.0.0.1", durationNs: 1e6 })).rejects.toThrow(
    /references need a pace/,
  );
});

test("an interface that is not there is named", async () => {
  await expect(
    sendReferences({ to: "127.0.0.1", device: "nope0", drainBps: 1e6, durationNs: 1e6 }),
  ).rejects.toThrow(/interface: .*nope0/);
});
