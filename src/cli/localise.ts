/** `hoptime localise P1 P2 P3 …`: finds the hop that causes a problem. */
import { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import { CORRECTION_MODES, type CorrectionMode } from "../clock/correction.ts";
import {
  absoluteTimes,
  localisationJson,
  localiseCaptures,
  relativeTimes,
} from "../network/localise/from-captures.ts";
import { localiseRecords } from "../network/localise/from-records.ts";
import { renderLocalisationHtml } from "../present/html/localise-html.ts";
import { formatLocalisation } from "../present/text/localise-text.ts";
import { isCollectorUrl } from "../transport/http/collector-url.ts";
import { addCollectorOptions, type CollectorFlags, endpointOf } from "./collector-options.ts";
import { choiceOption, durationOption, instantOption, timeOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";
import { Progress } from "./terminal.ts";
import { writeFile } from "./whole-file.ts";

interface Flags extends CollectorFlags {
  records?: string;
  path?: string;
  estimator?: string;
  from?: bigint;
  to?: bigint;
  epoch?: number;
  window: number;
  filter?: string;
  inner?: boolean;
  names?: string;
  clock: CorrectionMode;
  json?: boolean;
  html?: string;
}

export function localiseCommand(): Command {
  const command = new Command("localise")
    .description(
      "Finds the hop that causes delay or loss. Splits the delay and loss of a path by segment and epoch, from captures of the same packets at two or more points, and names the segment behind each spike.",
    )
    .argument("[captures...]", "captures at the points of the path, in path order")
    .option(
      "--records <dir>",
      "use the points' records (hoptime observe --to DIR) or a collector (http://HOST:PORT) instead of captures",
    )
    .option("--path <a,b,…>", "with --records: the points in path order")
    .option("--estimator <name>", "with --records: use the answers of this estimator")
    .option("--from <time>", "with --records: epochs from this time on", instantOption("--from"))
    .option("--to <time>", "with --records: epochs before this time", instantOption("--to"))
    .option(
      "--epoch <time>",
      "length of an epoch (default: 1/60 of the capture, between 10ms and 1s)",
      durationOption("--epoch"),
    )
    .addOption(timeOption("--window <time>", "longest delay that is matched", 10e9))
    .option("--filter <expr>", "only packets that match this pcap-filter expression")
    .option("--inner", "use the packet inside GRE, VXLAN, Geneve, IP-in-IP and GTP-U")
    .option("--names <a,b,…>", "names of the points (default: the file names)")
    .option(
      "--clock <mode>",
      `clock correction: ${CORRECTION_MODES.join(", ")}`,
      choiceOption("--clock", CORRECTION_MODES),
      "asis",
    )
    .option("--json", "print the result as JSON (format hoptime.localise/1)")
    .option("--html <file>", "write an HTML report with the path and the time series");
  return addCollectorOptions(command)
    .addHelpText(
      "after",
      `
Examples:
  hoptime localise host.pcap r1-in.pcap r1-out.pcap r2-in.pcap r2-out.pcap
  hoptime localise a.pcap b.pcap c.pcap --epoch 100ms --names edge,core,server --html blame.html
  hoptime localise a.pcap b.pcap c.pcap --json | jq '.spikes, .lossSpikes'
  hoptime localise --records records --path A,B,C,D --estimator lda
  hoptime localise http://127.0.0.1:8787 --path A,B,C,D`,
    )
    .action(async (files: string[], flags: Flags) => {
      const [first = ""] = files;
      if (flags.records === undefined && isCollectorUrl(first)) {
        await fromRecords(first, files.slice(1), flags);
        return;
      }
      if (flags.records !== undefined) {
        await fromRecords(flags.records, files, flags);
        return;
      }
      for (const flag of ["path", "estimator", "from", "to"] as const)
        if (flags[flag] !== undefined)
          throw new UsageError("bad-option", `--${flag} needs --records`, "captures are given in path order");
      await fromCaptures(files, flags);
    });
}

async function fromCaptures(files: string[], flags: Flags): Promise<void> {
  const progress = new Progress("comparing");
  const captured = await localiseCaptures({
    files,
    names: flags.names?.split(","),
    epochNs: flags.epoch,
    windowNs: flags.window,
    filter: flags.filter,
    inner: flags.inner ?? false,
    clock: flags.clock,
    onProgress: (done, total, packets) => progress.update(done, total, packets),
  }).finally(() => progress.clear());
  const { localisation, originNs, reports } = captured;
  if (flags.html !== undefined)
    await writeFile(flags.html, renderLocalisationHtml(localisation, { originNs }));
  if (flags.json) await printJson(localisationJson(captured));
  else await printText(formatLocalisation(localisation, { originNs }));
  if (flags.html !== undefined) warn(`report written to ${flags.html}`);
  for (const side of new Set(reports.flatMap((r) => [r.before.partial, r.after.partial]))) {
    if (side === null) continue;
    warn(`hoptime: ${side}; results cover the part that was read`);
    process.exitCode = 2;
  }
}

async function askUrl(url: string, json: object, flags: Flags) {
  const { askCollector } = await import("../server/client.ts");
  const answer = await askCollector<ReturnType<typeof absoluteTimes>>(endpointOf(url, flags), {
    ...{ method: "POST", path: "/v1/localise", json },
  });
  return relativeTimes(answer);
}

async function fromRecords(directory: string, files: string[], flags: Flags): Promise<void> {
  if (files.length > 0) throw new UsageError("bad-option", "give captures or --records, not both");
  for (const flag of ["epoch", "filter", "names", "inner"] as const)
    if (flags[flag] !== undefined)
      throw new UsageError(
        "bad-option",
        `--${flag} applies to captures only`,
        "records have their own: leave it out",
      );
  if (flags.path === undefined)
    throw new UsageError("bad-option", "--records needs --path", "--path A,B,C: the points in path order");
  const { estimator, from, to } = flags;
  const points = flags.path.split(",");
  const { localisation, originNs } = isCollectorUrl(directory)
    ? await askUrl(directory, { path: points, estimator, from: from?.toString(), to: to?.toString() }, flags)
    : localiseRecords({ directory, points, estimator, fromNs: from, toNs: to });
  if (flags.html !== undefined)
    await writeFile(flags.html, renderLocalisationHtml(localisation, { originNs }));
  if (flags.json) await printJson(absoluteTimes(localisation, originNs));
  else await printText(formatLocalisation(localisation, { originNs }));
}
