/**
 * The running system against the truth: two hosts and a router with a token-bucket queue in network namespaces, UDP over IPv4 and IPv6 and TCP between them; `hoptime observe` on both sides of the
 * queue, `hoptime reference` across it, `hoptime collect`; and for each epoch what the collector's API says of delay and loss beside the exact values of tcpdump captures of the same interfaces.
 */
import type { ChildProcess } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { findLibc } from "../../src/capture/source/interface/libc.ts";
import type { Series, SeriesPoint } from "../../src/results/series.ts";
import { buildDualRouter, DUAL_RECEIVER } from "../support/dual-router.ts";
import { type ExactEpoch, exactEpochs } from "../support/exact-epochs.ts";
import { NetworkLab, namespacesMissing } from "../support/namespaces.ts";

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
const missing =
  namespacesMissing() ??
  ((await findLibc()) === null ? "koffi is not installed" : null) ??
  (existsSync(cli) ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: epochs of the running system against the truth (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-epochs-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let lab: NetworkLab;
beforeEach(() => {
  lab = new NetworkLab();
});
afterEach(() => lab.close());

const EPOCHS = 60;
const EPOCH_NS = 500_000_000n;
const DRAIN_MBIT = 8;
const URL = "http://127.0.0.1:8787";
/** What crosses the router from a to b, and nothing that only one side sees. */
const CROSSING = "dst net 10.95.2.0/24 or dst net fd95:2::/64";
const ESTIMATORS = ["lda", "lds", "rli", "maple"] as const;

/**
 * Rates that change from second to second, bursts that the queue takes long to drain: delay and loss of epochs differ, and most packets arrive. Each burst begins with 70 packets at once, which the queue cannot hold
 * however slow the machine is. Each packet has a buffer of its own: those of a turn would be equal otherwise, and lie in one cell.
 */
const SENDER = `
  const net = require("node:net"), dgram = require("node:dgram");
  const [u4, u6] = [dgram.createSocket("udp4"), dgram.createSocket("udp6")];
  const payload = Buffer.alloc(700), start = performance.now();
  let owed = 0, before = start, sent = 0, burst = 0;
  const tcp = net.connect(5000, "10.95.2.1");
  tcp.on("error", () => {});
  setInterval(() => {
    const now = performance.now(), t = now - start;
    owed = Math.min(40, owed + (now - before) * (t % 700 < 200 ? 0.8 : 0.35 + 0.2 * Math.sin(t / 3000)));
    before = now;
    if (Math.floor(t / 700) > burst) [burst, owed] = [Math.floor(t / 700), 70];
    for (; owed >= 1; owed--) {
      payload.writeUInt32BE(sent++, 0);
      if (sent % 3 === 0) u6.send(Buffer.from(payload), 9000, "fd95:2::1"); else u4.send(Buffer.from(payload), 9000, "10.95.2.1");
    }
    if (tcp.writableLength < 20000 && sent % 2 === 0) tcp.write(payload);
  }, 2);`;

function build(): void {
  buildDualRouter(lab, 95);
  lab.queue("r", "out", DRAIN_MBIT, 32);
}

interface Running {
  end(): Promise<string>;
}

/** A command of ours in a host; resolves when its standard error says that it is ready. */
async function start(host: string, ready: RegExp, ...args: string[]): Promise<Running> {
  const child: ChildProcess = lab.start(host, process.execPath, cli, ...args);
  let text = "";
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  child.stdout?.resume();
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on("data", (data) => {
      text += data;
      if (ready.test(text)) resolve();
    });
    ended.then(() => reject(new Error(`${args[0]} ended: ${text}`)));
  });
  return {
    async end() {
      child.kill("SIGINT");
      expect(await ended, text).toBe(0);
      return text;
    },
  };
}

function ask<T>(path: string): T {
  const script = `fetch(${JSON.stringify(`${URL}${path}`)}).then(async (r) => { if (!r.ok) throw new Error(await r.text()); process.stdout.write(await r.text()); })`;
  return JSON.parse(lab.run("r", process.execPath, "-e", script)) as T;
}

async function run(dir: string): Promise<void> {
  const collector = await start(
    "r",
    /collecting at/,
    "collect",
    "--data",
    join(dir, "data"),
    "--segment",
    "A:B",
    "--lateness",
    "5s",
  );
  const to = (name: string) => [
    "--epoch",
    "500ms",
    "--filter",
    CROSSING,
    "--to",
    URL,
    "--spool",
    join(dir, name),
  ];
  const rli = `session=77,drain=${DRAIN_MBIT * 1e6}`;
  const references = lab.start(
    "a",
    process.execPath,
    cli,
    "reference",
    "--to",
    "10.95.2.1",
    "--rate",
    "400",
    "--for",
    "120s",
    "--session",
    "77",
  );
  const observers = [
    await start(
      "r",
      /observing/,
      "observe",
      "in",
      "--direction",
      "in",
      "--point",
      "A",
      "--estimators",
      "lda,lds",
      ...to("a"),
    ),
    await start(
      "r",
      /observing/,
      "observe",
      "out",
      "--direction",
      "out",
      "--point",
      "B",
      "--estimators",
      "lda,lds,rli",
      "--rli",
      rli,
      ...to("b"),
    ),
    await start(
      "r",
      /observing out/,
      "observe",
      "in",
      "out",
      "--segment",
      "A:B",
      "--estimators",
      "maple",
      ...to("pair").slice(0, -2),
    ),
  ];
  const receiver = lab.start("b", process.execPath, "-e", DUAL_RECEIVER);
  await new Promise((resolve) => receiver.stdout?.once("data", resolve));
  const sender = lab.start("a", process.execPath, "-e", SENDER);
  await sleep(Number((EPOCH_NS * BigInt(EPOCHS + 4)) / 1_000_000n));
  await Promise.all(observers.map((observer) => observer.end()));
  for (const child of [sender, receiver, references]) child.kill();
  await sleep(1500);
  expect(await lab.stopCaptures(), "packets that tcpdump dropped: the truth has holes").toBe(0);
  series = await settledSeries();
  await collector.end();
}

/** The collector pairs what has come: until nothing more does. */
async function settledSeries(): Promise<Record<string, SeriesPoint[]>> {
  for (let [tries, before] = [0, ""]; tries < 60; tries++) {
    const now = Object.fromEntries(
      ESTIMATORS.map((name) => [name, ask<Series>(`/v1/latency?from=A&to=B&estimator=${name}`).points]),
    );
    const text = JSON.stringify(now);
    if (text === before && ask<{ pairing: { behind: number } }>("/v1/health").pairing.behind === 0)
      return now;
    before = text;
    await sleep(1500);
  }
  throw new Error("the results do not settle");
}
let series: Record<string, SeriesPoint[]> = {};

test.skipIf(missing !== null)(
  "delay and loss of each epoch are those of simultaneous captures, within the bars",
  { timeout: 240_000 },
  async () => {
    build();
    const dir = mkdtempSync(join(scratch, "run-"));
    const [host, before, after] = ["host", "in", "out"].map((name) => join(dir, `${name}.pcap`)) as [
      string,
      string,
      string,
    ];
    await lab.capture("a", "e0", "out", host);
    await lab.capture("r", "in", "in", before);
    await lab.capture("r", "out", "out", after);
    await run(dir);
    const captured = { after, epochNs: EPOCH_NS };
    const all = await exactEpochs({ ...captured, before, filter: CROSSING });
    // RLI answers for the packets between its references, not for these, and from where these are sent: a busy machine takes milliseconds from one end of a virtual cable to the other.
    const regular = await exactEpochs({
      ...captured,
      before: host,
      filter: `(${CROSSING}) and not udp port 862`,
    });
    if (process.env["HOPTIME_KEEP"]) {
      cpSync(dir, mkdtempSync(join(process.env["HOPTIME_KEEP"], "run-")), { recursive: true });
    }
    for (const name of ESTIMATORS) {
      const { widths, ...counts } = judge(name, series[name] ?? [], name === "rli" ? regular : all);
      const width = widths[widths.length >> 1] ?? Number.NaN;
      const text = `${name}: ${JSON.stringify(counts)}, median width ${width}`;
      if (process.env["HOPTIME_SHOW"]) console.log(text);
      expect(counts.judged, text).toBeGreaterThanOrEqual(EPOCHS - 6);
      // 95 % intervals: over several runs 97 to 98 % hold; in one run of 64 epochs chance makes it 92 % now and then, once in a hundred runs less.
      expect(counts.held, text).toBeGreaterThanOrEqual(0.92 * counts.judged);
      // Loss of an epoch is exact but for the packets on their way at its cuts, and that of the run but for those at its ends and beside epochs that are not judged: LDS knows these, LDA by rate and delay.
      expect(counts.lossHeld, text).toBeGreaterThanOrEqual(0.95 * counts.lossJudged);
      // A full queue holds 48 packets.
      const [packets, share] = name === "lda" ? [48, 0.05] : [4, 0.05];
      expect(Math.abs(counts.lost - counts.trulyLost), text).toBeLessThanOrEqual(
        packets + share * counts.trulyLost,
      );
      if (name === "lda" || name === "lds") expect(counts.trulyLost, text).toBeGreaterThan(100);
      // Bars that hold everything would say nothing.
      expect(width, text).toBeLessThan(MAX_WIDTH[name]);
    }
  },
);

/** Of the mean: median of the intervals' widths. Of LDS and RLI several times what an idle machine gives (0.5). */
const MAX_WIDTH = { lda: 1, lds: 4, rli: 4, maple: 0.01 };

/** Each socket takes the time of a packet itself: that of tcpdump's differs from ours by microseconds on a busy machine. */
const TIMESTAMP_NS = 20_000;

/** An epoch of these is what arrived in it; of the others, whose epochs are cut by the clock at both ends, what both ends saw in it. */
const AT_RECEIVER = ["rli", "maple"];

interface Judged {
  judged: number;
  held: number;
  lossJudged: number;
  lossHeld: number;
  lost: number;
  trulyLost: number;
  widths: number[];
}

function judge(name: string, points: readonly SeriesPoint[], exact: ReadonlyMap<string, ExactEpoch>): Judged {
  const out: Judged = { judged: 0, held: 0, lossJudged: 0, lossHeld: 0, lost: 0, trulyLost: 0, widths: [] };
  for (const { startNs, latency, lost, lostLow, lostHigh, edges, missing, dropped, reason } of points) {
    const truth = exact.get(startNs);
    // What a capture dropped is in no record and in no truth: nothing can be said of it.
    if (!truth || edges + missing > 0 || (dropped ?? 0) > 0 || truth.arrived < 100) continue;
    const meanNs = AT_RECEIVER.includes(name) ? truth.arrivedMeanNs : truth.withinMeanNs;
    out.judged++;
    const low = (latency?.lowNs ?? Number.POSITIVE_INFINITY) - TIMESTAMP_NS;
    const high = (latency?.highNs ?? Number.NEGATIVE_INFINITY) + TIMESTAMP_NS;
    if (low <= meanNs && meanNs <= high) out.held++;
    else if (process.env["HOPTIME_SHOW"]) console.log(name, JSON.stringify({ latency, reason, truth }));
    if (latency) out.widths.push((latency.highNs - latency.lowNs) / meanNs);
    if (lost === null || lostLow === null || lostHigh === null) continue;
    out.lossJudged++;
    out.lost += lost;
    out.trulyLost += truth.lost;
    if (lostLow - truth.atEdge <= truth.lost && truth.lost <= lostHigh + truth.atEdge) out.lossHeld++;
    else if (process.env["HOPTIME_SHOW"])
      console.log(name, "lost", JSON.stringify({ lost, lostLow, lostHigh, truth }));
  }
  out.widths.sort((a, b) => a - b);
  return out;
}
