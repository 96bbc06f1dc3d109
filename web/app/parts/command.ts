/** What is shown, as the command that gives the same. */

/** For a shell: quoted where it is not plain. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** The collector as the command line names it. */
const collectorUrl = (): string => new URL(".", location.href.replace(/#.*/, "")).href.replace(/\/$/, "");

/** `hoptime query URL …`; flags without a value are left out with it. A value that begins with a dash would be read as a flag. */
export function queryCommand(
  ...parts: readonly (readonly [flag: string, ...values: (string | null)[]])[]
): string {
  const words = parts.flatMap(([flag, ...values]) => {
    const given = values.filter((v) => v !== null && v !== "") as string[];
    if (given.length === 0) return [];
    return given.length === 1 && given[0]?.startsWith("-") ? [`${flag}=${given[0]}`] : [flag, ...given];
  });
  return ["hoptime", "query", collectorUrl(), ...words].map(shellWord).join(" ");
}

/** ISO 8601 where that is exact, else nanoseconds. */
export const timeWord = (ms: number): string =>
  Number.isInteger(ms) ? new Date(ms).toISOString() : `${BigInt(Math.round(ms * 1000)) * 1000n}`;

export const spanParts = ({ fromMs, toMs }: { fromMs: number; toMs: number }): [string, string][] => [
  ["--from", timeWord(fromMs)],
  ["--to", timeWord(toMs)],
];
