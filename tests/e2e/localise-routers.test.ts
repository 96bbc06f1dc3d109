/** A real chain of two Linux routers, captured at four points; one of them is slowed for some seconds, and must be blamed. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { compareCaptures } from "../../src/compare/compare.ts";
import { localisationJson, localiseCaptures } from "../../src/network/localise/from-captures.ts";
import { fileHasPackets, NetworkLab, namespacesMissing, udpSender, until } from "../support/namespaces.ts";

const missing = namespacesMissing();
if (missing) console.warn(`skipped: the chain of Linux routers cannot be made (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-chain-"));
// Real time on a shared machine: a disturbed attempt is repeated with new hosts.
let lab: NetworkLab;
beforeEach(() => {
  lab = new NetworkLab();
});
afterEach(() => lab.close());
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const EPOCH_NS = 250e6;

test.skipIf(missing !== null)("the slowed router is blamed, for the time it was slow", async () => {
  lab.addHost("h1");
  lab.addHost("r1", { forwards: true });
  lab.addHost("r2", { forwards: true });
  lab.addHost("h2");
  lab.join(["h1", "e0", "10.91.1.1/24"], ["r1", "in", "10.91.1.254/24"]);
  lab.join(["r1", "out", "10.91.2.1/24"], ["r2", "in", "10.91.2.2/24"]);
  lab.join(["r2", "out", "10.91.3.254/24"], ["h2", "e0", "10.91.3.1/24"]);
  lab.route("h1", "10.91.0.0/16", "10.91.1.254");
  lab.route("r1", "10.91.3.0/24", "10.91.2.2");
  lab.route("r2", "10.91.1.0/24", "10.91.2.1");
  lab.route("h2", "10.91.0.0/16", "10.91.3.254");
  lab.queue("r1", "out", 40);
  lab.queue("r2", "out", 40);
  const files = ["r1-in", "r1-out", "r2-in", "r2-out"].map((n) => join(scratch, `${n}.pcap`));
  await lab.capture("r1", "in", "in", files[0]!);
  await lab.capture("r1", "out", "out", files[1]!);
  await lab.capture("r2", "in", "in", files[2]!);
  await lab.capture("r2", "out", "out", files[3]!);
  // 4 Mbit/s through queues of 40; for a while, the second router drains less than it receives.
  const sender = lab.start("h1", process.execPath, "-e", udpSender("10.91.3.1", 9000, 500, 1000, 11));
  const sent = new Promise((resolve) => sender.on("exit", resolve));
  await until(() => fileHasPackets(files[3]!), "the first packet");
  await sleep(5000);
  const slowedNs = BigInt(Date.now()) * 1_000_000n;
  lab.queue("r2", "out", 3);
  await sleep(1500);
  lab.queue("r2", "out", 40);
  const restoredNs = BigInt(Date.now()) * 1_000_000n;
  await sent;
  await lab.drained("r2", "out");
  // tcpdump writes its packets once a second.
  await sleep(1500);
  expect(await lab.stopCaptures(), "packets that tcpdump dropped").toBe(0);

  const captured = await localiseCaptures({ files, epochNs: EPOCH_NS, filter: "udp port 9000" });
  const json = localisationJson(captured) as {
    format: string;
    points: string[];
    segments: { from: string; sent: number; latency: { meanNs: number } }[];
    spikes: {
      fromNs: string;
      toNs: string;
      segment: { from: string; to: string } | null;
      baselineNs: number;
      peakNs: number;
    }[];
  };
  expect(json.format).toBe("hoptime.localise/1");
  expect(json.points).toEqual(["r1-in", "r1-out", "r2-in", "r2-out"]);
  expect(json.segments[0]!.sent).toBe(5500);
  const blamed = json.spikes.filter((s) => s.segment !== null);
  const worst = blamed.reduce((a, b) => (b.peakNs > a.peakNs ? b : a));
  expect(worst.segment).toEqual({ from: "r2-in", to: "r2-out" });
  expect(worst.peakNs).toBeGreaterThan(20 * worst.baselineNs);
  // Within two epochs of the time when packets were really delayed, according to all packets of the two captures: single delayed packets occur before and
  // after.
  const fine = await compareCaptures({
    before: files[2]!,
    after: files[3]!,
    epochNs: 10e6,
    filter: "udp port 9000",
  });
  // The longest period: on a busy machine, packets may be delayed elsewhere too.
  const stretches: { began: bigint; ended: bigint }[] = [];
  for (const i of fine.intervals) {
    if ((i.latency?.meanNs ?? 0) <= 5e6) continue;
    const last = stretches.at(-1);
    if (last && BigInt(i.startNs) - last.ended <= 100_000_000n) last.ended = BigInt(i.endNs);
    else stretches.push({ began: BigInt(i.startNs), ended: BigInt(i.endNs) });
  }
  const { began, ended } = stretches.reduce((a, b) => (b.ended - b.began > a.ended - a.began ? b : a));
  // The slow period is at the time set with tc, with a tolerance for a busy machine.
  expect(Number(began - slowedNs) / 1e9).toBeGreaterThan(-1);
  expect(Number(ended - restoredNs) / 1e9).toBeLessThan(2);
  const epoch = 2n * BigInt(EPOCH_NS);
  expect(BigInt(worst.fromNs)).toBeGreaterThanOrEqual(began - epoch);
  expect(BigInt(worst.fromNs)).toBeLessThanOrEqual(began + epoch);
  expect(BigInt(worst.toNs)).toBeGreaterThanOrEqual(ended - epoch);
  expect(BigInt(worst.toNs)).toBeLessThanOrEqual(ended + epoch);
  // No other segment is blamed for anything of that size.
  for (const spike of blamed) if (spike !== worst) expect(spike.peakNs).toBeLessThan(worst.peakNs / 5);
});
