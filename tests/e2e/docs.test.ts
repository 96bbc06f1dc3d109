/** Commands in the documents and in the help are valid, and links have targets. The README's outputs are checked in readme.test.ts. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { ROOT } from "../support/demo-captures.ts";

const load: Record<string, (args: readonly string[]) => Promise<Command>> = {
  collect: async () => (await import("../../src/cli/collect.ts")).collectCommand(),
  compare: async (args) => (await import("../../src/cli/compare.ts")).compareCommand(args),
  completion: async () => (await import("../../src/cli/completion.ts")).completionCommand(async () => []),
  demo: async () => (await import("../../src/cli/demo.ts")).demoCommand(),
  estimators: async () => (await import("../../src/cli/estimators.ts")).estimatorsCommand(),
  evaluate: async () => (await import("../../src/cli/evaluate.ts")).evaluateCommand(),
  export: async () => (await import("../../src/cli/export.ts")).exportCommand(),
  inspect: async () => (await import("../../src/cli/inspect.ts")).inspectCommand(),
  page: async () => (await import("../../src/cli/page.ts")).pageCommand(),
  localise: async () => (await import("../../src/cli/localise.ts")).localiseCommand(),
  observe: async () => (await import("../../src/cli/observe.ts")).observeCommand(),
  plan: async () => (await import("../../src/cli/plan.ts")).planCommand(),
  query: async () => (await import("../../src/cli/query.ts")).queryCommand(),
  reference: async () => (await import("../../src/cli/reference.ts")).referenceCommand(),
  reproduce: async () => (await import("../../src/cli/reproduce.ts")).reproduceCommand(),
  simulate: async () => (await import("../../src/cli/simulate.ts")).simulateCommand(),
  size: async () => (await import("../../src/cli/size.ts")).sizeCommand(),
  token: async () => (await import("../../src/cli/token.ts")).tokenCommand(),
  top: async () => (await import("../../src/cli/top.ts")).topCommand(),
};

const documents = [
  ...["README.md", "CONTRIBUTING.md", "examples/README.md"],
  ...readdirSync(join(ROOT, "docs"), { recursive: true })
    .map((name) => join("docs", String(name)))
    .filter((name) => name.endsWith(".md")),
];
const textOf = (name: string) => readFileSync(join(ROOT, name), "utf8");

/** Words as parsed by a shell, up to a comment, a pipe, a redirection or the next command. */
function shellWords(line: string): string[] {
  const words = line.matchAll(/'([^']*)'|"([^"]*)"|([|;&>]|<\(|\s#.*)|([^\s'"|;&>]+)/g);
  const out: string[] = [];
  for (const [, single, double, end, plain] of words) {
    if (end !== undefined) break;
    out.push(single ?? double ?? plain ?? "");
  }
  return out;
}

/** Commands on separate lines: in code blocks of a document, or below "Examples:" in a help text. */
function commandLines(text: string): string[] {
  const found = [...text.matchAll(/^\s*(?:\$ )?(?:\.\/)?hoptime ([a-z].*)$/gm)].map(([, line = ""]) => line);
  return found.filter((line) => !line.includes("--help") && !line.endsWith("."));
}

async function check(line: string): Promise<void> {
  const [name = "", ...words] = shellWords(line);
  const loaded = await load[name]?.(words);
  if (!loaded) throw new Error(`there is no command '${name}'`);
  let command = loaded;
  const nested = command.commands.find((c) => c.name() === words[0]);
  if (nested) {
    command = nested;
    words.shift();
  }
  for (const c of [loaded, command]) c.exitOverride().configureOutput({ writeErr: () => {} });
  // Options are parsed with their values; operands and unknown words remain.
  const { operands, unknown } = command.parseOptions(words.filter((w) => w !== "…"));
  expect(unknown).toEqual([]);
  const { registeredArguments: wanted } = command;
  expect(operands.length).toBeGreaterThanOrEqual(wanted.filter((a) => a.required).length);
  if (!wanted.at(-1)?.variadic) expect(operands.length).toBeLessThanOrEqual(wanted.length);
}

const fences = (text: string) => text.split(/^```\w*$/m).flatMap((part, i) => (i % 2 === 1 ? [part] : []));
const documented = documents.flatMap((name) =>
  commandLines(fences(textOf(name)).join("\n")).map((line) => [name, line] as const),
);

describe("documents", () => {
  it.each(documented)("%s: hoptime %s", (_, line) => check(line));

  it("show every command", () => {
    const shown = new Set(documented.map(([, line]) => shellWords(line)[0]));
    const mentioned = documents.map(textOf).join("\n");
    for (const name of Object.keys(load))
      expect(shown.has(name) || mentioned.includes(`hoptime ${name}`), name).toBe(true);
  });

  it.each(documents)("%s has no link that leads nowhere", (name) => {
    const text = textOf(name).replaceAll(/^```[\s\S]*?^```/gm, "");
    for (const [, target = ""] of text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      expect(existsSync(join(ROOT, dirname(name), target)), target).toBe(true);
    }
  });
});

describe("docs/library.md", () => {
  it("names functions that the package has", async () => {
    const library = await import("../../src/index.ts");
    const rows = textOf("docs/library.md").match(/^\| .* \|$/gm) ?? [];
    const calls = rows
      .map((row) => row.split("|")[2] ?? "")
      .flatMap((cell) => cell.match(/(?<=`)\w+(?=`)/g) ?? []);
    expect(calls.length).toBeGreaterThan(15);
    for (const name of calls) expect(library).toHaveProperty(name);
  });
});

describe("help", () => {
  it.each(Object.keys(load))("examples of hoptime %s are commands that it takes", async (name) => {
    const command = await load[name]?.(["--help"]);
    let text = "";
    for (const each of command ? [command, ...command.commands] : []) {
      each.configureOutput({ writeOut: (part) => (text += part) });
      each.outputHelp();
    }
    for (const line of commandLines(text.slice(text.indexOf("Examples:")))) await check(line);
  });
});
