/** `hoptime page`: serves the page that compares captures in the browser. */
import { Command } from "commander";
import { serveComparePage } from "../server/compare-page.ts";
import { print, printJson } from "./output.ts";
import { endingSignal } from "./signals.ts";

const DEFAULT_LISTEN = "127.0.0.1:8780";

export function pageCommand(): Command {
  return new Command("page")
    .description(
      "Serves a page that compares two captures in the browser: drop the files on it. They stay in the browser. The page is also a single file, dist/web/compare/index.html, to host anywhere or open from disk.",
    )
    .option("--listen <address>", "HOST:PORT to listen on; port 0 picks a free one", DEFAULT_LISTEN)
    .option("--json", "print the address as a line of JSON: { url }")
    .addHelpText(
      "after",
      `
Examples:
  hoptime page                         # until Ctrl-C
  hoptime page --listen 0.0.0.0:8780   # for others too; their captures stay in their browsers`,
    )
    .action(async (flags: { listen: string; json?: boolean }) => {
      const signal = endingSignal();
      const page = await serveComparePage(flags.listen);
      if (flags.json) await printJson({ url: page.url });
      else await print([`Compare two captures in the browser: ${page.url}\n`]);
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      await page.close();
    });
}
