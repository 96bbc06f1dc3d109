/**
 * The HTML report of captures of which each packet is known: its filter works like conditions of the command line, and its CSV equals that of the command line.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CompareReport, FlowReport } from "../../src/compare/report.ts";
import { planUpgrades } from "../../src/network/plan/plan.ts";
import { parseTopology } from "../../src/network/topology/topology-format.ts";
import { renderPlanHtml } from "../../src/present/html/plan-html.ts";
import { accessibilityFindings, hasBrowser, launchBrowser } from "../support/browser-page.ts";
import { cliOutput, runCli } from "../support/cli.ts";
import { type LinkPacket, writeLink } from "../support/link-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-compare-page-"));
const FILES = { before: join(scratch, "before.pcap"), after: join(scratch, "after.pcap") };
const HTML = join(scratch, "report.html");
const MS = 1e6;

/** Flow n: 20 n packets with a delay of 1 + n/2 ms, n - 1 of them lost; flow 4 has more received than sent. */
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

  async function open(options = {}): Promise<Page> {
    const page = await browser.newPage({ acceptDownloads: true, ...options });
    await page.goto(pathToFileURL(HTML).href);
    await page.waitForSelector("html[data-ready]", { state: "attached" });
    return page;
  }

  async function passing(page: Page, filter: string): Promise<string> {
    await page.fill("#flow-filter", filter);
    // The page filters 60 ms after the last key; its timers run in order, however busy it is.
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
      // A minute: all delays are below it.
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
    // All conditions are checked in one run.
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
    // Delays on the page are in whole nanoseconds.
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

  test("the way back has charts of its own, and a flow of either way its own time series; on a phone what is cut off has a cue", async () => {
    const twoWay = traffic().flatMap((p): LinkPacket[] => [
      p,
      { ...p, reverse: true, atNs: p.atNs + 7, delayNs: p.delayNs === null ? null : 3 * p.delayNs },
    ]);
    writeLink(twoWay, FILES);
    cliOutput(["compare", FILES.before, FILES.after, "--html", HTML]);
    const page = await open();
    const inked = await page.locator("#reverse canvas").evaluateAll((canvases) =>
      (canvases as HTMLCanvasElement[]).map((c) => {
        const { data } = c.getContext("2d")?.getImageData(0, 0, c.width, c.height) ?? { data: [] };
        return data.filter((v, i) => i % 4 === 3 && v > 40).length;
      }),
    );
    expect(inked.length).toBeGreaterThanOrEqual(2);
    expect(Math.min(...inked)).toBeGreaterThan(500);
    for (const [way, delay] of [
      ["0", "3.5 ms"],
      ["1", "10.5 ms"],
    ] as const) {
      await page.click(`#flows button[data-value="${way}"]`);
      // The largest flow.
      await page.click('.flows tr[data-at="0"]');
      const label = await page.getAttribute(".flow-detail .flow-series svg", "aria-label");
      expect(label?.replaceAll("\u202f", " ")).toMatch(
        new RegExp(`^Delay over time: from .* to ${delay}, 4 packets lost$`),
      );
    }
    await page.close();
    const phone = await open({ viewport: { width: 390, height: 800 } });
    const heads = await phone
      .locator(".flows th:visible")
      .evaluateAll((all) => all.map((h) => [h.textContent, h.getBoundingClientRect().right] as const));
    for (const name of ["p99", "Loss"])
      expect(heads.find(([text]) => text === name)?.[1], name).toBeLessThanOrEqual(390);
    // Shadows at the sides of everything that can be scrolled.
    const cut = await phone
      .locator("main *")
      .evaluateAll((all) =>
        all
          .filter(
            (e) => e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX),
          )
          .map((e) => [
            e.className,
            (getComputedStyle(e).backgroundImage.match(/linear-gradient/g) ?? []).length,
          ]),
      );
    expect(cut).toEqual([["flow-scroll", 4]]);
    await phone.close();
  });

  test("reports of localise and plan are dark where the system is, and as wide as a phone; localise draws all series by one scale", async () => {
    // A rise by 1 ms on the first segment, and later one by 4 ms on the second.
    const packets = Array.from({ length: 2000 }, (_, n) => ({ flow: 1, number: n, atNs: n * MS + 1 }));
    const first = packets.map((p, n) => ({ ...p, delayNs: MS + (n >= 600 && n < 800 ? MS : 0) }));
    const second = first.map((p, n) => ({
      ...{ ...p, atNs: p.atNs + p.delayNs, delayNs: MS + (n >= 1400 && n < 1600 ? 4 * MS : 0) },
    }));
    const files = ["a", "b", "c"].map((name) => join(scratch, `${name}.pcap`)) as [string, string, string];
    writeLink(first, { before: files[0], after: files[1] });
    writeLink(second, { before: join(scratch, "unused.pcap"), after: files[2] });
    const html = { localise: join(scratch, "localise.html"), plan: join(scratch, "plan.html") };
    cliOutput(["localise", ...files, "--names", "A,B,C", "--epoch", "100ms", "--html", html.localise]);
    const map = parseTopology(Buffer.from("from,to,weight\na,b,1\nb,c,1\nc,a,3\nc,d,1\n"), "net.csv");
    writeFileSync(html.plan, renderPlanHtml(map, planUpgrades(map, { upgrade: 2 })));
    const page = await browser.newPage({ viewport: { width: 390, height: 800 }, colorScheme: "dark" });
    for (const [name, file] of Object.entries(html)) {
      await page.goto(pathToFileURL(file).href);
      expect(await page.evaluate(() => document.documentElement.scrollWidth), name).toBeLessThanOrEqual(390);
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      expect(ground, name).toBe("rgb(13, 18, 24)");
      expect(await accessibilityFindings(page), name).toEqual([]);
    }
    await page.goto(pathToFileURL(html.localise).href);
    const heights = await page.locator("#delay svg").evaluateAll((all) =>
      all.map((svg) => {
        const ys = [...svg.querySelectorAll("polyline")].flatMap((line) =>
          [...line.points].map((point) => point.y),
        );
        return Math.max(...ys) - Math.min(...ys);
      }),
    );
    // A → B, B → C, and the whole path: on a common scale, the second rises four times as high as the first, and the path as high as the second.
    expect(heights).toHaveLength(3);
    const [one = 0, two = 0, path = 0] = heights;
    expect(one).toBeGreaterThan(5);
    expect(two / one).toBeCloseTo(4, 0);
    expect(path / two).toBeCloseTo(1, 1);
    await page.close();
  });
});
