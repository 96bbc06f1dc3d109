/**
 * Partitions with work in progress that must become rows before anything of the partition is acknowledged (e.g. records just fetched from the
 * stream).
 */
export interface BusyPartitionsOptions {
  /** Number of row writes so far. */
  tick: () => number;
  isClosed: () => boolean;
  /** Reports an error; null means success. */
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

  /** Holds back acknowledgements of the partition until `work` has ended and two more ticks have written its rows. */
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
