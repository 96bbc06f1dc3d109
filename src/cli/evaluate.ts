/** `hoptime evaluate`: all estimators on one's own traffic at equal memory, and which of them to take. */
import { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { formatBytes, formatCount, formatShare } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { CaptureReader } from "../capture/reader.ts";
import { findEstimator } from "../estimators/table.ts";
import { RACE_CLASSES, type Race, type RaceRow, recommend, runRace } from "../evaluate/race.ts";
import { runSegment } from "../evaluate/run-segment.ts";
import { formatTable } from "../present/text/table.ts";
import type { LossHop, Scenario, Traffic } from "../simulate/scenario.ts";
import { parseLoss, readScenario } from "../simulate/scenario-text.ts";
import { simulate } from "../simulate/simulate.ts";
import { integerOption, shareOption, sizeOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";
import { colours } from "./terminal.ts";

interface Flags {
  scenario?: string;
  memory?: number;
  estimators: string;
  utilisation: number;
  loss?: LossHop;
  references: number;
  seed: number;
  json?: boolean;
}

export function evaluateCommand(): Command {
  return new Command("evaluate")
    .description(
      "Races all estimators on your own traffic at equal memory: error by flow size, how often intervals hold, bits exchanged, CPU. Delays are simulated, so that the truth is known.",
    )
    .argument("[capture]", "capture whose packets are sent (arrival times, sizes and flows)")
    .option("--scenario <file>", "traffic and path of a scenario instead (hoptime simulate)")
    .option(
      "--memory <bytes>",
      "memory of one tap: 64kB, 1MB (default: each estimator's usual size)",
      sizeOption("memory"),
    )
    .option("--estimators <names>", "estimators, joined with commas, or all", "all")
    .option("--utilisation <share>", "load of the queue", shareOption("--utilisation"), 0.88)
    .option("--loss <model>", "loss besides the queue's: 1%, bursts:1%,100", parseLoss)
    .option(
      "--references <n>",
      "one reference packet in so many, for estimators that use them",
      integerOption("--references", 2),
      100,
    )
    .option("--seed <n>", "seed of delays and loss", integerOption("--seed", 1), 1)
    .option("--json", "the results as JSON (format hoptime.evaluation/1)")
    .addHelpText(
      "after",
      `
Without --scenario the traffic passes two paths: one queue, where packets near in time are delayed alike, and
latencies of each flow's own, where they are not (priorities, several paths, fabrics).

Examples:
  hoptime evaluate a.pcap --memory 64kB
  hoptime evaluate a.pcap --memory 1MB --loss 1% --estimators lds,colate,rli
  hoptime evaluate --scenario demo/chain.json --json`,
    )
    .action(async (capture: string | undefined, flags: Flags) => {
      const paths = pathsOf(capture, flags);
      const kernels = new Kernels();
      const estimators =
        flags.estimators === "all" ? undefined : flags.estimators.split(",").map(findEstimator);
      if (capture !== undefined) await warnOfDamage(kernels, capture);
      const races: { path: string; race: Race }[] = [];
      for (const { name, scenario } of paths) {
        const offered = await simulate(kernels, scenario).offered();
        const { truth } = await runSegment(kernels, scenario, []);
        const loss = flags.loss ? [flags.loss.probability] : [];
        const race = await runRace(kernels, scenario, {
          memoryBytes: flags.memory ?? null,
          ...(estimators ? { estimators } : {}),
          referenceEvery: flags.references,
          expected: { packets: offered.packets, flows: truth.flows.count, loss, epochNs: offered.durationNs },
        });
        races.push({ path: name, race });
      }
      const advice = recommend(races.map((r) => r.race));
      if (flags.json) await printJson({ format: "hoptime.evaluation/1", seed: flags.seed, races, advice });
      else
        await printText(
          `${races.map(({ path, race }) => raceText(path, race)).join("\n")}${adviceText(advice)}`,
        );
    });
}

/** A damaged capture is replayed up to the damage. */
async function warnOfDamage(kernels: Kernels, capture: string): Promise<void> {
  const reader = await CaptureReader.open(kernels, capture);
  while (await reader.next());
  const { partial } = reader.statistics();
  reader.close();
  reader.free();
  if (partial === null) return;
  warn(`hoptime: ${partial}; results cover the part that was read`);
  process.exitCode = 2;
}

function pathsOf(capture: string | undefined, flags: Flags): { name: string; scenario: Scenario }[] {
  if ((capture === undefined) === (flags.scenario === undefined))
    throw new UsageError("bad-option", "give a capture or --scenario, one of them");
  if (flags.scenario !== undefined) return [{ name: flags.scenario, scenario: readScenario(flags.scenario) }];
  const traffic: Traffic = { kind: "replay", file: capture ?? "" };
  const loss = flags.loss ? [flags.loss] : [];
  const { seed, utilisation } = flags;
  return [
    {
      name: `one queue at ${formatShare(utilisation)}`,
      scenario: { seed, traffic, path: [{ kind: "queue", discipline: "red", utilisation }, ...loss] },
    },
    {
      name: "a latency of each flow's own",
      scenario: { seed, traffic, path: [{ kind: "delay", model: { kind: "per-flow" } }, ...loss] },
    },
  ];
}

function raceText(path: string, { packets, flows, meanNs, rows }: Race): string {
  const share = (value: number | null) => (value === null ? "–" : formatShare(value));
  const table = formatTable<RaceRow>(
    [
      { title: "estimator", align: "left", value: (r) => `${r.estimator}${r.needsDelays ? " +" : ""}` },
      { title: "memory", value: (r) => `${formatBytes(r.memoryBytes)}${r.sized ? "" : "*"}` },
      { title: "bit/packet", value: (r) => r.bitsPerPacket.toFixed(2) },
      { title: "ns/packet", value: (r) => r.cpuNsPerPacket.toFixed(0) },
      { title: "segment", value: (r) => share(r.segmentError) },
      ...RACE_CLASSES.map(({ from, to }, c) => ({
        title: to === null ? `≥ ${formatCount(from)}` : `${from}–${to}`,
        value: (r: RaceRow) => {
          const found = r.classes[c];
          if (!found || found.median === null) return "–";
          return `${formatShare(found.median)} (${share(found.withinInterval)})`;
        },
      })),
    ],
    rows,
    { colours },
  );
  const head = `${colours.bold(path)}: ${formatCount(packets)} packets, ${formatCount(flows)} flows, mean delay ${formatDuration(meanNs)}`;
  return `${head}\n${table}\nmedian error of flows by their packets (share of 95 % intervals that contain the truth); * its usual size; + with each packet's exact delay, which two points alone do not have\n`;
}

function adviceText(advice: ReturnType<typeof recommend>): string {
  if (!advice) return "\nNo estimator answers for nine of ten flows: give them more memory.\n";
  const { estimator, parameters, from, medianError, bitsPerPacket } = advice;
  const given = parameters === "" ? "" : ` --${estimator} ${parameters}`;
  const reason = `flows of ${formatCount(from)} packets and more err by ${formatShare(medianError)} (median), for ${bitsPerPacket.toFixed(2)} bits per packet`;
  return `\n${colours.bold("take")} ${estimator}: ${reason}\n  hoptime observe FILE --point A --estimators ${estimator}${given} --to records\n`;
}
