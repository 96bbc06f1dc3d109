/** `hoptime observe FILE...`: turns the captures of a point into records. */

import { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import { countOf } from "../base/quantity.ts";
import { interfaceOf } from "../capture/source/interface/name.ts";
import { PACKET_TIME_LAYOUTS } from "../delays/packet-times.ts";
import { readReferenceKey } from "../delays/reference-key.ts";
import { SENDER_WINDOW_NS } from "../delays/sender-delays.ts";
import type { Estimator, Role } from "../estimators/estimator.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { observeInterfaces } from "../observe/observe-interfaces.ts";
import { type ObservationReport, type ObservePointOptions, observePoint } from "../observe/observe-point.ts";
import type { WaysPlan } from "../observe/observe-ways.ts";
import { defaultSpool, endpointOf, isRemote } from "./collector-options.ts";
import { CUTS, type Cut, parseCut } from "./cut-option.ts";
import { addEstimatorOptions, estimatorParameters, PARAMETER_HELP, splitNames } from "./estimator-options.ts";
import { addInterfaceOptions, type InterfaceFlags, interfaceOptions } from "./interface-options.ts";
import { addKernelOptions, type KernelFlags, kernelOptions } from "./kernel-options.ts";
import { addObserveBoxOptions, type ObserveBoxFlags, observeBox, SEGMENT_EXAMPLES } from "./observe-box.ts";
import { addStorageOptions, collectorOf, type StorageFlags } from "./observe-storage.ts";
import { formatObservation, warnOf } from "./observe-text.ts";
import { choiceOption, integerOption, rateOption, timeOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";
import { PlanFollower, plannedFlags } from "./planned.ts";
import { endingSignal } from "./signals.ts";
import { Progress } from "./terminal.ts";

const ROLES = ["sender", "receiver", "both"] as const;
const DELAYS = ["rli", ...PACKET_TIME_LAYOUTS] as const;

interface Flags extends InterfaceFlags, KernelFlags, StorageFlags, ObserveBoxFlags {
  point?: string[];
  estimators: string;
  epoch?: string;
  cut?: Cut;
  controlTo?: string;
  role: Role | "both";
  filter?: string;
  segment?: string[];
  class?: string[];
  key: string;
  cover: number;
  inner?: boolean;
  seed?: bigint;
  sender?: string[];
  delays?: (typeof DELAYS)[number];
  referenceKey?: string;
  drain?: number;
  window: number;
  follow?: boolean;
  withFlows?: boolean;
  verbose?: boolean;
  bothWays?: boolean;
  json?: boolean;
}

const EXAMPLES = `
Both points need the same estimators, parameters, --epoch, --cut, --key, --cover and --seed. Their
records may share a directory, or be copied into one. Existing records are kept, so an interrupted
run can be repeated.

Examples:
  hoptime observe ingress.pcap --point A --estimators lda,lds --epoch 1s --to records
  hoptime observe egress.pcap --point B --estimators lda,lds --epoch 1s --to records
  hoptime query records --between A B

  hoptime observe a.pcap --point A --segment 'A:B=dst net 10.2.0.0/16' --to records
  hoptime observe a.pcap --point A --epoch 65536p --to records   # cut by packets, not by clocks
  hoptime observe a-*.pcap --point A --to records --keep 7d
  hoptime observe eth1 --direction in --point A --to records --keep 7d   # until interrupted
  hoptime observe eth1 --ebpf --point A --to records   # in the kernel: no packet is copied
  hoptime observe eth2 --ebpf --at tc-egress --point B --to records   # before the queue
  hoptime observe eth1 eth2 --segment A:B --estimators maple --to records   # both ends, one host
  tcpdump -i eth0 -s 96 -w - | hoptime observe - --point A --to records --keep 7d
  hoptime observe a.pcap --point A --to http://collector:8787 --token-file A.token
  hoptime observe eth1 --point A --to nats://n1:4222,n2:4222 --creds A.creds   # docs/cluster.md
  hoptime observe --follow 'captures/*.pcap' --point A --to records   # files of tcpdump -C or -G
  hoptime observe b.pcap --sender a.pcap --point B --estimators maple --to records
  hoptime observe b.pcap --delays metamako --point B --estimators maple --to records
  hoptime observe b.pcap --delays rli --drain 60mbit --point B --estimators maple --to records
`;

const collect = (text: string, before: string[] | undefined) => [...(before ?? []), text];

// long: one call for each option, in the order of --help.
export function observeCommand(table: readonly Estimator[] = ESTIMATORS): Command {
  const command = new Command("observe")
    .description(
      "Turns the packets of one point into records, one per epoch and estimator: kilobytes that two points exchange instead of packets. hoptime query reads them.",
    )
    .argument(
      "[file...]",
      "captures of the point, oldest first (- is standard input, FILE#eth0 one interface of a capture), or interfaces of this host: eth1, iface:eth1",
    )
    .option("--point <name>", "name of the point; of several interfaces, one each", collect)
    .requiredOption(
      "--to <where>",
      "directory for records, http://HOST:PORT, or nats://HOST:PORT[,HOST:PORT]",
    )
    .option(
      "--estimators <names>",
      `estimators, joined with commas: ${table.map((e) => e.name).join(", ")}`,
      usual(table),
    )
    .option(
      "--epoch <length>",
      "length of an epoch: a time (1s, 250ms) or an average number of packets (65536p) (default: 1s)",
    )
    .option(
      "--cut <how>",
      "how epochs are cut: aligned (by the clock), delimited (by packets that both points see), control (by Start and End messages)",
      choiceOption("--cut", CUTS),
    )
    .option(
      "--control-to <address>",
      "with --cut control, at the sender: send a Start and an End message per --epoch to this address behind the receiver",
    )
    .option(
      "--role <end>",
      `which end of the segment this point is: ${ROLES.join(", ")}`,
      choiceOption("--role", ROLES),
      "both",
    )
    .option("--filter <expr>", "only packets that match this pcap-filter expression; the same at both points")
    .option(
      "--segment <A:B=expr>",
      "records of these packets from A to B; this point is one of them (repeatable). A:B alone: with two interfaces",
      collect,
    )
    .option("--class <name=expr>", "separate records for this traffic class (repeatable)", collect)
    .option("--key <fields>", "flow key: 5tuple, hosts, src/24, prefix/24, dscp …", "5tuple")
    .option(
      "--cover <bytes>",
      "match on this many bytes from the IP header on",
      integerOption("--cover", 20, 1500),
      64,
    )
    .option("--inner", "use the packet inside GRE, VXLAN, Geneve, IP-in-IP and GTP-U")
    .option("--seed <n>", "seed of all hashes; the same at both points", seedOption)
    .option(
      "--sender <file>",
      "the sender's capture, for estimators that need each packet's delay (repeatable)",
      collect,
    )
    .addOption(
      timeOption("--window <time>", "with --sender: longest delay that is matched", SENDER_WINDOW_NS),
    )
    .option(
      "--delays <how>",
      `source of each packet's delay, for maple and sds: rli (reference packets in the captures), or timestamps written by capture switches: ${PACKET_TIME_LAYOUTS.join(", ")}`,
      choiceOption("--delays", DELAYS),
    )
    .option("--reference-key <file>", "use only reference packets made with this key")
    .option("--drain <rate>", "with --delays rli: drain rate of the queue, e.g. 60mbit", rateOption)
    .option("--with-flows", "also keep a flow table")
    .option("--both-ways", "count both directions together instead of separating them")
    .option(
      "--follow",
      "keep reading until interrupted: FILE as it grows, or 'DIR/*.pcap' or DIR as a capture rotates through files",
    )
    .option("--verbose", "also print the estimators' parameters")
    .option("--json", "print a summary as JSON (format hoptime.observation/1)");
  addObserveBoxOptions(command);
  addInterfaceOptions(command);
  addKernelOptions(command);
  addStorageOptions(command);
  addEstimatorOptions(command, table);
  return command
    .addHelpText("after", `${PARAMETER_HELP}${EXAMPLES.trimEnd()}${SEGMENT_EXAMPLES}`)
    .action(async (files: string[], flags: Flags, self: Command) => follow(files, flags, table, self));
}

/** The default: the first estimator of the table. */
function usual(table: readonly Estimator[]): string {
  return table[0]?.name ?? "";
}

/** Follows a collector's plan for everything that the options do not set, and restarts with the next plan when it takes effect. */
async function follow(
  files: string[],
  flags: Flags,
  table: readonly Estimator[],
  self: Command,
): Promise<void> {
  const [point] = flags.point ?? [];
  const given = (name: string) => !["default", undefined].includes(self.getOptionValueSource(name));
  if (!isRemote(flags.to) && /^[a-z][a-z0-9+.-]*:\/\//i.test(flags.to))
    throw invalidValue("to", flags.to, "a directory, http://HOST:PORT or nats://HOST:PORT");
  const { ebpfSegment: ways } = flags;
  if (ways !== undefined) {
    const common = commonOptions(flags, table, endingSignal());
    const sinkOf = (of: string) => collectorOf(flags, of).collector;
    await printReports(await observeBox({ ways, files, flags, given, common, collectorOf: sinkOf }), flags);
    return;
  }
  if (files.length === 0)
    throw new UsageError(
      "bad-option",
      "captures or an interface are missing",
      "hoptime observe FILE... or hoptime observe eth1",
    );
  if (!isRemote(flags.to) || point === undefined) {
    await run(files, flags, table);
    return;
  }
  const plan = new PlanFollower(endpointOf(flags.to, flags), flags.spool ?? defaultSpool(flags.to, point));
  const live = flags.follow === true || files.every((file) => interfaceOf(file) !== null);
  const ending = endingSignal();
  try {
    for (;;) {
      const fetched = await plan.fetch();
      const planned = Object.entries(fetched ? plannedFlags(fetched, point) : {}).filter(
        ([name]) => !given(name),
      );
      const change = new AbortController();
      const unwatch = live ? plan.watch(() => change.abort()) : () => {};
      const signal = AbortSignal.any([ending, change.signal]);
      const others = (of: string) => plan.networksOfOthers(of);
      await run(files, { ...flags, ...Object.fromEntries(planned) }, table, signal, others).finally(unwatch);
      if (ending.aborted || !change.signal.aborted) return;
      warn("hoptime: the collector's plan has changed; following the new plan");
    }
  } finally {
    await plan.close();
  }
}

async function run(
  files: string[],
  flags: Flags,
  table: readonly Estimator[],
  signal: AbortSignal = endingSignal(),
  ofOthers?: NetworksOfOthers,
): Promise<void> {
  const names = files.map(interfaceOf);
  const interfaces = names.filter((name) => name !== null);
  if (interfaces.length > 1 && interfaces.length === files.length) {
    await runInterfaces(interfaces, flags, table, signal, ofOthers);
    return;
  }
  const progress = new Progress("observing");
  const [point, more] = flags.point ?? [];
  if (point === undefined)
    throw new UsageError("bad-option", "is missing", "name the point: ‘point A’", { parameter: "point" });
  if (more !== undefined)
    throw new UsageError("bad-option", `'${more}' is a second name for one point`, "give one name", {
      parameter: "point",
    });
  const [own] = interfaceOptions(flags);
  const report = await observePoint({
    ...commonOptions(flags, table, signal),
    ...{ files, point },
    ...collectorOf(flags, point),
    ...waysOf(point, ofOthers),
    onProgress: (done, total, packets) => progress.update(done, total, packets),
    ...(own ? { interface: own } : {}),
    ...(flags.segment === undefined ? {} : { segments: flags.segment }),
  }).finally(() => progress.clear());
  await (flags.json ? printJson(report) : printText(formatObservation(report, flags.verbose ?? false)));
  warnOf(report);
}

/** Observes several interfaces of this host, each as a point; two of them may be the ends of a segment. */
async function runInterfaces(
  names: string[],
  flags: Flags,
  table: readonly Estimator[],
  signal: AbortSignal,
  ofOthers?: NetworksOfOthers,
): Promise<void> {
  const ends = segmentEnds(names, flags);
  if (flags.spool !== undefined)
    throw new UsageError("bad-option", "applies to a single point", "leave it out: each point has its own", {
      parameter: "spool",
    });
  const points = ends ?? flags.point ?? [];
  if (points.length !== names.length)
    throw new UsageError(
      "bad-option",
      `${names.length} interfaces but ${countOf(points.length, "name")}`,
      "name each (‘point A’ ‘point B’), or both ends of a segment (‘segment A:B’)",
      { parameter: "point" },
    );
  const way = ends && flags.direction === undefined ? { direction: ["in" as const, "out" as const] } : {};
  const options = interfaceOptions({ ...flags, ...way }, names.length);
  const reports = await observeInterfaces({
    ...commonOptions(flags, table, signal),
    interfaces: names.map((name, i) => {
      const point = points[i] ?? "";
      return {
        name,
        point,
        options: options[i] ?? {},
        ...collectorOf(flags, point),
        ...waysOf(point, ofOthers),
      };
    }),
    ...(ends ? { matchWithinNs: flags.window } : {}),
    // With an expression, its packets are counted separately, as at a single point.
    ...(flags.segment?.some((text) => text.includes("=")) ? { segments: flags.segment } : {}),
  });
  await printReports(reports, flags);
}

async function printReports(reports: readonly ObservationReport[], flags: Flags): Promise<void> {
  if (flags.json) await printJson({ format: "hoptime.observations/1", points: reports });
  else for (const report of reports) await printText(formatObservation(report, flags.verbose ?? false));
  for (const report of reports) warnOf(report);
}

/** Returns the names of both ends if two interfaces are the ends of one segment. */
function segmentEnds(names: readonly string[], { segment, point }: Flags): [string, string] | null {
  const [text, ...others] = segment ?? [];
  const match = /^([^:=]+):([^:=]+)(?:=|$)/.exec(text ?? "");
  if (!match || point !== undefined || names.length !== 2) return null;
  if (others.length > 0)
    throw new UsageError(
      "bad-option",
      "two interfaces are the ends of one segment",
      "give one ‘segment A:B’",
      {
        parameter: "segment",
      },
    );
  return [match[1]?.trim() ?? "", match[2]?.trim() ?? ""];
}

function commonOptions(
  flags: Flags,
  table: readonly Estimator[],
  signal: AbortSignal,
): Omit<ObservePointOptions, "files" | "point"> {
  return {
    directory: flags.to,
    estimators: splitNames("--estimators", flags.estimators),
    parameters: estimatorParameters(flags as unknown as Record<string, unknown>, table),
    cut: parseCut(flags.epoch, flags.cut, flags.controlTo),
    role: flags.role,
    flows: flags.withFlows ?? false,
    key: flags.key,
    cover: flags.cover,
    table,
    signal,
    ...kernelOptions(flags),
    ...(flags.speed === undefined ? {} : { speed: flags.speed }),
    ...(flags.follow === undefined ? {} : { follow: flags.follow }),
    ...(flags.bothWays === undefined ? {} : { bothWays: flags.bothWays }),
    ...(flags.filter === undefined ? {} : { filter: flags.filter }),
    ...(flags.class === undefined ? {} : { classes: flags.class }),
    ...(flags.inner === undefined ? {} : { inner: flags.inner }),
    ...(flags.seed === undefined ? {} : { seed: flags.seed }),
    ...(flags.sender === undefined ? {} : { sender: { files: flags.sender, windowNs: flags.window } }),
    ...delaysOf(flags),
    ...(flags.referenceKey === undefined ? {} : { referenceKey: readReferenceKey(flags.referenceKey) }),
    ...(flags.keep === undefined ? {} : { keepNs: BigInt(flags.keep) }),
    ...(flags.maxSize === undefined ? {} : { maxBytes: flags.maxSize }),
  };
}

type NetworksOfOthers = (point: string) => Promise<string[][]>;

/** Settings for interfaces with packets of both directions. */
function waysOf(point: string, ofOthers?: NetworksOfOthers): WaysPlan {
  return {
    ...(ofOthers ? { networksOfOthers: () => ofOthers(point) } : {}),
    onSeparated: (networks) =>
      warn(
        `hoptime: ${point}: packets go both ways: separate records per direction, by the networks of one side (${networks.join(", ")})`,
      ),
  };
}

function delaysOf({ delays, drain }: Flags): Pick<ObservePointOptions, "references" | "packetTimes"> {
  if (delays === undefined) return {};
  if (delays === "rli") return { references: drain === undefined ? {} : { drainBps: drain } };
  return { packetTimes: { layout: delays } };
}

function seedOption(text: string): bigint {
  if (!/^(0x[0-9a-fA-F]+|\d+)$/.test(text) || BigInt(text) >= 1n << 64n) {
    throw invalidValue("seed", text, "a whole number below 2^64");
  }
  return BigInt(text);
}
