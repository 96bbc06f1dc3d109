/** `hoptime simulate --out DIR`. */

import { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { countOf, formatBitRate, formatCount, formatShare } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { encodeStamp } from "../delays/stamp.ts";
import { type Injection as ReferenceInjection, referenceInjector } from "../evaluate/reference-injectors.ts";
import { exportSimulation, type TruthFile } from "../simulate/export.ts";
import type { Injector } from "../simulate/injector.ts";
import type { Clock, DelayModel, Hop, LossHop, ReorderHop, Scenario, Traffic } from "../simulate/scenario.ts";
import {
  parseClock,
  parseDelay,
  parseLoss,
  parseQuantity,
  parseReorder,
  readScenario,
} from "../simulate/scenario-text.ts";
import { choiceOption, durationOption, integerOption } from "./options.ts";
import { printJson, printText } from "./output.ts";
import { endingSignal } from "./signals.ts";
import { simulateNetwork } from "./simulate-network.ts";
import { colours } from "./terminal.ts";

interface Flags {
  out?: string;
  network?: string;
  to?: string;
  epoch?: number;
  estimators?: string;
  truth?: string;
  scenario?: string;
  rate?: number;
  duration?: number;
  replay?: string;
  timeScale?: number;
  inputs?: number;
  queue: "red" | "droptail" | "none";
  utilisation?: number;
  drain?: number;
  capacity?: number;
  paths?: number;
  cross?: number;
  delay?: DelayModel;
  loss?: LossHop;
  reorder?: ReorderHop;
  clock?: { point: string; clock: Clock }[];
  probes?: number;
  references?: Injection;
  seed: number;
  link: "raw" | "ethernet";
  snap?: number;
  packets?: boolean;
  json?: boolean;
}

// long: one call for each option, in the order of --help.
export function simulateCommand(): Command {
  return new Command("simulate")
    .description(
      "Sends traffic through queues, delays and loss of your choice. Writes what each point would capture (nanosecond pcap), and the truth: truth.json per flow, with --packets also packets.csv per packet.",
    )
    .option("--out <dir>", "directory for sender.pcap, receiver.pcap, truth.json")
    .option(
      "--network <file>",
      "simulate a whole network and send its taps' records to --to: a map in any format of hoptime plan, or hoptime.network/1 (docs/simulate.md)",
    )
    .option("--to <where>", "with --network: directory for records, http://HOST:PORT, or nats://HOST:PORT")
    .option(
      "--truth <file>",
      "with --network: write the true delay and loss of each link and epoch as lines of JSON",
    )
    .option("--epoch <time>", "with --network: length of an epoch (default: 1s)", durationOption("--epoch"))
    .option("--estimators <list>", "with --network: estimators at each point (default: lda)")
    .option(
      "--scenario <file>",
      "read the whole scenario from a JSON file (docs/simulate.md); --seed still applies",
    )
    .option("--rate <pps>", "synthetic traffic: packets per second (default: 100k)", (t) =>
      parseQuantity(t, "rate"),
    )
    .option(
      "--duration <time>",
      "length of the traffic (default: 1s; with --replay: the capture's length)",
      durationOption("--duration"),
    )
    .option(
      "--inputs <n>",
      "synthetic traffic: number of 10 Gbit/s input links",
      integerOption("--inputs", 1, 255),
    )
    .option(
      "--replay <file>",
      "use the traffic of a capture instead; repeated with new flows up to --duration",
    )
    .option("--time-scale <x>", "with --replay: stretch time by this factor", (t) =>
      parseQuantity(t, "time-scale"),
    )
    .option(
      "--queue <kind>",
      "kind of queue: red, droptail or none",
      choiceOption("--queue", ["red", "droptail", "none"]),
      "red",
    )
    .option(
      "--utilisation <share>",
      "load of the queue, which sets its drain rate (default: 80%)",
      parseUtilisation,
    )
    .option("--drain <bit/s>", "drain rate of the queue, instead of --utilisation", (t) =>
      parseQuantity(t, "drain"),
    )
    .option(
      "--capacity <packets>",
      "size of the queue (default: 10000 packets)",
      integerOption("--capacity", 1),
    )
    .option(
      "--paths <n>",
      "number of parallel queues, chosen by flow (ECMP)",
      integerOption("--paths", 2, 1024),
    )
    .option("--cross <pps>", "cross traffic through the same queue", (t) => parseQuantity(t, "cross"))
    .option(
      "--delay <model>",
      "delay behind the queue: weibull:133us:0.6, per-flow, constant:1ms …",
      parseDelay,
    )
    .option("--loss <share[:burst]>", "loss, e.g. 0.1%, or in episodes: 1%:100", parseLoss)
    .option(
      "--reorder <share:time>",
      "hold back this share of the packets for this time, e.g. 1%:50us",
      parseReorder,
    )
    .option(
      "--clock <point:...>",
      "clock of a point, e.g. receiver:offset=-50us,skew=20,jitter=100ns,resolution=1us (repeatable)",
      (text: string, before: { point: string; clock: Clock }[] = []) => [...before, parseClock(text)],
    )
    .option("--probes <pps>", "add active probes (STAMP) to the traffic", (t) => parseQuantity(t, "probes"))
    .option(
      "--references <scheme>",
      "add reference packets for rli: adaptive, 1-in-300 or a time such as 780us",
      parseReferences,
    )
    .option("--seed <n>", "random seed; the same seed gives the same bytes", integerOption("--seed", 0), 1)
    .option(
      "--link <kind>",
      "link layer: raw (IP only) or ethernet",
      choiceOption("--link", ["raw", "ethernet"]),
      "raw",
    )
    .option("--snap <bytes>", "snap length (default: 128)", integerOption("--snap", 64, 65_535))
    .option("--packets", "also write packets.csv with the fate of every packet")
    .option("--json", "print the totals as JSON (format hoptime.truth/1, without the flows)")
    .addHelpText(
      "after",
      `
Examples:
  hoptime simulate --out sim
  hoptime simulate --out sim --rate 400k --duration 10s --utilisation 88% --packets
  hoptime simulate --out sim --queue none --delay weibull:133us:0.6 --loss 1%:100
  hoptime simulate --out sim --replay capture.pcap --time-scale 0.1 --utilisation 70%
  hoptime simulate --out sim --clock receiver:offset=2ms,skew=20
  hoptime simulate --out sim --references adaptive --utilisation 70%
  hoptime compare sim/sender.pcap sim/receiver.pcap --estimators rli
  hoptime simulate --out sim --scenario fabric.json
  hoptime simulate --network map.graphml --rate 200 --duration 10m --to records --truth truth.jsonl`,
    )
    .action(async (flags: Flags, command: Command) => {
      if (flags.network !== undefined) {
        await simulateNetwork(flags.network, flags);
        return;
      }
      const { out } = flags;
      if (out === undefined)
        throw new UsageError(
          "bad-option",
          "--out is missing",
          "give a directory: --out sim (or --network FILE --to WHERE)",
        );
      if (flags.scenario !== undefined) refuseBesideScenario(command);
      const scenario = flags.scenario === undefined ? fromFlags(flags) : readScenario(flags.scenario);
      if (flags.scenario !== undefined && command.getOptionValueSource("seed") === "cli")
        scenario.seed = flags.seed;
      const { references } = flags;
      if (references) scenario.inject = ({ rateBps }) => makeInjector(references, rateBps);
      const truth = await exportSimulation(new Kernels(), scenario, out, {
        link: flags.link,
        ...(flags.snap === undefined ? {} : { snapLength: flags.snap }),
        packets: flags.packets ?? false,
        ownPayload: stampPayload,
        signal: endingSignal(),
      });
      const { flows: _, ...head } = truth;
      await (flags.json ? printJson(head) : printText(format(truth, flags)));
    });
}

/** Parses a utilisation; above 1 the queue is overloaded. */
function parseUtilisation(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(%?)$/.exec(text.trim());
  const share = match ? Number(match[1]) / (match[2] === "%" ? 100 : 1) : Number.NaN;
  if (!(share > 0)) throw invalidValue("utilisation", text, "a share above 0, e.g. 88% or 0.88");
  return share;
}

const DEFAULT_PPS = 100_000;

/** Options that are allowed with a scenario file; the others are part of the scenario. */
const BESIDE_SCENARIO = new Set(["out", "scenario", "seed", "references", "link", "snap", "packets", "json"]);

function refuseBesideScenario(command: Command): void {
  for (const option of command.options) {
    const name = option.attributeName();
    if (BESIDE_SCENARIO.has(name) || command.getOptionValueSource(name) !== "cli") continue;
    throw new UsageError(
      "bad-option",
      `${option.long} cannot be combined with --scenario`,
      "write it into the scenario's file",
    );
  }
}

/** Adaptive injection without a drain rate, which is known only when a run begins. */
type Injection = Exclude<ReferenceInjection, { kind: "adaptive" }> | { kind: "adaptive" };

function parseReferences(text: string): Injection {
  if (text === "adaptive") return { kind: "adaptive" };
  const every = /^1-in-([1-9][0-9]{0,8})$/.exec(text)?.[1];
  if (every !== undefined) return { kind: "packets", every: Number(every) };
  if (!/^[0-9.]+ *[a-z]+$/.test(text))
    throw new UsageError(
      "bad-option",
      `invalid value '${text}' (expected adaptive, 1-in-300 or a time such as 780us)`,
      undefined,
      { parameter: "references", value: text },
    );
  return { kind: "time", everyNs: durationOption("--references")(text) };
}

function makeInjector(injection: Injection, rateBps: number | null): Injector {
  if (injection.kind !== "adaptive") return referenceInjector(injection);
  if (rateBps === null)
    throw new UsageError(
      "bad-option",
      "--references adaptive needs a queue: its utilisation sets the pace",
      "write --references 1-in-300",
    );
  return referenceInjector({ kind: "adaptive", drainBps: rateBps });
}

/** Returns a STAMP payload; session 1 is for references, 2 for probes. */
function stampPayload(sequence: number, timeNs: bigint, kind: "reference" | "probe"): Uint8Array {
  const session = kind === "reference" ? 1 : 2;
  return encodeStamp({ sequence, timeNs, session, synchronised: true, errorNs: 1 });
}

function fromFlags(f: Flags): Scenario {
  const traffic: Traffic =
    f.replay === undefined
      ? {
          kind: "synthetic",
          ratePps: f.rate ?? DEFAULT_PPS,
          durationS: (f.duration ?? 1e9) / 1e9,
          ...(f.inputs === undefined ? {} : { inputs: f.inputs }),
        }
      : {
          kind: "replay",
          file: f.replay,
          ...(f.timeScale === undefined ? {} : { timeScale: f.timeScale }),
          ...(f.duration === undefined ? {} : { durationS: f.duration / 1e9 }),
        };
  const path: Hop[] = [];
  if (f.queue !== "none") {
    const spec = {
      discipline: f.queue,
      ...(f.drain === undefined ? { utilisation: f.utilisation ?? 0.8 } : { rateBps: f.drain }),
      ...(f.capacity === undefined ? {} : { capacityPackets: f.capacity }),
    };
    if (f.paths === undefined) {
      const durationS = (f.duration ?? 1e9) / 1e9;
      const cross: { cross?: Traffic } =
        f.cross === undefined ? {} : { cross: { kind: "synthetic", ratePps: f.cross, durationS } };
      path.push({ kind: "queue", ...spec, ...cross });
    } else path.push({ kind: "paths", choose: "flow", paths: Array.from({ length: f.paths }, () => spec) });
  }
  if (f.cross !== undefined && (f.queue === "none" || f.paths !== undefined))
    throw new UsageError("bad-option", "--cross needs one queue", "leave out --paths and --queue none");
  if (f.delay) path.push({ kind: "delay", model: f.delay });
  if (f.loss) path.push(f.loss);
  if (f.reorder) path.push(f.reorder);
  return {
    seed: f.seed,
    traffic,
    path,
    ...(f.clock ? { clocks: Object.fromEntries(f.clock.map((c) => [c.point, c.clock])) } : {}),
    ...(f.probes === undefined ? {} : { probes: { ratePps: f.probes } }),
  };
}

function format(truth: TruthFile, flags: Flags): string {
  const t = truth.totals;
  const lines: string[] = [];
  const row = (name: string, text: string) => lines.push(`${colours.bold(name.padEnd(9))}${text}`);
  row("sent", `${countOf(t.sent, "packet")} of ${countOf(t.flows, "flow")}, ${formatCount(t.bytes)} bytes`);
  row("lost", `${formatCount(t.lost)} (${t.sent > 0 ? formatShare(t.lost / t.sent) : "–"})`);
  const { meanNs, deviationNs, minNs, maxNs } = t;
  if (meanNs !== null && deviationNs !== null && minNs !== null && maxNs !== null) {
    const spread = `standard deviation ${formatDuration(deviationNs)}`;
    row(
      "delay",
      `mean ${formatDuration(meanNs)}, ${spread}, ${formatDuration(minNs)} to ${formatDuration(maxNs)}`,
    );
  }
  for (const h of truth.hops.filter((x) => x.rateBps !== null))
    row(
      h.kind,
      `${formatBitRate(h.rateBps ?? 0)}, longest ${countOf(h.longest, "packet")}, ${formatCount(h.tailDrops + h.redDrops)} dropped`,
    );
  for (const f of truth.files) row(f.point, `${flags.out}/${f.file}: ${countOf(f.packets, "packet")}`);
  row("truth", `${flags.out}/truth.json${flags.packets ? `, ${flags.out}/packets.csv` : ""}`);
  return `${lines.join("\n")}\n`;
}
