/**
 * A connection to a NATS cluster. The client's packages are optional: they are loaded when an address is given, and not before. Errors are one line with what
 * to do.
 */
import type { JetStreamClient, JetStreamManager } from "@nats-io/jetstream";
import type { KV, KvOptions } from "@nats-io/kv";
import type { Authenticator, NatsConnection } from "@nats-io/transport-node";
import { UsageError } from "../../base/errors.ts";
import { type NatsEndpoint, parseNatsUrl } from "./nats-url.ts";
import { tlsRefusal } from "./tls-refusal.ts";

export interface NatsLink {
  /** For messages. */
  readonly url: string;
  readonly connection: NatsConnection;
  readonly packages: NatsPackages;
  readonly streams: JetStreamManager;
  readonly stream: JetStreamClient;
  bucket(name: string, options?: Partial<KvOptions>): Promise<KV>;
  close(): Promise<void>;
}

export type NatsPackages = Awaited<ReturnType<typeof loadNats>>;

export interface ConnectSettings {
  /** Client name in the servers' lists. */
  name: string;
  /** Timeout of one attempt to connect. */
  timeoutMs?: number;
}

const CONNECT_MS = 5000;
/** How long reachable servers may take to elect a leader. */
const ELECTION_MS = 30_000;

async function loadNats() {
  try {
    const [core, jetstream, kv] = await Promise.all([
      import("@nats-io/transport-node"),
      import("@nats-io/jetstream"),
      import("@nats-io/kv"),
    ]);
    return { core, jetstream, kv };
  } catch (cause) {
    throw new UsageError(
      "not-supported",
      "the packages of the NATS client are not installed",
      "npm install -g @nats-io/transport-node @nats-io/jetstream @nats-io/kv",
      { cause },
    );
  }
}

/** Throws a UsageError if no server answers, none accepts this client, or none has JetStream. Once connected, the client reconnects by itself. */
export async function connectNats(endpoint: NatsEndpoint, settings: ConnectSettings): Promise<NatsLink> {
  const address = parseNatsUrl(endpoint.url);
  const packages = await loadNats();
  const { core, jetstream, kv } = packages;
  const { ca, certificate, key } = endpoint;
  const withTls = address.tls || ca !== undefined || certificate !== undefined;
  const auth = authenticator(endpoint, packages);
  let connection: NatsConnection;
  try {
    connection = await core.connect({
      servers: address.servers,
      name: settings.name,
      timeout: settings.timeoutMs ?? CONNECT_MS,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 500,
      reconnectJitter: 500,
      ignoreAuthErrorAbort: true,
      pingInterval: 10_000,
      ...(auth ? { authenticator: auth } : {}),
      ...(withTls
        ? {
            tls: {
              ...(ca === undefined ? {} : { ca }),
              ...(certificate === undefined ? {} : { cert: certificate }),
              ...(key === undefined ? {} : { key }),
            },
          }
        : {}),
    });
  } catch (cause) {
    const why = /timeout/i.test((cause as Error).message) ? await tlsRefusal(endpoint) : null;
    if (why === null) throw refusal(address.shown, cause);
    throw new UsageError(
      "no-records",
      `${address.shown}: ${why}`,
      "give a certificate and its key that the servers' authority has signed",
      { cause },
    );
  }
  try {
    const options = { timeout: 10_000 };
    // A node of a cluster may leave JetStream to others.
    const { cluster, jetstream: hasJetStream = false } = connection.info ?? {};
    if (cluster === undefined && !hasJetStream) throw new Error("JetStream not enabled");
    const streams = await jetstream.jetstreamManager(connection, { ...options, checkAPI: false });
    await patiently(connection, () => streams.getAccountInfo());
    const stream = jetstream.jetstream(connection, options);
    const buckets = new kv.Kvm(stream);
    return {
      ...{ url: address.shown, connection, packages, streams, stream },
      bucket: (name, more) => buckets.create(name, more),
      close: () => connection.close(),
    };
  } catch (cause) {
    await connection.close();
    throw refusal(address.shown, cause);
  }
}

/** Retries while the servers of a cluster elect a leader: one was just killed, or all have just started. */
export async function patiently<T>(
  connection: NatsConnection,
  work: () => Promise<T>,
  limitMs = ELECTION_MS,
): Promise<T> {
  for (const untilMs = performance.now() + limitMs; ; ) {
    try {
      return await work();
    } catch (error) {
      const { name, message } = error as Error;
      const elects =
        connection.info?.cluster !== undefined &&
        (name === "NoRespondersError" ||
          /timeout|temporarily unavailable|no responders|no suitable peers|503/i.test(message));
      if (!elects || connection.isClosed() || performance.now() > untilMs) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

function authenticator(
  { url, token, credentials }: NatsEndpoint,
  { core }: NatsPackages,
): Authenticator | null {
  const { user, password } = parseNatsUrl(url);
  if (credentials !== undefined) return fromFile(credentials.trim(), core);
  if (user !== null && password !== null) return core.usernamePasswordAuthenticator(user, password);
  if (user !== null) return core.tokenAuthenticator(user);
  return token === undefined ? null : core.tokenAuthenticator(token);
}

function fromFile(text: string, core: NatsPackages["core"]): Authenticator {
  const jwt = /^-+BEGIN NATS USER JWT-+\s+([\w-]+\.[\w-]+\.[\w-]+)\s/m.exec(text)?.[1];
  const seed = /^\s*(SU[A-Z2-7]{56})\s*$/m.exec(text)?.[1];
  const key = new TextEncoder().encode(seed);
  if (jwt && seed) return core.jwtAuthenticator(jwt, key);
  if (seed && !text.includes("JWT")) return core.nkeyAuthenticator(key);
  const [, user, password] = /^([^:\s]+):(\S+)$/.exec(text) ?? [];
  if (user && password) return core.usernamePasswordAuthenticator(user, password);
  throw new UsageError(
    "bad-option",
    "the file of credentials has none that NATS knows",
    "expected a .creds file, the seed of an nkey (SU…), or USER:PASSWORD on one line",
  );
}

/** Translates a client error into one line. The code is `store-away` if it may pass by itself. */
export function refusal(url: string, cause: unknown): UsageError {
  if (cause instanceof UsageError) return cause;
  const error = cause as Error & { code?: unknown };
  const text = [error.message, (error.cause as Error | undefined)?.message ?? ""].join(" ");
  const line = (problem: string, hint?: string) =>
    new UsageError("no-records", `${url}: ${problem}`, hint, { cause });
  const away = (problem: string, hint?: string) =>
    new UsageError("store-away", `${url}: ${problem}`, hint, { cause });
  if (/authorization violation|authentication/i.test(text))
    return line(
      "the cluster does not let this client in",
      "check the user and password, the token, or the file of credentials",
    );
  if (/permissions? violation/i.test(text))
    return line(`not permitted (${error.message})`, "the user needs the subjects that docs/cluster.md lists");
  const hint = "start the servers with JetStream (-js); a cluster needs more than half of its nodes";
  if (/jetstream.*not enabled/i.test(text)) return line("JetStream does not answer", hint);
  if (/no responders|temporarily unavailable|503/i.test(text) || error.name === "NoRespondersError")
    return away("JetStream does not answer", hint);
  if (/maximum (bytes|messages)[^,]* exceeded|insufficient (storage|resources)|no space left/i.test(text))
    return away(
      `the stream HOPTIME is full (${firstLine(error.message)})`,
      "give it more room: nats stream edit HOPTIME --max-bytes SIZE",
    );
  if (/certificate|tls|ssl|self.signed/i.test(text))
    return line(
      `TLS failed (${error.message})`,
      "give the certificate authority that signed the servers' certificates",
    );
  if (/refused|enotfound|eai_again|etimedout|timeout|ehostunreach|econnreset|connection/i.test(text))
    return away(`no server answers (${firstLine(error.message)})`);
  return line(firstLine(error.message));
}

const firstLine = (text: string) => text.split("\n")[0] ?? text;
