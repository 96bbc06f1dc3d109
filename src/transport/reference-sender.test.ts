import { createSocket } from "node:dgram";
import { expect, test } from "vitest";
import { decodeStamp } from "../estimators/rli/stamp.ts";
import { sendReferences } from "./reference-sender.ts";

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

test("no pace at all is refused with what to give", async () => {
  await expect(sendReferences({ to: "127.0.0.1", durationNs: 1e6 })).rejects.toThrow(
    /references need a pace/,
  );
});

test("an interface that is not there is named", async () => {
  await expect(
    sendReferences({ to: "127.0.0.1", device: "nope0", drainBps: 1e6, durationNs: 1e6 }),
  ).rejects.toThrow(/--interface nope0/);
});
