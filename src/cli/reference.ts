/** `hoptime reference --to ADDR`: sends reference packets for RLI. */
import { Command } from "commander";
import { type ReferenceSummary, sendReferences } from "../delays/reference-sender.ts";
import { STAMP_PORT } from "../delays/stamp.ts";
import { durationOption, integerOption, rateOption } from "./options.ts";
import { printJson, printText } from "./output.ts";
import { endingSignal } from "./signals.ts";

interface Flags {
  to: string;
  port: number;
  rate?: number;
  interface?: string;
  drain?: number;
  for: number;
  session: number;
  bytes: number;
  json?: boolean;
}

export function referenceCommand(): Command {
  return new Command("reference")
    .description(
      "Sends reference packets (STAMP, RFC 8762, over UDP) that carry their sending time, at a fixed rate or paced by the utilisation of an interface, for RLI: the receiving point interpolates the delay of all other packets between them.",
    )
    .requiredOption("--to <address>", "where they go: an address behind the receiving point")
    .option("--port <n>", "UDP port", integerOption("--port", 1, 65_535), STAMP_PORT)
    .option(
      "--rate <n>",
      "references per second; without it --interface sets the pace",
      integerOption("--rate", 1, 100_000),
    )
    .option(
      "--interface <name>",
      "adapt to this interface: many references while it is idle, few when it is full",
    )
    .option("--drain <rate>", "drain rate of the interface's queue, e.g. 60mbit", rateOption)
    .option("--for <time>", "how long", durationOption("--for"), 10e9)
    .option("--session <n>", "session id in the packets", integerOption("--session", 0, 65_535), 1)
    .option("--bytes <n>", "UDP payload", integerOption("--bytes", 44, 1400), 44)
    .option("--json", "the summary as JSON (format hoptime.reference/1)")
    .addHelpText(
      "after",
      `
Examples:
  hoptime reference --to 198.18.2.2 --rate 200 --for 30s
  hoptime reference --to 198.18.2.2 --interface eth1 --drain 60mbit --for 1m
  hoptime reference --to fd00:2::2 --rate 50 --json`,
    )
    .action(async (flags: Flags) => {
      const summary = await sendReferences({
        to: flags.to,
        port: flags.port,
        packetsPerSecond: flags.rate,
        device: flags.interface,
        drainBps: flags.drain,
        durationNs: flags.for,
        session: flags.session,
        bytes: flags.bytes,
        signal: endingSignal(),
      });
      await (flags.json ? printJson(summary) : printText(describe(summary)));
    });
}

function describe(s: ReferenceSummary): string {
  const busy = s.utilisation === null ? "" : `, utilisation ${(100 * s.utilisation).toFixed(1)} %`;
  return `${s.sent} references to ${s.to} port ${s.port} in ${s.seconds.toFixed(1)} s (${s.packetsPerSecond.toFixed(1)} per second${busy})\n`;
}
