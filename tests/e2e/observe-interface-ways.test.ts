/**
 * Two taps on a router's interfaces with TCP in both directions, with only the interface, the point and the collector's address given, as in README and
 * docs/collect.md: each direction has its records at both points, by the same networks, and a question finds its direction.
 */
import { type ChildProcess, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { findLibc } from "../../src/capture/source/interface/libc.ts";
import { NetworkLab, namespacesMissing } from "../support/namespaces.ts";

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
const missing =
  namespacesMissing() ??
  ((await findLibc()) === null ? "koffi is not installed" : null) ??
  (existsSync(cli) ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: both directions of interfaces (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-ways-"));
const lab = new NetworkLab();
afterAll(() => {
  lab.close();
  rmSync(scratch, { recursive: true, force: true });
});
const URL = "http://127.0.0.1:8787";

/** Its output so far, on both streams. */
function textOf(child: ChildProcess): () => string {
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (data) => {
      text += data;
    });
  return () => text;
}

async function until(what: string, holds: () => boolean, seen: () => string): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (holds()) return;
    await sleep(100);
  }
  throw new Error(`${what} did not come: ${seen()}`);
}

/** Answers what it reads with the same number of bytes. */
const ECHO = `require("node:net").createServer((s) => s.on("data", (d) => s.write(d)).on("error", () => {})).listen(5000, () => console.log("ready"));`;
const CLIENT = `
  const s = require("node:net").connect(5000, "10.94.2.1"); s.resume();
  setInterval(() => { if (s.writableLength < 20000) s.write(Buffer.alloc(2000)); }, 5);`;

const FETCH = `fetch("${URL}/v1/segments").then((r) => r.text()).then(console.log);`;

interface Answer {
  notes: string[];
  estimates: {
    lda: {
      latency: { meanNs: number } | null;
      series: { edge: boolean; sent: number | null; received: number | null; lost: number | null }[];
    };
  };
}

test.skipIf(missing !== null)(
  "taps that are given an interface, a point and a collector separate both directions alike",
  async () => {
    lab.addHost("a");
    lab.addHost("r", { forwards: true });
    lab.addHost("b");
    lab.join(["a", "e0", "10.94.1.1/24"], ["r", "eth1", "10.94.1.254/24"]);
    lab.join(["r", "eth2", "10.94.2.254/24"], ["b", "e0", "10.94.2.1/24"]);
    lab.route("a", "10.94.0.0/16", "10.94.1.254");
    lab.route("b", "10.94.0.0/16", "10.94.2.254");
    lab.queue("r", "eth2", 2);
    const hoptime = (...args: string[]) => lab.start("r", process.execPath, cli, ...args);
    const collector = textOf(hoptime("collect", "--data", join(scratch, "data"), "--segment", "A:B"));
    await until("the collector", () => collector().includes("8787"), collector);
    const taps = (["eth1", "eth2"] as const).map((name, i) => {
      const point = "AB"[i] ?? "";
      const child = hoptime("observe", name, "--point", point, "--to", URL, "--spool", join(scratch, point));
      return { child, text: textOf(child) };
    });
    for (const { text } of taps) await until("the tap", () => text().includes("observing"), text);
    // The link is idle for longer than the first check of directions.
    await sleep(1500);
    const echo = textOf(lab.start("b", process.execPath, "-e", ECHO));
    await until("the server", () => echo().includes("ready"), echo);
    lab.start("a", process.execPath, "-e", CLIENT);
    for (const { text } of taps) await until("both ways", () => text().includes("go both ways"), text);
    const ask = (from: string, to: string): Answer | null => {
      try {
        return JSON.parse(
          lab.run("r", process.execPath, cli, "query", URL, "--between", from, to, "--json"),
        ) as Answer;
      } catch {
        return null;
      }
    };
    const whole = (answer: Answer | null) =>
      (answer?.estimates.lda.series ?? []).filter(
        ({ edge, sent, received }) => !edge && (sent ?? 0) > 50 && received !== null,
      );
    let there: Answer | null = null;
    await until("records of four epochs", () => whole((there = ask("A", "B"))).length >= 4, taps[0]!.text);
    const back = ask("B", "A");
    // The collector monitors A:B without a label: its rows are those of the direction from A to B.
    interface Segments {
      segments: { from: string; to: string; label: string; estimators: string[] }[];
    }
    // The idle time before may have rows of all packets.
    let known: Segments["segments"] = [];
    const rows = () => {
      known = (JSON.parse(lab.run("r", process.execPath, "-e", FETCH)) as Segments).segments;
      return known.some(({ label, estimators }) => label !== "" && estimators.includes("lda"));
    };
    await until("rows", rows, collector);
    expect(known.filter(({ label }) => label !== "")).toMatchObject([
      { from: "A", to: "B", label: "from 10.94.1.0/24" },
    ]);
    for (const { child, text } of taps) {
      expect(text()).toContain("by the networks of one side (10.94.1.0/24)");
      child.kill("SIGINT");
    }
    const answer = there as unknown as Answer;
    expect(answer.notes.join()).toContain("'from 10.94.1.0/24' goes from A to B");
    expect(back?.notes.join()).toContain("'to 10.94.1.0/24' goes from B to A");
    // Only packets to b wait in the queue, for milliseconds; those to a pass at once, or as fast as a busy machine permits.
    const [thereNs = 0, backNs = 0] = [answer, back].map((a) => a?.estimates.lda.latency?.meanNs);
    expect(thereNs).toBeGreaterThan(500_000);
    expect(backNs).toBeGreaterThan(0);
    expect(backNs).toBeLessThan(thereNs / 3);
    // The same packets are counted at both ends, except for those in transit at a cut.
    for (const { sent, received } of whole(back))
      expect(Math.abs((sent ?? 0) - (received ?? 0))).toBeLessThan(20);
  },
);

test.skipIf(missing !== null)("the collector's directory, asked as such, gives the same direction", () => {
  const answer = execFileSync(process.execPath, [
    ...[cli, "query", join(scratch, "data", "records"), "--between", "A", "B", "--json"],
  ]).toString();
  expect(answer).toContain("'from 10.94.1.0/24' goes from A to B");
});
