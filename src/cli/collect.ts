/** `hoptime collect --data DIR`: takes records from taps, keeps them, and answers about them over HTTP. */
import { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import { readReferenceKey } from "../delays/reference-key.ts";
import { loadTopology } from "../network/topology/topology-format.ts";
import { DEFAULT_LISTEN, startServer } from "../server/server.ts";
import { DEFAULT_STATION, type ProbeTarget } from "../server/station.ts";
import { readText } from "./collector-options.ts";
import { durationOption, sizeOption, timeOption } from "./options.ts";
import { warn } from "./output.ts";
import { endingSignal } from "./signals.ts";

interface Flags {
  data: string;
  listen: string;
  tlsCert?: string;
  tlsKey?: string;
  clientCa?: string;
  insecure?: boolean;
  segment?: string[];
  lateness: number;
  keepRecords?: number;
  maxSize?: number;
  keepEpochs: number;
  keepMinutes: number;
  keepHours: number;
  questionTime: number;
  topology?: string;
  station: string;
  stationKey?: string;
  stationHold: number;
  probe?: string[];
  json?: boolean;
}

const EXAMPLES = `
Records are acknowledged when they are on disk, in DIR/records, which hoptime query reads too. One
collector runs per directory. Without tokens (hoptime token) it answers on the loopback interface only.
docs/collect.md and docs/security.md describe it; /docs lists its HTTP API.
Results (delay, loss, coverage and largest flows per epoch, minute and hour) are in DIR/results.duckdb.

Examples:
  hoptime collect --data /var/lib/hoptime --segment A:B
  hoptime observe ingress.pcap --point A --to http://127.0.0.1:8787
  hoptime query http://127.0.0.1:8787 --between A B
  hoptime collect --data /var/lib/hoptime --listen 0.0.0.0:8787 --tls-cert collector.pem --tls-key collector.key
`;

export function collectCommand(): Command {
  return new Command("collect")
    .description(
      "Collects the records of many points over HTTP, keeps them, and answers questions about them.",
    )
    .requiredOption("--data <dir>", "directory of the collector, made where it is missing")
    .option("--listen <address>", "HOST:PORT to listen on", DEFAULT_LISTEN)
    .option("--tls-cert <file>", "certificate chain, PEM: HTTPS")
    .option("--tls-key <file>", "its private key, PEM")
    .option("--client-ca <file>", "with TLS: only clients with a certificate of this authority, PEM")
    .option(
      "--insecure",
      "listen for other hosts without TLS: records, answers and tokens can be read on the way",
    )
    .option(
      "--segment <A:B[=label]>",
      "keep results of this segment (repeatable); those with records labelled A:B are found by themselves",
      (text: string, before: string[] | undefined) => [...(before ?? []), text],
    )
    .addOption(timeOption("--lateness <time>", "how long an epoch waits for its other end", 30e9))
    .option(
      "--keep-records <time>",
      "remove records of a point that ended longer than this before its newest",
      durationOption("--keep-records"),
    )
    .option(
      "--max-size <bytes>",
      "remove the oldest records beyond this: 500MB, 10GB",
      sizeOption("max-size"),
    )
    .addOption(timeOption("--keep-epochs <time>", "keep results of single epochs this long", 7 * 86_400e9))
    .addOption(timeOption("--keep-minutes <time>", "keep results of minutes this long", 90 * 86_400e9))
    .addOption(timeOption("--keep-hours <time>", "keep results of hours this long", 1825 * 86_400e9))
    .addOption(timeOption("--question-time <time>", "longest time of one question", 30e9))
    .option(
      "--topology <file>",
      "network map (formats of hoptime plan): run the monitoring station of its m-routers",
    )
    .option(
      "--station <address>",
      "with --topology: UDP HOST:PORT for measurement state packets",
      DEFAULT_STATION,
    )
    .option("--station-key <file>", "with --topology: packets must be authenticated by this key")
    .addOption(
      timeOption(
        "--station-hold <time>",
        "with --topology: how long a silent m-router counts, and a segment that is no longer needed is held",
        180e9,
      ),
    )
    .option(
      "--probe <A:B=address>",
      "with --topology: probe this segment from here, if it needs probing, with reference packets to address[:port] (repeatable)",
      (text: string, before: string[] | undefined) => [...(before ?? []), text],
    )
    .option("--json", "log as lines of JSON")
    .addHelpText("after", EXAMPLES)
    .action(run);
}

async function run(flags: Flags): Promise<void> {
  const signal = endingSignal();
  const log = flags.json
    ? (text: string) =>
        process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), message: text })}\n`)
    : (text: string) => warn(`hoptime: ${text}`);
  const server = await startServer({
    data: flags.data,
    listen: flags.listen,
    tls: tlsOf(flags),
    insecure: flags.insecure,
    questionMs: flags.questionTime / 1e6,
    segments: (flags.segment ?? []).map(parseSegment),
    latenessNs: BigInt(flags.lateness),
    retention: {
      recordsNs: flags.keepRecords === undefined ? undefined : BigInt(flags.keepRecords),
      recordBytes: flags.maxSize,
      rowsNs: { 0: BigInt(flags.keepEpochs), 60: BigInt(flags.keepMinutes), 3600: BigInt(flags.keepHours) },
    },
    station: stationOf(flags),
    onLog: log,
  });
  const { service, url, station } = server;
  log(`collecting at ${url}, data in ${flags.data}, ${access(service.tokens.size)}`);
  if (station) log(`monitoring station of ${station.state.topology.name} at udp ${station.address}`);
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve());
  });
  await server.close();
  log("stopped");
}

/** `A:B`, or `A:B=gold` for records of a label. */
function parseSegment(text: string): CollectedSegment {
  const match = /^([^:=]+):([^:=]+)(?:=(.*))?$/.exec(text);
  if (!match?.[1] || !match[2] || match[1] === match[2])
    throw invalidValue("segment", text, "SENDER:RECEIVER or SENDER:RECEIVER=LABEL");
  return { from: match[1], to: match[2], label: match[3] ?? "" };
}

function stationOf({ topology, station, stationKey, stationHold, probe }: Flags) {
  if (topology === undefined) {
    const given = stationKey !== undefined ? "--station-key" : probe ? "--probe" : null;
    if (given) throw new UsageError("bad-option", `${given} goes with --topology`);
    return undefined;
  }
  return {
    topology: loadTopology(topology),
    listen: station,
    key: stationKey === undefined ? undefined : readReferenceKey(stationKey),
    holdNs: BigInt(stationHold),
    probes: (probe ?? []).map(parseProbe),
  };
}

/** `A:B=192.0.2.9` or `A:B=192.0.2.9:862`, `A:B=[2001:db8::1]:862`. */
function parseProbe(text: string): ProbeTarget {
  const match = /^([^:=]+):([^:=]+)=(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text);
  const [, from, to, v6, v4, port] = match ?? [];
  const address = v6 ?? v4;
  if (!from || !to || !address)
    throw invalidValue("probe", text, "SENDER:RECEIVER=ADDRESS or …=ADDRESS:PORT");
  return { from, to, address, port: port === undefined ? undefined : Number(port) };
}

function access(tokens: number): string {
  if (tokens === 0) return "no tokens: open to this host";
  return tokens === 1 ? "1 token" : `${tokens} tokens`;
}

function tlsOf({ tlsCert, tlsKey, clientCa }: Flags) {
  if (tlsCert === undefined && tlsKey === undefined) {
    if (clientCa !== undefined)
      throw new UsageError("bad-option", "--client-ca goes with --tls-cert and --tls-key");
    return undefined;
  }
  if (tlsCert === undefined || tlsKey === undefined)
    throw new UsageError("bad-option", "--tls-cert and --tls-key go together");
  return {
    certificate: readText("tls-cert", tlsCert),
    key: readText("tls-key", tlsKey),
    clientCa: clientCa === undefined ? undefined : readText("client-ca", clientCa),
  };
}
