/**
 * Resolves with the promise's value, or with null if the signal aborts first. A later result or failure of the promise is then ignored. No listener stays on
 * the signal, however often it is waited for (Promise.race would keep the value of every wait for as long as the other promise is pending).
 */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const end = () => resolve(null);
    if (signal.aborted) end();
    signal.addEventListener("abort", end, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}
