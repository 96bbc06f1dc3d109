/** `hoptime compare BEFORE AFTER`. */
import { statSync } from "node:fs";
import { Command, Option } from "commander";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { countOf, formatCount } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { pointsOf } from "../capture/points.ts";
import { isStandardInput, parseCapturePath } from "../capture/source/capture-path.ts";
import { pointsText } from "../capture/source/point-names.ts";
import { CORRECTION_MODES, type CorrectionMode } from "../clock/correction.ts";
import { MEASURE_NAMES } from "../compare/columns.ts";
import {
  type CompareOptions,
  type Comparison,
  DEFAULT_WINDOW_NS,
  openComparison,
  SMALL_CAPTURES_BYTES,
} from "../compare/compare.ts";
import { type Condition, failures, parseCondition } from "../compare/conditions.ts";
import type { FlowOrder } from "../compare/flows.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { compareCsvLines } from "../present/csv/compare-csv.ts";
import { jsonPieces } from "../present/json/json-pieces.ts";
import { formatCompare } from "../present/text/compare-text.ts";
import {
  flagged,
  formatWorst,
  refuseOverwriting,
  worstJson,
  worstPackets,
  writePackets,
} from "./compare-files.ts";
import { addEstimatorOptions, asksEstimators, chosenEstimators } from "./estimator-options.ts";
import { choiceOption, durationOption, integerOption, shareOption, timeOption } from "./options.ts";
import { print, printText, warn } from "./output.ts";
import { packetFileOption } from "./packet-file.ts";
import { colours, Progress } from "./terminal.ts";
import { writeFile } from "./whole-file.ts";

interface Flags {
  window: number;
  epoch?: number;
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
  packets?: string;
  annotate?: string;
  annotateAfter?: string;
  worst?: number;
  failIf?: Condition[];
  prometheus?: string;
}

/** The estimators are most of the program, so they are loaded only if the arguments name an estimator or ask for help. */
// long: one call for each option, in the order of --help.
export async function compareCommand(args: readonly string[]): Promise<Command> {
  const command = new Command("compare")
    .description(
      "Matches the packets of two captures and reports one-way delay, loss, reordering and duplicates, per flow and over time, and whether the clocks can be trusted.",
    )
    .argument(
      "<before>",
      "capture at the first point: pcap, pcapng or ERF, plain or gzip; - is standard input, FILE#0 or FILE#eth0 one interface of a capture",
    )
    .argument("[after]", "capture at the second point; omit it if <before> contains both points")
    .optionsGroup("Packets:")
    .option("--filter <expr>", "only packets that match this pcap-filter expression")
    .option("--inner", "use the packet inside GRE, VXLAN, Geneve, IP-in-IP and GTP-U")
    .option("--nat", "match without addresses and ports, which are translated between the points")
    .addOption(timeOption("--window <time>", "longest delay that is matched", DEFAULT_WINDOW_NS))
    .addOption(
      new Option("--cover <bytes>", "match on this many bytes from the IP header on")
        .argParser(integerOption("--cover", 20, 1500))
        .default(undefined, "what both captures contain, at most 128"),
    )
    .addOption(
      new Option("--clock <mode>", "clock correction")
        .choices(CORRECTION_MODES)
        .argParser(choiceOption("--clock", CORRECTION_MODES))
        .default("asis"),
    )
    .optionsGroup("Report:")
    .option(
      "--key <fields>",
      "flow key: 5tuple, hosts, src/24, dst/16, prefix/24, ports, proto, dscp, vlan, joined with commas",
      "5tuple",
    )
    .addOption(
      new Option("--epoch <time>", "length of the intervals over time")
        .argParser(durationOption("--epoch"))
        .default(undefined, "10ms to 1s, by the length of the capture"),
    )
    .option("--top <n>", "number of flows in the table", integerOption("--top", 0), 10)
    .addOption(
      new Option("--sort <column>", `sort flows by: ${MEASURE_NAMES.join(", ")}`)
        .argParser(choiceOption("--sort", MEASURE_NAMES))
        .default("packets"),
    )
    .option("--worst <n>", "list the n slowest and the n last lost packets", integerOption("--worst", 0))
    .optionsGroup("Output:")
    .option("--json", "the whole report as JSON (format hoptime.compare/1)")
    .option("--csv", "all flows as CSV")
    .option("--html <file>", "write an HTML report")
    .option("--packets <file>", "write every packet: .csv, .jsonl or .parquet", packetFileOption)
    .option(
      "--annotate <file>",
      "write a copy of <before> as pcapng, with each packet's delay or 'lost' as comment",
    )
    .option("--annotate-after <file>", "the same for <after>")
    .option("--prometheus <file>", "write metrics for node_exporter's textfile collector")
    .option(
      "--fail-if <condition>",
      "exit with code 1 if this holds: 'p99>20ms', 'loss>1%', 'flow.p99>20ms', 'reverse.loss>1%' (repeatable)",
      (text: string, before: Condition[] = []) => [...before, parseCondition(text)],
    )
    .optionsGroup("Estimators:")
    .option("--confidence <share>", "confidence level of intervals", shareOption("--confidence"), 0.95)
    .option(
      "--flow-records <file>",
      "read packets per flow from NetFlow v5 or v9, IPFIX, a capture of those, or CSV, instead of counting them",
    );
  const table = asksEstimators(command, args) ? (await import("../estimators/table.ts")).ESTIMATORS : [];
  command.option(
    "--estimators <names>",
    `show these estimators beside the exact values, joined with commas: ${table.map((e) => e.name).join(", ")}`,
  );
  return addEstimatorOptions(command, table)
    .addHelpText(
      "after",
      `
Parameters of estimators: hoptime estimators NAME

Examples:
  hoptime compare ingress.pcap egress.pcap
  hoptime compare a.pcapng.gz b.pcapng.gz --filter 'udp and dst net 10.2.0.0/16' --top 20 --sort p99
  hoptime compare both.pcapng#eth0 both.pcapng#eth1
  hoptime compare a.pcap b.pcap --clock deskew --html report.html
  hoptime compare a.pcap b.pcap --fail-if 'p99>20ms' --fail-if 'loss>1%'
  hoptime compare a.pcap b.pcap --packets packets.parquet --annotate a-delays.pcapng --worst 10
  hoptime compare a.pcap b.pcap --estimators lda --lda packets=1e6,loss=0.01
  tcpdump -r a.pcap -w - port 443 | hoptime compare - b.pcap --json
`,
    )
    .action(async (before: string, after: string | undefined, flags: Flags) => {
      const [first, second] = after === undefined ? await twoPoints(before) : [before, after];
      await run(first, second, flags, table);
    });
}

/** Returns the two points of a capture that contains exactly two. */
async function twoPoints(file: string): Promise<[string, string]> {
  const points = isStandardInput(file) ? [] : await pointsOf(new Kernels(), file);
  const [first, second] = points;
  if (first && second && points.length === 2) return [`${file}#${first.index}`, `${file}#${second.index}`];
  const missing = "the second capture is missing";
  if (!first || !second)
    throw new UsageError(
      "bad-option",
      first ? `${missing}, and ${file} holds one point, not two` : missing,
      "hoptime compare BEFORE AFTER",
    );
  const names = points.map(({ index, name }) => (name === null ? String(index) : `${index} (${name})`));
  throw new UsageError(
    "bad-option",
    `${missing}, and ${file} holds ${points.length} points, not two: ${pointsText(names)}`,
    `choose two: hoptime compare ${file}#${first.index} ${file}#${second.index}`,
  );
}

async function run(before: string, after: string, flags: Flags, table: readonly Estimator[]): Promise<void> {
  if (isStandardInput(before) && isStandardInput(after)) {
    throw new UsageError(
      "bad-option",
      "standard input can only be one of the captures",
      "give a file for the other",
    );
  }
  if (flags.json && flags.csv) throw new UsageError("bad-option", "--json and --csv exclude each other");
  const plans = chosenEstimators({ ...flags }, table);
  if (flags.flowRecords !== undefined && plans.length === 0)
    throw new UsageError("bad-option", "--flow-records needs --estimators", "name them: --estimators colate");
  refuseOverwriting(before, after, flags);
  const progress = new Progress("comparing");
  const options: CompareOptions = {
    before,
    after,
    windowNs: flags.window,
    epochNs: flags.epoch ?? "by-length",
    clock: flags.clock,
    key: flags.key,
    filter: flags.filter,
    inner: flags.inner ?? false,
    nat: flags.nat ?? false,
    everyPacket:
      [flags.packets, flags.annotate, flags.annotateAfter, flags.worst].some((f) => f !== undefined) ||
      (flags.html !== undefined && areSmall(before, after)),
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
  try {
    await answer(comparison, { before, after }, flags, seconds);
  } finally {
    comparison.free();
  }
}

/** Returns whether the captures are small enough to keep all packets; then the page also shows the reverse direction and single flows over time. */
function areSmall(...captures: string[]): boolean {
  const files = new Set(captures.map((path) => parseCapturePath(path).file));
  const bytes = [...files].map(
    (file) => statSync(file, { throwIfNoEntry: false })?.size ?? Number.POSITIVE_INFINITY,
  );
  return bytes.reduce((a, b) => a + b, 0) <= SMALL_CAPTURES_BYTES;
}

async function answer(
  comparison: Comparison,
  captures: { before: string; after: string },
  flags: Flags,
  seconds: number,
): Promise<void> {
  const { packets } = comparison;
  if (flags.html !== undefined) {
    const { renderComparePage } = await import("../present/html/report-page.ts");
    await writeFile(
      flags.html,
      renderComparePage(flagged(comparison.view("all")), {}, packets?.table ?? null),
    );
  }
  if (packets) await writePackets(packets, flags, captures);
  const worst = packets && flags.worst !== undefined ? await worstPackets(packets, flags.worst) : null;
  const report = comparison.view(flags.json || flags.csv ? "all" : { top: flags.top, sort: flags.sort });
  if (flags.json) {
    await print(
      jsonPieces(worst ? { ...report, cdf: report.cdf, heat: report.heat, worst: worstJson(worst) } : report),
    );
    await print(["\n"]);
  } else if (flags.csv) await print(compareCsvLines(report));
  else {
    const count = report.before.packets + report.after.packets;
    const rate = count / Math.max(seconds, 1e-3);
    const spent = `\n${countOf(count, "packet")} in ${formatDuration(seconds * 1e9)} (${formatCount(rate)} packets/s)\n`;
    const text = formatCompare(report, { top: flags.top, sort: flags.sort, colours });
    await printText(text + (worst ? formatWorst(worst, colours) : "") + colours.dim(spent));
  }
  if (flags.prometheus !== undefined) {
    const { formatComparePrometheus } = await import("../present/prometheus/compare-prometheus.ts");
    await writeFile(flags.prometheus, formatComparePrometheus(report));
  }
  if (flags.html !== undefined) warn(`report written to ${flags.html}`);
  const failed = flags.failIf ? failures(comparison.view("all"), flags.failIf) : [];
  for (const line of failed) warn(`hoptime: failed: ${line}`);
  if (failed.length > 0) process.exitCode = 1;
  if (report.before.ipPackets + report.after.ipPackets === 0) {
    warn("hoptime: neither capture contains an IP packet; hoptime inspect FILE shows what it contains");
    process.exitCode = 2;
  }
  for (const capture of [report.before, report.after]) {
    if (capture.partial) {
      warn(`hoptime: ${capture.partial}; results cover the part that was read`);
      process.exitCode = 2;
    }
  }
}

async function withEstimates(
  options: CompareOptions,
  wanted: { plans: ReturnType<typeof chosenEstimators>; confidence: number; records: string | undefined },
): Promise<Comparison> {
  const { openWithEstimates } = await import("../compare/estimates.ts");
  const { openFlowRecords } = await import("./flow-record-file.ts");
  const { plans, confidence, records } = wanted;
  return await openWithEstimates(options, { plans, confidence, ...(await openFlowRecords(records)) });
}
