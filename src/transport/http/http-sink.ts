/** Sends records to a collector over HTTP, through a spool (spooled-sink.ts): POST /v1/records, compressed if that pays off. */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { StoreOutcome } from "../../archive/writer.ts";
import { VERSION } from "../../base/version.ts";
import { BATCH_TYPE } from "../batch.ts";
import {
  type Delivered,
  type Delivery,
  SpooledSink,
  type SpooledSinkCounts,
  type SpooledSinkOptions,
  type SpoolReport,
} from "../spooled-sink.ts";
import type { Endpoint } from "./collector-url.ts";
import { HttpClient, type Reply } from "./request.ts";
import { whyUnreachable } from "./unreachable.ts";

export interface HttpSinkOptions extends Endpoint, SpooledSinkOptions {}
export type HttpSinkCounts = SpooledSinkCounts;

const REQUEST_MS = 60_000;
const compress = promisify(gzip);

export class HttpSink extends SpooledSink {
  private constructor(options: HttpSinkOptions) {
    super(options, new HttpDelivery(options));
  }

  /** Creates the spool if needed; sends what an earlier run left in it first. */
  static async open(options: HttpSinkOptions): Promise<HttpSink> {
    const sink = new HttpSink(options);
    await sink.start();
    return sink;
  }
}

class HttpDelivery implements Delivery {
  readonly #client: HttpClient;
  /** Batches until compression is tried again, after it did not pay off. */
  #unpacked = 0;

  constructor(endpoint: Endpoint) {
    this.#client = new HttpClient(endpoint);
  }

  get url(): string {
    return this.#client.url;
  }

  async send(body: Buffer, report: SpoolReport, signal: AbortSignal): Promise<Delivered> {
    const headers: Record<string, string> = {
      "content-type": BATCH_TYPE,
      "hoptime-tap": JSON.stringify({ hoptime: VERSION, ...report }),
    };
    let sent = body;
    if (this.#unpacked > 0) this.#unpacked--;
    else {
      // Most payloads are compressed already: if compression gains little it is skipped for a while.
      const packed = await compress(body, { level: 1 });
      if (packed.length < 0.9 * body.length) {
        headers["content-encoding"] = "gzip";
        sent = packed;
      } else this.#unpacked = 31;
    }
    const exchange = { method: "POST", path: "/v1/records", headers, body: sent } as const;
    const reply = await this.#client
      .send({ ...exchange, timeoutMs: REQUEST_MS, maxBytes: 4 << 20, signal })
      .catch((cause: unknown) => {
        throw new Error(whyUnreachable(this.url, cause), { cause });
      });
    return deliveredOf(reply);
  }

  async close(): Promise<void> {
    this.#client.close();
  }
}

/** The answer to POST /v1/records. */
export interface IngestReply {
  results: { outcome: StoreOutcome["outcome"]; reason?: string }[];
}

function deliveredOf({ status, headers, body }: Reply): Delivered {
  if (status === 200) return { kind: "taken", results: (JSON.parse(body.toString()) as IngestReply).results };
  const reason = reasonOf(body) ?? `status ${status}`;
  if (status === 413 || status === 400) return { kind: "refused", reason };
  return { kind: "later", reason, afterMs: retryAfterMs(String(headers["retry-after"] ?? "0")) };
}

/** Seconds, or a date; limited, whatever a proxy before the collector asks for. */
function retryAfterMs(text: string): number {
  const ms = /^\d+$/.test(text) ? 1000 * Number(text) : Date.parse(text) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, Math.min(60_000, ms)) : 0;
}

function reasonOf(body: Buffer): string | null {
  try {
    const { message } = JSON.parse(body.toString()) as { message?: unknown };
    return typeof message === "string" ? message.slice(0, 300) : null;
  } catch {
    return null;
  }
}
