/**
 * A router in a namespace: `hoptime top --ebpf` and `hoptime observe --ebpf-segment` with captures in parallel, and the results of `hoptime query` and `hoptime
 * compare` for the same packets.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { datapathMissing } from "../support/datapath.ts";
import { NetworkLab, namespacesMissing, udpSender, until } from "../support/namespaces.ts";

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
const missing =
  (await datapathMissing("segment")) ??
  namespacesMissing() ??
  (existsSync(cli) ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: top and observe of a router, in its kernel (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-boxes-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const json = (...args: string[]) =>
  JSON.parse(execFileSync(process.execPath, [cli, ...args, "--json"], { encoding: "utf8" }));

interface Second {
  way: string;
  startNs: string;
  sent: number;
  lost: number;
  waiting: number;
  arrived: number;
  flows: { flow: string; sent: number; lost: number; meanNs: number | null }[];
  drops: { place: string; reason: string; packets: number }[];
}

test.skipIf(missing !== null)(
  "a router's own queue: top, records and captures agree on every packet",
  async () => {
    const lab = new NetworkLab();
    const records = join(scratch, `records-${Date.now()}`);
    try {
      lab.addHost("a");
      lab.addHost("r", { forwards: true });
      lab.addHost("b");
      lab.join(["a", "e0", "10.94.1.1/24"], ["r", "in", "10.94.1.254/24"]);
      lab.join(["r", "out", "10.94.2.254/24"], ["b", "e0", "10.94.2.1/24"]);
      lab.route("a", "10.94.0.0/16", "10.94.1.254");
      lab.route("b", "10.94.0.0/16", "10.94.2.254");
      lab.queue("r", "out", 2, 20);
      lab.run("a", "ping", "-c", "1", "10.94.2.1");
      const start = (...args: string[]) => {
        const child = lab.start("r", process.execPath, cli, ...args, "--json");
        const text = { out: "", err: "" };
        child.stdout?.on("data", (data) => {
          text.out += data;
        });
        child.stderr?.on("data", (data) => {
          text.err += data;
        });
        const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
        return { child, text, ended };
      };
      const top = start("top", "--ebpf", "in:out", "--ebpf", "out:in", "--rows", "100");
      const estimators = ["--estimators", "lda,flows,maple"];
      const observe = start(
        ...["observe", "--ebpf-segment", "in:out", "--segment", "A:B", ...estimators, "--to", records],
      );
      // The same to a collector, by a second hoptime in parallel.
      lab.run("r", "ip", "link", "set", "lo", "up");
      const listen = ["--listen", "127.0.0.1:8094", "--segment", "A:B"];
      const collect = start("collect", "--data", `${records}-collected`, ...listen);
      await until(() => collect.text.err.includes("collecting at"), "collecting");
      const sending = start(
        ...["observe", "--ebpf-segment", "in:out", "--segment", "A:B", ...estimators],
        ...["--to", "http://127.0.0.1:8094"],
      );
      await until(
        () => [top, observe, sending].every(({ text }) => text.err.includes("measuring")),
        "measuring",
      );
      const [before, after] = [join(scratch, "in.pcap"), join(scratch, "out.pcap")];
      await lab.capture("r", "in", "in", before);
      await lab.capture("r", "out", "out", after);
      const drops = () =>
        Number(JSON.parse(lab.run("r", "tc", "-s", "-j", "qdisc", "show", "dev", "out"))[0].drops);
      const dropsBefore = drops();
      // 2.4 Mbit/s: there is no space for a sixth.
      const sender = lab.start("a", process.execPath, "-e", udpSender("10.94.2.1", 9000, 400, 700, 3));
      // Packets of the router itself, which are not forwarded: none of them is on the path from one interface to the other.
      lab.run("r", "ping", "-c", "3", "-i", "0.2", "10.94.2.1");
      lab.run("a", "ping", "-c", "3", "-i", "0.2", "10.94.1.254");
      // Dropped in forwarding because of their TTL.
      const expired = "ping -c 3 -i 0.2 -t 1 10.94.2.1; true";
      lab.run("a", "sh", "-c", expired);
      await new Promise((resolve) => sender.on("exit", resolve));
      await lab.drained("r", "out");
      const lost = drops() - dropsBefore;
      const endNs = BigInt(Date.now()) * 1_000_000n;
      const seconds = () =>
        top.text.out
          .slice(0, top.text.out.lastIndexOf("\n") + 1)
          .split("\n")
          .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Second]));
      await until(() => seconds().some((s) => BigInt(s.startNs) > endNs), "the last second");
      await lab.stopCaptures();
      observe.child.kill("SIGINT");
      top.child.kill("SIGINT");
      sending.child.kill("SIGINT");
      expect([await top.ended, await observe.ended, await sending.ended]).toEqual([0, 0, 0]);
      const question = ["query", "http://127.0.0.1:8094", "--between", "A", "B", "--json"];
      const collected = JSON.parse(lab.run("r", process.execPath, cli, ...question));
      collect.child.kill("SIGTERM");
      await collect.ended;

      const there = seconds().filter((s) => s.way === "in:out");
      const back = seconds().filter((s) => s.way === "out:in");
      const udp = there.flatMap((s) => s.flows.filter((f) => f.flow.includes("> 10.94.2.1:9000")));
      const sum = (list: readonly { sent: number; lost: number }[], of: "sent" | "lost") =>
        list.reduce((n, item) => n + item[of], 0);
      expect(lost).toBeGreaterThan(30);
      expect([sum(udp, "sent"), sum(udp, "lost")]).toEqual([1200, lost]);
      // Pings of the router are not forwarded; those that a sends through it are answered behind it.
      const pings = there.flatMap((s) => s.flows.filter((f) => f.flow.startsWith("icmp")));
      expect(pings).toEqual([]);
      expect(sum(back, "lost")).toBe(0);
      const dropped = there.flatMap((s) => s.drops.filter((d) => d.place === "forwarding"));
      const expiredDrops = dropped.filter((d) => d.reason === "IP_INHDR");
      expect(expiredDrops.reduce((n, d) => n + d.packets, 0)).toBe(3);

      const { segment, flows } = json("compare", before, after);
      const flow = flows.find((f: { key: { dport: number | null } }) => f.key.dport === 9000);
      expect([flow.sent, flow.lost]).toEqual([1200, lost]);
      const left = 1200 - lost;
      const mean = udp.reduce((n, f) => n + (f.meanNs ?? 0) * (f.sent - f.lost), 0) / left;
      expect(Math.abs(mean - flow.latency.meanNs)).toBeLessThan(100_000);
      expect(segment.sent).toBeGreaterThanOrEqual(1200);

      const { lda, maple } = json("query", records, "--between", "A", "B").estimates;
      expect(lda).toMatchObject({ sent: 1200, received: left, lost });
      expect(maple).toMatchObject({ received: left });
      expect(collected.estimates.lda).toMatchObject({ sent: 1200, received: left, lost });
      expect(collected.estimates.maple).toMatchObject({ received: left });
      // The captures' timestamps are a few hundred instructions away from those of the programs.
      expect(Math.abs(maple.latency.meanNs - flow.latency.meanNs)).toBeLessThan(100_000);
      expect(lda.latency.lowNs).toBeLessThanOrEqual(mean + 100_000);
      expect(lda.latency.highNs).toBeGreaterThanOrEqual(mean - 100_000);
    } finally {
      lab.close();
    }
  },
);
