/**
 * Logs trouble between a worker and its cluster. Several parts of a worker see the same trouble at different times and recover one after the other;
 * during a leader election that would be a log line every second. Therefore a trouble is logged only after it has lasted a while, each text once,
 * and its end only after all parts have worked again for a while.
 */

export interface TroublesOptions {
  log: (line: string) => void;
  /** How long a trouble, or its end, must last before it is logged, ms. */
  patienceMs?: number;
  nowMs?: () => number;
}

/** Longer than a leader election of the brokers. */
const PATIENCE_MS = 10_000;

export class Troubles {
  readonly #options: TroublesOptions;
  /** Current troubles, by part. */
  readonly #now = new Map<string, { text: string; sinceMs: number }>();
  /** Texts logged since the last recovery. */
  readonly #logged = new Set<string>();
  #wellSinceMs = 0;

  constructor(options: TroublesOptions) {
    this.#options = options;
  }

  /** Reports the state of a part; null means it works. */
  set(part: string, text: string | null): void {
    const nowMs = this.#nowMs();
    const known = this.#now.get(part);
    if (text === null) {
      if (known && this.#now.delete(part) && this.#now.size === 0) this.#wellSinceMs = nowMs;
    } else this.#now.set(part, { text, sinceMs: known?.sinceMs ?? nowMs });
    this.look();
  }

  /** Logs what is due. Must be called regularly. */
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
