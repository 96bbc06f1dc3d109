/** `hoptime plan`: which routers to upgrade first. */
import { Command } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import { parseDemands } from "../network/plan/demands.ts";
import { planUpgrades, STRATEGIES, type Strategy } from "../network/plan/plan.ts";
import { meaningfulLines } from "../network/topology/text-lines.ts";
import { loadTopology, readMap, toText } from "../network/topology/topology-format.ts";
import { renderPlanHtml } from "../present/html/plan-html.ts";
import { renderPlanSvg } from "../present/svg/plan-picture.ts";
import { formatPlan } from "../present/text/plan-text.ts";
import { choiceOption, integerOption } from "./options.ts";
import { printJson, printText } from "./output.ts";
import { writeFile } from "./whole-file.ts";

interface PlanFlags {
  upgrade: number;
  strategy: Strategy;
  latencies?: string;
  demands?: string;
  costs?: string;
  budget?: number;
  seed: number;
  repeat: number;
  json?: boolean;
  svg?: string;
  html?: string;
}

const EXAMPLES = `
Maps (the format is detected from the content): GraphML (Topology Zoo), Rocketfuel weights, Repetita
.graph, FRR's 'show ip ospf database router json' and 'show ip ospf mpls-te database json',
CSV 'from,to[,weight[,latencyMs[,capacity]]]', hoptime.topology/1.

Examples:
  hoptime plan sprint.weights --upgrade 45
  hoptime plan sprint.weights --upgrade 45 --html plan.html --svg map.svg
  hoptime plan abilene.graphml --upgrade 3 --strategy optimal-small
  hoptime plan net.csv --upgrade 20 --demands traffic.csv --costs costs.csv --budget 50 --json
`;

export function planCommand(): Command {
  return new Command("plan")
    .description(
      "Chooses which routers of a network to upgrade first, and shows how much probing and segment length each upgrade saves.",
    )
    .argument("<topology>", "file with the network map")
    .option("-n, --upgrade <n>", "upgrade at most this many routers", integerOption("--upgrade", 0), 10)
    .option(
      "-s, --strategy <name>",
      `how to choose: ${STRATEGIES.join(", ")}`,
      choiceOption("--strategy", STRATEGIES),
      "greedy",
    )
    .option("--latencies <file>", "Rocketfuel: the latencies file that belongs to the weights")
    .option("--demands <file>", "traffic between routers: lines of 'from,to,volume', or Repetita's .demands")
    .option("--costs <file>", "cost of upgrading a router: lines of 'router,cost'; others cost 1")
    .option("--budget <cost>", "spend at most this much", amount)
    .option("--seed <n>", "with --strategy random: the first seed", integerOption("--seed", 0), 1)
    .option("--repeat <n>", "with --strategy random: number of runs", integerOption("--repeat", 1), 10)
    .option("--json", "print the plan as JSON (format hoptime.plan/1)")
    .option("--svg <file>", "write the map and the curves as a picture")
    .option("--html <file>", "write an HTML report with picture and table")
    .addHelpText("after", EXAMPLES)
    .action(runPlan);
}

async function runPlan(map: string, flags: PlanFlags): Promise<void> {
  const topology = loadTopology(map, flags.latencies === undefined ? {} : { latencies: flags.latencies });
  const plan = planUpgrades(topology, {
    upgrade: flags.upgrade,
    strategy: flags.strategy,
    seed: flags.seed,
    repeat: flags.repeat,
    ...(flags.budget === undefined ? {} : { budget: flags.budget }),
    ...(flags.costs === undefined ? {} : { costs: readCosts(flags.costs) }),
    ...(flags.demands === undefined
      ? {}
      : { demands: parseDemands(toText(readMap(flags.demands), flags.demands), flags.demands, topology) }),
  });
  if (flags.svg !== undefined) await writeFile(flags.svg, renderPlanSvg(topology, plan));
  if (flags.html !== undefined) await writeFile(flags.html, renderPlanHtml(topology, plan));
  await (flags.json ? printJson(plan) : printText(formatPlan(plan)));
}

function readCosts(file: string): Map<string, number> {
  const costs = new Map<string, number>();
  for (const line of meaningfulLines(toText(readMap(file), file))) {
    // Router names may contain commas (Rocketfuel's do), so the cost is what follows the last separator.
    const split = Math.max(
      line.text.lastIndexOf(","),
      line.text.lastIndexOf(";"),
      line.text.lastIndexOf("\t"),
    );
    const cost = Number(line.text.slice(split + 1));
    if (costs.size === 0 && line.number === 1 && Number.isNaN(cost)) continue;
    if (split <= 0 || !(cost > 0))
      throw new UsageError(
        "bad-parameter",
        `${file}: line ${line.number}: expected 'router,cost' with a positive cost`,
      );
    costs.set(line.text.slice(0, split).trim(), cost);
  }
  return costs;
}

function amount(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0 && Number.isFinite(value)))
    throw invalidValue("budget", text, "a number of at least 0");
  return value;
}
