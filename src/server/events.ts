/**
 * What is new, for those who listen (Server-Sent Events): numbered, with the last thousand kept for clients that reconnect. A slow client loses the oldest and gets their number. Numbers begin with the time of the start, so that those
 * of an earlier run of the collector are known as such: a client that comes back from it gets what is kept, and is told that it does not know what it has lost.
 */
export interface ServerEvent {
  id: number;
  type: string;
  /** Made when the first listener gets it: most rows have none. */
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

  /** `startMs`: when the collector was started. */
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

  /** Events behind `after` (null: from now on; 0: all that are kept), as they come, until the signal. */
  async *listen(after: number | null, signal: AbortSignal): AsyncGenerator<string> {
    // Of an earlier run, or of a later one where the clock was set back.
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
