/**
 * `hoptime reproduce`: reproduces the papers' tables and figures. Studies run in parallel in their own processes; finished results are kept, and a second run
 * continues.
 */
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { basename, join } from "node:path";
import { Command } from "commander";
import { makeDirectory, writeFailure } from "../base/directory.ts";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { VERSION } from "../base/version.ts";
import { LEVEL_COLUMNS, levelCells, overSeeds, seedsMarkdown } from "../evaluate/reproduce/over-seeds.ts";
import {
  allThresholds,
  figureFiles,
  renderHtml,
  renderMarkdown,
  thresholdText,
} from "../evaluate/reproduce/report.ts";
import {
  type Reproduction,
  readResult,
  resultFile,
  resultText,
  runStudy,
} from "../evaluate/reproduce/reproduction.ts";
import { type Finding, isMet, PAPERS, type Scale, type Study } from "../evaluate/reproduce/study.ts";
import { chooseStudies, STUDIES } from "../evaluate/reproduce/table.ts";
import { formatTable } from "../present/text/table.ts";
import { choiceOption, integerOption } from "./options.ts";
import { printJson, printText, warn } from "./output.ts";
import { cleanOnSignal } from "./signals.ts";
import { colours } from "./terminal.ts";
import { writeFile } from "./whole-file.ts";

interface Flags {
  out: string;
  scale: Scale;
  seed: number;
  map?: string;
  seeds?: number;
  jobs: number;
  again?: boolean;
  list?: boolean;
  part?: boolean;
  json?: boolean;
}

const SCALES = ["quick", "full"] as const;

export function reproduceCommand(): Command {
  return new Command("reproduce")
    .description(
      "Repeats the tables and figures of the papers on simulated traffic: what each paper claims, what its algorithm gives as written, what hoptime's gives.",
    )
    .argument("[id...]", "experiments or papers; hoptime reproduce --list names them (default: all)")
    .option("-o, --out <dir>", "directory of the report", "reproduction")
    .option(
      "--scale <size>",
      "quick: minutes; full: at the papers' sizes",
      choiceOption("--scale", SCALES),
      "quick",
    )
    .option("--seed <n>", "seed of all traffic", integerOption("--seed", 1), 1)
    .option(
      "--seeds <n>",
      "repeat everything with this many seeds, from --seed on; exit code 1 if a level is reached in fewer than nine of ten runs",
      integerOption("--seeds", 2, 1000),
    )
    .option("--map <file>", "network map for MPLANE's plans, e.g. Rocketfuel's 1239.weights.intra")
    .option(
      "--jobs <n>",
      "number of studies to run in parallel",
      integerOption("--jobs", 1),
      Math.min(4, availableParallelism()),
    )
    .option("--again", "repeat studies that already have a result")
    .option("--list", "list the experiments and exit")
    .option("--part", "run the studies without writing the report")
    .option("--json", "print the findings as JSON (format hoptime.reproduction/1)")
    .addHelpText(
      "after",
      `
Writes DIR/index.html (one file, opens offline), DIR/reproduction.md, DIR/reproduction.json and
DIR/figures.
Finished studies are kept in DIR/studies: an interrupted run resumes.

Examples:
  hoptime reproduce all --out reproduction
  hoptime reproduce lda-4a lda-6 --out lda
  hoptime reproduce maple --scale full --seed 7
  hoptime reproduce all --seeds 10 --seed 1000 --out nightly   # levels over ten fresh seeds
  hoptime reproduce mplane-9 --map 1239.weights.intra`,
    )
    .action(async (ids: string[], flags: Flags) => {
      if (flags.list) return await list(flags);
      const studies = chooseStudies(ids);
      if (flags.seeds !== undefined) return await runSeeds(ids, studies, flags, flags.seeds);
      await runMissing(studies, flags);
      if (flags.part) return;
      await report(ids, studies, flags);
    });
}

async function runMissing(studies: readonly Study[], flags: Flags): Promise<void> {
  makeFolder(join(flags.out, "studies"));
  const missing = studies.filter((study) => flags.again || !readResult(flags.out, study, flags));
  if (missing.length === 1 || flags.jobs === 1) for (const study of missing) await runHere(study, flags);
  else await runAside(missing, flags);
}

function makeFolder(path: string): void {
  try {
    makeDirectory(path);
  } catch (error) {
    throw writeFailure(path, error, "give a directory that can be written");
  }
}

/** Runs each seed in its own directory; finished results are kept. */
async function runSeeds(
  ids: readonly string[],
  studies: readonly Study[],
  flags: Flags,
  seeds: number,
): Promise<void> {
  const runs: Reproduction[] = [];
  for (let seed = flags.seed; seed < flags.seed + seeds; seed++) {
    const own = { ...flags, seed, out: join(flags.out, `seed-${seed}`) };
    await runMissing(studies, own);
    if (!flags.part) runs.push(collected(studies, own));
  }
  if (flags.part) return;
  const result = overSeeds(runs);
  const { out } = flags;
  const command = `${commandText(ids, flags)} --seeds ${seeds}`;
  await writeFile(join(out, "seeds.json"), `${JSON.stringify(result, null, 1)}\n`);
  await writeFile(join(out, "seeds.md"), seedsMarkdown(result, command));
  if (flags.json) await printJson(result);
  else
    await printText(
      `${formatTable<string[]>(
        LEVEL_COLUMNS.map((title, i) => ({
          title,
          ...(i < 2 ? { align: "left" as const } : {}),
          value: (cells: string[]) => cells[i] ?? "",
        })),
        result.levels.map(levelCells),
        { colours },
      )}\n`,
    );
  const missed = result.levels.filter((level) => !level.holds);
  for (const { id, what, reached } of missed) warn(`${id}: ${what}: reached in ${reached} of ${seeds} runs`);
  if (missed.length > 0) process.exitCode = 1;
}

async function list(flags: Flags): Promise<void> {
  const heads = STUDIES.flatMap((study) =>
    study.heads.map((head) => ({ study: study.name, paper: study.paper, ...head })),
  );
  if (flags.json) return await printJson(heads);
  await printText(
    `${formatTable<(typeof heads)[number]>(
      [
        { title: "id", align: "left", value: (h) => h.id },
        { title: "paper", align: "left", value: (h) => PAPERS[h.paper].split(" (")[0] ?? "" },
        { title: "where", align: "left", value: (h) => h.where },
        { title: "", align: "left", value: (h) => h.title },
      ],
      heads,
      { colours },
    )}\n`,
  );
}

async function runHere(study: Study, { out, scale, seed, map, part }: Flags): Promise<void> {
  const onTerminal = process.stderr.isTTY === true;
  // A full run takes hours: without a terminal, a line is logged for every 5 %.
  const logs = !onTerminal && !part && scale === "full";
  let logged = -1;
  const show = (share: number) => {
    const text = `${study.name} ${Math.round(100 * share)} %`;
    if (onTerminal) process.stderr.write(`\r\u001b[K${text}`);
    else if (logs && share >= logged + 0.05) {
      logged = share;
      warn(text);
    }
  };
  show(0);
  const result = await runStudy(study, { kernels: new Kernels(), scale, seed, map, onProgress: show });
  if (onTerminal) process.stderr.write("\r\u001b[K");
  await writeFile(resultFile(out, study), resultText(result));
}

/**
 * Starts the last studies of the report first, as processes become free: the race of all estimators takes by far the longest and would otherwise run alone at
 * the end.
 */
async function runAside(studies: readonly Study[], flags: Flags): Promise<void> {
  const waiting = studies.toReversed();
  const running = new Set<ReturnType<typeof spawn>>();
  const named = new Set<string>();
  const release = cleanOnSignal(() => {
    for (const child of running) child.kill();
  });
  let done = 0;
  const onTerminal = process.stderr.isTTY === true;
  const show = (ended?: Study) => {
    const text = `${done} of ${studies.length} studies`;
    if (onTerminal) process.stderr.write(`\r\u001b[K${text}, ${[...named].join(" and ")} running`);
    else if (ended && flags.scale === "full") warn(`${text}: ${ended.name}`);
  };
  const next = async (): Promise<void> => {
    for (let study = waiting.shift(); study; study = waiting.shift()) {
      const child = spawn(process.execPath, [process.argv[1] ?? "", ...partArguments(study, flags)], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      running.add(child);
      named.add(study.name);
      show();
      let trouble = "";
      child.stderr?.on("data", (piece) => {
        trouble += piece;
      });
      const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
      running.delete(child);
      named.delete(study.name);
      const problem = trouble.trim().replace(/^hoptime: /, "");
      if (code === 2) throw new UsageError("bad-parameter", problem.split("\n")[0] ?? "");
      if (code !== 0) throw new Error(`${study.name} failed: ${problem}`);
      done++;
      show(study);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(flags.jobs, studies.length) }, next));
  } finally {
    for (const child of running) child.kill();
    release();
    if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
  }
}

function partArguments(study: Study, { out, scale, seed, map, again }: Flags): string[] {
  const own = [
    "reproduce",
    study.name,
    "--part",
    "--jobs",
    "1",
    "--out",
    out,
    "--scale",
    scale,
    "--seed",
    String(seed),
  ];
  return [...own, ...(map ? ["--map", map] : []), ...(again ? ["--again"] : [])];
}

/** Returns the command that makes the same report. */
function commandText(ids: readonly string[], { scale, seed, map }: Flags): string {
  const own = map === undefined ? "" : ` --map ${basename(map)}`;
  return `hoptime reproduce ${ids.join(" ") || "all"} --scale ${scale} --seed ${seed}${own}`;
}

/** Returns the results of one seed as one reproduction. */
function collected(studies: readonly Study[], flags: Flags): Reproduction {
  const { out, scale, seed } = flags;
  const findings = studies.flatMap((study) => {
    const result = readResult(out, study, flags);
    if (!result) throw new Error(`the result of ${study.name} is missing`);
    return result.findings;
  });
  return { format: "hoptime.reproduction/1", version: VERSION, scale, seed, findings };
}

async function report(ids: readonly string[], studies: readonly Study[], flags: Flags): Promise<void> {
  const { out } = flags;
  const reproduction = collected(studies, flags);
  const { findings } = reproduction;
  const command = commandText(ids, flags);
  makeFolder(join(out, "figures"));
  for (const { name, svg } of figureFiles(reproduction)) await writeFile(join(out, "figures", name), svg);
  await writeFile(join(out, "reproduction.json"), `${JSON.stringify(reproduction, null, 1)}\n`);
  await writeFile(
    join(out, "reproduction.md"),
    renderMarkdown(reproduction, { command, figures: "figures" }),
  );
  await writeFile(join(out, "index.html"), renderHtml(reproduction, command));
  if (flags.json) await printJson(reproduction);
  else
    await printText(
      `${findings.map(findingText).join("\n")}\n\n${join(out, "index.html")} has the figures.\n`,
    );
  for (const { finding, threshold } of allThresholds(reproduction))
    if (!isMet(threshold)) warn(`${finding.id}: not reached: ${thresholdText(threshold)}`);
}

function findingText({ id, where, title, claim, literal, ours, verdict, why }: Finding): string {
  const tone = {
    holds: colours.green,
    "holds for a class": colours.yellow,
    "does not hold": colours.red,
    measured: colours.bold,
  };
  return [
    `${colours.bold(id)}  ${title} (${where}): ${tone[verdict](verdict)}`,
    `  paper       ${claim}`,
    ...(literal === null ? [] : [`  as written  ${literal}`]),
    `  ours        ${ours}`,
    `  ${why}`,
  ].join("\n");
}
