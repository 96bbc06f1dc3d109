/**
 * ClickHouse over HTTP, as every version since 2018 takes it: questions answered as JSON, rows written as RowBinary, which is exact. No package: this is all that is needed of one.
 *
 * A connection that fails is tried again: reading at once and once more, writing for a few seconds, because a row written twice counts once. After that the failure is a UsageError of code
 * `store-away`: the caller keeps what it has, and comes again.
 */
import {
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../../base/errors.ts";
import type { ReadRows, Value } from "../dialect.ts";
import { failureOf, notClickhouse } from "./failures.ts";

export interface ClickhouseAddress {
  /** http(s)://HOST:PORT */
  origin: string;
  database: string;
  user: string;
  password: string;
  /** Authorities that its certificate may be of, PEM; the system's where there is none. */
  ca?: string | undefined;
}

type Settings = Record<string, string | number>;

const MAX_SOCKETS = 8;
const READ_MS = 60_000;
const WRITE_MS = 60_000;
/** How long writing is tried while the server cannot be reached. */
const RETRY_MS = 4000;
const SETTINGS: Settings = {
  output_format_json_quote_64bit_integers: 1,
  output_format_json_quote_denormals: 1,
  wait_end_of_query: 1,
  max_query_size: 64_000_000,
  join_use_nulls: 0,
};

export class ClickhouseHttp {
  readonly address: ClickhouseAddress;
  readonly #agent: HttpAgent | HttpsAgent;
  #settings: Settings = SETTINGS;
  readonly #closing = new AbortController();

  constructor(address: ClickhouseAddress) {
    this.address = address;
    const options = { keepAlive: true, maxSockets: MAX_SOCKETS };
    this.#agent = this.#isTls
      ? new HttpsAgent({ ...options, ...(address.ca === undefined ? {} : { ca: address.ca }) })
      : new HttpAgent(options);
  }

  get #isTls(): boolean {
    return this.address.origin.startsWith("https:");
  }

  /** Settings of every statement from now on. */
  set(settings: Settings): void {
    this.#settings = { ...this.#settings, ...settings };
  }

  readonly all: ReadRows = async (sql, values = []) => {
    const text = `${withValues(sql, values)} FORMAT JSONCompact`;
    const answer = await this.#tried(() => this.#send({ body: text }, READ_MS), 0);
    return rowsIn(this.address, answer);
  };

  /** A question to the server, whichever databases it has. */
  async onServer(sql: string): Promise<Value[][]> {
    const body = `${sql} FORMAT JSONCompact`;
    return rowsIn(this.address, await this.#tried(() => this.#send({ body, database: null }, READ_MS), 0));
  }

  /** A statement without an answer. `database` null: of the server, not of the database. */
  async run(sql: string, values: readonly Value[] = [], database?: null): Promise<void> {
    const body = withValues(sql, values);
    await this.#tried(
      () => this.#send({ body, ...(database === null ? { database } : {}) }, WRITE_MS),
      RETRY_MS,
    );
  }

  /** Rows of a table, in RowBinary. */
  async insert(table: string, columns: readonly string[], rows: Uint8Array): Promise<void> {
    const statement = `INSERT INTO ${table} (${columns.join(", ")}) FORMAT RowBinary`;
    await this.#tried(() => this.#send({ statement, body: rows }, WRITE_MS), RETRY_MS);
  }

  close(): void {
    this.#closing.abort();
    this.#agent.destroy();
  }

  async #tried(send: () => Promise<string>, retryMs: number): Promise<string> {
    const untilMs = performance.now() + retryMs;
    for (let pauseMs = 50, attempt = 0; ; pauseMs = Math.min(1000, 2 * pauseMs), attempt++) {
      try {
        return await send();
      } catch (error) {
        const isAway = error instanceof UsageError && error.code === "store-away";
        const isOver = attempt > 0 && performance.now() + pauseMs > untilMs;
        if (!isAway || isOver || this.#closing.signal.aborted) throw error;
      }
      await sleep(pauseMs);
    }
  }

  async #send(
    {
      statement,
      body,
      database = this.address.database,
    }: { statement?: string; body: string | Uint8Array; database?: string | null },
    limitMs: number,
  ): Promise<string> {
    const query = new URLSearchParams();
    if (database !== null) query.set("database", database);
    for (const [name, value] of Object.entries(this.#settings)) query.set(name, `${value}`);
    if (statement !== undefined) query.set("query", statement);
    const { origin, user, password } = this.address;
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    const options: RequestOptions = {
      method: "POST",
      agent: this.#agent,
      headers: {
        "X-ClickHouse-User": headerText(user),
        "X-ClickHouse-Key": headerText(password),
        "Content-Length": bytes.length,
        "Content-Type": "application/octet-stream",
      },
    };
    const url = new URL(`${origin}/?${query}`);
    try {
      const { status, text } = await exchange(
        this.#isTls ? httpsRequest : httpRequest,
        url,
        options,
        bytes,
        limitMs,
      );
      if (status !== 200) throw failureOf(this.address, text, status);
      return text;
    } catch (cause) {
      if (cause instanceof UsageError || !isOfNetwork(cause)) throw cause;
      if (NOT_HTTP.test(cause.code ?? "")) throw notClickhouse(this.address, "no HTTP");
      throw away(this.address, cause);
    }
  }
}

function isOfNetwork(error: unknown): error is NodeJS.ErrnoException {
  return typeof (error as NodeJS.ErrnoException).code === "string";
}

/** UTF-8, as the server reads it; a header takes one byte per character. */
const headerText = (text: string) => Buffer.from(text).toString("latin1");

const UNTRUSTED = /CERT|SIGNATURE|ALTNAME/;
/** Of Node's HTTP parser. An answer that ends too early is a server that dies. */
const NOT_HTTP = /^HPE_(?!INVALID_EOF)/;
const NOT_TLS = /wrong version number|packet length/i;

/** Whether TLS fails, which does not pass by itself. */
export function isTlsFault({ cause }: UsageError): boolean {
  const { code = "", message = "" } = (cause ?? {}) as NodeJS.ErrnoException;
  return UNTRUSTED.test(code) || (code === "EPROTO" && NOT_TLS.test(message));
}

function away({ origin }: ClickhouseAddress, cause: NodeJS.ErrnoException): UsageError {
  const { code = "" } = cause;
  const line = (what: string, hint: string) =>
    new UsageError("store-away", `ClickHouse at ${origin}${what}`, hint, { cause });
  if (UNTRUSTED.test(code))
    return line(
      `: its certificate is not trusted (${cause.message})`,
      "give the authority that signed it: ‘clickhouse-ca’",
    );
  if (code === "EPROTO" && NOT_TLS.test(cause.message))
    return line(" does not speak TLS", "write http://, or give its HTTPS port, usually 8443");
  const what =
    cause.code === "ECONNREFUSED"
      ? " refuses the connection"
      : ` cannot be reached (${cause.message || cause.code})`;
  const isCut = code === "ECONNRESET" && origin.startsWith("http:");
  return line(what, isCut ? "is it running? Write https:// where it speaks TLS" : "is it running?");
}

function exchange(
  request: typeof httpRequest,
  url: URL,
  options: RequestOptions,
  body: Uint8Array,
  limitMs: number,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (response: IncomingMessage) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("aborted", () => reject(networkError("ECONNRESET", "the connection ended in the middle")));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }),
      );
    });
    sent.setTimeout(limitMs, () =>
      sent.destroy(networkError("ETIMEDOUT", `no answer in ${limitMs / 1000} s`)),
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

function networkError(code: string, message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code });
}

const DENORMAL = new Map([
  ["inf", Number.POSITIVE_INFINITY],
  ["+inf", Number.POSITIVE_INFINITY],
  ["-inf", Number.NEGATIVE_INFINITY],
  ["nan", Number.NaN],
  ["-nan", Number.NaN],
]);

function rowsIn(address: ClickhouseAddress, answer: string): Value[][] {
  const { meta, data } = parsed(address, answer);
  const doubles = meta.flatMap(({ type }, i) => (type.includes("Float64") ? [i] : []));
  for (const row of data)
    for (const i of doubles) {
      const value = row[i];
      if (typeof value === "string") row[i] = DENORMAL.get(value) ?? Number(value);
    }
  return data;
}

function parsed(address: ClickhouseAddress, answer: string): { meta: { type: string }[]; data: Value[][] } {
  try {
    const json = JSON.parse(answer) as { meta: { type: string }[]; data: Value[][] };
    if (Array.isArray(json.meta) && Array.isArray(json.data)) return json;
  } catch {
    // Something else listens there.
  }
  throw notClickhouse(address, `'${answer.slice(0, 40).replace(/\s+/g, " ")}'`);
}

/** `$1` … in their places: 18.16 takes no parameters. Texts are quoted with every byte that could end them escaped. */
function withValues(sql: string, values: readonly Value[]): string {
  return sql.replace(/\$(\d+)/g, (_, number: string) => literal(values[Number(number) - 1] ?? null));
}

function literal(value: Value): string {
  if (value === null) return "NULL";
  if (typeof value === "number" || typeof value === "bigint") return `${value}`;
  if (typeof value !== "string") throw new Error("a value that is no literal of ClickHouse");
  return `'${value.replace(/[\\'\0]/g, (c) => (c === "\0" ? "\\0" : `\\${c}`))}'`;
}
