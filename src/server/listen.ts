/** Where a collector listens. */
import { invalidValue } from "../base/errors.ts";

export const DEFAULT_LISTEN = "127.0.0.1:8787";

/** HOST:PORT, [HOST]:PORT; port 0: any that is free. */
export function parseListen(text: string): { host: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(text.trim());
  const port = Number(match?.[3] ?? Number.NaN);
  if (!match || !(port <= 65_535))
    throw invalidValue("listen", text, "HOST:PORT, e.g. 127.0.0.1:8787 or [::1]:8787");
  return { host: match[1] ?? (match[2] || "::"), port };
}
