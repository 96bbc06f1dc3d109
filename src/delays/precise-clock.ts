/**
 * The wall clock of this host in ns. Date.now() returns whole milliseconds, so Date.now() minus the monotonic clock is never above the true offset and comes
 * within a microsecond of it at the edge of a millisecond: the largest recent difference is the offset. The window lets it follow a clock that is slewed.
 */
export class PreciseClock {
  #offsetNs: bigint;
  #nextNs: bigint;
  #windowEnd: bigint;

  constructor() {
    const start = process.hrtime.bigint();
    this.#offsetNs = difference();
    // Covers at least two edges.
    while (process.hrtime.bigint() - start < 2_500_000n) {
      const now = difference();
      if (now > this.#offsetNs) this.#offsetNs = now;
    }
    this.#nextNs = this.#offsetNs;
    this.#windowEnd = process.hrtime.bigint() + WINDOW_NS;
  }

  now(): bigint {
    return process.hrtime.bigint() + this.#offsetNs;
  }

  /** Samples the clock; a few hundred samples per window keep the offset accurate to some microseconds. */
  look(): void {
    const seen = difference();
    if (seen > this.#offsetNs) this.#offsetNs = seen;
    if (seen > this.#nextNs) this.#nextNs = seen;
    const now = process.hrtime.bigint();
    if (now < this.#windowEnd) return;
    this.#offsetNs = this.#nextNs;
    this.#nextNs = seen;
    this.#windowEnd = now + WINDOW_NS;
  }
}

const WINDOW_NS = 10_000_000_000n;

function difference(): bigint {
  // In this order: a pause in between makes the difference smaller, never larger.
  const wallMs = Date.now();
  return BigInt(wallMs) * 1_000_000n - process.hrtime.bigint();
}
