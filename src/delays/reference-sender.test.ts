import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readInterface } from "./reference-pace.ts";
import { type ReferenceOptions, type ReferenceSummary, sendReferences } from "./reference-sender.ts";
import { decodeAuthenticatedStamp, decodeStamp, type StampPacket } from "./stamp.ts";

/** Sends until this number is reached, however long a busy machine takes. */
function sendSoMany(count: number, options: Omit<ReferenceOptions, "durationNs">): Promise<ReferenceSummary> {
  const ending = new AbortController();
  return sendReferences({
    ...{ ...options, durationNs: 120e9, signal: ending.signal },
    onTick: (sent) => {
      if (sent >= count) ending.abort();
    },
  });
}

/** Never faster than requested, except for one tick's worth. */
const TICK = 8;

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
  const summary = await sendSoMany(200, {
    to: "127.0.0.1",
    port: socket.address().port,
    packetsPerSecond: 400,
  });
  await expect.poll(() => received.length).toBe(summary.sent);
  socket.close();
  expect(received.map((r) => r.sequence)).toEqual(Array.from({ length: summary.sent }, (_, i) => i));
  expect(summary.sent).toBeGreaterThanOrEqual(200);
  expect(summary.sent).toBeLessThan(400 * summary.seconds + TICK);
  // Both use this host's clock; its millisecond reading and a busy machine need some tolerance.
  for (const { delayNs } of received) expect(Math.abs(delayNs)).toBeLessThan(10e9);
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
  const { sent } = await sendSoMany(150, { to: "127.0.0.1", port, packetsPerSecond: 400 });
  await expect.poll(() => stamps.length).toBe(sent);
  socket.close();
  for (const { errorNs } of stamps) expect(errorNs).toBeGreaterThanOrEqual(25_000);
  // Within their millisecond: if all were in step, one of ten parts would contain them all. That 150 random ones leave any part empty has a probability of
  // 1e-6.
  const parts = new Set(stamps.map((s) => Math.floor(Number(s.timeNs % 1_000_000n) / 1e5)));
  expect(stamps.length).toBeGreaterThanOrEqual(150);
  expect(parts.size).toBeGreaterThanOrEqual(8);
});

test("a host that was held up sends no clump: references at once would all say the same of the queue", async () => {
  const socket = createSocket("udp4");
  const stamps: StampPacket[] = [];
  socket.on("message", (bytes) => stamps.push(decodeStamp(bytes)!));
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", () => resolve()));
  const ending = new AbortController();
  let heldUp = false;
  let before = 0;
  const { sent } = await sendReferences({
    ...{ to: "127.0.0.1", port: socket.address().port, packetsPerSecond: 400, durationNs: 120e9 },
    signal: ending.signal,
    onTick: (count) => {
      if (count > before + 40) ending.abort();
      if (heldUp || count < 10) return;
      // For 120 references.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      [heldUp, before] = [true, count];
    },
  });
  await expect.poll(() => stamps.length).toBe(sent);
  socket.close();
  const behind = stamps.slice(before).map((s) => s.timeNs);
  expect(behind.length).toBeGreaterThan(30);
  // The last four of those that were due, and then 400 a second again.
  for (const [i, timeNs] of behind.entries())
    expect(i).toBeLessThan(Number(timeNs - (behind[0] ?? 0n)) * 400e-9 + TICK);
});

test("no pace at all is refused with what to give", async () => {
  await expect(sendReferences({ to: "127.0.0.1", durationNs: 1e6 })).rejects.toThrow(
    /need exactly one rate|rate of the references is missing/,
  );
});

test("an interface that is not there is named", async () => {
  await expect(
    sendReferences({ to: "127.0.0.1", device: "nope0", drainBps: 1e6, durationNs: 1e6 }),
  ).rejects.toThrow(/interface: .*nope0/);
});

test("two paces at once are refused", async () => {
  const both = { packetsPerSecond: 10, device: "lo", every: 10 };
  await expect(sendReferences({ to: "127.0.0.1", durationNs: 1e6, ...both })).rejects.toThrow(
    /exactly one rate/,
  );
});

test("what is counted left this host, even if no one listens at the far end", async () => {
  // Datagrams to closed ports, as the kernel counts them; other traffic may add to it.
  const closed = () => {
    const lines = readFileSync("/proc/net/snmp", "utf8")
      .split("\n")
      .filter((l) => l.startsWith("Udp:"))
      .map((l) => l.split(" "));
    return Number(lines[1]?.[lines[0]?.indexOf("NoPorts") ?? 0]);
  };
  const before = closed();
  const { sent, failed } = await sendReferences({
    ...{ to: "127.0.0.1", port: 9, packetsPerSecond: 500, durationNs: 300e6 },
  });
  expect(sent).toBeGreaterThan(0);
  expect(failed).toEqual({});
  expect(closed() - before).toBeGreaterThanOrEqual(sent);
});

test("what the host refuses to send is not counted as sent", async () => {
  // A broadcast without permission to broadcast.
  const { sent, failed } = await sendReferences({
    ...{ to: "255.255.255.255", port: 9, packetsPerSecond: 300, durationNs: 100e6 },
  });
  expect(sent).toBe(0);
  expect(Object.keys(failed).length).toBe(1);
  expect(Object.values(failed)[0]).toBeGreaterThan(5);
});

test("an interface's packets set the pace: one for every n, and no pause longer than the maximum", async () => {
  const sink = createSocket("udp4");
  await new Promise<void>((resolve) => sink.bind(0, "127.0.0.1", () => resolve()));
  const { port } = sink.address();
  const traffic = createSocket("udp4");
  const timer = setInterval(() => {
    for (let i = 0; i < 20; i++) traffic.send(Buffer.alloc(40), port, "127.0.0.1");
  }, 5);
  const options = { to: "127.0.0.1", port: 9, device: "lo" };
  const counted = readInterface("lo").packets;
  const tenth = await sendSoMany(60, { ...options, every: 10, maxGapNs: 10e9 });
  const seen = readInterface("lo").packets - counted;
  const rare = await sendSoMany(30, { ...options, every: 1_000_000, maxGapNs: 10e6 });
  clearInterval(timer);
  traffic.close();
  sink.close();
  // Other traffic uses this interface, too.
  expect(tenth.sent).toBeLessThan(seen / 10 + TICK);
  expect(rare.sent).toBeLessThan(rare.seconds / 0.01 + TICK);
  expect(rare).toMatchObject({ utilisation: null, askedPerSecond: null });
});

test("with a key, packets carry a code that only the key makes", async () => {
  const socket = createSocket("udp4");
  const packets: Buffer[] = [];
  socket.on("message", (bytes) => packets.push(bytes));
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", () => resolve()));
  const key = Buffer.alloc(32, "secret");
  const summary = await sendReferences({
    ...{ to: "127.0.0.1", port: socket.address().port, packetsPerSecond: 200, durationNs: 100e6, key },
  });
  await expect.poll(() => packets.length).toBe(summary.sent);
  socket.close();
  expect(summary).toMatchObject({ authenticated: true, sent: packets.length });
  expect(packets.map((p) => decodeAuthenticatedStamp(p, key)?.sequence)).toEqual([...packets.keys()]);
  for (const packet of packets) {
    expect(packet.length).toBe(112);
    expect(decodeAuthenticatedStamp(packet, Buffer.alloc(32, "other"))).toBeNull();
  }
});

test("a signal ends sending, and the summary is of what was sent", async () => {
  const summary = await sendReferences({
    ...{
      to: "127.0.0.1",
      port: 9,
      packetsPerSecond: 100,
      durationNs: 60e9,
      signal: AbortSignal.timeout(500),
    },
  });
  expect(summary.seconds).toBeLessThan(30);
  expect(summary.sent).toBeGreaterThan(0);
});
