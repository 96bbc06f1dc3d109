/** The address of a NATS cluster. In its own file, so that commands that do not need it load no client. */
import { UsageError } from "../../base/errors.ts";

export interface NatsEndpoint {
  /** nats://HOST:PORT[,HOST:PORT…], tls:// with TLS; USER:PASSWORD@ or TOKEN@ before one host applies to all. */
  url: string;
  token?: string | undefined;
  /** Content of a credentials file: a .creds file, the seed of an nkey, or USER:PASSWORD. */
  credentials?: string | undefined;
  /** PEM of the authority that signed the servers' certificates, if the system does not know it. */
  ca?: string | undefined;
  /** PEM of a client certificate and its key, for servers that require one. */
  certificate?: string | undefined;
  key?: string | undefined;
}

export interface NatsAddress {
  /** HOST:PORT. */
  servers: string[];
  tls: boolean;
  user: string | null;
  password: string | null;
  /** For messages: without secrets. */
  shown: string;
}

const DEFAULT_PORT = 4222;

export function isNatsUrl(text: string): boolean {
  return /^(nats|tls):\/\//i.test(text);
}

export function parseNatsUrl(text: string): NatsAddress {
  const scheme = /^(nats|tls):\/\//i.exec(text)?.[1]?.toLowerCase();
  const out: NatsAddress = { servers: [], tls: scheme === "tls", user: null, password: null, shown: "" };
  for (const part of text.split(",")) {
    const url = scheme === undefined ? null : urlOf(part.replace(/^(nats|tls):\/\//i, ""));
    if (!url || !["", "/"].includes(url.pathname) || url.search !== "" || url.hash !== "") throw wrong(text);
    out.servers.push(`${url.hostname}:${url.port || DEFAULT_PORT}`);
    if (url.username !== "") out.user ??= decodeURIComponent(url.username);
    if (url.password !== "") out.password ??= decodeURIComponent(url.password);
  }
  out.shown = `${scheme}://${out.servers.join(",")}`;
  return out;
}

/** With `http:` the URL class would remove that scheme's default port. */
function urlOf(rest: string): URL | null {
  if (rest === "") return null;
  try {
    const url = new URL(`nats://${rest}`);
    return url.hostname === "" ? null : url;
  } catch {
    return null;
  }
}

function wrong(text: string): UsageError {
  const shown = text.replace(/\/\/[^@,]*@/g, "//");
  return new UsageError(
    "bad-option",
    `'${shown}' is not the address of a NATS cluster`,
    "write nats://HOST:4222[,HOST:4222]",
  );
}
