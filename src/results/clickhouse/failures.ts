/** Turns ClickHouse errors into one line: what, where, what to do. */
import { UsageError } from "../../base/errors.ts";
import type { ClickhouseAddress } from "./http.ts";

/** Environment variable with the password: a command-line option would be visible to every user of the host. */
export const PASSWORD_VARIABLE = "HOPTIME_CLICKHOUSE_PASSWORD";

const NOT_KNOWN = new Set([192, 193, 194, 516]);
/** A table or the database was dropped. */
const DROPPED = new Set([60, 81]);
const NO_RIGHT = new Set([164, 291, 497]);
/** Temporary, or fixed by the server's operator: memory, parts, other nodes, disk, the keeper. */
const FOR_NOW = new Set([159, 202, 209, 210, 225, 241, 242, 243, 252, 279, 319, 394, 425, 439, 999]);

export function failureOf(address: ClickhouseAddress, text: string, status: number): Error {
  const code = Number(/Code: (\d+)/.exec(text)?.[1] ?? Number.NaN);
  const where = `ClickHouse at ${address.origin}`;
  if (NOT_KNOWN.has(code))
    return new UsageError(
      "bad-option",
      `${where}: wrong user or password (user '${address.user}')`,
      `the user is part of the URL (http://USER@HOST), the password is in ${PASSWORD_VARIABLE}`,
    );
  const said = firstLine(text);
  if (NO_RIGHT.has(code))
    return new UsageError("bad-option", `${where}: user '${address.user}' lacks a permission (${said})`);
  if (DROPPED.has(code))
    return new UsageError("store-away", `${where}: ${said}; start a collector to create what is missing`);
  if (FOR_NOW.has(code)) return new UsageError("store-away", `${where}: ${said}`);
  if (Number.isNaN(code)) {
    if (status >= 502 && status <= 504) return new UsageError("store-away", `${where}: status ${status}`);
    return notClickhouse(address, `status ${status}`);
  }
  return new Error(`${where}: ${said}`);
}

export function notClickhouse({ origin }: ClickhouseAddress, what: string): UsageError {
  const hint = "give the address of its HTTP interface, usually port 8123 (TLS: 8443)";
  return new UsageError("bad-option", `${origin} does not answer like ClickHouse (${what})`, hint);
}

function firstLine(text: string): string {
  const [line = ""] = text.split("\n");
  return line
    .replace(/, e\.what\(\) = .*$/, "")
    .replace(/e\.displayText\(\) = /, "")
    .replace(/\.?,? ?Stack trace.*$/, "")
    .slice(0, 300);
}
