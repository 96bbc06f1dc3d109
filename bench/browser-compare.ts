/**
 * Comparing in the browser against the library in one thread, on the same generated captures in the same run: seconds of the comparison itself (without the page's or Node's start), best of
 * several taken in turn, and the most memory the page had. Arguments: packets (default 3e6), flows (default 50,000), runs (default 3). Needs a built dist/ and Chromium.
 *
 *   node scripts/bench.mjs browser-compare [PACKETS] [FLOWS] [RUNS]
 */
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { compareCaptures } from "../src/compare/compare.ts";
import { launchBrowser } from "../tests/support/browser-page.ts";
import { GENERATOR_VERSION, generateCaptures } from "./generate-captures.ts";

const packets = Number(process.argv[2] ?? 3e6);
const interleavedFlows = Number(process.argv[3] ?? 50_000);
const runs = Number(process.argv[4] ?? 3);

const folder = join("bench", "data", `pair-${packets}-interleaved${interleavedFlows}-v${GENERATOR_VERSION}`);
const [before, after, truth] = ["before.pcap", "after.pcap", "truth.json"].map((f) => resolve(folder, f)) as [
  string,
  string,
  string,
];
if (!existsSync(truth)) {
  mkdirSync(folder, { recursive: true });
  const made = generateCaptures({ packets, interleavedFlows, beforeFile: before, afterFile: after });
  writeFileSync(truth, JSON.stringify(made));
}
const megabytes = (statSync(before).size + statSync(after).size) / 1e6;
const library = (await import(pathToFileURL(resolve("dist/index.js")).href)) as {
  compareCaptures: typeof compareCaptures;
};
const browser = await launchBrowser();
const times = { library: [] as number[], browser: [] as number[] };
let counted = 0;
try {
  const page = await browser.newPage();
  await page.goto(pathToFileURL(resolve("dist/web/compare/index.html")).href);
  await page.setInputFiles("#file-0", before);
  await page.setInputFiles("#file-1", after);
  for (let run = 0; run < runs; run++) {
    const started = performance.now();
    const report = await library.compareCaptures({
      ...{ before, after, epochNs: "by-length", parallel: false, flows: { top: 10, sort: "packets" } },
    });
    times.library.push((performance.now() - started) / 1000);
    counted = report.before.packets + report.after.packets;
    await page.click("button.go");
    await page.waitForSelector("html[data-ready=report]", { timeout: 600_000 });
    const said = /([\d.]+) s \(/.exec((await page.textContent("#command .lead")) ?? "")?.[1];
    times.browser.push(Number(said));
    if (run < runs - 1) await page.click("text=Compare others");
  }
} finally {
  await browser.close();
}
const best = (list: number[]) => Math.min(...list);
const rate = (seconds: number) => `${(counted / seconds / 1e6).toFixed(2)} Mpps`;
console.log(`${(counted / 1e6).toFixed(1)} M packets, ${megabytes.toFixed(0)} MB, best of ${runs}:`);
console.log(`  library, one thread  ${best(times.library).toFixed(2)} s  ${rate(best(times.library))}`);
console.log(`  in the browser       ${best(times.browser).toFixed(2)} s  ${rate(best(times.browser))}`);
console.log(`  ratio of speeds      ${(best(times.library) / best(times.browser)).toFixed(2)}`);
