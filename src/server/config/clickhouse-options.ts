/** Converts the `clickhouse:` settings to the options of the result store. */
import { invalidValue, UsageError } from "../../base/errors.ts";
import { readTextFile } from "../../base/text-file.ts";
import { PASSWORD_VARIABLE } from "../../results/clickhouse/failures.ts";
import { type ClickhouseOptions, ClickhouseStore } from "../../results/clickhouse/store.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { Retention } from "../retention.ts";
import type { Settings } from "./settings.ts";

const DEFAULT_DATABASE = "hoptime";

export interface ClickhousePlace {
  origin: string;
  user: string;
  database: string;
}

/** `http://USER@HOST:8123/DATABASE`; `https://` for TLS. */
export function readClickhouse(text: string, parameter = "clickhouse"): ClickhousePlace {
  const url = URL.canParse(text) ? new URL(text) : null;
  const expected = "http://HOST:8123 or https://USER@HOST:8443/DATABASE";
  const shown = text.replace(/\/\/[^/@]*@/, "//…@");
  if (url?.protocol !== "http:" && url?.protocol !== "https:") throw invalidValue(parameter, shown, expected);
  if (url.password !== "")
    throw new UsageError(
      "bad-parameter",
      "a password in a URL can be read by every user of this host",
      `put it into the variable ${PASSWORD_VARIABLE}, or into a file: passwordFile in the configuration`,
      { parameter },
    );
  const database = decodeURIComponent(url.pathname.slice(1)) || DEFAULT_DATABASE;
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(database) || url.search !== "" || url.hash !== "")
    throw invalidValue(parameter, shown, `${expected}; a database is named by letters, digits and _`);
  const port = url.port === "" ? (url.protocol === "http:" ? ":8123" : ":8443") : "";
  return { origin: `${url.origin}${port}`, user: decodeURIComponent(url.username) || "default", database };
}

/** Returns undefined if results are stored in the collector's own directory. */
export function clickhouseOptions(
  { clickhouse }: Settings,
  { rowsNs }: Retention,
  env: NodeJS.ProcessEnv = process.env,
): ClickhouseOptions | undefined {
  if (!clickhouse) return undefined;
  const { url, passwordFile, ca, cluster, replicated = false } = clickhouse;
  if (url === undefined)
    throw new UsageError("bad-option", "the address of ClickHouse is missing", "give ‘clickhouse URL’", {
      parameter: "clickhouse",
    });
  const seconds = (ns: bigint | undefined, days: number) =>
    ns === undefined ? 86_400 * days : Number(ns) / 1e9;
  return {
    ...readClickhouse(url),
    password:
      passwordFile === undefined
        ? (env[PASSWORD_VARIABLE] ?? "")
        : readTextFile("passwordFile", passwordFile).trim(),
    ...(ca === undefined ? {} : { ca: readTextFile("clickhouse-ca", ca) }),
    cluster: cluster === undefined ? null : { name: cluster, replicated },
    keepS: { 0: seconds(rowsNs?.[0], 7), 60: seconds(rowsNs?.[60], 90), 3600: seconds(rowsNs?.[3600], 1825) },
  };
}

/** Returns how the collector opens its results; undefined: in its own directory. */
export function resultsOpener(
  settings: Settings,
  kept: Retention,
): (() => Promise<ResultsStore>) | undefined {
  const options = clickhouseOptions(settings, kept);
  return options && (() => ClickhouseStore.open(options));
}
