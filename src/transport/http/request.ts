/** An HTTP exchange with a collector: with limits of time and size, over a kept connection. */
import { Agent, type IncomingMessage, request as plainRequest } from "node:http";
import { Agent as SecureAgent, request as secureRequest } from "node:https";
import { type Endpoint, parseCollectorUrl } from "./collector-url.ts";

export interface Exchange {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Relative to the endpoint: /v1/records. */
  path: string;
  headers?: Record<string, string>;
  body?: Uint8Array | string | undefined;
  timeoutMs?: number;
  /** Maximum size of the answer. */
  maxBytes?: number;
  signal?: AbortSignal | undefined;
}

export interface Reply {
  status: number;
  headers: IncomingMessage["headers"];
  body: Buffer;
}

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_MAX_BYTES = 256 << 20;

export class HttpClient {
  readonly #endpoint: Endpoint;
  readonly #base: URL;
  readonly #agent: Agent | SecureAgent;

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
    this.#base = parseCollectorUrl(endpoint.url);
    const { ca, certificate, key } = endpoint;
    this.#agent =
      this.#base.protocol === "https:"
        ? new SecureAgent({
            keepAlive: true,
            ...(ca === undefined ? {} : { ca }),
            ...(certificate === undefined ? {} : { cert: certificate }),
            ...(key === undefined ? {} : { key }),
          })
        : new Agent({ keepAlive: true });
  }

  get url(): string {
    return this.#base.href.replace(/\/$/, "");
  }

  /** Rejects if there is no complete answer: no connection, too slow, too long. */
  send(exchange: Exchange): Promise<Reply> {
    const { method, path, body, timeoutMs = DEFAULT_TIMEOUT_MS, maxBytes = DEFAULT_MAX_BYTES } = exchange;
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const start = this.#base.protocol === "https:" ? secureRequest : plainRequest;
    const limit = AbortSignal.timeout(timeoutMs);
    const signal = exchange.signal ? AbortSignal.any([limit, exchange.signal]) : limit;
    return new Promise((resolve, reject) => {
      const request = start(
        `${this.url}${path}`,
        {
          method,
          agent: this.#agent,
          signal,
          headers: {
            accept: "application/json",
            ...(this.#endpoint.token === undefined
              ? {}
              : { authorization: `Bearer ${this.#endpoint.token}` }),
            ...(bytes ? { "content-length": String(bytes.length) } : {}),
            ...exchange.headers,
          },
        },
        (response) => {
          readWhole(response, maxBytes).then(
            (read) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: read }),
            reject,
          );
        },
      );
      request.once("error", (error) =>
        reject(limit.aborted ? new Error(`no answer within ${timeoutMs} ms`) : error),
      );
      request.end(bytes);
    });
  }

  /** Returns a continuous answer, piece by piece, until the signal. Rejects if it does not begin. */
  stream(path: string, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> {
    const start = this.#base.protocol === "https:" ? secureRequest : plainRequest;
    const { token } = this.#endpoint;
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
    return new Promise((resolve, reject) => {
      const options = { agent: this.#agent, signal, headers: { ...authorization, ...headers } };
      start(`${this.url}${path}`, options, resolve).once("error", reject).end();
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

async function readWhole(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > maxBytes) {
      response.destroy();
      throw new Error(`an answer of more than ${maxBytes} bytes`);
    }
    parts.push(part);
  }
  if (!response.complete) throw new Error("the answer was cut");
  return Buffer.concat(parts);
}
