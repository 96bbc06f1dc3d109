/** Reads a source batch by batch. While a live source is silent, it yields the time instead. */
import type { Source, SourceBatch } from "../capture/source/source.ts";

export class BatchesAndTicks {
  readonly #source: Source;
  readonly #ticks: Ticks | null;
  /** The batch requested from the source and not yet delivered. */
  #pending: Promise<SourceBatch | null> | null = null;
  #arrived = false;

  constructor(source: Source, tickMs: number) {
    this.#source = source;
    this.#ticks = source.live ? new Ticks(tickMs) : null;
  }

  /** Returns a batch that is available without waiting; null: call `next`. */
  ready(): SourceBatch | null {
    return this.#pending ? null : (this.#source.ready?.() ?? null);
  }

  /** Returns a batch, or a time before which no more packets come; null at the end. */
  async next(): Promise<SourceBatch | bigint | null> {
    this.#pending ??= this.#ask();
    while (this.#ticks && !this.#arrived) {
      await this.#ticks.next();
      const nowNs = this.#arrived ? null : this.#source.nowNs();
      if (nowNs !== null) return nowNs;
    }
    const got = await this.#pending;
    this.#pending = null;
    return got;
  }

  /** Registers one handler per batch, however many ticks pass until it arrives: a link may be silent for days. */
  #ask(): Promise<SourceBatch | null> {
    const asked = this.#source.next();
    const arrived = () => {
      this.#arrived = true;
      this.#ticks?.ring();
    };
    this.#arrived = false;
    asked.then(arrived, arrived);
    return asked;
  }

  end(): void {
    this.#ticks?.end();
  }
}

/** One timer that serves all waits. */
class Ticks {
  readonly #timer: NodeJS.Timeout;
  #tick: Promise<void> | null = null;
  #resolve: () => void = () => {};

  constructor(ms: number) {
    this.#timer = setInterval(() => this.ring(), ms);
  }

  /** Ends the current wait. */
  ring(): void {
    this.#tick = null;
    this.#resolve();
  }

  /** Resolves at the next tick or `ring`. */
  next(): Promise<void> {
    this.#tick ??= new Promise((resolve) => {
      this.#resolve = resolve;
    });
    return this.#tick;
  }

  end(): void {
    clearInterval(this.#timer);
  }
}
