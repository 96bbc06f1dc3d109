/**
 * The collector's page in a real browser, with a real collector that receives records of a simulated network. Skipped, with the reason printed, without
 * Chromium.
 */
import { execFile, execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  accessibilityFindings,
  hasBrowser,
  launchBrowser,
  type WatchedPage,
  watchedPage,
} from "../support/browser-page.ts";
import { DEMO } from "../support/demo-captures.ts";
import { dropFiles } from "../support/drop-files.ts";
import { type SimulatedCollector, simulatedCollector } from "../support/simulated-collector.ts";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** The collector answers in this process in the meantime. */
const execute = promisify(execFile);
const SLOW = { from: "r2", to: "r3" };
const SEGMENTS = [{ from: "r1", to: "r2" }, SLOW, { from: "r3", to: "r4" }];
const BEFORE_S = 40;
const SLOW_S = 10;
const SCREENS = [
  "#/overview?last=5m",
  "#/segment/r2/r3?last=5m",
  "#/flows/r2/r3?last=5m",
  "#/map?last=5m",
  "#/packets/r2/r3",
  "#/taps",
  "#/alerts",
  "#/compare",
];

const DARK = new Set(SCREENS.slice(0, 4));

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "web"], { cwd: root, stdio: "ignore" });
});

test("the page is below 200 kB gzip and refers to nothing outside itself", () => {
  const folder = join(root, "dist/web/app");
  const files = readdirSync(folder).filter((f) => !f.endsWith(".gz"));
  const packed = files.map((f) => gzipSync(readFileSync(join(folder, f))).length);
  expect(packed.reduce((a, b) => a + b, 0)).toBeLessThan(200_000);
  const index = readFileSync(join(folder, "index.html"), "utf8");
  expect(index.match(/(?:src|href)\s*=\s*["']?(?:https?:)?\/\/[^"' >]*/gi)).toBeNull();
  expect(index).not.toMatch(/<script>|<style|\son\w+=/);
});

describe.skipIf(!hasBrowser)("the page in a browser", () => {
  let browser: Browser;
  let collector: SimulatedCollector;
  let url = "";
  const open: WatchedPage[] = [];

  beforeAll(async () => {
    collector = await simulatedCollector({
      segments: SEGMENTS,
      estimators: ["lda", "lds:rows=2,columns=512", "flows", "maple:identity=both,index=true"],
      path: ["r1", "r2", "r3", "r4"],
      beforeS: BEFORE_S,
    });
    // Like taps: small amounts at a time.
    for (let s = 0; s < BEFORE_S; s += 5) {
      const slow = s >= BEFORE_S - SLOW_S;
      for (const segment of SEGMENTS) await collector.send(segment, 5, slow && segment === SLOW);
      await collector.server.service.settle();
    }
    url = collector.server.url;
    browser = await launchBrowser();
  });

  afterEach(async () => {
    for (const { page } of open.splice(0)) await page.close();
  });

  afterAll(async () => {
    await browser?.close();
    await collector?.close();
  });

  async function show(hash: string, options = {}): Promise<WatchedPage> {
    const watched = await watchedPage(browser, `${url}/${hash}`, options);
    open.push(watched);
    await watched.page.waitForSelector("main h1");
    return watched;
  }

  const texts = (page: Page, selector: string) =>
    page.$$eval(selector, (nodes) => nodes.map((n) => n.textContent ?? ""));
  /** Waits until the charts of a screen have drawn data. */
  const painted = (page: Page) =>
    page.waitForFunction(() => {
      const canvases = [...document.querySelectorAll<HTMLCanvasElement>(".chart canvas")];
      return (
        canvases.length > 0 &&
        canvases.every((c) => {
          const { data } = c.getContext("2d")?.getImageData(0, 0, c.width, c.height) ?? { data: [] };
          return data.some((v) => v > 0);
        })
      );
    });

  test("the overview has a row per segment, the slow one first and in words", async () => {
    const { page, problems } = await show("#/overview");
    await page.waitForSelector("tr.row.slow");
    const names = await texts(page, "tr.row th");
    expect(names).toEqual(["r2 → r3", "r1 → r2", "r3 → r4"]);
    const state = (await texts(page, "tr.row.slow .badge .wide-only"))[0];
    expect(state).toMatch(/^slow: 5\.\d+\u202fms, normally \d+\u202fµs$/);
    // Lines over time come after the newest values.
    await page.waitForSelector("tr.row .spark");
    expect(await texts(page, "tr.row .spark title")).toHaveLength(3);
    await page.fill("#search", "r3 → r4");
    await page.waitForFunction(() => document.querySelectorAll("tr.row").length === 1);
    expect(page.url()).toContain("q=r3");
    expect(problems).toEqual([]);
  });

  test("from the overview to the segment, its flows and one flow, each by a click", async () => {
    const { page, problems } = await show("#/overview?last=5m");
    await page.click("tr.row.slow .row-link");
    await painted(page);
    expect(await texts(page, "main h1")).toEqual(["r2 → r3"]);
    await page.waitForSelector(".tile-detail");
    expect((await texts(page, ".tile-detail"))[0]).toMatch(/^slow: 5/);
    await page.click("text=lds");
    await page.waitForFunction(() => location.hash.includes("with=lds"));
    await painted(page);
    await page.click(".table-card .row-link >> nth=0");
    await page.waitForSelector("text=this flow");
    await painted(page);
    expect(page.url()).toContain("#/flows/r2/r3");
    await page.fill(".form input.wide", "host 203.0.113.77");
    await page.waitForSelector("text=No flow matches the filter");
    await page.fill(".form input.wide", "tcp or udp");
    await page.waitForFunction(() => document.querySelectorAll(".table-card tr.row").length > 0);
    expect(problems).toEqual([]);
  });

  test("Segments opens the worst; its axis begins at the lowest delay and says so; other segments are a choice away", async () => {
    const { page, problems } = await show("#/overview?last=5m");
    await page.waitForSelector("tr.row.slow");
    await page.click("nav >> text=Segments");
    await page.waitForSelector('section[aria-label="Over time"] .chart');
    await painted(page);
    expect(page.url()).toMatch(/#\/segment\/r2\/r3\/r2%3Ar3\?last=5m$/);
    const heading = (await texts(page, 'section[aria-label="Over time"] h3'))[0] ?? "";
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click('section[aria-label="Over time"] >> text=Save CSV'),
    ]);
    const [head = "", ...rows] = readFileSync(await download.path(), "utf8")
      .trim()
      .split("\n");
    const lowAt = head.split(",").indexOf("low_ns");
    const lows = rows.flatMap((r) => Number(r.split(",")[lowAt]) || []);
    const said = /the axis begins at the lowest, ([\d.]+)\u202fµs$/.exec(heading)?.[1];
    expect(said).toBe((Math.min(...lows) / 1e3).toPrecision(3));
    await page.selectOption("main select", { label: "r1 → r2" });
    await page.waitForFunction(() => document.querySelector("h1")?.textContent === "r1 → r2");
    // Back over the user's selections, not over the page's own.
    await page.goBack();
    await page.goBack();
    await page.waitForFunction(() => location.hash.startsWith("#/overview"));
    expect(problems).toEqual([]);
  });

  test("what clocks may be off by stands in the overview, on the segment and over time", async () => {
    const { page, problems } = await show("#/overview?last=5m");
    await page.waitForSelector("tr.row.slow");
    expect(new Set(await texts(page, "tr.row td:nth-last-child(2)"))).toEqual(new Set(["not known"]));
    const known = (text: string) => text.replaceAll('"clockNs":null', '"clockNs":12345');
    for (const route of ["**/v1/overview?*", "**/v1/latency?*"])
      await page.route(route, async (r) => {
        const response = await r.fetch();
        await r.fulfill({ response, body: known(await response.text()) });
      });
    await page.reload();
    await page.waitForSelector("tr.row.slow .spark");
    expect((await texts(page, "tr.row td:nth-last-child(2)"))[0]).toBe("±12.3\u202fµs");
    await page.click("tr.row.slow .row-link");
    await page.waitForSelector('section[aria-label="Over time"] .chart');
    expect(await texts(page, ".tile-value")).toContain("±12.3\u202fµs");
    expect(await page.$$('section[aria-label="Over time"] .chart')).toHaveLength(4);
    expect(problems).toEqual([]);
  });

  test("taps count each packet once, whatever number of estimators looks at it", async () => {
    const { page, problems } = await show("#/taps");
    await page.waitForSelector("tr.row");
    const { points } = (await (await fetch(`${url}/v1/points`)).json()) as {
      points: { name: string; tap: { packetsPerSecond: number } }[];
    };
    const rates = new Map(points.map((p) => [p.name, p.tap.packetsPerSecond]));
    // One end of one segment, and of two segments.
    expect(rates.get("r1")).toBeGreaterThan(100);
    expect(rates.get("r1")).toBeLessThan(300);
    expect(rates.get("r2")).toBeLessThan(600);
    expect(Number((await texts(page, "tr.row td.number"))[0])).toBeCloseTo(rates.get("r1") ?? 0, -1);
    expect(problems).toEqual([]);
  });

  test("a segment that is opened before its first results shows them when they have come", async () => {
    const { page, problems } = await show("#/overview");
    let answers = 0;
    await page.route("**/v1/segments", async (route) => {
      const response = await route.fetch();
      const { segments } = (await response.json()) as { segments: object[] };
      answers++;
      const none = segments.map((s) => ({
        ...s,
        estimators: [],
        packets: false,
        firstNs: null,
        lastNs: null,
      }));
      await route.fulfill({ response, json: { segments: answers === 1 ? none : segments } });
    });
    await page.goto(`${url}/#/segment/r2/r3?last=5m`);
    await page.waitForSelector("text=no epoch of both ends has arrived yet");
    await painted(page);
    expect(answers).toBeGreaterThan(1);
    expect(problems).toEqual([]);
  });

  /** The JSON output of a card's command. */
  async function commandOf(page: Page, card: string) {
    await page.click(`${card} >> text=Copy as command`);
    const command = (await page.textContent(`${card} .command code`)) ?? "";
    const run = `${command.replace(/^hoptime/, `"${process.execPath}" "${join(root, "dist/cli/main.js")}"`)} --json`;
    return JSON.parse((await execute("sh", ["-c", run], { maxBuffer: 1 << 28 })).stdout);
  }

  test("the command of each screen answers what the screen shows", async () => {
    const { page, problems } = await show("#/overview?last=5m&sort=name&order=down&q=r3");
    await page.waitForSelector("tr.row .spark");
    const { segments } = await commandOf(page, "section[aria-label=Segments]");
    expect(segments.map((s: { from: string; to: string }) => `${s.from} → ${s.to}`)).toEqual(
      await texts(page, "tr.row th"),
    );
    const cells = await texts(page, "tr.row td.number:not(.wide-only)");
    for (const [i, s] of segments.entries())
      expect(cells[i]).toContain(
        `${Number((s.latest.latency.meanNs / (i === 1 ? 1e6 : 1e3)).toPrecision(3))}`,
      );
    expect(segments.map((s: { state: string }) => s.state)).toEqual(["fine", "slow"]);
    const { paths } = await commandOf(page, "section[aria-label=Paths]");
    expect(paths).toHaveLength(1);
    const { incidents } = await commandOf(page, "section[aria-label=Incidents]");
    expect(incidents).toMatchObject([{ segment: SLOW, state: "open" }]);

    await page.goto(`${url}/#/map?last=5m`);
    await page.waitForSelector(".map .in-incident");
    const { segments: onMap } = await commandOf(page, "section[aria-label='Map of the network']");
    const marked = onMap.filter((s: { at: { incident: boolean } }) => s.at.incident);
    expect(marked).toMatchObject([{ ...SLOW }]);
    expect((await texts(page, ".map .in-incident .link-text"))[0]).toContain(
      `${Number((marked[0].at.meanNs / 1e6).toPrecision(3))}`,
    );

    await page.goto(`${url}/#/taps?q=r2`);
    const { points } = await commandOf(page, "section[aria-label=Points]");
    expect(points.map((p: { name: string }) => p.name)).toEqual(await texts(page, "tr.row th"));
    expect((await texts(page, "tr.row .badge"))[0]).toBe(points[0].state);

    await page.goto(`${url}/#/alerts?last=5m`);
    expect(await commandOf(page, "section[aria-label=Alerts]")).toMatchObject({ rules: [], alerts: [] });

    await page.goto(`${url}/#/flows/r2/r3?last=5m&q=udp&sort=delay`);
    await page.waitForSelector(".table-card tr.row");
    const { groups } = await commandOf(page, ".table-card");
    expect(groups.map((g: { text: string }) => g.text)).toEqual(await texts(page, ".table-card tr.row th"));
    expect((await texts(page, ".table-card tr.row td.number"))[0]).toContain(
      `${Number((groups[0].latency.meanNs / 1e6).toPrecision(3))}`,
    );
    expect(problems).toEqual([]);
  });

  test("a digest that is none is refused with what one looks like", async () => {
    const { page } = await show("#/packets/r2/r3?last=5m&packet=xyz&ask=1");
    await page.waitForSelector(".state.failed");
    expect(await page.textContent(".state.failed")).toMatch(
      /invalid value 'xyz' \(expected a digest: 16 hexadecimal digits, such as [0-9a-f]{16}\).*copy one from a list of packets/,
    );
  });

  test("from one flow to its packets", async () => {
    const { page, problems } = await show("#/flows/r2/r3?last=5m");
    await page.click(".table-card .row-link >> nth=0");
    await page.click("text=Its packets");
    await page.waitForSelector("text=Slowest packets");
    const [p50 = ""] = await texts(page, ".rows tbody tr.row .number");
    expect(p50).toMatch(/\u202f(µs|ms)$/);
    const said = (await texts(page, "section[aria-label=Answer] > p"))[0] ?? "";
    expect(Number(/^([\d,]+) packets at r3/.exec(said)?.[1]?.replaceAll(",", ""))).toBeGreaterThan(100);
    await page.click("text=Copy as command");
    await page.waitForSelector(".command code");
    expect((await texts(page, ".command code"))[0]).toMatch(
      /^hoptime query http:.* --flow '\w+ .*' --point r3 --segment r2:r3 --from/,
    );
    expect(problems).toEqual([]);
  });

  test("delays of a segment as quantiles and heat map, flows by p99, from the records of packets", async () => {
    const { page, problems } = await show("#/segment/r2/r3?last=5m");
    await page.waitForSelector(".heat rect:not(.no-packets)");
    await page.click('section[aria-label="Distribution of delays"] >> text=Hide');
    await page.waitForFunction(() => location.hash.includes("bands=0"));
    expect(await page.$(".heat rect")).toBeNull();
    await page.click("text=Show (read from the records of packets)");
    await page.waitForSelector(".heat rect:not(.no-packets)");
    expect(page.url()).toContain("bands=1");
    expect((await texts(page, ".heat rect:not(.no-packets) title"))[0]).toMatch(
      /50 % of [\d,]+ packets from .* \(min\) to /,
    );
    await painted(page);
    expect(await accessibilityFindings(page)).toEqual([]);
    await page.click("text=p99, too");
    await page.waitForSelector('th:has-text("p99") button');
    await page.click('.table-card th:has-text("p99") button');
    await page.waitForFunction(() => location.hash.includes("sort=p99"));
    const cells = await texts(page, ".table-card tr.row td:nth-child(3)");
    expect(cells.filter((c) => /\u202f(µs|ms)$/.test(c)).length).toBeGreaterThan(3);
    expect(problems).toEqual([]);
  });

  test("a flow on a path shows which segment gave it its delay", async () => {
    const { page, problems } = await show("#/flows/r2/r3?last=5m");
    await page.click(".table-card .row-link >> nth=0");
    await page.waitForSelector(".flow-path");
    expect((await texts(page, "h3.spaced"))[0]).toMatch(/most from r2 → r3/);
    expect(await texts(page, ".flow-path tbody th")).toEqual(["r1 → r2", "r2 → r3", "r3 → r4"]);
    expect(problems).toEqual([]);
  });

  test("the incident is a sentence on the overview, and on the map at its time", async () => {
    const { page, problems } = await show("#/overview?last=5m");
    await page.waitForSelector(".incident.open");
    expect((await texts(page, ".incident strong"))[0]).toMatch(
      /^r2 → r3 slow since [\d: -]+: \d+\u202fµs → 5\.\d+\u202fms, 99 % of the rise, \d+ flows$/,
    );
    await page.waitForSelector(".path-line .part.bad");
    await page.click("text=On the map");
    await page.waitForSelector(".map .in-incident");
    const links = await texts(page, ".map a .link-text");
    expect(links).toHaveLength(3);
    expect((await texts(page, ".map .in-incident .link-text"))[0]).toMatch(/^5\.\d+\u202fms \(2\d×\)/);
    const places = () =>
      texts(page, ".map .node").then(() =>
        page.$$eval(".map .node", (n) => n.map((e) => e.getAttribute("transform"))),
      );
    const before = await places();
    // Back to a time without problems.
    await page.locator(".slider input").evaluate((input: HTMLInputElement) => {
      input.value = String(Number(input.max) - 10);
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.waitForFunction(() => document.querySelector(".map .in-incident") === null);
    await page.reload();
    await page.waitForSelector(".map .node");
    expect(await places()).toEqual(before);
    expect(problems).toEqual([]);
  });

  test("a span dragged on a chart is the span of the page, in the URL and in the table", async () => {
    const { page, problems } = await show("#/segment/r2/r3?last=5m");
    const table = 'section[aria-label="Over time"] summary';
    await page.waitForSelector(table);
    await painted(page);
    const all = Number(/these (\d+)/.exec((await texts(page, table))[0] ?? "")?.[1]);
    const box = await page.locator('section[aria-label="Over time"] .chart .u-over').first().boundingBox();
    if (!box) throw new Error("no chart");
    await page.mouse.move(box.x + box.width - 40, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 8, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(() => location.hash.includes("since="));
    await page.waitForFunction(
      ({ table, n }) => {
        const shown = Number(/these (\d+)/.exec(document.querySelector(table)?.textContent ?? "")?.[1]);
        return shown > 0 && shown < n;
      },
      { table, n: all },
    );
    await page.click(table);
    await page.waitForSelector("table.small tbody tr");
    await page.click("text=Back to live");
    await page.waitForFunction(() => !location.hash.includes("since="));
    expect(problems).toEqual([]);
  });

  test("what arrives is shown without asking again", async () => {
    const { page, problems } = await show("#/overview?last=5m");
    await page.waitForSelector("tr.row.slow .spark");
    await page.waitForSelector(".live.live");
    const before = await page.$$eval("tr.row:not(.slow) .number", (n) => n.map((e) => e.textContent).join());
    const asked: string[] = [];
    page.on("request", (r) => asked.push(r.url()));
    await collector.send({ from: "r1", to: "r2" }, 3);
    await page.waitForFunction(
      (old) =>
        [...document.querySelectorAll("tr.row:not(.slow) .number")].map((e) => e.textContent).join() !== old,
      before,
    );
    expect(problems).toEqual([]);
  });

  test.each([
    ["light", {}],
    ["dark", { colorScheme: "dark" }],
    ["on a phone", { viewport: { width: 390, height: 800 } }],
  ] as const)("every screen is accessible and as wide as its window: %s", async (_, options) => {
    const { page, problems } = await show("#/overview?last=5m", options);
    const wide = options && "viewport" in options ? 390 : 1360;
    for (const hash of SCREENS) {
      await page.evaluate((h) => {
        location.hash = h;
      }, hash);
      await page.waitForFunction((h) => location.hash === h, hash);
      await page.waitForSelector(hash === "#/compare" ? ".captures" : "main h1");
      await page.waitForFunction(() => document.querySelector("main .loading") === null);
      // Colours are checked in light and dark mode; on a phone, the layout is checked. Compare is checked below: in a shadow tree, axe needs a style that the
      // policy forbids.
      const judged =
        hash !== "#/compare" && !("viewport" in options) && (!("colorScheme" in options) || DARK.has(hash));
      if (judged) expect(await accessibilityFindings(page), hash).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth), hash).toBeLessThanOrEqual(wide);
    }
    const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(dark === "rgb(13, 18, 24)").toBe("colorScheme" in options);
    expect(problems).toEqual([]);
  });

  test("two captures are compared inside the page: the numbers are the command line's, and stay while others are looked at", async () => {
    const { page, problems } = await show("#/overview?last=5m");
    await page.click("nav >> text=Compare");
    await page.waitForSelector(".captures");
    const sent: string[] = [];
    page.on("request", (r) => r.method() !== "GET" && sent.push(r.url()));
    await dropFiles(page, "main", [DEMO.before, DEMO.after]);
    await page.click("button.go");
    await page.waitForSelector("#page[data-ready=report]");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Save JSON")]);
    const { segment, flows } = JSON.parse(readFileSync(await download.path(), "utf8"));
    const cli = [join(root, "dist/cli/main.js"), "compare", DEMO.before, DEMO.after, "--json"];
    const expected = JSON.parse(execFileSync(process.execPath, cli, { maxBuffer: 1 << 28 }).toString());
    expect({ segment, flows }).toEqual({ segment: expected.segment, flows: expected.flows });
    await page.click("nav >> text=Taps");
    await page.waitForSelector("section[aria-label=Points]");
    await page.goBack();
    await page.waitForSelector("#page[data-ready=report]");
    expect(sent).toEqual([]);
    expect(problems).toEqual([]);
    expect(await accessibilityFindings(page)).toEqual([]);
  });

  test("a collector with tokens asks for one, and refuses a wrong one in words", async () => {
    const { tokens } = collector.server.service;
    const { token, info } = await tokens.add("viewer", "read");
    try {
      const { page } = await show("#/overview?last=5m");
      await page.waitForSelector(".token-form");
      await page.fill(".token-form input", "hop_000000000000_wrong");
      await page.click("text=Open");
      await page.waitForSelector("text=The token was refused");
      await page.fill(".token-form input", token);
      await page.click("text=Open");
      await page.waitForSelector("tr.row.slow");
      await page.waitForSelector(".live.live");
      expect(page.url()).not.toContain("hop_");
    } finally {
      await tokens.revoke(info.id);
    }
  });
});
