/** `hoptime completion bash|zsh|fish`: prints a completion script, generated from the commands. */
import { Command } from "commander";
import { oneOf, UsageError } from "../base/errors.ts";
import { print } from "./output.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

export interface Completed {
  name: string;
  summary: string;
  command: Command;
}

export function completionCommand(load: () => Promise<Completed[]>): Command {
  return new Command("completion")
    .description("Prints a completion script for a shell.")
    .argument("<shell>", SHELLS.join(", "))
    .addHelpText(
      "after",
      `
Examples:
  bash   echo 'source <(hoptime completion bash)' >> ~/.bashrc
  zsh    hoptime completion zsh > "\${fpath[1]}/_hoptime"
  fish   hoptime completion fish > ~/.config/fish/completions/hoptime.fish`,
    )
    .action(async (shell: string) => {
      const writer = { bash, zsh, fish }[shell as (typeof SHELLS)[number]];
      if (!writer) {
        const expected = oneOf(SHELLS);
        throw new UsageError("bad-option", `invalid value '${shell}' (expected ${expected})`);
      }
      await print([writer(await load())]);
    });
}

interface Flag {
  long: string;
  takesValue: boolean;
  choices: readonly string[];
  description: string;
}

function flagsOf(command: Command): Flag[] {
  const own = command.options
    .filter((o) => o.long)
    .map((o) => ({
      long: o.long ?? "",
      takesValue: o.required || o.optional,
      choices: o.argChoices ?? [],
      description: o.description,
    }));
  return [...own, { long: "--help", takesValue: false, choices: [], description: "show help" }];
}

/** Returns a command and its subcommands with the words that lead to them; `size` has one subcommand per estimator. */
function* withNested({ name, command }: Completed): Generator<{ words: string[]; command: Command }> {
  yield { words: [name], command };
  for (const nested of command.commands) yield { words: [name, nested.name()], command: nested };
}

function bash(all: Completed[]): string {
  const cases = all.flatMap((completed) =>
    [...withNested(completed)].map(({ words, command }) => {
      const flags = flagsOf(command);
      const nested = command.commands.map((c) => c.name());
      const values = flags
        .filter((f) => f.choices.length > 0)
        .map(
          (f) => `      ${f.long}) COMPREPLY=($(compgen -W "${f.choices.join(" ")}" -- "$cur")); return ;;`,
        );
      const others = flags.filter((f) => f.takesValue && f.choices.length === 0).map((f) => f.long);
      return [
        `    "${words.join(" ")}")`,
        '      case "$prev" in',
        ...values,
        ...(others.length > 0
          ? [`      ${others.join("|")}) COMPREPLY=($(compgen -f -- "$cur")); return ;;`]
          : []),
        "      esac",
        `      words="${[...nested, ...flags.map((f) => f.long)].join(" ")}" ;;`,
      ].join("\n");
    }),
  );
  const nested = all.filter((c) => c.command.commands.length > 0);
  return `# bash completion of hoptime: source <(hoptime completion bash)
_hoptime() {
  local cur prev words path
  cur="\${COMP_WORDS[COMP_CWORD]}"
  prev="\${COMP_WORDS[COMP_CWORD-1]}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${all.map((c) => c.name).join(" ")} --help --version" -- "$cur"))
    return
  fi
  path="\${COMP_WORDS[1]}"
  if [ "$COMP_CWORD" -gt 2 ]; then
    case "$path \${COMP_WORDS[2]}" in
${nested.flatMap((c) => c.command.commands.map((n) => `    "${c.name} ${n.name()}") path="${c.name} ${n.name()}" ;;`)).join("\n")}
    esac
  fi
  case "$path" in
${cases.join("\n")}
    *) return ;;
  esac
  case "$cur" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "\${words//--*/}" -- "$cur") $(compgen -f -- "$cur")) ;;
  esac
}
complete -o filenames -F _hoptime hoptime
`;
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\\\''").replace(/[[\]:]/g, "\\\\$&")}'`;

function zsh(all: Completed[]): string {
  const blocks = all.flatMap((completed) =>
    [...withNested(completed)].map(({ words, command }) => {
      const specs = flagsOf(command).map((f) => {
        const value = f.takesValue
          ? f.choices.length > 0
            ? `:value:(${f.choices.join(" ")})`
            : ":value:_files"
          : "";
        return `      ${quoted(f.long).slice(0, -1)}[${quoted(f.description).slice(1, -1)}]${value}'`;
      });
      return `    "${words.join(" ")}")\n      _arguments \\\n${specs.join(" \\\n")} \\\n      '*:file:_files' ;;`;
    }),
  );
  const nested = all.flatMap((c) => c.command.commands.map((n) => `"${c.name} ${n.name()}"`));
  return `#compdef hoptime
# zsh completion of hoptime: hoptime completion zsh > "\${fpath[1]}/_hoptime"
_hoptime() {
  local -a commands
  commands=(
${all.map((c) => `    ${quoted(c.name).slice(0, -1)}:${quoted(c.summary).slice(1)}`).join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local path_words="$words[2]"
  ${nested.length > 0 ? `if (( CURRENT > 3 )); then\n    case "$words[2] $words[3]" in\n      ${nested.join("|")}) path_words="$words[2] $words[3]" ;;\n    esac\n  fi` : ""}
  case "$path_words" in
${blocks.join("\n")}
  esac
}
_hoptime "$@"
`;
}

function fish(all: Completed[]): string {
  const single = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines = [
    "# fish completion of hoptime: hoptime completion fish > ~/.config/fish/completions/hoptime.fish",
  ];
  for (const { name, summary, command } of all) {
    lines.push(`complete -c hoptime -n __fish_use_subcommand -f -a ${name} -d ${single(summary)}`);
    for (const nested of command.commands)
      lines.push(`complete -c hoptime -n '__fish_seen_subcommand_from ${name}' -f -a ${nested.name()}`);
    const flags = new Map([command, ...command.commands].flatMap(flagsOf).map((f) => [f.long, f]));
    for (const flag of flags.values()) {
      const value = flag.takesValue
        ? flag.choices.length > 0
          ? ` -x -a ${single(flag.choices.join(" "))}`
          : " -r"
        : "";
      lines.push(
        `complete -c hoptime -n '__fish_seen_subcommand_from ${name}' -l ${flag.long.slice(2)} -d ${single(flag.description)}${value}`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}
