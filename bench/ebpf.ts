/**
 * Measures the cost per packet of sketching in the kernel: an empty XDP program, one that only reads the clock, LDA, LDS, and both at XDP, compared with
 * tcpdump -s 96 and an AF_PACKET tap (hoptime observe without --ebpf), all in one run, in turn. A generator sends live frames (BPF_F_TEST_XDP_LIVE_FRAMES) of
 * 256 flows through a veth pair. "program" is the run time per packet from the kernel's own statistics, which cost the same in every program. CPU is that of
 * the whole machine above an idle one, including generator and network stack. Needs root, clang, libbpf and tcpdump.
 *
 *   node scripts/bench.mjs ebpf [--packets 500000] [--rounds 5]
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { attach, interfaceIndex } from "../src/capture/ebpf/bpf-link.ts";
import { Datapath } from "../src/capture/ebpf/datapath.ts";
import { KernelSketch } from "../src/capture/ebpf/kernel-sketch.ts";
import { countRuns, runsOf, testRun } from "../src/capture/ebpf/test-run.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../src/capture/reader.ts";
import { findAmong, parseParameters } from "../src/estimators/parameters.ts";
import { ESTIMATORS } from "../src/estimators/table.ts";

const option = (name: string, otherwise: number) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const [packets, rounds] = [option("packets", 500_000), option("rounds", 5)];
const [FROM, TO] = [`htbf${process.pid % 100000}`, `htbt${process.pid % 100000}`];
const HOUR_NS = 3_600_000_000_000n;
const scratch = mkdtempSync(join(tmpdir(), "hoptime-ebpf-bench-"));
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { stdio: ["ignore", "pipe", 2] });

/** UDP over IPv4, 100 bytes. */
function frame(to: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(114);
  bytes.set(to);
  bytes.writeUInt16BE(0x0800, 12);
  bytes.set([0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2], 14);
  bytes.writeUInt16BE(9, 36);
  bytes.writeUInt16BE(80, 38);
  return bytes;
}

/** Busy time of all CPUs. */
function busyNs(): number {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
  const [, user = 0, nice = 0, system = 0, , , irq = 0, soft = 0] = line.split(/\s+/).map(Number);
  return (user + nice + system + irq + soft) * 1e7;
}

interface Contender {
  name: string;
  /** Starts it before packets come; `end` stops it and returns the number of packets it saw. */
  start(): Promise<{ program: number | null; end(): Promise<number | null> }>;
}

const bpf = (await Datapath.load({ what: "bench", object: "empty", programs: ["empty_xdp"] })).bpf;

function without(name: string, which: "empty_xdp" | "clock_xdp"): Contender {
  return {
    name,
    async start() {
      const datapath = await Datapath.load({ what: TO, object: "empty", programs: [which] });
      const program = datapath.program(which);
      const attached = attach(bpf, TO, "xdp", program);
      const end = async () => {
        const { runs } = runsOf(bpf, program);
        attached.close();
        datapath.close();
        return runs;
      };
      return { program, end };
    },
  };
}

const empty = without("empty XDP program", "empty_xdp");

function sketch(name: string, ...estimators: string[]): Contender {
  return {
    name,
    async start() {
      const chosen = estimators.map((text) => findAmong(ESTIMATORS, text));
      const parts = chosen.map((estimator) => {
        const part = estimator.kernel?.part(parseParameters(estimator, ""), DEFAULT_SEED);
        if (part === undefined || typeof part === "string") throw new Error(`${estimator.name}: ${part}`);
        return part;
      });
      const kept = await KernelSketch.load({
        ...{ name: TO, place: "xdp", seed: DEFAULT_SEED, cover: 64, direction: "in", sets: 2, below: null },
        ...{ mask: FlowKeySpec.parse("5tuple").maskWords(), filter: null, parts },
      });
      const startNs = BigInt(Date.now()) * 1_000_000n - 1_000_000n;
      for (const estimator of chosen) {
        const places = estimator.kernel?.places?.(parseParameters(estimator, ""), DEFAULT_SEED, startNs);
        if (places) kept.place(0, places);
      }
      kept.setWindow(0, { startNs, endNs: startNs + HOUR_NS, baseNs: startNs });
      kept.attach();
      const program = kept.datapath.program("observe_xdp");
      const end = async () => {
        const { packets: seen } = kept.counts(0);
        kept.close();
        return seen;
      };
      return { program, end };
    },
  };
}

function child(name: string, ready: RegExp, command: string, ...args: string[]): Contender {
  return {
    name,
    async start() {
      const started: ChildProcess = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
      let text = "";
      const ended = new Promise((resolve) => started.on("close", resolve));
      await new Promise<void>((resolve) => {
        for (const stream of [started.stdout, started.stderr])
          stream?.on("data", (data) => {
            text += String(data);
            if (ready.test(text)) resolve();
          });
      });
      const end = async () => {
        await sleep(1200);
        started.kill("SIGINT");
        await ended;
        const seen = /([\d,]+) packets captured/.exec(text) ?? /: ([\d,]+) packets \(/.exec(text);
        return seen ? Number(seen[1]?.replaceAll(",", "")) : null;
      };
      return { program: null, end };
    },
  };
}

const cli = join("dist", "cli", "main.js");
const observe = [
  cli,
  "observe",
  TO,
  "--direction",
  "in",
  "--point",
  "A",
  "--estimators",
  "lda,lds",
  "--to",
  scratch,
];
const contenders: Contender[] = [
  empty,
  without("clock alone", "clock_xdp"),
  sketch("XDP + lda", "lda"),
  sketch("XDP + lds", "lds"),
  sketch("XDP + lda + lds", "lda", "lds"),
  sketch("XDP + colate", "colate"),
  sketch("XDP + flows", "flows"),
  child("tcpdump -s 96", /listening on/, "tcpdump", "-i", TO, "-n", "-s", "96", "-w", "/dev/null", "inbound"),
  child("AF_PACKET lda + lds", /observing/, process.execPath, ...observe),
];

interface Sums {
  runNs: number[];
  cpuNs: number[];
  sent: number;
  seen: number;
}

async function main(): Promise<void> {
  run("ip", "link", "add", FROM, "type", "veth", "peer", "name", TO);
  for (const name of [FROM, TO]) {
    run("sysctl", "-qw", `net.ipv6.conf.${name}.disable_ipv6=1`);
    run("ip", "link", "set", name, "up");
  }
  // An interface accepts frames from an XDP program only if it polls (GRO).
  run("ethtool", "-K", TO, "gro", "on");
  const address = readFileSync(`/sys/class/net/${TO}/address`, "utf8").trim().split(":");
  const bytes = frame(Uint8Array.from(address.map((part) => Number.parseInt(part, 16))));
  const index = interfaceIndex(bpf, FROM);
  const generator = await Datapath.load({
    what: FROM,
    object: "generate",
    programs: ["forward"],
    constants: { ".rodata.config": new Uint8Array(new Uint32Array([index, 0]).buffer) },
  });
  const generate = (count: number) =>
    testRun(bpf, generator.program("forward"), bytes, {
      repeat: count,
      liveFrames: { ingress: index, batch: 64 },
    });
  const stop = countRuns(bpf);
  const sums = new Map<string, Sums>();
  for (let round = 0; round < rounds; round++)
    for (const { name, start } of contenders) {
      const { program, end } = await start();
      generate(1000);
      await sleep(100);
      const before = program === null ? null : runsOf(bpf, program);
      const cpu = busyNs();
      generate(packets);
      const cpuNs = busyNs() - cpu;
      await sleep(100);
      const after = program === null ? null : runsOf(bpf, program);
      const own = sums.get(name) ?? { runNs: [], cpuNs: [], sent: 0, seen: 0 };
      if (before && after) own.runNs.push((after.timeNs - before.timeNs) / (after.runs - before.runs));
      own.cpuNs.push(cpuNs / packets);
      own.sent += packets + 1000;
      own.seen += (await end()) ?? Number.NaN;
      sums.set(name, own);
    }
  stop();
  generator.close();
  report(sums);
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

function report(sums: ReadonlyMap<string, Sums>): void {
  const fastest = (values: number[]) => (values.length === 0 ? Number.NaN : Math.min(...values));
  const base = fastest(sums.get(empty.name)?.runNs ?? []);
  console.log(
    `${packets} packets of 114 bytes, ${rounds} rounds in turn; program: the fastest round, CPU: medians`,
  );
  console.log("                       program    above empty    machine CPU    packets not seen");
  for (const [name, { runNs, cpuNs, sent, seen }] of sums) {
    const own = fastest(runNs);
    const cells = Number.isNaN(own) ? ["–", "–"] : [`${own.toFixed(0)} ns`, `${(own - base).toFixed(0)} ns`];
    const row = [...cells, `${median(cpuNs).toFixed(0)} ns`, `${sent - seen}`];
    console.log(
      `${name.padEnd(20)} ${row.map((cell, i) => cell.padStart([9, 15, 15, 20][i] ?? 9)).join("")}`,
    );
  }
}

process.on("exit", () => {
  execFileSync("ip", ["link", "del", FROM]);
  rmSync(scratch, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
await main();
process.exit(0);
