/**
 * Segmentation offload on real Linux hosts: connections through a router with a short queue, with TSO or UDP GSO at the sender (captured as packets of up to 64
 * kB, segmented later) or GRO at the receiver (captured merged). The expected result comes from other sources: a capture of the same link without offloads, the
 * bytes in the sender's capture, and the count of the receiving program.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { compareCaptures } from "../../src/compare/compare.ts";
import { NetworkLab, namespacesMissing } from "../support/namespaces.ts";

const has = (tool: string, ...args: string[]) => spawnSync(tool, args).status === 0;
const missing = namespacesMissing() ?? (has("ethtool", "--version") ? null : "no ethtool");
if (missing) console.warn(`skipped: segmentation offload on real hosts (${missing})`);
const noPython = missing ?? (has("python3", "--version") ? null : "no python3");
if (noPython && !missing) console.warn(`skipped: UDP segmentation offload (${noPython})`);

const scratch = mkdtempSync(join(tmpdir(), "hoptime-offload-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

let lab: NetworkLab;
let attempt = 0;
beforeEach(() => {
  attempt++;
  lab = new NetworkLab();
  lab.addHost("a");
  lab.addHost("r", { forwards: true });
  lab.addHost("b");
  lab.join(["a", "e0", "10.93.1.1/24"], ["r", "in", "10.93.1.254/24"]);
  lab.join(["r", "out", "10.93.2.254/24"], ["b", "e0", "10.93.2.1/24"]);
  lab.route("a", "10.93.0.0/16", "10.93.1.254");
  lab.route("b", "10.93.0.0/16", "10.93.2.254");
});
afterEach(() => lab.close());

const file = (point: string) => join(scratch, `${attempt}-${point}.pcap`);

/** Runs `traffic` with captures at the sender, behind the router's queue, and at the receiver. */
async function captured(traffic: () => Promise<void>) {
  await lab.capture("a", "e0", "inout", file("a"));
  await lab.capture("r", "out", "inout", file("r"));
  await lab.capture("b", "e0", "inout", file("b"));
  await traffic();
  await settled();
  await lab.stopCaptures();
  return { a: payloads(file("a")), r: payloads(file("r")), b: payloads(file("b")) };
}

/** tcpdump writes its packets every second: all of them are in the files when these have not grown for longer. */
async function settled(): Promise<void> {
  const sizes = () => ["a", "r", "b"].map((point) => statSync(file(point)).size).join();
  for (let [last, still] = ["", 0]; still < 5; still = sizes() === last ? still + 1 : 0) {
    last = sizes();
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

interface Sent {
  timeNs: number;
  payload: number;
  /** For TCP: the position of the first byte in the stream; other fields that uniquely identify packets. */
  sequence: number;
  rest: string;
}

/** The packets from 10.93.1.1, decoded here. pcap in ns, Ethernet, IPv4. Times are relative to the start of the day, so that doubles are exact. */
function packets(path: string): Sent[] {
  const bytes = readFileSync(path);
  const out: Sent[] = [];
  for (let at = 24; at + 16 <= bytes.length; ) {
    const timeNs = (bytes.readUInt32LE(at) % 86_400) * 1e9 + bytes.readUInt32LE(at + 4);
    const captured = bytes.readUInt32LE(at + 8);
    const wire = bytes.readUInt32LE(at + 12);
    const frame = bytes.subarray(at + 16, at + 16 + captured);
    at += 16 + captured;
    if (frame.readUInt16BE(12) !== 0x0800 || frame.readUInt32BE(26) !== 0x0a5d_0101) continue;
    const header = (frame.readUInt8(14) & 15) * 4;
    const tcp = frame.readUInt8(23) === 6;
    const start = 14 + header;
    const transport = tcp ? (frame.readUInt8(start + 12) >> 4) * 4 : 8;
    const total = Math.min(wire, 14 + (frame.readUInt16BE(16) || wire));
    out.push({
      ...{ timeNs, payload: total - start - transport },
      sequence: tcp ? frame.readUInt32BE(start + 4) : 0,
      rest: tcp ? frame.subarray(start + 8, start + 16).toString("hex") : "",
    });
  }
  return out;
}

/** Payload bytes of the packets, and the number of packets without payload. */
function payloads(path: string): { data: number[]; bare: number } {
  const all = packets(path);
  return {
    data: all.flatMap((p) => (p.payload > 0 ? [p.payload] : [])),
    bare: all.filter((p) => p.payload <= 0).length,
  };
}

/**
 * Delays of TCP's packets by their position in the stream, shortest first. Each packet that arrived was part of a sent packet that contains that position; of a
 * retransmission, it is the later one, and the earlier one was lost.
 */
function delaysByStream(before: string, after: string): number[] {
  const sent = packets(before);
  const delays: number[] = [];
  const taken = new Set<string>();
  for (const { timeNs, payload, sequence, rest } of packets(after).toReversed()) {
    const last = sent.findLastIndex((s, i) => {
      if (s.timeNs > timeNs || taken.has(`${i}:${sequence}`)) return false;
      if (payload <= 0) return s.payload <= 0 && s.sequence === sequence && s.rest === rest;
      const place = (sequence - s.sequence) >>> 0;
      return place < s.payload;
    });
    taken.add(`${last}:${sequence}`);
    const from = sent[last];
    if (from) delays.push(timeNs - from.timeNs);
  }
  return delays.toSorted((a, b) => a - b);
}

const sum = (list: readonly number[]) => list.reduce((n, v) => n + v, 0);

/** Sends this many bytes over TCP from a to b; returns the count of the receiving program. */
async function tcpTransfer(bytes: number): Promise<number> {
  const server = lab.start(
    "b",
    "node",
    "-e",
    `let n = 0;
     const s = require("node:net").createServer((c) => {
       c.on("data", (d) => { n += d.length; });
       c.on("end", () => { console.log("got " + n); c.end(); s.close(); });
     }).listen(5000, "10.93.2.1", () => console.log("up"));`,
  );
  let out = "";
  const says = (text: string) =>
    new Promise<void>((resolve) => {
      const look = () => out.includes(text) && resolve();
      server.stdout?.on("data", look);
      look();
    });
  server.stdout?.on("data", (chunk) => {
    out += chunk;
  });
  await says("up");
  lab.run(
    "a",
    "node",
    "-e",
    `const c = require("node:net").connect(5000, "10.93.2.1", () => c.end(require("node:crypto").randomBytes(${bytes})));
     c.on("close", () => process.exit());`,
  );
  await says("got");
  return Number(/got (\d+)/.exec(out)?.[1]);
}

const offloads = (host: string, device: string) =>
  lab.offload(host, device, "tx", "on", "sg", "on", "tso", "on", "gso", "on");

describe.skipIf(missing !== null)("segmentation offload on real hosts", () => {
  test("TSO at the sender: sent, lost and received packets are those of the wire", async () => {
    offloads("a", "e0");
    offloads("r", "in");
    lab.queue("r", "out", 40, 60);
    let received = 0;
    const { a, r, b } = await captured(async () => {
      received = await tcpTransfer(4_000_000);
    });
    const mss = Math.max(...r.data);
    expect(Math.max(...a.data)).toBeGreaterThan(2 * mss);
    // The wire is captured twice: the captures agree, and contain what the program received, except for TCP's retransmissions.
    expect(r.data).toEqual(b.data);
    expect(received).toBe(4_000_000);
    expect(sum(r.data)).toBeGreaterThanOrEqual(received);
    const { flows } = await compareCaptures({ before: file("a"), after: file("r") });
    const flow = flows.find((f) => f.key.dport === 5000);
    const sent = sum(a.data.map((n) => Math.ceil(n / mss))) + a.bare;
    const arrived = r.data.length + r.bare;
    expect(sent - arrived).toBeGreaterThan(20);
    expect(flow).toMatchObject({
      sent,
      received: arrived,
      matched: arrived,
      lost: sent - arrived,
      appeared: 0,
    });
    // A queue of 60 kB at 40 Mbit/s takes 12 ms, and more on a busy machine: the delays follow from the stream's own numbers.
    const delays = delaysByStream(file("a"), file("r"));
    expect(delays).toHaveLength(arrived);
    expect(flow?.latency?.maxNs).toBe(delays.at(-1));
    expect(flow?.latency?.p50Ns).toBeGreaterThan(1e6);
  });

  test("GRO at the receiver: packets are those of the wire", async () => {
    lab.offload("b", "e0", "gro", "on");
    lab.queue("r", "out", 60, 60);
    const { a, r, b } = await captured(async () => {
      expect(await tcpTransfer(4_000_000)).toBe(4_000_000);
    });
    const mss = Math.max(...r.data);
    expect(Math.max(...a.data)).toBe(mss);
    expect(Math.max(...b.data), "GRO merges here").toBeGreaterThan(2 * mss);
    const { flows } = await compareCaptures({ before: file("a"), after: file("b") });
    const [sent, arrived] = [a.data.length + a.bare, r.data.length + r.bare];
    expect(flows.find((f) => f.key.dport === 5000)).toMatchObject({
      sent,
      received: arrived,
      matched: arrived,
      lost: sent - arrived,
      appeared: 0,
    });
  });

  test.skipIf(noPython !== null)("UDP GSO at the sender", async () => {
    offloads("a", "e0");
    offloads("r", "in");
    lab.queue("r", "out", 20, 30);
    const { a, r } = await captured(async () => {
      lab.run(
        "a",
        "python3",
        "-c",
        // Ordinary packets in between and at the end, as on every link, which show the delay.
        `import os, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(17, 103, 1200)
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(250):
    if i < 150: s.sendto(os.urandom(12 * 1200 - 300), ("10.93.2.1", 6000))
    plain.sendto(os.urandom(60), ("10.93.2.1", 6001))
    time.sleep(0.004)
`,
      );
    });
    const plain = (n: number) => n === 60;
    const [wholes, pieces] = [a.data.filter((n) => !plain(n)), r.data.filter((n) => !plain(n))];
    expect(new Set(wholes)).toEqual(new Set([12 * 1200 - 300]));
    expect(new Set(pieces)).toEqual(new Set([1200, 900]));
    const sent = 12 * wholes.length;
    const { flows } = await compareCaptures({ before: file("a"), after: file("r") });
    const flow = flows.find((f) => f.key.dport === 6000);
    const arrived = pieces.length;
    expect(sent - arrived).toBeGreaterThan(20);
    expect(flow).toMatchObject({
      sent,
      received: arrived,
      matched: arrived,
      lost: sent - arrived,
      appeared: 0,
    });
  });
});
