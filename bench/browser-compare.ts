/**
 * Compares the comparison in the browser with the library in one thread, on the same generated captures in the same run: duration of the comparison itself
 * (without the start of the page or of Node), best of several runs in turn, and the maximum memory of the page's process, including its worker. A tenth of the
 * captures is measured first, to show whether memory grows with them. The page is the single file, opened from disk. Arguments: packets (default 3e6; 8.5e6 are
 * two captures of 1 GB), flows (default 50,000), runs (default 3). Needs a built dist/ and Chromium.
 *
 *   node scripts/bench.mjs browser-compare [PACKETS] [FLOWS] [RUNS]
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import type { compareCaptures } from "../src/compare/compare.ts";
import { launchBrowser } from "../tests/support/browser-page.ts";
import { GENERATOR_VERSION, generateCaptures } from "./generate-captures.ts";

const packets = Number(process.argv[2] ?? 3e6);
const interleavedFlows = Number(process.argv[3] ?? 50_000);
const runs = Number(process.argv[4] ?? 3);

const library = (await import(pathToFileURL(resolve("dist/index.js")).href)) as {
  compareCaptures: typeof compareCaptures;
};

interface Pair {
  before: string;
  after: string;
  megabytes: number;
}

function pairOf(count: number): Pair {
  const folder = join("bench", "data", `pair-${count}-interleaved${interleavedFlows}-v${GENERATOR_VERSION}`);
  const at = (name: string) => resolve(folder, name);
  const [before, after, truth] = [at("before.pcap"), at("after.pcap"), at("truth.json")];
  if (!existsSync(truth)) {
    mkdirSync(folder, { recursive: true });
    const made = generateCaptures({ packets: count, interleavedFlows, beforeFile: before, afterFile: after });
    writeFileSync(truth, JSON.stringify(made));
  }
  return { before, after, megabytes: (statSync(before).size + statSync(after).size) / 1e6 };
}

async function inLibrary({ before, after }: Pair): Promise<{ seconds: number; counted: number }> {
  const started = performance.now();
  const report = await library.compareCaptures({
    ...{ before, after, epochNs: "by-length", parallel: false, flows: { top: 10, sort: "packets" } },
  });
  return {
    seconds: (performance.now() - started) / 1000,
    counted: report.before.packets + report.after.packets,
  };
}

async function inPage(page: Page): Promise<number> {
  await page.click("button.go");
  await page.waitForSelector("html[data-ready=report]", { timeout: 1_800_000 });
  return Number(/([\d.]+) s \(/.exec((await page.textContent("#command .lead")) ?? "")?.[1]);
}

/** Returns the maximum memory of a renderer process that this process started; null if the system does not provide it. */
function peakMegabytes(): number | null {
  if (!existsSync("/proc/self/status")) return null;
  const status = new Map<number, string>();
  for (const name of readdirSync("/proc").filter((n) => /^\d+$/.test(n)))
    try {
      status.set(Number(name), readFileSync(`/proc/${name}/status`, "utf8"));
    } catch {
      // The process has ended.
    }
  const field = (pid: number, name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status.get(pid) ?? "")?.[1] ?? 0);
  const isOurs = (pid: number): boolean => pid > 1 && (pid === process.pid || isOurs(field(pid, "PPid")));
  const shows = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--type=renderer");
  const peaks = [...status.keys()]
    .filter((pid) => isOurs(pid) && shows(pid))
    .map((pid) => field(pid, "VmHWM"));
  return peaks.length === 0 ? null : Math.max(...peaks) / 1000;
}

async function measure(count: number): Promise<void> {
  const pair = pairOf(count);
  const times = { library: [] as number[], browser: [] as number[] };
  const browser = await launchBrowser();
  let counted = 0;
  let peak: number | null = null;
  try {
    const page = await browser.newPage();
    await page.goto(pathToFileURL(resolve("dist/web/compare/index.html")).href);
    await page.setInputFiles("#file-0", pair.before);
    await page.setInputFiles("#file-1", pair.after);
    for (let run = 0; run < runs; run++) {
      const made = await inLibrary(pair);
      counted = made.counted;
      times.library.push(made.seconds);
      times.browser.push(await inPage(page));
      if (run < runs - 1) await page.click("text=Compare others");
    }
    peak = peakMegabytes();
  } finally {
    await browser.close();
  }
  const best = (list: number[]) => Math.min(...list);
  const rate = (seconds: number) => `${seconds.toFixed(2)} s  ${(counted / seconds / 1e6).toFixed(2)} Mpps`;
  console.log(
    `${(counted / 1e6).toFixed(1)} M packets, ${pair.megabytes.toFixed(0)} MB, best of ${runs} (load ${loadavg()[0]?.toFixed(1)} on ${availableParallelism()} processors):`,
  );
  console.log(`  library, one thread  ${rate(best(times.library))}`);
  console.log(`  in the browser       ${rate(best(times.browser))}`);
  console.log(`  ratio of speeds      ${(best(times.library) / best(times.browser)).toFixed(2)}`);
  console.log(`  memory of the page   ${peak === null ? "not known" : `${peak.toFixed(0)} MB at most`}`);
}

await measure(Math.round(packets / 10));
await measure(packets);
