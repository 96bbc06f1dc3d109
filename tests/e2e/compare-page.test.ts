/** The HTML report of captures of which each packet is known: its filter means what conditions of the command line mean, its CSV is the command line's. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CompareReport, FlowReport } from "../../src/compare/report.ts";
import { hasBrowser, launchBrowser } from "../support/browser-page.ts";
import { cliOutput, runCli } from "../support/cli.ts";
import { type LinkPacket, writeLink } from "../support/link-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-compare-page-"));
const FILES = { before: join(scratch, "before.pcap"), after: join(scratch, "after.pcap") };
const HTML = join(scratch, "report.html");
const MS = 1e6;

/** Flow n: 20 n packets of 1 + n/2 ms, of which n - 1 are lost; flow 4 has more received than sent. */
function traffic(rewritten = false): LinkPacket[] {
  return [1, 2, 3, 4, 5].flatMap((flow) =>
    Array.from({ length: 20 * flow }, (_, n) => ({
      flow,
      atNs: Math.round(((n + 1) * 2000 * MS) / (20 * flow)) + flow,
      delayNs: n > 2 && n <= 1 + flow ? null : MS + (flow * MS) / 2,
      unseen: flow === 4 && n > 50 && n <= 60,
      size: 100 * flow,
      rewritten: rewritten && flow === 3,
    })),
  );
}

describe.skipIf(!hasBrowser)("the HTML report", () => {
  let browser: Browser;
  let report: CompareReport;
  beforeAll(async () => {
    browser = await launchBrowser();
    writeLink(traffic(), FILES);
    report = JSON.parse(cliOutput(["compare", FILES.before, FILES.after, "--json", "--html", HTML]));
  });
  afterAll(async () => {
    await browser?.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  async function open(): Promise<Page> {
    const page = await browser.newPage({ acceptDownloads: true });
    await page.goto(pathToFileURL(HTML).href);
    await page.waitForSelector("html[data-ready]", { state: "attached" });
    return page;
  }

  async function passing(page: Page, filter: string): Promise<string> {
    await page.fill("#flow-filter", filter);
    // The page filters 60 ms after the last key; its timers are in order, however busy it is.
    await page.evaluate(() => new Promise((done) => setTimeout(done, 70)));
    return (await page.textContent(".flow-state")) ?? "";
  }

  test("the filter takes conditions and units of --fail-if, and says the same flows", async () => {
    const page = await open();
    const conditions: [string, number[]][] = [
      ["p99>2ms", [3, 4, 5]],
      ["p99 > 2 ms", [3, 4, 5]],
      ["p99>2000us", [3, 4, 5]],
      ["max<=0.002s", [1, 2]],
      // A minute: what is above none of them.
      ["mean<1m", [1, 2, 3, 4, 5]],
      ["loss>3.5%", [4, 5]],
      ["loss>0.035", [4, 5]],
      ["lost>=3", [4, 5]],
      ["bytes>10kB", [3, 4, 5]],
      ["bytes>0.03MB", [4, 5]],
      ["packets>=77", [4, 5]],
      ["sent>=77", [5]],
      ["sent>0.05k", [3, 4, 5]],
      ["appeared>9", [4]],
      ["p50=2ms", [2]],
    ];
    // One run judges all of them.
    const failIf = conditions.flatMap(([condition]) => ["--fail-if", `flow.${condition}`]);
    const { err } = runCli(["compare", FILES.before, FILES.after, ...failIf]);
    const lines = err.split("\n");
    for (const [condition, flows] of conditions) {
      const state = await passing(page, condition);
      const all = flows.length === report.flows.length;
      expect(state, condition).toBe(all ? "5 flows" : `${flows.length} of 5 flows`);
      const failed = lines
        .filter((line) => line.includes(`: flow.${condition}: `))
        .flatMap((line) => /10\.0\.0\.(\d)/.exec(line)?.[1] ?? []);
      expect(failed.map(Number).sort(), condition).toEqual(flows);
      const shown = await page.locator(".flows tr[data-at] td:first-child").allTextContents();
      expect(shown.map((s) => Number(/10\.0\.0\.(\d)/.exec(s)?.[1])).sort(), condition).toEqual(flows);
    }
    await page.close();
  });

  test("what the command line refuses is no condition of the filter", async () => {
    const page = await open();
    for (const condition of ["p99>20", "lost>1%", "sent>5ms", "loss>3ms", "p98>1ms"]) {
      expect(await passing(page, condition)).toContain(`read as text, not as a condition: ${condition}`);
      const { status, err } = runCli(["compare", FILES.before, FILES.after, "--fail-if", condition]);
      expect(status, condition).toBe(2);
      expect(err).toContain(`invalid value '${condition}'`);
    }
    await page.close();
  });

  test("the filter takes negation, of words, ports and conditions, as in --filter", async () => {
    const page = await open();
    const others = async (filter: string, test: (flow: FlowReport) => boolean) => {
      const passed = report.flows.filter(test).length;
      expect(passed).toBeGreaterThan(0);
      expect(await passing(page, filter), filter).toBe(`${passed} of 5 flows`);
    };
    for (const not of ["!", "! ", "not "]) {
      await others(`${not}10.0.0.2`, (f) => f.key.src !== "10.0.0.2");
      await others(`${not}:2003`, (f) => f.key.sport !== 2003);
      await others(`${not}p99>2ms`, (f) => (f.latency?.p99Ns ?? 0) <= 2 * MS);
      await others(`${not}10.0.0.2 udp ${not}p99 > 2.5 ms`, (f) =>
        [1, 3].includes((f.key.sport ?? 0) - 2000),
      );
    }
    expect(await passing(page, "not udp")).toBe("0 of 5 flows");
    const json = cliOutput([
      "compare",
      FILES.before,
      FILES.after,
      "--json",
      "--filter",
      "not src host 10.0.0.2",
    ]);
    expect((JSON.parse(json) as CompareReport).flows).toHaveLength(4);
    await page.close();
  });

  test("its CSV is that of --csv, cell by cell", async () => {
    const page = await open();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Save CSV" }).click(),
    ]);
    const file = join(scratch, "saved.csv");
    await download.saveAs(file);
    const [head, ...rows] = readFileSync(file, "utf8").trimEnd().split("\n");
    const [cliHead, ...cliRows] = cliOutput(["compare", FILES.before, FILES.after, "--csv"])
      .trimEnd()
      .split("\n");
    expect(head).toBe(cliHead);
    // Delays on the page have whole nanoseconds.
    const whole = (row: string) => row.replace(/\d+\.\d+(?=,|$)/g, (n) => String(Math.round(Number(n))));
    expect(rows.map(whole).sort()).toEqual(cliRows.map(whole).sort());
    await page.close();
  });

  test("loss that is unlikely to be real has a banner with its likely cause; plain loss has none", async () => {
    const plain = await open();
    expect(await plain.locator(".warning").allTextContents()).toEqual([]);
    await plain.close();
    writeLink(traffic(true), FILES);
    cliOutput(["compare", FILES.before, FILES.after, "--html", HTML]);
    const page = await open();
    const [banner = ""] = await page.locator(".warning").allTextContents();
    expect(banner).toMatch(/^The loss is probably not real.*translated on the way \(NAT\).*; use --nat$/);
    const above = await page.locator(".warning").first().boundingBox();
    const table = await page.locator(".flows").boundingBox();
    expect(above?.y ?? Number.NaN).toBeLessThan(table?.y ?? Number.NaN);
    await page.close();
  });
});
