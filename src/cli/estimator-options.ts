/** `--lda k=v,…`: one option per estimator of the table, for commands that run or query estimators. */
import { type Command, Option } from "commander";
import { invalidValue, UsageError } from "../base/errors.ts";
import type { Estimator, ParameterValues } from "../estimators/estimator.ts";
import { findAmong, parseParameters } from "../estimators/parameters.ts";

/** `queryOnly`: only parameters that a query may set. */
export function addEstimatorOptions(
  command: Command,
  table: readonly Estimator[],
  queryOnly = false,
): Command {
  for (const estimator of table) {
    const specs = estimator.parameters.filter((s) => !queryOnly || s.queryOnly);
    if (specs.length === 0) continue;
    const text = `parameters of ${estimator.name}: ${specs.map((s) => s.name).join(", ")}`;
    // One line for all parameters; each estimator has its own page (hoptime estimators NAME).
    command.addOption(new Option(`--${estimator.name} <k=v,...>`, text).hideHelp());
  }
  return command;
}

/** Returns whether the arguments ask for estimators or help, or contain an option that the command does not know without them. */
export function asksEstimators(command: Command, args: readonly string[]): boolean {
  return args.some((arg) => {
    if (!arg.startsWith("-") || arg === "-") return false;
    const [name] = arg.split("=", 1);
    return name === "--estimators" || !command.options.some((o) => o.long === name || o.short === name);
  });
}

/** Returns the given parameters by estimator. */
export function estimatorParameters(
  flags: Record<string, unknown>,
  table: readonly Estimator[],
): Record<string, string> {
  const out: Record<string, string> = {};
  for (const { name } of table) {
    const camel = name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
    const value = flags[camel];
    if (typeof value === "string") out[name] = value;
  }
  return out;
}

/** Returns the estimators given by --estimators with their parameters; empty without that option. */
export function chosenEstimators(
  flags: Record<string, unknown>,
  table: readonly Estimator[],
): { estimator: Estimator; parameters: ParameterValues; given: ReadonlySet<string> }[] {
  const text = flags["estimators"] as string | undefined;
  const names = text === undefined ? [] : [...new Set(splitNames("--estimators", text))];
  const given = estimatorParameters(flags, table);
  for (const name of Object.keys(given)) {
    if (names.includes(name)) continue;
    const hint = `add --estimators ${[...names, name].join(",")}`;
    throw new UsageError("bad-option", `--${name} is given, but ${name} is not run`, hint);
  }
  return names.map((name) => {
    const estimator = findAmong(table, name);
    const set = new Set((given[name] ?? "").split(",").map((part) => part.replace(/=.*/s, "").trim()));
    return { estimator, parameters: parseParameters(estimator, given[name]), given: set };
  });
}

/** Text for --help on where parameters are described. */
export const PARAMETER_HELP = `
Parameters of an estimator: --NAME KEY=VALUE,… as in --lda packets=1e6,loss=0.01
  hoptime estimators NAME   describes them
`;

export function splitNames(flag: string, text: string): string[] {
  const names = text
    .split(",")
    .map((n) => n.trim())
    .filter((n) => n !== "");
  if (names.length === 0) throw invalidValue(flag.replace(/^--/, ""), text, "names joined with commas");
  return names;
}
