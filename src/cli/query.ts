/** `hoptime query DIR --between A B`: results from the records of two points; with only --packet, --flow or --capture: what a point knows about packets. */
import { Command, Option } from "commander";
import { RecordArchive } from "../archive/archive.ts";
import { isObjectUrl, readObjectPlace } from "../archive/objects/object-place.ts";
import { ObjectStorage } from "../archive/objects/object-storage.ts";
import { invalidValue, oneOf, UsageError } from "../base/errors.ts";
import { formatCount } from "../base/quantity.ts";
import { DEFAULT_CONFIDENCE } from "../collect/collector.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { formatAnswer } from "../present/text/answer-text.ts";
import { formatPacketAnswer } from "../present/text/packet-text.ts";
import type { PacketAnswer } from "../query/packet/answer.ts";
import { askPackets } from "../query/packet/ask.ts";
import {
  type AskedPackets,
  DEFAULT_SLACK_NS,
  DEFAULT_WORST,
  type PacketQuestion,
  parseIpids,
} from "../query/packet/question.ts";
import { askCapture } from "../query/packet/remote.ts";
import type { Answer } from "../query/segment/answer.ts";
import { askArchive } from "../query/segment/ask.ts";
import { chooseFlows, FLOW_ORDERS, type FlowOrder } from "../query/segment/choose-flows.ts";
import { noTails, tailQuestion, withTails } from "../query/segment/flow-tails.ts";
import type { Question } from "../query/segment/question.ts";
import { SEGMENT_ORDERS } from "../results/segment-list.ts";
import { flowRow, MAX_FLOW_ROWS } from "../server/questions.ts";
import { isCollectorUrl } from "../transport/http/collector-url.ts";
import { addCollectorOptions, type CollectorFlags, endpointOf } from "./collector-options.ts";
import { addEstimatorOptions, estimatorParameters, PARAMETER_HELP, splitNames } from "./estimator-options.ts";
import { flagOf } from "./flags.ts";
import { openFlowRecords } from "./flow-record-file.ts";
import { choiceOption, instantOption, integerOption, shareOption, timeOption } from "./options.ts";
import { printJson, printText } from "./output.ts";
import { LIST_NAMES, type ListFlags, runList } from "./query-list.ts";
import { colours } from "./terminal.ts";

interface Flags extends CollectorFlags, Omit<ListFlags, keyof CollectorFlags> {
  s3Endpoint?: string;
  between?: string[];
  segment?: string;
  class?: string;
  estimator?: string;
  flow?: string[];
  packet?: string[];
  ipid?: string;
  capture?: string;
  filter?: string;
  point?: string;
  slack: number;
  worst: number;
  group?: string;
  confidence: number;
  flowRecords?: string;
  series?: number | boolean;
  verbose?: boolean;
}

const EXAMPLES = `
Times: 2026-11-15T04:00:00Z, seconds with a decimal point (1700000000.5) or nanoseconds. An epoch
that overlaps --from or --to counts as a whole.

--group: host (pairs of hosts), prefix/N (pairs of prefixes) or any flow key (src, dst/24, proto …);
for single packets also packet, subflow/N and all.

Single packets need records of maple. Choose them by --packet, --flow or --capture, or --group alone
for all flows. --ipid and all flows need records observed with --maple identity=both,index=true.

Examples:
  hoptime query records --between A B
  hoptime query records --between A B --top 10
  hoptime query http://127.0.0.1:8787 --between A B --top 10
  hoptime query records --between A B --top 100 --filter 'tcp port 443' --sort delay
  hoptime query records --between A B --top 100 --sort p99
  hoptime query http://127.0.0.1:8787 --list segments --state slow
  hoptime query http://127.0.0.1:8787 --list incidents --from 2026-11-15T04:00:00Z
  hoptime query records --between A B --flow 'tcp 10.0.0.1:443 > 10.0.0.9:51000' --json
  hoptime query records --packet 5be0cd19137e2179 --from 2026-11-15T04:00:00Z
  hoptime query records --flow 'tcp 10.0.0.1:443 > 10.0.0.9:51000'
  hoptime query records --capture slow.pcap --filter 'port 443' --group subflow/10
  hoptime query records --between A B --group prefix/24 --from 2026-11-15T04:00:00Z
`;

// long: one call for each option, in the order of --help.
export function queryCommand(table: readonly Estimator[] = ESTIMATORS): Command {
  const command = new Command("query")
    .description(
      "Reports delay and loss between two points from their records, with confidence intervals. Without --between: the delays of single packets, from the records of one point.",
    )
    .argument(
      "<dir>",
      "records: a directory (hoptime observe --to DIR), a collector (http://HOST:PORT) or s3://BUCKET/PREFIX",
    )
    .option(
      "--list <what>",
      `print a list of a collector, as on its page: ${LIST_NAMES.join(", ")}`,
      choiceOption("--list", LIST_NAMES),
    )
    .option("--between <points...>", "sender and receiver, e.g. A B")
    .option("--segment <label>", "use the records of this segment")
    .option("--class <name>", "use the records of this traffic class")
    .option("--estimator <names>", "only these estimators (default: all with records)")
    .option("--flow <key...>", "these flows, e.g. 'tcp 10.0.0.1:443 > 10.0.0.9:51000'")
    .option("--packet <digest...>", "these packets, by digest (16 hexadecimal digits)")
    .option(
      "--ipid <ranges>",
      "with --flow: packets with these IPIDs, e.g. 100-250,300 (default: those listed in the records)",
    )
    .option("--capture <file>", "the packets of this capture")
    .option(
      "--filter <expr>",
      "only packets of --capture, or listed flows, that match this pcap-filter expression",
    )
    .option("--search <text>", "only flows, or rows of --list, with this in their name")
    .option(
      "--state <state>",
      "with --list, by state: segments slow, loss, silent, unmeasured, fine; incidents open, closed; alerts active, ended",
    )
    .option(
      "--sort <by>",
      `order of flows: ${FLOW_ORDERS.join(", ")}; of segments: ${SEGMENT_ORDERS.join(", ")}`,
    )
    .option("--order <way>", "direction of --sort: up or down", choiceOption("--order", ["up", "down"]))
    .option("--at <time>", "with --list segments: their state at this time", instantOption("--at"))
    .option("--point <name>", "for single packets: use the records of this point")
    .addOption(
      timeOption(
        "--slack <time>",
        "with --capture: also look in the neighbouring epoch for packets this close to its edge; further if its delays are longer",
        DEFAULT_SLACK_NS,
      ),
    )
    .option(
      "--worst <n>",
      "for single packets: list this many of the slowest of each group",
      integerOption("--worst", 0),
      DEFAULT_WORST,
    )
    .option("--top <n>", "show this many flows or groups, largest first", integerOption("--top", 1))
    .option("--group <key>", "group flows by host, prefix/24, dst, proto …")
    .option("--from <time>", "only epochs from this time on", instantOption("--from"))
    .option("--to <time>", "only epochs before this time", instantOption("--to"))
    .option(
      "--confidence <share>",
      "confidence level of intervals",
      shareOption("--confidence"),
      DEFAULT_CONFIDENCE,
    )
    .option(
      "--flow-records <file>",
      "read packets per flow from NetFlow v5 or v9, IPFIX, a capture of those, or CSV",
    )
    .option("--series [n]", "also show each epoch (the first n)", integerOption("--series", 1))
    .option("--verbose", "also print the estimators' parameters and all notes")
    .option("--json", "print the whole answer as JSON (docs/formats/answer.md)")
    .addOption(
      new Option(
        "--s3-endpoint <url>",
        "with s3: address of the object store (default: $AWS_ENDPOINT_URL_S3)",
      ).hideHelp(),
    );
  addEstimatorOptions(command, table, true);
  addCollectorOptions(command);
  return command
    .addHelpText("after", `${PARAMETER_HELP}${EXAMPLES}`)
    .action((directory: string, flags: Flags) => start(directory, flags, table));
}

function start(directory: string, flags: Flags, table: readonly Estimator[]): Promise<void> {
  const { list, between } = flags;
  const refuse = (names: readonly (keyof Flags)[], goes: string) => {
    for (const name of names)
      if (flags[name] !== undefined) throw new UsageError("bad-option", `${flagOf(name)} ${goes}`);
  };
  if (list !== undefined) {
    refuse(["between", "flow", "packet", "capture", "group", "filter"], "cannot be combined with --list");
    refuse(list === "segments" ? [] : ["at"], "needs --list segments");
    return runList(directory, list, flags);
  }
  refuse(["state", "at"], "needs --list");
  if (!isCollectorUrl(directory))
    refuse(["tokenFile", "ca", "cert", "certKey"], "needs a collector: http://HOST:PORT");
  if (between !== undefined)
    refuse(["packet", "ipid", "capture", "point"], "cannot be combined with --between");
  if (between !== undefined) return run(directory, flags, table);
  refuse(["search", "sort", "order"], "needs --between or --list");
  return runPackets(directory, flags, table);
}

function openArchive(place: string, { s3Endpoint: endpoint }: Flags): RecordArchive {
  if (!isObjectUrl(place)) return RecordArchive.open(place);
  const storage = new ObjectStorage(readObjectPlace(place, { endpoint }));
  return RecordArchive.open(storage.root, storage);
}

async function runPackets(directory: string, flags: Flags, table: readonly Estimator[]): Promise<void> {
  const question: PacketQuestion = {
    packets: askedPackets(flags),
    ...{ point: flags.point, segment: flags.segment ?? flags.class, fromNs: flags.from, toNs: flags.to },
    ...{ slackNs: flags.slack, group: flags.group, top: flags.top, worst: flags.worst },
  };
  const answer = await packetsOf(directory, question, flags, table);
  await (flags.json ? printJson(answer) : printText(formatPacketAnswer(answer, colours)));
}

async function packetsOf(
  directory: string,
  question: PacketQuestion,
  flags: Flags,
  table: readonly Estimator[],
): Promise<PacketAnswer> {
  if (isCollectorUrl(directory)) return await packetsOfUrl(directory, question, flags);
  const archive = openArchive(directory, flags);
  const answer = await askPackets(archive, question, { table });
  archive.close();
  return answer;
}

async function packetsOfUrl(url: string, question: PacketQuestion, flags: Flags): Promise<PacketAnswer> {
  const { packets: asked, fromNs, toNs, ...rest } = question;
  const { askCollector, packetServer } = await import("../server/client.ts");
  const endpoint = endpointOf(url, flags);
  if (asked.by === "capture")
    return await askCapture(packetServer(endpoint), { packets: asked, ...rest, fromNs, toNs });
  const json = {
    ...(asked.by === "digest" ? { digests: asked.digests } : {}),
    ...(asked.by === "flow" ? { flows: asked.flows, ipid: flags.ipid } : {}),
    ...rest,
    from: fromNs?.toString(),
    to: toNs?.toString(),
  };
  return await askCollector<PacketAnswer>(endpoint, { method: "POST", path: "/v1/packets", json });
}

function askedPackets({ packet, flow, ipid, capture, filter, group, top }: Flags): AskedPackets {
  const bad = (message: string, hint: string) => new UsageError("bad-question", message, hint);
  const named = [packet && "--packet", flow && "--flow", capture && "--capture"].filter((f) => f);
  if (named.length > 1) throw bad(`${named.join(" and ")} exclude each other`, "ask one after the other");
  if (ipid !== undefined && !flow)
    throw bad("--ipid needs --flow", "IPIDs select among the packets of a flow");
  if (filter !== undefined && !capture)
    throw bad("--filter needs --capture or --between", "it selects packets of a capture, or listed flows");
  if (packet) return { by: "digest", digests: packet };
  if (flow) return { by: "flow", flows: flow, ipids: ipid === undefined ? null : parseIpids(ipid) };
  if (capture !== undefined) return { by: "capture", file: capture, filter };
  if (group !== undefined || top !== undefined) return { by: "listed" };
  throw bad(
    "what to report is missing",
    "give --between A B; for single packets --packet, --flow, --capture or --group; for a collector's lists --list",
  );
}

async function run(directory: string, flags: Flags, table: readonly Estimator[]): Promise<void> {
  const [from, to, ...more] = flags.between ?? [];
  if (from === undefined || to === undefined || more.length > 0) {
    throw new UsageError("bad-question", "--between needs two points", "for example: --between A B");
  }
  const question: Question = {
    between: [from, to],
    segment: flags.segment ?? flags.class,
    estimators: flags.estimator === undefined ? undefined : splitNames("--estimator", flags.estimator),
    flows: flags.flow,
    top: flags.top,
    group: flags.group,
    fromNs: flags.from,
    toNs: flags.to,
    confidence: flags.confidence,
    parameters: estimatorParameters(flags as unknown as Record<string, unknown>, table),
  };
  const { filter, search, order } = flags;
  const sort = flags.sort as FlowOrder | undefined;
  if (sort !== undefined && !FLOW_ORDERS.includes(sort)) throw invalidValue("sort", sort, oneOf(FLOW_ORDERS));
  let whole = isCollectorUrl(directory)
    ? await askUrl(directory, question, flags)
    : await askDirectory(directory, question, flags, table);
  const tails = sort === "p99" ? tailQuestion(whole, question) : null;
  if (tails)
    whole = withTails(
      whole,
      await packetsOf(directory, tails, flags, table).catch((cause: unknown) => {
        throw noTails(cause);
      }),
    );
  const answer = chooseFlows(whole, { filter, search, sort, order });
  const series =
    flags.series === true ? Number.POSITIVE_INFINITY : flags.series === undefined ? 0 : Number(flags.series);
  const { verbose } = flags;
  await (flags.json ? printJson(answer) : printText(formatAnswer(answer, { colours, series, verbose })));
}

async function askDirectory(
  directory: string,
  question: Question,
  flags: Flags,
  table: readonly Estimator[],
): Promise<Answer> {
  const archive = openArchive(directory, flags);
  const flowRecords = await openFlowRecords(flags.flowRecords);
  const answer = askArchive(archive, question, { table, ...flowRecords });
  archive.close();
  return answer;
}

async function askUrl(url: string, { fromNs, toNs, ...rest }: Question, flags: Flags): Promise<Answer> {
  const { flowRecords, flowRecordNotes } = await openFlowRecords(flags.flowRecords);
  if (flowRecords && flowRecords.length > MAX_FLOW_ROWS)
    throw new UsageError(
      "not-supported",
      `${flags.flowRecords}: ${formatCount(flowRecords.length)} flow records, more than a collector accepts (${formatCount(MAX_FLOW_ROWS)})`,
      "give only those of the time asked for, or query the directory of records",
    );
  const json = {
    ...rest,
    from: fromNs?.toString(),
    to: toNs?.toString(),
    ...(flowRecords ? { flowRecords: flowRecords.map(flowRow), flowRecordNotes } : {}),
  };
  const { askCollector } = await import("../server/client.ts");
  return await askCollector<Answer>(endpointOf(url, flags), { method: "POST", path: "/v1/query", json });
}
