/** `--lda k=v,…`: one option per estimator of the table, for the commands that run or ask estimators. */
import { type Command, Option } from "commander";
import { UsageError } from "../base/errors.ts";
import type { Estimator, ParameterSpec } from "../estimators/estimator.ts";

/** `queryOnly`: only parameters that a question may set. */
export function addEstimatorOptions(
  command: Command,
  table: readonly Estimator[],
  queryOnly = false,
): Command {
  for (const estimator of table) {
    const specs = estimator.parameters.filter((s) => !queryOnly || s.queryOnly);
    if (specs.length === 0) continue;
    const text = `${estimator.title}: ${specs.map((s) => s.name).join(", ")}`;
    command.addOption(new Option(`--${estimator.name} <k=v,...>`, text));
  }
  return command;
}

/** What was given, by estimator. */
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

/** For --help: every parameter with its default. */
export function parameterHelp(table: readonly Estimator[], queryOnly = false): string {
  const lines: string[] = [];
  for (const estimator of table) {
    const specs = estimator.parameters.filter((s) => !queryOnly || s.queryOnly);
    if (specs.length === 0) continue;
    lines.push(`  --${estimator.name}`);
    for (const spec of specs) lines.push(`      ${`${spec.name}=${shown(spec)}`.padEnd(28)} ${spec.help}`);
  }
  return lines.length === 0 ? "" : `\nParameters, with their defaults:\n${lines.join("\n")}\n`;
}

function shown(spec: ParameterSpec): string {
  return Array.isArray(spec.default) ? spec.default.join("/") : String(spec.default);
}

export function splitNames(flag: string, text: string): string[] {
  const names = text
    .split(",")
    .map((n) => n.trim())
    .filter((n) => n !== "");
  if (names.length === 0) throw new UsageError("bad-flag", `${flag} ${text}: names nothing`);
  return names;
}
