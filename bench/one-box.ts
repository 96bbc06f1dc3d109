/**
 * Measures the cost per packet of measuring a path through one host, while frames pass a bridge between two veth pairs at full rate: the run time of each
 * program of datapath/segment.bpf.c from the kernel's statistics (bpf_stats, which cost about 30 ns per program), and the CPU time of a packet's whole path
 * (sender, veth, bridge, veth, receiver) with and without the programs, of the sending process and of softirqs. CPU time, because the rate depends on other
 * load of the machine. In turn; the cheapest of the rounds counts. Needs root and gcc.
 *
 *   node scripts/bench.mjs one-box [--seconds 1] [--rounds 3] [--flows 1000] [--bytes 100]
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { attach } from "../src/capture/ebpf/bpf-link.ts";
import { Datapath } from "../src/capture/ebpf/datapath.ts";
import { SegmentDatapath } from "../src/capture/ebpf/segment.ts";
import type { SegmentPlan } from "../src/capture/ebpf/segment-load.ts";
import { countRuns, runsOf } from "../src/capture/ebpf/test-run.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { watchBox } from "../src/observe/watch-box.ts";

const option = (name: string, otherwise: number) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const [seconds, rounds] = [option("seconds", 1), option("rounds", 3)];
const [flows, bytes] = [option("flows", 1000), option("bytes", 100)];
const id = process.pid % 100000;
const [IN, OUT, BRIDGE, HOSTS] = [`hbb${id}i`, `hbb${id}o`, `hbb${id}r`, [`hbb${id}a`, `hbb${id}b`]];
const ip = (...args: string[]) => execFileSync("ip", args, { stdio: ["ignore", "pipe", 2] });
const sender = join("dist", "bench", "send-frames");

let sending: ChildProcess | null = null;
process.on("exit", () => {
  sending?.kill("SIGKILL");
  for (const host of HOSTS) spawnSync("ip", ["netns", "del", host]);
  spawnSync("ip", ["link", "del", BRIDGE]);
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

mkdirSync(join("dist", "bench"), { recursive: true });
execFileSync("gcc", ["-O2", "-o", sender, join("bench", "reference", "send-frames.c")]);
ip("link", "add", BRIDGE, "type", "bridge");
ip("link", "set", BRIDGE, "up");
for (const [i, port] of [IN, OUT].entries()) {
  const host = HOSTS[i] ?? "";
  ip("netns", "add", host);
  ip("link", "add", port, "type", "veth", "peer", "name", "e0", "netns", host);
  ip("link", "set", port, "master", BRIDGE, "up");
  ip("-n", host, "link", "set", "e0", "up");
}

// Source and destination of the frames have the same address; a bridge that learned it would not forward the frames.
execFileSync("bridge", ["link", "set", "dev", IN, "learning", "off"]);
execFileSync("bridge", ["fdb", "replace", "02:02:02:02:02:02", "dev", OUT, "master", "static"]);

const sent = () => Number(readFileSync(`/sys/class/net/${OUT}/statistics/tx_packets`, "utf8"));

function isSoftirq(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("ksoftirqd");
  } catch {
    return false;
  }
}
const softirqs = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && isSoftirq(pid));
/** CPU time in ns. Softirqs that run on top of a process count for the process. */
const cpuOf = (pids: string[]) =>
  pids.reduce((ns, pid) => ns + Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[0]), 0);

/** Returns the CPU time in ns per frame that left the host. */
async function costNs(): Promise<number> {
  const args = ["netns", "exec", HOSTS[0] ?? "", sender, "e0", String(flows), "0", String(bytes)];
  const started = spawn("ip", args, { stdio: "ignore" });
  sending = started;
  await sleep(200);
  const pids = [String(started.pid), ...softirqs];
  const [before, cpu] = [sent(), cpuOf(pids)];
  await sleep(seconds * 1000);
  const cost = (cpuOf(pids) - cpu) / (sent() - before);
  const ended = new Promise((resolve) => started.once("exit", resolve));
  started.kill("SIGTERM");
  await ended;
  return cost;
}

/** Measures the cost of XDP on a veth itself: the kernel copies each packet into a buffer for XDP. */
async function emptyXdpNs(): Promise<number> {
  const empty = await Datapath.load({ what: IN, object: "empty", programs: ["empty_xdp"] });
  const attached = attach(empty.bpf, IN, "xdp", empty.program("empty_xdp"));
  const cost = await costNs();
  attached.close();
  empty.close();
  return cost;
}

const plans: [string, Partial<SegmentPlan>][] = [
  ["tc, tracepoint", { departure: "tracepoint" }],
  ["tc, socket", { departure: "socket" }],
  ["xdp, socket", { arrival: "xdp", departure: "socket" }],
];

for (const [name, plan] of plans) {
  const [bare, measured, empty]: [number[], number[], number[]] = [[], [], []];
  const programNs = new Map<string, number[]>();
  for (let round = 0; round < rounds; round++) {
    bare.push(await costNs());
    if (plan.arrival === "xdp") empty.push(await emptyXdpNs());
    const box = await SegmentDatapath.open({ ways: [{ input: IN, output: OUT }], epochNs: 1e9, ...plan });
    const ending = new AbortController();
    const watching = (async () => {
      for await (const _ of watchBox({ box, key: FlowKeySpec.parse(), signal: ending.signal }));
    })();
    measured.push(await costNs());
    const stop = countRuns(box.datapath.bpf);
    await costNs();
    stop();
    const programs = [
      ...(plan.arrival === "xdp" ? ["segment_xdp"] : []),
      ...["segment_in", "segment_out", box.departure === "socket" ? "segment_tap" : "segment_left"],
    ];
    for (const program of programs) {
      const { runs, timeNs } = runsOf(box.datapath.bpf, box.datapath.program(program));
      programNs.set(program, [...(programNs.get(program) ?? []), timeNs / Math.max(1, runs)]);
    }
    ending.abort();
    await watching;
    box.close();
  }
  const least = (values: number[]) => Math.round(Math.min(...values));
  const costs = [...programNs].map(([program, values]) => `${program} ${least(values)} ns`);
  const [without, withBox] = [least(bare), least(measured)];
  const alone = empty.length === 0 ? "" : ` (an empty XDP program alone: + ${least(empty) - without} ns)`;
  console.log(
    `${name}: ${costs.join(", ")}; a packet's way ${withBox} ns of CPU, ${without} ns without: + ${withBox - without} ns${alone}`,
  );
}
