/** Interval at which long synchronous loops let signals and timers run. */
const TURN_MS = 30;

/** Returns a function to await once per batch. Without a signal it never yields. */
export function turnOf(signal: AbortSignal | undefined): () => Promise<void> | undefined {
  return signal === undefined ? () => undefined : turnEvery(TURN_MS);
}

/** Returns a function to await once per piece of work: it yields to the event loop when `ms` have passed since the last time. */
export function turnEvery(ms: number): () => Promise<void> | undefined {
  let next = performance.now() + ms;
  return () => {
    if (performance.now() < next) return undefined;
    return new Promise((resolve) =>
      setImmediate(() => {
        next = performance.now() + ms;
        resolve();
      }),
    );
  };
}
