/**
 * Decides which arguments are interfaces: `iface:eth1` always is; `eth1` is if there is an interface but no file of that name. So a file is never taken for an
 * interface, and a misspelt file is reported as such.
 */
import { existsSync, readFileSync } from "node:fs";
import { UsageError } from "../../../base/errors.ts";

const PREFIX = "iface:";
/** Lists the interfaces of this network namespace: the loopback, `eth0`, `br-lan.10`. */
const LIST = "/proc/net/dev";

/** Returns the interface that an argument names; null if it names none. */
export function interfaceOf(argument: string): string | null {
  if (argument.startsWith(PREFIX)) return argument.slice(PREFIX.length);
  if (argument === "-" || argument.includes("/") || existsSync(argument)) return null;
  return interfaceNames().includes(argument) ? argument : null;
}

/** Throws for a name that could be an interface but is neither a file nor an interface. */
export function refuseUnknown(argument: string): void {
  if (!/^[\w-]{1,15}$/.test(argument) || argument === "-" || existsSync(argument)) return;
  const hint = "give the path of a capture file, or an interface (ip -br link lists them)";
  throw new UsageError("no-such-file", `${argument}: no such file or interface`, hint, { value: argument });
}

export function interfaceNames(): string[] {
  let text: string;
  try {
    text = readFileSync(LIST, "utf8");
  } catch {
    return [];
  }
  // Two header lines, then `  eth0: 1234 …`. A name may itself contain a colon (aliases).
  return text
    .split("\n")
    .slice(2)
    .flatMap((line) => /^\s*(\S+):\s/.exec(line)?.[1] ?? []);
}
