/**
 * The report page in a real browser: Chromium opens pages made from synthetic reports. Skipped, with the reason printed, without Chromium ($CHROMIUM: path of
 * another one).
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CompareReport } from "../../src/compare/report.ts";
import type { PageLimits } from "../../src/present/html/page-data.ts";
import { renderComparePage } from "../../src/present/html/report-page.ts";
import { hasBrowser, launchBrowser } from "../support/browser-page.ts";
import { busy } from "../support/busy.ts";
import { emptyReport, reportWithFlows, syntheticReport } from "../support/synthetic-report.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const HOSTILE = `</script><script>window.broken=1</script><img src=x onerror="window.broken=1">\u2028\u202e'"&.pcap`;

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "web"], { cwd: root, stdio: "ignore" });
});

describe("the page as a file", () => {
  test("is below 150 KB without data and refers to nothing outside itself", () => {
    const path = join(root, "dist/web/report.html");
    expect(statSync(path).size).toBeLessThan(150_000);
    const outside = readFileSync(path, "utf8").match(/(?:src|href)\s*=\s*["']?(?:https?:)?\/\/[^"' >]*/gi);
    expect(outside).toBeNull();
  });

  test("holds no way for a file name to end the script element", () => {
    const report = syntheticReport({ packets: 500 });
    report.before.file = HOSTILE;
    const html = renderComparePage(report);
    expect(html.match(/<script/g)).toHaveLength(2);
    expect(html.includes("<img")).toBe(false);
    expect(html.includes("\u2028")).toBe(false);
    const json = /<script type="application\/json" id="report-data">(.*)<\/script>/.exec(html)![1]!;
    expect((JSON.parse(json) as CompareReport).before.file).toBe(HOSTILE);
  });

  test("is filled once: marks and replacement patterns in data stay data", () => {
    const report = syntheticReport({ packets: 500 });
    report.notes = ["<!--HOPTIME:DATA-->", "$& $1 $`"];
    const html = renderComparePage(report);
    const json = /<script type="application\/json" id="report-data">(.*)<\/script>/.exec(html)![1]!;
    expect((JSON.parse(json) as CompareReport).notes).toEqual(report.notes);
  });
});

describe.skipIf(!hasBrowser)("the page in a browser", () => {
  let browser: Browser;
  let scratch: string;
  const problems: string[] = [];

  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), "hoptime-page-"));
    browser = await launchBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    rmSync(scratch, { recursive: true, force: true });
  });

  /** Opens a page and monitors it: a console error, an exception or a request fails the test. */
  async function open(
    report: CompareReport,
    options: BrowserContextOptions = {},
    limits: Partial<PageLimits> = {},
  ): Promise<Page> {
    const file = join(scratch, "report.html");
    writeFileSync(file, renderComparePage(report, limits));
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
    problems.length = 0;
    page.on("console", (message) => {
      if (message.type() !== "log") problems.push(`console ${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => problems.push(`exception: ${error.message}`));
    page.on("request", (request) => {
      const url = request.url();
      if (url !== pathToFileURL(file).href && !url.startsWith("data:")) problems.push(`request: ${url}`);
    });
    await page.goto(pathToFileURL(file).href);
    await page.waitForSelector("html[data-ready]", { state: "attached" });
    // Charts are drawn when the browser reports their width.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50))));
    return page;
  }

  const column = (page: Page, name: string): Promise<string[]> =>
    page.evaluate((label) => {
      const heads = [...document.querySelectorAll(".flows th")].map((h) => h.textContent);
      const at = heads.indexOf(label);
      return [...document.querySelectorAll(".flows tr[data-at]")].map(
        (r) => r.children[at]!.textContent ?? "",
      );
    }, name);

  /** Colours on a chart's canvas, and the share of pixels that are not transparent. */
  const painted = (page: Page, selector: string) =>
    page.evaluate((css) => {
      const canvas = document.querySelector(`${css} canvas`) as HTMLCanvasElement;
      const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
      const colours = new Set<number>();
      let inked = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3]! < 40) continue;
        inked++;
        colours.add(((data[i]! >> 4) << 8) | ((data[i + 1]! >> 4) << 4) | (data[i + 2]! >> 4));
      }
      return { colours: colours.size, share: inked / (data.length / 4) };
    }, selector);

  test("shows the verdict, draws every chart and makes no request", async () => {
    const report = syntheticReport();
    const page = await open(report);
    const tiles = await page.locator("main > .tiles .tile").allTextContents();
    expect(tiles).toHaveLength(5);
    expect(tiles[0]).toMatch(/Median delay.*\d\sµs/s);
    expect(tiles.join(" ")).toContain(report.clock.lines[0]);
    for (const [chart, minimum] of [
      ["#delay", 0.02],
      ["#heat", 0.1],
      ["#loss", 0.1],
      ["#distribution", 0.02],
    ] as const) {
      const { colours, share } = await painted(page, chart);
      expect(colours, `${chart} is drawn in colours`).toBeGreaterThan(3);
      expect(share, `${chart} is not blank`).toBeGreaterThan(minimum);
    }
    const text = (await page.textContent("main"))!;
    for (const line of [...report.clock.lines, ...report.direction.evidence, ...report.notes]) {
      expect(text).toContain(line);
    }
    expect(text).toContain("not IP (ARP)");
    expect(text).toContain("hoptime 0.1.0");
    expect(text).not.toMatch(/NaN|undefined|Infinity|\[object/);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("hostile file names, keys, reasons and sentences are shown as the text they are", async () => {
    const report = syntheticReport({ packets: 3000, flows: 20 });
    report.before.file = HOSTILE;
    report.after.partial = HOSTILE;
    report.before.skipped = { [HOSTILE]: 3, __proto__x: 1 };
    report.clock.lines = [HOSTILE];
    report.clock.trust = HOSTILE;
    report.notes = [HOSTILE];
    report.options = { [HOSTILE]: HOSTILE };
    report.estimates = { [HOSTILE]: { [HOSTILE]: HOSTILE } };
    report.flows[0]!.key.src = HOSTILE;
    report.flows[1]!.latency = null;
    report.flows[1]!.reason = HOSTILE;
    const page = await open(report);
    await page.click('tr[data-at="0"]');
    expect(await page.evaluate(() => "broken" in window)).toBe(false);
    expect(await page.locator("img").count()).toBe(0);
    expect(await page.textContent("#notes li")).toBe(HOSTILE);
    expect(await page.textContent(".flow-detail h3")).toContain(HOSTILE);
    expect(await page.title()).toContain("onerror");
    expect(problems).toEqual([]);
    await page.close();
  });

  test("the flow table sorts by any column, both ways, with missing answers last", async () => {
    const report = syntheticReport({ packets: 4000, flows: 30 });
    report.flows[3]!.latency = null;
    report.flows[3]!.reason = "every packet was lost";
    const page = await open(report);
    const heads = await page.locator(".flows th button").allTextContents();
    expect(heads.length).toBeGreaterThan(10);
    for (const head of heads) {
      for (const way of [0, 1]) {
        await page.locator(".flows th button").getByText(head, { exact: true }).click();
        const sorted = await page.locator(".flows th[aria-sort]").count();
        expect(sorted, `${head}, click ${way}`).toBe(1);
      }
    }
    const p99 = page.locator(".flows th button").getByText("p99", { exact: true });
    await p99.click();
    const truth = report.flows.flatMap((f) => f.latency?.p99Ns ?? []).sort((a, b) => b - a);
    const down = (await column(page, "p99")).map(readNs);
    expect(down.slice(0, 10)).toEqual(truth.slice(0, 10).map(fourDigits));
    await p99.click();
    const up = (await column(page, "p99")).map(readNs);
    expect(up.slice(0, 10)).toEqual(truth.reverse().slice(0, 10).map(fourDigits));
    await page.locator(".flow-scroll").press("End");
    expect(await page.textContent(".flow-detail")).toContain("No delay: every packet was lost");
    await page.locator(".flows th button").getByText("Source", { exact: true }).click();
    const sources = (await column(page, "Source")).map((s) => Number(/^10\.1\.(\d+)\./.exec(s)?.[1] ?? 999));
    expect(sources).toEqual([...sources].sort((a, b) => a - b));
    expect(problems).toEqual([]);
    await page.close();
  });

  test("the flow table filters by words and by conditions, and says what it did not understand", async () => {
    const report = syntheticReport();
    const page = await open(report);
    const filter = async (text: string) => {
      await page.fill("#flow-filter", text);
      await page.waitForTimeout(120);
      return (await page.textContent(".flow-state"))!;
    };
    const expected = (test: (f: CompareReport["flows"][number]) => boolean) =>
      `${report.flows.filter(test).length} of ${report.flows.length} flows`;
    expect(await filter("udp :53")).toContain(
      expected((f) => f.key.proto === 17 && [f.key.sport, f.key.dport].includes(53)),
    );
    expect(await filter("p99>2.1ms")).toContain(expected((f) => (f.latency?.p99Ns ?? 0) > 2.1e6));
    expect(await filter("loss > 0.2% tcp")).toContain(
      expected((f) => f.key.proto === 6 && f.lost / (f.lost + f.matched) > 0.002),
    );
    expect(await filter(report.flows[9]!.communityId!)).toContain(`1 of ${report.flows.length} flows`);
    expect(await filter("p98>1ms")).toContain("read as text, not as a condition: p98>1ms");
    expect(await page.textContent(".flows tbody")).toContain("No flow passes the filter.");
    expect(await filter("")).toBe(`${report.flows.length} flows`);
    await page.click('#flows button[data-value="1"]');
    expect(await page.textContent(".flow-state")).toBe(`${report.reverseFlows.length} flows`);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("charts read out what is under the pointer and under the arrow keys, and zoom together", async () => {
    const report = syntheticReport();
    const page = await open(report);
    await page.focus("#delay .chart");
    await page.keyboard.press("ArrowRight");
    const first = report.intervals[0]!;
    expect(await page.textContent("#delay [role=status]")).toContain("2024-05-03 12:00:00 + 1\u202fs");
    expect(await page.textContent("#delay [role=status]")).toContain(`matched ${first.matched}`);

    await page.hover("#heat .u-over", { position: { x: 200, y: 235 } });
    expect(await page.textContent("#heat .tip")).toMatch(
      /2024-05-03 12:00:\d\d.*delay.*µs – .*µs.*packets\d+/,
    );
    // The cursor is shown in all charts over time, its read-out in one.
    expect(await page.locator("#loss .u-cursor-x").isVisible()).toBe(true);
    expect(await page.locator("#loss .tip").isVisible()).toBe(false);

    await page.locator("#delay").scrollIntoViewIfNeeded();
    const box = (await page.locator("#delay .u-over").boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.4, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
    await page.mouse.up();
    const reset = page.getByRole("button", { name: "Show all" });
    expect(await reset.isVisible()).toBe(true);
    // The loss chart follows: its left end is now at 40 % of 90 s.
    await page.hover("#loss .u-over", { position: { x: 5, y: 40 } });
    expect(await page.textContent("#loss .tip")).toContain("12:00:3");
    await reset.click();
    expect(await reset.isVisible()).toBe(false);
    await page.hover("#loss .u-over", { position: { x: 5, y: 40 } });
    expect(await page.textContent("#loss .tip")).toContain("12:00:00");
    expect(problems).toEqual([]);
    await page.close();
  });

  test("the switches change what is drawn", async () => {
    const page = await open(syntheticReport({ packets: 8000 }));
    const picture = (css: string) =>
      page.evaluate((s) => (document.querySelector(`${s} canvas`) as HTMLCanvasElement).toDataURL(), css);
    for (const [section, button] of [
      ["#delay", '[data-value="linear"]'],
      ["#distribution", '[data-value="ccdf"]'],
      ["#distribution", '[data-value="linear"]'],
      ["#delay", ".legend button >> nth=2"],
    ] as const) {
      const before = await picture(section);
      await page.locator(section).locator(button).click();
      await page.waitForTimeout(60);
      expect(await picture(section), `${section} ${button}`).not.toBe(before);
    }
    expect(problems).toEqual([]);
    await page.close();
  });

  test("negative delays are drawn and the logarithmic axis is explained away", async () => {
    const report = syntheticReport({ offsetNs: -300_000 });
    report.direction.order = "swapped";
    const page = await open(report);
    expect(await page.textContent(".warning")).toContain("look swapped");
    const log = page.locator('#delay button[data-value="log"]');
    expect(await log.isDisabled()).toBe(true);
    expect(await log.getAttribute("title")).toContain("above zero");
    expect((await painted(page, "#delay")).share).toBeGreaterThan(0.02);
    expect(await page.textContent("#distribution")).toContain("\u2212");
    expect(problems).toEqual([]);
    await page.close();
  });

  test("a report without a single match says why, and shows no zero and no NaN in place of a delay", async () => {
    const page = await open(emptyReport());
    const warning = (await page.textContent(".warning"))!;
    expect(warning).toContain("No packet was seen in both captures");
    expect(warning).toContain("do not overlap: 23 h 58 min");
    const tiles = await page.locator(".tile").allTextContents();
    expect(tiles[0]).toBe("DelayNo answerno packet was seen in both captures");
    expect(await page.textContent("#delay")).toContain(
      "Nothing to draw: no packet was seen in both captures.",
    );
    expect(await column(page, "p50")).toEqual(["–", "–", "–", "–", "–"]);
    expect(await page.textContent(".flows tbody")).toContain("no packet matched");
    expect(await page.textContent("main")).not.toMatch(/NaN|undefined|Infinity/);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("reports with one interval, one packet or nothing at all still make a page", async () => {
    for (const packets of [1, 2, 40]) {
      const page = await open(syntheticReport({ packets, seconds: 1, flows: 1, reverse: false }));
      expect((await painted(page, "#delay")).share).toBeGreaterThan(0.002);
      expect(await page.textContent("main")).not.toMatch(/NaN|undefined|Infinity/);
      expect(problems, `${packets} packets`).toEqual([]);
      await page.close();
    }
    const bare = emptyReport();
    for (const capture of [bare.before, bare.after]) {
      Object.assign(capture, {
        packets: 0,
        ipPackets: 0,
        bytes: 0,
        firstNs: null,
        lastNs: null,
        skipped: {},
      });
    }
    bare.flows = [];
    delete bare.segment.reason;
    const page = await open(bare);
    expect(await page.textContent(".span")).toBe("Neither capture contains a packet.");
    expect(await page.textContent(".warning")).toContain("monday.pcap holds no packet.");
    expect(problems).toEqual([]);
    await page.close();
  });

  test("estimates stand beside the exact values, in words, within the window of a phone", async () => {
    const report = syntheticReport({ packets: 500 });
    const lda = {
      ...{ version: 1, parameters: "banks=4", confidence: 0.95, bytes: 32_800, senderBytes: 16_400 },
      ...{ meanNs: 401_234, lowNs: 399_234, highNs: 403_234, stdevNs: 1_500, exactMeanNs: 400_000 },
      ...{
        relativeError: 0.0031,
        lost: 3,
        exactLost: 2,
        coverage: 0.91,
        packetsUsed: 480,
        notes: ["a note"],
      },
    };
    const flow = { src: "10.0.0.1", dst: "10.0.0.2", proto: 17, sport: 53, dport: 4000 };
    const flows = Array.from({ length: 300 }, () => ({
      ...{
        key: flow,
        meanNs: 5000,
        lowNs: 4000,
        highNs: 6000,
        packets: 9,
        exactMeanNs: 5000,
        relativeError: 0,
      },
    }));
    report.estimates = {
      lda,
      lds: { ...lda, meanNs: null, reason: "no cell was usable", flows },
      colate: null,
      odd: "not run",
      list: [1, 2],
      later: { mean: { valueNs: 401_234 } },
    };
    const page = await open(report, { viewport: { width: 390, height: 800 } });
    const rows = await page.locator("#estimates .estimates tbody tr").allTextContents();
    expect(rows[0]).toBe("lda401.2\u202fµs ± 2\u202fµs400\u202fµs+0.31\u202f%3 (exact 2)32.8\u202fkB");
    expect(rows[1]).toMatch(/^ldsno cell was usable/);
    const text = (await page.textContent("#estimates")) ?? "";
    expect(text).toContain("Share of packets used91\u202f%");
    expect(text).toContain("a note");
    expect(text).not.toMatch(/packetsUsed|senderBytes|relativeError|exactMeanNs/);
    expect(text).toContain("UDP 10.0.0.1:53 > 10.0.0.2:4000");
    // Reports of other versions.
    expect(text).toContain("oddvaluenot run");
    expect(text).toContain("latermean: value401.2\u202fµs");
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("an interval between two silences is drawn, also where there are many", async () => {
    const report = syntheticReport({ packets: 5000, seconds: 200 });
    const drawnWith = async (kept: (i: number) => boolean) => {
      const intervals = report.intervals.map((interval, i) => ({
        ...interval,
        ...(kept(i) ? {} : { sent: 0, matched: 0, lost: 0, latency: null }),
      }));
      const page = await open({ ...report, intervals });
      const drawn = await page.evaluate(() => {
        const p99 = getComputedStyle(document.documentElement).getPropertyValue("--p99").trim();
        const wanted = [1, 3, 5].map((at) => Number.parseInt(p99.slice(at, at + 2), 16));
        const canvas = document.querySelector("#delay canvas") as HTMLCanvasElement;
        const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
        let coloured = 0;
        // The colour of p99, which neither grid nor text has.
        for (let i = 0; i < data.length; i += 4)
          if (wanted.every((c, k) => Math.abs(data[i + k]! - c) < 40) && data[i + 3]! > 120) coloured++;
        return coloured;
      });
      await page.close();
      return drawn;
    };
    expect(report.intervals.length).toBeGreaterThan(100);
    expect(await drawnWith((i) => i % 2 === 0)).toBeGreaterThan(report.intervals.length);
    expect(await drawnWith((i) => i === 7)).toBeGreaterThan(4);
  });

  test("dark is dark, light is light, and paper is always light", async () => {
    const page = await open(syntheticReport({ packets: 5000 }), { colorScheme: "dark" });
    const brightness = () =>
      page.evaluate(() => {
        const rgb = getComputedStyle(document.body).backgroundColor.match(/\d+/g)!.map(Number);
        return (rgb[0]! + rgb[1]! + rgb[2]!) / 3;
      });
    const heat = () =>
      page.evaluate(() => (document.querySelector("#heat canvas") as HTMLCanvasElement).toDataURL());
    expect(await brightness()).toBeLessThan(60);
    const darkHeat = await heat();
    await page.emulateMedia({ colorScheme: "light" });
    await page.waitForTimeout(100);
    expect(await brightness()).toBeGreaterThan(230);
    expect(await heat()).not.toBe(darkHeat);
    await page.emulateMedia({ colorScheme: "dark", media: "print" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    expect(await brightness()).toBeGreaterThan(230);
    expect(await page.locator("#flow-filter").isVisible()).toBe(false);
    expect(await page.locator(".flows tr[data-at]").count()).toBe(100);
    expect(await page.textContent(".flows tbody")).toMatch(/and \d+ more flows/);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("a screen of 400 points is wide enough: nothing sticks out", async () => {
    const report = syntheticReport();
    report.before.file = `/very/long/${"directory-name-without-a-break".repeat(6)}.pcap`;
    report.estimates = { lda: { mean: { valueNs: 1 } }, lds: { mean: { valueNs: 2 } } };
    const page = await open(report, { viewport: { width: 400, height: 800 } });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(400);
    const out = await page.evaluate(() =>
      [...document.querySelectorAll("main .card, main .tile, main .chart")]
        .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
        .map((node) => node.className),
    );
    expect(out).toEqual([]);
    expect((await painted(page, "#delay")).share).toBeGreaterThan(0.02);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("the whole page is reached and worked by keyboard", async () => {
    const page = await open(syntheticReport({ packets: 5000 }));
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to the report");
    const reached = new Set<string>();
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const node = document.activeElement;
        return `${node?.closest("section")?.id ?? "head"} ${node?.tagName} ${node?.className}`;
      });
      reached.add(at);
    }
    for (const stop of ["delay DIV chart", "heat DIV chart", "loss DIV chart", "distribution DIV chart"]) {
      expect([...reached]).toContain(stop);
    }
    expect([...reached]).toContain("flows INPUT ");
    expect([...reached]).toContain("flows DIV flow-scroll");
    await page.focus(".flow-scroll");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    expect(await page.getAttribute(".flows tr[aria-selected=true]", "data-at")).toBe("1");
    expect(await page.locator(".flow-detail").isVisible()).toBe(true);
    await page.keyboard.press("Escape");
    expect(await page.locator(".flow-detail").isVisible()).toBe(false);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("100,000 flows in the table: ready within 2 s, sorts and filters within 1 s, few elements", async () => {
    const report = reportWithFlows(100_000);
    const page = await open(report, {}, { maxFlows: 100_000 });
    const readyMs = await page.evaluate(
      () => performance.getEntriesByType("navigation")[0]!.duration || performance.now(),
    );
    expect(readyMs).toBeLessThan(2000 * busy());
    expect(await page.textContent(".flow-state")).toBe("100,000 flows");
    const work = await page.evaluate(async () => {
      const body = document.querySelector(".flows tbody")!;
      // Time from the action until the table has changed and the next frame could be shown.
      const time = (act: () => void) =>
        new Promise<number>((done) => {
          const from = performance.now();
          const watch = new MutationObserver(() => {
            watch.disconnect();
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - from)));
          });
          watch.observe(body, { childList: true });
          act();
        });
      const head = (name: string) =>
        [...document.querySelectorAll<HTMLElement>(".flows th button")].find((b) => b.textContent === name)!;
      const input = document.querySelector<HTMLInputElement>("#flow-filter")!;
      const scroll = document.querySelector(".flow-scroll")!;
      return {
        number: await time(() => head("p99").click()),
        address: await time(() => head("Source").click()),
        scroll: await time(() => {
          scroll.scrollTop = 1e6;
        }),
        filter: await time(() => {
          input.value = "udp p99>200us";
          input.dispatchEvent(new Event("input"));
        }),
      };
    });
    for (const [what, ms] of Object.entries(work)) expect(ms, what).toBeLessThan(1000 * busy());
    const wanted = report.flows.filter((f) => f.key.proto === 17 && f.latency!.p99Ns > 200_000).length;
    expect(await page.textContent(".flow-state")).toBe(`${wanted.toLocaleString("en")} of 100,000 flows`);
    expect(await page.locator(".flows tr").count()).toBeLessThan(80);
    expect(problems).toEqual([]);
    await page.close();
  });

  test("beyond 50,000 flows those with most packets are kept, and the page says so", async () => {
    const report = reportWithFlows(60_000);
    const page = await open(report);
    expect(await page.textContent(".flow-state")).toBe(
      "50,000 flows · the 50,000 with most packets of 60,000; all are in the JSON output",
    );
    const maximum = report.flows.reduce((a, b) => (b.sent + b.received > a.sent + a.received ? b : a));
    expect((await column(page, "Sent"))[0]).toBe(maximum.sent.toLocaleString("en"));
    await page.close();
  });
});

/** Converts `2.294 ms` to nanoseconds. */
function readNs(text: string): number {
  const [, number, unit] = /^([\d.]+)\s(ns|µs|ms|s)$/.exec(text) ?? [];
  return fourDigits(Number(number) * { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }[unit as "ns"]);
}

const fourDigits = (ns: number): number => Number(ns.toPrecision(4));
