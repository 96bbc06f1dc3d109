/** The address of a collector. In its own file, so that commands that do not need it load no HTTP code. */
import { UsageError } from "../../base/errors.ts";

export interface Endpoint {
  /** http://HOST:PORT or https://HOST:PORT, optionally with a path before /v1. */
  url: string;
  token?: string | undefined;
  /** PEM of the authority that signed the collector's certificate, if the system does not know it. */
  ca?: string | undefined;
  /** PEM of a client certificate and its key, for collectors that require one. */
  certificate?: string | undefined;
  key?: string | undefined;
}

/** Returns whether the text is the address of a collector, not a directory. */
export function isCollectorUrl(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

export function parseCollectorUrl(text: string): URL {
  try {
    const url = new URL(text);
    const { protocol, username, password, search, hash } = url;
    if (/^https?:$/.test(protocol) && username + password + search + hash === "") return url;
  } catch {
    // Thrown below.
  }
  throw new UsageError("bad-option", `'${text}' is not the address of a collector`, "write http://HOST:PORT");
}
