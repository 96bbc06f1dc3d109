/** Rate limits per client, by token (by address where there are no tokens), as token buckets. The number of buckets is bounded. */
import { HttpError } from "./problem.ts";

export interface RateLimits {
  /** Requests per second, and burst size. */
  requests: number;
  burst: number;
  /** Record bytes per second, and burst size. */
  bytes: number;
  burstBytes: number;
}

export const RATE_LIMITS: RateLimits = { requests: 200, burst: 1000, bytes: 256e6, burstBytes: 1e9 };

const MAX_CLIENTS = 10_000;

class Bucket {
  readonly #rate: number;
  readonly #size: number;
  #level: number;
  #atMs: number;

  constructor(rate: number, size: number, nowMs: number) {
    this.#rate = rate;
    this.#size = size;
    this.#level = size;
    this.#atMs = nowMs;
  }

  /** Takes the amount, or returns the seconds to wait. An amount larger than the bucket passes when the bucket is full. */
  take(amount: number, nowMs: number): number {
    this.#level = Math.min(this.#size, this.#level + (this.#rate * (nowMs - this.#atMs)) / 1000);
    this.#atMs = nowMs;
    const needed = Math.min(amount, this.#size);
    if (this.#level < needed) return (needed - this.#level) / this.#rate;
    this.#level -= amount;
    return 0;
  }

  /** Seconds until the level is above zero. */
  wait(nowMs: number): number {
    const waitS = this.take(0, nowMs);
    return this.#level > 0 ? waitS : Math.max(waitS, -this.#level / this.#rate, 0.001);
  }

  /** Charges for something already used; the level may become negative. */
  spend(amount: number, nowMs: number): void {
    this.take(0, nowMs);
    this.#level -= amount;
  }
}

export interface AnsweringLimits {
  /** Share of the answering thread's time per client, and burst in ms. */
  share: number;
  burstMs: number;
}

const ANSWERING_LIMITS: AnsweringLimits = { share: 0.8, burstMs: 60_000 };

/**
 * The cost of a question is known only after it is answered (MAPLE, section 5: a client must not overwhelm the store). Each client therefore has a
 * time budget that its answers are charged to afterwards.
 */
export class AnsweringBudget {
  readonly #limits: AnsweringLimits;
  readonly #now: () => number;
  readonly #clients = new Map<string, Bucket>();

  constructor(limits: AnsweringLimits = ANSWERING_LIMITS, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Throws HttpError 429 if the client has used more than its share. */
  check(client: string): void {
    const waitS = this.#clients.get(client)?.wait(this.#now()) ?? 0;
    if (waitS > 0)
      throw new HttpError(
        429,
        "too-many",
        "this client's questions took more than its share of the collector's time",
        Math.ceil(waitS),
      );
  }

  spend(client: string, ms: number): void {
    const nowMs = this.#now();
    const { share, burstMs } = this.#limits;
    const own = this.#clients.get(client) ?? new Bucket(1000 * share, burstMs, nowMs);
    this.#clients.delete(client);
    this.#clients.set(client, own);
    own.spend(ms, nowMs);
    if (this.#clients.size <= MAX_CLIENTS) return;
    const [first] = this.#clients.keys();
    if (first !== undefined) this.#clients.delete(first);
  }
}

export class ClientLimits {
  #limits: RateLimits;
  readonly #now: () => number;
  readonly #clients = new Map<string, { requests: Bucket; bytes: Bucket }>();

  constructor(limits: RateLimits = RATE_LIMITS, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Sets new limits and resets all clients. */
  change(limits: RateLimits): void {
    this.#limits = limits;
    this.#clients.clear();
  }

  /** Throws HttpError 429 if the client must wait. */
  take(client: string, bytes: number): void {
    const nowMs = this.#now();
    const { requests, burst, bytes: rate, burstBytes } = this.#limits;
    let own = this.#clients.get(client);
    // The least recently seen client is dropped if there are too many; it starts with a full bucket when it returns.
    if (own) this.#clients.delete(client);
    else own = { requests: new Bucket(requests, burst, nowMs), bytes: new Bucket(rate, burstBytes, nowMs) };
    this.#clients.set(client, own);
    if (this.#clients.size > MAX_CLIENTS) {
      const [first] = this.#clients.keys();
      if (first !== undefined) this.#clients.delete(first);
    }
    const waitS = Math.max(own.requests.take(1, nowMs), own.bytes.take(bytes, nowMs));
    if (waitS > 0)
      throw new HttpError(
        429,
        "too-many",
        "too many requests, or too many bytes, for this client",
        Math.ceil(waitS),
      );
  }
}
