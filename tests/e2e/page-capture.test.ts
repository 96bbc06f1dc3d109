/** A capture dropped on the collector's page: read in the browser, looked up in the records of maple, with the same results as on the command line. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { formatCount } from "../../src/base/quantity.ts";
import type { PacketAnswer } from "../../src/query/packet/answer.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { accessibilityFindings, hasBrowser, launchBrowser, watchedPage } from "../support/browser-page.ts";
import { busy } from "../support/busy.ts";
import { runHoptime } from "../support/collect-process.ts";
import { DEMO } from "../support/demo-captures.ts";
import { dropFiles } from "../support/drop-files.ts";

const data = mkdtempSync(join(tmpdir(), "hoptime-page-capture-"));
let server: RunningServer;
let browser: Browser;

beforeAll(async () => {
  if (!hasBrowser) return;
  server = await startServer({
    data,
    listen: "127.0.0.1:0",
    segments: [{ from: "in", to: "out", label: "" }],
  });
  const to = ["--epoch", "1s", "--to", server.url];
  await runHoptime(["observe", DEMO.before, "--point", "in", "--estimators", "lda", ...to]);
  await runHoptime([
    ...["observe", DEMO.after, "--sender", DEMO.before, "--point", "out", ...to],
    ...["--estimators", "lda,maple", "--maple", "identity=both,index=true"],
  ]);
  await server.service.settle();
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser?.close();
  await server?.close();
  rmSync(data, { recursive: true, force: true });
});

describe.skipIf(!hasBrowser)("a capture on the packets screen", () => {
  test("gives the delays of its packets, those of the command line; its bytes stay in the browser", async () => {
    const { page, problems } = await watchedPage(browser, `${server.url}/#/packets/in/out`);
    const sent: number[] = [];
    page.on("request", (request) => sent.push(request.postDataBuffer()?.length ?? 0));
    await page.waitForSelector("input[type=file]");
    await dropFiles(page, "main", [DEMO.before]);
    await page.waitForSelector("section[aria-label=Answer] tbody tr", { timeout: 60_000 * busy() });
    const words = ["query", server.url, "--capture", DEMO.before, "--point", "out"];
    const answer = JSON.parse(await runHoptime([...words, "--top", "50", "--worst", "20", "--json"]));
    const { packets, matched, groups } = answer as PacketAnswer;
    expect(matched).toBeGreaterThan(5000);
    const text = (await page.textContent("section[aria-label=Answer]")) ?? "";
    expect(text.replaceAll(/\D/g, "")).toContain(`${packets}`);
    expect(await page.textContent("section[aria-label=Answer] .rows tbody tr:first-child th")).toBe(
      groups[0]?.text,
    );
    // The slowest packets, number by number.
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Save CSV")]);
    const rows = readFileSync((await download.path())!, "utf8")
      .trim()
      .split("\n")
      .slice(1);
    const expected = groups.flatMap((g) =>
      g.worst.map((w) => [w.packet, w.timeNs, w.delayNs, w.lowNs, w.highNs, w.guess ? "yes" : "no"].join()),
    );
    expect(rows.map((row) => row.split(",").slice(-6).join())).toEqual(expected);
    // Digests, times and sizes: less than half of the compressed capture.
    expect(Math.max(...sent)).toBeLessThan(readFileSync(DEMO.before).length / 2);
    // The filter selects packets of the capture.
    const udp = JSON.parse(await runHoptime([...words, "--filter", "udp", "--json"])) as PacketAnswer;
    expect(udp.packets).toBeLessThan(packets);
    await page.fill('label:has-text("Filter") input', "udp");
    await page.press('label:has-text("Filter") input', "Enter");
    await page.waitForSelector(
      `section[aria-label=Answer] p:has-text("${formatCount(udp.packets)} packets at out")`,
    );
    expect(await accessibilityFindings(page)).toEqual([]);
    expect(problems).toEqual([]);
    await page.close();
  });
});
