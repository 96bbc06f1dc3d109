/** When what has come is worked: now and then, and at once where much has come. What a turn costs by itself (threads, inserts) is shared by as many records as wait, and a backlog waits for no clock. */
export interface TickerOptions {
  everyMs: number;
  /** So many records are worth a turn of their own. */
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

  /** So many records have come. */
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
