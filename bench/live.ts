/**
 * Measures the cost per packet of observing an interface: `hoptime observe IFACE` with lda and lds, compared with `tcpdump -s 96 -w /dev/null`, which only
 * copies, and with
 * `tcpdump -w - | hoptime observe -`. The interface is a veth pair in a network namespace; bench/reference/send-frames.c sends frames at full rate. The three run in turn, in several rounds. CPU time
 * (user and system) comes from /proc between two points in time while packets arrive, so start-up is left out; packets are counted by the interface. Needs root
 * and gcc.
 *
 *   node scripts/bench.mjs live [--rounds 5] [--seconds 4] [--rate 0] [--flows 1000] [--bytes 100] [--ways tcpdump,observe,pipe] [--warm-up 15]
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const option = (name: string, otherwise: number) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const [rounds, seconds, rate] = [option("rounds", 5), option("seconds", 4), option("rate", 0)];
const [flows, bytes] = [option("flows", 1000), option("bytes", 100)];
/** Leaves out start-up and compiling: code that runs once per epoch is compiled after about ten epochs. */
const WARM_UP_MS = 1000 * option("warm-up", 15);
const asked = process.argv[process.argv.indexOf("--ways") + 1]?.split(",");

const space = `hopbench${process.pid}`;
const scratch = mkdtempSync(join(tmpdir(), "hoptime-live-"));
const cli = join("dist", "cli", "main.js");
const ip = (...args: string[]) => execFileSync("ip", args, { stdio: ["ignore", "pipe", 2] });
const inside = (...command: string[]) => ["netns", "exec", space, ...command];
process.on("exit", () => {
  for (const child of started) child.kill("SIGKILL");
  execFileSync("ip", ["netns", "del", space]);
  rmSync(scratch, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const started = new Set<ChildProcess>();
function start(command: string[], stdio: "ignore" | "pipe" | number = "pipe"): ChildProcess {
  const child = spawn("ip", inside(...command), { stdio: [stdio, "pipe", "pipe"] });
  started.add(child);
  child.on("exit", () => started.delete(child));
  return child;
}

/** Returns the CPU seconds of all threads of a process. `ip netns exec` is replaced by the command itself, so the child process is the right one. */
function cpuSeconds(child: ChildProcess): number {
  const threads = readdirSync(`/proc/${child.pid}/task`);
  const ns = threads.map((id) =>
    Number(readFileSync(`/proc/${child.pid}/task/${id}/schedstat`, "utf8").split(" ")[0]),
  );
  return ns.reduce((sum, n) => sum + n, 0) / 1e9;
}

function received(): number {
  return Number(
    execFileSync("ip", inside("cat", "/sys/class/net/vb/statistics/rx_packets"), { encoding: "utf8" }),
  );
}

interface Cost {
  nsPerPacket: number;
  dropped: number;
  packets: number;
  mpps: number;
}

async function measure(observers: ChildProcess[], dropped: (texts: string[]) => number): Promise<Cost> {
  const texts = observers.map(() => "");
  for (const [i, child] of observers.entries()) {
    child.stderr?.on("data", (data) => (texts[i] += String(data)));
    if (i === observers.length - 1) child.stdout?.on("data", (data) => (texts[i] += String(data)));
  }
  await sleep(WARM_UP_MS);
  const [packets, cpu, at] = [received(), observers.map(cpuSeconds), performance.now()];
  await sleep(1000 * seconds);
  const used = observers.reduce((sum, child, i) => sum + cpuSeconds(child) - (cpu[i] ?? 0), 0);
  const came = received() - packets;
  const mpps = came / (performance.now() - at) / 1e3;
  const ends = observers.map((child) => new Promise((resolve) => child.on("close", resolve)));
  observers[0]?.kill("SIGINT");
  await Promise.all(ends);
  return { nsPerPacket: (1e9 * used) / came, dropped: dropped(texts), packets: came, mpps };
}

const byTcpdump = (texts: string[]) =>
  Number(/(\d+) packets dropped by kernel/.exec(texts[0] ?? "")?.[1] ?? Number.NaN);
const byReport = (texts: string[]) => {
  const text = texts.at(-1) ?? "";
  return JSON.parse(text.slice(text.indexOf("{"))).captures[0].dropped ?? 0;
};
const RING_KB = "32768";
const observing = (what: string, to: string) => [
  ...[process.execPath, cli, "observe", what, "--point", "A", "--estimators", "lda,lds"],
  ...["--to", join(scratch, to), "--json"],
];

const ways: Record<string, () => Promise<Cost>> = {
  tcpdump: () =>
    measure([start(["tcpdump", "-i", "vb", "-n", "-s", "96", "-B", RING_KB, "-w", "/dev/null"])], byTcpdump),
  observe: () => measure([start(observing("vb", "live"))], byReport),
  pipe: () => {
    const capture = start(["tcpdump", "-i", "vb", "-n", "-s", "96", "-B", RING_KB, "-w", "-"]);
    const reader = start(observing("-", "piped"));
    if (capture.stdout && reader.stdin) capture.stdout.pipe(reader.stdin);
    return measure([capture, reader], byTcpdump);
  },
};

mkdirSync(join("dist", "bench"), { recursive: true });
const sender = join("dist", "bench", "send-frames");
execFileSync("gcc", ["-O2", "-o", sender, join("bench", "reference", "send-frames.c")], {
  stdio: ["ignore", 2, 2],
});
ip("netns", "add", space);
ip("-n", space, "link", "add", "va", "type", "veth", "peer", "name", "vb");
for (const device of ["va", "vb"]) ip("-n", space, "link", "set", device, "up");
const traffic = start([sender, "va", String(flows), String(rate), String(bytes)], "ignore");

const costs: Record<string, Cost[]> = {};
for (let i = 0; i < rounds; i++)
  for (const [name, run] of Object.entries(ways)) {
    if (process.argv.includes("--ways") && !asked?.includes(name)) continue;
    const cost = await run();
    (costs[name] ??= []).push(cost);
    console.error(
      `${name.padEnd(8)} ${cost.nsPerPacket.toFixed(1)} ns/packet, ${cost.mpps.toFixed(2)} Mpps, dropped ${cost.dropped}`,
    );
  }
traffic.kill("SIGTERM");
const median = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const summary = Object.fromEntries(
  Object.entries(costs).map(([name, list]) => [
    name,
    {
      nsPerPacket: median(list.map((c) => c.nsPerPacket)),
      bestNsPerPacket: Math.min(...list.map((c) => c.nsPerPacket)),
      dropped: list.reduce((sum, c) => sum + c.dropped, 0),
      packets: list.reduce((sum, c) => sum + c.packets, 0),
      mpps: median(list.map((c) => c.mpps)),
    },
  ]),
);
const cost = (name: string) => summary[name]?.nsPerPacket ?? Number.NaN;
console.log(
  JSON.stringify({
    ...summary,
    observeToTcpdump: cost("observe") / cost("tcpdump"),
    observeToPipe: cost("observe") / cost("pipe"),
  }),
);
process.exit(0);
