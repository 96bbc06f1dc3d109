/** `hoptime top`: its output for two captures, for two interfaces, and on a screen. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { findLibc } from "../../src/capture/source/interface/libc.ts";
import { NetworkLab, namespacesMissing, udpSender, until } from "../support/namespaces.ts";

const root = join(import.meta.dirname, "..", "..");
const cli = join(root, "dist", "cli", "main.js");
const [before, after] = ["in", "out"].map((side) => join(root, "demo", `router-${side}.pcap.gz`)) as [
  string,
  string,
];
const built = existsSync(cli);

interface Line {
  format: string;
  startNs: string;
  complete: boolean;
  sent: number;
  lost: number;
  appeared: number;
  latency: { meanNs: number; minNs: number; maxNs: number; p50Ns: number; p99Ns: number } | null;
  flowCount: number;
  flows: { flow: string; sent: number; lost: number; meanNs: number | null; maxNs: number | null }[];
}
const lines = (text: string): Line[] =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe.skipIf(!built)("top of two captures", () => {
  test("counts every packet, and gives the delays that compare gives", () => {
    const run = (...args: string[]) => execFileSync(process.execPath, [cli, ...args], { encoding: "utf8" });
    const seconds = lines(run("top", before, after, "--json", "--rows", "1000"));
    const { segment, flows } = JSON.parse(run("compare", before, after, "--json"));
    const sum = (of: (line: Line) => number) => seconds.reduce((n, line) => n + of(line), 0);
    const matched = sum((l) => l.sent - l.lost);
    expect(sum((l) => l.sent)).toBe(segment.sent);
    expect(matched).toBe(segment.matched);
    expect(sum((l) => l.appeared)).toBe(segment.received - segment.matched);
    const mean = sum((l) => (l.latency?.meanNs ?? 0) * (l.sent - l.lost)) / matched;
    expect(Math.abs(mean - segment.latency.meanNs) / mean).toBeLessThan(1e-3);
    expect(Math.max(...seconds.map((l) => l.latency?.maxNs ?? 0))).toBe(segment.latency.maxNs);
    const [largest] = flows as { flow: string; sent: number }[];
    const same = seconds.flatMap((l) => l.flows).filter((f) => f.flow === seconds[0]?.flows[0]?.flow);
    expect(same.reduce((n, f) => n + f.sent, 0)).toBe(largest?.sent);
    expect(seconds.every((l) => l.format === "hoptime.top/1" && !l.complete)).toBe(true);
  });

  test("lines where standard output is no terminal; a wrong order is refused", () => {
    const { stdout } = spawnSync(process.execPath, [cli, "top", before, after], { encoding: "utf8" });
    expect(stdout).toMatch(
      /^2026-11-15 03:08:52 sent 932 lost \d+ .* mean 19.ms .* flows 10 \(incomplete\)\n/,
    );
    const { status, stderr } = spawnSync(process.execPath, [cli, "top", before, after, "--sort", "x"], {
      encoding: "utf8",
    });
    expect([status, stderr]).toEqual([2, expect.stringContaining("--sort: invalid value 'x'")]);
  });
});

const noTmux = spawnSync("tmux", ["-V"]).status !== 0;
if (noTmux) console.warn("skipped: the screen of top (no tmux)");
const session = `hoptime-top-${process.pid}`;
const tmux = (...args: string[]) =>
  execFileSync("tmux", ["-L", session, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
const scratch = mkdtempSync(join(tmpdir(), "hoptime-top-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
afterEach(() => {
  if (!noTmux) spawnSync("tmux", ["-L", session, "kill-server"], { stdio: "ignore" });
});

test.skipIf(noTmux || !built)("a screen that keys sort, search and end", async () => {
  const command = `${process.execPath} ${cli} top ${before} ${after} --speed 0.05 --window 20ms`;
  tmux("new-session", "-d", "-s", "top", "-x", "120", "-y", "20", `${command}; echo ended; sleep 300`);
  const shows = async (what: RegExp) => {
    for (let i = 0; i < 1200; i++) {
      if (what.test(tmux("capture-pane", "-p", "-t", "top"))) return;
      await sleep(100);
    }
    expect(tmux("capture-pane", "-p", "-t", "top")).toMatch(what);
  };
  await shows(/q end/);
  tmux("send-keys", "-t", "top", "l");
  tmux("send-keys", "-t", "top", "/", "5202", "Enter");
  await shows(/flows.*by loss, with '5202'/);
  // A narrow and low screen: the first lines stay, flows at the bottom are cut off.
  tmux("resize-window", "-t", "top", "-x", "50", "-y", "10");
  await shows(/^\S.* > [\s\S]*^delay {2}[\s\S]*^flows {2}.*\n[\s\S]*^p packets/m);
  tmux("resize-window", "-t", "top", "-x", "120", "-y", "20");
  tmux("send-keys", "-t", "top", "q");
  // The last state stays.
  await shows(/flows.*by loss, with '5202'[\s\S]*^ended/m);
});

const missing =
  namespacesMissing() ??
  ((await findLibc()) === null ? "koffi is not installed" : null) ??
  (built ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: top of two interfaces (${missing})`);

test.skipIf(missing !== null)(
  "two interfaces of a router: each second's packets, lost ones and delays",
  async () => {
    const lab = new NetworkLab();
    try {
      lab.addHost("a");
      lab.addHost("r", { forwards: true });
      lab.addHost("b");
      lab.join(["a", "e0", "10.95.1.1/24"], ["r", "in", "10.95.1.254/24"]);
      lab.join(["r", "out", "10.95.2.254/24"], ["b", "e0", "10.95.2.1/24"]);
      lab.route("a", "10.95.0.0/16", "10.95.1.254");
      lab.queue("r", "out", 2, 20);
      const top = lab.start("r", process.execPath, cli, "top", "in", "out", "--json");
      let out = "";
      top.stdout?.on("data", (data) => {
        out += data;
      });
      const ended = new Promise<number | null>((resolve) => top.on("close", resolve));
      const captures = [join(scratch, "in.pcap"), join(scratch, "out.pcap")] as const;
      await lab.capture("r", "in", "in", captures[0]);
      await lab.capture("r", "out", "out", captures[1]);
      await lab.captures("r", 4);
      // 400 packets/s of 742 bytes are 2.4 Mbit/s: there is no space for a sixth.
      const queueDrops = () =>
        Number(JSON.parse(lab.run("r", "tc", "-s", "-j", "qdisc", "show", "dev", "out"))[0].drops);
      const droppedBefore = queueDrops();
      const sender = lab.start("a", process.execPath, "-e", udpSender("10.95.2.1", 9000, 400, 700, 4));
      await new Promise((resolve) => sender.on("exit", resolve));
      // Idle seconds are shown too: when one is, all packets have been shown.
      const sentNs = BigInt(Date.now()) * 1_000_000n;
      await until(() =>
        lines(out.slice(0, out.lastIndexOf("\n") + 1)).some((l) => BigInt(l.startNs) > sentNs),
      );
      top.kill("SIGINT");
      expect(await ended).toBe(0);
      const seconds = lines(out);
      const udp = seconds.flatMap((l) => l.flows.filter(({ flow }) => flow.includes("10.95.2.1:9000")));
      const sum = (of: (f: Line["flows"][0]) => number) => udp.reduce((n, f) => n + of(f), 0);
      expect(sum((f) => f.sent)).toBe(1600);
      const drops = queueDrops() - droppedBefore;
      expect(drops).toBeGreaterThan(50);
      // tcpdump writes its packets once a second.
      await sleep(1500);
      expect(await lab.stopCaptures(), "packets that tcpdump dropped").toBe(0);
      // The same packets at the same places, by tcpdump: a queue of 20 kB at 2 Mbit/s takes 80 ms, and longer if the machine was busy.
      const exact = JSON.parse(
        execFileSync(process.execPath, [cli, "compare", ...captures, "--json"]).toString(),
      );
      const { lost, latency } = exact.flows.find((f: { key: { dport: number } }) => f.key.dport === 9000);
      // A busy machine may drop some before the queue.
      expect(lost).toBeGreaterThanOrEqual(drops);
      expect(sum((f) => f.lost)).toBe(lost);
      expect(latency.maxNs).toBeGreaterThan(50e6);
      // Each socket takes a packet's time separately.
      const maxNs = Math.max(...udp.map((f) => f.maxNs ?? 0));
      expect(Math.abs(maxNs - latency.maxNs)).toBeLessThan(1e6);
    } finally {
      lab.close();
    }
  },
);
