// Takes screenshots of the pages for docs/ from `hoptime demo --live` and the demo captures: node scripts/screenshots.mjs [FOLDER]. Needs a build and Chromium
// ($CHROMIUM: path of another one).
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = process.argv[2] ?? join(root, "docs/images");
/** Name, route, dark or not, width and height; those that show the incident come first. */
const PICTURES = [
  ["overview", "#/overview?last=5m", false, 1200, 640],
  ["map", "#/map?last=5m", true, 1200, 780],
  ["phone", "#/overview?last=5m", true, 390, 760],
  ["segment", "#/segment/r2/r3?last=5m&with=lds", false, 1200, 860],
  ["flows", "#/flows/r2/r3?last=5m", false, 1200, 640],
  ["alerts", "#/alerts?last=5m", false, 1200, 520],
  ["packets", "#/packets/r2/r3?last=5m", false, 1200, 420],
  ["taps", "#/taps?last=5m", false, 1200, 640],
];
/** Delay after the page shows the incident, which lasts only some seconds. */
const AFTER_MS = 1500;
const LONGEST_MS = 180_000;

/** Returns the page at a route, when its data is loaded. */
async function opened(browser, url, [, hash, dark, width, height]) {
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    timezoneId: "UTC",
  });
  page.setDefaultTimeout(60_000);
  await page.goto(`${url}/${hash}`);
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => document.querySelector("main .loading") === null);
  return page;
}

async function take(page, name) {
  await page.screenshot({ path: join(folder, `page-${name}.png`) });
  await page.close();
  console.error(`page-${name}.png`);
}

/** Takes the screen that compares the demo captures in the browser. */
async function compared(browser, url) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 820 } });
  await page.goto(`${url}/#/compare`);
  await page.setInputFiles("#file-0", join(root, "demo/router-in.pcap.gz"));
  await page.setInputFiles("#file-1", join(root, "demo/router-out.pcap.gz"));
  await page.screenshot({
    path: join(folder, "page-compare.png"),
    clip: { x: 0, y: 0, width: 1200, height: 480 },
  });
  await page.click("button.go");
  await page.waitForSelector("#page[data-ready=report]", { timeout: 60_000 });
  await page.waitForTimeout(1000);
  await page.screenshot({ path: join(folder, "page-compare-report.png") });
  await page.close();
  console.error("page-compare.png, page-compare-report.png");
}

mkdirSync(folder, { recursive: true });
const demo = spawn(process.execPath, [join(root, "dist/cli/main.js"), "demo", "--live", "--json"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const ended = new Promise((resolve) => demo.on("close", resolve));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu"],
});
try {
  const lines = createInterface(demo.stdout);
  const url = await new Promise((resolve, reject) => {
    lines.on("line", (text) => {
      const line = JSON.parse(text);
      if (line.event === "started") resolve(line.url);
    });
    lines.on("close", () => reject(new Error("the demo ended at once")));
  });
  // Waits until the page shows the incident.
  const [first, ...later] = PICTURES;
  const page = await opened(browser, url, first);
  await page.waitForSelector(".incident.open", { timeout: LONGEST_MS }).then(
    () => console.error(`incident found, ${url}`),
    () =>
      console.error("no open incident was seen (is the machine too busy for the demo?): pictures without it"),
  );
  await page.waitForTimeout(AFTER_MS);
  await take(page, first[0]);
  for (const picture of later) {
    const [name] = picture;
    const page = await opened(browser, url, picture);
    // Charts are drawn when they know their width; taps have rates from their second update.
    await page.waitForTimeout(name === "taps" ? 12_000 : AFTER_MS);
    await take(page, name);
  }
  await compared(browser, url);
} finally {
  await browser.close();
  demo.kill("SIGINT");
  await ended;
}
