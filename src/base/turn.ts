/** For long loops that never wait: signals and timers are heard every few dozen ms. */
const TURN_MS = 30;

/** To be awaited once per batch. Without a signal nobody has to be heard. */
export function turnOf(signal: AbortSignal | undefined): () => Promise<void> | undefined {
  let next = performance.now() + TURN_MS;
  return () => {
    if (signal === undefined || performance.now() < next) return undefined;
    next = performance.now() + TURN_MS;
    return new Promise((resolve) => setImmediate(resolve));
  };
}
