/**
 * `hoptime top A B`: delay, loss and jitter between two interfaces of this host, every second, in the terminal; `hoptime top URL`: the segments of a collector.
 */
import { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { openCaptures } from "../capture/source/capture-source.ts";
import { openLive } from "../capture/source/interface/live-source.ts";
import { interfaceOf, refuseUnknown } from "../capture/source/interface/name.ts";
import { PacedSource } from "../capture/source/paced-source.ts";
import type { Source } from "../capture/source/source.ts";
import { OBSERVE_COVER } from "../observe/observe-captures.ts";
import { WATCH_WINDOW_NS, type WatchedInterval, watchPair } from "../observe/watch.ts";
import { SegmentBoard } from "../present/text/segment-board.ts";
import { formatTop, TOP_ORDERS, type TopView, topFlows, topLine } from "../present/text/top-text.ts";
import { isCollectorUrl } from "../transport/http/collector-url.ts";
import { listenEvents } from "../transport/http/events.ts";
import { BoardScreen } from "./board-screen.ts";
import { addCollectorOptions, type CollectorFlags, endpointOf } from "./collector-options.ts";
import { flagOf } from "./flags.ts";
import { addInterfaceOptions, type InterfaceFlags, interfaceOptions } from "./interface-options.ts";
import { choiceOption, durationOption, integerOption, timeOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";
import { endingSignal } from "./signals.ts";
import { colours, drawsScreens } from "./terminal.ts";
import { addBoxOptions, type BoxFlags, runBox } from "./top-box.ts";
import { TopScreen } from "./top-screen.ts";

interface Flags extends InterfaceFlags, CollectorFlags, BoxFlags {
  estimator?: string;
  filter?: string;
  window: number;
}

const EXAMPLES = `
Packets are matched exactly. A second is shown one --window after its end, when its last packets
have arrived.

Keys: p l m x j sort by packets, loss, mean, max, jitter; / searches flows (Enter ends); q quits.

Examples:
  hoptime top eth1 eth2                                   # received at eth1, sent at eth2
  hoptime top --ebpf eth0:eth1                            # a router's own queues, in its kernel
  hoptime top --ebpf eth0:eth1 --ebpf eth1:eth0           # both directions
  hoptime top eth1 eth2 --direction in --promiscuous      # two mirror ports
  hoptime top eth1 eth2 --json --for 10s                  # lines of JSON (format hoptime.top/1)
  hoptime top ingress.pcap egress.pcap --speed 1          # captures, replayed
  hoptime top http://127.0.0.1:8787                       # a collector's segments
`;
/** Lines above the flows, and an empty one below. */
const HEAD_LINES = 5;

export function topCommand(): Command {
  const command = new Command("top")
    .description(
      "Shows delay, loss and jitter between two interfaces of this host, per flow and every second, or of a collector's segments. A full screen on a terminal, otherwise one line per second.",
    )
    .argument("[sender]", "interface where packets arrive (or a capture), or a collector: http://HOST:PORT")
    .argument("[receiver]", "interface where they leave (or a capture)")
    .option("--filter <expr>", "only packets that match this pcap-filter expression")
    .option("--key <fields>", "flow key: 5tuple, hosts, src/24, prefix/24, dscp …", "5tuple")
    .addOption(timeOption("--window <time>", "longest delay that is matched", WATCH_WINDOW_NS))
    .option(
      "--sort <by>",
      `order of flows: ${TOP_ORDERS.join(", ")}`,
      choiceOption("--sort", TOP_ORDERS),
      "packets",
    )
    .option(
      "--rows <n>",
      "flows to list where standard output is no terminal",
      integerOption("--rows", 1, 10_000),
      10,
    )
    .option("--for <time>", "end after this time, e.g. 10s", durationOption("--for"))
    .option("--json", "print a line of JSON per second (format hoptime.top/1)");
  addBoxOptions(command);
  addInterfaceOptions(command);
  addCollectorOptions(command).option(
    "--estimator <name>",
    "with a collector: only the answers of this estimator",
  );
  return command.addHelpText("after", EXAMPLES).action(start);
}

async function start(
  sender: string | undefined,
  receiver: string | undefined,
  flags: Flags,
  self: Command,
): Promise<void> {
  if (flags.ebpf !== undefined) {
    if (sender !== undefined)
      throw new UsageError(
        "bad-option",
        `${sender}: --ebpf already names the interfaces`,
        "leave it out: hoptime top --ebpf IN:OUT",
      );
    return await runBox(flags.ebpf, flags, self);
  }
  for (const flag of ["ebpfArrival", "ebpfDeparture"] as const)
    if (flags[flag] !== undefined) throw new UsageError("bad-option", `${flagOf(flag)} needs --ebpf`);
  if (sender === undefined)
    throw new UsageError(
      "bad-option",
      "the interfaces are missing",
      "give both ends of a segment, a collector's address, or --ebpf IN:OUT",
    );
  if (isCollectorUrl(sender)) {
    if (receiver !== undefined)
      throw new UsageError(
        "bad-option",
        `${receiver}: cannot be combined with a collector, which shows all of its segments`,
        "leave it out",
      );
    return await showCollector(sender, flags);
  }
  for (const flag of ["estimator", "tokenFile", "ca", "cert", "certKey"] as const)
    if (flags[flag] !== undefined)
      throw new UsageError("bad-option", `${flagOf(flag)} needs a collector's address: http://HOST:PORT`);
  if (receiver === undefined)
    throw new UsageError(
      "bad-option",
      "the receiver is missing",
      "give both ends of a segment, or a collector's address",
    );
  await run([sender, receiver], flags);
}

/** Shows results of a collector as they arrive. */
async function showCollector(url: string, flags: Flags): Promise<void> {
  const ending = new AbortController();
  const signal = AbortSignal.any([endingSignal(), ending.signal]);
  const timer = flags.for === undefined ? null : setTimeout(() => ending.abort(), flags.for / 1e6);
  const screen = flags.json ? null : new BoardScreen(new SegmentBoard(flags.estimator ?? null));
  const onState = (text: string) => warn(`hoptime: ${text}`);
  try {
    for await (const { type, data } of listenEvents(endpointOf(url, flags), { signal, onState })) {
      if (screen) await screen.take(type, data);
      else if (type === "epoch" && wants(data, flags))
        await printJson({ format: "hoptime.top/1", ...(data as object) });
    }
  } finally {
    if (timer) clearTimeout(timer);
    await screen?.close();
  }
}

function wants(row: unknown, { estimator }: Flags): boolean {
  return estimator === undefined || (row as { estimator: string }).estimator === estimator;
}

async function run(names: [string, string], flags: Flags): Promise<void> {
  const kernels = new Kernels();
  const ending = new AbortController();
  const signal = AbortSignal.any([endingSignal(), ending.signal]);
  const sender = await openSource(kernels, names, 0, flags, signal);
  const receiver = await openSource(kernels, names, 1, flags, signal);
  const key = FlowKeySpec.parse(flags.key);
  const timer = flags.for === undefined ? null : setTimeout(() => ending.abort(), flags.for / 1e6);
  const view: TopView = { order: flags.sort, search: "", rows: flags.rows };
  const screen =
    drawsScreens() && !flags.json
      ? new TopScreen<WatchedInterval>({
          view,
          waiting: `${names.join(" > ")}: waiting for packets`,
          headLines: HEAD_LINES,
          format: (interval) => formatTop(names, interval, view, colours),
          end: () => ending.abort(),
        })
      : null;
  const { filter, window: windowNs } = flags;
  try {
    const options = { kernels, sender, receiver, key, seed: DEFAULT_SEED, filter, windowNs, signal };
    for await (const interval of watchPair(options)) {
      if (screen) screen.show(interval);
      else if (flags.json) await printJson(json(interval, flags));
      else await printText(`${topLine(interval)}\n`);
    }
  } finally {
    if (timer) clearTimeout(timer);
    screen?.close();
  }
}

async function openSource(
  kernels: Kernels,
  names: readonly string[],
  i: number,
  flags: Flags,
  signal: AbortSignal,
): Promise<Source> {
  const argument = names[i] ?? "";
  const name = interfaceOf(argument);
  const capture = { cover: OBSERVE_COVER };
  const direction = flags.direction ?? ["in", "out"];
  if (name === null) {
    refuseUnknown(argument);
    const source = openCaptures(kernels, [argument], { capture, signal });
    const { speed = Number.POSITIVE_INFINITY } = flags;
    return speed === Number.POSITIVE_INFINITY ? source : new PacedSource(source, speed, { signal });
  }
  if (names.indexOf(argument) !== i)
    throw new UsageError("bad-option", `${argument}: is given twice`, "give the two ends of a segment");
  const { onOpen: _, ...own } = interfaceOptions({ ...flags, direction }, names.length)[i] ?? {};
  return await openLive(kernels, name, { ...own, capture, signal });
}

function json(interval: WatchedInterval, { sort, rows }: Flags): unknown {
  const { startNs, flows, ...rest } = interval;
  const shown = topFlows(interval, { order: sort, search: "", rows });
  return {
    format: "hoptime.top/1",
    startNs: startNs.toString(),
    ...rest,
    flowCount: flows.length,
    flows: shown,
  };
}
