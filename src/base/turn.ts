/** For long loops that never wait: signals and timers are heard every few dozen ms. */
const TURN_MS = 30;

/** To be awaited once per piece of work, where others have to be heard: clients of a collector, the leases of a worker. */
export function turns(): () => Promise<void> | undefined {
  let next = performance.now() + TURN_MS;
  return () => {
    if (performance.now() < next) return undefined;
    next = performance.now() + TURN_MS;
    return new Promise((resolve) => setImmediate(resolve));
  };
}

/** The same, to be awaited once per batch. Without a signal nobody has to be heard. */
export function turnOf(signal: AbortSignal | undefined): () => Promise<void> | undefined {
  const turn = turns();
  return () => (signal === undefined ? undefined : turn());
}
