/**
 * The running system compared with exact values: two hosts and a router with a token-bucket queue in network namespaces, with UDP over IPv4 and IPv6 and TCP;
 * `hoptime observe` on both sides of the queue, `hoptime reference` across it, `hoptime collect`. For each epoch, the delay and loss from the collector's API
 * are compared with the exact values of tcpdump captures of the same interfaces.
 */
import type { ChildProcess } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { findLibc } from "../../src/capture/source/interface/libc.ts";
import type { Series, SeriesPoint } from "../../src/results/series.ts";
import { buildDualRouter } from "../support/dual-router.ts";
import { EPOCH_SCENES, type EpochScene } from "../support/epoch-scenes.ts";
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
const URL = "http://127.0.0.1:8787";
/** Packets that cross the router from a to b, without those that only one side sees. */
const CROSSING = "dst net 10.95.2.0/24 or dst net fd95:2::/64";
const ESTIMATORS = ["lda", "lds", "rli", "maple"] as const;

function build({ drainMbit, limitKb }: EpochScene): void {
  buildDualRouter(lab, 95);
  lab.queue("r", "out", drainMbit, limitKb);
  // Some machines use a congestion control that ignores loss.
  for (const host of ["a", "b"]) lab.run(host, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno");
}

interface Running {
  end(): Promise<string>;
}

/** Runs hoptime on a host; resolves when its standard error shows that it is ready. */
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

async function run(
  dir: string,
  { drainMbit, sender: traffic, receiver: answers }: EpochScene,
): Promise<SeriesOf> {
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
  const rli = `session=77,drain=${drainMbit * 1e6}`;
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
  const receiver = lab.start("b", process.execPath, "-e", answers);
  await new Promise((resolve) => receiver.stdout?.once("data", resolve));
  const sender = lab.start("a", process.execPath, "-e", traffic);
  await sleep(Number((EPOCH_NS * BigInt(EPOCHS + 4)) / 1_000_000n));
  await Promise.all(observers.map((observer) => observer.end()));
  for (const child of [sender, receiver, references]) child.kill();
  await sleep(1500);
  expect(await lab.stopCaptures(), "packets that tcpdump dropped: the truth has holes").toBe(0);
  const series = await settledSeries();
  await collector.end();
  return series;
}

/** By estimator. */
type SeriesOf = Record<string, SeriesPoint[]>;

/** Waits until the collector has paired everything. */
async function settledSeries(): Promise<SeriesOf> {
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

/** Runs a scene, and compares the collector's answers with the captures. */
async function judgeScene(scene: EpochScene): Promise<Record<string, Judged>> {
  build(scene);
  const dir = mkdtempSync(join(scratch, "run-"));
  const [host, before, after] = ["host", "in", "out"].map((name) => join(dir, `${name}.pcap`)) as [
    string,
    string,
    string,
  ];
  await lab.capture("a", "e0", "out", host);
  await lab.capture("r", "in", "in", before);
  await lab.capture("r", "out", "out", after);
  const series = await run(dir, scene);
  const captured = { after, epochNs: EPOCH_NS };
  const all = await exactEpochs({ ...captured, before, filter: CROSSING });
  // RLI answers for the packets between its references, not for these, and from the place where references are sent: on a busy machine, a virtual cable takes
  // milliseconds.
  const regular = await exactEpochs({
    ...captured,
    before: host,
    filter: `(${CROSSING}) and not udp port 862`,
  });
  if (process.env["HOPTIME_KEEP"]) {
    cpSync(dir, mkdtempSync(join(process.env["HOPTIME_KEEP"], "run-")), { recursive: true });
  }
  return Object.fromEntries(
    ESTIMATORS.map((name) => [name, judge(name, series[name] ?? [], name === "rli" ? regular : all)]),
  );
}

test.skipIf(missing !== null).each(EPOCH_SCENES)(
  "delay and loss of each epoch are those of simultaneous captures, within the bars: $name",
  { timeout: 240_000 },
  async (scene) => {
    const judged = await judgeScene(scene);
    for (const name of ESTIMATORS) {
      const { widths, ...counts } = judged[name]!;
      const width = widths[widths.length >> 1] ?? Number.NaN;
      const text = `${name}: ${JSON.stringify(counts)}, median width ${width}`;
      if (process.env["HOPTIME_SHOW"]) console.log(text);
      expect(counts.judged, text).toBeGreaterThanOrEqual(EPOCHS - 6);
      // 95 % intervals: over several runs 97 to 98 % contain the mean; in a single run of 64 epochs it is sometimes 92 %, and less once in a hundred runs.
      expect.soft(counts.held, text).toBeGreaterThanOrEqual(0.92 * counts.judged);
      // The loss of an epoch is exact except for packets in transit at its cuts, and that of the run except for those at its ends and next to excluded epochs:
      // LDS knows these, LDA estimates them from rate and delay.
      expect.soft(counts.lossHeld, text).toBeGreaterThanOrEqual(0.95 * counts.lossJudged);
      // A full queue contains 48 packets.
      const [packets, share] = name === "lda" ? [48, 0.05] : [4, 0.05];
      expect
        .soft(Math.abs(counts.lost - counts.trulyLost), text)
        .toBeLessThanOrEqual(packets + share * counts.trulyLost);
      if (name === "lda" || name === "lds") expect(counts.trulyLost, text).toBeGreaterThan(100);
      // Intervals that contain everything would be useless.
      expect.soft(width, text).toBeLessThan(MAX_WIDTH[name]);
    }
  },
);

/** Median width of the intervals relative to the mean. For LDS and RLI, several times the value on an idle machine (0.5). */
const MAX_WIDTH = { lda: 1, lds: 4, rli: 4, maple: 0.01 };

/** Each socket takes a packet's time separately: on a busy machine, tcpdump's differs from ours by microseconds. */
const TIMESTAMP_NS = 20_000;

/**
 * For these, an epoch contains the packets that arrived in it; for the others, whose epochs are cut by the clock at both ends, those that both ends saw in it.
 */
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
    // Packets that a capture dropped are in no record and not in the exact values, so they cannot be compared.
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
