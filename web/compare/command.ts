/** The command for the same report. */
import { DEFAULT_WISHES } from "./form.ts";
import type { Wishes } from "./messages.ts";

const quoted = (text: string) =>
  /^[\w./:@%+,=-]+$/.test(text) && !text.startsWith("-") ? text : `'${text.replaceAll("'", "'\\''")}'`;

export function commandLine(files: readonly string[], wishes: Wishes): string {
  const flags = (Object.keys(wishes) as (keyof Wishes)[]).flatMap((name) => {
    const value = wishes[name];
    if (value === DEFAULT_WISHES[name]) return [];
    return value === true ? [`--${name}`] : [`--${name}`, quoted(String(value))];
  });
  return ["hoptime", "compare", ...files.map(quoted), ...flags].join(" ");
}
