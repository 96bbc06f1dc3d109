/**
 * The time of packets inside one host, measured in its kernel and compared with captures of both of its interfaces: a bridge between two hosts with a short
 * queue. Each packet's delay, losses with reasons, epochs, classes, queues and flows; TCP, UDP, IPv6, VLANs, marks and large packets.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { LogHistogram, nearestRank } from "../../src/base/math/log-histogram.ts";
import { SegmentDatapath } from "../../src/capture/ebpf/segment.ts";
import type { SegmentPlan } from "../../src/capture/ebpf/segment-load.ts";
import { segmentSources } from "../../src/capture/ebpf/segment-source.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { openCaptures } from "../../src/capture/source/capture-source.ts";
import type { Source } from "../../src/capture/source/source.ts";
import { type BoxInterval, watchBox } from "../../src/observe/watch-box.ts";
import { datapathMissing } from "../support/datapath.ts";
import { namespacesMissing, until } from "../support/namespaces.ts";

const has = (tool: string, ...args: string[]) => spawnSync(tool, args).status === 0;
const missing =
  (await datapathMissing("segment")) ??
  namespacesMissing() ??
  (has("python3", "--version") ? null : "no python3") ??
  (has("ethtool", "--version") ? null : "no ethtool") ??
  (has("bpftool", "version") ? null : "no bpftool");
if (missing) console.warn(`skipped: one box, measured in its kernel (${missing})`);

const scratch = mkdtempSync(join(tmpdir(), "hoptime-box-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
/** Ids of the programs and maps of a process. */
function heldBy(pid: number): { programs: string[]; maps: string[] } {
  const folder = `/proc/${pid}/fdinfo`;
  const texts = readdirSync(folder).map((fd) => readFileSync(join(folder, fd), "utf8"));
  const all = (field: string) => [
    ...new Set(texts.flatMap((text) => new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? [])),
  ];
  return { programs: all("prog_id"), maps: all("map_id") };
}
const isThere = (kind: "prog" | "map", number: string) => has("bpftool", kind, "show", "id", number);

const id = `${process.pid % 100000}`;
const [A, B, IN, OUT, BRIDGE] = [`hob${id}a`, `hob${id}b`, `hob${id}i`, `hob${id}o`, `hob${id}r`];
const ip = (...args: string[]) => execFileSync("ip", args, { stdio: ["ignore", "pipe", "pipe"] }).toString();
const inside = (host: string, ...command: string[]) => ["netns", "exec", host, ...command];
const tc = (...args: string[]) => execFileSync("tc", args, { stdio: ["ignore", "pipe", "pipe"] }).toString();
const offloads = (device: string, state: "on" | "off", host: string) =>
  spawnSync(
    "ip",
    inside(host, "ethtool", "-K", device, "tso", state, "gso", state, "gro", state, "tx", state),
  );

function build(): void {
  for (const host of [A, B]) ip("netns", "add", host);
  ip("link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0");
  // The bridge's own packets wait in the queue too, without having arrived.
  ip("link", "set", BRIDGE, "addrgenmode", "none");
  ip("link", "set", BRIDGE, "up");
  for (const [port, host, n] of [
    [IN, A, 1],
    [OUT, B, 2],
  ] as const) {
    ip("link", "add", port, "type", "veth", "peer", "name", "e0", "netns", host);
    ip("link", "set", port, "addrgenmode", "none");
    ip("link", "set", port, "master", BRIDGE, "up");
    spawnSync("ethtool", ["-K", port, "tso", "off", "gso", "off", "gro", "off", "tx", "off"]);
    offloads("e0", "off", host);
    ip("-n", host, "addr", "add", `10.96.0.${n}/24`, "dev", "e0");
    ip("-n", host, "addr", "add", `fd96::${n}/64`, "dev", "e0", "nodad");
    ip("-n", host, "link", "set", "e0", "up");
    ip("-n", host, "link", "set", "lo", "up");
  }
  ip(...inside(A, "ping", "-c", "1", "-W", "2", "10.96.0.2"));
}

function takeDown(): void {
  for (const host of [A, B]) spawnSync("ip", ["netns", "del", host]);
  for (const device of [IN, OUT, BRIDGE]) spawnSync("ip", ["link", "del", device]);
}

const queue = (rate: string, limit: string) =>
  tc("qdisc", "replace", "dev", OUT, "root", "tbf", "rate", rate, "burst", "16kb", "limit", limit);
const queueDrops = () => Number(JSON.parse(tc("-s", "-j", "qdisc", "show", "dev", OUT))[0].drops);

/** Numbered UDP packets to `address`; `count` of them, evenly at `rate` per second. */
const UDP = `
import socket, sys, time, struct
address, port, count, rate, size, tos = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
six = ":" in address
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
if tos: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos) if six else s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
start = time.monotonic()
for i in range(count):
    s.sendto(struct.pack("!I", i) + bytes(size - 4), (address, port))
    left = start + (i + 1) / rate - time.monotonic()
    if left > 0: time.sleep(left)
`;
/** Tagged frames from one link to the other, as with a card that does not remove tags. */
const TAGGED = `
import socket, struct, sys
a, b = bytes.fromhex(sys.argv[1].replace(":", "")), bytes.fromhex(sys.argv[2].replace(":", ""))
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("e0", 0))
for i in range(int(sys.argv[3])):
    udp = struct.pack("!HHHHI", 4000, 4001, 8 + 104, 0, i) + bytes(100)
    head = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(udp), i, 0, 64, 17, 0, bytes([10, 96, 7, 1]), bytes([10, 96, 7, 2]))
    s.send(b + a + struct.pack("!HH", 0x8100, 42) + b"\\x08\\x00" + head + udp)
`;
const TCP_SERVER = `
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("10.96.0.2", 5000)); s.listen(1)
print("up", flush=True)
c, _ = s.accept()
while c.recv(65536): pass
`;
const TCP_CLIENT = `
import socket, sys, os
s = socket.create_connection(("10.96.0.2", 5000)); s.sendall(os.urandom(int(sys.argv[1]))); s.shutdown(1); s.recv(1)
`;
const python = (host: string, script: string, ...args: string[]) =>
  new Promise<void>((resolve, reject) => {
    const child = spawn("ip", inside(host, "python3", "-c", script, ...args), { stdio: "ignore" });
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`python3 ended with ${code}`))));
  });

async function tcpTransfer(bytes: number): Promise<void> {
  const server = spawn("ip", inside(B, "python3", "-c", TCP_SERVER), { stdio: ["ignore", "pipe", "ignore"] });
  await new Promise((resolve) => server.stdout.once("data", resolve));
  const ended = new Promise((resolve) => server.once("exit", resolve));
  await python(A, TCP_CLIENT, String(bytes));
  await ended;
}

const file = (name: string) => join(scratch, `${name}.pcap`);
async function capture(device: string, way: "in" | "out", path: string) {
  const child = spawn(
    "tcpdump",
    // Without --immediate-mode, the last packets are written only when a block of the ring is full, or after a second.
    [
      ...["-i", device, "-Q", way, "-n", "-s", "160", "-B", "8192", "--immediate-mode", "-U"],
      ...["--time-stamp-precision=nano", "-w", path],
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  await new Promise<void>((resolve) => {
    child.stderr.on("data", (data) => String(data).includes("listening") && resolve());
  });
  return () =>
    new Promise<void>((resolve) => {
      child.once("exit", () => resolve());
      child.kill("SIGINT");
    });
}

interface Seen {
  digest: string;
  bytes: number;
  protocol: number;
  timeNs: bigint;
  delayNs: number;
}

async function rowsOf(source: Source): Promise<Seen[]> {
  const rows: Seen[] = [];
  for (let got = await source.next(); got; got = await source.next()) {
    const { timeNs, digest, meta, delayNs, wireLength, count } = got.batch;
    for (let i = 0; i < count; i++)
      rows.push({
        digest: `${digest[2 * i]}:${digest[2 * i + 1]}`,
        bytes: wireLength[i]!,
        protocol: meta[2 * i + 1]! & 0xff,
        timeNs: got.originNs + BigInt(Math.round(timeNs[i]!)),
        delayNs: delayNs[i]!,
      });
  }
  source.close();
  return rows;
}

const cover = { capture: { cover: 64 } };
const readCapture = (path: string) => rowsOf(openCaptures(new Kernels(), [path], cover));

/** Runs `traffic` through the host; returns its intervals, every packet as the kernel saw it, and the captures. */
async function measured(plan: Partial<SegmentPlan>, traffic: () => Promise<void>) {
  const stops = await Promise.all([capture(IN, "in", file("in")), capture(OUT, "out", file("out"))]);
  const box = await SegmentDatapath.open({
    ways: [{ input: IN, output: OUT }],
    // If this process has to wait this long on a busy machine, packets are counted as late.
    epochNs: 1_000_000_000,
    ringBytes: 8 << 20,
    ...plan,
  });
  const ending = new AbortController();
  const { sender, receiver } = segmentSources(new Kernels(), box, { ...cover, signal: ending.signal });
  const rows = Promise.all([rowsOf(sender), rowsOf(receiver)]);
  const intervals: BoxInterval[] = [];
  const watching = (async () => {
    for await (const [interval] of watchBox({ box, key: FlowKeySpec.parse(), signal: ending.signal }))
      if (interval) intervals.push(interval);
  })();
  const dropsBefore = queueDrops();
  await traffic();
  // All packets have been returned when an interval has begun after the last of them.
  const endNs = BigInt(Date.now()) * 1_000_000n;
  await until(() => (intervals.at(-1)?.startNs ?? 0n) > endNs);
  const drops = queueDrops() - dropsBefore;
  const counts = box.counts(0);
  const { departure } = box;
  // The current interval is returned before it ends.
  const whole = intervals.length;
  ending.abort();
  await watching;
  intervals.length = whole;
  // Packets of these intervals; hosts may send other packets after the last of them.
  const last = intervals.at(-1);
  const endedNs = (last?.startNs ?? 0n) + BigInt(last?.lengthNs ?? 0);
  const [came, left] = (await rows).map((seen) =>
    seen.filter(({ timeNs, delayNs }) => timeNs - BigInt(delayNs || 0) < endedNs),
  ) as [Seen[], Seen[]];
  for (const stop of stops) await stop();
  const [before, after] = [await readCapture(file("in")), await readCapture(file("out"))];
  return { intervals, came, left, before, after, drops, counts, departure };
}

function between(n: number, least: number, most: number): void {
  expect(n).toBeGreaterThanOrEqual(least);
  expect(n).toBeLessThanOrEqual(most);
}
const sum = (list: readonly BoxInterval[], of: (i: BoxInterval) => number) =>
  list.reduce((n, i) => n + of(i), 0);
/** TCP and UDP only; hosts send other packets before and after. */
const identities = (rows: readonly Seen[]) =>
  rows.flatMap(({ protocol, digest }) => (protocol === 6 || protocol === 17 ? [digest] : [])).toSorted();
/** TCP with timestamps in packets of up to 1500 bytes. */
const segmentsOf = (rows: readonly Seen[]) =>
  rows
    .filter((r) => r.protocol === 6)
    .reduce((n, { bytes }) => n + Math.max(1, Math.ceil((bytes - 66) / 1448)), 0);
const sorted = (list: readonly number[]) => list.toSorted((a, b) => a - b);

/** Delays of packets that occur once in each capture, from the captures and from the kernel. */
function delaysOf({ before, after, left }: Awaited<ReturnType<typeof measured>>) {
  const once = (rows: readonly Seen[]) => {
    const found = new Map<string, Seen | null>();
    for (const row of rows) found.set(row.digest, found.has(row.digest) ? null : row);
    return found;
  };
  const [sent, arrived, ours] = [once(before), once(after), once(left)];
  return [...ours].flatMap(([digest, row]) => {
    const [a, b] = [sent.get(digest), arrived.get(digest)];
    return row && a && b ? [{ captured: Number(b.timeNs - a.timeNs), measured: row.delayNs }] : [];
  });
}

describe.skipIf(missing !== null)("one box, measured in its kernel", () => {
  beforeAll(build, 60_000);
  afterAll(takeDown);

  test.each(["tc", "xdp"] as const)(
    "every packet's delay is that of captures at both interfaces; loss is what the queue dropped (arrival at %s)",
    async (arrival) => {
      queue("4mbit", "20kb");
      const seen = await measured({ arrival, departure: "socket" }, async () => {
        await Promise.all([
          python(A, UDP, "10.96.0.2", "9000", "700", "700", "700", "0"),
          python(A, UDP, "fd96::2", "9001", "200", "200", "300", String(46 << 2)),
        ]);
        await tcpTransfer(200_000);
        const mac = (host: string) => JSON.parse(ip("-n", host, "-j", "link", "show", "e0"))[0].address;
        await python(A, TAGGED, mac(A), mac(B), "100");
      });
      const { intervals, came, left, before, after, drops, counts } = seen;
      expect(drops).toBeGreaterThan(20);
      // The arrived and the departed packets equal those of the captures, packet by packet.
      expect(identities(came)).toEqual(identities(before));
      expect(identities(left)).toEqual(identities(after));
      expect(came.length - left.length).toBe(drops);
      expect([counts.ringIn, counts.ringLeft, counts.noFlow]).toEqual([0, 0, 0]);
      // Intervals count the same packets, except for a few that were delayed for longer than an interval waits; those are counted separately.
      const { late } = counts;
      expect(late).toBeLessThan(came.length / 20);
      const within = (n: number, least: number) => between(n, least, least + late);
      within(
        sum(intervals, (i) => i.sent),
        came.length - late,
      );
      within(
        sum(intervals, (i) => i.lost + i.waiting),
        drops,
      );
      const delays = delaysOf(seen);
      expect(delays.length).toBeGreaterThan(800);
      const errors = sorted(delays.map(({ captured, measured }) => Math.abs(captured - measured)));
      // A few hundred instructions are between the two; a virtual machine may be paused there.
      expect(errors[Math.floor(errors.length / 2)]).toBeLessThan(20_000);
      expect(errors[Math.floor(0.95 * errors.length)]).toBeLessThan(500_000);
      expect(Math.max(...delays.map((d) => d.measured))).toBeGreaterThan(20e6);
      checkSums(intervals, left);
      // Classes, flows, the tag, and the reason of drops.
      const classes = intervals.flatMap((i) => i.classes);
      const ef = classes.filter((c) => c.dscp === 46).reduce((n, c) => n + c.sent, 0);
      within(ef, 200 - late);
      const flow = (text: string) =>
        intervals
          .flatMap((i) => i.flows.filter((f) => f.flow.includes(text)))
          .reduce((n, f) => n + f.sent, 0);
      within(flow("> 10.96.0.2:9000"), 700 - late);
      within(flow("> [fd96::2]:9001"), 200 - late);
      within(flow("10.96.7.1:4000 > 10.96.7.2:4001"), 100 - late);
      expect(intervals.flatMap((i) => i.queues.map((q) => q.qdisc))[0]).toMatch(/^tbf /);
      const waiting = sum(intervals, (i) => i.waiting);
      within(
        sum(intervals, (i) => i.queues.reduce((n, q) => n + q.sent, 0)),
        came.length - waiting - late,
      );
      const reasons = intervals.flatMap((i) => i.drops).filter((d) => d.place === "queue");
      expect(reasons.reduce((n, d) => n + d.packets, 0)).toBeLessThanOrEqual(drops);
      expect(new Set(reasons.map((d) => d.reason))).toEqual(new Set(["QDISC_DROP"]));
    },
  );

  test("large packets (TSO, GRO) are counted by their segments, whatever the queue makes of them", async () => {
    queue("20mbit", "30kb");
    offloads("e0", "on", A);
    spawnSync("ethtool", ["-K", IN, "gro", "on"]);
    const { intervals, counts, before, after } = await measured({ departure: "socket" }, () =>
      tcpTransfer(3_000_000),
    );
    offloads("e0", "off", A);
    spawnSync("ethtool", ["-K", IN, "gro", "off"]);
    expect(counts.merged).toBeGreaterThan(500);
    const lost = sum(intervals, (i) => i.lost + i.waiting);
    const left = sum(intervals, (i) => i.flows.find((f) => f.flow.includes(":5000"))?.sent ?? 0) - lost;
    expect(left + lost).toBe(segmentsOf(before));
    expect(left).toBe(segmentsOf(after));
    expect(lost).toBeGreaterThan(0);
  });

  test("at the tracepoint: the same delays; what it does not see leave is not called lost", async () => {
    queue("4mbit", "20kb");
    const seen = await measured({ departure: "tracepoint" }, () =>
      python(A, UDP, "10.96.0.2", "9000", "1000", "800", "700", "0"),
    );
    const { intervals, came, left, drops, departure } = seen;
    const { late } = seen.counts;
    expect(departure).toBe("tracepoint");
    expect(drops).toBeGreaterThan(20);
    expect(late).toBeLessThan(came.length / 20);
    between(
      sum(intervals, (i) => i.sent),
      came.length - late,
      came.length,
    );
    expect(sum(intervals, (i) => i.lost)).toBeLessThanOrEqual(drops);
    // Kernels that restrict tracing sometimes miss packets; these are counted.
    expect(left.length).toBeGreaterThan(0.95 * (came.length - drops));
    const gone = sum(intervals, (i) => i.lost + i.waiting);
    between(left.length + gone, came.length - late, came.length + late);
    const errors = sorted(delaysOf(seen).map(({ captured, measured }) => Math.abs(captured - measured)));
    expect(errors[Math.floor(errors.length / 2)]).toBeLessThan(20_000);
    checkSums(intervals, left);
    expect(intervals.flatMap((i) => i.queues.map((q) => q.backlogPackets)).some((n) => n > 5)).toBe(true);
  });

  test("a process that is killed leaves no program and no map behind", async () => {
    const rounds = Number(process.env["HOPTIME_KILL_ROUNDS"] ?? 2);
    for (let round = 0; round < rounds; round++) {
      const args = round % 2 === 0 ? ["--ebpf-arrival", "xdp"] : [];
      const child = spawn(process.execPath, [cli, "top", "--ebpf", `${IN}:${OUT}`, "--json", ...args], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      let text = "";
      child.stderr.on("data", (data) => {
        text += data;
      });
      await until(() => text.includes("measuring"), text);
      const { programs, maps } = heldBy(child.pid ?? 0);
      expect(programs.length).toBeGreaterThanOrEqual(4);
      expect(maps.length).toBeGreaterThanOrEqual(8);
      expect(programs.every((number) => isThere("prog", number))).toBe(true);
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await ended;
      // The kernel frees them a moment later.
      await until(() => !programs.some((number) => isThere("prog", number)), "no program");
      await until(() => !maps.some((number) => isThere("map", number)), "no map");
      expect(ip("-d", "link", "show", IN)).not.toContain("xdp");
    }
  });

  test("a second XDP program is refused, a second hoptime at tc measures the same; interfaces go down and away", async () => {
    takeDown();
    build();
    queue("200kbit", "60kb");
    const way = { input: IN, output: OUT };
    const first = await SegmentDatapath.open({ ways: [way], epochNs: 1e9, arrival: "xdp" });
    const second = await SegmentDatapath.open({ ways: [way], epochNs: 1e9 });
    await expect(SegmentDatapath.open({ ways: [way], arrival: "xdp" })).rejects.toThrow(
      `${IN}: another XDP program is attached, and stays`,
    );
    const ending = new AbortController();
    const of = async (box: SegmentDatapath) => {
      const intervals: BoxInterval[] = [];
      for await (const [i] of watchBox({ box, key: FlowKeySpec.parse("hosts"), signal: ending.signal }))
        if (i) intervals.push(i);
      return intervals;
    };
    const watching = [of(first), of(second)];
    await python(A, UDP, "10.96.0.2", "9000", "60", "1000", "700", "0");
    // Packets waiting in the queue of an interface that goes down are lost.
    ip("link", "set", OUT, "down");
    ip("link", "set", OUT, "up");
    await new Promise((resolve) => setTimeout(resolve, 300));
    ip("link", "del", OUT);
    await new Promise((resolve) => setTimeout(resolve, 1200));
    ending.abort();
    const [one = [], two = []] = await Promise.all(watching);
    first.close();
    second.close();
    for (const intervals of [one, two]) {
      const flow = intervals.flatMap((i) => i.flows.filter((f) => f.flow === "10.96.0.1 > 10.96.0.2"));
      expect(flow.reduce((n, f) => n + f.sent, 0)).toBe(60);
      expect(flow.reduce((n, f) => n + f.lost, 0)).toBeGreaterThan(20);
    }
  });
});

/** Sums and quantiles of the intervals equal those of the packets: exactly, and within a bucket. */
function checkSums(intervals: readonly BoxInterval[], left: readonly Seen[]): void {
  const lengthNs = intervals[0]?.lengthNs ?? 1;
  const byStart = new Map<bigint, number[]>();
  for (const { timeNs, delayNs } of left) {
    const start = ((timeNs - BigInt(delayNs)) / BigInt(lengthNs)) * BigInt(lengthNs);
    byStart.set(start, [...(byStart.get(start) ?? []), delayNs]);
  }
  let compared = 0;
  for (const { startNs, latency, sent, lost, waiting } of intervals) {
    const delays = sorted(byStart.get(startNs) ?? []);
    // An arrival within a microsecond of a cut may be on the other side of it: this is the precision of the clock offset.
    if (delays.length !== sent - lost - waiting || !latency) continue;
    compared += delays.length;
    const mean = delays.reduce((n, d) => n + d, 0) / delays.length;
    expect(latency.meanNs).toBeCloseTo(mean, 3);
    expect([latency.minNs, latency.maxNs]).toEqual([delays[0], delays.at(-1)]);
    const variance = delays.reduce((n, d) => n + (d - mean) ** 2, 0) / delays.length;
    expect(Math.abs(latency.stdevNs - Math.sqrt(variance))).toBeLessThan(1 + 1e-4 * mean);
    for (const [q, value] of [
      [0.5, latency.p50Ns],
      [0.9, latency.p90Ns],
      [0.99, latency.p99Ns],
    ] as const) {
      const exact = new LogHistogram();
      exact.add(delays[nearestRank(q, delays.length) - 1] ?? 0);
      expect(value).toBe(exact.quantile(0.5, latency.minNs, latency.maxNs));
    }
  }
  expect(compared).toBeGreaterThan(0.8 * left.length);
}
