/**
 * What is wrong between a worker and its cluster, for the log. Several parts of a worker meet the same trouble, each at its own time, and one works again before the other: while brokers elect a leader
 * that would be a line every second. So a trouble is logged when it has lasted a while, each text once, and its end when all parts work again and have for a while.
 */

export interface TroublesOptions {
  log: (line: string) => void;
  /** How long a trouble, or its end, lasts before it is logged, ms. */
  patienceMs?: number;
  nowMs?: () => number;
}

/** Brokers that elect a leader take less. */
const PATIENCE_MS = 10_000;

export class Troubles {
  readonly #options: TroublesOptions;
  /** By the part that has it. */
  readonly #now = new Map<string, { text: string; sinceMs: number }>();
  /** Logged since all was well. */
  readonly #logged = new Set<string>();
  #wellSinceMs = 0;

  constructor(options: TroublesOptions) {
    this.#options = options;
  }

  /** Null: this part works. */
  set(part: string, text: string | null): void {
    const nowMs = this.#nowMs();
    const known = this.#now.get(part);
    if (text === null) {
      if (known && this.#now.delete(part) && this.#now.size === 0) this.#wellSinceMs = nowMs;
    } else this.#now.set(part, { text, sinceMs: known?.sinceMs ?? nowMs });
    this.look();
  }

  /** To be called now and then. */
  look(): void {
    const nowMs = this.#nowMs();
    const { log, patienceMs = PATIENCE_MS } = this.#options;
    for (const { text, sinceMs } of this.#now.values())
      if (nowMs - sinceMs >= patienceMs && !this.#logged.has(text)) {
        this.#logged.add(text);
        log(text);
      }
    if (this.#now.size > 0 || this.#logged.size === 0 || nowMs - this.#wellSinceMs < patienceMs) return;
    this.#logged.clear();
    log("works again");
  }

  #nowMs(): number {
    return (this.#options.nowMs ?? (() => performance.now()))();
  }
}
