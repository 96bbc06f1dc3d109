/**
 * Epochs cut by Start and End messages that the sender's tap sends: a host, a router with a queue that delays by dozens of milliseconds, another host; each end
 * is observed on its own interface. Epochs contain the same packets at both ends, however many are in transit at their end: no packet looks lost, and the mean
 * equals that of the two captures.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { findLibc } from "../../src/capture/source/interface/libc.ts";
import { exactEpochs } from "../support/exact-epochs.ts";
import { NetworkLab, namespacesMissing, udpSender } from "../support/namespaces.ts";
import { startObserver } from "../support/observer-process.ts";

const root = join(import.meta.dirname, "..", "..");
const cli = join(root, "dist", "cli", "main.js");
const missing =
  namespacesMissing() ??
  ((await findLibc()) === null ? "koffi is not installed" : null) ??
  (existsSync(cli) ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: control messages sent by taps (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-control-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let lab: NetworkLab;
beforeEach(() => {
  lab = new NetworkLab();
});
afterEach(() => lab.close());

/** Returns a function that ends it and returns its answer. */
async function observe(host: string, ...args: string[]): Promise<() => Promise<string>> {
  const observer = await startObserver(lab, host, cli, "e0", ...args);
  return async () => {
    const { out, err, code } = await observer.end();
    expect(code, err).toBe(0);
    return out;
  };
}

const FILTER = "udp dst port 9000";
/**
 * With two processors, the kernel may pass a packet and the message next to it to the tap and to the link in different order: one packet at either end of an
 * epoch. Cuts by the clock would differ by dozens.
 */
const CHANGED_PLACES = 2;

interface Epoch {
  sent: number;
  received: number;
}

test.skipIf(missing !== null)(
  "epochs that the sender's tap cuts hold the same packets at both ends",
  async () => {
    lab.addHost("a");
    lab.addHost("r", { forwards: true });
    lab.addHost("b");
    lab.join(["a", "e0", "10.96.1.1/24"], ["r", "in", "10.96.1.254/24"]);
    lab.join(["r", "out", "10.96.2.254/24"], ["b", "e0", "10.96.2.1/24"]);
    lab.route("a", "10.96.0.0/16", "10.96.1.254");
    lab.route("b", "10.96.0.0/16", "10.96.2.254");
    // Enough space for everything: packets wait, and none is dropped.
    lab.queue("r", "out", 3, 4000);
    const [before, after, records] = ["a.pcap", "b.pcap", "records"].map((name) => join(scratch, name)) as [
      string,
      string,
      string,
    ];
    await lab.capture("a", "e0", "out", before);
    await lab.capture("b", "e0", "in", after);
    const common = ["--cut", "control", "--estimators", "lda", "--filter", FILTER, "--to", records, "--json"];
    const endB = await observe("b", "--direction", "in", "--point", "B", ...common);
    const endA = await observe(
      ...[
        "a",
        "--direction",
        "out",
        "--point",
        "A",
        ...common,
        "--control-to",
        "10.96.2.1",
        "--epoch",
        "500ms",
      ],
    );
    // 3.5 Mbit/s into 3: the queue grows by 20 ms every 100 ms.
    const sender = lab.start("a", process.execPath, "-e", udpSender("10.96.2.1", 9000, 600, 700, 3));
    await new Promise((resolve) => sender.on("exit", resolve));
    // Until the queue is empty and an End has passed it.
    await lab.drained("r", "out");
    await sleep(1500);
    await endA();
    await sleep(500);
    const report = JSON.parse(await endB());
    expect(await lab.stopCaptures()).toBe(0);
    expect(report.cut).toBe("control");
    const answer = JSON.parse(
      execFileSync(process.execPath, [cli, "query", records, "--between", "A", "B", "--json"], {
        encoding: "utf8",
      }),
    );
    const { latency, lost, sent, series } = answer.estimates.lda;
    const exact = [
      ...(await exactEpochs({ before, after, filter: FILTER, epochNs: 3_600_000_000_000n })).values(),
    ];
    const packets = exact.reduce((n, e) => n + e.sent, 0);
    const meanNs = exact.reduce((sum, e) => sum + e.arrivedMeanNs * e.arrived, 0) / packets;
    expect([packets, exact.reduce((n, e) => n + e.lost, 0)]).toEqual([1800, 0]);
    // A packet or two between an End and the next Start may belong to no epoch; at both ends the same.
    expect(sent).toBeGreaterThan(0.97 * packets);
    expect(lost).toBeLessThanOrEqual(CHANGED_PLACES);
    expect(series.length).toBeGreaterThanOrEqual(6);
    // Some dozens of packets were in transit at every cut.
    expect(meanNs).toBeGreaterThan(50e6);
    // No packet waited for a second; this limits what packets outside of epochs can add to the mean.
    const outsideNs = ((packets - sent) / packets) * 1e9;
    expect(Math.abs(latency.meanNs - meanNs)).toBeLessThan(
      20_000 + (latency.highNs - latency.lowNs) / 2 + outsideNs,
    );
    for (const epoch of series)
      expect(Math.abs(epoch.sent - epoch.received)).toBeLessThanOrEqual(CHANGED_PLACES);
    expect(Math.abs(series.reduce((n: number, e: Epoch) => n + e.sent - e.received, 0))).toBeLessThanOrEqual(
      CHANGED_PLACES,
    );
  },
);

test.skipIf(!existsSync(cli))("messages are sent from interfaces only, and with --cut control", () => {
  const demo = join(root, "demo", "router-in.pcap.gz");
  const run = (...args: string[]) => {
    const given = [cli, "observe", demo, "--point", "A", "--to", join(scratch, "none"), ...args];
    const { status, stderr } = spawnSync(process.execPath, given, { encoding: "utf8" });
    return `${status} ${stderr}`;
  };
  expect(run("--control-to", "127.0.0.1")).toMatch(/^2 .*--control-to needs --cut control/);
  expect(run("--control-to", "127.0.0.1", "--cut", "control")).toMatch(
    /^2 .*--control-to.*only while observing an interface/,
  );
});
