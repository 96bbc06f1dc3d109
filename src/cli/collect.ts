/** `hoptime collect --data DIR`: receives records from taps, stores them, and answers questions over HTTP. */
import { Command, Option } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import { changes, overlay, serverOptions } from "../server/config/collector-options.ts";
import { readConfig } from "../server/config/read-config.ts";
import { READINGS } from "../server/config/reading.ts";
import type { Reads, Settings } from "../server/config/settings.ts";
import { settingsPage } from "../server/config/settings-page.ts";
import { DEFAULT_LISTEN } from "../server/listen.ts";
import { startPatiently } from "../server/patient-start.ts";
import { checkListen, type RunningServer } from "../server/server.ts";
import { DEFAULT_STATION } from "../server/station.ts";
import { integerOption } from "./options.ts";
import { print, warn } from "./output.ts";
import { endingSignal } from "./signals.ts";

interface Flags {
  config?: string;
  check?: boolean;
  settings?: boolean;
  data?: string;
  listen?: string;
  tlsCert?: string;
  tlsKey?: string;
  clientCa?: string;
  insecure?: boolean;
  segment?: string[];
  lateness?: string;
  keepRecords?: string;
  maxSize?: string;
  keepEpochs?: string;
  keepMinutes?: string;
  keepHours?: string;
  questionTime?: string;
  clickhouse?: string;
  clickhouseCa?: string;
  clickhouseCluster?: string;
  records?: string;
  s3Endpoint?: string;
  topology?: string;
  station?: string | true;
  stationKey?: string;
  stationHold?: string;
  probe?: string[];
  nats?: string;
  group?: string;
  natsCreds?: string;
  natsTokenFile?: string;
  natsCa?: string;
  natsCert?: string;
  natsKey?: string;
  natsReplicas?: number;
  json?: boolean;
}

const EXAMPLES = `
Without tokens (hoptime token) it listens on the loopback interface only. One collector runs per
directory. Records are acknowledged once they are on disk in DIR/records, which hoptime query can
read too. Results (delay, loss, coverage and largest flows per epoch, minute and hour) are in
DIR/results.duckdb, or in ClickHouse, where several collectors can share them.

Described in docs/collect.md, docs/config.md (settings) and docs/security.md; HTTP API: /docs.

Examples:
  hoptime collect --data /var/lib/hoptime --segment A:B
  hoptime observe ingress.pcap --point A --to http://127.0.0.1:8787
  hoptime query http://127.0.0.1:8787 --between A B
  hoptime collect --config /etc/hoptime.yaml     # paths, alerts, retention …; SIGHUP reloads it
  hoptime collect --data /var/lib/hoptime --clickhouse http://hoptime@clickhouse:8123/hoptime
  hoptime collect --data /var/lib/hoptime --keep-records 1d --records s3://hoptime/records
  hoptime collect --data /var/lib/hoptime --nats nats://n1:4222,n2:4222   # one of many workers
  hoptime collect --data DIR --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key cert.key
`;

export function collectCommand(): Command {
  const command = new Command("collect")
    .description(
      "Runs a collector: takes the records of many points over HTTP, stores them, answers questions about them and serves a web page.",
    )
    .option("--config <file>", "read settings from this file (hoptime.yaml); options override it")
    .option("--check", "check the settings and exit")
    .option("--settings", "print all settings of --config and exit")
    .option("--data <dir>", "directory of the collector, created if missing")
    .addOption(text("--listen <address>", "HOST:PORT to listen on", "listen", DEFAULT_LISTEN))
    .option("--tls-cert <file>", "serve HTTPS with this certificate chain, PEM")
    .option("--tls-key <file>", "private key of --tls-cert, PEM")
    .option("--client-ca <file>", "with TLS: only accept clients with a certificate of this authority, PEM")
    .option("--insecure", "allow other hosts without TLS: records, answers and tokens can be read on the way")
    .option(
      "--segment <A:B[=label]>",
      "keep results of this segment (repeatable); not needed for records labelled A:B",
      (value: string, before: string[] | undefined) => {
        READINGS.segment(value, "segment");
        return [...(before ?? []), value];
      },
    )
    .addOption(text("--lateness <time>", "how long an epoch waits for its other end", "duration", "30s"))
    .addOption(
      text(
        "--keep-records <time>",
        "remove records of a point older than this, counted from its newest",
        "duration",
      ),
    )
    .addOption(text("--max-size <bytes>", "remove the oldest records beyond this size, e.g. 10GB", "size"))
    .addOption(text("--keep-epochs <time>", "keep results of single epochs this long", "duration", "7d"))
    .addOption(text("--keep-minutes <time>", "keep results of minutes this long", "duration", "90d"))
    .addOption(text("--keep-hours <time>", "keep results of hours this long", "duration", "1825d"))
    .addOption(text("--question-time <time>", "time limit of one question", "duration", "30s"))
    .option("--topology <file>", "map of the network, in any format that hoptime plan reads")
    .option(
      "--station [address]",
      `with --topology: run the monitoring station of its m-routers, on UDP HOST:PORT (default: ${DEFAULT_STATION})`,
    )
    .option("--station-key <file>", "with --station: only accept packets authenticated by this key")
    .addOption(
      text(
        "--station-hold <time>",
        "with --station: how long to keep a silent m-router, and a segment that is no longer needed",
        "duration",
        "3m",
      ),
    )
    .option(
      "--probe <A:B=address>",
      "with --station: probe this segment from this host while it needs probing (repeatable)",
      (value: string, before: string[] | undefined) => {
        READINGS.probe(value, "probe");
        return [...(before ?? []), value];
      },
    )
    .option("--json", "log as lines of JSON")
    .addHelpText("after", EXAMPLES)
    .action(run);
  return addNatsOptions(addStoreOptions(command));
}

/** Options for where results and records are stored, besides the directory. */
function addStoreOptions(command: Command): Command {
  return command
    .addOption(
      text(
        "--clickhouse <url>",
        "keep results in ClickHouse: http://USER@HOST:8123/DATABASE (or https); password in $HOPTIME_CLICKHOUSE_PASSWORD",
        "clickhouse",
      ),
    )
    .option("--clickhouse-ca <file>", "with https: certificate authority, PEM")
    .option("--clickhouse-cluster <name>", "spread rows over the shards of this ClickHouse cluster")
    .addOption(
      text(
        "--records <s3://bucket/prefix>",
        "copy records to an S3 object store, and read from it what DIR no longer has; keys in $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY",
        "objects",
      ),
    )
    .addOption(
      text(
        "--s3-endpoint <url>",
        "with --records: address of the object store (default: $AWS_ENDPOINT_URL_S3)",
        "url",
      ),
    );
}

/** Options for a collector that is one of several workers. */
function addNatsOptions(command: Command): Command {
  return command
    .addOption(
      text(
        "--nats <url>",
        "take records from a NATS cluster, shared with other workers: nats://HOST:4222[,HOST:4222]",
        "nats",
      ),
    )
    .option("--group <name>", "with --nats: workers of one group share the records (default: collect)")
    .option("--nats-creds <file>", "with --nats: .creds file, seed of an nkey, or USER:PASSWORD")
    .addOption(new Option("--nats-token-file <file>", "with --nats: file with a token").hideHelp())
    .addOption(new Option("--nats-ca <file>", "with --nats: certificate authority, PEM").hideHelp())
    .addOption(new Option("--nats-cert <file>", "with --nats: certificate of this worker, PEM").hideHelp())
    .addOption(new Option("--nats-key <file>", "with --nats: its private key, PEM").hideHelp())
    .addOption(
      new Option("--nats-replicas <n>", "with --nats: copies of each record, where the stream is made")
        .argParser(integerOption("--nats-replicas", 1, 5))
        .hideHelp(),
    );
}

/** An option that stays text but is checked at once. The default is shown but not set, because the value may come from the settings file. */
function text(flags: string, description: string, reads: Reads, fallback?: string): Option {
  const option = new Option(
    flags,
    fallback === undefined ? description : `${description} (default: ${fallback})`,
  );
  const parameter = (option.long ?? "").replace(/^--/, "");
  return option.argParser((value: string) => {
    try {
      READINGS[reads](value, parameter);
    } catch (cause) {
      if (!(cause instanceof UsageError) || cause.parameter !== undefined) throw cause;
      throw new UsageError(cause.code, cause.problem, cause.hint, { parameter, value, cause });
    }
    return value;
  });
}

async function run(flags: Flags): Promise<void> {
  if (flags.settings) {
    await print([settingsPage()]);
    return;
  }
  const read = () => overlay(flags.config === undefined ? {} : readConfig(flags.config), settingsIn(flags));
  let settings = read();
  const options = serverOptions(settings);
  if (flags.check) {
    checkListen(options);
    await print([`${flags.config ?? "options"}: ok\n`]);
    return;
  }
  const log =
    settings.log === "json"
      ? (line: string) =>
          process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), message: line })}\n`)
      : (line: string) => warn(`hoptime: ${line}`);
  let server: RunningServer | null = null;
  let reloading = Promise.resolve();
  const reload = () => {
    reloading = reloading.then(async () => {
      if (server) settings = await reloaded(server, settings, read, log);
    });
  };
  const signal = endingSignal(flags.config === undefined ? {} : { reload });
  server = await startPatiently({ ...options, onLog: log }, { signal });
  if (!server) {
    log("stopped");
    return;
  }
  const { service, url, station, cluster } = server;
  log(
    `collecting at ${url}, data in ${options.data}${settings.clickhouse ? ", results in ClickHouse" : ""}, ${access(service.tokens.size)}`,
  );
  if (station) log(`monitoring station of ${station.state.topology.name} at udp ${station.address}`);
  if (cluster) {
    const { url: nats, group, worker, partitions } = cluster.state();
    log(`worker ${worker} of group ${group} at ${nats}, ${partitions} partitions`);
  }
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve());
  });
  await server.close();
  log("stopped");
}

/** Returns the settings that apply from now on; these are the old ones if the new ones are invalid. */
async function reloaded(
  server: RunningServer,
  before: Settings,
  read: () => Settings,
  log: (line: string) => void,
): Promise<Settings> {
  try {
    const after = read();
    const { now, restart } = changes(before, after);
    await server.reload(serverOptions(after));
    log(`settings read again: ${now.length === 0 ? "nothing changed at once" : `${now.join(", ")} changed`}`);
    if (restart.length > 0) log(`after a restart only: ${restart.join(", ")}`);
    // Settings that need a restart keep their old value here, so that the next reload reports them again.
    const kept = Object.fromEntries(restart.map((field) => [field, before[field as keyof Settings]]));
    return { ...after, ...kept };
  } catch (error) {
    log(`settings not changed: ${error instanceof Error ? error.message : String(error)}`);
    return before;
  }
}

function settingsIn(flags: Flags): Settings {
  const { tlsCert, tlsKey, clientCa } = flags;
  if (tlsCert === undefined && tlsKey === undefined && clientCa !== undefined && flags.config === undefined)
    throw new UsageError("bad-option", "--client-ca needs --tls-cert and --tls-key");
  const tls = { certificate: tlsCert, key: tlsKey, clientCa };
  const { topology, station, stationKey, stationHold, probe } = flags;
  if (station === undefined && flags.config === undefined) {
    const given = stationKey !== undefined ? "--station-key" : probe ? "--probe" : null;
    if (given) throw new UsageError("bad-option", `${given} needs --station`);
  }
  const stationSettings = {
    ...{ listen: station === true ? undefined : station, key: stationKey, hold: stationHold, probes: probe },
  };
  const { clickhouse, clickhouseCa, clickhouseCluster } = flags;
  if (clickhouse === undefined && flags.config === undefined) {
    const given =
      clickhouseCa !== undefined
        ? "--clickhouse-ca"
        : clickhouseCluster !== undefined
          ? "--clickhouse-cluster"
          : null;
    if (given) throw new UsageError("bad-option", `${given} needs --clickhouse`);
  }
  const clickhouseSettings = { url: clickhouse, ca: clickhouseCa, cluster: clickhouseCluster };
  const hasClickhouse = Object.values(clickhouseSettings).some((v) => v !== undefined);
  const hasStation = [station, stationKey, stationHold, probe].some((v) => v !== undefined);
  const given = {
    data: flags.data,
    listen: flags.listen,
    insecure: flags.insecure,
    tls: Object.values(tls).some((v) => v !== undefined) ? tls : undefined,
    segments: flags.segment,
    lateness: flags.lateness,
    keep: {
      records: flags.keepRecords,
      size: flags.maxSize,
      epochs: flags.keepEpochs,
      minutes: flags.keepMinutes,
      hours: flags.keepHours,
    },
    limits: { questionTime: flags.questionTime },
    topology: topology === undefined ? undefined : { map: topology },
    station: hasStation ? stationSettings : undefined,
    clickhouse: hasClickhouse ? clickhouseSettings : undefined,
    nats: natsSettings(flags),
    objects: objectSettings(flags),
    log: flags.json ? ("json" as const) : undefined,
  };
  return given as Settings;
}

function objectSettings({ records: url, s3Endpoint: endpoint, config }: Flags) {
  if (url === undefined && endpoint !== undefined && config === undefined)
    throw new UsageError("bad-option", "--s3-endpoint needs --records s3://BUCKET/PREFIX");
  return url === undefined && endpoint === undefined ? undefined : { url, endpoint };
}

function natsSettings(flags: Flags): Partial<NonNullable<Settings["nats"]>> | undefined {
  const { nats: url, group, natsCreds, natsTokenFile, natsCa, natsCert, natsKey, natsReplicas } = flags;
  const given = {
    ...{ url, group, credentials: natsCreds, tokenFile: natsTokenFile },
    ...{ ca: natsCa, certificate: natsCert, key: natsKey, replicas: natsReplicas },
  };
  const any = Object.values(given).some((v) => v !== undefined);
  if (any && url === undefined && flags.config === undefined)
    throw new UsageError(
      "bad-option",
      "--group and the options --nats-* need --nats; give the address of the cluster: --nats nats://HOST:4222",
    );
  if (group !== undefined && !/^[A-Za-z0-9_-]{1,32}$/.test(group))
    throw invalidValue("group", group, "1 to 32 letters, digits, - and _");
  return any ? given : undefined;
}

function access(tokens: number): string {
  if (tokens === 0) return "no tokens: open to this host";
  return tokens === 1 ? "1 token" : `${tokens} tokens`;
}
