/**
 * Two captures dropped on the page that compares them in the browser, opened from disk and served by `hoptime page`: the report equals that of the command
 * line.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CompareReport } from "../../src/compare/report.ts";
import { accessibilityFindings, hasBrowser, launchBrowser, watchedPage } from "../support/browser-page.ts";
import { busy } from "../support/busy.ts";
import { DEMO, ROOT, readFrames, writeFrames } from "../support/demo-captures.ts";
import { dropFiles } from "../support/drop-files.ts";

const PAGE = join(ROOT, "dist/web/compare/index.html");
const CLI = join(ROOT, "dist/cli/main.js");
const scratch = mkdtempSync(join(tmpdir(), "hoptime-browser-"));
let browser: Browser;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/build.mjs", "web"], { cwd: ROOT, stdio: "ignore" });
  if (hasBrowser) browser = await launchBrowser();
});
afterAll(async () => {
  await browser?.close();
  rmSync(scratch, { recursive: true, force: true });
});

function commandLine(...args: string[]): CompareReport {
  return JSON.parse(
    execFileSync(process.execPath, [CLI, "compare", ...args, "--json"], { maxBuffer: 1 << 28 }).toString(),
  ) as CompareReport;
}

/** The command line uses paths of files, the page uses their names. */
function withoutPaths(report: CompareReport): unknown {
  return JSON.parse(JSON.stringify(report).replaceAll(/"[^"]*\/([^"/]+\.pcap(?:ng)?(?:\.gz)?)/g, '"$1'));
}

/**
 * Every number is the same, except for the edges of the heat map's rows: they are powers, whose last digit may differ between engines (Math.pow is not exactly
 * specified). The counts between them are the same again.
 */
function expectSame(found: CompareReport, expected: CompareReport): void {
  const plain = withoutPaths(expected) as CompareReport;
  expect(found.heat?.delayEdgesNs).toHaveLength(plain.heat?.delayEdgesNs.length ?? 0);
  for (const [i, edge] of (found.heat?.delayEdgesNs ?? []).entries())
    expect(Math.abs(edge / (plain.heat?.delayEdgesNs[i] ?? 0) - 1)).toBeLessThan(1e-14);
  const rest = ({ heat, ...report }: CompareReport) => ({ ...report, heat: { ...heat, delayEdgesNs: null } });
  expect(rest(found)).toEqual(rest(plain));
}

async function compared(page: Page, paths: readonly string[]): Promise<void> {
  await dropFiles(page, "main", paths);
  await page.click("button.go");
  await page.waitForSelector("html[data-ready=report], .state .warning", { timeout: 60_000 * busy() });
}

async function savedJson(page: Page): Promise<CompareReport> {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Save JSON")]);
  return JSON.parse(readFileSync((await download.path())!, "utf8")) as CompareReport;
}

test("the page is one file that refers to nothing outside itself", () => {
  const html = readFileSync(PAGE, "utf8");
  expect(html.length).toBeLessThan(700_000);
  expect(html.match(/(?:src|href)\s*=\s*["']?(?:https?:)?\/\/[^"' >]*/gi)).toBeNull();
  expect(html.match(/<script/g)).toHaveLength(2);
});

describe.skipIf(!hasBrowser)("comparing in a browser", () => {
  test("opened from disk, the demo captures give the command line's JSON, number by number", async () => {
    const { page, problems } = await watchedPage(browser, pathToFileURL(PAGE).href);
    await compared(page, [DEMO.before, DEMO.after]);
    expect(await page.textContent("h1")).toBe("router-in.pcap.gz → router-out.pcap.gz");
    expectSame(await savedJson(page), commandLine(DEMO.before, DEMO.after));
    // One flow over time.
    await page.click(".flows tr[data-at='1']");
    await page.waitForSelector(".flow-series polyline");
    expect(await page.getAttribute(".flow-series svg", "aria-label")).toMatch(/27 packets lost/);
    expect(await accessibilityFindings(page)).toEqual([]);
    expect(problems.filter((p) => !p.startsWith("request: file:"))).toEqual([]);
    await page.close();
  });

  test("options of the form are those of the command line, and a wrong one is named", async () => {
    const { page, problems } = await watchedPage(browser, pathToFileURL(PAGE).href);
    await page.click("summary");
    await page.fill('label:has-text("Filter") input', "udp or");
    await compared(page, [DEMO.before, DEMO.after]);
    expect(await page.textContent(".state .warning")).toMatch(/^filter: /);
    await page.fill('label:has-text("Filter") input', "tcp");
    await page.fill('label:has-text("Flow key") input', "hosts");
    await page.fill('label:has-text("Intervals") input', "100ms");
    await page.selectOption('label:has-text("Clock correction") select', "relative");
    await page.click("button.go");
    await page.waitForSelector("html[data-ready=report]", { timeout: 60_000 * busy() });
    const flags = ["--filter", "tcp", "--key", "hosts", "--epoch", "100ms", "--clock", "relative"];
    expectSame(await savedJson(page), commandLine(DEMO.before, DEMO.after, ...flags));
    expect(await page.textContent("#command pre")).toBe(
      "hoptime compare router-in.pcap.gz router-out.pcap.gz --epoch 100ms --clock relative --key hosts --filter tcp",
    );
    expect(problems.filter((p) => !p.startsWith("request: file:"))).toEqual([]);
    await page.close();
  });

  test("plain captures, damaged ones and ones that are none", async () => {
    const frames = readFrames(DEMO.before);
    const whole = writeFrames(join(scratch, "whole.pcap"), frames);
    const after = writeFrames(join(scratch, "after.pcap"), readFrames(DEMO.after));
    const cut = join(scratch, "cut.pcap");
    writeFileSync(cut, readFileSync(whole).subarray(0, 200_001));
    const packed = join(scratch, "cut.pcap.gz");
    writeFileSync(packed, readFileSync(DEMO.before).subarray(0, 100_000));
    const noise = join(scratch, "noise.pcap");
    writeFileSync(noise, "this is no capture");
    const { page, problems } = await watchedPage(browser, pathToFileURL(PAGE).href);
    await compared(page, [whole, after]);
    expectSame(await savedJson(page), commandLine(whole, after));
    await page.click("text=Compare others");
    await compared(page, [cut, after]);
    const report = await savedJson(page);
    expect(report.before.partial).toMatch(/^cut\.pcap: at byte \d+: the file ends within a record/);
    await page.click("text=Compare others");
    await compared(page, [packed, after]);
    const unpacked = await savedJson(page);
    expect(unpacked.before.partial).toMatch(/^cut\.pcap\.gz: at byte \d+: reading failed/);
    expect(unpacked.before.packets).toBeGreaterThan(1000);
    await page.click("text=Compare others");
    await compared(page, [noise, after]);
    expect(await page.textContent(".state .warning")).toContain("noise.pcap");
    expect(problems.filter((p) => !p.startsWith("request: file:"))).toEqual([]);
    await page.close();
  });

  test("`hoptime page` serves it, in the dark and on a phone, and its policy is kept", async () => {
    const served = spawn(process.execPath, [CLI, "page", "--listen", "127.0.0.1:0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const url = await new Promise<string>((resolve, reject) => {
        served.stdout.on("data", (text) => {
          const found = /http:\S+/.exec(String(text))?.[0];
          if (found) resolve(found);
        });
        served.on("exit", (code) => reject(new Error(`ended with ${code}`)));
      });
      const policy = (await fetch(url)).headers.get("content-security-policy");
      expect(policy).toContain("worker-src blob:");
      expect(policy).toContain("frame-ancestors 'none'");
      expect((await fetch(new URL("/elsewhere", url))).status).toBe(404);
      const { page, problems } = await watchedPage(browser, url, {
        viewport: { width: 390, height: 844 },
        colorScheme: "dark",
      });
      await compared(page, [DEMO.before, DEMO.after]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
      expect(await accessibilityFindings(page)).toEqual([]);
      expect(problems).toEqual([]);
      await page.close();
    } finally {
      served.kill();
    }
  });
});
