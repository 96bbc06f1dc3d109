/** `hoptime evaluate`: compares all estimators on the user's traffic at an equal budget and recommends one. */
import { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { formatShare } from "../base/quantity.ts";
import { CaptureReader } from "../capture/reader.ts";
import { epochAround, type Span } from "../epoch/epoch-around.ts";
import type { Estimator } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS, findEstimator } from "../estimators/table.ts";
import type { Budget } from "../evaluate/race/budget.ts";
import { capturedSegment } from "../evaluate/race/captured.ts";
import { type ClockError, parseClockError } from "../evaluate/race/clock-error.ts";
import { type Race, racing, runRace } from "../evaluate/race/race.ts";
import { recommend } from "../evaluate/race/recommend.ts";
import type { RaceSegment } from "../evaluate/race/segment.ts";
import { simulatedSegment } from "../evaluate/race/simulated.ts";
import { learntNetworks } from "../observe/direction-lanes.ts";
import { DirectionCheck, type TwoWay } from "../observe/directions.ts";
import type { LossHop, Scenario, Traffic } from "../simulate/scenario.ts";
import { parseLoss, readScenario } from "../simulate/scenario-text.ts";
import { addEstimatorOptions, estimatorParameters, PARAMETER_HELP, splitNames } from "./estimator-options.ts";
import { adviceText, budgetText, raceText } from "./evaluate-text.ts";
import { integerOption, positiveOption, shareOption, sizeOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";

interface Flags {
  scenario?: string;
  memory?: number;
  wire?: number;
  stored?: number;
  countList?: boolean;
  estimators: string;
  utilisation?: number;
  loss?: LossHop;
  clockError?: ClockError;
  references?: number;
  seed: number;
  json?: boolean;
}

const UTILISATION = 0.88;
/** Packets per injected packet; if the budget is in bits on the wire, injected packets take half of it. */
const INJECT_EVERY = 100;
const INJECTED_BITS = 8 * 64;

export function evaluateCommand(): Command {
  const command = new Command("evaluate")
    .description(
      "Races all estimators on your own traffic, at equal memory, bits on the wire or bits stored, and recommends one. Shows error by flow size and delay, how often intervals contain the truth, the share of packets answered for, bits exchanged, and CPU time.",
    )
    .argument("[capture]", "capture whose traffic is used: arrival times, sizes and flows")
    .argument("[after]", "capture of the same packets after the segment: the exact match is then the truth")
    .option("--scenario <file>", "traffic and path of a scenario instead (hoptime simulate)")
    .option("--memory <bytes>", "memory of one tap, e.g. 64kB or 1MB", sizeOption("memory"))
    .option(
      "--wire <bits>",
      "bits per packet that cross the network: records, references and probes",
      positiveOption("--wire"),
    )
    .option(
      "--stored <bits>",
      "bits per packet that are stored: records of both ends",
      positiveOption("--stored"),
    )
    .option("--count-list", "with --wire or --stored: count the list of flows for estimators that need one")
    .option("--estimators <names>", "estimators, joined with commas, or all", "all")
    .option(
      "--utilisation <share>",
      `load of the queue (default: ${UTILISATION})`,
      shareOption("--utilisation"),
    )
    .option(
      "--loss <model>",
      "loss besides the queue's, e.g. 1%, or 1%:100 in bursts of 100 packets on average",
      parseLoss,
    )
    .option(
      "--clock-error <settings>",
      "receiver's clock minus the sender's, e.g. offset=10us,skew=5,wander=2us,period=10s (skew in ppm)",
      parseClockError,
    )
    .option(
      "--references <n>",
      `send one reference and one probe per n packets, for estimators that use them (default: ${INJECT_EVERY}; with --wire: as many as fill half of it)`,
      integerOption("--references", 2),
    )
    .option("--seed <n>", "seed of delays and loss", integerOption("--seed", 1), 1)
    .option("--json", "print the results as JSON (format hoptime.evaluation/2)")
    .addHelpText(
      "after",
      `
One capture is sent over two simulated paths: a queue, where packets close in time have similar
delays, and a latency per flow, where they do not (priorities, several paths, fabrics). With two
captures, the exact match is the truth. Several budgets are raced one after the other; without one,
each estimator runs at its usual size.
${PARAMETER_HELP}
Examples:
  hoptime evaluate a.pcap --memory 64kB
  hoptime evaluate a.pcap --wire 2 --loss 1% --clock-error offset=5us
  hoptime evaluate a.pcap --memory 1MB --stored 4 --estimators lds,colate,rli --rli drain=1gbit
  hoptime evaluate before.pcap after.pcap --memory 64kB
  hoptime evaluate --scenario demo/chain.json --json`,
    );
  return addEstimatorOptions(command, racing()).action(run);
}

async function run(capture: string | undefined, after: string | undefined, flags: Flags): Promise<void> {
  checkInput(capture, after, flags);
  const kernels = new Kernels();
  const estimators = chosen(flags.estimators);
  const fixed = estimatorParameters(flags as unknown as Record<string, unknown>, ESTIMATORS);
  for (const [name, text] of Object.entries(fixed)) {
    parseParameters(findEstimator(name), text);
    if (!estimators.some((e) => e.name === name))
      throw new UsageError(
        "bad-option",
        `--${name} is given, but ${name} is not run`,
        `add --estimators ${[...estimators.map((e) => e.name), name].join(",")}`,
      );
  }
  const looks: Look[] = [];
  for (const file of [capture, after]) if (file !== undefined) looks.push(await readThrough(kernels, file));
  const results: { budget: Budget | null; races: Race[]; advice: ReturnType<typeof recommend> }[] = [];
  for (const budget of budgetsOf(flags)) {
    const races: Race[] = [];
    for (const segment of segmentsOf(kernels, capture, after, flags, estimators, budget))
      races.push(await runRace(segment, { budget, estimators, fixed }));
    results.push({ budget, races, advice: recommend(races) });
  }
  if (flags.json) {
    await printJson({ format: "hoptime.evaluation/2", seed: flags.seed, budgets: results });
    return;
  }
  const files = {
    ...{ before: capture ?? "a.pcap", after: after ?? "b.pcap" },
    epochNs: looks.length === 0 ? null : epochAround(looks),
    mixed: looks[0]?.mixed ?? null,
  };
  for (const { budget, races, advice } of results)
    await printText(
      `${budgetText(budget)}\n${races.map(raceText).join("\n")}${adviceText(advice, races, budget, files)}\n`,
    );
}

function checkInput(capture: string | undefined, after: string | undefined, flags: Flags): void {
  if ((capture === undefined) === (flags.scenario === undefined))
    throw new UsageError("bad-option", "give a capture, two captures, or --scenario");
  const { utilisation, loss, clockError, references, scenario } = flags;
  const simulated = { "--utilisation": utilisation, "--loss": loss };
  const inRace = { "--clock-error": clockError, "--references": references };
  const idle = after !== undefined ? { ...simulated, ...inRace } : scenario !== undefined ? simulated : {};
  for (const [name, value] of Object.entries(idle))
    if (value !== undefined)
      throw new UsageError(
        "bad-option",
        `${name} has no effect ${after === undefined ? "with --scenario" : "on two captures: they have delays, loss and clocks of their own"}`,
        after === undefined ? "set it in the scenario" : "leave it out, or give one capture",
      );
  if (flags.countList && flags.wire === undefined && flags.stored === undefined)
    throw new UsageError("bad-option", "--count-list needs --wire or --stored");
}

function chosen(text: string): Estimator[] {
  const named = text === "all" ? racing() : splitNames("--estimators", text).map(findEstimator);
  const silent = named.find((e) => e.answers.length === 0);
  if (silent)
    throw invalidValue(
      "estimators",
      silent.name,
      `of those that answer: ${racing()
        .map((e) => e.name)
        .join(", ")}`,
    );
  return [...new Set(named)];
}

function budgetsOf({ memory, wire, stored, countList = false }: Flags): (Budget | null)[] {
  const out: Budget[] = [];
  if (memory !== undefined) out.push({ kind: "memory", bytes: memory });
  if (wire !== undefined) out.push({ kind: "wire", bitsPerPacket: wire, list: countList });
  if (stored !== undefined) out.push({ kind: "stored", bitsPerPacket: stored, list: countList });
  return out.length === 0 ? [null] : out;
}

/** Time span of a capture. A damaged capture is used up to the damage. */
interface Look extends Span {
  /** Packets of both directions that `observe` cannot separate by itself; null if it can, or if there is only one direction. */
  readonly mixed: TwoWay | null;
}

async function readThrough(kernels: Kernels, capture: string): Promise<Look> {
  const reader = await CaptureReader.open(kernels, capture);
  const directions = new DirectionCheck();
  while (await reader.next()) directions.add(reader.batch);
  const { partial, ipPackets, firstNs, lastNs } = reader.statistics();
  reader.close();
  reader.free();
  if (ipPackets === 1) throw new UsageError("no-records", `${capture}: one IP packet, too few for a race`);
  if (ipPackets === 0)
    throw new UsageError("no-records", `${capture}: no IP packet`, "hoptime inspect shows what it contains");
  if (partial !== null) {
    warn(`hoptime: ${partial}; results cover the part that was read`);
    process.exitCode = 2;
  }
  const mixed = learntNetworks(directions) === null ? directions.verdict() : null;
  return { firstNs: firstNs ?? 0n, lastNs: lastNs ?? 0n, mixed };
}

function segmentsOf(
  kernels: Kernels,
  capture: string | undefined,
  after: string | undefined,
  flags: Flags,
  estimators: readonly Estimator[],
  budget: Budget | null,
): RaceSegment[] {
  if (capture !== undefined && after !== undefined) return [capturedSegment({ before: capture, after })];
  const { seed, utilisation = UTILISATION, clockError: clock } = flags;
  const lossRates = flags.loss ? [flags.loss.probability] : [];
  const injectEvery = flags.references ?? injectedWithin(budget);
  const simulated = (name: string, scenario: Scenario) =>
    simulatedSegment(kernels, name, scenario, { estimators, injectEvery, clock, loss: lossRates });
  if (flags.scenario !== undefined) return [simulated(flags.scenario, readScenario(flags.scenario))];
  const traffic: Traffic = { kind: "replay", file: capture ?? "" };
  const loss = flags.loss ? [flags.loss] : [];
  return [
    simulated(`one queue at ${formatShare(utilisation)}`, {
      ...{ seed, traffic },
      path: [{ kind: "queue", discipline: "red", utilisation }, ...loss],
    }),
    simulated("a latency of each flow's own", {
      ...{ seed, traffic },
      path: [{ kind: "delay", model: { kind: "per-flow" } }, ...loss],
    }),
  ];
}

function injectedWithin(budget: Budget | null): number {
  if (budget?.kind !== "wire") return INJECT_EVERY;
  return Math.max(2, Math.ceil(INJECTED_BITS / (budget.bitsPerPacket / 2)));
}
