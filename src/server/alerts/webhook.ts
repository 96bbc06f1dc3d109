/**
 * Sends messages to a webhook, in order and with a timeout per attempt. Failed attempts are retried with growing pauses. The queue is bounded: when
 * it is full, the oldest waiting message is dropped and counted. Neither message bodies nor the token are logged.
 */
import { readFileSync } from "node:fs";

export interface WebhookOptions {
  name: string;
  url: string;
  tokenFile?: string | undefined;
  timeoutMs: number;
  retries: number;
  onLog?: ((text: string) => void) | undefined;
  /** First pause before a retry in ms (default 1000). It doubles with each retry, up to a minute. */
  pauseMs?: number;
}

export interface WebhookCounts {
  sent: number;
  failed: number;
  dropped: number;
}

const MAX_QUEUE = 1000;
const MAX_PAUSE_MS = 60_000;

export class Webhook {
  readonly counts: WebhookCounts = { sent: 0, failed: 0, dropped: 0 };
  readonly #options: WebhookOptions;
  readonly #queue: string[] = [];
  readonly #stop = new AbortController();
  #sending: Promise<void> | null = null;

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  isOf({ name, url, tokenFile, timeoutMs, retries }: WebhookOptions): boolean {
    const own = this.#options;
    return (
      own.name === name &&
      own.url === url &&
      own.tokenFile === tokenFile &&
      own.timeoutMs === timeoutMs &&
      own.retries === retries
    );
  }

  get waiting(): number {
    return this.#queue.length;
  }

  send(message: unknown): void {
    this.#queue.push(JSON.stringify(message));
    if (this.#queue.length > MAX_QUEUE) {
      // The first message is being sent, so the second is the oldest that can be dropped.
      this.#queue.splice(1, 1);
      this.counts.dropped++;
    }
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
  }

  /** Sends what is queued for at most `graceMs`, then gives up. */
  async close(graceMs = 2000): Promise<void> {
    const timer = setTimeout(() => this.#stop.abort(), graceMs);
    await this.#sending;
    clearTimeout(timer);
    this.#stop.abort();
  }

  async #sendAll(): Promise<void> {
    for (let body = this.#queue[0]; body !== undefined; body = this.#queue[0]) {
      if (this.#stop.signal.aborted) return;
      const why = await this.#sendOne(body);
      this.#queue.shift();
      if (why === null) this.counts.sent++;
      else {
        this.counts.failed++;
        this.#options.onLog?.(`webhook ${this.#options.name}: gave up one message: ${why}`);
      }
    }
  }

  /** Returns null, or why the message could not be delivered. */
  async #sendOne(body: string): Promise<string | null> {
    const { retries, pauseMs = 1000 } = this.#options;
    for (let attempt = 0; ; attempt++) {
      const why = await this.#attempt(body);
      if (why === null || attempt >= retries || this.#stop.signal.aborted) return why;
      await pause(Math.min(MAX_PAUSE_MS, pauseMs * 2 ** attempt), this.#stop.signal);
    }
  }

  async #attempt(body: string): Promise<string | null> {
    const { url, tokenFile, timeoutMs } = this.#options;
    try {
      const token = tokenFile === undefined ? null : readFileSync(tokenFile, "utf8").trim();
      const reply = await fetch(url, {
        method: "POST",
        body,
        headers: {
          "content-type": "application/json",
          ...(token ? { authorization: `Bearer ${token}` } : {}),
        },
        redirect: "error",
        signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#stop.signal]),
      });
      await reply.body?.cancel();
      return reply.ok ? null : `status ${reply.status}`;
    } catch (error) {
      const { name, cause } = error as Error & { cause?: NodeJS.ErrnoException };
      if (name === "TimeoutError") return `no answer within ${timeoutMs} ms`;
      return cause?.code ?? (error as NodeJS.ErrnoException).code ?? name;
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
