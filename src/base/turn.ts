/** For long loops that never wait: signals and timers are heard every few dozen ms. */
const TURN_MS = 30;

/** To be awaited once per batch. Without a signal nobody has to be heard. */
export function turnOf(signal: AbortSignal | undefined): () => Promise<void> | undefined {
  return signal === undefined ? () => undefined : turnEvery(TURN_MS);
}

/** To be awaited once per piece of work: others get a turn when this much time has passed. */
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
