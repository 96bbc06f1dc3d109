/** Partitions with work under way that acknowledging waits for: what is fetched for them has to become rows first. */
export interface BusyPartitionsOptions {
  /** Writes of rows so far. */
  tick: () => number;
  isClosed: () => boolean;
  /** Null: it went well. */
  say: (error: unknown) => void;
}

export class BusyPartitions {
  readonly #options: BusyPartitionsOptions;
  readonly #counts = new Map<number, number>();

  constructor(options: BusyPartitionsOptions) {
    this.#options = options;
  }

  has(partition: number): boolean {
    return this.#counts.has(partition);
  }

  /** Nothing of the partition is acknowledged while this goes on, nor before two more ticks have written what came of it. */
  during(partition: number, work: Promise<void>): void {
    const { tick, isClosed, say } = this.#options;
    this.#counts.set(partition, (this.#counts.get(partition) ?? 0) + 1);
    const done = (since: number) => {
      if (tick() < since + 2 && !isClosed()) {
        setTimeout(() => done(since), 100).unref();
        return;
      }
      const left = (this.#counts.get(partition) ?? 1) - 1;
      if (left > 0) this.#counts.set(partition, left);
      else this.#counts.delete(partition);
    };
    work.then(() => say(null), say).finally(() => done(tick()));
  }
}
