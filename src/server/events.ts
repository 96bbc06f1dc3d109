/**
 * Publishes events to listeners (Server-Sent Events). Events are numbered, and the last thousand are kept for clients that reconnect. A slow client
 * loses the oldest events and gets their number in a `gap` event. Numbers start from the start time, so a number from an earlier run is recognised:
 * such a client gets the kept events and a `gap` of unknown size.
 */
export interface ServerEvent {
  id: number;
  type: string;
  /** Called only when a listener reads the event; most rows have no listener. */
  data: () => unknown;
}

const KEPT = 1000;
const MAX_LISTENERS = 200;
const HEARTBEAT_MS = 15_000;

export class Events {
  readonly #kept: ServerEvent[] = [];
  readonly #listeners = new Set<() => void>();
  readonly #first: number;
  #next: number;

  /** `startMs`: when the collector started. */
  constructor(startMs: number = Date.now()) {
    this.#first = startMs * 1000;
    this.#next = this.#first;
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  get isFull(): boolean {
    return this.#listeners.size >= MAX_LISTENERS;
  }

  emit(type: string, data: () => unknown): void {
    this.#kept.push({ id: this.#next++, type, data });
    if (this.#kept.length > KEPT) this.#kept.shift();
    for (const wake of this.#listeners) wake();
  }

  /** Yields the events after `after` (null: only new ones; 0: all kept ones) until the signal aborts. */
  async *listen(after: number | null, signal: AbortSignal): AsyncGenerator<string> {
    // The number is from an earlier run, or from a later one before the clock was set back.
    const isForeign = after !== null && after > 0 && (after < this.#first - 1 || after >= this.#next);
    let last = isForeign || after === 0 ? this.#first - 1 : (after ?? this.#next - 1);
    let wake = () => {};
    const onEvent = () => wake();
    this.#listeners.add(onEvent);
    signal.addEventListener("abort", onEvent);
    try {
      yield "retry: 2000\n\n";
      if (isForeign) yield 'event: gap\ndata: {"lost":null}\n\n';
      while (!signal.aborted) {
        const waiting = this.#kept.filter((e) => e.id > last);
        const [first] = waiting;
        if (first && first.id > last + 1 && after !== 0)
          yield `event: gap\ndata: {"lost":${first.id - last - 1}}\n\n`;
        for (const { id, type, data } of waiting) {
          last = id;
          yield `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data())}\n\n`;
        }
        if (this.#kept.some((e) => e.id > last)) continue;
        const beat = await new Promise<boolean>((resolve) => {
          const timer = setTimeout(() => resolve(true), HEARTBEAT_MS);
          wake = () => {
            clearTimeout(timer);
            resolve(false);
          };
          if (signal.aborted) wake();
        });
        if (beat) yield ": still here\n\n";
      }
    } finally {
      this.#listeners.delete(onEvent);
      signal.removeEventListener("abort", onEvent);
    }
  }
}
