/** Chromium for tests of pages: opens a page and records its problems. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
export const hasBrowser = existsSync(executablePath);
if (!hasBrowser) console.warn(`skipped: pages in a browser (no ${executablePath}; set CHROMIUM)`);

export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

export interface WatchedPage {
  page: Page;
  /** Console errors, exceptions, violations of the content security policy, requests to other servers. */
  problems: string[];
}

export async function watchedPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const page = await browser.newPage({ viewport: { width: 1360, height: 900 }, ...options });
  page.setDefaultTimeout(120_000);
  const problems: string[] = [];
  page.on("console", (message) => {
    // Caused by tests that read a canvas, not by the page.
    if (/Canvas2D/.test(message.text())) return;
    if (message.type() === "error" || message.type() === "warning")
      problems.push(`console ${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(new URL(url).origin))
      problems.push(`request: ${request.url()}`);
  });
  await page.addInitScript(
    "addEventListener('securitypolicyviolation', (e) => console.error('policy violated: ' + e.violatedDirective + ' ' + e.blockedURI))",
  );
  await page.goto(url);
  return { page, problems };
}

let axe: string | null = null;
/** Returns serious findings of axe-core, one line each. (Playwright's own evaluation is not restricted by the page's policy.) */
export async function accessibilityFindings(page: Page): Promise<string[]> {
  axe ??= readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(axe);
  return (await page.evaluate(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.filter((v) => v.impact === "serious" || v.impact === "critical")
      .flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target.join(" ") + " " + (n.any[0]?.message ?? v.help))))`)) as string[];
}
