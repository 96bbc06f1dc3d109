/** `hoptime demo`: runs compare on the two-point capture that is part of the program; `--live`: a network in real time (demo-live.ts). */
import { resolve } from "node:path";
import { Command } from "commander";
import { findPackageFile } from "../base/package-file.ts";
import { openComparison, wholeReport } from "../compare/compare.ts";
import { renderComparePage } from "../present/html/report-page.ts";
import { formatCompare } from "../present/text/compare-text.ts";
import type { LiveDemoFlags } from "./demo-live.ts";
import { durationOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";
import { colours } from "./terminal.ts";
import { writeFile } from "./whole-file.ts";

interface Flags extends LiveDemoFlags {
  html: string;
  live?: boolean;
}

export function demoCommand(): Command {
  return new Command("demo")
    .description(
      "Compares two captures that come with the program, of a Linux router under load before and after its 60 Mbit/s queue, and writes the HTML report.",
    )
    .option("--html <file>", "where to write the report", "hoptime-report.html")
    .option(
      "--live",
      "run a simulated network in real time instead: taps, a collector with its page, an incident",
    )
    .option("--for <time>", "with --live: end after this time, e.g. 60s", durationOption("--for"))
    .option("--listen <address>", "with --live: HOST:PORT of the collector", "127.0.0.1:0")
    .option(
      "--json",
      "print the comparison as JSON (format hoptime.compare/1); with --live: lines of JSON (hoptime.demo/1)",
    )
    .addHelpText(
      "after",
      `
Examples:
  hoptime demo
  hoptime demo --html /tmp/report.html
  hoptime demo --json
  hoptime demo --live              # until Ctrl-C
  hoptime demo --live --for 60s`,
    )
    .action(async (flags: Flags) => {
      if (flags.live) return await (await import("./demo-live.ts")).runLiveDemo(flags);
      const [before, after] = ["router-in.pcap.gz", "router-out.pcap.gz"].map(demoFile) as [string, string];
      const comparison = await openComparison({ before, after, epochNs: 20e6, everyPacket: true });
      const report = wholeReport(comparison.view("all"));
      await writeFile(flags.html, renderComparePage(report, {}, comparison.packets?.table ?? null));
      comparison.free();
      if (flags.json) await printJson(report);
      else {
        await printText(
          "A Linux router, captured at its ingress and after its 60 Mbit/s queue. The command behind this:\n" +
            `  hoptime compare ${before} ${after} --epoch 20ms --html ${flags.html}\n\n`,
        );
        await printText(formatCompare(report, { top: 10, sort: "packets", colours }));
      }
      warn(`\nThe report is at ${resolve(flags.html)}: open it in a browser.`);
    });
}

function demoFile(name: string): string {
  const path = findPackageFile(`demo/${name}`);
  if (path === null) throw new Error(`demo/${name} is missing from the package`);
  return path;
}
