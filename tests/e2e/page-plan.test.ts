/** The plan as a layer of the collector's map: the routers of a monitoring station's network, and the next upgrades. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { planUpgrades } from "../../src/network/plan/plan.ts";
import { TopologyBuilder } from "../../src/network/topology/topology.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { accessibilityFindings, hasBrowser, launchBrowser, watchedPage } from "../support/browser-page.ts";

const data = mkdtempSync(join(tmpdir(), "hoptime-page-plan-"));
let server: RunningServer;
let browser: Browser;

/** A line of routers with a branch: the middle one is the best upgrade. */
function lab() {
  const builder = new TopologyBuilder();
  for (const [a = "", b = ""] of ["AB", "BC", "CD", "DE", "CF", "FG"].map((l) => l.split(""))) {
    builder.bothWays(builder.router(a), builder.router(b), { weight: 1 });
  }
  return builder.finish("lab");
}

beforeAll(async () => {
  if (!hasBrowser) return;
  server = await startServer({
    ...{ data, listen: "127.0.0.1:0" },
    station: { topology: lab(), listen: "127.0.0.1:0" },
  });
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await server?.close();
  rmSync(data, { recursive: true, force: true });
});

describe.skipIf(!hasBrowser)("the plan on the map", () => {
  test("numbers the routers to upgrade next, and says what each gains", async () => {
    const { page, problems } = await watchedPage(browser, `${server.url}/#/map`);
    await page.click("text=Plan of upgrades");
    await page.waitForSelector(".map .node.next");
    const { steps } = planUpgrades(lab(), { upgrade: 5 });
    const marked = await page.$$eval(".map .node.next", (nodes) =>
      nodes
        .map((n) => n.querySelectorAll("text"))
        .map(([mark, name]) => [mark?.textContent, name?.textContent]),
    );
    expect(Object.fromEntries(marked)).toEqual(
      Object.fromEntries(steps.slice(1).map((s, i) => [String(i + 1), s.router])),
    );
    const row = await page.textContent("section[aria-label='Plan of upgrades'] tbody tr");
    expect(row).toContain(`1. ${steps[1]?.router}`);
    expect(row).toContain(`→ ${steps[1]?.segments.meanHops?.toFixed(2)} hops`);
    expect(await accessibilityFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
    await page.close();
  });
});
