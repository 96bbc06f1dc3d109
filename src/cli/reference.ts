/** `hoptime reference --to ADDR`: sends reference packets for RLI. */
import { Command, Option } from "commander";
import { countOf, formatCount, significant } from "../base/quantity.ts";
import type { AdaptiveSettings } from "../delays/injection-rate.ts";
import { readReferenceKey } from "../delays/reference-key.ts";
import { type ReferenceSummary, sendReferences } from "../delays/reference-sender.ts";
import { STAMP_PORT } from "../delays/stamp.ts";
import { durationOption, integerOption, rateOption, shareOption } from "./options.ts";
import { printJson, printText } from "./output.ts";
import { endingSignal } from "./signals.ts";

interface Flags {
  to: string;
  port: number;
  rate?: number;
  interface?: string;
  every?: number;
  drain?: number;
  maxGap?: number;
  minUtilisation?: number;
  maxUtilisation?: number;
  minShare?: number;
  maxShare?: number;
  smoothing?: number;
  for: number;
  session: number;
  bytes: number;
  key?: string;
  json?: boolean;
}

/** Share of the requested references below which a warning is printed. */
const ENOUGH = 0.95;

export function referenceCommand(): Command {
  const share = (flag: string) => shareOption(flag);
  return new Command("reference")
    .description(
      "Sends reference packets (STAMP, RFC 8762, over UDP) that carry their sending time, for RLI: the receiving point interpolates the delay of all other packets between them. Their rate is fixed (--rate), one per so many packets of an interface (--every), or follows the interface's utilisation (--drain).",
    )
    .requiredOption("--to <address>", "destination: an address behind the receiving point")
    .option("--port <n>", "UDP port", integerOption("--port", 1, 65_535), STAMP_PORT)
    .option("--rate <n>", "references per second", integerOption("--rate", 1, 100_000))
    .option("--interface <name>", "with --every or --drain: interface whose traffic sets the rate")
    .option(
      "--every <n>",
      "send one reference per n packets of --interface",
      integerOption("--every", 1, 1_000_000),
    )
    .option(
      "--drain <rate>",
      "follow the utilisation of --interface, whose queue drains at this rate, e.g. 60mbit: many references on an idle link, few on a full one",
      rateOption,
    )
    .option(
      "--max-gap <time>",
      "with --interface: longest pause between references (default: 100ms)",
      durationOption("--max-gap"),
    )
    .option(
      "--min-utilisation <share>",
      "with --drain: utilisation up to which --max-share applies (default: 60%)",
      share("--min-utilisation"),
    )
    .option(
      "--max-utilisation <share>",
      "with --drain: utilisation from which --min-share applies (default: 85%)",
      share("--max-utilisation"),
    )
    .option(
      "--min-share <share>",
      "with --drain: minimum share of references among all packets (default: 0.33%)",
      share("--min-share"),
    )
    .option(
      "--max-share <share>",
      "with --drain: maximum share of references among all packets (default: 10%)",
      share("--max-share"),
    )
    .option(
      "--smoothing <alpha>",
      "with --drain: weight of the newest utilisation in the moving average, updated every 2 ms (default: 0.05)",
      share("--smoothing"),
    )
    .addOption(
      new Option("--for <time>", "stop after this time; Ctrl-C stops earlier and prints the summary")
        .argParser(durationOption("--for"))
        .default(10e9, "10s"),
    )
    .option("--session <n>", "session id of the packets", integerOption("--session", 0, 65_535), 1)
    .option("--bytes <n>", "size of the UDP payload", integerOption("--bytes", 44, 1400), 44)
    .option(
      "--key <file>",
      "authenticate packets with the key in this file, the same as at the receiving point",
    )
    .option("--json", "print the summary as JSON (format hoptime.reference/1)")
    .addHelpText(
      "after",
      `
Examples:
  hoptime reference --to 198.18.2.2 --rate 200 --for 30s
  hoptime reference --to 198.18.2.2 --interface eth1 --drain 60mbit --for 1m
  hoptime reference --to 198.18.2.2 --interface eth1 --every 100 --max-gap 20ms
  hoptime reference --to fd00:2::2 --rate 50 --key reference.key --json`,
    )
    .action(run);
}

async function run(flags: Flags): Promise<void> {
  const summary = await sendReferences({
    to: flags.to,
    port: flags.port,
    packetsPerSecond: flags.rate,
    device: flags.interface,
    every: flags.every,
    drainBps: flags.drain,
    maxGapNs: flags.maxGap,
    adaptive: given({
      minUtilisation: flags.minUtilisation,
      maxUtilisation: flags.maxUtilisation,
      minRate: flags.minShare,
      maxRate: flags.maxShare,
      smoothing: flags.smoothing,
    }),
    durationNs: flags.for,
    session: flags.session,
    bytes: flags.bytes,
    key: flags.key === undefined ? undefined : readReferenceKey(flags.key),
    signal: endingSignal(),
  });
  await (flags.json ? printJson(summary) : printText(describe(summary)));
  for (const warning of warningsOf(summary)) process.stderr.write(`hoptime: ${warning}\n`);
  if (summary.sent === 0) process.exitCode = 2;
}

/** Returns only the settings that were given. */
function given(settings: Record<string, number | undefined>): Partial<AdaptiveSettings> {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function warningsOf({ sent, failed, packetsPerSecond, askedPerSecond }: ReferenceSummary): string[] {
  const out = Object.entries(failed).map(
    ([code, n]) => `${countOf(n, "reference")} did not leave this host (${code})`,
  );
  if (askedPerSecond !== null && sent > 0 && packetsPerSecond < ENOUGH * askedPerSecond) {
    out.push(
      `${significant(packetsPerSecond, 4)} references per second sent instead of ${formatCount(askedPerSecond)}: this host is too busy, or the rate too high`,
    );
  }
  return out;
}

function describe(s: ReferenceSummary): string {
  const busy = s.utilisation === null ? "" : `, utilisation ${(100 * s.utilisation).toFixed(1)} %`;
  return `${countOf(s.sent, "reference")} to ${s.to} port ${s.port} in ${significant(s.seconds, 3)} s (${significant(s.packetsPerSecond, 4)} per second${busy})\n`;
}
