/**
 * The collector's page with 1,000 segments in Chromium: time from the navigation to the first rows of the overview and to their sparklines (and the collector's
 * share of it), and the longest frame while 1,000 rows per second arrive. Rows are written into a real collector's results and sent as events; frames are
 * measured by requestAnimationFrame. Each result includes the CPU time of the page's main thread (from Chromium's trace), which does not depend on other load
 * of the machine. Arguments: segments (default 1,000), seconds (default 25: the page requests everything again twice).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { Combination } from "../src/collect/combine.ts";
import type { SegmentRow } from "../src/results/rows.ts";
import { rowEvent } from "../src/server/row-event.ts";
import { startServer } from "../src/server/server.ts";
import { launchBrowser } from "../tests/support/browser-page.ts";

const segments = Number(process.argv[2] ?? 1000);
const seconds = Number(process.argv[3] ?? 25);
/** Number of loads of the overview; for the first one after the start, nothing is cached. */
const RUNS = 5;
const SECOND_NS = 1_000_000_000n;
const nowNs = BigInt(Math.floor(Date.now() / 1000)) * SECOND_NS;

function row(segment: number, startNs: bigint, lengthS: bigint): SegmentRow {
  const meanNs = 1e6 + 1000 * segment + 2e4 * Math.random();
  const combination = new Combination();
  const mean = { valueNs: meanNs, lowNs: meanNs - 3e3, highNs: meanNs + 3e3 };
  combination.add({
    ...{ mean, stdev: { reason: "no-packets", text: "" }, packets: 1000, lost: 0, used: 1000, bounds: null },
  });
  return {
    segment: { from: `r${segment}`, to: `r${segment + 1}`, label: "" },
    ...{ estimator: "lda", step: 0, startNs, endNs: startNs + lengthS * SECOND_NS, mode: "aligned" },
    ...{ epochs: 1, missing: 0, missingFrom: 0, missingTo: 0, refused: 0, edges: 0, merged: 0 },
    ...{ sent: 1000, received: 1000, lost: 0, dropped: null, bytes: 100, cutShift: null, reason: null },
    state: combination.state(),
  };
}

/** Notes when the first row and the first sparkline are on the screen: in the frame after the one in which they are drawn. */
const NOTE_FIRST = `window.first_ = {};
  performance.mark("hoptime-begin");
  const looks = { row: "tr.row", line: "tr.row .spark" };
  const look = () => {
    for (const [name, selector] of Object.entries(looks))
      if (document.querySelector(selector)) {
        performance.mark("hoptime-" + name);
        delete looks[name];
        requestAnimationFrame(() => requestAnimationFrame((now) => { window.first_[name] = now; document.documentElement.setAttribute("data-first-" + name, ""); }));
      }
    if (looks.line) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);`;

const loadText = () => `load ${loadavg()[0]?.toFixed(1)} on ${availableParallelism()} processors`;

async function answerMs(query: string): Promise<number> {
  const asked = performance.now();
  await fetch(`${server.url}/v1/overview${query}`).then((r) => r.arrayBuffer());
  return performance.now() - asked;
}

/** Returns the parts of the time to the first rows, in ms after the navigation. */
async function milestones(page: Page): Promise<string> {
  const list = (await page.evaluate(`(() => {
    const entry = (part) => performance.getEntriesByType("resource").find((e) => e.name.includes(part));
    const [html] = performance.getEntriesByType("navigation");
    const [script, asked] = [entry("/main-"), entry("v1/overview")];
    return [["page", html.responseEnd], ["program", script?.responseEnd], ["asked", asked?.startTime], ["answer begins", asked?.responseStart], ["answer ends", asked?.responseEnd]];
  })()`)) as [string, number | undefined][];
  return list.map(([name, ms]) => `${name} ${ms === undefined ? "?" : Math.round(ms)}`).join(", ");
}

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  tdur?: number;
  args: { name?: string };
}

/** Returns tasks of the page's main thread from Chromium's trace: start and end, and CPU time, in ms. */
async function traced(page: Page, act: () => Promise<void>) {
  await browser.startTracing(page, { categories: ["__metadata", "toplevel", "blink.user_timing"] });
  await act();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as {
    traceEvents: TraceEvent[];
  };
  const own = traceEvents.find((e) => e.name === "hoptime-begin");
  const main = traceEvents.filter((e) => e.pid === own?.pid && e.tid === own.tid);
  const tasks = main.filter((e) => e.name.endsWith("RunTask") && e.tdur !== undefined);
  const atOf = (name: string) => main.find((e) => e.name === name)?.ts ?? Number.NaN;
  return { tasks: tasks.map((e) => ({ ts: e.ts, cpuMs: (e.tdur ?? 0) / 1000 })), atOf };
}

const data = mkdtempSync(join(tmpdir(), "hoptime-bench-page-"));
const server = await startServer({ data, listen: "127.0.0.1:0" });
const { results, events } = server.service;
// Like after an hour of operation: older data is rolled up by minute, and the newest is in epochs.
for (let minute = 60; minute > 0; minute--) {
  const startNs = nowNs - BigInt(minute) * 60n * SECOND_NS;
  const rows = Array.from({ length: segments }, (_, s) => row(s, startNs, 60n));
  if (minute === 1) await results.write(rows, []);
  else
    await results["writeRolled"]({
      ...{ spans: [], flows: [] },
      segments: rows.map((r) => ({ ...r, step: 60 as const })),
    });
}
const browser = await launchBrowser();

/** Sends 1,000 rows per second and measures the frames. */
async function liveFrames(page: Page): Promise<void> {
  await page.waitForSelector(".live.live");
  let told = 0;
  const perTick = Math.max(1, Math.round(1000 / 20));
  const { tasks } = await traced(page, async () => {
    await page.evaluate(`performance.mark("hoptime-begin"); window.frames_ = []; let last = performance.now();
      const next = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(next); }; requestAnimationFrame(next);`);
    for (let tick = 0; tick < 20 * seconds; tick++) {
      for (let i = 0; i < perTick; i++) {
        const segment = told % segments;
        const round = BigInt(Math.floor(told / segments));
        events.emit("epoch", () => rowEvent(row(segment, nowNs + round * SECOND_NS, 1n), null));
        told++;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });
  const frames = ((await page.evaluate("window.frames_")) as number[]).sort((a, b) => a - b);
  const at = (share: number) => (frames[Math.floor(share * (frames.length - 1))] ?? 0).toFixed(0);
  const longest = Math.max(...tasks.map((t) => t.cpuMs));
  const used = tasks.reduce((sum, t) => sum + t.cpuMs, 0) / (1000 * seconds);
  console.log(
    `${loadText()}, ${told} rows in ${seconds} s: frames p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms (${frames.length} frames); longest task on the processor ${longest.toFixed(1)} ms, main thread busy ${(100 * used).toFixed(0)} %`,
  );
}

try {
  for (let run = 1; run <= RUNS; run++) {
    const leanMs = await answerMs("?steps=0");
    const collectorMs = await answerMs("");
    const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
    await page.addInitScript(NOTE_FIRST);
    page.setDefaultTimeout(60_000);
    const { tasks, atOf } = await traced(page, async () => {
      await page.goto(server.url, { waitUntil: "commit" });
      await page.waitForSelector("html[data-first-line]");
    });
    const cpuMs = tasks.filter((t) => t.ts <= atOf("hoptime-row")).reduce((sum, t) => sum + t.cpuMs, 0);
    const { row: rowMs, line: lineMs } = (await page.evaluate("window.first_")) as Record<string, number>;
    const elements = (await page.evaluate("document.querySelectorAll('*').length")) as number;
    console.log(
      `${run}: ${loadText()}, overview of ${segments} segments: first rows after ${rowMs?.toFixed(0)} ms, their lines over time after ${lineMs?.toFixed(0)} ms (the collector alone: ${leanMs.toFixed(0)} and ${collectorMs.toFixed(0)} ms; ${cpuMs.toFixed(0)} ms of the page's main thread on the processor before the first rows); ${elements} elements`,
    );
    console.log(`  ${await milestones(page)}`);
    if (run < RUNS) {
      await page.close();
      continue;
    }
    await liveFrames(page);
    await page.close();
  }
} finally {
  await browser.close();
  await server.close();
  rmSync(data, { recursive: true, force: true });
}
