/** `hoptime top --ebpf IN:OUT`: the queues of this host as its kernel sees them. */
import type { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import { SegmentDatapath } from "../capture/ebpf/segment.ts";
import {
  ARRIVALS,
  type Arrival,
  DEPARTURES,
  type Departure,
  type Way,
} from "../capture/ebpf/segment-load.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { type BoxInterval, WATCH_BOX_NS, watchBox } from "../observe/watch-box.ts";
import { type BoxView, boxLine, formatBox } from "../present/text/top-box-text.ts";
import { type TopOrder, topFlows } from "../present/text/top-text.ts";
import { flagOf } from "./flags.ts";
import { choiceOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";
import { endingSignal } from "./signals.ts";
import { colours, drawsScreens } from "./terminal.ts";
import { TopScreen } from "./top-screen.ts";

export interface EbpfSegmentFlags {
  ebpfArrival?: Arrival;
  ebpfDeparture?: Departure;
}

export interface BoxFlags extends EbpfSegmentFlags {
  ebpf?: Way[];
  key: string;
  sort: TopOrder;
  rows: number;
  for?: number;
  json?: boolean;
}

/** Seconds in the line of percentiles. */
const HISTORY = 60;
/** Options for captures, which have no meaning here. */
const OF_CAPTURES = ["filter", "window", "direction", "promiscuous", "snap", "timestamps", "speed"] as const;

export function addBoxOptions(command: Command): void {
  command.option(
    "--ebpf <in:out>",
    "measure in the kernel how long this host holds the packets it forwards from one interface to the other, e.g. eth0:eth1 (repeatable)",
    wayOption("--ebpf"),
  );
  addSegmentOptions(command);
}

/** Options for measuring a path through this host. */
export function addSegmentOptions(command: Command): void {
  command
    .option(
      "--ebpf-arrival <where>",
      "where arrival is timed: tc, or xdp in the driver, before packets are merged (GRO) (default: tc)",
      choiceOption("--ebpf-arrival", ARRIVALS),
    )
    .option(
      "--ebpf-departure <where>",
      "where departure is timed: tracepoint, or socket, which sets packet marks behind the firewall (default: what the kernel allows)",
      choiceOption("--ebpf-departure", DEPARTURES),
    );
}

/** Parses IN:OUT. Names of VLAN interfaces and aliases contain no colon. */
export function wayOption(flag: string): (text: string, before?: Way[]) => Way[] {
  return (text, before = []) => {
    const [input = "", output = "", more] = text.split(":").map((name) => name.trim());
    if (input === "" || output === "" || more !== undefined)
      throw invalidValue(flag.replace(/^--/, ""), text, "two interfaces of this host: eth0:eth1");
    return [...before, { input, output }];
  };
}

export async function runBox(ways: Way[], flags: BoxFlags, self: Command): Promise<void> {
  for (const flag of OF_CAPTURES)
    if (self.getOptionValueSource(flag) === "cli")
      throw new UsageError(
        "bad-option",
        `${flagOf(flag)} is for captures: programs in the kernel see every packet`,
        "leave it out, or name two interfaces without --ebpf",
      );
  const key = FlowKeySpec.parse(flags.key);
  if (flags.key.split(",").some((field) => field.trim() === "vlan"))
    throw new UsageError("bad-option", "--key vlan is for captures", "leave it out with --ebpf");
  const box = await SegmentDatapath.open({
    ways,
    epochNs: WATCH_BOX_NS,
    arrival: flags.ebpfArrival,
    departure: flags.ebpfDeparture,
  });
  const ending = new AbortController();
  const signal = AbortSignal.any([endingSignal(), ending.signal]);
  const timer = flags.for === undefined ? null : setTimeout(() => ending.abort(), flags.for / 1e6);
  const view: BoxView = { order: flags.sort, search: "", rows: flags.rows, way: 0, history: [] };
  const onScreen = drawsScreens() && !flags.json;
  if (!onScreen) warn(`hoptime: ${describeBox(box)}`);
  const screen = onScreen ? openScreen(box, view, () => ending.abort()) : null;
  const history: number[][] = ways.map(() => []);
  try {
    for await (const intervals of watchBox({ box, key, signal })) {
      for (const [i, { latency }] of intervals.entries())
        if (latency) history[i] = [...(history[i] ?? []), latency.p99Ns].slice(-HISTORY);
      view.history = history;
      if (screen) screen.show(intervals);
      else for (const interval of intervals) await print(interval, flags);
    }
  } finally {
    if (timer) clearTimeout(timer);
    screen?.close();
    box.close();
  }
}

function openScreen(box: SegmentDatapath, view: BoxView, end: () => void): TopScreen<BoxInterval[]> {
  const { ways } = box;
  const next = () => {
    view.way = (view.way + 1) % ways.length;
  };
  return new TopScreen<BoxInterval[]>({
    view,
    waiting: describeBox(box),
    headLines: 3,
    format: (intervals) => formatBox(intervals, view, colours),
    end,
    ...(ways.length > 1 ? { keys: { w: { text: "other way", act: next } } } : {}),
  });
}

async function print(interval: BoxInterval, flags: BoxFlags): Promise<void> {
  if (!flags.json) return await printText(`${boxLine(interval)}\n`);
  const { startNs, flows, way, ...rest } = interval;
  const shown = topFlows(interval, { order: flags.sort, search: "", rows: flags.rows });
  await printJson({
    format: "hoptime.top/1",
    startNs: startNs.toString(),
    way: `${way.input}:${way.output}`,
    ...rest,
    flowCount: flows.length,
    flows: shown,
  });
}

/** Describes in one line what is attached. */
export function describeBox(box: SegmentDatapath): string {
  const ways = box.ways.map(({ input, output }) => `${input} > ${output}`).join(", ");
  const modes = [...box.xdpModes].map(([name, mode]) => `${name} ${mode}`).join(", ");
  const arrival = modes === "" ? "tc" : `XDP (${modes})`;
  const drops = box.seesDrops ? "" : "; reasons of drops are not available";
  return `measuring ${ways} in the kernel: arrival at ${arrival}, departure at the ${box.departure}${drops}`;
}
