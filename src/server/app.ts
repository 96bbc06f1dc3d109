/**
 * The HTTP server: access control, limits and error handling around the routes (route.ts). A body is read only after the client has been admitted,
 * and the bodies being read at the same time are bounded.
 */

import { X509Certificate } from "node:crypto";
import { Readable } from "node:stream";
import { createSecureContext } from "node:tls";
import { promisify } from "node:util";
import * as zlib from "node:zlib";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { UsageError } from "../base/errors.ts";
import { checkedValue } from "../base/schema.ts";
import { addSecurityHeaders, admit, type Client } from "./access.ts";
import { AskedError } from "./asker.ts";
import type { ClientLimits } from "./limits.ts";
import { HttpError, problemOf } from "./problem.ts";
import { type Route, type RouteOutput, readQuery } from "./routes/route.ts";
import type { TokenStore } from "./tokens.ts";
import { MAX_MESSAGE_BYTES } from "./wire.ts";

export interface TlsFiles {
  /** PEM. */
  certificate: string;
  key: string;
  /** PEM. If set, clients must present a certificate signed by this authority. */
  clientCa?: string | undefined;
}

export interface AppOptions {
  routes: readonly Route[];
  tokens: TokenStore;
  /** The collector listens on loopback only. */
  loopback: boolean;
  tls?: TlsFiles | undefined;
  limits: ClientLimits;
  /** Called with one line about an internal error. */
  onError: (text: string) => void;
  /** Called for each request when it has been answered. */
  onRequest?: (route: string, status: number, ms: number) => void;
}

const MAX_JSON_BYTES = 4 << 20;
/** Upper bound on all bodies being read at the same time; further requests get 503. */
const MAX_READING_BYTES = 512 << 20;
const MAX_CONNECTIONS = 2000;
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const KEEP_ALIVE_MS = 75_000;

interface Reading {
  client: Client;
  bytes: number;
}

const gunzip = promisify(zlib.gunzip);
type Zstd = (
  bytes: Uint8Array,
  options: { maxOutputLength: number },
  done: (e: Error | null, out: Buffer) => void,
) => void;
/** Only newer Node versions have zstd. */
const zstd = (zlib as { zstdDecompress?: Zstd }).zstdDecompress;

export function createApp(options: AppOptions): FastifyInstance {
  const app = fastify({
    bodyLimit: MAX_JSON_BYTES,
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionTimeout: 0,
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: 200 },
    ...(options.tls ? { https: tlsOptions(options.tls) } : {}),
  }) as unknown as FastifyInstance;
  app.server.headersTimeout = HEADERS_MS;
  app.server.maxConnections = MAX_CONNECTIONS;
  // Routes that take binary bodies: same limits, no parsing.
  app.removeContentTypeParser("text/plain");
  for (const type of new Set(options.routes.flatMap((r) => r.bodyType ?? [])))
    app.addContentTypeParser(type, { parseAs: "buffer", bodyLimit: MAX_MESSAGE_BYTES }, (_, body, done) =>
      done(null, body),
    );
  const { limits } = options;
  const reading = new Map<FastifyRequest, Reading>();
  app.addHook("onRequest", async (_, reply) => addSecurityHeaders(reply, options.tls !== undefined));
  app.addHook("onResponse", async (request, reply) => {
    reading.delete(request);
    options.onRequest?.(request.routeOptions.url ?? "unknown", reply.statusCode, reply.elapsedTime);
  });
  app.addHook("onRequestAbort", async (request) => {
    reading.delete(request);
  });
  app.setErrorHandler((error, _, reply) => sendError(reply, error, options.onError));
  app.setNotFoundHandler((_, reply) => {
    void reply.code(404).send({ error: "not-found", message: "no such page; /docs lists the API" });
  });
  for (const route of options.routes) addRoute(app, route, options, limits, reading);
  return app;
}

/** Throws UsageError if the files cannot be used for TLS. */
export function checkTls({ certificate, key, clientCa }: TlsFiles): void {
  const parts: [parameter: string, what: string, look: () => unknown][] = [
    ["tls-cert", "no certificate in PEM", () => new X509Certificate(certificate)],
    ["tls-key", "no private key in PEM, or one with a passphrase", () => createSecureContext({ key })],
    ["tls-key", "does not belong to the certificate", () => createSecureContext({ cert: certificate, key })],
  ];
  // Node silently ignores an unreadable CA certificate, so it is checked here.
  if (clientCa !== undefined)
    parts.push(["client-ca", "no certificate in PEM", () => new X509Certificate(clientCa)]);
  for (const [parameter, what, look] of parts)
    try {
      look();
    } catch (cause) {
      throw new UsageError("bad-option", what, undefined, { parameter, cause });
    }
}

export function tlsOptions({ certificate, key, clientCa }: TlsFiles) {
  const mutual = clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true };
  return { cert: certificate, key, minVersion: "TLSv1.2" as const, ...mutual };
}

function addRoute(
  app: FastifyInstance,
  route: Route,
  { tokens, loopback }: AppOptions,
  limits: ClientLimits,
  reading: Map<FastifyRequest, Reading>,
): void {
  app.route({
    method: route.method,
    url: route.path,
    // This limit applies to every content type; the limit for the actual type is checked in announcedBytes.
    bodyLimit: route.bodyType === undefined ? (route.maxJsonBytes ?? MAX_JSON_BYTES) : MAX_MESSAGE_BYTES,
    // Runs before the body is read.
    onRequest: async (request) => {
      const client = admit(request, route.needs, tokens, loopback);
      const bytes = announcedBytes(request, route);
      if (route.needs !== "none") limits.take(client.name, bytes);
      let total = bytes;
      for (const other of reading.values()) total += other.bytes;
      if (total > MAX_READING_BYTES)
        throw new HttpError(503, "busy", "too much is being sent at once: try again later", 1);
      reading.set(request, { client, bytes });
    },
    handler: async (request, reply) => {
      const gone = new AbortController();
      request.raw.once("close", () => {
        if (!reply.raw.writableEnded) gone.abort();
      });
      const client = reading.get(request)?.client ?? { name: "?", points: [] };
      const query = readQuery(route.query, request.query);
      const body = await readBody(request, route);
      const { headers } = request;
      return send(reply, await route.handle({ client, query, body, headers, signal: gone.signal }), gone);
    },
  });
}

/** Returns the declared body length. It is required, so that the total can be bounded before any body is read. */
function announcedBytes({ method, headers }: FastifyRequest, route: Route): number {
  if (method === "GET" || method === "DELETE") return 0;
  const declared = headers["content-length"];
  if (declared === undefined) throw new HttpError(411, "no-length", "the content-length is missing");
  const bytes = Number(declared);
  const limit = takesBytes(route, headers) ? MAX_MESSAGE_BYTES : (route.maxJsonBytes ?? MAX_JSON_BYTES);
  if (!(bytes <= limit))
    throw new HttpError(413, "too-large", `a body of ${declared} bytes (expected at most ${limit})`);
  return bytes;
}

/** If a route takes both JSON and bytes, the content type decides. */
function takesBytes({ bodyType, body }: Route, headers: FastifyRequest["headers"]): boolean {
  return bodyType !== undefined && (body === undefined || typeOf(headers) === bodyType);
}

function typeOf(headers: FastifyRequest["headers"]): string | undefined {
  return headers["content-type"]?.split(";")[0]?.trim();
}

async function readBody(request: FastifyRequest, route: Route): Promise<unknown> {
  if (takesBytes(route, request.headers)) {
    if (typeOf(request.headers) !== route.bodyType)
      throw new HttpError(415, "wrong-type", `the body must be of type ${route.bodyType}`);
    return await unpacked(request.body as Buffer | undefined, request.headers["content-encoding"]);
  }
  if (!route.body) return null;
  return checkedValue(route.body, request.body, { source: "body", code: "bad-question" });
}

async function unpacked(body: Buffer | undefined, encoding: string | undefined): Promise<Uint8Array> {
  if (!body) return new Uint8Array(0);
  const maxOutputLength = MAX_MESSAGE_BYTES;
  try {
    if (encoding === undefined || encoding === "identity") return body;
    if (encoding === "gzip") return await gunzip(body, { maxOutputLength });
    if (encoding === "zstd" && zstd) return await promisify(zstd)(body, { maxOutputLength });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      throw new HttpError(413, "too-large", `the message unpacks to more than ${maxOutputLength} bytes`);
    throw new HttpError(400, "bad-encoding", `the message cannot be unpacked as ${encoding}`);
  }
  throw new HttpError(
    415,
    "wrong-encoding",
    `encoding '${encoding.slice(0, 40)}' is not known (expected gzip${zstd ? " or zstd" : ""})`,
  );
}

function send(reply: FastifyReply, output: RouteOutput, gone: AbortController): FastifyReply {
  reply.header("cache-control", "no-store");
  if ("stream" in output) {
    const stream = Readable.from(output.stream);
    gone.signal.addEventListener("abort", () => stream.destroy());
    return reply.type(output.type).send(stream);
  }
  if ("jsonText" in output) return reply.type("application/json; charset=utf-8").send(output.jsonText);
  if ("json" in output) return reply.send(output.json);
  if (output.headers) reply.headers(output.headers);
  return reply.type(output.type).send(output.body);
}

function sendError(reply: FastifyReply, error: unknown, onError: (text: string) => void): void {
  const { status, problem } = error instanceof AskedError ? error : problemOf(error);
  if (status === 500 && !(error instanceof AskedError)) onError((error as Error).stack ?? String(error));
  if (status === 503) onError((error as Error).message);
  if (error instanceof HttpError && error.retryAfterS !== undefined)
    reply.header("retry-after", String(error.retryAfterS));
  if (status === 401) reply.header("www-authenticate", "Bearer");
  // The rest of the body stays unread, so the connection cannot be reused.
  if (status === 413 || status === 411) reply.header("connection", "close");
  void reply.code(status).type("application/json; charset=utf-8").send(JSON.stringify(problem));
}
