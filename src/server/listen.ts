/** The address a collector listens on. */
import { invalidValue } from "../base/errors.ts";

export const DEFAULT_LISTEN = "127.0.0.1:8787";

/** Parses HOST:PORT or [HOST]:PORT. Port 0 means any free port. */
export function parseListen(text: string): { host: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(text.trim());
  const port = Number(match?.[3] ?? Number.NaN);
  if (!match || !(port <= 65_535))
    throw invalidValue("listen", text, "HOST:PORT, e.g. 127.0.0.1:8787 or [::1]:8787");
  return { host: match[1] ?? (match[2] || "::"), port };
}
