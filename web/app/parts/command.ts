/** The command line for the results that are shown. */

/** Quotes a text for a shell if necessary. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** The address of the collector for the command line. */
const collectorUrl = (): string => new URL(".", location.href.replace(/#.*/, "")).href.replace(/\/$/, "");

/**
 * Returns `hoptime query URL …`; flags without a value are left out. A value that begins with a dash is attached with =, otherwise it would be read as a flag.
 */
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

/** Returns ISO 8601 if it is exact, otherwise ns. */
export const timeWord = (ms: number): string =>
  Number.isInteger(ms) ? new Date(ms).toISOString() : `${BigInt(Math.round(ms * 1000)) * 1000n}`;

export const spanParts = ({ fromMs, toMs }: { fromMs: number; toMs: number }): [string, string][] => [
  ["--from", timeWord(fromMs)],
  ["--to", timeWord(toMs)],
];
