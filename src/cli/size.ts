/** `hoptime size ESTIMATOR`: chooses parameters from the traffic and the requirements, with cost and expected error. */
import { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import {
  formatBitRate,
  formatBytes,
  formatCount,
  formatPercent,
  formatShare,
  significant,
} from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import type { Estimator, ParameterValues, SizeAnswer, SizeRequest, Sizing } from "../estimators/estimator.ts";
import { formatParameters, parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { busiestEpoch } from "../inspect/traffic.ts";
import { type Column, formatTable } from "../present/text/table.ts";
import { positiveOption, shareOption, timeOption } from "./options.ts";
import { printJson, printText } from "./output.ts";
import { colours } from "./terminal.ts";

interface Flags {
  packets?: number;
  flows?: number;
  capture?: string;
  filter?: string;
  key: string;
  loss?: number[];
  epoch: number;
  variation: number;
  error?: number;
  flowSize?: number;
  reliability?: number;
  interval?: number;
  falsePositives?: number;
  memory?: number;
  set?: string;
  json?: boolean;
}

export function sizeCommand(): Command {
  const sizes = ESTIMATORS.filter((e) => e.sizing).map((e) => e.name);
  const command = new Command("size")
    .usage("<estimator> [options]")
    .description(
      "Chooses the parameters of an estimator for the expected traffic and a target error or memory budget, and reports its memory, bandwidth and predicted error.",
    )
    .argument("[estimator]", sizes.join(", "))
    .addHelpText(
      "after",
      `
Examples:
  hoptime size lda --packets 5e6 --loss 1% --error 1%
  hoptime size lda --capture a.pcap --loss 0.1%,5% --memory 8kB --json
  hoptime size maple --packets 400e3 --flows 68e3 --error 3% --false-positives 10%
  hoptime size ${sizes[0]} --help   all options`,
    )
    .action((name: string | undefined) => {
      const wrong = name === undefined ? "the estimator is missing" : `'${name}' has no sizes to choose`;
      throw new UsageError(
        "bad-option",
        wrong,
        `hoptime size ${sizes.join("|")} --packets 5e6 --loss 1% --error 1%`,
      );
    });
  for (const estimator of ESTIMATORS) {
    if (estimator.sizing) command.addCommand(sizeOf(estimator, estimator.sizing));
  }
  return command;
}

function sizeOf(estimator: Estimator, sizing: Sizing): Command {
  return new Command(estimator.name)
    .description(estimator.title)
    .option("--packets <n>", "packets per epoch, e.g. 5e6", positiveOption("--packets"))
    .option("--flows <n>", "flows per epoch", positiveOption("--flows"))
    .option("--capture <file>", "take packets, flows and flow sizes from the busiest epoch of a capture")
    .option("--filter <expr>", "with --capture: only packets that match this pcap-filter expression")
    .option("--key <fields>", "flow key, as in compare", "5tuple")
    .option("--loss <rates>", "expected loss rates, e.g. 0.01 or 0.1%,5%", lossOption)
    .addOption(timeOption("--epoch <time>", "length of an epoch", 1e9))
    .option(
      "--variation <ratio>",
      "standard deviation of the delays over their mean",
      positiveOption("--variation"),
      1,
    )
    .option(
      "--error <share>",
      "target mean relative error of the mean delay, e.g. 0.01 or 1%",
      shareOption("--error"),
    )
    .option(
      "--flow-size <n>",
      "size of the flows for which the error is wanted, in packets",
      positiveOption("--flow-size"),
    )
    .option(
      "--reliability <share>",
      "target share of the flows of --flow-size with an error below --interval",
      shareOption("--reliability"),
    )
    .option(
      "--interval <share>",
      "relative error for which reliability is reported, e.g. 0.05 or 5%",
      shareOption("--interval"),
    )
    .option(
      "--false-positives <share>",
      "packet stores: target probability of an answer for a packet that was never seen",
      shareOption("--false-positives"),
    )
    .option("--memory <bytes>", "memory budget of one tap, e.g. 16384, 16kB or 1MB", memoryOption)
    .option(
      "--set <key=value,...>",
      `parameters to keep as given: ${estimator.parameters.map((p) => p.name).join(", ")}`,
    )
    .option("--json", "print the answer as JSON (format hoptime.size/1)")
    .addHelpText("after", `\nhoptime estimators ${estimator.name} describes the parameters.`)
    .action(async (flags: Flags) => run(estimator, sizing, flags))
    .exitOverride()
    .configureOutput({ writeErr: () => {}, outputError: () => {} });
}

async function run(estimator: Estimator, sizing: Sizing, flags: Flags): Promise<void> {
  const wanted =
    flags.error !== undefined ? "--error" : flags.reliability !== undefined ? "--reliability" : null;
  if (wanted !== null && flags.memory !== undefined) {
    throw new UsageError(
      "bad-option",
      `${wanted} and --memory exclude each other`,
      "one follows from the other",
    );
  }
  const { request, notes } = await readRequest(estimator, flags);
  const answer = sizing.size(request);
  answer.notes.unshift(...notes);
  if (flags.json) await printJson(toJson(estimator, request, answer));
  else await printText(format(estimator, request, answer));
}

async function readRequest(
  estimator: Estimator,
  flags: Flags,
): Promise<{ request: SizeRequest; notes: string[] }> {
  const notes: string[] = [];
  let packets = flags.packets ?? null;
  let flows = flags.flows ?? null;
  let flowPackets: Float64Array | null = null;
  if (flags.capture !== undefined) {
    const traffic = await busiestEpoch(flags.capture, {
      epochNs: flags.epoch,
      key: flags.key,
      filter: flags.filter,
    });
    if (!traffic) throw new UsageError("bad-option", `no packets in ${flags.capture}`);
    if (traffic.short)
      notes.push("the capture is shorter than an epoch: a full epoch would have more packets");
    packets ??= traffic.packets;
    flows ??= traffic.flowPackets.length;
    flowPackets = traffic.flowPackets;
  }
  if (packets === null) {
    throw new UsageError(
      "bad-option",
      "the number of packets per epoch is missing",
      "give --packets N or --capture FILE",
    );
  }
  const request: SizeRequest = {
    packets,
    flows,
    flowPackets,
    loss: flags.loss ?? [],
    epochNs: flags.epoch,
    variation: flags.variation,
    error: flags.error ?? null,
    flowSize: flags.flowSize ?? null,
    reliability: flags.reliability ?? null,
    interval: flags.interval ?? null,
    absent: flags.falsePositives ?? null,
    memoryBytes: flags.memory ?? null,
    fixed: fixedParameters(estimator, flags.set),
  };
  return { request, notes };
}

/** Returns only the parameters that the user gave; the estimator chooses the others. */
function fixedParameters(estimator: Estimator, text: string | undefined): ParameterValues {
  if (text === undefined) return {};
  const all = parseParameters({ ...estimator, complete: (values) => values }, text);
  const named = text.split(",").map((part) => part.replace(/=.*/s, "").trim());
  return Object.fromEntries(Object.entries(all).filter(([name]) => named.includes(name)));
}

function toJson(estimator: Estimator, request: SizeRequest, answer: SizeAnswer): object {
  const { packets, flows, loss, epochNs, variation, error, memoryBytes } = request;
  return {
    format: "hoptime.size/1",
    estimator: estimator.name,
    request: { packets, flows, loss, epochNs, variation, error, memoryBytes },
    option: `--${estimator.name} ${formatParameters(estimator, answer.parameters, true)}`,
    ...answer,
  };
}

function format(estimator: Estimator, request: SizeRequest, answer: SizeAnswer): string {
  const columns: Column<SizeAnswer["predictions"][number]>[] = [
    { title: "loss", value: (p) => formatShare(p.loss) },
    { title: "quantity", align: "left", value: (p) => p.quantity },
    {
      title: "expected error",
      value: (p) => (p.relativeError === null ? "no answer" : formatPercent(p.relativeError)),
    },
    {
      title: "packets used",
      value: (p) => (p.packetsUsed === null ? "–" : formatCount(Math.round(p.packetsUsed))),
    },
  ];
  if (answer.predictions.some((p) => p.reliability !== undefined)) {
    const value = (p: SizeAnswer["predictions"][number]) =>
      p.reliability === undefined || p.reliability === null ? "–" : formatPercent(p.reliability, 1);
    columns.push({ title: `within ${formatShare(request.interval ?? 0.05)}`, value });
  }
  const lines = [
    `${colours.bold(estimator.name)} for ${formatCount(Math.round(request.packets))} packets per epoch of ${formatDuration(request.epochNs)}${request.flows === null ? "" : `, ${formatCount(request.flows)} flows`}`,
    `  option     --${estimator.name} ${formatParameters(estimator, answer.parameters, true)}`,
    `  memory     ${formatBytes(answer.memoryBytes)} per tap`,
    `  bandwidth  ${formatBytes(answer.payloadBytes)} per epoch and point: ${formatBitRate(answer.bitsPerSecond)}, ${significant(answer.bitsPerPacket, 3)} bit per packet`,
    "",
    formatTable(columns, answer.predictions, { colours }),
    ...(answer.notes.length > 0 ? ["", ...answer.notes.map((n) => `  ${n}`)] : []),
  ];
  return `${lines.join("\n")}\n`;
}

function lossOption(text: string): number[] {
  return text
    .split(/[,/]/)
    .map(shareOption("--loss", { zero: true }))
    .sort((a, b) => a - b);
}

const UNITS: Record<string, number> = {
  "": 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  kib: 1024,
  mib: 1 << 20,
  gib: 1 << 30,
};

function memoryOption(text: string): number {
  const match = /^\s*([0-9.]+)\s*([a-z]*)\s*$/i.exec(text);
  const unit = UNITS[match?.[2]?.toLowerCase() ?? "?"];
  const bytes = match && unit !== undefined ? Number(match[1]) * unit : Number.NaN;
  if (!(bytes > 0)) throw invalidValue("memory", text, "a size, e.g. 16384, 16kB or 1MiB");
  return bytes;
}
