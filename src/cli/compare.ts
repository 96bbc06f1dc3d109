/** `hoptime compare BEFORE AFTER`. */
import { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import { formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { isStandardInput } from "../capture/source/capture-path.ts";
import { CORRECTION_MODES, type CorrectionMode } from "../clock/correction.ts";
import { type CompareOptions, type Comparison, openComparison } from "../compare/compare.ts";
import type { FlowOrder } from "../compare/flows.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { compareCsvLines } from "../present/csv/compare-csv.ts";
import { renderComparePage } from "../present/html/report-page.ts";
import { jsonPieces } from "../present/json/json-pieces.ts";
import { formatCompare } from "../present/text/compare-text.ts";
import { addEstimatorOptions, asksEstimators, chosenEstimators, parameterHelp } from "./estimator-options.ts";
import { choiceOption, durationOption, integerOption, shareOption } from "./options.ts";
import { print, printText, warn, writeFile } from "./output.ts";
import { colours, Progress } from "./terminal.ts";

const ORDERS = ["packets", "mean", "p99", "max", "lost", "bytes"] as const satisfies readonly FlowOrder[];

interface Flags {
  window: number;
  epoch: number;
  clock: CorrectionMode;
  key: string;
  filter?: string;
  inner?: boolean;
  nat?: boolean;
  cover?: number;
  top: number;
  sort: FlowOrder;
  json?: boolean;
  csv?: boolean;
  html?: string;
  confidence: number;
  flowRecords?: string;
}

/** The estimators are most of the program: they are loaded where the arguments ask for one, or for help. */
export async function compareCommand(args: readonly string[]): Promise<Command> {
  const command = new Command("compare")
    .description(
      "Matches the same packets in two captures and tells who was delayed between them, by how much, what was lost, and whether the clocks can be trusted. Reads pcap, pcapng and ERF, plain or gzip; - is standard input. FILE#0 or FILE#eth0 is one interface of a capture that holds several points.",
    )
    .argument("<before>", "capture at the earlier point")
    .argument("<after>", "capture at the later point")
    .option("--window <time>", "a packet's copy is looked for this long", durationOption("--window"), 10e9)
    .option(
      "--epoch <time>",
      "length of the intervals over time; below 1s, at most 250,000 of them may hold packets",
      durationOption("--epoch"),
      1e9,
    )
    .option(
      "--clock <mode>",
      `what is done about the clocks: ${CORRECTION_MODES.join(", ")}`,
      choiceOption("--clock", CORRECTION_MODES),
      "asis",
    )
    .option("--filter <expr>", "only packets of this pcap-filter expression")
    .option(
      "--key <fields>",
      "what a flow is: 5tuple, hosts, src/24, dst/16, prefix/24, ports, proto, dscp, vlan, joined with commas; IPv6 takes prefixes twice as long, or of the length behind a second slash (src/24/64)",
      "5tuple",
    )
    .option("--inner", "look inside GRE, VXLAN, Geneve, IP-in-IP and GTP-U")
    .option("--nat", "addresses or ports are translated between the points: match packets without them")
    .option(
      "--cover <bytes>",
      "bytes from the IP header on that tell packets apart (default: what both captures hold, at most 128)",
      integerOption("--cover", 20, 1500),
    )
    .option("--top <n>", "flows shown in the table", integerOption("--top", 0), 10)
    .option(
      "--sort <by>",
      `order of the flows shown: ${ORDERS.join(", ")}`,
      choiceOption("--sort", ORDERS),
      "packets",
    )
    .option("--json", "everything, all flows, as JSON (format hoptime.compare/1)")
    .option("--csv", "all flows as CSV")
    .option("--html <file>", "writes a report that opens in any browser, without a network")
    .option("--confidence <share>", "of the estimators' intervals", shareOption("--confidence"), 0.95)
    .option(
      "--flow-records <file>",
      "packets per flow for the estimators, instead of counting them: NetFlow v5 or v9, IPFIX, a capture of those, or CSV",
    );
  const table = asksEstimators(command, args) ? (await import("../estimators/table.ts")).ESTIMATORS : [];
  command.option(
    "--estimators <names>",
    `sketches to run beside the exact match, joined with commas: ${table.map((e) => e.name).join(", ")}`,
  );
  return addEstimatorOptions(command, table)
    .addHelpText(
      "after",
      `
Examples:
  hoptime compare ingress.pcap egress.pcap
  hoptime compare a.pcapng.gz b.pcapng.gz --filter 'udp and dst net 10.2.0.0/16' --top 20 --sort p99
  hoptime compare both.pcapng#eth0 both.pcapng#eth1
  hoptime compare a.pcap b.pcap --clock deskew --html report.html
  hoptime compare a.pcap b.pcap --estimators lda --lda packets=1e6,loss=0.01
  tcpdump -r a.pcap -w - port 443 | hoptime compare - b.pcap --json
${parameterHelp(table)}`,
    )
    .action(async (before: string, after: string, flags: Flags) => {
      await run(before, after, flags, table);
    });
}

async function run(before: string, after: string, flags: Flags, table: readonly Estimator[]): Promise<void> {
  if (isStandardInput(before) && isStandardInput(after)) {
    throw new UsageError("bad-option", "both captures are '-': standard input can only be one of them");
  }
  if (flags.json && flags.csv) throw new UsageError("bad-option", "--json and --csv exclude each other");
  const plans = chosenEstimators({ ...flags }, table);
  if (flags.flowRecords !== undefined && plans.length === 0)
    throw new UsageError("bad-option", "--flow-records is for estimators", "name them: --estimators colate");
  const progress = new Progress("comparing");
  const options: CompareOptions = {
    before,
    after,
    windowNs: flags.window,
    epochNs: flags.epoch,
    clock: flags.clock,
    key: flags.key,
    filter: flags.filter,
    inner: flags.inner ?? false,
    nat: flags.nat ?? false,
    ...(flags.cover === undefined ? {} : { cover: flags.cover }),
    onProgress: (done, total, packets) => progress.update(done, total, packets),
  };
  const started = process.hrtime.bigint();
  const comparing =
    plans.length === 0
      ? openComparison(options)
      : withEstimates(options, { plans, confidence: flags.confidence, records: flags.flowRecords });
  const comparison = await comparing.finally(() => progress.clear());
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  if (flags.html !== undefined) writeFile(flags.html, renderComparePage(comparison.view("all")));
  const report = comparison.view(flags.json || flags.csv ? "all" : { top: flags.top, sort: flags.sort });
  if (flags.json) {
    await print(jsonPieces(report));
    await print(["\n"]);
  } else if (flags.csv) await print(compareCsvLines(report));
  else {
    const packets = report.before.packets + report.after.packets;
    const rate = packets / Math.max(seconds, 1e-3) / 1e6;
    const spent = `\n${formatCount(packets)} packets in ${formatDuration(seconds * 1e9)} (${rate.toFixed(2)} M/s)\n`;
    await printText(
      formatCompare(report, { top: flags.top, sort: flags.sort, colours }) + colours.dim(spent),
    );
  }
  comparison.free();
  if (flags.html !== undefined) warn(`report written to ${flags.html}`);
  for (const capture of [report.before, report.after]) {
    if (capture.partial) {
      warn(`hoptime: ${capture.partial}; the numbers cover what was read until there`);
      process.exitCode = 2;
    }
  }
}

async function withEstimates(
  options: CompareOptions,
  wanted: { plans: ReturnType<typeof chosenEstimators>; confidence: number; records: string | undefined },
): Promise<Comparison> {
  const { openWithEstimates } = await import("../compare/estimates.ts");
  const { tellFlowRecords } = await import("./flow-record-file.ts");
  const { plans, confidence, records } = wanted;
  return await openWithEstimates(options, { plans, confidence, ...(await tellFlowRecords(records)) });
}
