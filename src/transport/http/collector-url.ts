/** The address of a collector. On its own, so that commands which ask none load no HTTP. */
import { UsageError } from "../../base/errors.ts";

export interface Endpoint {
  /** http://HOST:PORT or https://HOST:PORT, perhaps with a path before /v1. */
  url: string;
  token?: string | undefined;
  /** PEM of the authority that the collector's certificate is checked by, where the system does not know it. */
  ca?: string | undefined;
  /** PEM of a client certificate and its key, for collectors that ask for one. */
  certificate?: string | undefined;
  key?: string | undefined;
}

/** Is it the address of a collector, not a directory? */
export function isCollectorUrl(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

export function parseCollectorUrl(text: string): URL {
  try {
    const url = new URL(text);
    const { protocol, username, password, search, hash } = url;
    if (/^https?:$/.test(protocol) && username + password + search + hash === "") return url;
  } catch {
    // Said below.
  }
  throw new UsageError("bad-option", `'${text}' is not the address of a collector`, "write http://HOST:PORT");
}
