/** `--estimators a,b` and `--NAME key=value,…` for every estimator of the table: the same in all commands that run estimators. */
import type { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import type { Estimator, ParameterSpec, ParameterValues } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS, findEstimator } from "../estimators/table.ts";

export function addEstimatorOptions(command: Command): Command {
  const names = ESTIMATORS.map((e) => e.name).join(", ");
  command.option("--estimators <names>", `estimators to run, joined with commas: ${names}`);
  for (const estimator of ESTIMATORS) {
    command.option(
      `--${estimator.name} <key=value,...>`,
      `parameters of ${estimator.name}: ${parameterNames(estimator)}`,
    );
  }
  return command;
}

/** The estimators asked for, with their parameters; empty where none were. */
export function readEstimatorOptions(flags: object): { estimator: Estimator; parameters: ParameterValues }[] {
  const given = flags as Record<string, string | undefined>;
  const names = new Set(
    (given["estimators"] ?? "")
      .split(",")
      .map((n) => n.trim())
      .filter((n) => n !== ""),
  );
  if (given["estimators"] !== undefined && names.size === 0) {
    throw new UsageError("bad-flag", "--estimators: none is named", ESTIMATORS.map((e) => e.name).join(", "));
  }
  for (const { name } of ESTIMATORS) {
    if (given[name] !== undefined && !names.has(name)) {
      throw new UsageError(
        "bad-flag",
        `--${name} is given, but ${name} is not run`,
        `add --estimators ${[...names, name].join(",")}`,
      );
    }
  }
  return [...names].map((name) => {
    const estimator = findEstimator(name);
    return { estimator, parameters: parseParameters(estimator, given[name]) };
  });
}

function parameterNames(estimator: Estimator): string {
  return estimator.parameters.map((p) => p.name).join(", ");
}

/** One line per parameter, for --help. */
export function describeParameters(estimator: Estimator): string {
  const width = Math.max(...estimator.parameters.map((p) => p.name.length));
  return estimator.parameters.map((p) => `  ${p.name.padEnd(width)}  ${p.help}${usual(p)}`).join("\n");
}

function usual(spec: ParameterSpec): string {
  const value = Array.isArray(spec.default) ? spec.default.join("/") : String(spec.default);
  const choices = spec.choices ? `${spec.choices.join("|")}, ` : "";
  return value === "" || value === "0"
    ? choices
      ? ` (${choices.slice(0, -2)})`
      : ""
    : ` (${choices}default ${value})`;
}
