/**
 * RLI on a real Linux router: a token-bucket queue between two hosts, bursts of 36 flows, references sent by the built command line, captured where they leave
 * and where they arrive. Per-flow estimates from the capture behind the router are compared with the exact delays from both captures.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import type { EstimateReport } from "../../src/compare/estimate-report.ts";
import { compareWithEstimates } from "../../src/compare/estimates.ts";
import { parseParameters } from "../../src/estimators/parameters.ts";
import { findEstimator } from "../../src/estimators/table.ts";
import { fileHasPackets, NetworkLab, namespacesMissing, until } from "../support/namespaces.ts";

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
const missing = namespacesMissing() ?? (existsSync(cli) ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: RLI on a Linux router (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-rli-router-"));
// Real time on a shared machine: a disturbed attempt is repeated with new hosts.
let lab: NetworkLab;
beforeEach(() => {
  lab = new NetworkLab();
});
afterEach(() => lab.close());
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/**
 * Bursts: for 100 ms out of every 400 more than the rate of the queue, then little: delays rise to 0.1 s and fall again, slowly compared with what a busy
 * machine adds to the senders' pace. Flows with three packet sizes, interleaved.
 */
const FLOWS = 36;
const BURSTS = `
  const socket = require("node:dgram").createSocket("udp4");
  const payloads = [200, 700, 1200].map((n) => Buffer.alloc(n));
  const start = performance.now();
  let sent = 0;
  let owed = 0;
  let before = start;
  const timer = setInterval(() => {
    const now = performance.now();
    const burst = (now - start) % 400 < 100;
    owed += (now - before) * (burst ? 3.5 : 0.2);
    before = now;
    while (owed >= 1) {
      owed--;
      const payload = payloads[sent % 3];
      payload.writeUInt32BE(sent, 0);
      socket.send(Buffer.from(payload), 9000 + (sent++ % ${FLOWS}), "10.92.2.1");
    }
    if (now - start > 4000) { clearInterval(timer); setTimeout(() => socket.close(), 100); }
  }, 1);`;

test.skipIf(missing !== null)(
  "per-flow delays from references are those that both captures tell",
  async () => {
    lab.addHost("a");
    lab.addHost("r", { forwards: true });
    lab.addHost("b");
    lab.join(["a", "e0", "10.92.1.1/24"], ["r", "in", "10.92.1.254/24"]);
    lab.join(["r", "out", "10.92.2.254/24"], ["b", "e0", "10.92.2.1/24"]);
    lab.route("a", "10.92.0.0/16", "10.92.1.254");
    lab.route("b", "10.92.0.0/16", "10.92.2.254");
    const drainMbit = 8;
    lab.queue("r", "out", drainMbit, 900);
    const [before, after] = [join(scratch, "before.pcap"), join(scratch, "after.pcap")];
    // At the place where references are sent: on a busy machine, packets wait for milliseconds between the host and the router too.
    await lab.capture("a", "e0", "out", before);
    await lab.capture("b", "e0", "in", after);
    const references = lab.start(
      ...(["a", process.execPath, cli, "reference", "--to", "10.92.2.1"] as [string, string, ...string[]]),
      ...["--rate", "500", "--for", "120s", "--session", "77", "--json"],
    );
    let summary = "";
    references.stdout!.on("data", (chunk) => {
      summary += String(chunk);
    });
    const ended = new Promise((resolve) => references.on("exit", resolve));
    // Packets before the first reference, or after the last, would have only that one.
    await until(() => fileHasPackets(after), "the first reference");
    const bursts = lab.start("a", process.execPath, "-e", BURSTS);
    await new Promise((resolve) => bursts.on("exit", resolve));
    await lab.drained("r", "out");
    references.kill("SIGINT");
    await ended;
    await lab.drained("r", "out");
    // tcpdump writes its packets once a second.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(await lab.stopCaptures(), "packets that tcpdump dropped").toBe(0);
    const sent = JSON.parse(summary) as { format: string; sent: number };
    expect(sent.format).toBe("hoptime.reference/1");

    const rli = findEstimator("rli");
    const report = await compareWithEstimates(
      { before, after, filter: "udp" },
      {
        plans: [{ estimator: rli, parameters: parseParameters(rli, `session=77,drain=${drainMbit * 1e6}`) }],
      },
    );
    const { flows, packetsUsed, coverage, notes } = report.estimates!["rli"] as EstimateReport;
    // The queue has caused delays; otherwise there is nothing to measure.
    expect(report.segment.latency!.meanNs).toBeGreaterThan(20e6);
    expect(packetsUsed).toBeGreaterThan(2000);
    expect(coverage).toBeGreaterThan(0.99);
    // On a busy machine, the kernel may reorder packets; no delay may be rejected as implausible.
    expect(notes.join("; ")).not.toMatch(/port not used|duplicate reference|restarted or changed/);
    const data = flows!.filter((f) => f.key.dport !== null && f.key.dport >= 9000);
    expect(data).toHaveLength(FLOWS);
    let inside = 0;
    const widths: number[] = [];
    for (const { packets, relativeError, exactMeanNs, lowNs, highNs } of data) {
      expect(packets).toBeGreaterThan(30);
      expect(Math.abs(relativeError!)).toBeLessThan(0.05);
      if (lowNs! <= exactMeanNs! && exactMeanNs! <= highNs!) inside++;
      widths.push((highNs! - lowNs!) / exactMeanNs!);
    }
    // 95 % intervals: 30 or fewer of 36 would have a probability of 0.003 if flows were independent.
    expect(inside).toBeGreaterThan(30);
    widths.sort((x, y) => x - y);
    expect(widths[FLOWS / 2]).toBeLessThan(0.1);
    // A token bucket: packets that arrive while it has tokens are not delayed by their transmission.
    expect(notes.join("; ")).toMatch(/closer together than the drain rate allows/);
    if (process.env["HOPTIME_SHOW"])
      console.log(`${inside} of ${FLOWS} inside, median width ${widths[FLOWS / 2]}`, median(data));
  },
);

const median = (flows: readonly { relativeError: number | null }[]) =>
  flows.map((f) => Math.abs(f.relativeError!)).sort((x, y) => x - y)[flows.length >> 1];
