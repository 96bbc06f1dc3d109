/** `hoptime estimators [NAME]`: lists the estimators; with NAME: what it answers, what it needs and costs, its parameters and an example. */
import { Command } from "commander";
import type { Estimator, ParameterSpec } from "../estimators/estimator.ts";
import { findAmong } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { formatTable } from "../present/text/table.ts";
import { typed } from "./options.ts";
import { printJson, printText } from "./output.ts";
import { colours } from "./terminal.ts";

export function estimatorsCommand(table: readonly Estimator[] = ESTIMATORS): Command {
  return new Command("estimators")
    .description(
      "Lists the estimators, or describes one: what it answers, needs and costs, and its parameters.",
    )
    .argument("[name]", "the estimator to describe")
    .option("--json", "print the description as JSON")
    .addHelpText(
      "after",
      `
Examples:
  hoptime estimators
  hoptime estimators ${table[0]?.name ?? ""}`,
    )
    .action(async (name: string | undefined, flags: { json?: boolean }) => {
      const chosen = name === undefined ? table : [findAmong(table, name)];
      if (flags.json) await printJson(name === undefined ? chosen.map(toJson) : chosen.map(toJson)[0]);
      else await printText(name === undefined ? list(chosen) : chosen.map(describe).join("\n"));
    });
}

function toJson({ name, title, answers, text, parameters }: Estimator) {
  return { name, title, answers, text, parameters };
}

function list(table: readonly Estimator[]): string {
  const rows = formatTable<Estimator>(
    [
      { title: "name", align: "left", value: (e) => e.name },
      { title: "answers for", align: "left", value: (e) => e.answers.join(", ") },
      { title: "", align: "left", value: (e) => e.title },
    ],
    table,
    { colours },
  );
  return `${rows}\n\nhoptime estimators NAME describes one of them and its parameters.\n`;
}

function describe({ name, title, text, parameters }: Estimator): string {
  const lines = [
    `${colours.bold(name)}  ${title}`,
    "",
    `${colours.bold("answers")}  ${text.answers}`,
    `${colours.bold("needs")}    ${text.needs}`,
    `${colours.bold("costs")}    ${text.cost}`,
    `${colours.bold("example")}  ${text.example}`,
    "",
  ];
  if (parameters.length === 0) return `${[...lines, "It has no parameters."].join("\n")}\n`;
  const asked = parameters.some((p) => p.queryOnly) ? "; those marked * may also be set in query" : "";
  lines.push(
    `parameters of ‘${name} NAME=VALUE,…’${asked}`,
    formatTable<ParameterSpec>(
      [
        { title: "name", align: "left", value: (p) => `${p.name}${p.queryOnly ? "*" : ""}` },
        { title: "default", align: "left", value: defaultOf },
        { title: "", align: "left", value: (p) => p.help },
      ],
      parameters,
      { colours },
    ),
  );
  return `${lines.join("\n")}\n`;
}

/** Formats a default as one would type it. */
function defaultOf(spec: ParameterSpec): string {
  if (spec.unit === "ns") return typed(Number(spec.default));
  return Array.isArray(spec.default) ? spec.default.join("/") || "–" : String(spec.default) || "–";
}
