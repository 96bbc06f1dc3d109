#!/usr/bin/env node
/** The command line: finds and runs the command, and turns failures into one line and an exit code. A command is loaded only when it is used. */
import { existsSync } from "node:fs";
import type { Command } from "commander";
import { closest } from "../base/closest.ts";
import { FormatError, oneOf, UsageError } from "../base/errors.ts";
import { memoryError } from "../base/kernels.ts";
import { VERSION } from "../base/version.ts";
import { endProcess } from "./end.ts";
import { usageLine } from "./flags.ts";
import { endOutput, warn } from "./output.ts";
import { endedBySignal } from "./signals.ts";

interface Entry {
  name: string;
  summary: string;
  /** Gets the arguments, so that only the modules they need are loaded. */
  load: (args: readonly string[]) => Promise<Command>;
}

/** In the order in which a new user would meet them. */
const COMMANDS: readonly Entry[] = [
  {
    name: "demo",
    summary: "see it work: compare two captures that come with the program",
    load: async () => (await import("./demo.ts")).demoCommand(),
  },
  {
    name: "inspect",
    summary: "describe a capture: interfaces, time span, flows, timestamp precision",
    load: async () => (await import("./inspect.ts")).inspectCommand(),
  },
  {
    name: "compare",
    summary: "compare two captures: one-way delay, loss and reordering between them",
    load: async (args) => {
      await startReadingEarly(args);
      return (await import("./compare.ts")).compareCommand(args);
    },
  },
  {
    name: "page",
    summary: "serve a page that compares two captures in the browser",
    load: async () => (await import("./page.ts")).pageCommand(),
  },
  {
    name: "localise",
    summary: "find the hop that causes delay or loss, from captures at several points",
    load: async (args) => {
      await startReadingEarly(args);
      return (await import("./localise.ts")).localiseCommand();
    },
  },
  {
    name: "top",
    summary: "watch delay, loss and flows between two interfaces, every second",
    load: async () => (await import("./top.ts")).topCommand(),
  },
  {
    name: "observe",
    summary: "turn the packets of one point into records: kilobytes instead of packets",
    load: async () => (await import("./observe.ts")).observeCommand(),
  },
  {
    name: "query",
    summary: "report delay and loss between two points, from their records",
    load: async () => (await import("./query.ts")).queryCommand(),
  },
  {
    name: "collect",
    summary: "run a collector: records of many points over HTTP, questions, a web page",
    load: async () => {
      // Each record is synced to disk in one of Node's threads, which mostly wait, so the default of four is too few. Node reads this when it starts the first
      // thread.
      process.env["UV_THREADPOOL_SIZE"] ??= "32";
      return (await import("./collect.ts")).collectCommand();
    },
  },
  {
    name: "export",
    summary: "write the results of a collector as Parquet or CSV",
    load: async () => (await import("./export.ts")).exportCommand(),
  },
  {
    name: "token",
    summary: "create, list and revoke the tokens of a collector",
    load: async () => (await import("./token.ts")).tokenCommand(),
  },
  {
    name: "reference",
    summary: "send reference packets (STAMP) for RLI",
    load: async () => (await import("./reference.ts")).referenceCommand(),
  },
  {
    name: "estimators",
    summary: "list the estimators, or describe one and its parameters",
    load: async () => (await import("./estimators.ts")).estimatorsCommand(),
  },
  {
    name: "size",
    summary: "choose parameters of an estimator: memory, bandwidth, expected error",
    load: async () => (await import("./size.ts")).sizeCommand(),
  },
  {
    name: "simulate",
    summary: "write captures of a simulated network, with the true delays",
    load: async () => (await import("./simulate.ts")).simulateCommand(),
  },
  {
    name: "plan",
    summary: "choose the routers of a network to instrument first",
    load: async () => (await import("./plan.ts")).planCommand(),
  },
  {
    name: "evaluate",
    summary: "race all estimators on your own traffic, at equal memory",
    load: async () => (await import("./evaluate.ts")).evaluateCommand(),
  },
  {
    name: "reproduce",
    summary: "repeat the tables and figures of the papers",
    load: async () => (await import("./reproduce.ts")).reproduceCommand(),
  },
  {
    name: "completion",
    summary: "print a completion script for bash, zsh or fish",
    load: async () => (await import("./completion.ts")).completionCommand(everyCommand),
  },
];

/** Returns all commands with their options, for completion. */
async function everyCommand() {
  const { Command } = await import("commander");
  const others = COMMANDS.filter((c) => c.name !== "completion");
  const loaded = await Promise.all(
    others.map(async ({ name, summary, load }) => ({ name, summary, command: await load(["--help"]) })),
  );
  return [...loaded, { name: "completion", summary: "print a completion script", command: new Command() }];
}

/** Starts to read captures early if the first two arguments are captures; a thread that is not needed ends unused. */
async function startReadingEarly(args: readonly string[]): Promise<void> {
  const { startEarly, worthParallel } = await import("../match/feed-thread.ts");
  if (worthParallel(...args.slice(0, 2))) startEarly(leaveProcessorsAlone);
}

/**
 * Limits V8's background work. The work is done in kernels, and the code around them runs only a few thousand times. Optimising that code in background threads
 * costs more on two busy processors than it saves, so only code that runs far more often is optimised. Garbage is collected without helper threads, which would
 * have to wait for a processor. Call this after the threads have started: compiled start-up code (Node's own, and src/cli/load.ts) is valid only for the flags
 * it was compiled with.
 */
function leaveProcessorsAlone(): void {
  // The engine of Node 20; newer ones use other flags and would warn about these.
  if (!process.versions.v8.startsWith("11.")) return;
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  setFlagsFromString("--interrupt-budget=1000000");
  setFlagsFromString("--interrupt-budget-for-feedback-allocation=100");
  setFlagsFromString("--no-parallel-scavenge");
}

function usage(): string {
  const width = Math.max(...COMMANDS.map((c) => c.name.length));
  return [
    `hoptime ${VERSION}: one-way delay, loss and reordering between two points of a network`,
    "",
    "Usage: hoptime COMMAND [options]",
    "",
    "Commands:",
    ...COMMANDS.map((c) => `  ${c.name.padEnd(width)}  ${c.summary}`),
    "",
    "  hoptime COMMAND --help   options and examples of a command",
    "  hoptime --version",
    "",
    "Examples:",
    "  hoptime demo                              # start here",
    "  hoptime compare before.pcap after.pcap",
    "  hoptime compare before.pcap.gz after.pcap.gz --filter 'tcp port 443' --html report.html",
    "",
  ].join("\n");
}

/** Suggests the command that was probably meant. */
function unknownCommand(name: string, rest: readonly string[]): UsageError {
  const lists = "'hoptime --help' lists the commands";
  if (name.startsWith("-"))
    return new UsageError(
      "bad-option",
      `${name}: a command comes first`,
      `hoptime COMMAND ${name}; ${lists}`,
    );
  if (existsSync(name)) {
    const command = rest.length > 0 ? `compare ${name} ${rest[0]}` : `inspect ${name}`;
    return new UsageError("bad-option", `'${name}' is a file, not a command`, `hoptime ${command}`);
  }
  const names = COMMANDS.map((c) => c.name);
  const starts = names.filter((n) => n.startsWith(name));
  const near = starts.length > 0 ? starts : [closest(name, names)].filter((n) => n !== undefined);
  const meant = near.length > 0 ? `did you mean ${oneOf(near)}? ` : "";
  return new UsageError("bad-option", `there is no command '${name}'`, `${meant}${lists}`);
}

/** Prints one line and returns the exit code; the stack is printed only for bugs. */
function fail(failure: unknown): number {
  // Thrown by an operation that a signal aborted: not an error.
  const ended = endedBySignal();
  if (ended !== null && typeof failure === "string") return ended;
  const error = memoryError(failure) ?? failure;
  if (error instanceof UsageError || error instanceof FormatError) {
    const line = error instanceof UsageError ? usageLine(error) : error.message;
    warn(`hoptime: ${line}`);
    return 2;
  }
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === "EPIPE") return 0;
  // An error of the system, not a bug: disk full, no permission, too many open files, a failing disk.
  if (typeof code === "string" && syscall !== undefined) {
    warn(`hoptime: ${(error as Error).message}`);
    return 2;
  }
  warn(`hoptime: this is a bug: ${(error as Error)?.stack ?? String(error)}`);
  return 1;
}

/** Maximum width of help. */
const HELP_WIDTH = 100;

/** Shows choices and defaults in help as one would type them; commander quotes them. Errors are thrown, also those of subcommands. */
function plainHelp(command: Command): Command {
  for (const nested of command.commands) plainHelp(nested);
  command.exitOverride().configureOutput({
    // Commander's own messages are replaced by one line.
    writeErr: () => {},
    outputError: () => {},
    getOutHelpWidth: () => Math.min(process.stdout.columns ?? HELP_WIDTH, HELP_WIDTH),
  });
  return command.configureHelp({
    // Also wraps at 60 columns.
    minWidthToWrap: 24,
    optionDescription: ({ description, argChoices, defaultValue, defaultValueDescription }) => {
      const none = defaultValue === undefined || defaultValue === false || defaultValue === "";
      const shown = defaultValueDescription ?? (none ? undefined : defaultValue);
      const more = [
        ...(argChoices ? [`choices: ${argChoices.join(", ")}`] : []),
        ...(shown === undefined ? [] : [`default: ${shown}`]),
      ];
      return more.length > 0 ? `${description} (${more.join("; ")})` : description;
    },
  });
}

/** Standard output takes a while to initialise at its first use, so this is called after the thread that reads captures has started. */
function watchOutput(): void {
  process.stdout.on("error", endOutput);
}

async function main(argv: string[]): Promise<number> {
  const [name, ...rest] = argv;
  if (name === "--version" || name === "-V") {
    watchOutput();
    process.stdout.write(`${VERSION}\n`);
    return 0;
  }
  // `hoptime help compare` is `hoptime compare --help`.
  if (name === "help" && rest[0] !== undefined && !rest[0].startsWith("-"))
    return await main([rest[0], "--help"]);
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    watchOutput();
    process.stdout.write(usage());
    return 0;
  }
  const entry = COMMANDS.find((c) => c.name === name);
  if (!entry) throw unknownCommand(name, rest);
  const loaded = await entry.load(rest);
  watchOutput();
  const command = plainHelp(loaded.name(`hoptime ${name}`));
  try {
    await command.parseAsync(rest, { from: "user" });
  } catch (error) {
    const { code, message, exitCode } = error as { code?: string; message: string; exitCode?: number };
    // Commander shows help without being asked if a subcommand is missing.
    if (code === "commander.help" && exitCode !== 0) {
      const names = command.commands.map((c) => c.name());
      throw new UsageError(
        "bad-option",
        `a subcommand is missing (expected ${oneOf(names)})`,
        `hoptime ${name} --help shows them`,
      );
    }
    if (code === "commander.helpDisplayed" || code === "commander.help" || code === "commander.version")
      return 0;
    if (code?.startsWith("commander.")) {
      throw new UsageError(
        "bad-option",
        message
          .replace(/^error: /, "")
          .replace(/\.$/, "")
          .replace(/\s*\n\s*/g, " "),
        `hoptime ${name} --help shows the options`,
      );
    }
    throw error;
  }
  return typeof process.exitCode === "number" ? process.exitCode : 0;
}

main(process.argv.slice(2)).catch(fail).then(endProcess);
