/**
 * A router observed from inside its kernel: two hosts and a router with a token-bucket queue in network namespaces, with UDP and TCP over IPv4, IPv6 and a
 * VLAN. eBPF programs run on both sides of the queue, with captures by the same command in parallel, and tcpdump as the reference. The records can be paired
 * with each other and with those of the captures.
 */
import type { ChildProcess } from "node:child_process";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { programsAt } from "../../src/capture/ebpf/bpf-link.ts";
import { findLibbpf } from "../../src/capture/ebpf/libbpf.ts";
import { datapathMissing } from "../support/datapath.ts";
import { buildDualRouter, DUAL_RECEIVER } from "../support/dual-router.ts";
import { type ExactEpoch, exactEpochs } from "../support/exact-epochs.ts";
import { NetworkLab, namespacesMissing } from "../support/namespaces.ts";

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
const missing =
  namespacesMissing() ??
  (await datapathMissing("observe")) ??
  (existsSync(cli) ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: a router observed by eBPF programs (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-ebpf-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let lab: NetworkLab;
beforeEach(() => {
  lab = new NetworkLab();
});
afterEach(() => lab.close());

const EPOCHS = Number(process.env["HOPTIME_EBPF_EPOCHS"] ?? 12);
/**
 * Number of epochs whose 95 % interval may miss: three standard deviations above 5 %. Of 12 epochs that is two. Three or more have a probability of 0.02 for
 * each of six pairs and estimators, at most 0.12 for all of them, and at most 0.002 three times in a row.
 */
const missesOf = (epochs: number) => Math.floor(0.05 * epochs + 3 * Math.sqrt(0.05 * 0.95 * epochs));
const EPOCH_MS = 500;
const EPOCH_NS = BigInt(EPOCH_MS) * 1_000_000n;
const KILLS = Number(process.env["HOPTIME_EBPF_KILLS"] ?? 3);
const CLANG = [
  "-O2",
  "-g",
  "-target",
  "bpf",
  "-I/usr/include/x86_64-linux-gnu",
  "-I/usr/include/aarch64-linux-gnu",
];
const CROSSING = "dst net 10.96.2.0/24 or dst net fd96:2::/64";

/**
 * UDP over IPv4, IPv6 and the VLAN, and TCP, in bursts slightly above the rate of the queue. Each burst begins with 70 packets at once, which exceed the queue
 * however slow the machine is.
 */
const SENDER = `
  const net = require("node:net"), dgram = require("node:dgram");
  const [u4, u6] = [dgram.createSocket("udp4"), dgram.createSocket("udp6")];
  const payload = Buffer.alloc(700), start = performance.now();
  let owed = 0, before = start, sent = 0, burst = 0;
  const tcp = net.connect(5000, "10.96.2.1");
  tcp.on("error", () => {});
  setInterval(() => {
    const now = performance.now(), t = now - start;
    owed = Math.min(45, owed + (now - before) * (t % 700 < 200 ? 1.35 : 0.4));
    before = now;
    if (Math.floor(t / 700) > burst) [burst, owed] = [Math.floor(t / 700), 70];
    for (; owed >= 1; owed--) {
      payload.writeUInt32BE(sent++, 0);
      if (sent % 3 === 0) u6.send(Buffer.from(payload), 9000, "fd96:2::1");
      else if (sent % 3 === 1) u4.send(Buffer.from(payload), 9000, "10.96.2.1");
      else u4.send(Buffer.from(payload), 9000, "10.96.2.7");
    }
    if (tcp.writableLength < 20000 && sent % 2 === 0) tcp.write(payload);
  }, 2);`;

/** 40 MB over TCP, as fast as possible. */
const JUMBO_SENDER = `
  const tcp = require("node:net").connect(5000, "10.97.2.1"), bytes = Buffer.alloc(1e6);
  let left = 40;
  const next = () => left-- > 0 ? tcp.write(bytes, next) : tcp.end(() => process.exit());
  tcp.on("connect", next);`;

function build(): void {
  buildDualRouter(lab, 96);
  lab.run("b", "ip", "addr", "add", "10.96.2.7/24", "dev", "e0");
  // A VLAN on every kernel: programs add and remove the tag in the frame itself, as on a wire.
  const tag = join(scratch, "tag.bpf.o");
  execFileSync("clang", [...CLANG, "-c", join(import.meta.dirname, "..", "support", "tag.bpf.c"), "-o", tag]);
  for (const [host, device, way, section] of [
    ["a", "e0", "egress", "tc/push"],
    ["r", "in", "ingress", "tc/pop"],
  ] as const) {
    lab.offload(host, device, "txvlan", "off");
    lab.run(host, "tc", "qdisc", "add", "dev", device, "clsact");
    lab.run(host, "tc", "filter", "add", "dev", device, way, "bpf", "da", "obj", tag, "sec", section);
  }
  lab.queue("r", "out", 8, 32);
}

interface Running {
  child: ChildProcess;
  text(): string;
  end(): Promise<void>;
}

async function observe(host: string, ...args: string[]): Promise<Running> {
  const child = lab.start(host, process.execPath, cli, "observe", ...args);
  let text = "";
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  child.stdout?.on("data", (data) => {
    text += data;
  });
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on("data", (data) => {
      text += data;
      if (text.includes("observing")) resolve();
    });
    ended.then(() => reject(new Error(`observe ended: ${text}`)));
  });
  return {
    child,
    text: () => text,
    async end() {
      child.kill("SIGINT");
      expect(await ended, text).toBe(0);
    },
  };
}

interface Epoch {
  startNs: string;
  edge: boolean;
  latency: { lowNs: number; highNs: number } | null;
  sent: number;
  received: number;
  lostLow: number;
  lostHigh: number;
}

function query(dir: string, from: string, to: string, estimator = "lda"): Epoch[] {
  const args = ["query", dir, "--between", from, to, "--series", "--estimator", estimator, "--json"];
  const text = execFileSync(process.execPath, [cli, ...args], { encoding: "utf8", maxBuffer: 1 << 26 });
  return JSON.parse(text).estimates[estimator].series;
}

/** Each takes a packet's time separately: tcpdump's socket some microseconds after the program at XDP. */
const TIMESTAMP_NS = 20_000;

interface Judged {
  judged: number;
  held: number;
  lossHeld: number;
}

function judge(epochs: readonly Epoch[], exact: ReadonlyMap<string, ExactEpoch>): Judged {
  const out = { judged: 0, held: 0, lossHeld: 0 };
  for (const { startNs, edge, latency, sent, received, lostLow, lostHigh } of epochs) {
    const truth = exact.get(startNs);
    if (!truth || edge || truth.arrived < 50) continue;
    out.judged++;
    const low = (latency?.lowNs ?? Number.POSITIVE_INFINITY) - TIMESTAMP_NS;
    const high = (latency?.highNs ?? Number.NEGATIVE_INFINITY) + TIMESTAMP_NS;
    const held = low <= truth.withinMeanNs && truth.withinMeanNs <= high;
    if (held) out.held++;
    else if (process.env["HOPTIME_SHOW"]) console.log(startNs, JSON.stringify({ latency, truth }));
    // Packets at either end are exact except for those right at a cut. The true loss is within its bounds, except for packets in transit at the cuts.
    const off = Math.abs(sent - truth.sent) + Math.abs(received - truth.received);
    const within = lostLow - truth.crossing <= truth.lost && truth.lost <= lostHigh + truth.crossing;
    if (off <= truth.atEdge && within) out.lossHeld++;
    else if (process.env["HOPTIME_SHOW"])
      console.log("loss", JSON.stringify({ sent, received, lostLow, lostHigh, truth }));
  }
  return out;
}

function judgeCuts(kernel: readonly Epoch[], captured: readonly Epoch[]): void {
  const whole = (epochs: readonly Epoch[]) => epochs.filter(({ edge }) => !edge);
  const text = (epochs: readonly Epoch[]) => epochs.map((e) => `${e.sent}/${e.received}`).join(" ");
  if (process.env["HOPTIME_SHOW"]) console.log(text(kernel), "|", text(captured));
  const pairs = new Set(whole(captured).map((e) => `${e.sent} ${e.received}`));
  const equal = whole(kernel).filter((e) => pairs.has(`${e.sent} ${e.received}`));
  expect(whole(kernel).length).toBeGreaterThan(3);
  // Packets processed by two CPUs can be reordered between the program and the packet socket, so a cut may be one packet later.
  expect(equal.length, `${text(kernel)} | ${text(captured)}`).toBeGreaterThanOrEqual(
    whole(kernel).length / 2,
  );
}

test.skipIf(missing !== null)(
  "records of eBPF programs pair with each other and with those of captures: loss exact, means within the bars",
  { timeout: 200_000 + EPOCHS * EPOCH_MS * 3, retry: EPOCHS >= 100 ? 0 : 2 },
  async () => {
    build();
    const dir = mkdtempSync(join(scratch, "run-"));
    const [before, after, records] = [join(dir, "in.pcap"), join(dir, "out.pcap"), join(dir, "records")];
    const common = [
      "--estimators",
      "lda,lds",
      "--epoch",
      `${EPOCH_MS}ms`,
      "--filter",
      CROSSING,
      "--to",
      records,
    ];
    const [cuts, truth] = [join(dir, "cuts"), join(dir, "truth")];
    const delimited = ["--estimators", "lda", "--epoch", "256p", "--filter", CROSSING];
    const observers = await Promise.all([
      observe("r", "in", "--ebpf", "--point", "A", ...common),
      observe("r", "out", "--ebpf", "--direction", "out", "--point", "B", ...common),
      observe("r", "in", "--direction", "in", "--point", "A2", ...common),
      observe("r", "out", "--direction", "out", "--point", "B2", ...common),
      observe("r", "in", "--ebpf", "--at", "tc-ingress", "--point", "A", ...delimited, "--to", cuts),
      observe("r", "out", "--ebpf", "--direction", "out", "--point", "B", ...delimited, "--to", cuts),
    ]);
    expect(observers[0]?.text()).toContain(
      "observing in: packets received, in the kernel by eBPF at xdp (native XDP)",
    );
    expect(observers[1]?.text()).toContain("observing out: packets sent, in the kernel by eBPF at socket");
    // An XDP program on a veth enables GRO, so captures behind it would contain merged packets.
    lab.offload("r", "in", "gro", "off");
    await lab.capture("r", "in", "in", before);
    await lab.capture("r", "out", "out", after);
    const receiver = lab.start("b", process.execPath, "-e", DUAL_RECEIVER);
    await new Promise((resolve) => receiver.stdout?.once("data", resolve));
    const sender = lab.start("a", process.execPath, "-e", SENDER);
    await sleep(EPOCH_MS * (EPOCHS + 3));
    sender.kill();
    await sleep(300);
    await Promise.all(observers.map((observer) => observer.end()));
    if (process.env["HOPTIME_SHOW"]) for (const observer of observers) console.log(observer.text());
    // tcpdump gets the last packets when their block of the ring is full, or after a second.
    await sleep(1500);
    expect(await lab.stopCaptures(), "packets that tcpdump dropped: the truth has holes").toBe(0);
    const exact = await exactEpochs({ before, after, filter: CROSSING, epochNs: EPOCH_NS });
    expect([...exact.values()].reduce((n, epoch) => n + epoch.lost, 0)).toBeGreaterThan(0);
    for (const [from, to] of [
      ["A", "B"],
      ["A", "B2"],
      ["A2", "B"],
    ] as const)
      for (const estimator of ["lda", "lds"]) {
        const counts = judge(query(records, from, to, estimator), exact);
        const text = `${from} ${to} ${estimator}: ${JSON.stringify(counts)}`;
        if (process.env["HOPTIME_SHOW"]) console.log(text);
        expect(counts.judged, text).toBeGreaterThanOrEqual(EPOCHS - 3);
        expect(counts.held, text).toBeGreaterThanOrEqual(counts.judged - missesOf(counts.judged));
        expect(counts.lossHeld, text).toBe(counts.judged);
      }
    // Epochs from delimiter to delimiter; the same packets cut the captures.
    for (const [point, file] of [
      ["A", before],
      ["B", after],
    ] as const)
      execFileSync(process.execPath, [cli, "observe", file, "--point", point, ...delimited, "--to", truth]);
    judgeCuts(query(cuts, "A", "B"), query(truth, "A", "B"));
  },
);

test.skipIf(missing !== null)(
  "a process that is killed leaves no program attached",
  { timeout: 20_000 * KILLS },
  async () => {
    const bpf = await findLibbpf();
    if (typeof bpf === "string") throw new Error(bpf);
    const name = `htk${process.pid % 100000}`;
    execFileSync("ip", ["link", "add", name, "type", "veth", "peer", "name", `${name}p`]);
    try {
      for (const device of [name, `${name}p`]) execFileSync("ip", ["link", "set", device, "up"]);
      for (let round = 0; round < KILLS; round++) {
        const place = (["xdp", "tc-ingress", "tc-egress"] as const)[round % 3] ?? "xdp";
        const to = join(scratch, `kill-${round}`);
        const child = spawn(
          process.execPath,
          [cli, "observe", name, "--ebpf", "--at", place, "--point", "K", "--to", to],
          { stdio: ["ignore", "ignore", "pipe"] },
        );
        const ended = new Promise((resolve) => child.on("close", resolve));
        await new Promise<void>((resolve) =>
          child.stderr.on("data", (data) => String(data).includes("observing") && resolve()),
        );
        expect(programsAt(bpf, name, place)).toHaveLength(1);
        child.kill("SIGKILL");
        await ended;
        // The kernel removes links soon after their last file descriptor is closed, but not at once.
        for (let i = 0; i < 100 && programsAt(bpf, name, place).length > 0; i++) await sleep(20);
        expect(programsAt(bpf, name, place), `round ${round}, ${place}`).toEqual([]);
      }
    } finally {
      execFileSync("ip", ["link", "del", name]);
    }
  },
);

/** 300 packets to one port, 200 to a second, 100 to a third. */
const TO_PORTS = `
  const socket = require("node:dgram").createSocket("udp4"), payload = Buffer.alloc(100);
  let sent = 0;
  const next = () => {
    payload.writeUInt32BE(sent, 0);
    const port = sent % 6 < 3 ? 9000 : sent % 6 < 5 ? 9001 : 9002;
    if (sent++ < 600) socket.send(payload, port, "10.98.2.1", () => setTimeout(next, 1));
    else socket.close();
  };
  next();`;

test.skipIf(missing !== null)(
  "several segments of one point: a program for each, with records like those of a capture",
  { timeout: 120_000 },
  async () => {
    buildDualRouter(lab, 98);
    const dir = mkdtempSync(join(scratch, "lanes-"));
    const segments = ["--segment", "A:B=udp dst port 9000", "--segment", "A:C=udp dst port 9001"];
    const common = ["--point", "A", "--estimators", "lda,flows", "--epoch", "1m", "--json", ...segments];
    const observers = await Promise.all([
      observe("r", "in", "--ebpf", ...common, "--to", join(dir, "kernel")),
      observe("r", "in", "--direction", "in", ...common, "--to", join(dir, "capture")),
    ]);
    expect(observers[0]?.text()).toContain("in the kernel by eBPF at tc-ingress, 2 programs");
    const sender = lab.start("a", process.execPath, "-e", TO_PORTS);
    await new Promise((resolve) => sender.once("exit", resolve));
    await sleep(300);
    await Promise.all(observers.map((observer) => observer.end()));
    for (const observer of observers) {
      const { lanes } = JSON.parse(observer.text().slice(observer.text().indexOf("{"))) as Report;
      expect(lanes.map(({ segment, packets }) => [segment, packets])).toEqual([
        ["A:B", 300],
        ["A:C", 200],
      ]);
    }
    const { text } = await observeRefused("r", "in", "--ebpf", "--at", "xdp", ...common, "--to", dir);
    expect(text).toContain("2 segments or classes take 2 programs, and an interface takes one XDP program");
  },
);

async function observeRefused(host: string, ...args: string[]): Promise<{ text: string }> {
  const child = lab.start(host, process.execPath, cli, "observe", ...args);
  let text = "";
  child.stderr?.on("data", (data) => {
    text += data;
  });
  expect(await new Promise((resolve) => child.on("close", resolve))).toBe(2);
  return { text };
}

test.skipIf(missing !== null)("rights that are missing are named, and packets captured instead", () => {
  const unprivileged = (...args: string[]) => {
    const command = [process.execPath, cli, "observe", "lo", "--ebpf", "--point", "A", ...args];
    const without = ["--bounding-set=-all", "--inh-caps=-all", ...command, "--to", join(scratch, "no-right")];
    const { status, stderr } = spawnSync("setpriv", without, { encoding: "utf8" });
    return `${status} ${stderr}`;
  };
  const rights = "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";
  // Capturing needs a permission, too.
  expect(unprivileged()).toMatch(
    new RegExp(
      `^2 .*lo: no permission to load eBPF programs; packets are captured instead \\(AF_PACKET\\); for eBPF: ${rights}\n.*CAP_NET_RAW`,
    ),
  );
  expect(unprivileged("--at", "xdp")).toBe(`2 hoptime: lo: no permission to load eBPF programs; ${rights}\n`);
});

interface Report {
  lanes: { segment: string; packets: number }[];
  captures: { packets: number; ipPackets: number; dropped: number }[];
}

test.skipIf(missing !== null)(
  "jumbo frames under load: each is counted as it was on the wire; merged by GRO, as a capture counts them",
  { timeout: 120_000 },
  async () => {
    buildDualRouter(lab, 97);
    for (const [host, device] of [
      ["a", "e0"],
      ["r", "in"],
      ["r", "out"],
      ["b", "e0"],
    ] as const)
      lab.run(host, "ip", "link", "set", device, "mtu", "9000");
    const to = ["--estimators", "lda", "--json", "--to", mkdtempSync(join(scratch, "jumbo-"))];
    const observers = await Promise.all([
      observe("r", "in", "--ebpf", "--at", "xdp", "--point", "X", ...to),
      observe("r", "in", "--ebpf", "--at", "tc-ingress", "--point", "T", ...to),
      observe("r", "in", "--direction", "in", "--point", "C", ...to),
    ]);
    lab.offload("a", "e0", "tso", "on", "gso", "on", "tx", "on");
    lab.offload("r", "in", "gro", "on");
    const receiver = lab.start("b", process.execPath, "-e", DUAL_RECEIVER);
    await new Promise((resolve) => receiver.stdout?.once("data", resolve));
    const sender = lab.start("a", process.execPath, "-e", JUMBO_SENDER);
    await new Promise((resolve) => sender.once("exit", resolve));
    // Data in the sender's socket arrives when the sender has ended.
    const count = () => Number(lab.run("r", "cat", "/sys/class/net/in/statistics/rx_packets"));
    let received = count();
    for (let before = -50; received - before > 5; received = count()) {
      before = received;
      await sleep(300);
    }
    await Promise.all(observers.map((observer) => observer.end()));
    const [wire, merged, captured] = observers.map((observer) => reportOf(observer.text()));
    if (process.env["HOPTIME_SHOW"]) console.log(JSON.stringify({ wire, merged, captured, received }));
    // 40 MB in frames of up to 9000 bytes.
    expect(wire?.packets).toBeGreaterThan(4400);
    // Except for other packets of the hosts before and after (neighbour discovery).
    expect(Math.abs((wire?.packets ?? 0) - received)).toBeLessThan(50);
    expect(merged?.packets).toBeLessThanOrEqual(wire?.packets ?? 0);
    expect(Math.abs((merged?.packets ?? 0) - (captured?.packets ?? 0))).toBeLessThan(50);
    expect([wire?.dropped, merged?.dropped, captured?.dropped]).toEqual([0, 0, 0]);
  },
);

function reportOf(text: string): Report["captures"][number] | undefined {
  const report = JSON.parse(text.slice(text.indexOf("{"))) as Report;
  return report.captures[0];
}
