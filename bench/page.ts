/**
 * The collector's page with 1,000 segments, in Chromium: time to the first rows of the overview (from the navigation, and the collector's part of it), and the longest frame while rows come in at
 * 1,000 per second. Rows are written into a real collector's results and told to those who listen; frames are measured by requestAnimationFrame. Arguments: segments (default 1,000), seconds (default 10).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { Combination } from "../src/collect/combine.ts";
import type { SegmentRow } from "../src/results/rows.ts";
import { rowEvent } from "../src/server/row-event.ts";
import { startServer } from "../src/server/server.ts";
import { launchBrowser } from "../tests/support/browser-page.ts";

const segments = Number(process.argv[2] ?? 1000);
const seconds = Number(process.argv[3] ?? 10);
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

/** What the time to the first rows is made of, ms after the navigation. */
async function milestones(page: Page): Promise<string> {
  const list = (await page.evaluate(`(() => {
    const entry = (part) => performance.getEntriesByType("resource").find((e) => e.name.includes(part));
    const [html] = performance.getEntriesByType("navigation");
    const [script, asked] = [entry("/main-"), entry("v1/overview")];
    return [["page", html.responseEnd], ["program", script?.responseEnd], ["asked", asked?.startTime], ["answer begins", asked?.responseStart], ["answer ends", asked?.responseEnd]];
  })()`)) as [string, number | undefined][];
  return list.map(([name, ms]) => `${name} ${ms === undefined ? "?" : Math.round(ms)}`).join(", ");
}

const data = mkdtempSync(join(tmpdir(), "hoptime-bench-page-"));
const server = await startServer({ data, listen: "127.0.0.1:0" });
const { results, events } = server.service;
for (let minute = 60; minute > 0; minute--) {
  const startNs = nowNs - BigInt(minute) * 60n * SECOND_NS;
  await results.write(
    Array.from({ length: segments }, (_, s) => row(s, startNs, 60n)),
    [],
  );
}
const browser = await launchBrowser();
try {
  for (const run of ["first", "again"]) {
    const asked = performance.now();
    await fetch(`${server.url}/v1/overview`).then((r) => r.arrayBuffer());
    const collectorMs = performance.now() - asked;
    const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
    await page.goto(server.url, { waitUntil: "commit" });
    page.setDefaultTimeout(60_000);
    await page.waitForSelector("tr.row");
    const paintMs = (await page.evaluate("performance.now()")) as number;
    const elements = (await page.evaluate("document.querySelectorAll('*').length")) as number;
    console.log(
      `${run}: overview of ${segments} segments in ${paintMs.toFixed(0)} ms, of which the collector ${collectorMs.toFixed(0)} ms; ${elements} elements`,
    );
    console.log(`  ${await milestones(page)}`);
    if (run === "first") {
      await page.close();
      continue;
    }
    await page.waitForSelector(".live.live");
    await page.evaluate(`window.frames_ = []; let last = performance.now();
      const next = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(next); }; requestAnimationFrame(next);`);
    let told = 0;
    const perTick = Math.max(1, Math.round(1000 / 20));
    for (let tick = 0; tick < 20 * seconds; tick++) {
      for (let i = 0; i < perTick; i++) {
        const segment = told % segments;
        const round = BigInt(Math.floor(told / segments));
        events.emit("epoch", () => rowEvent(row(segment, nowNs + round * SECOND_NS, 1n), null));
        told++;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const frames = ((await page.evaluate("window.frames_")) as number[]).sort((a, b) => a - b);
    const at = (share: number) => (frames[Math.floor(share * (frames.length - 1))] ?? 0).toFixed(0);
    console.log(
      `${told} rows in ${seconds} s: frames p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms (${frames.length} frames)`,
    );
    await page.close();
  }
} finally {
  await browser.close();
  await server.close();
  rmSync(data, { recursive: true, force: true });
}
