/**
 * Decides when received records are processed: at intervals, and at once when many have arrived. Each turn has fixed costs (threads, inserts), so
 * records share them; a backlog does not wait for the timer.
 */
export interface TickerOptions {
  everyMs: number;
  /** Number of records that triggers a turn at once. */
  most: number;
  tick: () => Promise<void>;
}

export class Ticker {
  readonly #options: TickerOptions;
  #timer: NodeJS.Timeout | null = null;
  #come = 0;
  #stopped = false;

  constructor(options: TickerOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#stopped) return;
    const { everyMs, most } = this.#options;
    this.#timer = setTimeout(() => void this.#turn(), this.#come >= most ? 0 : everyMs);
  }

  /** Counts records that have arrived. */
  add(records: number): void {
    this.#come += records;
    if (this.#come < this.#options.most || !this.#timer) return;
    clearTimeout(this.#timer);
    void this.#turn();
  }

  stop(): void {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #turn(): Promise<void> {
    this.#timer = null;
    this.#come = 0;
    await this.#options.tick();
    this.start();
  }
}
