/** What a source gives, batch by batch; while a live one is silent, the time instead. */
import type { Source, SourceBatch } from "../capture/source/source.ts";

export class BatchesAndTicks {
  readonly #source: Source;
  readonly #ticks: Ticks | null;
  /** Asked for, and not there when the time was looked at. */
  #pending: Promise<SourceBatch | null> | null = null;

  constructor(source: Source, tickMs: number) {
    this.#source = source;
    this.#ticks = source.live ? new Ticks(tickMs) : null;
  }

  /** What is at hand without waiting; null: `next` says. */
  ready(): SourceBatch | null {
    return this.#pending ? null : (this.#source.ready?.() ?? null);
  }

  /** A batch, or a time before which no more packets come; null at the end. */
  async next(): Promise<SourceBatch | bigint | null> {
    if (!this.#pending) {
      this.#pending = this.#source.next();
      // Nobody may be left to hear of it.
      this.#pending.catch(() => {});
    }
    const pending = this.#pending;
    let got: SourceBatch | null | undefined;
    while (this.#ticks && (got = await Promise.race([pending, this.#ticks.next()])) === undefined) {
      const nowNs = this.#source.nowNs();
      if (nowNs !== null) return nowNs;
    }
    if (got === undefined) got = await pending;
    this.#pending = null;
    return got;
  }

  end(): void {
    this.#ticks?.end();
  }
}

/** One timer for all waits. */
class Ticks {
  readonly #timer: NodeJS.Timeout;
  #tick: Promise<undefined> | null = null;
  #ring: () => void = () => {};

  constructor(ms: number) {
    this.#timer = setInterval(() => {
      this.#tick = null;
      this.#ring();
    }, ms);
  }

  /** The next tick from now on. */
  next(): Promise<undefined> {
    this.#tick ??= new Promise((resolve) => {
      this.#ring = () => resolve(undefined);
    });
    return this.#tick;
  }

  end(): void {
    clearInterval(this.#timer);
  }
}
