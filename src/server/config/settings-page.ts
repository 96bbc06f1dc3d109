/** Generates docs/config.md from the schema: `hoptime collect --settings` prints it, and a test compares the two. */
import { type Setting, settingsOf } from "./settings.ts";

const HEAD = `# Settings of a collector: hoptime.yaml

\`hoptime collect --config hoptime.yaml\` reads its settings from a file; options on the command line override them. Add \`--check\` to check the file and exit: mistakes are reported with file, line and column. On SIGHUP the file
is read again. A file with a mistake changes nothing and is reported in the log; settings marked "restart" in the tables wait for one, and the log says so. Paths of files are relative to the folder of the configuration; times are
written \`250ms\`, \`30s\`, \`5m\`, \`2h\`, \`7d\`, sizes \`500MB\`, \`10GB\`.

This page is printed by \`hoptime collect --settings\`.

\`\`\`yaml
data: /var/lib/hoptime
listen: 127.0.0.1:8787
plan:
  estimators: [lda, lds]
  epoch: 1s
paths:
  - name: web
    points: [edge, core, server]
alerts:
  - name: slow
    when: mean > 20ms
    segment: edge:core
    for: 30s
    to: [ops]
  - name: blame
    when: incident
    to: [ops]
notify:
  - name: ops
    webhook: https://ops.example/hook
keep:
  records: 30d
  size: 100GB
\`\`\`
`;

export function settingsPage(): string {
  const groups = new Map<string, Setting[]>([["", []]]);
  for (const setting of settingsOf()) {
    const { keys, schema } = setting;
    const outer = keys.slice(0, -1).join(".").replaceAll(".[]", "[]");
    const known = groups.get(outer) ?? [];
    groups.set(outer, [...known, setting]);
    if (schema.properties || schema.items?.type === "object") groups.set(pathOf(setting), []);
  }
  const parts = [...groups].map(([path, settings]) => {
    const title = path === "" ? "The file" : `\`${path}\``;
    const about = path === "" ? "" : `\n${sentence(aboutOf(path))}\n`;
    return `\n## ${title}\n${about}\n${table(settings)}`;
  });
  return HEAD + parts.join("");
}

function aboutOf(path: string): string {
  for (const setting of settingsOf()) if (pathOf(setting) === path) return setting.schema.description ?? "";
  return "";
}

const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Formats the name of a setting; `alerts[]` stands for the entries of a list. */
function pathOf({ keys, schema }: Setting): string {
  return keys.join(".").replaceAll(".[]", "[]") + (schema.items?.type === "object" ? "[]" : "");
}

function table(settings: readonly Setting[]): string {
  const rows = settings.map(({ keys, schema }) => {
    const { description = "", default: value, reload } = schema;
    const cells = [
      `\`${keys.at(-1)}\``,
      typeOf(schema),
      value === undefined ? "" : `\`${String(value)}\``,
      reload === false ? "restart" : "reload",
      description,
    ];
    return cells.map((cell) => cell.replaceAll("|", "\\|"));
  });
  const head = ["setting", "value", "default", "change", "what it does"];
  const width = head.map((h, i) => Math.max(h.length, ...rows.map((r) => r[i]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((c, i) => c.padEnd(width[i] ?? 0)).join(" | ")} |`;
  return `${[line(head), line(width.map((w) => "-".repeat(w))), ...rows.map(line)].join("\n")}\n`;
}

const READS: Record<string, string> = {
  duration: "time",
  size: "size",
  segment: "segment",
  condition: "condition",
  file: "file",
  url: "URL",
  listen: "address",
  name: "path",
};

function typeOf(schema: Setting["schema"]): string {
  const { type, reads, items, anyOf } = schema;
  if (anyOf) return anyOf.map((a) => `\`${String(a.const)}\``).join(" or ");
  if (reads) return READS[reads] ?? reads;
  if (type === "array")
    return items?.type === "object" ? "list of settings" : `list of ${items?.reads ?? "names"}`;
  if (type === "boolean") return "true, false";
  if (type === "integer") return "whole number";
  if (type === "string") return "text";
  return type === "object" ? "settings" : (type ?? "");
}
