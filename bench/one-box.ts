/**
 * What measuring a way through one box costs per packet: the time that each program of datapath/segment.bpf.c takes, as the kernel counts it (bpf_stats), while frames go through a bridge between
 * two veth pairs; and the frames per second that got through with and without the programs, at full rate. Needs root and gcc.
 *
 *   node scripts/bench.mjs one-box [--seconds 3] [--flows 1000] [--bytes 100]
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SegmentDatapath } from "../src/capture/ebpf/segment.ts";
import type { SegmentPlan } from "../src/capture/ebpf/segment-load.ts";
import { countRuns, runsOf } from "../src/capture/ebpf/test-run.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { watchBox } from "../src/observe/watch-box.ts";

const option = (name: string, otherwise: number) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const [seconds, flows, bytes] = [option("seconds", 3), option("flows", 1000), option("bytes", 100)];
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

// Source and destination of the frames are the same address, which the bridge would not send back where it came from.
execFileSync("bridge", ["link", "set", "dev", IN, "learning", "off"]);
execFileSync("bridge", ["fdb", "replace", "02:02:02:02:02:02", "dev", OUT, "master", "static"]);

const sent = () => Number(readFileSync(`/sys/class/net/${OUT}/statistics/tx_packets`, "utf8"));

/** Frames per second out of the box while `measure` waits. */
async function rateOf(measure: () => Promise<void>): Promise<number> {
  sending = spawn("ip", ["netns", "exec", HOSTS[0] ?? "", sender, "e0", String(flows), "0", String(bytes)], {
    stdio: "ignore",
  });
  await sleep(300);
  const [before, start] = [sent(), performance.now()];
  await measure();
  const rate = ((sent() - before) * 1000) / (performance.now() - start);
  const ended = new Promise((resolve) => sending?.once("exit", resolve));
  sending.kill("SIGTERM");
  await ended;
  return rate;
}

const count = (n: number) => Math.round(n).toLocaleString("en");
const plans: [string, Partial<SegmentPlan>][] = [
  ["tc, tracepoint", { departure: "tracepoint" }],
  ["tc, socket", { departure: "socket" }],
  ["xdp, socket", { arrival: "xdp", departure: "socket" }],
];
for (const [name, plan] of plans) {
  const bare = await rateOf(() => sleep(seconds * 1000));
  const box = await SegmentDatapath.open({ ways: [{ input: IN, output: OUT }], epochNs: 1e9, ...plan });
  const ending = new AbortController();
  const watching = (async () => {
    for await (const _ of watchBox({ box, key: FlowKeySpec.parse(), signal: ending.signal }));
  })();
  const rate = await rateOf(() => sleep(seconds * 1000));
  const stop = countRuns(box.datapath.bpf);
  await rateOf(() => sleep(seconds * 1000));
  stop();
  const programs = [
    ...["segment_in", "segment_out", box.departure === "socket" ? "segment_tap" : "segment_left"],
    ...(plan.arrival === "xdp" ? ["segment_xdp"] : []),
  ];
  const costs = programs.map((program) => {
    const { runs, timeNs } = runsOf(box.datapath.bpf, box.datapath.program(program));
    return `${program} ${Math.round(timeNs / Math.max(1, runs))} ns`;
  });
  ending.abort();
  await watching;
  box.close();
  const share = Math.round((100 * rate) / bare);
  console.log(`${name}: ${costs.join(", ")}; ${count(rate)} packets/s, ${share} % of ${count(bare)} without`);
}
